"""What released cells cover, in numbers: the common form of releases and true records for all attacks.

A released cell is a value, an interval in two columns or as text, a set of values, a label of a hierarchy, or
suppressed. For an ordered attribute, it covers a span of the attribute's extent in the given tables; for any
other, some of its values; a suppressed cell covers all of them. A person is a record whose cells cover one
value each. So anonymized, synthetic and randomized records are read alike, and true records can be added to
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, factorize, is_number
from privacy_engine.tables.dates import is_dated
from privacy_engine.tables.hierarchy import ROOT
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.published_boxes import CellParser, values_of_set
from privacy_engine.vocabulary import released_as

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Cells:
    """Records, as what their cells cover in the attributes of a `Space`.

    Attributes:
        low, high: Ends of the span in 0 .. 1 of each ordered attribute, shape (n, o), NaN = no value.
        null: Whether a null is covered, shape (n, o).
        codes: Cell of each other attribute, shape (n, c) int32.
    """

    low: Floats
    high: Floats
    null: Bools
    codes: Codes

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: npt.NDArray[np.integer]) -> "Cells":
        """Return some of the records."""
        return Cells(self.low[rows], self.high[rows], self.null[rows], self.codes[rows])

    def sample(self, rows: int, rng: np.random.Generator) -> "Cells":
        """Draw at most a number of records at random, without replacement."""
        return self if len(self) <= rows else self.take(rng.choice(len(self), rows, replace=False))

    def joined(self, other: "Cells") -> "Cells":
        """Append other records."""
        return Cells(
            np.vstack([self.low, other.low]),
            np.vstack([self.high, other.high]),
            np.vstack([self.null, other.null]),
            np.vstack([self.codes, other.codes]),
        )

    def shuffled(self, rng: np.random.Generator) -> "Cells":
        """Shuffle the cells of each attribute: the knowledge of an attacker who ignores the records."""
        mixed = Cells(self.low.copy(), self.high.copy(), self.null.copy(), self.codes.copy())
        for j in range(self.low.shape[1]):
            order = rng.permutation(len(self))
            mixed.low[:, j], mixed.high[:, j] = self.low[order, j], self.high[order, j]
            mixed.null[:, j] = self.null[order, j]
        for j in range(self.codes.shape[1]):
            mixed.codes[:, j] = rng.permutation(self.codes[:, j])
        return mixed

    @cached_property
    def numbered(self) -> Ints:
        """(n, a) a number for each distinct cell of each attribute, ordered attributes first."""
        columns = []
        for j in range(self.low.shape[1]):
            ends = np.stack([self.low[:, j], self.high[:, j], self.null[:, j]], axis=1)
            columns.append(equal_rows(np.stack([equal_rows(end[:, None]) for end in ends.T], axis=1)))
        return np.stack([*columns, *self.codes.T.astype(np.int64)], axis=1)


def equal_rows(columns: npt.NDArray[Any]) -> Ints:
    """(n,) equal numbers from 0 on for equal rows; NaN is equal to itself."""
    return _numbers_of(columns.T)[0]


def alone(numbered: Ints, attributes: Ints) -> Bools:
    """(n,) whether no other record has the same cells in some attributes; see `Cells.numbered`."""
    keys, numbers = _numbers_of(numbered[:, attributes].T)
    return np.asarray(np.bincount(keys, minlength=numbers)[keys] == 1)


def _numbers_of(columns: npt.NDArray[Any]) -> tuple[Ints, int]:
    """(n,) a number for each distinct row of some columns, and the count of numbers."""
    found, numbers = np.zeros(columns.shape[1], np.int64), 1
    for column in columns:
        own, values = pd.factorize(column, use_na_sentinel=False)
        if numbers * len(values) >= 2**62:  # remove gaps only if numbers grow too large
            found, kept = pd.factorize(found)
            numbers = len(kept)
        found, numbers = found * max(len(values), 1) + own, numbers * max(len(values), 1)
    found, kept = pd.factorize(found)
    return found.astype(np.int64), len(kept)


@dataclass(frozen=True)
class Space:
    """The attributes in a release, and what their cells cover.

    Attributes:
        ordered, others: Names of the attributes, in the order of the columns of `Cells`.
        values: Number of values of each other attribute, shape (c,); the first cells are these single values.
        covers: For each other attribute, whether a cell covers a value, (cells, values) uint8.
    """

    ordered: tuple[str, ...]
    others: tuple[str, ...]
    values: Ints
    covers: tuple[npt.NDArray[np.uint8], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all attributes, ordered ones first."""
        return self.ordered + self.others

    def places(self, names: Sequence[str]) -> Ints:
        """Return the indexes of some attributes in `names`, without those that are not in the release."""
        return np.array([self.names.index(name) for name in names if name in self.names], np.int64)

    @cached_property
    def flat(self) -> npt.NDArray[np.uint8]:
        """All of `covers`, one after the other."""
        return np.concatenate([c.ravel() for c in self.covers] or [np.zeros(0, np.uint8)])

    @cached_property
    def starts(self) -> Ints:
        """(c,) start of each attribute in `flat`."""
        return np.cumsum([0, *(c.size for c in self.covers)])[:-1].astype(np.int64)

    @cached_property
    def sizes(self) -> Floats:
        """(c, cells) share of the values beyond one that a cell covers, 0 .. 1."""
        most = max((len(c) for c in self.covers), default=0)
        found = np.zeros((len(self.covers), most))
        for j, c in enumerate(self.covers):
            found[j, : len(c)] = (c.sum(axis=1) - 1.0) / max(c.shape[1] - 1, 1)
        return found


def read(
    release: pd.DataFrame, truths: Sequence[pd.DataFrame], source: DataSchema
) -> tuple[Space, tuple[Cells, ...]]:
    """Read a release and true records as cells; the release comes first.

    Args:
        release: Release as it would be published.
        truths: Records of the source, and of people who are not in it.
        source: Schema of the source; attributes that are not in the release are ignored.

    Raises:
        SchemaError: If the release has no attribute of the source.
    """
    released = [
        (a, names)
        for a in source.without_identifiers().attributes
        if a.name != source.by and (names := released_as(a.name, release.columns))
    ]
    if not released:
        raise SchemaError("the release has no column of the source's schema, so there is nothing to attack")
    spans = [(a, names) for a, names in released if a.ordered or a.dates is not None]
    others = [(a, names[0]) for a, names in released if not (a.ordered or a.dates is not None)]
    tables = (release, *truths)
    low: list[list[Floats]] = [[] for _ in tables]
    high: list[list[Floats]] = [[] for _ in tables]
    null: list[list[Bools]] = [[] for _ in tables]
    for attribute, names in spans:
        read_spans = [_spans(release, attribute, names), *(_points(t, attribute) for t in truths)]
        known = np.concatenate([end[np.isfinite(end)] for one in read_spans for end in one[:2]])
        least, extent = (float(known.min()), float(np.ptp(known)) or 1.0) if len(known) else (0.0, 1.0)
        for i, (lo, hi, nothing) in enumerate(read_spans):
            low[i].append(np.clip((lo - least) / extent, 0, 1))
            high[i].append(np.clip((hi - least) / extent, 0, 1))
            null[i].append(nothing)
    columns = [_other([t[name if i == 0 else a.name] for i, t in enumerate(tables)], a) for a, name in others]
    space = Space(
        ordered=tuple(a.name for a, _ in spans),
        others=tuple(a.name for a, _ in others),
        values=np.array([covers.shape[1] for covers, _ in columns], np.int64),
        covers=tuple(covers for covers, _ in columns),
    )
    return space, tuple(
        Cells(
            _columns(low[i], len(t), np.float64),
            _columns(high[i], len(t), np.float64),
            _columns(null[i], len(t), np.bool_),
            _columns([codes[i] for _, codes in columns], len(t), np.int32),
        )
        for i, t in enumerate(tables)
    )


def _columns(columns: Sequence[npt.NDArray[Any]], rows: int, kind: type) -> npt.NDArray[Any]:
    return np.ascontiguousarray(np.array(columns, kind).reshape(len(columns), rows).T)


def _points(table: pd.DataFrame, attribute: Attribute) -> tuple[Floats, Floats, Bools]:
    numbers = _numbers(table[attribute.name], attribute)
    return numbers, numbers, np.isnan(numbers)


def _numbers(column: pd.Series, attribute: Attribute) -> Floats:
    if attribute.categories is None:
        return attribute.numbers(column)
    place = {text: float(i) for i, text in enumerate(attribute.categories)}
    coded = factorize(column)
    return np.array([*(place.get(text, np.nan) for text in coded.texts), np.nan])[coded.codes]


def _spans(table: pd.DataFrame, attribute: Attribute, names: tuple[str, ...]) -> tuple[Floats, Floats, Bools]:
    """Return both ends of each cell in the attribute's own unit, infinite if it is suppressed."""
    ends = [table[name] for name in names[:2]]
    if attribute.categories is None and all(is_number(end) or is_dated(end) for end in ends):
        low, high = _numbers(ends[0], attribute), _numbers(ends[-1], attribute)
        nothing = np.isnan(low) & np.isnan(high)
        null = nothing & attribute.allows_nulls
        if len(names) > 2:
            null |= table[names[2]].fillna(value=False).to_numpy(dtype=np.bool_)
    else:
        low, high, null = _span_texts(table, attribute, names)
        nothing = np.isnan(low) & ~null
    hidden = nothing & ~null | (np.isnan(low) != np.isnan(high))
    return np.where(hidden, -np.inf, low), np.where(hidden, np.inf, high), null | hidden


def _span_texts(
    table: pd.DataFrame, attribute: Attribute, names: tuple[str, ...]
) -> tuple[Floats, Floats, Bools]:
    """The same for cells that are text; low is NaN, and null false, if a cell cannot be parsed."""
    coded = [factorize(table[name]) for name in names]
    rows, which = np.unique(np.stack([c.codes for c in coded], axis=1), axis=0, return_inverse=True)
    texts = [[*c.texts, None] for c in coded]
    column = CellParser(names, attribute)
    found = np.full((len(rows), 3), np.nan)
    for i, row in enumerate(rows.tolist()):  # distinct cells, a few thousand
        cell = tuple(texts[j][code] for j, code in enumerate(row))
        span = None if cell == (ROOT,) else column.span(cell)
        if span is None or (span.null and span.low is None and not attribute.allows_nulls):
            found[i, 2] = 0.0
        elif span.low is None or span.high is None:
            found[i, 2] = 1.0
        else:
            found[i] = float(span.low), float(span.high), float(span.null)
    low, high, null = found[which.ravel()].T
    return low, high, null > 0


def _other(columns: Sequence[pd.Series], attribute: Attribute) -> tuple[npt.NDArray[np.uint8], list[Codes]]:
    """Return what the cells of an attribute cover, (cells, values); and the columns' cells, release first."""
    coded = [factorize(column) for column in columns]
    known = set(attribute.categories or ()).union(*(c.texts for c in coded[1:]))
    if attribute.hierarchy is not None:
        known |= set(attribute.hierarchy.values)
    sets = {text: _covered(text, attribute, known) for text in coded[0].texts}
    values = [*sorted(known.union(*sets.values()) - {NULL}), NULL]
    place = {text: i for i, text in enumerate(values)}
    cells = dict(place)
    covers = [*np.eye(len(values), dtype=np.uint8)]
    for text, covered in sets.items():
        if covered == {text}:
            continue
        cells[text] = len(covers)
        line = np.zeros(len(values), np.uint8)
        line[[place[v] for v in covered]] = 1
        covers.append(line)
    hidden = place[NULL]
    if not attribute.allows_nulls:  # a null that is not allowed means a suppressed cell
        hidden = len(covers)
        covers.append(np.ones(len(values), np.uint8))
    codes = []
    for i, c in enumerate(coded):
        own = cells if i == 0 else place
        lookup = np.array([*(own[text] for text in c.texts), hidden if i == 0 else place[NULL]], np.int32)
        codes.append(lookup[c.codes])
    return np.array(covers), codes


def _covered(text: str, attribute: Attribute, known: set[str]) -> set[str]:
    """Return the values that a released text represents."""
    if attribute.hierarchy is not None:
        found = {row[0] for row in attribute.hierarchy.rows if text in row}
        root = text == attribute.hierarchy.labels[-1]
        return found | ({NULL} if root else set()) if found else {text}
    if text in known:
        return {text}
    if text == ROOT:
        return known | {NULL}
    return {NULL if value is None else value for value in values_of_set(text, nullable=attribute.nullable)}
