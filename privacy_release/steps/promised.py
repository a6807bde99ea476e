"""The promises that spend a data set's budget, and warnings about limits that do not suit them."""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from privacy_engine.dp.ledger import promise_of
from privacy_engine.errors import PrivacyEngineError
from privacy_release.budget.schedules import schedule_named
from privacy_release.spec.methods import build_method

if TYPE_CHECKING:
    from privacy_engine.dp.limits import Limit
    from privacy_engine.dp.promises import Promise
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.spec.model import ReleaseSpec


def promises_of(
    ledger: "BudgetLedger", dataset: str, specs: Iterable["ReleaseSpec"]
) -> "tuple[Promise, ...]":
    """Return the promises that spend a data set's budget, each once. Reads the data set's whole history.

    Args:
        ledger: Ledger of the data set, whose bookings name their promises.
        dataset: Name of the data set in the ledger.
        specs: Release specifications. The promises of those that spend the data set are included.
    """
    booked = (promise_of(entry) for entry in ledger.history(dataset) if "promise" in entry.detail)
    declared = (_declared(spec) for spec in specs if spec.budget and spec.budget.dataset == dataset)
    return tuple(dict.fromkeys(promise for promise in (*declared, *booked) if promise is not None))


def unsuited(limit: "Limit", promises: Iterable["Promise"]) -> list[str]:
    """Return reasons why a limit does not suit the promises that spend it, one sentence each."""
    return [reason for reason in (promise.unsuited(limit) for promise in promises) if reason]


def _declared(spec: "ReleaseSpec") -> "Promise | None":
    """Return the promise of a specification. None if it has none, or `privacy-release check` refuses it."""
    said = spec.budget.schedule if spec.budget else None
    if said is None:
        return None
    with suppress(PrivacyEngineError, ValueError):
        method = build_method(spec.release.method, spec.release.parameters)
        loss = method.privacy_loss(spec.method_schema())
        return None if loss is None else schedule_named(spec.name, said).promise(loss)
    return None
