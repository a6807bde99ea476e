"""Records split by the cluster of their sensitive value, to be anonymized group by group.

And the paper's repair, by which sensitive values are changed until every class has l of them.
Zhu, Zhao, Wang (2010), section 4.3: a random record of the class gets another sensitive value of the
same cluster. It falsifies data: the share of changed records is R_man (section 5, experiment 4).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.anonymizers.sensitive_utility import FloatMatrix
from privacy_engine.progress import portion
from privacy_engine.recoding.grouping.boxes import Ints
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.persons import people_of_classes


@dataclass(frozen=True)
class Group:
    """The records of one cluster of sensitive values.

    Attributes:
        values: Sensitive codes of the cluster.
        rows: Records with one of them, ascending.
    """

    values: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


def sensitive_groups(
    codes: npt.NDArray[np.int32],
    utility: FloatMatrix,
    clusters: Ints,
    least: int,
    persons: Ints | None = None,
) -> list[Group]:
    """Groups of at least ``least`` persons; a smaller one joins the most similar cluster.

    Args:
        codes: Sensitive codes of the records, shape (n,).
        utility: Utility matrix, shape (m, q).
        clusters: Cluster of each value, shape (m,).
        least: Least number of persons in a group, at most as many as there are.
        persons: Person of each record, shape (n,); None: each record counts as a person.
    """
    present, counts = np.unique(codes, return_counts=True)
    cluster_of = clusters[present]
    while True:
        names = np.unique(cluster_of)
        records = np.array([counts[cluster_of == name].sum() for name in names])
        if persons is not None:
            group_of = np.searchsorted(names, cluster_of)[np.searchsorted(present, codes)]
            records = people_of_classes(group_of, persons, len(names))
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
    """(n,) classes of all records, each group labelled separately; no class spans two groups."""
    labels = np.full(sum(len(group.rows) for group in groups), -1, dtype=np.int64)
    for group in groups:
        with portion(len(group.rows) / len(labels)):
            labels[group.rows] = label(group) + labels.max() + 1
    return labels


def distort(
    encoded: EncodedTable,
    row: int,
    labels: Ints,
    groups: Sequence[Group],
    l: int,  # noqa: E741  the field's own symbol
    rng: np.random.Generator,
) -> EncodedTable:
    """The table with as few sensitive values changed as give every class l distinct ones.

    A record whose value occurs again in its class is changed, so no distinct value is lost. Each
    class has at least l records and each group at least l values, so this always ends.

    Args:
        encoded: Encoded table with the sensitive values.
        row: Row of the sensitive attribute.
        labels: Classes, -1 = suppressed, shape (n,).
        groups: Clusters of the sensitive values.
        l: Distinct values required in each class, at most the size of the smallest class.
        rng: Draws records and values.
    """
    codes = encoded.sensitive[row].copy()
    cluster = {int(value): group.values for group in groups for value in group.values}
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(labels.max() + 2))
    for first, last in itertools.pairwise(starts):  # few classes need work
        members = order[first:last]
        present = set(codes[members].tolist())
        if len(present) >= l:
            continue
        for r in rng.permutation(members):
            if len(present) >= l:
                break
            if np.count_nonzero(codes[members] == codes[r]) > 1:
                absent = [v for v in cluster[int(codes[r])].tolist() if v not in present]
                if absent:
                    codes[r] = rng.choice(absent)
                    present.add(int(codes[r]))
    return encoded.with_sensitive(row, codes)
