"""Base of the methods that first choose a network's structure and then measure its tables.

The conditional tables of a network's families are noisy counts (discrete Laplace), then post-processed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import laplace_counts, laplace_scale, split
from privacy_engine.progress import tracked
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.bayes.structure import (
    Family,
    FamilyLimit,
    check_single_tables,
    fixed_limit,
    theta_limit,
)
from privacy_engine.synthesizers.postprocess import PostProcess, conditional, probabilities
from privacy_engine.synthesizers.synthesizer import Synthesizer, check_number, check_whole
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords, contingency, table_sensitivity

LARGEST_TABLE = 2**26


@dataclass(frozen=True, kw_only=True)
class NetworkSynthesizer(Synthesizer):
    """A synthesizer that spends one part of epsilon on the structure of a network, the rest on its tables.

    Attributes:
        structure_share: Part of epsilon that chooses the structure, in (0, 1).
        degree: Most parents of an attribute; None for as many as leave its table theta-useful.
        theta: Least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: Most cells of a table of the network.
    """

    structure_share: float = 0.3
    degree: int | None = None
    theta: float = 4.0
    cell_limit: int = 2**18

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("structure_share", self.structure_share)
        if not 0 < self.structure_share < 1:
            raise ValueError(f"structure_share must be in (0, 1), got {self.structure_share}")
        check_number("theta", self.theta)
        if not 0 < self.theta < math.inf:
            raise ValueError(f"theta must be > 0 and finite, got {self.theta}")
        if self.degree is not None:
            check_whole("degree", self.degree, 0)
        check_whole("cell_limit", self.cell_limit, 1, LARGEST_TABLE)

    def require_feasible(self, coded: CodedTable, rows: int) -> None:
        """Raise if the domains are too large for the degree, the cell limit or the number of records."""
        (on_tables,) = split(self.epsilon, (self.structure_share, 1 - self.structure_share))[1:]
        self.family_limit(coded, on_tables, shared=False, rows=rows)

    def family_limit(
        self, coded: CodedTable, epsilon: float, *, shared: bool, rows: int | None = None
    ) -> FamilyLimit:
        """How large families may be: by the degree, else by theta. From public figures only.

        Args:
            coded: Records, for names, sizes and their number.
            epsilon: Epsilon for all tables together.
            shared: Whether families that are part of another one share its table, as in ``theta_limit``.
            rows: Number of records; None: that of `coded`.

        Raises:
            InfeasibleError: If the table is too small, or a domain too large.
            ValueError: If epsilon is too small for any noise.
        """
        rows = len(coded) if rows is None else rows
        split_over_tables(
            epsilon, len(coded.sizes), table_sensitivity(coded)
        )  # raises for an epsilon that is too small, before any noise
        check_single_tables(coded.names, coded.sizes, self.cell_limit)
        if self.degree is not None:
            people = coded.persons or rows
            return fixed_limit(self.degree, coded.names, coded.sizes, people, self.cell_limit)
        rows_each = rows / coded.each
        return theta_limit(
            coded.sizes, rows_each, epsilon, theta=self.theta, cell_limit=self.cell_limit, shared=shared
        )


def split_over_tables(epsilon: float, tables: int, sensitivity: int) -> tuple[float, ...]:
    """Split epsilon into equal parts, one for each table of that sensitivity.

    Raises:
        ValueError: If they are too small for any noise. Call this before the first noise is drawn: an error
            afterwards would come after the budget was spent.
    """
    parts = split(epsilon, [1] * tables)
    laplace_scale(epsilon=parts[0], sensitivity=sensitivity)
    return parts


def noisy_network(
    coded: CodedTable,
    records: WeightedRecords,
    families: Sequence[Family],
    *,
    measured: Sequence[int],
    epsilon: float,
    rule: PostProcess,
) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
    """Measure some of the families' tables, in equal parts of epsilon, and derive all conditional tables.

    Args:
        coded: Records, for names and sizes.
        records: Same records, each distinct one once.
        families: Families in the order of the network.
        measured: Positions of the families to measure; each other one must be part of one of them.
        epsilon: Epsilon for all tables together.
        rule: Rule by which noisy counts become probabilities.
    """
    joints: dict[int, npt.NDArray[np.float64]] = {}
    spends, sensitivity = [], table_sensitivity(coded)
    parts = split_over_tables(epsilon, len(measured), sensitivity)
    for position, part in tracked(list(zip(measured, parts, strict=True))):
        members = families[position].members
        noisy = laplace_counts(contingency(records, members), epsilon=part, sensitivity=sensitivity)
        joints[position] = probabilities(noisy, len(coded), rule)
        spends.append(
            Spend(
                mechanism="discrete_laplace",
                target=", ".join(coded.names[a] for a in members),
                epsilon=part,
                sensitivity=sensitivity,
                scale=laplace_scale(epsilon=part, sensitivity=sensitivity),
            )
        )
    nodes = tuple(
        Node(
            attribute=coded.names[family.child],
            parents=tuple(coded.names[p] for p in family.parents),
            table=conditional(_joint_of(position, families, joints)),
        )
        for position, family in enumerate(families)
    )
    return BayesianNetwork(names=coded.names, sizes=coded.sizes, nodes=nodes), tuple(spends)


def independent_network(
    coded: CodedTable, records: WeightedRecords, *, epsilon: float, rule: PostProcess
) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
    """A network without edges: where nothing can be selected, the tables get all of epsilon."""
    families = [Family(child=a, parents=()) for a in range(len(coded.sizes))]
    every = range(len(families))
    return noisy_network(coded, records, families, measured=every, epsilon=epsilon, rule=rule)


def _joint_of(
    position: int, families: Sequence[Family], joints: dict[int, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Return a family's noisy table, or the marginal of the smallest measured table that contains it."""
    if position in joints:
        return joints[position]
    members = families[position].members
    holders = [i for i in joints if set(members) <= set(families[i].members)]
    holder = min(holders, key=lambda i: joints[i].size)
    axes = families[holder].members
    kept = [axes.index(a) for a in members]
    summed = joints[holder].sum(axis=tuple(i for i in range(len(axes)) if i not in kept))
    order = np.argsort(np.argsort(kept))  # the remaining axes are in the holder's order
    return np.asarray(summed.transpose(order))
