"""The recoding of a release that tells some features of its quasi-identifiers and not the others."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.encoding import EncodedTable
from privacy_engine.hierarchy import Hierarchy
from privacy_engine.recoding import Intervals, Recoding
from privacy_engine.schema import DataSchema


@dataclass(frozen=True)
class FeatureRecoding(Recoding):
    """Classes of records that agree in all kept features; a cell covers its whole group of values.

    Where a recoding by classes shows the tightest interval or node around a class's own records, this one
    shows the same for all values that the kept features do not tell apart, whether or not they occur in
    the class: no more is released than the features.

    Attributes:
        groups: (q,) of each quasi-identifier the (v,) int64 group of every code of its domain.
        kept: (q,) whether any feature of the quasi-identifier is kept; the others' columns are left out,
            and are charged as released with their whole domain.
        notes: figures of the selection, for the release.
    """

    groups: tuple[npt.NDArray[np.int64], ...]
    kept: tuple[bool, ...]
    notes: dict[str, float]

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

    def render_by_row(self, intervals: Intervals = Intervals.TEXT) -> tuple[pd.DataFrame, DataSchema]:
        """The released table and its schema, without the quasi-identifiers of which nothing is kept.

        The left out columns are constant, so the order of the rows follows from the others alone.
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
    return FeatureRecoding(encoded, Recoding.of_labels(encoded, labels).labels, groups, kept, notes)


def _ends(domain: object, codes: npt.NDArray[np.int64]) -> tuple[int, int]:
    if not isinstance(domain, Hierarchy):
        return int(codes[0]), int(codes[-1])
    nodes = domain.nodes[codes]
    level = int(np.argmax((nodes == nodes[0]).all(axis=0)))  # the root is common to all
    return int(nodes[0, level]), int(nodes[0, level])
