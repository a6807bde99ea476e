"""What was done to the quasi-identifiers, and the tables it renders to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.encoding import EncodedTable, domain_labels
from privacy_engine.tables.geometry import class_spans
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import Attribute, DataSchema, Kind, Role


class Intervals(StrEnum):
    """How the interval of an ordered attribute is written."""

    TEXT = "text"  # one column: "[17, 25]", or "17" where both ends are equal
    BOUNDS = "bounds"  # two number columns: age_min, age_max
    MIDPOINT = "midpoint"  # one number column; the only form whose cells do not cover the values


@dataclass(frozen=True)
class Recoding:
    """A partition of the records; each class is released with one interval or node an attribute.

    Attributes:
        encoded: the table it recodes.
        labels: (n,) int64, class of each record, 0 .. c - 1 without gaps; -1 = suppressed.
    """

    encoded: EncodedTable
    labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.encoded),):
            raise ValueError(
                f"labels must be one for each of the {len(self.encoded)} records, got {self.labels.shape}"
            )
        kept = self.labels[self.labels >= 0]
        if len(kept) and np.bincount(kept).min() == 0:
            raise ValueError("class labels must be 0 .. c - 1 without gaps")

    @classmethod
    def of_labels(cls, encoded: EncodedTable, labels: npt.NDArray[np.int64]) -> "Recoding":
        """A recoding by any labels >= 0; they are renumbered without gaps, -1 stays."""
        kept = labels >= 0
        numbered = np.full(len(labels), -1, dtype=np.int64)
        numbered[kept] = np.unique(labels[kept], return_inverse=True)[1]
        return cls(encoded, numbered)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max(initial=-1)) + 1

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(c,) records in each class."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.classes)

    @property
    def suppressed(self) -> int:
        """Number of suppressed records."""
        return int(np.count_nonzero(self.labels < 0))

    @cached_property
    def spans(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Two (c, q) int32: lowest and highest code of an ordered attribute, the node twice of a tree."""
        lo, hi = class_spans(self.encoded.codes, self.labels, self.classes, self.encoded.geometry())
        return lo, hi

    def members(self, j: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sorted distinct pairs (class, code) of quasi-identifier j."""
        kept = self.labels >= 0
        size = len(self.encoded.domains[j].values)
        pairs = np.unique(self.labels[kept] * size + self.encoded.codes[kept, j])
        classes, codes = np.divmod(pairs, size)
        return classes, codes

    def render(self, intervals: Intervals = Intervals.TEXT) -> tuple[pd.DataFrame, DataSchema]:
        """The released table and its schema.

        Suppressed records are left out. Rows are sorted by their released values, so their order says
        nothing about the source's. Ordered attributes become intervals, trees the label of their node,
        categorical attributes without a hierarchy the set ``{a, b}`` of the class's values.
        """
        table, schema = self.render_by_row(intervals)
        return table.reset_index(drop=True), schema

    def render_by_row(self, intervals: Intervals = Intervals.TEXT) -> tuple[pd.DataFrame, DataSchema]:
        """The same; the index of a released record tells which row of the source it is."""
        kept = np.flatnonzero(self.labels >= 0)
        labels = self.labels[kept]
        columns: dict[str, pd.Series] = {}
        attributes: list[Attribute] = []
        place = {name: j for j, name in enumerate(self.encoded.quasi_identifiers)}
        schema = self.encoded.schema
        for attribute in schema.attributes:
            if attribute.role is Role.QUASI_IDENTIFIER:
                for released, per_class in self._render_attribute(
                    place[attribute.name], attribute, intervals
                ):
                    columns[released.name] = per_class.take(labels).reset_index(drop=True)
                    attributes.append(released)
            else:
                columns[attribute.name] = _records(self.encoded.table[attribute.name], kept)
                attributes.append(attribute)
        table = pd.DataFrame(columns)
        order = _released_order(table)
        rows = pd.Index(self.encoded.rows[kept][order])
        return table.take(order).set_axis(rows, axis="index"), replace(schema, attributes=tuple(attributes))

    def _render_attribute(
        self, j: int, attribute: Attribute, intervals: Intervals
    ) -> list[tuple[Attribute, pd.Series]]:
        """Released columns of quasi-identifier j, one value a class."""
        domain = self.encoded.domains[j]
        lo, hi = self.spans[0][:, j], self.spans[1][:, j]
        text = Attribute(name=attribute.name, role=Role.QUASI_IDENTIFIER)
        if isinstance(domain, Hierarchy):
            if attribute.hierarchy is None:
                return [(text, self._sets(j))]
            return [(text, pd.Series(np.array(domain.labels, dtype=object)[lo], dtype="str"))]
        if attribute.categories is not None:
            return [(text, _interval_texts([_quoted(label, '[],"') for label in domain.labels], lo, hi))]
        if intervals is Intervals.TEXT:
            return [(text, _interval_texts(domain.labels, lo, hi))]
        low, high = pd.Series(domain.values[lo]), pd.Series(domain.values[hi])
        if intervals is Intervals.MIDPOINT:
            return [(_number(attribute.name), (low + high) / 2)]
        return [(_number(f"{attribute.name}_min"), low), (_number(f"{attribute.name}_max"), high)]

    def _sets(self, j: int) -> pd.Series:
        classes, codes = self.members(j)
        labels = [_quoted(label, '{},"') for label in domain_labels(self.encoded.domains[j])]
        parts = np.split(codes, np.flatnonzero(np.diff(classes)) + 1)
        texts = [
            labels[p[0]] if len(p) == 1 else "{" + ", ".join(sorted(labels[x] for x in p)) + "}"
            for p in parts
        ]
        return pd.Series(texts, dtype="str")


def _interval_texts(labels: Sequence[str], lo: npt.NDArray[np.int32], hi: npt.NDArray[np.int32]) -> pd.Series:
    texts = [labels[a] if a == b else f"[{labels[a]}, {labels[b]}]" for a, b in zip(lo, hi, strict=True)]
    return pd.Series(texts, dtype="str")


def _number(name: str) -> Attribute:
    return Attribute(name=name, role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC)


def _records(column: pd.Series, rows: npt.NDArray[np.intp]) -> pd.Series:
    """Some cells of a column; a categorical type would list the values of all others, so it is dropped."""
    cells = column.take(rows).reset_index(drop=True)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Series(np.asarray(cells), name=column.name)
    return cells


def _quoted(label: str, marks: str) -> str:
    """A value that would be mistaken for the punctuation of a set or interval stands in quotes."""
    return '"' + label.replace('"', '""') + '"' if any(mark in label for mark in marks) else label


def _released_order(table: pd.DataFrame) -> npt.NDArray[np.intp]:
    """Row order by released values alone."""
    ranks = [pd.factorize(table[name], sort=True)[0] for name in reversed(table.columns)]
    return np.lexsort(ranks) if ranks else np.arange(len(table))
