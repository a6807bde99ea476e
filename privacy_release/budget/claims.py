"""Is a differentially private release what its budget ledger paid for? Findings beside those of the policy.

A claim of differential privacy cannot be measured on released bytes. What can be checked is its bookkeeping:
against the ledger, which a release method cannot edit, and on the released values, which must lie in the
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
    from privacy_engine.tables.schema import Attribute, DataSchema
    from privacy_release.ledger.ledger import BudgetLedger


def bookkeeping_findings(
    staged: StagedRelease,
    manifest: Manifest,
    claim: "PrivacyLoss",
    frames: "Iterable[pd.DataFrame]",
    schema: "DataSchema",
    ledger: "BudgetLedger | None",
) -> "tuple[Finding, ...]":
    """Hold a claim against the ledger, and the released values against the schema.

    What was spent is read from the model in the ledger, never from what is being verified.

    Args:
        staged: the release.
        manifest: what is going to be published with it.
        claim: the loss that the manifest states.
        frames: the released records, all at once or part by part.
        schema: of `frames`, with the domains that the method measured on.
        ledger: that booked the loss.

    Raises:
        SpecError: if no ledger was given.
        LedgerError: if it cannot be reached.
        IntegrityError: if it was edited, or is an old copy of itself.
    """
    if ledger is None:
        raise SpecError(
            "a differentially private release must be verified against the ledger that booked it, none was "
            "given; give the ledger of its budget"
        )
    booking = _committed(staged.booking, ledger)
    if manifest.randomization is not None:
        return (
            _none("release without its committed entry in the ledger", int(booking is None)),
            *_answer_findings(staged, manifest.randomization, claim, schema, booking),
            *_values_in_domains(frames, schema),
        )
    spends = _spends(booking)
    told = [mechanism.stored for mechanism in manifest.model.mechanisms] if manifest.model else []
    return (
        _none("release without its committed entry in the ledger", int(booking is None)),
        _none(
            "mechanisms that the manifest tells otherwise than the ledger's model", _differing(told, spends)
        ),
        *check_bookkeeping(claim, spends, schema, booking.loss if booking else None),
        *_promise_findings(manifest, booking),
        *_values_in_domains(frames, schema),
    )


def _promise_findings(manifest: Manifest, booking: "Booking | None") -> "tuple[Finding, ...]":
    """Hold what a manifest says of its schedule's promise against what the ledger counts."""
    promise = booking.promise if booking else None
    told = manifest.over_time
    if told is None and promise is None:
        return ()
    kept = None if promise is None else (promise.period.name, promise.loss.to_dict(), _parts(promise))
    parts = None if told is None or told.part is None else {"releases": told.releases, **told.part.stored}
    same = told is not None and kept == (told.period, told.loss.stored, parts)
    return (
        _none("promise of the schedule that the manifest tells otherwise than the ledger", int(not same)),
    )


def _parts(promise: "Promise") -> dict[str, Any] | None:
    """The equal parts of a promise, if it is kept in such."""
    each = promise.parts
    if each is None:
        return None
    return {"releases": each.releases, "epsilon": each.epsilon, "delta": each.delta}


def _committed(reference: BookingRef | None, ledger: "BudgetLedger") -> "Booking | None":
    """The ledger's entry if it is the one that the release names, and its model is stored."""
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
    """Hold a claim of random answers against the manifest's probabilities, which the ledger vouches for."""
    kept = json.loads(booking.model) if booking and booking.model else {}
    told = randomization.stored
    other = kept.get("answers_sha256") not in (None, staged.sha256)
    return (
        _none(
            "randomization that the manifest tells otherwise than the ledger",
            int(kept.get("randomization_sha256") != fingerprint_of(told)),
        ),
        _none("answers that are not those that were paid for", int(other)),
        *check_randomization(claim, Randomization.from_dict(told), schema, booking.loss if booking else None),
    )


def _spends(booking: "Booking | None") -> "tuple[Spend, ...]":
    from privacy_engine.synthesizers.model import SynthesizerModel

    if booking is None or booking.model is None:
        return ()
    return SynthesizerModel.from_json(booking.model).spends


def _differing(told: Sequence[Mapping[str, Any]], spends: "Sequence[Spend]") -> int:
    """How many mechanisms of either side have no equal at their place on the other."""
    kept = [spend.to_dict() for spend in spends]
    differing = sum(a != b for a, b in zip(told, kept, strict=False))
    return differing + abs(len(told) - len(kept))


def _values_in_domains(frames: "Iterable[pd.DataFrame]", schema: "DataSchema") -> "tuple[Finding, ...]":
    """One finding an attribute: how many released values are not of its public domain."""
    attributes = schema.without_identifiers().attributes
    outside = {a.name: 0 for a in attributes}
    for frame in frames:
        for attribute in attributes:
            outside[attribute.name] += _outside(frame[attribute.name], attribute)
    return tuple(
        _none(f"values of {name} outside of its public domain", count) for name, count in outside.items()
    )


def _outside(column: "pd.Series[Any]", attribute: "Attribute") -> int:
    """How many values the schema does not name; nulls count where it allows none."""
    nulls = 0 if attribute.nullable else int(column.isna().sum())
    if attribute.dates is not None and attribute.bounds is not None:
        if attribute.dates.type_problem(column):
            return len(column)
        low, high = attribute.bounds
        values, starts = floats(column), attribute.numbers(column)
        exact = np.isfinite(values) & (values != starts)  # than the schema allows
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
