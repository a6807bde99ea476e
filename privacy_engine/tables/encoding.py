"""The form that every algorithm works on: quasi-identifiers and sensitive attributes as integer codes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses, SensitiveColumn, SensitiveValues
from privacy_engine.tables.columns import NULL, Column, Numbers, factorize, is_rounded, ranked, require_span
from privacy_engine.tables.date_form import DateForm
from privacy_engine.tables.geometry import Geometry
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.normal import first_places
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role, counted


@dataclass(frozen=True)
class OrderedDomain:
    """The values of an ordered attribute.

    Attributes:
        values: Values, ascending, shape (v,) float64; the value of each code (its rank if there are labels),
            less `origin`.
        labels: Text of each value, in full; that of null, the last, is `columns.NULL`.
        low, high: Ends of the public domain, or of the values if there is none, less `origin`; without null.
        origin: 0, or the smallest value if floats could not distinguish all values.
    """

    values: npt.NDArray[np.float64]
    labels: tuple[str, ...]
    low: float
    high: float
    origin: int | Decimal = 0

    @property
    def extent(self) -> float:
        """Length of the domain; 1 if all values are equal, to avoid division by 0."""
        return (self.high - self.low) or 1.0

    @property
    def has_null(self) -> bool:
        """Whether the last code is null."""
        return self.labels[-1:] == (NULL,)

    def with_null(self) -> "OrderedDomain":
        """Return the domain with null as its last code."""
        return replace(self, values=np.append(self.values, np.nan), labels=(*self.labels, NULL))

    @property
    def known(self) -> int:
        """Number of values other than null, whose codes come first."""
        return len(self.values) - self.has_null

    @property
    def places(self) -> npt.NDArray[np.float64]:
        """(v,) position of the values in the domain, 0 .. 1; 2 for null.

        Null is as far from every value as the ends of the domain are from each other: 1. So the distance of
        two values is that of their positions, at most 1.
        """
        found = (self.values - self.low) / self.extent
        found[self.known :] = 2.0
        return np.asarray(found, dtype=np.float64)


Domain = OrderedDomain | Hierarchy


@dataclass(frozen=True)
class EncodedTable:
    """A table in integer codes, with everything required to decode it.

    Records are in the order of their codes, not of the source: no method can depend on the order in which
    records arrived, except for ties between records with equal codes.

    Attributes:
        schema: Schema of ``table``, the source's schema without its identifiers.
        table: Records without identifiers, index 0 .. n - 1.
        codes: Codes of the quasi-identifiers: rank of the value in its ordered domain, or leaf of its tree,
            shape (n, q) int32.
        domains: Domain of the codes of each quasi-identifier, shape (q,).
        sensitive: Codes of the sensitive attributes, shape (s, n) int32.
        sensitive_domains: Domain of those codes, shape (s,); ordered if order matters.
        rows: Index of each record in the table that was encoded, shape (n,) int64.
        whole_counts: Sensitive attribute -> (m,) int64 records of the whole table with each of its values, if
            this is a part of one and they are known.
        whole_priors: Sensitive attribute -> (m,) share of each value in the whole table, likewise; by persons
            if known.
        public: Quasi-identifiers whose domain is in the source's schema; those of ``schema`` may have been
            given one that contains values of the records.
        persons: Person of each record, shape (n,) int64; None: each record counts as a person.
        ordered: Quasi-identifier -> attribute and domain by which its values are written, if its domain is a
            hierarchy of only these values and the root.
    """

    schema: DataSchema
    table: pd.DataFrame
    codes: npt.NDArray[np.int32]
    domains: tuple[Domain, ...]
    sensitive: npt.NDArray[np.int32]
    sensitive_domains: tuple[Domain, ...]
    rows: npt.NDArray[np.int64]
    whole_counts: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    whole_priors: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    public: frozenset[str] = frozenset()
    persons: npt.NDArray[np.int64] | None = None
    ordered: Mapping[str, tuple[Attribute, OrderedDomain]] = field(default_factory=dict)

    @classmethod
    def encode(
        cls, table: pd.DataFrame, schema: DataSchema, whole: Mapping[str, SensitiveValues] | None = None
    ) -> "EncodedTable":
        """Check a table against its schema and encode it.

        Args:
            table: Records of the table.
            schema: Schema of the records.
            whole: Sensitive attribute -> its values in the whole table, if these records are a part of it.
                Codes are then those of the whole table.

        Raises:
            SchemaError: If the table does not fit the schema or the whole table, or the schema has no
                quasi-identifier, or is that of a release.
        """
        if schema.tables:
            raise SchemaError("the rows of several tables cannot be encoded together. Encode each table")
        schema.require_original()
        schema.check(table)
        table, schema = schema.normalized(table), schema.coded()
        if not schema.quasi_identifiers:
            raise SchemaError(
                "the schema must have at least one quasi-identifier. Give one attribute that role"
            )
        quasi = [_encode(a, table[a.name]) for a in schema.quasi_identifiers]
        calendars = {
            a.name: replace(a, hierarchy=domain)
            for a, (_, domain) in zip(schema.quasi_identifiers, quasi, strict=True)
            if a.dates is not None and isinstance(domain, Hierarchy)
        }
        attributes = tuple(calendars.get(a.name, a) for a in schema.without_identifiers().attributes)
        known = replace(schema, attributes=attributes)
        whole = whole or {}
        secret = [
            _encode_part(a, table[a.name], whole[a.name]) if a.name in whole else _encode(a, table[a.name])
            for a in schema.sensitive
        ]
        order = _canonical_order([*quasi, *secret])
        of_whole = {
            name: (whole[name], schema[name], domain)
            for name, (_, domain) in zip((a.name for a in schema.sensitive), secret, strict=True)
            if name in whole
        }
        return cls(
            schema=known,
            table=table.loc[:, list(known.names)].take(order).reset_index(drop=True),
            codes=np.stack([codes[order] for codes, _ in quasi], axis=1),
            domains=tuple(domain for _, domain in quasi),
            sensitive=np.array([codes[order] for codes, _ in secret], np.int32).reshape(
                len(secret), len(table)
            ),
            sensitive_domains=tuple(domain for _, domain in secret),
            rows=order.astype(np.int64),
            whole_counts={name: records_with(*known) for name, known in of_whole.items()},
            whole_priors={name: _prior_of(*known) for name, known in of_whole.items()},
            public=frozenset(a.name for a in schema.quasi_identifiers if a.has_public_domain),
            persons=schema.person_codes(table[schema.by].to_numpy()[order]) if schema.by else None,
        )

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def quasi_identifiers(self) -> tuple[str, ...]:
        """Names of the columns of ``codes``."""
        return tuple(a.name for a in self.schema.quasi_identifiers)

    @property
    def sensitive_names(self) -> tuple[str, ...]:
        """Names of the rows of ``sensitive``."""
        return tuple(a.name for a in self.schema.sensitive)

    @cached_property
    def sensitive_sizes(self) -> tuple[int, ...]:
        """Number of values of each sensitive attribute."""
        return tuple(domain_size(d) for d in self.sensitive_domains)

    @property
    def sensitive_counts(self) -> tuple[npt.NDArray[np.int64], ...]:
        """(s,) the (m,) records with each value of each sensitive attribute: of the whole table, if known."""
        return tuple(
            self.whole_counts[name] if name in self.whole_counts else np.bincount(codes, minlength=size)
            for name, codes, size in zip(
                self.sensitive_names, self.sensitive, self.sensitive_sizes, strict=True
            )
        )

    def geometry(self, weights: npt.ArrayLike | None = None) -> Geometry:
        """Costs of intervals and nodes; weights (q,) are used without scaling, by default 1/q each (NCP)."""
        q = len(self.domains)
        w = np.full(q, 1.0 / q) if weights is None else np.asarray(weights, dtype=np.float64)
        if w.shape != (q,):
            raise ValueError(
                f"weights must be one number for each of the {q} quasi-identifiers, got shape {w.shape}"
            )
        costs = [_costs(d) for d in self.domains]
        parents = [
            d.parent if isinstance(d, Hierarchy) else np.zeros(len(c), np.int32)
            for d, c in zip(self.domains, costs, strict=True)
        ]
        return Geometry(
            tree=np.array([isinstance(d, Hierarchy) for d in self.domains]),
            start=np.concatenate([[0], np.cumsum([len(c) for c in costs])]).astype(np.int64),
            value=np.concatenate([wj * c for wj, c in zip(w, costs, strict=True)]),
            parent=np.concatenate(parents).astype(np.int32),
            most=np.where([isinstance(d, OrderedDomain) and d.has_null for d in self.domains], w, np.inf),
        )

    def released(self, labels: npt.NDArray[np.int64]) -> "EncodedTable":
        """The records that are not suppressed, by labels (n,), -1 = suppressed; not copied if all stay."""
        kept = np.flatnonzero(labels >= 0)
        return self if len(kept) == len(self) else self.take(kept)

    def take(self, rows: npt.NDArray[np.intp]) -> "EncodedTable":
        """Some of the records, with the same domains."""
        return replace(
            self,
            table=self.table.take(rows).reset_index(drop=True),
            codes=self.codes[rows],
            sensitive=self.sensitive[:, rows],
            rows=self.rows[rows],
            persons=None if self.persons is None else self.persons[rows],
        )

    def with_sensitive(self, row: int, codes: npt.NDArray[np.int32]) -> "EncodedTable":
        """Return the table with other values (by code) of one sensitive attribute: distortion.

        codes: (n,) int32; each must occur in the table, whose own cell of that value is copied.
        """
        name = self.sensitive_names[row]
        cell_of = np.full(self.sensitive_sizes[row], -1, dtype=np.int64)
        cell_of[self.sensitive[row]] = np.arange(len(self))
        if (cell_of[codes] < 0).any():
            raise ValueError(f"a changed value of {name!r} must be one that occurs in the table")
        sensitive = self.sensitive.copy()
        sensitive[row] = codes
        # an unchanged value also keeps its spelling
        places = np.where(codes == self.sensitive[row], np.arange(len(self)), cell_of[codes])
        column = self.table[name].take(places).reset_index(drop=True)
        return replace(self, sensitive=sensitive, table=self.table.assign(**{name: column}))

    def classes_of(self, labels: npt.NDArray[np.int64]) -> EquivalenceClasses:
        """The classes that an algorithm made; records labelled -1 (suppressed) are omitted."""
        kept = labels >= 0
        columns = {
            name: SensitiveColumn(
                codes=self.sensitive[a, kept],
                size=self.sensitive_sizes[a],
                hierarchy=domain if isinstance(domain, Hierarchy) else None,
                prior=self.whole_priors.get(name),
            )
            for a, (name, domain) in enumerate(zip(self.sensitive_names, self.sensitive_domains, strict=True))
        }
        return EquivalenceClasses(
            labels=np.unique(labels[kept], return_inverse=True)[1].astype(np.int64),
            sensitive=columns,
            persons=None if self.persons is None else self.persons[kept],
        )


def domain_size(domain: Domain) -> int:
    """Number of values of a domain."""
    return len(domain.values)


def domain_labels(domain: Domain) -> tuple[str, ...]:
    """The text of each value of a domain."""
    return domain.values if isinstance(domain, Hierarchy) else domain.labels


def _costs(domain: Domain) -> npt.NDArray[np.float64]:
    """ILP of Zhu et al. (2010) without weights: scaled position, or share of the leaves, 0 for a leaf."""
    if isinstance(domain, OrderedDomain):
        return domain.places
    leaves = domain.leaf_counts.astype(np.float64)
    cost = leaves / len(domain.values)
    cost[: len(domain.values)] = 0.0
    return cost


def _canonical_order(columns: list[tuple[npt.NDArray[np.int32], Domain]]) -> npt.NDArray[np.intp]:
    """Order of the records by their codes, the first column first."""
    sizes = [len(domain.values) for _, domain in columns]
    if math.prod(sizes) < 2**62:  # one number a record sorts several times faster than many
        key = np.zeros(len(columns[0][0]), dtype=np.int64)
        for (codes, _), size in zip(columns, sizes, strict=True):
            key = key * size + codes
        return np.argsort(key, kind="stable")
    return np.lexsort([codes for codes, _ in reversed(columns)])


def sensitive_domain(attribute: Attribute, values: SensitiveValues) -> Domain:
    """Return the domain of a sensitive attribute's codes in the encoding of any part of a table.

    Values without a public domain are in the order of their codes in the whole table.
    """
    if attribute.ordered and attribute.categories is None:
        return _encode_numbers(attribute, values.column)[1]
    in_order = values.column.take(np.argsort(values.codes, kind="stable"))
    return _domain_of_texts(attribute, factorize(in_order).texts)


def sensitive_codes(attribute: Attribute, column: pd.Series, domain: Domain) -> npt.NDArray[np.int32]:
    """(n,) codes of sensitive values of a part of a table; -1 = not among the whole table's."""
    numeric = isinstance(domain, OrderedDomain) and attribute.categories is None
    if numeric and attribute.dates is None and is_rounded(column):
        found = ranked(column)
        return _place(found.texts, domain)[found.codes]
    if isinstance(domain, OrderedDomain) and numeric:
        numbers = attribute.numbers(column)
        codes = np.minimum(np.searchsorted(domain.values, numbers), len(domain.values) - 1)
        same = (domain.values[codes] == numbers) | np.isnan(domain.values[codes]) & np.isnan(numbers)
        return np.where(same, codes, -1).astype(np.int32)
    return _codes_of_texts(attribute, factorize(column), domain)


def records_with(values: SensitiveValues, attribute: Attribute, domain: Domain) -> npt.NDArray[np.int64]:
    """(m,) records of the whole table with each value of a domain."""
    counts = np.zeros(domain_size(domain), dtype=np.int64)
    counts[sensitive_codes(attribute, values.column, domain)] = values.counts[values.codes]
    return counts


def _prior_of(values: SensitiveValues, attribute: Attribute, domain: Domain) -> npt.NDArray[np.float64]:
    """(m,) share of each value of a domain in the whole table."""
    prior = np.zeros(domain_size(domain))
    prior[sensitive_codes(attribute, values.column, domain)] = values.prior[values.codes]
    return prior


def _encode_part(
    attribute: Attribute, column: pd.Series, values: SensitiveValues
) -> tuple[npt.NDArray[np.int32], Domain]:
    """Return the codes of a sensitive attribute of a part of a table.

    Raises:
        SchemaError: If a value is not among those of the whole table.
    """
    domain = sensitive_domain(attribute, values)
    codes = sensitive_codes(attribute, column, domain)
    if foreign := int(np.count_nonzero(codes < 0)):
        raise SchemaError(
            f"{attribute.name}: {counted(foreign, 'value is', 'values are')} not among those of the whole "
            "table, which has changed since it was cut into fragments. Cut it again"
        )
    return codes, domain


def _encode(attribute: Attribute, column: pd.Series) -> tuple[npt.NDArray[np.int32], Domain]:
    if attribute.ordered and attribute.categories is None:
        return _encode_numbers(attribute, column)
    if attribute.dates is not None:
        return _encode_in_calendar(attribute, attribute.dates, attribute.numbers(column))
    coded = factorize(column)
    texts = coded.texts
    domain = _domain_of_texts(attribute, [texts[i] for i in coded.ascending()])
    return _codes_of_texts(attribute, coded, domain), domain


def _domain_of_texts(attribute: Attribute, texts: Iterable[str]) -> Domain:
    """Return the domain of a non-numeric attribute; from the texts (ascending) if it is not public."""
    if attribute.kind is Kind.ORDINAL and attribute.hierarchy is None and attribute.categories is not None:
        labels = attribute.categories + ((NULL,) if attribute.nullable else ())
        high = float(len(attribute.categories) - 1)
        return OrderedDomain(np.arange(len(labels), dtype=np.float64), labels, 0.0, high)
    distinct = tuple(dict.fromkeys(texts)) or (NULL,)
    if attribute.role is Role.SENSITIVE:  # the first spelling represents all
        distinct = tuple(distinct[i] for i in first_places(attribute.counted_as(distinct)).values())
    domain = attribute.hierarchy or Hierarchy.flat(attribute.categories or distinct)
    if attribute.nullable and NULL not in domain.values:
        domain = domain.with_leaf(NULL)
    return domain


def _codes_of_texts(attribute: Attribute, coded: Column, domain: Domain) -> npt.NDArray[np.int32]:
    """(n,) index of each value in a domain, for sensitive ones of any spelling; -1 = not in it."""
    place = _place(coded.texts, domain)
    if attribute.role is Role.SENSITIVE:
        labels = domain_labels(domain)
        known = labels[:-1] if labels[-1] == NULL else labels
        of_form = first_places(attribute.counted_as(known))
        place[:-1] = [of_form.get(form, -1) for form in attribute.counted_as(coded.texts)]
    return place[coded.codes]  # code -1 selects the last


def _place(texts: Iterable[str], domain: Domain) -> npt.NDArray[np.int32]:
    """Return the index of each value in a domain, and last the index of null, (v + 1,); -1 = not in it."""
    position = {label: i for i, label in enumerate(domain_labels(domain))}
    return np.array([position.get(text, -1) for text in (*texts, NULL)], dtype=np.int32)


def _encode_numbers(attribute: Attribute, column: pd.Series) -> tuple[npt.NDArray[np.int32], OrderedDomain]:
    if attribute.dates is None:
        found = ranked(column)
    else:
        values, codes = np.unique(
            attribute.numbers(column), return_inverse=True
        )  # all NaN are one value, the last
        known = values[~np.isnan(values)]
        found = Numbers(codes.astype(np.int64), known, attribute.dates.labels(known))
    codes, known = found.codes, found.values
    low, high = (float(known[0]), float(known[-1])) if len(known) else (0.0, 0.0)
    if attribute.bounds is not None:
        low, high = (float(Decimal(end) - found.origin) for end in attribute.bounds)
    require_span(attribute.name, low, high)
    domain = OrderedDomain(known, found.texts, low, high, found.origin)
    if (codes == len(known)).any():
        domain = domain.with_null()
    return codes.astype(np.int32), domain


def _encode_in_calendar(
    attribute: Attribute, form: DateForm, numbers: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int32], Hierarchy]:
    null = np.isnan(numbers)
    known = numbers[~null]
    low, high = attribute.bounds or ((float(known.min()), float(known.max())) if len(known) else (0.0, 0.0))
    tree = form.hierarchy(low, high)
    codes = np.full(len(numbers), len(tree.values), dtype=np.int32)  # of a null
    codes[~null] = form.places(known, low)
    return codes, tree.with_leaf(NULL) if attribute.nullable else tree
