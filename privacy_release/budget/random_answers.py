"""Random answers that a budget pays for: booked before the records are read, and never drawn twice unnoticed.

A synthesizer measures a model, which the ledger stores. Random answers are the release itself. The ledger
stores the probabilities that they were drawn with and, if no one could draw them again, the hash of their
bytes.

- Memoised answers are a function of records and secret. Both are part of the booking's key, so a retry, a
  cleared task or another run on the same bytes gives the same release under the same booking. Changed records
  have a new key and a new booking of the whole loss, although unchanged values reveal nothing new. So more is
  booked than was spent, because only the records show which values changed.
- Fresh answers (`randomness: system`) are booked for one task of one run. They are staged, and then committed
  by their hash: a retry uses the staged ones. Once the work area is removed, they are gone, and the run
  cannot draw others for free: it is refused, and a new run books again. A retry that finds a reservation
  without a commit draws again under it, because no one has seen the answers of the failed attempt.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.errors import IntegrityError
from privacy_release.budget.budget import Budget, booking_key, given_back, reference_to
from privacy_release.budget.secrets import described_parameters
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.references import BookingRef, Table

if TYPE_CHECKING:
    from privacy_engine.dp.ledger import Booking
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.randomizers.randomizer import Memoised, RandomizedRelease, Randomizer
    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A randomized release and the booking that paid for it. None if it makes no claim."""

    release: "RandomizedRelease"
    booking: BookingRef | None = None


def draw_answers(
    method: "Randomizer | Memoised", table: Table, schema: "DataSchema", rng: "np.random.Generator"
) -> Answers:
    """Draw answers without a privacy claim, for which nothing is booked.

    Raises:
        SchemaError: If the table does not fit its schema, or a domain is not public.
        IntegrityError: If the table changed since it was ingested.
    """
    return Answers(release=method.release(table.typed_frame(schema), schema, rng))


def paid_answers(
    method: "Randomizer | Memoised",
    table: Table,
    schema: "DataSchema",
    work: WorkArea,
    label: str,
    budget: Budget,
    loss: "PrivacyLoss",
    on_progress: Callable[[str], None] = lambda _: None,
) -> Answers:
    """Return the only release of this booking.

    Args:
        method: Method that randomizes.
        table: Table from `ingest`.
        schema: Schema of the table.
        work: Work area in which the release is staged.
        label: Name of the task, the prefix of its file names.
        budget: Budget that pays.
        loss: Privacy loss of the method on this schema.
        on_progress: Progress callback, called with the name of each part of the work as it begins.

    Raises:
        BudgetExceededError: If the budget does not cover the loss. No record was read.
        LedgerError: If the ledger cannot be reached. Nothing was released.
        SchemaError: If the table does not fit its schema, or a domain is not public.
        IntegrityError: If the table changed since it was ingested, the ledger was edited, or the answers of
            this run were drawn and are gone.
    """
    from privacy_engine.tables.domains import coarse_scales

    inputs = described_parameters(method)
    memoised = "secret" in inputs
    if not memoised:
        inputs |= {"run": budget.run, "task": label}
    key = booking_key(budget.dataset, table.sha256, method.key, inputs, schema)
    detail = {"run": budget.run, "method": method.key}
    for warning in coarse_scales(schema, linear=True):
        on_progress(f"warning: {warning}")
    on_progress("booking the budget")
    booking = budget.ledger.reserve(budget.dataset, key, loss, detail=detail)
    if booking.model is None or memoised:
        with given_back(budget, booking):
            on_progress("reading")
            frame = table.typed_frame(schema)
            on_progress(f"running {method.key}")
            # Paid answers do not use this generator.
            release = method.release(frame, schema, np.random.default_rng())
        answers = work.path(f"{label}.parquet")
        sha256 = write_private(answers, parquet_bytes(release.table))
        work.send(str(answers))  # paid answers must outlive this process
        booking = budget.ledger.commit(
            budget.dataset, key, _text(release, None if memoised else sha256), token=booking.token
        )
    if not memoised:
        release = method.release_of(_staged(work, label, booking), schema)
    return Answers(release=release, booking=reference_to(booking, budget.connection))


def fingerprint_of(randomization: Mapping[str, Any]) -> str:
    """Return the hash of a randomization, as in the manifest."""
    return hashlib.sha256(json.dumps(randomization, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _text(release: "RandomizedRelease", sha256: str | None) -> str:
    """Return the text for the ledger: hashes of the probabilities, and of the answers."""
    stated = release.randomization.to_dict()
    return json.dumps(
        {"randomization_sha256": fingerprint_of(stated), "answers_sha256": sha256}, sort_keys=True
    )


def _staged(work: WorkArea, label: str, booking: "Booking") -> Any:
    """Return the committed answers from the work area."""
    try:
        return read_private(
            work.recall(f"{label}.parquet"), json.loads(booking.model or "")["answers_sha256"]
        )
    except IntegrityError:
        raise IntegrityError(
            "the answers of this run were drawn and paid for, but they are gone with its work area: drawing "
            "others would spend again. Start a new run for that, or use randomness: memoised"
        ) from None
