"""Noisy conditional tables of the families of a network: discrete Laplace on counts, then post-processing."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import laplace_counts, laplace_scale, split
from privacy_engine.synthesizers.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.domains import CodedTable
from privacy_engine.synthesizers.marginals import WeightedRecords, contingency
from privacy_engine.synthesizers.postprocess import PostProcess, conditional, probabilities
from privacy_engine.synthesizers.structure import Family

TABLE_SENSITIVITY = 2  # one record replaced: one cell loses it, one gains it


def split_over_tables(epsilon: float, tables: int) -> tuple[float, ...]:
    """Equal parts of epsilon, one a table.

    Raises:
        ValueError: if they are too small for any noise. To be asked before the first noise is drawn: whoever
            refuses after that has spent the budget all the same.
    """
    parts = split(epsilon, [1] * tables)
    laplace_scale(epsilon=parts[0], sensitivity=TABLE_SENSITIVITY)
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
        coded: for names and sizes.
        records: the same records, each distinct one once.
        families: in the order of the network.
        measured: positions of the families to measure; each other one must be part of one of them.
        epsilon: for all tables together, one record replaced.
        rule: how noisy counts become probabilities.
    """
    joints: dict[int, npt.NDArray[np.float64]] = {}
    spends = []
    for position, part in zip(measured, split_over_tables(epsilon, len(measured)), strict=True):
        members = families[position].members
        noisy = laplace_counts(contingency(records, members), epsilon=part, sensitivity=TABLE_SENSITIVITY)
        joints[position] = probabilities(noisy, len(coded), rule)
        spends.append(
            Spend(
                mechanism="discrete_laplace",
                target=", ".join(coded.names[a] for a in members),
                epsilon=part,
                sensitivity=TABLE_SENSITIVITY,
                scale=laplace_scale(epsilon=part, sensitivity=TABLE_SENSITIVITY),
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
    """A family's own noisy table, or what the smallest measured table that holds the family says of it."""
    if position in joints:
        return joints[position]
    members = families[position].members
    holders = [i for i in joints if set(members) <= set(families[i].members)]
    holder = min(holders, key=lambda i: joints[i].size)
    axes = families[holder].members
    kept = [axes.index(a) for a in members]
    summed = joints[holder].sum(axis=tuple(i for i in range(len(axes)) if i not in kept))
    order = np.argsort(np.argsort(kept))  # the axes that are left stand in the holder's order
    return np.asarray(summed.transpose(order))
