"""Schedules whose releases measure the tables of their first release again, and the choice of the first.

The ledger decides: the first release of a schedule is the first that was committed with `FOLLOWS` and without
a promise. It is paid for separately, once. All later ones are parts of the promise
(`privacy_release.budget.yearly`). They follow its model and those of the releases since, which the ledger
stores: only noisy figures, so nothing has to be kept in the curator's folder.

Two runs that begin a schedule at the same time are two first releases, and both are paid for. Later ones
follow the one that was committed first. If a release that was reserved as a first one dies and is tried
again, it stays a first one.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError
from privacy_engine.registry import can_be_followed

if TYPE_CHECKING:
    from privacy_engine.dp.ledger import Entry
    from privacy_engine.dp.promises import Promise
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.synthesizers.synthesizer import Synthesizer
    from privacy_engine.tables.domains import CodedTable
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.budget.yearly import Yearly
    from privacy_release.ledger.ledger import BudgetLedger

FOLLOWS, TABLES = "follows", "tables_sha256"  # fields in the detail of a booking's entries


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The measurement of a schedule's release, and its payment.

    Attributes:
        method: Method with the epsilon and delta of this release.
        promise: Promise that it is booked under. None: it is paid separately.
        measure: Function that returns the model of the records.
        detail: Details for its entries in the ledger.
    """

    method: "Synthesizer"
    promise: "Promise | None"
    measure: "Callable[[CodedTable], SynthesizerModel]"
    detail: Mapping[str, str]


def is_opened(schedule: "Yearly", ledger: "BudgetLedger", dataset: str) -> bool:
    """Return whether the first release of a schedule was committed."""
    return bool(_releases(schedule, ledger, dataset))


def turn_of(
    schedule: "Yearly",
    method: "Synthesizer",
    schema: "DataSchema",
    ledger: "BudgetLedger",
    dataset: str,
    key: str,
) -> Turn:
    """Return whether a release is the first of its schedule, or which ones it follows.

    Args:
        schedule: Schedule with an opening.
        method: Method with the epsilon and delta of a part.
        schema: Schema of the table.
        ledger: Ledger that stores the models.
        dataset: Data set whose budget pays.
        key: Key of the release's booking.

    Raises:
        SpecError: If the schedule was opened with other parameters of the method, or another schema.
    """
    from privacy_engine.dp.ledger import State
    from privacy_engine.synthesizers.latent.latent_class import LatentClass
    from privacy_engine.synthesizers.repeated.following import followed, opened

    if not can_be_followed(method.key) or not isinstance(method, LatentClass):
        raise SpecError(
            f"budget.promise: {method.key} chooses no tables that later releases could measure again; use "
            "latent_class, or remove opening"
        )
    tables = _tables(method, schema)
    detail = {FOLLOWS: schedule.name, TABLES: tables}
    releases = [entry for entry in _releases(schedule, ledger, dataset) if entry.key != key]
    held = ledger.booking(dataset, key)
    begun = held is not None and held.state is not State.CANCELLED and held.promise is None
    if begun or not releases:
        opening = replace(method, epsilon=schedule.opening or 0.0, delta=schedule.delta)
        return Turn(method=opening, promise=None, measure=lambda coded: opened(opening, coded), detail=detail)
    if any(entry.detail[TABLES] != tables for entry in releases):
        raise SpecError(
            f"budget.promise: {schedule.name} was opened with another schema or other parameters of "
            f"{method.key}, so its tables cannot be measured on this table; continue as before, or give the "
            "schedule another name, whose first release is paid for like that one"
        )

    def measure(coded: "CodedTable") -> "SynthesizerModel":
        first, *later = (_model(ledger, dataset, entry.key) for entry in releases)
        return followed(method, coded, first, later)

    return Turn(
        method=method,
        promise=schedule.promise(method.privacy_loss(schema)),
        measure=measure,  # a release that is already committed reads no models of others
        detail=detail,
    )


def _releases(schedule: "Yearly", ledger: "BudgetLedger", dataset: str) -> "list[Entry]":
    """Return the committed releases of a schedule, from its first one on. Empty if there are none."""
    from privacy_engine.dp.ledger import committed_with, promise_of

    entries = committed_with(ledger.history(dataset), FOLLOWS, schedule.name)
    openings = [entry for entry in entries if promise_of(entry) is None]
    return [*openings[:1], *(entry for entry in entries if promise_of(entry) is not None)]


def earlier_model(ledger: "BudgetLedger", dataset: str, key: str, name: str) -> "SynthesizerModel | None":
    """Return the model of the release that another one continues. None if there is none.

    Args:
        ledger: Ledger that stores the models.
        dataset: Data set whose budget pays.
        key: Key of the release's booking.
        name: Name of the schedule.
    """
    from privacy_engine.dp.ledger import committed_with

    others = [e.key for e in committed_with(ledger.history(dataset), FOLLOWS, name) if e.key != key]
    return _model(ledger, dataset, others[-1]) if others else None


def _model(ledger: "BudgetLedger", dataset: str, key: str) -> "SynthesizerModel":
    from privacy_engine.synthesizers.model import SynthesizerModel

    booking = ledger.booking(dataset, key)
    return SynthesizerModel.from_json((booking.model if booking else None) or "")


def _tables(method: "Synthesizer", schema: "DataSchema") -> str:
    """Return a hash of all that the tables depend on, except the loss."""
    parameters: dict[str, Any] = {
        name: value
        for name, value in method.measurement_parameters().items()
        if name not in ("epsilon", "delta")
    }
    described = json.dumps(
        {"method": method.key, "parameters": parameters, "schema": schema.to_dict()}, sort_keys=True
    )
    return hashlib.sha256(described.encode()).hexdigest()
