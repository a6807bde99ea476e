"""Public domains: what a column may hold, as integer codes, and back to values. Nothing is learned from data.

A domain follows from the schema, from the level at which a method reads a hierarchy, and from the declared
type of the column, which is as public as its name. A differentially private method may look at nothing else
before it adds noise: a category list or a bound that was read from the records would itself be a release.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import factorize, floats, is_number
from privacy_engine.tables.date_form import DateForm
from privacy_engine.tables.schema import Attribute, DataSchema
from privacy_engine.vocabulary import Kind, counted, domains_missing

Codes = npt.NDArray[np.int64]

DEFAULT_BINS = 16  # of a numeric attribute whose schema names no number of bins
SINGLE_VALUES = 32  # whole numbers between bounds that get a bin each where no number of bins is named
LARGEST_DOMAIN = 2**16


class Storage(StrEnum):
    """The declared type of a column; a release has the same."""

    WHOLE = "whole"
    REAL = "real"
    TRUTH = "truth"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @classmethod
    def of(cls, column: pd.Series, attribute: Attribute) -> "Storage":
        """The type of a column. A nullable column of numpy's whole numbers is REAL, of its truths TEXT.

        numpy has no null among whole numbers and truths, and pandas turns them into other types where one
        occurs, so that the type of such a column would reveal whether one does. The types of
        `with_nullable_types` hold nulls and are kept.
        """
        if attribute.dates is not None:
            return cls(attribute.kind.value)
        kept = not attribute.nullable or not isinstance(column.dtype, np.dtype)
        if is_number(column):
            return cls.WHOLE if kept and pd.api.types.is_integer_dtype(column.dtype) else cls.REAL
        return cls.TRUTH if kept and pd.api.types.is_bool_dtype(column.dtype) else cls.TEXT


def with_nullable_types(
    frame: pd.DataFrame, schema: DataSchema, earlier: Mapping[str, Storage] | None = None
) -> pd.DataFrame:
    """A frame whose nullable whole numbers and truths have types that hold nulls, whether one occurs or not.

    For frames of typed files, whose columns have a declared type; the values stay.

    Args:
        frame: the records.
        schema: says which columns are nullable.
        earlier: storages of the release that this one goes on from: earlier versions of this package took
            nullable whole numbers for REAL and truths for TEXT, and the domains of a series stay.

    >>> schema = DataSchema.from_dict({"age": {"kind": "numeric", "bounds": [0, 9], "nullable": True}})
    >>> with_nullable_types(pd.DataFrame({"age": [1, 2]}), schema).dtypes.tolist()
    [Int64Dtype()]
    """
    kinds = {a.name: frame[a.name].dtype for a in schema.attributes if a.nullable and a.name in frame.columns}
    whole = {name: kind for name, kind in kinds.items() if isinstance(kind, np.dtype) and kind.kind in "iub"}
    typed = frame.astype({name: pd.array(np.zeros(0, kind)).dtype for name, kind in whole.items()})
    for name in kinds:
        before = (earlier or {}).get(name)
        if before is Storage.REAL and pd.api.types.is_integer_dtype(typed[name]):
            typed[name] = floats(typed[name])
        elif before is Storage.TEXT and pd.api.types.is_bool_dtype(typed[name]):
            typed[name] = typed[name].map({True: "True", False: "False"}).astype("string")
    return typed


class PublicDomain(Protocol):
    """The values of one attribute as codes 0 .. size - 1; a null, where allowed, is the last."""

    @property
    def name(self) -> str:
        """The attribute."""

    @property
    def size(self) -> int:
        """Number of codes."""

    def encode(self, column: pd.Series) -> Codes:
        """(n,) codes of a column that fits the schema."""

    def decode(self, codes: Codes, rng: np.random.Generator) -> pd.Series:
        """A column of values, each drawn uniformly among those that its code stands for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BinnedDomain:
    """Numbers between public bounds, in bins.

    Attributes:
        name: the attribute.
        edges: (b + 1,) ascending. Bin i holds edges[i] <= value < edges[i + 1], the last its end too; of
            whole numbers it holds edges[i] .. edges[i + 1] - 1.
        whole: whether values are whole numbers.
        storage: the type of the column.
        nullable: whether null is a value.
    """

    name: str
    edges: npt.NDArray[np.float64]
    whole: bool
    storage: Storage
    nullable: bool

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + self.nullable

    def encode(self, column: pd.Series) -> Codes:
        """(n,) the bin of each value."""
        values = floats(column)
        codes = np.searchsorted(self.edges[1:-1], values, side="right")
        return np.where(np.isnan(values), self.bins, codes)

    def decode(self, codes: Codes, rng: np.random.Generator) -> pd.Series:
        """(n,) a uniform value of each bin, in the type of the column."""
        null = codes == self.bins
        place = np.where(null, 0, codes)
        low, high = self.edges[place], self.edges[place + 1]
        values = low + rng.random(len(codes)) * (high - low)
        if self.whole:
            values = np.minimum(np.floor(values), high - 1)
        else:
            values = np.minimum(values, np.nextafter(high, low))  # rounding must not reach the next bin
        if self.storage is Storage.WHOLE:
            whole = pd.Series(values.astype(np.int64), name=self.name)
            return whole.astype(pd.Int64Dtype()).mask(null) if self.nullable else whole
        return pd.Series(np.where(null, np.nan, values), name=self.name)


@dataclass(frozen=True, kw_only=True, eq=False)
class DatedDomain:
    """Dates or times between public bounds, in bins of successive periods.

    Attributes:
        name: the attribute.
        form: how it is cut into periods.
        low: the first day or second of the first period.
        edges: (b + 1,) int64 ascending: bin i holds the periods edges[i] .. edges[i + 1] - 1, from 0.
        nullable: whether null is a value.
    """

    name: str
    form: DateForm
    low: float
    edges: Codes
    nullable: bool

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + self.nullable

    def encode(self, column: pd.Series) -> Codes:
        """(n,) the bin of each value of a column in the one type of `DataSchema.normalized`."""
        numbers = np.floor(floats(column))
        null = np.isnan(numbers)
        places = self.form.places(np.where(null, self.low, numbers), self.low)
        return np.where(null, self.bins, np.searchsorted(self.edges[1:-1], places, side="right"))

    def decode(self, codes: Codes, rng: np.random.Generator) -> pd.Series:
        """(n,) a uniform period of each bin, by its first day or second."""
        null = codes == self.bins
        bins = np.where(null, 0, codes)
        low, high = self.edges[bins], self.edges[bins + 1]
        places = np.minimum(low + np.floor(rng.random(len(codes)) * (high - low)).astype(np.int64), high - 1)
        return self.form.clock.column(np.where(null, np.nan, self.form.starts(self.low, places)), self.name)

    def spans(self) -> list[tuple[str, str]]:
        """The first and the last period of each bin."""
        ends = (self.form.starts(self.low, places) for places in (self.edges[:-1], self.edges[1:] - 1))
        return list(zip(*map(self.form.labels, ends), strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledDomain:
    """Listed values, or groups of them.

    Attributes:
        name: the attribute.
        labels: (v,) the text of each value.
        groups: (v,) int64, the code of each value; shared by values under
            one node where a hierarchy is read above its leaves.
        storage: the type of the column.
        nullable: whether null is a value.
    """

    name: str
    labels: tuple[str, ...]
    groups: Codes
    storage: Storage
    nullable: bool

    @property
    def size(self) -> int:
        """Number of codes."""
        return int(self.groups.max()) + 1 + self.nullable

    def encode(self, column: pd.Series) -> Codes:
        """(n,) the code of each value."""
        coded = factorize(column)
        code_of = dict(zip(self.labels, self.groups.tolist(), strict=True))
        codes = np.array([*(code_of[text] for text in coded.texts), self.size - 1], dtype=np.int64)
        return codes[coded.codes]  # a null, -1, reads the last

    def decode(self, codes: Codes, rng: np.random.Generator) -> pd.Series:
        """(n,) a uniform value of each code, in the type of the column."""
        groups = np.append(self.groups, self.size - 1) if self.nullable else self.groups
        members = np.argsort(groups, kind="stable")
        counts = np.bincount(groups, minlength=self.size)
        first = np.cumsum(counts) - counts
        pick = first[codes]
        if counts.max() > 1:
            pick = pick + (rng.random(len(codes)) * counts[codes]).astype(np.int64)
        return self._values.take(members[pick]).reset_index(drop=True)

    @cached_property
    def _values(self) -> pd.Series:
        """(v,) or (v + 1,) what the labels stand for, with the null where there is one."""
        labels: list[str | None] = [*self.labels, None] if self.nullable else list(self.labels)
        if self.storage is Storage.TRUTH and set(self.labels) <= {"True", "False"}:
            truths = [None if label is None else label == "True" for label in labels]
            return pd.Series(truths, name=self.name, dtype="boolean" if self.nullable else "bool")
        try:
            if self.storage is Storage.WHOLE:
                whole = [None if label is None else int(label) for label in labels]
                return pd.Series(whole, name=self.name, dtype="Int64" if self.nullable else "int64")
            if self.storage is Storage.REAL:
                numbers = [math.nan if label is None else float(label) for label in labels]
                return pd.Series(numbers, name=self.name, dtype=np.float64)
        except ValueError:
            pass  # a column of numbers for which the schema lists other texts, too: released as text
        return pd.Series(labels, dtype="str", name=self.name)


def public_domain(attribute: Attribute, storage: Storage, level: int = 0) -> PublicDomain:
    """The domain of an attribute: its bins between bounds, else its categories, else its hierarchy's leaves.

    Args:
        attribute: with a public domain.
        storage: the declared type of the column.
        level: of the hierarchy at which values are told apart; 0 is the values themselves.

    Raises:
        SchemaError: if the domain is not public, too large, or has no such level.
    """
    if not attribute.has_public_domain:
        raise SchemaError(domains_missing([attribute.name]))
    if level and (attribute.hierarchy is None or not 0 <= level <= attribute.hierarchy.height):
        raise SchemaError(
            f"level {level} of {attribute.name!r} must be a level of its hierarchy: "
            + (f"0 to {attribute.hierarchy.height}" if attribute.hierarchy else "it has none")
        )
    domain: PublicDomain
    if attribute.dates is not None and attribute.bounds is not None:
        domain = DatedDomain(
            name=attribute.name,
            form=attribute.dates,
            low=attribute.bounds[0],
            edges=_dated_edges(attribute, attribute.dates, attribute.bounds),
            nullable=attribute.nullable,
        )
    elif attribute.bounds is not None and attribute.hierarchy is None:
        whole = storage is Storage.WHOLE or attribute.kind is Kind.ORDINAL
        domain = BinnedDomain(
            name=attribute.name,
            edges=_edges(attribute, whole),
            whole=whole,
            storage=storage,
            nullable=attribute.nullable,
        )
    else:
        labels, groups = _labels(attribute, level)
        domain = LabelledDomain(
            name=attribute.name, labels=labels, groups=groups, storage=storage, nullable=attribute.nullable
        )
    if domain.size > LARGEST_DOMAIN:
        raise SchemaError(
            f"{attribute.name!r} has {domain.size} values, at most {LARGEST_DOMAIN} can be counted: "
            "give it fewer bins, or a hierarchy and a level of it"
        )
    return domain


def public_domains(
    schema: DataSchema, storages: Mapping[str, Storage], levels: Mapping[str, int]
) -> tuple[PublicDomain, ...]:
    """The domains of all attributes but the identifiers, in the schema's order.

    Raises:
        SchemaError: as ``public_domain``, or if a level is given for an attribute that is not there.
    """
    require_public_domains(schema)
    released = schema.without_identifiers()
    if unknown := sorted(set(levels) - set(released.names)):
        raise SchemaError(f"levels are given for {unknown}, which the schema does not release")
    return tuple(public_domain(a, storages[a.name], levels.get(a.name, 0)) for a in released.attributes)


def require_public_domains(schema: DataSchema) -> None:
    """Refuse a schema that leaves a domain to the data; no record is needed for that.

    Raises:
        SchemaError: naming every such attribute and the remedy.
    """
    if missing := [a.name for a in schema.without_identifiers().attributes if not a.has_public_domain]:
        raise SchemaError(domains_missing(missing))
    require_unlinked(schema)


def require_unlinked(schema: DataSchema) -> None:
    """Refuse to link the rows of a person, for methods that make no classes of trajectories.

    Raises:
        SchemaError: naming the column and the remedy.
    """
    if schema.linked:
        raise SchemaError(
            f"the rows of {schema.by} are to be linked, and the method makes no classes of whole "
            "trajectories: take `rows: linked` out of person, or take an anonymizer"
        )


def require_row_each(schema: DataSchema) -> None:
    """Refuse a schema by which several rows may be of one person, for methods whose claim is about one row.

    Raises:
        SchemaError: naming the column and the remedy.
    """
    if schema.by:
        raise SchemaError(
            f"{schema.by} names the person of each row, and what the method claims is about one row: "
            "somebody with m rows would have m times the loss; aggregate the table to one row a person and "
            "leave `person` out, or take an anonymizer"
        )


def _edges(attribute: Attribute, whole: bool) -> npt.NDArray[np.float64]:
    low, high = attribute.bounds or (0.0, 1.0)
    if not whole:
        return np.linspace(low, high, (attribute.bins or DEFAULT_BINS) + 1)
    first, count = math.ceil(low), math.floor(high) - math.ceil(low) + 1
    if count < 1:
        raise SchemaError(f"the bounds of {attribute.name!r} hold no whole number: widen them")
    return np.array([first + edge for edge in _even_edges(attribute, count)], dtype=np.float64)


def _even_edges(attribute: Attribute, count: int) -> list[int]:
    """The first of so many values of each bin, from 0: bins differ in width by one at most."""
    default = count if count <= SINGLE_VALUES else DEFAULT_BINS
    bins = min(attribute.bins or default, count)
    return [-(-i * count // bins) for i in range(bins + 1)]


def _dated_edges(attribute: Attribute, form: DateForm, bounds: tuple[float, float]) -> Codes:
    """The first period of each bin, from 0: of bins of equal numbers of periods, or of the unit of `bin`."""
    count = int(form.places(np.array([bounds[1]]), bounds[0])[0]) + 1
    if form.bin is None:
        return np.array(_even_edges(attribute, count), dtype=np.int64)
    first, last = form.clock.index(np.array(bounds, dtype=np.int64), form.bin).tolist()
    later = form.clock.starts(np.arange(first + 1, min(last, first + LARGEST_DOMAIN) + 1), form.bin)
    return np.array([0, *form.places(later.astype(np.float64), bounds[0]), count], dtype=np.int64)


def _labels(attribute: Attribute, level: int) -> tuple[tuple[str, ...], Codes]:
    """The values, and for each the rank of its node at the level, among those that hold a value."""
    if attribute.hierarchy is None:
        labels = attribute.categories or ()
        return labels, np.arange(len(labels))
    tree = attribute.hierarchy
    labels = attribute.categories or tree.values
    nodes = tree.at_level(level)[[tree.code(label) for label in labels]]
    return labels, np.unique(nodes, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedTable:
    """The records of a table as codes of public domains.

    Attributes:
        domains: (d,) what the codes of each attribute mean.
        storages: the declared type of each column.
        codes: (d, n) uint8, or uint16 where a domain has more than 256 values; C-contiguous.
        weights: (n,) int64 >= 1, how often each record occurs, where equal records stand here once; None
            where each stands for itself.
        persons: how many persons contributed the records, where several rows may be of one; None where each
            record is of another.
        each: most records that change where all rows of one person are replaced.
    """

    domains: tuple[PublicDomain, ...]
    storages: Mapping[str, Storage]
    codes: npt.NDArray[Any]
    weights: Codes | None = None
    persons: int | None = None
    each: int = 1

    @classmethod
    def encode(
        cls, table: pd.DataFrame, schema: DataSchema, levels: Mapping[str, int] | None = None
    ) -> "CodedTable":
        """Check a table against its schema and encode all but its identifiers.

        Args:
            table: the records.
            schema: with a public domain for each attribute.
            levels: level of the hierarchy at which an attribute's values are told apart; 0 where not named.

        Raises:
            SchemaError: if a domain is not public, or the table does not fit the schema.
        """
        require_public_domains(schema)  # before any value is read
        schema.check(table)
        released = schema.without_identifiers().attributes
        _refuse_undeclared_nulls(table, released)
        table = schema.normalized(table)
        storages = {a.name: Storage.of(table[a.name], a) for a in released}
        domains = public_domains(schema, storages, levels or {})
        codes = np.empty((len(domains), len(table)), dtype=code_type(domains))
        for row, domain in zip(codes, domains, strict=True):
            row[:] = domain.encode(table[domain.name])
        return cls(domains=domains, storages=storages, codes=codes)

    def __len__(self) -> int:
        """Number of records, each as often as it occurs."""
        return int(self.codes.shape[1] if self.weights is None else self.weights.sum())

    @property
    def names(self) -> tuple[str, ...]:
        """(d,) the attributes."""
        return tuple(domain.name for domain in self.domains)

    @property
    def sizes(self) -> tuple[int, ...]:
        """(d,) number of codes of each attribute."""
        return tuple(domain.size for domain in self.domains)

    def take(self, rows: npt.NDArray[np.int64]) -> "CodedTable":
        """Some of the records, by their numbers 0 .. len - 1, ascending, each at most once.

        Where equal records stand here once, those of the first have the first numbers, and so on: which
        numbers they have does not matter to who draws every set of them alike.
        """
        if self.weights is None:
            return replace(self, codes=np.ascontiguousarray(self.codes[:, rows]))
        drawn = np.diff(np.searchsorted(rows, np.cumsum(self.weights)), prepend=0)
        kept = np.flatnonzero(drawn)
        return replace(self, codes=np.ascontiguousarray(self.codes[:, kept]), weights=drawn[kept])


def code_type(domains: Iterable[PublicDomain]) -> type[np.uint8] | type[np.uint16]:
    """The smallest type that holds the codes of all the domains."""
    return np.uint8 if max(domain.size for domain in domains) <= 256 else np.uint16


def decode(
    codes: npt.NDArray[Any], domains: Iterable[PublicDomain], rng: np.random.Generator
) -> pd.DataFrame:
    """A table of values from codes (d, n)."""
    columns = [domain.decode(row.astype(np.int64), rng) for row, domain in zip(codes, domains, strict=True)]
    return pd.concat(columns, axis=1)


def _refuse_undeclared_nulls(table: pd.DataFrame, attributes: Iterable[Attribute]) -> None:
    """An insensitive attribute may hold nulls elsewhere; here a null needs a code."""
    counts = {a.name: int(table[a.name].isna().sum()) for a in attributes if not a.nullable}
    if any(counts.values()):
        raise undeclared_nulls(counts)


def undeclared_nulls(counts: Mapping[str, int]) -> SchemaError:
    """The refusal of nulls without a code: attribute -> how many."""
    return SchemaError(
        "; ".join(
            f"{name}: {counted(count, 'value is', 'values are')} null"
            for name, count in counts.items()
            if count
        )
        + ": declare the attribute nullable, or drop them at ingest"
    )
