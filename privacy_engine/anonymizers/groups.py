"""Records split by the cluster of their sensitive value, to be anonymized group by group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.anonymizers.sensitive_utility import FloatMatrix
from privacy_engine.grouping.boxes import Ints


@dataclass(frozen=True)
class Group:
    """The records of one cluster of sensitive values.

    Attributes:
        values: the sensitive codes of the cluster.
        rows: the records with one of them, ascending.
    """

    values: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


def sensitive_groups(
    codes: npt.NDArray[np.int32], utility: FloatMatrix, clusters: Ints, least: int
) -> list[Group]:
    """Groups of at least ``least`` records; a smaller one joins the cluster that is most alike.

    Args:
        codes: (n,) sensitive codes of the records.
        utility: (m, q) utility matrix.
        clusters: (m,) the cluster of each value.
        least: least number of records in a group, at most n.
    """
    present, counts = np.unique(codes, return_counts=True)
    cluster_of = clusters[present]
    while True:
        names = np.unique(cluster_of)
        records = np.array([counts[cluster_of == name].sum() for name in names])
        if records.min() >= least or len(names) == 1:
            break
        centres = np.array([utility[present[cluster_of == name]].mean(axis=0) for name in names])
        smallest = int(records.argmin())
        distance = np.abs(centres - centres[smallest]).sum(axis=1)
        distance[smallest] = np.inf
        cluster_of[cluster_of == names[smallest]] = names[distance.argmin()]
    return [
        Group(
            values=present[cluster_of == name],
            rows=np.flatnonzero(np.isin(codes, present[cluster_of == name])),
        )
        for name in names
    ]


def label_groups(groups: Sequence[Group], label: Callable[[Group], Ints]) -> Ints:
    """(n,) classes of all records, each group labelled by itself; no class spans two groups."""
    labels = np.full(sum(len(group.rows) for group in groups), -1, dtype=np.int64)
    for group in groups:
        labels[group.rows] = label(group) + labels.max() + 1
    return labels
