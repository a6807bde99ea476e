"""A clock that tests set, and losses and limits in few words."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_release.ledger.ledger import BudgetLedger

DATASET = "adult"
NOW = datetime(2024, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class Clock:
    """A clock that tests set."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


def loss(epsilon: float, neighbours: Neighbours = Neighbours.REPLACE_ONE) -> PrivacyLoss:
    return PrivacyLoss(epsilon=epsilon, neighbours=neighbours)


def grant(ledger: BudgetLedger, epsilon: float = 1.0, period: str = "total", dataset: str = DATASET) -> None:
    ledger.grant(dataset, Limit(epsilon=epsilon, period=Period.parse(period)), reason="a year", by="officer")


def ledger_with(url: str, clock: Clock) -> BudgetLedger:
    ledger = BudgetLedger(url, clock=clock)
    ledger.migrate()
    return ledger
