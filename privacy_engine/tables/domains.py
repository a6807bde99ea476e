"""Public domains: the values a column may have, as integer codes, and back. Nothing is learned from data.

A domain follows from the schema, from the level at which a method reads a hierarchy, and from the declared
type of the column, which is as public as its name. A differentially private method may not look at anything
else before it adds noise: a category list or a bound that was read from the records would itself be a
release.
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
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import factorize, floats, is_number
from privacy_engine.tables.date_form import DateForm
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.scales import (
    DEFAULT_BINS,
    FINE,
    SMALLEST,
    Scale,
    are_wide,
    log_edges,
    log_width,
    positions,
    values_at,
)
from privacy_engine.tables.schema import DataSchema
from privacy_engine.tables.spread import Spread
from privacy_engine.vocabulary import Kind, counted, domains_missing

Codes = npt.NDArray[np.int64]

SINGLE_VALUES = 32  # most whole numbers between bounds that get a bin each if no number of bins is given
QUANTILE_BINS = 12  # bins between private quantiles of an attribute without a number of bins
COARSE = 10.0  # factor between the ends of a bin, above which most values may lie in one
MOST_QUANTILES = 32  # bins between private quantiles: more would be narrower than their noise
LARGEST_DOMAIN = 2**16


class Storage(StrEnum):
    """The declared type of a column, which its release has as well."""

    WHOLE = "whole"
    REAL = "real"
    TRUTH = "truth"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @classmethod
    def of(cls, column: pd.Series, attribute: Attribute) -> "Storage":
        """Return the type of a column. Nullable whole numbers of numpy become REAL, truth values TEXT.

        numpy has no null among whole numbers and truth values, and pandas converts them to other types if one
        occurs, so the type of such a column would reveal whether one does. The types of `with_nullable_types`
        have nulls and are kept.
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
    """Give nullable whole numbers and truth values types that have nulls, whether one occurs or not.

    For frames from typed files, whose columns have a declared type; the values do not change.

    Args:
        frame: Records with the columns of the schema.
        schema: Schema, which has the nullable columns.
        earlier: Storages of the earlier release in a series, whose domains must not change: earlier versions
            of this package used REAL for nullable whole numbers and TEXT for truth values.

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
    """The values of one attribute as codes 0 .. size - 1; null, if allowed, is the last."""

    @property
    def name(self) -> str:
        """The attribute."""

    @property
    def size(self) -> int:
        """Number of codes."""

    def encode(self, column: pd.Series) -> Codes:
        """(n,) codes of a column that fits the schema."""

    def decode(self, codes: Codes, rng: np.random.Generator) -> pd.Series:
        """Return a column of values, each drawn uniformly among those of its code."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BinnedDomain:
    """Numbers between public bounds, in bins.

    Attributes:
        name: Name of the attribute.
        edges: Edges, ascending, shape (b + 1,). Bin i holds edges[i] <= value < edges[i + 1], and the last
            bin its end as well; for whole numbers, a bin holds edges[i] .. edges[i + 1] - 1.
        whole: Whether values are whole numbers.
        storage: Type of the column.
        nullable: Whether null is a value.
        bounds: Ends of a logarithmic scale, on which the values of a bin are drawn; None for a linear one.
        into: Number of bins that are to be joined from these, by noisy counts of the records; None if these
            are final. As many as there are: only outer bins that noise hides are joined.
        spread: Where the values of the bins lie on the scale; None: uniformly within each bin.
    """

    name: str
    edges: npt.NDArray[np.float64]
    whole: bool
    storage: Storage
    nullable: bool
    bounds: tuple[float, float] | None = None
    into: int | None = None
    spread: Spread | None = None

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
        """(n,) a value of each bin, uniform on its scale or by its spread, in the type of the column."""
        null = codes == self.bins
        place = np.where(null, 0, codes)
        low, high = self.edges[place], self.edges[place + 1]
        drawn = rng.random(len(codes))
        if self.spread is not None:
            values = self.spread.values(place, drawn)
            low, high = self.edges[0], self.edges[-1]
        elif self.bounds is not None:
            first, last = positions(low, self.bounds), positions(high, self.bounds)
            values = np.clip(values_at(first + drawn * (last - first), self.bounds), low, high)
        else:
            values = low + drawn * (high - low)
        if self.whole:
            values = np.clip(np.floor(values), low, high - 1)
        else:
            values = np.minimum(values, np.nextafter(high, low))  # rounding must not reach the next bin
        if self.bounds is not None:
            values = np.where(np.abs(values) <= SMALLEST, 0.0, values)  # of the bin of zero
        if self.storage is Storage.WHOLE:
            whole = pd.Series(values.astype(np.int64), name=self.name)
            return whole.astype(pd.Int64Dtype()).mask(null) if self.nullable else whole
        return pd.Series(np.where(null, np.nan, values), name=self.name)


@dataclass(frozen=True, kw_only=True, eq=False)
class DatedDomain:
    """Dates or times between public bounds, in bins of successive periods.

    Attributes:
        name: Name of the attribute.
        form: Form that cuts it into periods.
        low: First day or second of the first period.
        edges: First period of each bin, ascending: bin i holds the periods edges[i] .. edges[i + 1] - 1, from
            0, shape (b + 1,) int64.
        nullable: Whether null is a value.
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
        """(n,) the bin of each value of a column in the form of `DataSchema.normalized`."""
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
        name: Name of the attribute.
        labels: Text of each value, shape (v,).
        groups: Code of each value, shape (v,) int64; shared by values under
            one node if a hierarchy is read above its leaves.
        storage: Type of the column.
        nullable: Whether null is a value.
        tree: Hierarchy of the values; None if the schema declares none.
        level: Level of the hierarchy at which values are distinguished.
    """

    name: str
    labels: tuple[str, ...]
    groups: Codes
    storage: Storage
    nullable: bool
    tree: Hierarchy | None = None
    level: int = 0

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
        """(v,) or (v + 1,) the values of the labels, with null if there is one."""
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
            pass  # a numeric column for which the schema also lists other texts: released as text
        return pd.Series(labels, dtype="str", name=self.name)


def public_domain(
    attribute: Attribute, storage: Storage, level: int = 0, *, fine: bool = False, linear: bool = False
) -> PublicDomain:
    """Return the domain of an attribute: bins between bounds, else categories, else the hierarchy's leaves.

    Args:
        attribute: Attribute with a public domain.
        storage: Declared type of the column.
        level: Level of the hierarchy at which values are distinguished; 0 for the values themselves.
        fine: Whether numbers on a logarithmic scale have bins that are still to be joined by noisy counts,
            see `privacy_engine.synthesizers.quantile_bins`; else they have bins equal in the logarithm.
        linear: Whether numbers without a scale have equal bins even where bounds are wide.

    Raises:
        SchemaError: If the domain is not public, too large, or has no such level.
    """
    if not attribute.has_public_domain:
        raise SchemaError(domains_missing([attribute.name]))
    if level and (attribute.hierarchy is None or not 0 <= level <= attribute.hierarchy.height):
        raise SchemaError(
            f"level {level} of {attribute.name!r} must be a level of its hierarchy, "
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
        scale = Scale.LINEAR if linear and attribute.scale is None else scale_of(attribute)
        edges = _edges(attribute, scale, whole=whole, fine=fine)
        bins = min(attribute.bins or QUANTILE_BINS, MOST_QUANTILES)
        if scale is Scale.LOG:
            bins = len(edges) - 1
        domain = BinnedDomain(
            name=attribute.name,
            edges=edges,
            whole=whole,
            storage=storage,
            nullable=attribute.nullable,
            bounds=None if scale is Scale.LINEAR else _ends(attribute, whole=whole),
            into=bins if fine and scale is not Scale.LINEAR else None,
        )
    else:
        labels, groups = _labels(attribute, level)
        domain = LabelledDomain(
            name=attribute.name,
            labels=labels,
            groups=groups,
            storage=storage,
            nullable=attribute.nullable,
            tree=attribute.hierarchy,
            level=level,
        )
    if domain.size > LARGEST_DOMAIN:
        raise SchemaError(
            f"{attribute.name!r} has {domain.size} values, but at most {LARGEST_DOMAIN} can be counted. "
            "Give it fewer bins, or a hierarchy and a level of it"
        )
    return domain


def scale_of(attribute: Attribute) -> Scale:
    """Return the scale of a number with bounds: that of the schema, else by its bounds and number of bins."""
    if attribute.scale is not None:
        return attribute.scale
    binned = attribute.bounds is not None and attribute.dates is None and attribute.hierarchy is None
    if binned and are_wide(attribute.bounds or (0.0, 1.0), attribute.bins or DEFAULT_BINS):
        return Scale.QUANTILES
    return Scale.LINEAR


def with_equal_bins(schema: DataSchema) -> DataSchema:
    """Return a schema in which numbers without a scale have equal bins, even if their bounds are wide."""
    attributes = (
        replace(a, scale=Scale.LINEAR) if a.scale is None and scale_of(a) is Scale.QUANTILES else a
        for a in schema.attributes
    )
    return replace(schema, attributes=tuple(attributes))


def coarse_scales(schema: DataSchema, *, linear: bool = False) -> list[str]:
    """Return a warning for each released number whose bins cannot distinguish most values, by its bounds.

    Only bounds and numbers of bins are read, never a record.

    Args:
        schema: Schema of the records.
        linear: Whether the method has bins of equal width for all numbers.
    """
    found = []
    for a in schema.without_identifiers().attributes:
        if a.bounds is None or a.dates is not None or a.hierarchy is not None or a.categories is not None:
            continue
        scale, bins = Scale.LINEAR if linear else scale_of(a), a.bins or DEFAULT_BINS
        low, high = (f"{bound:,.15g}" for bound in a.bounds)
        if scale is Scale.LINEAR and are_wide(a.bounds, bins):
            remedy = "Narrow the bounds" if linear else "Narrow the bounds, or use `scale: quantiles`"
            found.append(
                f"{a.name}: {bins} bins of equal width between {low} and {high} cannot distinguish most "
                f"values that such bounds suggest. {remedy}"
            )
        elif scale is Scale.LOG and (factor := log_width(a.bounds, bins)) > COARSE:
            found.append(
                f"{a.name}: each of {bins} bins between {low} and {high} spans a factor of {factor:.3g}, so "
                "most values may lie in one. Give it more bins, or use `scale: quantiles`"
            )
    return found


def public_domains(
    schema: DataSchema,
    storages: Mapping[str, Storage],
    levels: Mapping[str, int],
    *,
    fine: bool = False,
    linear: bool = False,
) -> tuple[PublicDomain, ...]:
    """Return the domains of all attributes except identifiers, in the schema's order.

    Arguments as for ``public_domain``, by attribute.

    Raises:
        SchemaError: As for ``public_domain``, or if a level is given for an unknown attribute.
    """
    require_public_domains(schema)
    released = schema.without_identifiers()
    if unknown := sorted(set(levels) - set(released.names)):
        raise SchemaError(f"levels are given for {unknown}, which are not released attributes of the schema")
    return tuple(
        public_domain(a, storages[a.name], levels.get(a.name, 0), fine=fine, linear=linear)
        for a in released.attributes
    )


def require_public_domains(schema: DataSchema) -> None:
    """Raise if the schema leaves a domain to the data. No record is read.

    Raises:
        SchemaError: If it does; the message names every such attribute and the remedy.
    """
    if missing := [a.name for a in schema.without_identifiers().attributes if not a.has_public_domain]:
        raise SchemaError(domains_missing(missing))
    require_unlinked(schema)


def require_unlinked(schema: DataSchema) -> None:
    """Raise if rows of a person are linked, for methods that make no classes of trajectories.

    Raises:
        SchemaError: If they are; the message names the column and the remedy.
    """
    if schema.linked:
        raise SchemaError(
            f"the rows of {schema.by} are linked, but the method makes no classes of whole "
            "trajectories. Remove `rows: linked` from person, or use an anonymizer"
        )


def require_row_each(schema: DataSchema) -> None:
    """Raise if a person may have several rows, for methods whose claim is about one row.

    Raises:
        SchemaError: If so; the message names the column and the remedy.
    """
    if schema.by:
        raise SchemaError(
            f"{schema.by} names the person of each row, but the method's claim is about one row: "
            "a person with m rows would have m times the loss. Aggregate the table to one row per person and "
            "remove `person`, or use an anonymizer"
        )


def _edges(attribute: Attribute, scale: Scale, *, whole: bool, fine: bool) -> npt.NDArray[np.float64]:
    low, high = _ends(attribute, whole=whole)
    if scale is not Scale.LINEAR:
        bins = FINE if fine and scale is Scale.QUANTILES else attribute.bins or DEFAULT_BINS
        return log_edges((low, high), bins, whole=whole)
    if not whole:
        return np.linspace(low, high, (attribute.bins or DEFAULT_BINS) + 1)
    return np.array([low + edge for edge in _even_edges(attribute, int(high - low))], dtype=np.float64)


def _ends(attribute: Attribute, *, whole: bool) -> tuple[float, float]:
    """Return the bounds; of whole numbers, the smallest one and the largest one plus 1."""
    low, high = attribute.bounds or (0.0, 1.0)
    if not whole:
        return low, high
    first, count = math.ceil(low), math.floor(high) - math.ceil(low) + 1
    if count < 1:
        raise SchemaError(f"the bounds of {attribute.name!r} contain no whole number. Widen them")
    return float(first), float(first + count)


def _even_edges(attribute: Attribute, count: int) -> list[int]:
    """Return the first of a number of values in each bin, from 0: bins differ in width by at most one."""
    default = count if count <= SINGLE_VALUES else DEFAULT_BINS
    bins = min(attribute.bins or default, count)
    return [-(-i * count // bins) for i in range(bins + 1)]


def _dated_edges(attribute: Attribute, form: DateForm, bounds: tuple[float, float]) -> Codes:
    """Return the first period of each bin, from 0: bins have equal numbers of periods, or are `bin`."""
    count = int(form.places(np.array([bounds[1]]), bounds[0])[0]) + 1
    if form.bin is None:
        return np.array(_even_edges(attribute, count), dtype=np.int64)
    first, last = form.clock.index(np.array(bounds, dtype=np.int64), form.bin).tolist()
    later = form.clock.starts(np.arange(first + 1, min(last, first + LARGEST_DOMAIN) + 1), form.bin)
    return np.array([0, *form.places(later.astype(np.float64), bounds[0]), count], dtype=np.int64)


def _labels(attribute: Attribute, level: int) -> tuple[tuple[str, ...], Codes]:
    """Return the values, and the rank of each one's node at the level, among nodes that have a value."""
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
        domains: Domain of the codes of each attribute, shape (d,).
        storages: Declared type of each column.
        codes: Codes, shape (d, n) uint8, or uint16 if a domain has more than 256 values; C-contiguous.
        weights: Frequency of each record, shape (n,) int64, >= 1, if equal records are stored once; None if
            each record is stored.
        persons: Number of persons who contributed the records, if a person may have several rows; None if
            each record belongs to another person.
        each: Most records that change if all rows of one person are replaced.
    """

    domains: tuple[PublicDomain, ...]
    storages: Mapping[str, Storage]
    codes: npt.NDArray[Any]
    weights: Codes | None = None
    persons: int | None = None
    each: int = 1

    @classmethod
    def encode(
        cls,
        table: pd.DataFrame,
        schema: DataSchema,
        levels: Mapping[str, int] | None = None,
        *,
        fine: bool = False,
    ) -> "CodedTable":
        """Check a table against its schema and encode all attributes except identifiers.

        Args:
            table: Records of the table.
            schema: Schema with a public domain for each attribute.
            levels: Level of the hierarchy at which an attribute's values are distinguished; 0 if not named.
            fine: Whether numbers on a logarithmic scale have bins to be joined, as for ``public_domain``.

        Raises:
            SchemaError: If a domain is not public, or the table does not fit the schema.
        """
        require_public_domains(schema)  # before any value is read
        schema.check(table)
        released = schema.without_identifiers().attributes
        _refuse_undeclared_nulls(table, released)
        table = schema.normalized(table)
        storages = {a.name: Storage.of(table[a.name], a) for a in released}
        domains = public_domains(schema, storages, levels or {}, fine=fine)
        codes = np.empty((len(domains), len(table)), dtype=code_type(domains))
        for row, domain in zip(codes, domains, strict=True):
            row[:] = domain.encode(table[domain.name])
        return cls(domains=domains, storages=storages, codes=codes)

    def __len__(self) -> int:
        """Number of records, counted with their frequency."""
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
        """Return some of the records, by their numbers 0 .. len - 1, ascending, each at most once.

        If equal records are stored once, those of the first have the first numbers, and so on. Which numbers
        they have does not matter if every set of them is drawn with equal probability.
        """
        if self.weights is None:
            return replace(self, codes=np.ascontiguousarray(self.codes[:, rows]))
        drawn = np.diff(np.searchsorted(rows, np.cumsum(self.weights)), prepend=0)
        kept = np.flatnonzero(drawn)
        return replace(self, codes=np.ascontiguousarray(self.codes[:, kept]), weights=drawn[kept])


def code_type(domains: Iterable[PublicDomain]) -> type[np.uint8] | type[np.uint16]:
    """Return the smallest type that holds the codes of all the domains."""
    return np.uint8 if max(domain.size for domain in domains) <= 256 else np.uint16


def decode(
    codes: npt.NDArray[Any], domains: Iterable[PublicDomain], rng: np.random.Generator
) -> pd.DataFrame:
    """Return a table of values from codes (d, n)."""
    columns = [domain.decode(row.astype(np.int64), rng) for row, domain in zip(codes, domains, strict=True)]
    return pd.concat(columns, axis=1)


def _refuse_undeclared_nulls(table: pd.DataFrame, attributes: Iterable[Attribute]) -> None:
    """Raise for nulls without a code: elsewhere, an insensitive attribute may have nulls."""
    counts = {a.name: int(table[a.name].isna().sum()) for a in attributes if not a.nullable}
    if any(counts.values()):
        raise undeclared_nulls(counts)


def undeclared_nulls(counts: Mapping[str, int]) -> SchemaError:
    """Return the error for nulls without a code, from attribute -> number of nulls."""
    return SchemaError(
        "; ".join(
            f"{name}: {counted(count, 'value is', 'values are')} null"
            for name, count in counts.items()
            if count
        )
        + ". Declare the attribute nullable, or drop them at ingest"
    )
