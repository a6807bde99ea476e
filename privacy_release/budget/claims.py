"""Verify that a budget ledger paid for a differentially private release. Findings complement the policy's.

A claim of differential privacy cannot be measured on released bytes. What can be checked is its bookkeeping:
against the ledger, which a release method cannot edit, and on the released values, which must be in the
domains that the schema named before any record was read.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.dp.accounting import check_bookkeeping
from privacy_engine.dp.ledger import State
from privacy_engine.errors import SpecError
from privacy_engine.randomizers.claims import check_randomization
from privacy_engine.randomizers.randomization import Randomization
from privacy_engine.tables.columns import factorize, floats, is_number
from privacy_engine.verification.verify import Finding
from privacy_release.budget.random_answers import fingerprint_of
from privacy_release.manifest.manifest import Manifest
from privacy_release.manifest.sections import RandomizationSection
from privacy_release.workarea.references import BookingRef, StagedRelease

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.dp.accounting import Spend
    from privacy_engine.dp.ledger import Booking
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.dp.promises import Promise
    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.ledger.ledger import BudgetLedger


def bookkeeping_findings(
    staged: StagedRelease,
    manifest: Manifest,
    claim: "PrivacyLoss",
    frames: "Iterable[pd.DataFrame]",
    schema: "DataSchema",
    ledger: "BudgetLedger | None",
) -> "tuple[Finding, ...]":
    """Check a claim against the ledger, and the released values against the schema.

    The spent loss is read from the model in the ledger, never from what is being verified.

    Args:
        staged: Reference to the staged release.
        manifest: Manifest that is going to be published.
        claim: Privacy loss in the manifest.
        frames: Released records, all at once or part by part.
        schema: Schema of `frames`, with the domains that the method measured on.
        ledger: Ledger that booked the loss.

    Raises:
        SpecError: If no ledger was given.
        LedgerError: If the ledger cannot be reached.
        IntegrityError: If the ledger was edited, or is an old copy of itself.
    """
    if ledger is None:
        raise SpecError(
            "a differentially private release must be verified against the ledger that booked it, but none "
            "was given; give the ledger of its budget"
        )
    booking = _committed(staged.booking, ledger)
    if manifest.randomization is not None:
        return (
            _none("release without its committed entry in the ledger", int(booking is None)),
            *_answer_findings(staged, manifest.randomization, claim, schema, booking),
            *_values_in_domains(frames, schema),
        )
    spends = _spends(booking)
    stated = [mechanism.stored for mechanism in manifest.model.mechanisms] if manifest.model else []
    return (
        _none("release without its committed entry in the ledger", int(booking is None)),
        _none(
            "mechanisms that the manifest tells otherwise than the ledger's model", _differing(stated, spends)
        ),
        *check_bookkeeping(claim, spends, schema, booking.loss if booking else None),
        *_promise_findings(manifest, booking),
        *_values_in_domains(frames, schema),
    )


def _promise_findings(manifest: Manifest, booking: "Booking | None") -> "tuple[Finding, ...]":
    """Compare the promise of the schedule in a manifest with the ledger."""
    promise = booking.promise if booking else None
    stated = manifest.over_time
    if stated is None and promise is None:
        return ()
    kept = None if promise is None else (promise.period.name, promise.loss.to_dict(), _parts(promise))
    parts = (
        None if stated is None or stated.part is None else {"releases": stated.releases, **stated.part.stored}
    )
    same = stated is not None and kept == (stated.period, stated.loss.stored, parts)
    return (
        _none("promise of the schedule that the manifest tells otherwise than the ledger", int(not same)),
    )


def _parts(promise: "Promise") -> dict[str, Any] | None:
    """Return the equal parts of a promise, if it is kept in parts."""
    each = promise.parts
    if each is None:
        return None
    return {"releases": each.releases, "epsilon": each.epsilon, "delta": each.delta}


def _committed(reference: BookingRef | None, ledger: "BudgetLedger") -> "Booking | None":
    """Return the ledger's entry if it is the one that the release names, and its model is stored."""
    if reference is None:
        return None
    booking = ledger.booking(reference.dataset, reference.key)
    if booking is None or booking.state is not State.COMMITTED:
        return None
    named = (reference.entry_hash, reference.model_sha256)
    if (booking.entry_hash, booking.model_sha256) != named:
        return None
    ledger.check(reference.dataset, recorded=[reference.entry_hash])
    return booking


def _answer_findings(
    staged: StagedRelease,
    randomization: RandomizationSection,
    claim: "PrivacyLoss",
    schema: "DataSchema",
    booking: "Booking | None",
) -> "tuple[Finding, ...]":
    """Check a claim of random answers against the manifest's probabilities, whose hash is in the ledger."""
    kept = json.loads(booking.model) if booking and booking.model else {}
    stated = randomization.stored
    other = kept.get("answers_sha256") not in (None, staged.sha256)
    return (
        _none(
            "randomization that the manifest tells otherwise than the ledger",
            int(kept.get("randomization_sha256") != fingerprint_of(stated)),
        ),
        _none("answers that are not those that were paid for", int(other)),
        *check_randomization(
            claim, Randomization.from_dict(stated), schema, booking.loss if booking else None
        ),
    )


def _spends(booking: "Booking | None") -> "tuple[Spend, ...]":
    from privacy_engine.synthesizers.model import SynthesizerModel

    if booking is None or booking.model is None:
        return ()
    return SynthesizerModel.from_json(booking.model).spends


def _differing(stated: Sequence[Mapping[str, Any]], spends: "Sequence[Spend]") -> int:
    """Return the number of mechanisms of either side that differ from the other side's at their position."""
    kept = [spend.to_dict() for spend in spends]
    differing = sum(a != b for a, b in zip(stated, kept, strict=False))
    return differing + abs(len(stated) - len(kept))


def _values_in_domains(frames: "Iterable[pd.DataFrame]", schema: "DataSchema") -> "tuple[Finding, ...]":
    """Return one finding per attribute: the number of released values outside of its public domain."""
    attributes = schema.without_identifiers().attributes
    outside = {a.name: 0 for a in attributes}
    for frame in frames:
        for attribute in attributes:
            outside[attribute.name] += _outside(frame[attribute.name], attribute)
    return tuple(
        _none(f"values of {name} outside of its public domain", count) for name, count in outside.items()
    )


def _outside(column: "pd.Series[Any]", attribute: "Attribute") -> int:
    """Return the number of values that the schema does not allow, including nulls if it allows none."""
    nulls = 0 if attribute.nullable else int(column.isna().sum())
    if attribute.dates is not None and attribute.bounds is not None:
        if attribute.dates.type_problem(column):
            return len(column)
        low, high = attribute.bounds
        values, starts = floats(column), attribute.numbers(column)
        exact = np.isfinite(values) & (values != starts)  # more exact than the schema allows
        return nulls + int(np.count_nonzero(exact | (starts < low) | (starts > high)))
    if attribute.bounds is not None and attribute.hierarchy is None:
        if not is_number(column):
            return len(column)
        low, high = attribute.bounds
        values = floats(column)
        return nulls + int(np.count_nonzero((values < low) | (values > high)))
    tree = attribute.hierarchy
    named = set(attribute.categories or (tree.values if tree else ()))
    coded = factorize(column)
    unknown = [code for code, text in enumerate(coded.texts) if text not in named]
    return nulls + int(np.isin(coded.codes, unknown).sum())


def _none(rule: str, count: int) -> "Finding":
    return Finding(rule=rule, threshold=0, measured=count, passed=count == 0)
