"""Schedules whose releases measure the tables of their first one again, and who is the first.

The ledger tells: the first release of a schedule is the first that was committed with `FOLLOWS` and under no
promise. It is paid for by itself, once; all later ones are parts of the promise
(`privacy_release.budget.yearly`). What they follow is its model and those of the releases since, which the
ledger keeps: noisy figures alone, so that nothing has to be kept at the curator's.

Two runs that begin a schedule at once are two first releases, and both are paid for; later ones follow the
one that was committed first. A release that was reserved as a first one, died, and is tried again stays one.
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
    from privacy_engine.tables.domains import CodedTable, Storage
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.budget.yearly import Yearly
    from privacy_release.ledger.ledger import BudgetLedger

FOLLOWS, TABLES = "follows", "tables_sha256"  # in the detail of a booking's entries


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What a release of a schedule measures, and how it is paid for.

    Attributes:
        method: with the epsilon and delta of this release.
        promise: that it is booked under; None: it is paid by itself.
        measure: the model of the records.
        detail: what its entries in the ledger record.
    """

    method: "Synthesizer"
    promise: "Promise | None"
    measure: "Callable[[CodedTable], SynthesizerModel]"
    detail: Mapping[str, str]


def is_opened(schedule: "Yearly", ledger: "BudgetLedger", dataset: str) -> bool:
    """Whether the first release of a schedule was committed."""
    return bool(_releases(schedule, ledger, dataset))


def turn_of(
    schedule: "Yearly",
    method: "Synthesizer",
    schema: "DataSchema",
    ledger: "BudgetLedger",
    dataset: str,
    key: str,
) -> Turn:
    """Whether a release is the first of its schedule, or which ones it follows.

    Args:
        schedule: with an opening.
        method: with the epsilon and delta of a part.
        schema: of the table.
        ledger: that keeps the models.
        dataset: whose budget pays.
        key: of the release's booking.

    Raises:
        SpecError: if the schedule was opened with other parameters of the method, or another schema.
    """
    from privacy_engine.dp.ledger import State
    from privacy_engine.synthesizers.latent.latent_class import LatentClass
    from privacy_engine.synthesizers.repeated.following import followed, opened

    if not can_be_followed(method.key) or not isinstance(method, LatentClass):
        raise SpecError(
            f"budget.promise: {method.key} chooses no tables that later releases could measure again; take "
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
            f"{method.key}, and its tables cannot be measured of this table; go on as before, or give the "
            "schedule another name, whose first release is paid for as that one was"
        )

    def measure(coded: "CodedTable") -> "SynthesizerModel":
        first, *later = (_model(ledger, dataset, entry.key) for entry in releases)
        return followed(method, coded, first, later)

    return Turn(
        method=method,
        promise=schedule.promise(method.privacy_loss(schema)),
        measure=measure,  # a release that is committed already reads no model of the others
        detail=detail,
    )


def _releases(schedule: "Yearly", ledger: "BudgetLedger", dataset: str) -> "list[Entry]":
    """The committed releases of a schedule, from its first one on; empty where it has none."""
    from privacy_engine.dp.ledger import committed_with, promise_of

    entries = committed_with(ledger.history(dataset), FOLLOWS, schedule.name)
    openings = [entry for entry in entries if promise_of(entry) is None]
    return [*openings[:1], *(entry for entry in entries if promise_of(entry) is not None)]


def earlier_storages(
    ledger: "BudgetLedger", dataset: str, key: str, name: str
) -> "Mapping[str, Storage] | None":
    """The types of the columns of the release that another one goes on from; None where it goes on from none.

    Args:
        ledger: that keeps the models.
        dataset: whose budget pays.
        key: of the booking of the release.
        name: of the schedule.
    """
    from privacy_engine.dp.ledger import committed_with

    others = [e.key for e in committed_with(ledger.history(dataset), FOLLOWS, name) if e.key != key]
    return _model(ledger, dataset, others[-1]).storages if others else None


def _model(ledger: "BudgetLedger", dataset: str, key: str) -> "SynthesizerModel":
    from privacy_engine.synthesizers.model import SynthesizerModel

    booking = ledger.booking(dataset, key)
    return SynthesizerModel.from_json((booking.model if booking else None) or "")


def _tables(method: "Synthesizer", schema: "DataSchema") -> str:
    """Names what the tables depend on, but for the loss."""
    parameters: dict[str, Any] = {
        name: value
        for name, value in method.measurement_parameters().items()
        if name not in ("epsilon", "delta")
    }
    told = json.dumps(
        {"method": method.key, "parameters": parameters, "schema": schema.to_dict()}, sort_keys=True
    )
    return hashlib.sha256(told.encode()).hexdigest()
