"""Limits of a privacy budget of which little is left."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privacy_release.reports.text import figure

if TYPE_CHECKING:
    from privacy_engine.dp.ledger import Standing

BELOW = 0.2


@dataclass(frozen=True, kw_only=True)
class BudgetLowNotice:
    """A limit of which too little is left.

    Attributes:
        dataset: Name of the data set in the ledger.
        period: Period of the limit: `total`, or a number of days such as `365d`.
        limit, spent, left: Amounts of epsilon, or of delta if that is scarcer.
        resource: `epsilon` or `delta`.
    """

    dataset: str
    period: str
    limit: float
    spent: float
    left: float
    resource: str = "epsilon"

    def __str__(self) -> str:
        when = "in total" if self.period == "total" else f"in any {self.period.removesuffix('d')} days"
        return (
            f"{self.dataset}: {figure(self.left)} of {self.resource} {figure(self.limit)} is left ({when}). "
            "Plan the next releases, or grant more with `privacy-release budget grant`."
        )


def low_budgets(
    dataset: str, standings: Iterable["Standing"], below: float = BELOW
) -> tuple[BudgetLowNotice, ...]:
    """Return the limits of a data set of which less than a share is left.

    Args:
        dataset: Name of the data set in the ledger.
        standings: Standings of the data set from `BudgetLedger.standing`. Limits of a single release are
            never low.
        below: Share of a limit, 0 to 1: of the part that no promise holds; of its rho, if rho's add up.

    Raises:
        ValueError: If the share is out of range.
    """
    if not 0 <= below <= 1:
        raise ValueError(f"the share must be from 0 to 1, got {below:g}")
    return tuple(
        _notice(dataset, standing)
        for standing in standings
        if standing.limit.period.name != "release"
        and standing.limit.epsilon > 0
        and float(standing.left_share) < below
    )


def _notice(dataset: str, standing: "Standing") -> BudgetLowNotice:
    by_delta = standing.scarcest == "delta"
    limit = standing.limit
    return BudgetLowNotice(
        dataset=dataset,
        period=limit.period.name,
        limit=limit.delta if by_delta else limit.epsilon,
        spent=float(standing.spent_delta if by_delta else standing.spent),
        left=float(standing.left_delta if by_delta else standing.left),
        resource="delta" if by_delta else "epsilon",
    )
