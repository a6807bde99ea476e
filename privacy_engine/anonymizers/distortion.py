"""The paper's repair: sensitive values are changed until every class has l of them.

Zhu, Zhao, Wang (2010), section 4.3: a random record of the class gets another sensitive value of the
same cluster. It falsifies data: the share of changed records is R_man (section 5, experiment 4).
"""

import itertools
from collections.abc import Sequence

import numpy as np

from privacy_engine.anonymizers.groups import Group
from privacy_engine.encoding import EncodedTable
from privacy_engine.grouping.boxes import Ints


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
        encoded: the table.
        row: row of the sensitive attribute.
        labels: (n,) classes, -1 = suppressed.
        groups: clusters of the sensitive values.
        l: distinct values wanted in each class, at most the size of the smallest class.
        rng: draws records and values.
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
