"""What was done to the quasi-identifiers, and the tables it renders to."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, NULL_WORD, is_decimal
from privacy_engine.tables.encoding import EncodedTable, OrderedDomain, domain_labels
from privacy_engine.tables.geometry import class_spans
from privacy_engine.tables.hierarchy import ROOT, Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import (
    SUPPRESSED,
    Intervals,
    Kind,
    Meaning,
    Role,
    bounds_of,
    released_as,
    taken_bounds,
)


@dataclass(frozen=True)
class Interval:
    """The spans of classes in an ordered attribute.

    Attributes:
        lo, hi: Codes of the least and the largest value, shape (c,) int32; the null's twice where all are
            null.
        or_null: Whether a class has nulls in addition to values, shape (c,).
        only_null: Whether it holds nothing but nulls, shape (c,).
    """

    lo: npt.NDArray[np.int32]
    hi: npt.NDArray[np.int32]
    or_null: npt.NDArray[np.bool_]
    only_null: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Points:
    """Values that the boxes of classes must cover in addition to those of their records.

    Attributes:
        codes: Codes as in the recoded table, shape (p, q) int32.
        labels: Class that each must lie in, shape (p,) int64.
    """

    codes: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Recoding:
    """A partition of the records; each class is released with one interval or node an attribute.

    Attributes:
        encoded: Table it recodes.
        labels: Class of each record, 0 .. c - 1 without gaps, shape (n,) int64; -1 = suppressed.
        notes: Figures of the method, for the readers of the release.
        covered: Values that the classes must cover in addition to their records; None: none.
    """

    encoded: EncodedTable
    labels: npt.NDArray[np.int64]
    notes: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    covered: Points | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.encoded),):
            raise ValueError(
                f"labels must be one for each of the {len(self.encoded)} records, got {self.labels.shape}"
            )
        kept = self.labels[self.labels >= 0]
        if len(kept) and np.bincount(kept).min() == 0:
            raise ValueError("class labels must be 0 .. c - 1 without gaps")

    @classmethod
    def of_labels(
        cls,
        encoded: EncodedTable,
        labels: npt.NDArray[np.int64],
        notes: Mapping[str, float] | None = None,
    ) -> "Recoding":
        """A recoding by any labels >= 0; they are renumbered without gaps, -1 stays."""
        kept = labels >= 0
        numbered = np.full(len(labels), -1, dtype=np.int64)
        numbered[kept] = np.unique(labels[kept], return_inverse=True)[1]
        return cls(encoded, numbered, notes=notes or {})

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
        points = self._points
        lo, hi = class_spans(points.codes, points.labels, self.classes, self.encoded.geometry())
        return lo, hi

    @cached_property
    def _points(self) -> Points:
        """All that the classes cover."""
        own = Points(self.encoded.codes, self.labels)
        if self.covered is None:
            return own
        return Points(
            np.concatenate([own.codes, self.covered.codes]), np.concatenate([own.labels, self.covered.labels])
        )

    def interval(self, j: int) -> Interval:
        """Return the tightest spans of the classes in quasi-identifier j, which is ordered."""
        lo, hi = self.spans[0][:, j], self.spans[1][:, j]
        domain = self.encoded.domains[j]
        if not (isinstance(domain, OrderedDomain) and domain.has_null):
            never = np.zeros(len(lo), dtype=np.bool_)
            return Interval(lo, hi, never, never)
        or_null, only_null = (lo < domain.known) & (hi == domain.known), lo == domain.known
        highest = np.where(or_null, lo, hi)
        classes, codes = self.members(j)
        value = codes < domain.known
        np.maximum.at(highest, classes[value], codes[value])
        return Interval(lo, highest, or_null, only_null)

    def members(self, j: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sorted distinct pairs (class, code) of quasi-identifier j."""
        points = self._points
        kept = points.labels >= 0
        size = len(self.encoded.domains[j].values)
        pairs = np.unique(points.labels[kept] * size + points.codes[kept, j])
        classes, codes = np.divmod(pairs, size)
        return classes, codes

    def render(self, intervals: Intervals = Intervals.BOUNDS) -> tuple[pd.DataFrame, DataSchema]:
        """The released table and its schema.

        Suppressed records are omitted. Rows are sorted by their released values, so their order reveals
        nothing about the source's. Ordered attributes become intervals, trees the label of their node,
        categorical attributes without a hierarchy the set ``{a, b}`` of the class's values.

        If all values are null, the cell is null. Otherwise nulls are shown: ``[17, 25] or null``, ``{a, b,
        null}``, and the root of a hierarchy, which covers them. A value that could be mistaken for this is
        quoted.

        Raises:
            SchemaError: If midpoints are requested for an attribute that may be null.
        """
        table, schema = self.render_by_row(intervals)
        return table.reset_index(drop=True), schema

    def render_by_row(self, intervals: Intervals = Intervals.BOUNDS) -> tuple[pd.DataFrame, DataSchema]:
        """Like `render`, with the source row of each released record as the index."""
        require_truthful(self.encoded.schema, intervals)
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
                    attributes.append(_described(released, attribute))
            else:
                columns[attribute.name] = _records(self.encoded.table[attribute.name], kept)
                attributes.append(attribute)
        table = pd.DataFrame(columns)
        order = released_order(table)
        rows = pd.Index(self.encoded.rows[kept][order])
        return table.take(order).set_axis(rows, axis="index"), replace(schema, attributes=tuple(attributes))

    def _render_attribute(
        self, j: int, attribute: Attribute, intervals: Intervals
    ) -> list[tuple[Attribute, pd.Series]]:
        """Released columns of quasi-identifier j, one value a class."""
        domain = self.encoded.domains[j]
        lo = self.spans[0][:, j]
        nullable = attribute.nullable
        text = Attribute(name=attribute.name, role=Role.QUASI_IDENTIFIER, nullable=nullable)
        if isinstance(domain, Hierarchy):
            if attribute.hierarchy is None:
                return [(text, self._sets(j, nullable=nullable))]
            if intervals is Intervals.BOUNDS and attribute.name in self.encoded.ordered:
                return self._cells(lo, *self.encoded.ordered[attribute.name])
            labels = [None if label == NULL else label for label in domain.labels]
            return [(text, pd.Series(np.array(labels, dtype=object)[lo], dtype="str"))]
        cells = self.interval(j)
        if attribute.categories is not None:
            quoted = [_quoted(label, '[],"', nullable=nullable) for label in domain.labels]
            return [(text, _interval_texts(quoted, cells))]
        if intervals is Intervals.TEXT:
            return [(text, _interval_texts(domain.labels, cells))]
        if attribute.dates is not None:
            return _dated_bounds(attribute, domain.values, cells, intervals)
        if intervals is Intervals.MIDPOINT:
            middle = (_ends(domain, cells.lo, up=False) + _ends(domain, cells.hi, up=True)) / 2
            return [(_released(attribute.name, Kind.NUMERIC), middle)]
        ends = self._numbers(attribute, domain, cells)
        return [*ends, _null_column(attribute.name, cells)] if nullable else ends

    def _numbers(
        self, attribute: Attribute, domain: OrderedDomain, cells: Interval
    ) -> list[tuple[Attribute, pd.Series]]:
        """Return the two bounds of a number; null if the code means no value."""
        exact = _exact_type(attribute, self.encoded.table[attribute.name])
        start, stop, _ = bounds_of(attribute.name)
        return [
            (
                _released(name, Kind.NUMERIC, nullable=attribute.nullable),
                _ends(domain, codes, up=up) if exact is None else _exact_ends(domain, codes, exact),
            )
            for name, codes, up in ((start, cells.lo, False), (stop, cells.hi, True))
        ]

    def _cells(
        self, nodes: npt.NDArray[np.int32], attribute: Attribute, domain: OrderedDomain
    ) -> list[tuple[Attribute, pd.Series]]:
        """Return the bounds of a number or date released exactly or suppressed: value or null, twice."""
        codes = np.minimum(nodes, domain.known)
        never = np.zeros(len(codes), dtype=np.bool_)
        cells, withheld = Interval(codes, codes, never, never), replace(attribute, nullable=True)
        if attribute.dates is None:
            return self._numbers(withheld, domain, cells)
        return _dated_bounds(withheld, np.append(domain.values, np.nan), cells, Intervals.BOUNDS)[:2]

    def _sets(self, j: int, *, nullable: bool) -> pd.Series:
        classes, codes = self.members(j)
        values = domain_labels(self.encoded.domains[j])
        labels = [_quoted(label, '{},"', nullable=nullable) for label in values]
        null = values.index(NULL) if NULL in values else -1
        parts = np.split(codes, np.flatnonzero(np.diff(classes)) + 1)
        return pd.Series([_set_text(labels, p, null) for p in parts], dtype="str")


def require_truthful(schema: DataSchema, intervals: Intervals) -> None:
    """Raise for a form of intervals that cannot show the nulls of a class, or whose column names are taken.

    Raises:
        SchemaError: Naming the columns and the remedy.
    """
    spanned = [a for a in schema.quasi_identifiers if a.ordered and a.categories is None]
    if intervals is Intervals.BOUNDS and (taken := taken_bounds([a.name for a in spanned], schema.names)):
        raise SchemaError(taken)
    numbers = [a.name for a in spanned if a.nullable]
    if intervals is Intervals.MIDPOINT and numbers:
        raise SchemaError(
            f"{numbers} may be null, but a midpoint does not show whether it includes nulls. Release "
            "intervals as text or bounds, or drop the nulls at ingest"
        )


def as_released(schema: DataSchema, columns: Collection[str]) -> DataSchema:
    """Return the schema of a release with the bounds of those intervals that are released as two columns.

    Args:
        schema: Schema of the source, without attributes that are not released.
        columns: Columns of the release.
    """
    shown = {a.name: released_as(a.name, columns) or (a.name,) for a in schema.quasi_identifiers}
    attributes: list[Attribute] = []
    for a in schema.attributes:
        if shown.get(a.name, (a.name,)) == (a.name,):
            attributes.append(a)
            continue
        flag = bounds_of(a.name)[2]
        attributes += [
            _null_flag(a.name)
            if name == flag
            else replace(_released(name, a.kind, nullable=a.nullable), meaning=a.about)
            for name in shown[a.name]
        ]
    tables = tuple(
        replace(t, columns=tuple(name for c in t.columns for name in shown.get(c, (c,))))
        for t in schema.tables
    )
    person = schema.person and replace(schema.person, tables=tables)
    return replace(schema, attributes=tuple(attributes), person=person)


def null_forms(source: DataSchema, released: DataSchema) -> dict[str, str]:
    """Explain in a sentence how the columns of a release show nulls, for quasi-identifiers that may be null.

    Args:
        source: Schema of the recoded table.
        released: Schema of the release.
    """
    found: dict[str, str] = {}
    for attribute in source.quasi_identifiers:
        name = attribute.name
        if attribute.hierarchy is not None and name not in released.names:
            found |= dict.fromkeys(released_as(name, released.names), SUPPRESSED)
        if not attribute.nullable:
            continue
        if attribute.hierarchy is not None or (attribute.dates is not None and attribute.dates.calendar):
            root = attribute.hierarchy.rows[0][-1] if attribute.hierarchy else ROOT
            otherwise = f"the label {root} also covers null"
        elif attribute.kind is Kind.CATEGORICAL:
            otherwise = f"a set covers null if it ends in {NULL_WORD}"
        elif name in released.names:
            otherwise = f"a cell covers null if it ends in 'or {NULL_WORD}'"
        else:
            otherwise = f"it also covers null if {bounds_of(name)[2]} is true"
        sentence = f"null: all records of the class are null; otherwise {otherwise}"
        found |= dict.fromkeys(released_as(name, released.names)[:2], sentence)
    return found


def code_forms(source: DataSchema, released: DataSchema) -> dict[str, str]:
    """Explain the codes in the columns of a release, one sentence each.

    Args:
        source: Schema of the released table, with its values coded.
        released: Schema of the release.
    """
    sentences = {a.name: a.codes_in_words() for a in source.attributes}
    return {
        column: codes
        for name, codes in sentences.items()
        if codes
        for column in released_as(name, released.names)[:2]
    }


def _set_text(labels: Sequence[str], codes: npt.NDArray[np.int64], null: int) -> str | None:
    if len(codes) == 1:
        return None if codes[0] == null else labels[codes[0]]
    texts = sorted(labels[x] for x in codes if x != null)
    return "{" + ", ".join([*texts, NULL_WORD] if null in codes else texts) + "}"


def _interval_texts(labels: Sequence[str], cells: Interval) -> pd.Series:
    texts: list[str | None] = [
        labels[a] if a == b else f"[{labels[a]}, {labels[b]}]"
        for a, b in zip(cells.lo, cells.hi, strict=True)
    ]
    for c in np.flatnonzero(cells.or_null):
        texts[c] = f"{texts[c]} or {NULL_WORD}"
    for c in np.flatnonzero(cells.only_null):
        texts[c] = None
    return pd.Series(texts, dtype="str")


def _ends(domain: OrderedDomain, codes: npt.NDArray[np.int32], *, up: bool) -> pd.Series:
    """(c,) the values of codes; where one is no float, the next that the interval covers it with."""
    ends = np.full(domain.known + 1, np.nan)
    for code in np.unique(codes[codes < domain.known]):
        value = float(domain.labels[code])
        written, meant = Decimal(value), Decimal(domain.labels[code])
        if written < meant if up else written > meant:
            value = float(np.nextafter(value, np.inf if up else -np.inf))
        ends[code] = value
    return pd.Series(ends[codes])


def _exact_type(attribute: Attribute, column: pd.Series) -> Any:
    """The type in which the values of a column are written without rounding; None: as floats.

    It follows only from the type of the source and from the schema, so it is the same for all parts of a
    table.
    """
    if attribute.coding is not None and not attribute.coding.whole:
        return None
    if is_decimal(column):
        return column.dtype
    if not pd.api.types.is_integer_dtype(column.dtype):
        return None
    name = "UInt64" if pd.api.types.is_unsigned_integer_dtype(column.dtype) else "Int64"
    return name if attribute.nullable else name.lower()


def _exact_ends(domain: OrderedDomain, codes: npt.NDArray[np.int32], exact: Any) -> pd.Series:
    """(c,) the values of codes in a type that holds them all."""
    labels, places = domain.labels[: domain.known], np.minimum(codes, domain.known)
    if isinstance(exact, pd.ArrowDtype):
        decimals = [*map(Decimal, labels), None]
        return pd.Series([decimals[place] for place in places.tolist()], dtype=exact)
    # Not by pandas, which reads large unsigned integers mixed with small ones as floats.
    ends = np.array([*map(int, labels), 0], dtype=exact.lower())[places]
    return pd.Series(ends if exact.islower() else pd.arrays.IntegerArray(ends, places == domain.known))


def _dated_bounds(
    attribute: Attribute, values: npt.NDArray[np.float64], cells: Interval, intervals: Intervals
) -> list[tuple[Attribute, pd.Series]]:
    """The first and the last day or second of a class, in whole periods, or what is between them."""
    form, nullable = attribute.dates, attribute.nullable
    assert form is not None
    first, last = values[cells.lo], form.last(values[cells.hi])
    shown = dict(zip(bounds_of(attribute.name), (first, last), strict=False))
    if intervals is Intervals.MIDPOINT:
        shown = {attribute.name: (first + last) // 2}
    ends = [
        (_released(name, attribute.kind, nullable=nullable), form.clock.column(numbers))
        for name, numbers in shown.items()
    ]
    return [*ends, _null_column(attribute.name, cells)] if nullable else ends


def _released(name: str, kind: Kind, *, nullable: bool = False) -> Attribute:
    return Attribute(name=name, role=Role.QUASI_IDENTIFIER, kind=kind, nullable=nullable)


def _null_column(name: str, cells: Interval) -> tuple[Attribute, pd.Series]:
    """Return the column that shows which classes have nulls."""
    return _null_flag(name), pd.Series(cells.or_null | cells.only_null)


def _described(released: Attribute, attribute: Attribute) -> Attribute:
    """Return a released column with its attribute."""
    described = replace(released, meaning=released.meaning or attribute.about)
    if released.name != attribute.name or not (attribute.is_free_text or attribute.unlisted):
        return described
    return replace(described, unlisted=True, free_text=attribute.free_text)


def _null_flag(name: str) -> Attribute:
    return Attribute(name=bounds_of(name)[2], role=Role.QUASI_IDENTIFIER, meaning=Meaning.OTHER)


def _records(column: pd.Series, rows: npt.NDArray[np.intp]) -> pd.Series:
    """Some cells of a column; a categorical type would list the values of all others, so it is dropped."""
    cells = column.take(rows).reset_index(drop=True)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Series(np.asarray(cells), name=column.name)
    return cells


def _quoted(label: str, marks: str, *, nullable: bool) -> str:
    """Quote a value that could be mistaken for the punctuation of a set or interval.

    A value that ends in the word for null is quoted as well, if there may be nulls.
    """
    mistaken = any(mark in label for mark in marks) or (nullable and label.endswith(NULL_WORD))
    return '"' + label.replace('"', '""') + '"' if mistaken else label


def released_order(table: pd.DataFrame) -> npt.NDArray[np.intp]:
    """Return the row order by released values only."""
    ranks = [pd.factorize(table[name], sort=True)[0] for name in reversed(table.columns)]
    return np.lexsort(ranks) if ranks else np.arange(len(table))
