"""What released cells cover, parsed from their text: whether the box of a class lies within that of another.

A class is published with one cell per quasi-identifier: an interval, a node of a hierarchy, or a set of
values. With the schema of the source, a cell can be parsed into the values it covers. A cell that cannot be
parsed, such as a midpoint or a label without its hierarchy, covers at most a cell with the same text.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL_WORD, factorize
from privacy_engine.tables.dates import period_of_label
from privacy_engine.tables.hierarchy import ROOT
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, released_as

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]
_NUMBER = "="  # before the text of a cell that was a number or a date, not text
_FORMER_ENDS = ("min", "max", "null")
_OR_NULL = f" or {NULL_WORD}"
_TOKEN = re.compile(r'\s*("(?:[^"]|"")*"|[^",][^,]*)')


def cell_texts(table: pd.DataFrame, schema: DataSchema) -> dict[str, Texts]:
    """Released quasi-identifier -> (n,) the text of each cell, None for a null."""
    found = {}
    for attribute in schema.quasi_identifiers:
        coded = factorize(table[attribute.name])
        mark = "" if attribute.kind is Kind.CATEGORICAL else _NUMBER
        texts = np.array([*(mark + text for text in coded.texts), None], dtype=object)
        found[attribute.name] = texts[coded.codes]
    return found


def known_texts(table: pd.DataFrame, schema: DataSchema) -> dict[str, Texts]:
    """Quasi-identifier -> (n,) the text of each value of an ungeneralized table, None for a null."""
    found = {}
    for attribute in schema.quasi_identifiers:
        coded = factorize(table[attribute.name])
        found[attribute.name] = np.array([*coded.texts, None], dtype=object)[coded.codes]
    return found


@dataclass(frozen=True)
class Span:
    """The values ``low .. high`` of an ordered attribute; low is None if only null is covered."""

    low: Decimal | int | None
    high: Decimal | int | None
    null: bool = False

    def covers(self, other: "Span") -> bool:
        """Return whether everything that the other span covers is covered."""
        if other.null and not self.null:
            return False
        if other.low is None:
            return True
        if self.low is None or self.high is None or other.high is None:
            return False
        return bool(self.low <= other.low and other.high <= self.high)


@dataclass(frozen=True)
class CellParser:
    """Parses the cells of one quasi-identifier of the source.

    Attributes:
        names: Names of the released columns: the attribute itself, or its two ends and whether it may be
            null.
        attribute: Attribute of the source; None if unknown.
    """

    names: tuple[str, ...]
    attribute: Attribute | None = None
    _known: dict[tuple[object, object], bool] = field(default_factory=dict, repr=False, compare=False)

    def covers(self, outer: tuple[str | None, ...], inner: tuple[str | None, ...]) -> bool:
        """Return whether a cell, given as one text per name, surely covers everything that another covers."""
        if (outer, inner) not in self._known:
            self._known[outer, inner] = self._covers(outer, inner)
        return self._known[outer, inner]

    def _covers(self, outer: tuple[str | None, ...], inner: tuple[str | None, ...]) -> bool:
        if outer == inner:
            return len(outer) > 1 or outer[0] is None or not outer[0].startswith(_NUMBER)
        a = self.attribute
        if a is None:
            return False
        if a.ordered:
            wide, narrow = self.span(outer), self.span(inner)
            return wide is not None and narrow is not None and wide.covers(narrow)
        wide_text, text = outer[0], inner[0]
        if wide_text is None:
            return False
        if a.hierarchy is not None:
            labels, parent = a.hierarchy.labels, a.hierarchy.parent
            if text is None:
                return wide_text == labels[-1]
            over = {node for node, label in enumerate(labels) if label == wide_text}
            under = [node for node, label in enumerate(labels) if label == text]
            return bool(over and under) and all(over <= _above(node, parent) for node in under)
        if a.dates is not None:
            return wide_text == ROOT
        own = values_of_set(text, nullable=a.nullable)
        return own <= values_of_set(wide_text, nullable=a.nullable) or wide_text == ROOT

    def extents(self, cells: Sequence[tuple[str | None, ...]]) -> npt.NDArray[np.float64]:
        """(c,) for each cell a number that is larger than that of every other cell that it covers."""
        a = self.attribute
        if a is None:
            return np.zeros(len(cells))
        if a.ordered:
            spans = [self.span(cell) for cell in cells]
            ends = {end for span in spans if span for end in (span.low, span.high) if end is not None}
            rank = {end: place for place, end in enumerate(sorted(ends))}
            return np.array([0.0 if span is None else _extent(span, rank) for span in spans])
        if a.hierarchy is not None:  # a parent has a larger number than its children
            last = {label: node for node, label in enumerate(a.hierarchy.labels)}
            return np.array([-1.0 if text is None else last.get(text, 0) for (text,) in cells], np.float64)
        if a.dates is not None:
            return np.array([float(text == ROOT) for (text,) in cells])
        return np.array(
            [np.inf if text == ROOT else len(values_of_set(text, nullable=a.nullable)) for (text,) in cells],
            np.float64,
        )

    def span(self, cell: tuple[str | None, ...]) -> Span | None:
        """Return what a cell of an ordered attribute covers; None if it cannot be parsed."""
        a = self.attribute
        assert a is not None
        if len(cell) == 2 and None in cell:
            return None  # suppressed: what is covered is unknown. A missing value has a flag.
        if len(cell) > 1:
            low, high = (
                None if text is None else self._value(text.removeprefix(_NUMBER), upper=upper)
                for text, upper in zip(cell[:2], (False, True), strict=True)
            )
            null = cell[0] is None or (len(cell) > 2 and cell[2] == "True")
            return Span(low, high, null) if (low is None) == (high is None) == (cell[0] is None) else None
        text = cell[0]
        if text is None:
            return Span(None, None, null=True)
        null = a.nullable and text.endswith(_OR_NULL)
        text = text.removesuffix(_OR_NULL) if null else text
        between = text.startswith("[") and text.endswith("]")
        ends = _tokens(text[1:-1]) if between else [_unquoted(text)]
        low, high = self._value(ends[0], upper=False), self._value(ends[-1], upper=True)
        if len(ends) != (2 if between else 1) or low is None or high is None:
            return None
        return Span(low, high, null)

    def _value(self, text: str, *, upper: bool) -> Decimal | int | None:
        """Parse a value; for a date, the first or the last day or second of its period."""
        a = self.attribute
        assert a is not None
        if a.categories is not None:
            return a.categories.index(text) if text in a.categories else None
        if a.dates is not None:
            period = period_of_label(text, a.dates.clock)
            return period and period[upper]
        try:
            return Decimal(text)
        except InvalidOperation:
            return None


class BoxParser:
    """Parses the released quasi-identifiers of a table.

    Args:
        names: Names of the released columns.
        source: Schema of the source; None if unknown: then a cell covers only equal cells.
    """

    def __init__(self, names: Sequence[str], source: DataSchema | None = None) -> None:
        left, columns = list(names), []
        for attribute in source.quasi_identifiers if source is not None else ():
            own = _names_of(attribute, left)
            if own:
                columns.append(CellParser(own, attribute))
                left = [name for name in left if name not in own]
        self.columns = (*columns, *(CellParser((name,)) for name in left))

    @property
    def subjects(self) -> frozenset[str]:
        """The quasi-identifiers of the columns in any form, and the columns that belong to none."""
        return frozenset(c.attribute.name if c.attribute else c.names[0] for c in self.columns)

    def coded(
        self, boxes: Sequence[Mapping[str, Texts]]
    ) -> tuple[list[list[tuple[str | None, ...]]], list[Ints]]:
        """Return the distinct cells of each column, and their indexes for each table of boxes."""
        cells: list[list[tuple[str | None, ...]]] = []
        codes: list[list[Ints]] = [[] for _ in boxes]
        for column in self.columns:
            place: dict[tuple[str | None, ...], int] = {}
            for own, cells_of in zip(codes, boxes, strict=True):
                names = column.names if column.attribute is None else _names_of(column.attribute, cells_of)
                texts = [cells_of[name] for name in names]
                rows = zip(*texts, strict=True)
                own.append(np.array([place.setdefault(row, len(place)) for row in rows], dtype=np.int64))
            cells.append(list(place))
        return cells, [np.stack(own, axis=1) for own in codes]

    def extents(self, cells: list[list[tuple[str | None, ...]]], codes: Ints) -> npt.NDArray[np.float64]:
        """(c,) for each box a number that is larger than that of every different box within it."""
        found = np.zeros(len(codes))
        for j, column in enumerate(self.columns):
            found += column.extents(cells[j])[codes[:, j]]
        return found

    def cover(self, cells: list[list[tuple[str | None, ...]]], outer: Ints, inner: Ints) -> Bools:
        """(m,) whether each box of outer (m, columns) surely covers that of inner; codes as from `coded`."""
        found = np.ones(len(outer), dtype=np.bool_)
        for j, column in enumerate(self.columns):
            size = len(cells[j])
            pairs, which = np.unique(outer[:, j] * size + inner[:, j], return_inverse=True)
            held = [column.covers(cells[j][pair // size], cells[j][pair % size]) for pair in pairs.tolist()]
            found &= np.array(held, dtype=np.bool_)[which]
        return found


def _names_of(attribute: Attribute, names: Collection[str]) -> tuple[str, ...]:
    """Return the released columns of an attribute; old releases named the ends as in `_FORMER_ENDS`."""
    former = tuple(name for end in _FORMER_ENDS if (name := f"{attribute.name}_{end}") in names)
    found = released_as(attribute.name, names)
    return former if len(former) > len(found) else found


def values_of_set(text: str | None, *, nullable: bool) -> frozenset[str | None]:
    """Return the values of a cell ``{a, b}``, or of a single one; None is a null.

    >>> sorted(values_of_set('{a, "b, c"}', nullable=False))
    ['a', 'b, c']
    """
    if text is None:
        return frozenset([None])
    if not (text.startswith("{") and text.endswith("}")):
        return frozenset([_unquoted(text)])
    tokens = [match.strip() for match in _TOKEN.findall(text[1:-1])]
    null = nullable and tokens[-1:] == [NULL_WORD]
    values: set[str | None] = {_unquoted(token) for token in (tokens[:-1] if null else tokens)}
    return frozenset(values | {None} if null else values)


def _extent(span: Span, rank: Mapping[Any, int]) -> float:
    return (0.0 if span.low is None else rank[span.high] - rank[span.low]) + 0.5 * (
        span.null and span.low is not None
    )


def _tokens(text: str) -> list[str]:
    return [_unquoted(match.strip()) for match in _TOKEN.findall(text)]


def _unquoted(text: str) -> str:
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        return text[1:-1].replace('""', '"')
    return text


def _above(node: int, parent: npt.NDArray[np.int32]) -> set[int]:
    """Return a node and all nodes above it."""
    found = {node}
    while parent[node] != node:
        node = int(parent[node])
        found.add(node)
    return found
