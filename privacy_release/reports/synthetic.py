"""The sections of the public report about a differentially private synthetic table: no figure of the source.

The network, the list of mechanisms and the synthetic records result from the measurement, and the budget is
what was booked. All of them may be public.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.measures.grouped_marginals import grouped_marginals
from privacy_release.reports.network import NetworkDrawing, draw_network
from privacy_release.reports.text import MECHANISMS

if TYPE_CHECKING:
    from privacy_engine.dp.accounting import Spend
    from privacy_engine.release import Release
    from privacy_engine.synthesizers.model import SynthesizerModel


@dataclass(frozen=True, kw_only=True)
class MechanismLine:
    """All uses of one mechanism: their number, their total loss, and each use separately.

    ``unit`` is the unit of the loss: epsilon or rho.
    """

    name: str
    meaning: str
    unit: str
    spent: str
    uses: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class BudgetLine:
    """One limit of the data set's budget, in epsilon. ``share`` is the spent part, 0 to 1."""

    period: str
    limit: float
    spent: float
    left: float
    share: float


def network_of(release: "Release") -> NetworkDrawing | None:
    """Return the drawing of the model's network. None for a release without one."""
    return draw_network(release.model.structure()) if release.model else None


def mechanisms_of(release: "Release") -> list[MechanismLine]:
    """Return the measurements of the model, by mechanism in the order of first use."""
    uses: defaultdict[tuple[str, str], list[Spend]] = defaultdict(list)
    for spend in release.model.spends if release.model else ():
        uses[spend.mechanism, "epsilon" if spend.rho is None else "rho"].append(spend)
    return [_mechanism(mechanism, unit, spends) for (mechanism, unit), spends in uses.items()]


def _mechanism(mechanism: str, unit: str, spends: "Sequence[Spend]") -> MechanismLine:
    name, meaning = MECHANISMS.get(mechanism, (mechanism, ""))
    return MechanismLine(
        name=name,
        meaning=meaning,
        unit=unit,
        spent=f"{sum(getattr(spend, unit) for spend in spends):.4g}",
        uses=tuple(
            {
                "target": spend.target,
                "runs": str(spend.runs),
                "sample": "{:,} of {:,}".format(*spend.sample) if spend.sample else "all",
                "sensitivity": f"{spend.sensitivity:.4g}",
                "scale": f"{spend.scale:.4g}",
                "spent": f"{getattr(spend, unit):.4g}",
            }
            for spend in spends
        ),
    )


def own_marginals(release: "Release") -> list[dict[str, Any]]:
    """Return the shares of each attribute of the synthetic records. Empty for a release without a model.

    If the model has replicates, each share has its 95 % interval for the confidential table.
    """
    if release.model is None or not len(release.table):
        return []
    from privacy_engine.measures.synthetic_utility import coded

    found = []
    intervals = _intervals(release.model)
    for marginal in grouped_marginals([coded(release.table, release.schema)], release.schema):
        shares = marginal.shares[0]
        longest = max(*shares, 1e-9)
        ends = intervals(marginal.attribute, marginal.group_of) if intervals else [""] * len(shares)
        rows = [
            {"label": group, "text": f"{100 * share:.1f} %{interval_text}", "share": share / longest}
            for group, share, interval_text in zip(marginal.groups, shares, ends, strict=True)
        ]
        found.append({"name": marginal.attribute, "ordered": marginal.ordered, "rows": rows})
    return found


def _intervals(model: "SynthesizerModel") -> "Callable[[str, Sequence[int]], list[str]] | None":
    """Return a function for the intervals of an attribute's groups, in words. None without replicates."""
    from privacy_engine.synthesizers.replicated import ReplicatedModel

    replicates, network = model.replicates, model.network
    if replicates is None:
        return None
    ours, *theirs = replicates.models(network)
    replicated = ReplicatedModel(
        model=ours,
        replicates=theirs,
        misfit=replicates.misfit,
        unseen=replicates.unseen,
        together=replicates.together,
    )

    def ends(name: str, group_of: "Sequence[int]") -> list[str]:
        groups = max(group_of) + 1
        if len(group_of) != network.size(name):  # measured at a higher level of a hierarchy
            return [""] * groups
        found = replicated.shares({name: np.eye(groups)[list(group_of)]}, level=0.95)
        pairs = zip(100 * found.low, 100 * found.high, strict=True)
        return [f" ({low:.1f} to {high:.1f} in the source)" for low, high in pairs]

    return ends


def budget_lines(budget: Mapping[str, Any] | None) -> list[BudgetLine]:
    """Return the limits of a budget (see ``render``), each with the spent amount."""
    return [
        BudgetLine(
            period=str(limit["period"]),
            limit=limit["limit"],
            spent=limit["spent"],
            left=limit["left"],
            share=min(max(limit["spent"] / limit["limit"], 0.0), 1.0) if limit["limit"] else 1.0,
        )
        for limit in (budget or {}).get("limits", ())
    ]
