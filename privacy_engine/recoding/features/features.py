"""The features of a table that can be kept or dropped: values, bins or whole attributes, and coarser forms.

Also the recoding of a release that shows some of these features and not the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.measures.recoding import Recoding
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Intervals

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Feature:
    """A part of a quasi-identifier that a release shows or does not show.

    Attributes:
        attribute: Number of the quasi-identifier.
        levels: Levels of detail, finest first: each a (v,) int64 group 0, 1, ... of every code of the
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
        encoded: Encoded table whose values become features.
        bins: Number of bins of an ordered attribute, if its schema has none.
        generalize: Whether a feature may fall back to its ancestors in the hierarchy, or to wider bins.
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
    """One feature for each quasi-identifier; arguments as for ``value_features``."""
    levels = [attribute_levels(encoded, j, bins) for j in range(encoded.codes.shape[1])]
    return [Feature(j, tuple(own if generalize else own[:1])) for j, own in enumerate(levels)]


def attribute_levels(encoded: EncodedTable, j: int, bins: int) -> list[Ints]:
    """(v,) int64 groups of the codes of quasi-identifier j, from fine to coarse, each nested in the next.

    A tree's levels below its root; an ordered attribute's bins, then pairs of bins, and so on, with null
    always a separate group. The last level, which shows nothing, is omitted unless it is the only one.
    """
    domain = encoded.domains[j]
    if isinstance(domain, Hierarchy):
        levels = [domain.at_level(level) for level in range(domain.height)]
    else:
        own = encoded.schema.quasi_identifiers[j]
        if own.categories is not None:
            base = np.arange(domain.known)
        else:
            known = domain.values[: domain.known]
            base = equal_width_bins(known, domain.low, domain.high, own.bins or bins)
        levels = [base >> step for step in range(max(int(base.max(initial=0)).bit_length(), 1))]
        if domain.has_null:
            levels = [np.append(level, level.max(initial=-1) + 1) for level in levels]
    dense = [np.unique(level, return_inverse=True)[1].astype(np.int64) for level in levels]
    return [dense[0], *(level for level in dense[1:] if level.max() > 0)]


def equal_width_bins(values: npt.NDArray[np.float64], low: float, high: float, bins: int) -> Ints:
    """(v,) bin 0 .. bins - 1 of each value: ``(low, low + w], (low + w, low + 2 w], ...``, low in the first.

    If there are at most ``bins`` values, each is a separate bin; null is one more.

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


@dataclass(frozen=True)
class FeatureRecoding(Recoding):
    """Classes of records that agree in all kept features; a cell covers its whole group of values.

    While a recoding by classes shows the tightest interval or node around a class's own records, this one
    shows the same for all values that the kept features do not distinguish, whether or not they occur in the
    class: only the features are released.

    Attributes:
        groups: For each quasi-identifier the (v,) int64 group of every code of its domain, shape (q,).
        kept: Whether any feature of the quasi-identifier is kept, shape (q,); the columns of the others are
            omitted and are charged as released with their whole domain.
    """

    groups: tuple[npt.NDArray[np.int64], ...]
    kept: tuple[bool, ...]

    @cached_property
    def _group_of_class(self) -> npt.NDArray[np.int64]:
        """(c, q) group of each class: all its records have the same."""
        member = np.empty(self.classes, dtype=np.int64)
        kept = np.flatnonzero(self.labels >= 0)
        member[self.labels[kept]] = kept  # any one of them
        codes = self.encoded.codes[member]
        return np.stack([own[codes[:, j]] for j, own in enumerate(self.groups)], axis=1)

    @cached_property
    def spans(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Two (c, q) int32: lowest and highest code of the group, or the node above it twice."""
        lo = np.empty((self.classes, len(self.groups)), dtype=np.int32)
        hi = np.empty_like(lo)
        for j, (domain, own) in enumerate(zip(self.encoded.domains, self.groups, strict=True)):
            ends = [_ends(domain, np.flatnonzero(own == group)) for group in range(int(own.max()) + 1)]
            low, high = np.array(ends, dtype=np.int32).T
            lo[:, j], hi[:, j] = low[self._group_of_class[:, j]], high[self._group_of_class[:, j]]
        return lo, hi

    def members(self, j: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sorted distinct pairs (class, code) of all values in the group of each class."""
        own = self.groups[j]
        order, sizes = np.argsort(own, kind="stable"), np.bincount(own)
        start = np.cumsum(sizes) - sizes
        group = self._group_of_class[:, j]
        classes = np.repeat(np.arange(self.classes), sizes[group])
        first = np.cumsum(sizes[group]) - sizes[group]
        return classes, order[np.arange(len(classes)) - np.repeat(first - start[group], sizes[group])]

    def render_by_row(self, intervals: Intervals = Intervals.BOUNDS) -> tuple[pd.DataFrame, DataSchema]:
        """Return the released table and its schema, without quasi-identifiers of which nothing is kept.

        The omitted columns are constant, so the order of the rows only follows from the others.
        """
        table, schema = super().render_by_row(intervals)
        quasi = self.encoded.schema.quasi_identifiers
        dropped = {
            released.name
            for j, attribute in enumerate(quasi)
            if not self.kept[j]
            for released, _ in self._render_attribute(j, attribute, intervals)
        }
        names = [name for name in schema.names if name not in dropped]
        return table[names], schema.select(names)


def feature_recoding(
    encoded: EncodedTable,
    labels: npt.NDArray[np.int64],
    groups: tuple[npt.NDArray[np.int64], ...],
    kept: tuple[bool, ...],
    notes: dict[str, float],
) -> FeatureRecoding:
    """A recoding by any labels >= 0, renumbered without gaps; -1 = suppressed stays."""
    return FeatureRecoding(encoded, Recoding.of_labels(encoded, labels).labels, groups, kept, notes=notes)


def _ends(domain: object, codes: npt.NDArray[np.int64]) -> tuple[int, int]:
    if not isinstance(domain, Hierarchy):
        return int(codes[0]), int(codes[-1])
    nodes = domain.nodes[codes]
    level = int(np.argmax((nodes == nodes[0]).all(axis=0)))  # the root is common to all
    return int(nodes[0, level]), int(nodes[0, level])
