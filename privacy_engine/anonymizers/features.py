"""What can be kept or dropped of a table: values, bins or whole attributes, and their coarser forms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.encoding import EncodedTable
from privacy_engine.hierarchy import Hierarchy

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Feature:
    """Something that a release tells of a quasi-identifier, or does not.

    Attributes:
        attribute: number of the quasi-identifier.
        levels: what it may tell, the most first: each a (v,) int64 group 0, 1, ... of every code of the
            attribute's domain. A value's feature has two groups, the value and all others.
    """

    attribute: int
    levels: tuple[Ints, ...]

    def groups(self, codes: npt.NDArray[np.int32], level: int = 0) -> Ints:
        """(n,) int64 group of each record; codes: (n, q)."""
        return self.levels[level][codes[:, self.attribute]]


def value_features(encoded: EncodedTable, bins: int, *, generalize: bool) -> list[Feature]:
    """One feature for each value or bin that occurs: the columns of a one-hot encoding.

    Args:
        encoded: the table.
        bins: of an ordered attribute, where its schema names no number.
        generalize: whether a feature may fall back to its ancestors in the hierarchy, or to wider bins.
    """
    found = []
    for j in range(encoded.codes.shape[1]):
        levels = attribute_levels(encoded, j, bins)
        base = levels[0]
        for group in np.unique(base[encoded.codes[:, j]]):
            member = int(np.argmax(base == group))
            indicators = [(level == level[member]).astype(np.int64) for level in levels]
            coarser = [i for i in indicators[1:] if len(np.unique(i)) > 1] if generalize else []
            found.append(Feature(j, (indicators[0], *coarser)))
    return found


def attribute_features(encoded: EncodedTable, bins: int, *, generalize: bool) -> list[Feature]:
    """One feature for each quasi-identifier; arguments as of ``value_features``."""
    levels = [attribute_levels(encoded, j, bins) for j in range(encoded.codes.shape[1])]
    return [Feature(j, tuple(own if generalize else own[:1])) for j, own in enumerate(levels)]


def attribute_levels(encoded: EncodedTable, j: int, bins: int) -> list[Ints]:
    """(v,) int64 groups of the codes of quasi-identifier j, from fine to coarse, each nested in the next.

    A tree's levels below its root; an ordered attribute's bins, then pairs of bins, and so on. The last
    level that tells nothing is left out, unless it is the only one.
    """
    domain = encoded.domains[j]
    if isinstance(domain, Hierarchy):
        levels = [domain.at_level(level) for level in range(domain.height)]
    else:
        own = encoded.schema.quasi_identifiers[j]
        if own.categories is not None:
            base = np.arange(len(domain.values))
        else:
            base = equal_width_bins(domain.values, domain.low, domain.high, own.bins or bins)
        levels = [base >> step for step in range(max(int(base.max()).bit_length(), 1))]
    dense = [np.unique(level, return_inverse=True)[1].astype(np.int64) for level in levels]
    return [dense[0], *(level for level in dense[1:] if level.max() > 0)]


def equal_width_bins(values: npt.NDArray[np.float64], low: float, high: float, bins: int) -> Ints:
    """(v,) bin 0 .. bins - 1 of each value: ``(low, low + w], (low + w, low + 2 w], ...``, low in the first.

    Where there are no more than ``bins`` values, each is a bin of its own; a null is one more.

    >>> equal_width_bins(np.array([0.0, 20.0, 21.0, 100.0, 7.0, 8.0]), 0.0, 100.0, 5).tolist()
    [0, 0, 1, 4, 0, 0]
    """
    if len(values) <= bins:
        return np.arange(len(values))
    width = (high - low) / bins or 1.0
    known = ~np.isnan(values)
    found = np.full(len(values), bins, dtype=np.int64)
    found[known] = np.clip(np.ceil((values[known] - low) / width) - 1, 0, bins - 1)
    return found


def one_hot(
    encoded: EncodedTable, features: Sequence[Feature]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Binary columns (n, p) of all features at their first level, and (p,) the feature of each column.

    A feature of two groups is one column; one of more groups is a column a group that occurs.
    """
    columns, owners = [], []
    for number, feature in enumerate(features):
        groups = feature.groups(encoded.codes)
        shown = np.unique(groups) if feature.levels[0].max() > 1 else np.ones(1, dtype=np.int64)
        columns += [(groups == group).astype(np.uint8) for group in shown]
        owners += [number] * len(shown)
    return np.stack(columns, axis=1), np.array(owners, dtype=np.int32)
