"""What each attribute of a table is: its role, its kind, its public domain, its hierarchy."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

from privacy_engine.choice import E, choice
from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import floats, is_atomic, is_number, value_text
from privacy_engine.tables.date_form import FORM_FIELDS, DateForm
from privacy_engine.tables.dates import DATES, TIMES, Period, is_dated
from privacy_engine.tables.direct_identifiers import (
    ALLOWED_SCHEMA,
    FIELDS,
    JSON_SCHEMA,
    Allowed,
    Pseudonym,
    TextRule,
    read_fields,
    written_fields,
)
from privacy_engine.tables.faults import (
    Faults,
    faults_of_dates,
    faults_of_labels,
    faults_of_numbers,
    problems_of,
)
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.persons import PERSON_FIELDS, TABLE, LinkedTable, Person, Rows


class Role(StrEnum):
    """What an attribute means for the people in the table."""

    IDENTIFIER = "identifier"  # names one person: never released
    QUASI_IDENTIFIER = "quasi_identifier"  # known to others, names a person in combination
    SENSITIVE = "sensitive"  # what must not be learned of a person
    INSENSITIVE = "insensitive"  # released as it is


class Kind(StrEnum):
    """Which comparisons the values of an attribute allow."""

    CATEGORICAL = "categorical"
    ORDINAL = "ordinal"
    NUMERIC = "numeric"
    DATE = "date"
    TIMESTAMP = "timestamp"


_CLOCKS = {Kind.DATE: DATES, Kind.TIMESTAMP: TIMES}
_NO_TEXT = (Kind.NUMERIC, *_CLOCKS)


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One column.

    Attributes:
        name: the column's name.
        role: what it means for the people in the table.
        kind: which comparisons its values allow.
        categories: the public domain of a categorical or ordinal attribute, ordinal ones in order.
        bounds: the public domain of a numeric (or integer ordinal) attribute, both ends inside; of a date
            days, of a timestamp seconds since 1970-01-01, also given as ISO dates.
        bins: number of equal-width public bins between the bounds, for methods that need bins.
        hierarchy: generalization tree over the values; of dates `dates.calendar` stands for it.
        nullable: whether the attribute may be null; a null is a value of its own then, which no interval and
            no node of a hierarchy but its root covers.
        dates: of a date or timestamp how it is read, cut and generalized; None on any other kind.
        pseudonym: what is released in the place of an identifier. Once it is, the attribute is insensitive.
        text: what is done where released text holds addresses, numbers or names of persons: `redact`, or
            leave with a reason; None: the source is refused.
        unique: leave for an insensitive column with nearly one value a record, or a person.

    Raises:
        SchemaError: if the parts contradict each other.
    """

    name: str
    role: Role = Role.INSENSITIVE
    kind: Kind = Kind.CATEGORICAL
    categories: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    bins: int | None = None
    hierarchy: Hierarchy | None = None
    nullable: bool = False
    dates: DateForm | None = None
    pseudonym: Pseudonym | None = None
    text: TextRule | None = None
    unique: Allowed | None = None

    def __post_init__(self) -> None:
        clock = _CLOCKS.get(self.kind)
        if clock is not None and self.dates is None:
            object.__setattr__(self, "dates", DateForm(clock=clock))
        problem = self._contradiction_of_dates() if self.dates else None
        problem = problem or self._contradiction() or self._misplaced()
        if problem:
            raise SchemaError(f"attribute {self.name!r}: {problem}")

    def _contradiction_of_dates(self) -> str | None:
        form = self.dates
        if form is None or form.clock != _CLOCKS.get(self.kind):
            return f"what is said of dates must be of a {self.kind.value}: give it that kind of clock"
        if self.categories is not None or (self.hierarchy is not None and not form.calendar):
            return (
                "a date has no categories and no hierarchy of its own: give calendar, such as [month, year]"
            )
        if self.bounds is not None:
            bounds = form.bounds(self.bounds)
            if bounds is None or bounds[0] >= bounds[1]:
                return (
                    "bounds must be two ISO dates or times without a zone, the lower first and in an earlier "
                    f"{form.cut_to.value}"
                )
            object.__setattr__(self, "bounds", bounds)
        if form.bin is not None and (self.bins is not None or self.bounds is None):
            return "bin needs bounds, and stands in the place of bins"
        if form.calendar and self.role is not Role.QUASI_IDENTIFIER:
            return "calendar generalizes quasi-identifiers: state precision instead"
        if form.as_is and self.role is not Role.INSENSITIVE:
            return "as_is is of insensitive attributes: state precision instead"
        if form.precision is None and not form.as_is:
            if self.role is Role.INSENSITIVE:
                return (
                    "an insensitive date tells people apart: state the precision to which it is released, "
                    "such as precision: month, or as_is: true to release it as it is"
                )
            if self.role is Role.SENSITIVE:
                return "a sensitive date must state the precision of its values, such as precision: month"
        return None

    def _contradiction(self) -> str | None:
        if not self.name or not isinstance(self.name, str):
            return "the name must be a non-empty string"
        if self.bounds is not None and (
            self.kind is Kind.CATEGORICAL
            or not all(math.isfinite(b) for b in self.bounds)
            or self.bounds[0] >= self.bounds[1]
        ):
            return "bounds must be two finite numbers, the lower first, on a numeric or ordinal attribute"
        if self.bounds is not None and not math.isfinite(self.bounds[1] - self.bounds[0]):
            return "bounds must not be further apart than any number: narrow them"
        if self.categories is not None and (
            self.kind is Kind.NUMERIC
            or len(set(self.categories)) < len(self.categories)
            or not self.categories
        ):
            return "categories must be distinct and at least one, on a categorical or ordinal attribute"
        if self.bounds is not None and self.categories is not None:
            return "give bounds or categories, not both"
        if self.bins is not None and (type(self.bins) is not int or self.bins < 1 or self.bounds is None):
            return "bins must be a positive whole number and need bounds"
        if self.hierarchy is not None and (
            missing := set(self.categories or ()) - set(self.hierarchy.values)
        ):
            return f"the hierarchy misses {len(missing)} of the categories: add a row for each"
        if self.hierarchy is not None and (untrue := self.hierarchy.untruthful_rows()):
            return f"{untrue} rows of the hierarchy carry a label that is untrue of their value: correct them"
        return None

    def _misplaced(self) -> str | None:
        """Which field about direct identifiers the role has no use for."""
        if self.pseudonym is not None:
            role = Role.INSENSITIVE if self.pseudonym.key else Role.IDENTIFIER
            if self.role is not role:
                return f"a pseudonym stands in the place of an identifier; the role must be {role.value}"
        if self.text is not None and (self.role is Role.IDENTIFIER or self.kind in _NO_TEXT):
            return "text must stand on a column of text that is released; remove it"
        if self.unique is not None and self.role is not Role.INSENSITIVE:
            return "unique must stand on an insensitive attribute; remove it"
        return None

    @property
    def ordered(self) -> bool:
        """Whether it is recoded by intervals: of any kind but categorical, and without a hierarchy."""
        in_tree = self.hierarchy is not None or (self.dates is not None and bool(self.dates.calendar))
        return self.kind is not Kind.CATEGORICAL and not in_tree

    @property
    def nominal(self) -> bool:
        """Whether its values have no order."""
        return self.kind is Kind.CATEGORICAL

    @property
    def hierarchical(self) -> bool:
        """Whether it has a hierarchy of its own."""
        return self.hierarchy is not None

    @property
    def has_public_domain(self) -> bool:
        """Whether the domain comes from the schema and never from the data."""
        return self.categories is not None or self.bounds is not None or self.hierarchy is not None

    @property
    def allows_nulls(self) -> bool:
        """Whether a null may stand in the column."""
        return self.nullable or self.role in (Role.IDENTIFIER, Role.INSENSITIVE)

    def problems(self, column: pd.Series) -> list[str]:
        """What is wrong with a column, by rule and count; empty if it fits."""
        wrong = self.type_problem(column)
        return [wrong] if wrong else problems_of(self.faults(column))

    def type_problem(self, column: pd.Series) -> str | None:
        """What is wrong with the type of a column, if anything."""
        if not is_atomic(column):
            return "must hold one text, number, date or truth value a cell, and no bytes: split the column up"
        if self.dates is not None:
            return self.dates.type_problem(column)
        if is_dated(column):
            return (
                f"holds dates or times, got {column.dtype}: make it kind: date or kind: timestamp, not "
                f"{self.kind.value}"
            )
        if self._of_numbers and not is_number(column):
            return f"must be a number, got {column.dtype}: convert the column, or make it categorical"
        return None

    def faults(self, column: pd.Series) -> Faults:
        """What is wrong with the values of a column of the right type; those of its parts add up."""
        if self.dates is not None:
            return faults_of_dates(
                self.dates.read(column).faults(nullable=self.allows_nulls), self.numbers(column), self.bounds
            )
        if self._of_numbers:
            return faults_of_numbers(column, nullable=self.allows_nulls, bounds=self.bounds)
        leaves = self.hierarchy.values if self.hierarchy else None
        return faults_of_labels(column, nullable=self.allows_nulls, categories=self.categories, leaves=leaves)

    def numbers(self, column: pd.Series) -> npt.NDArray[np.float64]:
        """(n,) values of a column of numbers; of a date days, of a timestamp seconds, cut. NaN = null."""
        return floats(column) if self.dates is None else self.dates.numbers(column)

    @property
    def _of_numbers(self) -> bool:
        return self.ordered and self.categories is None

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back; the hierarchy is written out in full."""
        out: dict[str, Any] = {"role": self.role.value, "kind": self.kind.value}
        if self.categories is not None:
            out["categories"] = list(self.categories)
        if self.bounds is not None:
            out["bounds"] = self.dates.bounds_text(self.bounds) if self.dates else list(self.bounds)
        if self.bins is not None:
            out["bins"] = self.bins
        if self.hierarchy is not None:
            out["hierarchy"] = [list(row) for row in self.hierarchy.rows]
        if self.dates is not None:
            out |= self.dates.to_dict()
        if self.nullable:
            out["nullable"] = True
        return out | self.direct_identifiers()

    def direct_identifiers(self) -> dict[str, Any]:
        """Pseudonym, text and unique as plain values, as far as they are given."""
        return written_fields(self.pseudonym, self.text, self.unique)

    @classmethod
    def from_dict(
        cls, name: str, fields: Mapping[str, Any], hierarchies: Mapping[str, Hierarchy] | None = None
    ) -> "Attribute":
        """Read what ``to_dict`` writes; a hierarchy may also be a key of ``hierarchies``."""
        if not isinstance(fields, Mapping):
            raise SchemaError(f"attribute {name!r} must be a mapping with role and kind")
        if unknown := sorted(set(map(str, fields)) - _FIELDS):
            raise SchemaError(f"attribute {name!r}: unknown fields {unknown}; known are {sorted(_FIELDS)}")
        kind = _member(Kind, fields.get("kind", Kind.CATEGORICAL), name, "kind")
        form = _date_form(kind, fields, name)
        bounds = fields.get("bounds")
        return cls(
            name=name,
            role=_member(Role, fields.get("role", Role.INSENSITIVE), name, "role"),
            kind=kind,
            dates=form,
            categories=_texts(fields.get("categories"), name),
            bounds=_pair(bounds, name) if form is None or bounds is None else bounds,
            bins=fields.get("bins"),
            hierarchy=_hierarchy(fields.get("hierarchy"), name, hierarchies or {}),
            nullable=_flag(fields.get("nullable", False), name),
            **read_fields(fields, name),
        )


@dataclass(frozen=True)
class DataSchema:
    """All attributes of a table, in column order, and whose record a row is.

    Attributes:
        attributes: the columns.
        person: whose record a row is; None: it is not said, and each row counts as a person. The column that
            names the person is an identifier, so a released table no longer has it; where rows are linked it
            has a pseudonym there, which is insensitive.

    >>> schema = DataSchema.from_yaml("age: {role: quasi_identifier, kind: numeric, bounds: [0, 120]}")
    >>> schema.names, schema.quasi_identifiers[0].bounds
    (('age',), (0.0, 120.0))
    """

    attributes: tuple[Attribute, ...]
    person: Person | None = None

    def __post_init__(self) -> None:
        if not self.attributes:
            raise SchemaError("a schema must have at least one attribute")
        if len(set(self.names)) < len(self.attributes):
            raise SchemaError("the attributes of a schema must have distinct names")
        allowed = (Role.IDENTIFIER, Role.INSENSITIVE) if self.linked else (Role.IDENTIFIER,)
        if self.by in self.names and self[self.by].role not in allowed:
            raise SchemaError(
                f"attribute {self.by!r} names the person, so its role must be identifier, got "
                f"{self[self.by].role.value}: what tells persons apart is never released"
            )
        if self.by in self.names and self[self.by].pseudonym:
            raise SchemaError(
                f"attribute {self.by!r} names the person and must have no pseudonym: it would link the rows "
                "of a person, and each class would have to be of whole persons. Remove it; or aggregate the "
                "source to one row a person, and remove `person`"
            )
        known = {self.by, TABLE, *(name for t in self.tables for name in (*t.columns, *t.carried))}
        if self.tables and (foreign := [name for name in self.names if name not in known]):
            raise SchemaError(f"attributes {foreign} are of none of the tables: name the table of each")

    @property
    def tables(self) -> tuple[LinkedTable, ...]:
        """The tables that the rows are of; empty where all are of one."""
        return self.person.tables if self.person else ()

    def of_table(self, name: str) -> "DataSchema":
        """The schema of one of the tables: its own columns, after that of the person.

        Raises:
            SchemaError: if it is not one of them.
        """
        for table in self.tables:
            if table.name == name and self.person is not None:
                own = {self.by, *table.columns}
                kept = tuple(a for a in self.attributes if a.name in own)
                return DataSchema(kept, replace(self.person, tables=()))
        raise SchemaError(f"no table {name!r} in the schema; it has {[t.name for t in self.tables]}")

    @property
    def by(self) -> str:
        """The column that names the person of a row; empty where each row counts as a person."""
        return (self.person.column if self.person else None) or ""

    @property
    def linked(self) -> bool:
        """Whether a pseudonym links the rows of a person in the release."""
        return self.person is not None and self.person.linked

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(a.name for a in self.attributes)

    @cached_property
    def quasi_identifiers(self) -> tuple[Attribute, ...]:
        """Attributes known to others."""
        return self._of(Role.QUASI_IDENTIFIER)

    @cached_property
    def sensitive(self) -> tuple[Attribute, ...]:
        """Attributes that must not be learned of a person."""
        return self._of(Role.SENSITIVE)

    @cached_property
    def identifiers(self) -> tuple[Attribute, ...]:
        """Attributes that are never released."""
        return self._of(Role.IDENTIFIER)

    def _of(self, role: Role) -> tuple[Attribute, ...]:
        return tuple(a for a in self.attributes if a.role is role)

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise SchemaError(f"no attribute {name!r} in the schema; it has {list(self.names)}")

    def select(self, names: Iterable[str]) -> "DataSchema":
        """The schema of some of the columns, in the given order."""
        return DataSchema(tuple(self[name] for name in names), self.person)

    def keeping_nulls(self) -> "DataSchema":
        """The same schema; every attribute that may be released may be null."""
        kept = (a if a.role is Role.IDENTIFIER else replace(a, nullable=True) for a in self.attributes)
        return replace(self, attributes=tuple(kept))

    def without_identifiers(self) -> "DataSchema":
        """The schema of what may be released."""
        kept = tuple(a for a in self.attributes if a.role is not Role.IDENTIFIER)
        return DataSchema(kept, self.person)

    def with_pseudonym(self) -> "DataSchema":
        """The schema of a release of linked rows: the person's pseudonym in the place of the identifier."""
        pseudonym = Attribute(name=self.by, role=Role.INSENSITIVE)
        named = (pseudonym if a.name == self.by else a for a in self.attributes)
        tables = tuple(replace(t, columns=(*t.columns, *t.carried), carried=()) for t in self.tables)
        person = self.person and replace(self.person, tables=tables)
        return DataSchema(tuple(a for a in named if a.role is not Role.IDENTIFIER), person)

    def require_original(self) -> None:
        """Refuse the schema of a release as that of a source: its persons have pseudonyms already.

        Raises:
            SchemaError: if the column that names the person is no identifier.
        """
        if self.by in self.names and self[self.by].role is not Role.IDENTIFIER:
            raise SchemaError(
                f"attribute {self.by!r} names the person of each record of a source, so its role must be "
                f"identifier, got {self[self.by].role.value}; a release has a pseudonym in its place"
            )

    def check(self, table: pd.DataFrame) -> None:
        """Refuse a table that does not fit.

        Raises:
            SchemaError: all problems at once, each by column, rule and count, never by value.
        """
        self.check_columns(table.columns)
        if not len(table):
            raise SchemaError("the table is empty: nothing can be released")
        if self.tables:
            self._check_tables(table)
            return
        checked = (a for a in self.attributes if a.role is not Role.IDENTIFIER)
        problems = [f"{a.name}: {p}" for a in checked for p in a.problems(table[a.name])]
        if self.by in self.names and (nameless := int(table[self.by].isna().sum())):
            problems.append(nameless_records(self.by, nameless))
        if problems:
            raise SchemaError("; ".join(problems))

    def _check_tables(self, table: pd.DataFrame) -> None:
        """Refuse rows of no table, and rows that do not fit the schema of theirs."""
        names = [t.name for t in self.tables]
        problems = []
        if foreign := int((~table[TABLE].isin(names)).sum()):
            problems.append(f"{TABLE}: {foreign} rows are of none of the tables {names}: mend the source")
        for name in names:
            own = self.of_table(name)
            try:
                own.check(table.loc[(table[TABLE] == name).to_numpy(dtype=bool), list(own.names)])
            except SchemaError as error:
                problems.append(f"table {name}: {error}")
        if problems:
            raise SchemaError("; ".join(problems))

    def normalized(self, table: pd.DataFrame) -> pd.DataFrame:
        """A checked table with its dates in one type, cut to their precision, once and for all."""
        forms = {a.name: a.dates for a in self.attributes if a.dates and a.role is not Role.IDENTIFIER}
        dated = {name: form for name, form in forms.items() if name in table.columns}
        if not dated:
            return table
        read = {name: form.normal(table[name]).set_axis(table.index) for name, form in dated.items()}
        return table.assign(**read)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Refuse missing, unknown and repeated columns, before any value is read."""
        present = list(columns)
        problems = []
        if missing := [n for n in self.names if n not in present]:
            problems.append(
                f"columns {missing} are missing: add them to the source or drop them from the schema"
            )
        if extra := [str(c) for c in present if c not in self.names]:
            problems.append(f"columns {extra} are not in the schema: give each a role or do not read them")
        if len(set(present)) < len(present):
            problems.append("column names must be distinct")
        if problems:
            raise SchemaError("; ".join(problems))

    def to_dict(self) -> dict[str, Any]:
        """``{name: fields}``, and ``person``, read back by ``from_dict``."""
        told: dict[str, Any] = {a.name: a.to_dict() for a in self.attributes}
        if self.person is not None:  # a column of that name has its fields beside those of the person
            told[_PERSON] = {**told.get(_PERSON, {}), **self.person.to_dict()}
        return told

    @classmethod
    def from_dict(
        cls, fields: Mapping[str, Any], hierarchies: Mapping[str, Hierarchy] | None = None
    ) -> "DataSchema":
        """Read ``{name: {role, kind, ...}}``; hierarchies by key or written out.

        ``person`` says whose record a row is, see `Person.from_dict`. Where a column has that name, its role
        and kind stand beside: ``person: {role: identifier, column: person}``.
        """
        if not isinstance(fields, Mapping):
            raise SchemaError("a schema must be a mapping from column to role and kind")
        columns, person = dict(fields), None
        given = columns.get(_PERSON)
        if isinstance(given, str):
            person = Person.from_dict(columns.pop(_PERSON))
        elif isinstance(given, Mapping) and (own := {k: v for k, v in given.items() if k in PERSON_FIELDS}):
            person = Person.from_dict(own)
            columns[_PERSON] = {k: v for k, v in given.items() if k not in PERSON_FIELDS}
            if not columns[_PERSON]:
                del columns[_PERSON]
        attributes = (Attribute.from_dict(str(name), f, hierarchies) for name, f in columns.items())
        return cls(tuple(attributes), person)

    def to_yaml(self) -> str:
        """YAML text."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @classmethod
    def from_yaml(cls, text: str, hierarchies: Mapping[str, Hierarchy] | None = None) -> "DataSchema":
        """Read YAML text."""
        try:
            return cls.from_dict(yaml.safe_load(text), hierarchies)
        except yaml.YAMLError as error:
            raise SchemaError(f"the schema is no valid YAML: {error}") from None

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, hierarchies: Mapping[str, Hierarchy] | None = None) -> "DataSchema":
        """Read JSON text."""
        try:
            return cls.from_dict(json.loads(text), hierarchies)
        except json.JSONDecodeError as error:
            raise SchemaError(f"the schema is no valid JSON: {error}") from None

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """JSON Schema of the YAML or JSON form, for editors."""
        text: dict[str, Any] = {"type": "string"}
        day = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}"}
        period = {"enum": [p.value for p in Period]}
        attribute: dict[str, Any] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "role": {"enum": [r.value for r in Role]},
                "kind": {"enum": [k.value for k in Kind]},
                "categories": {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
                "bounds": {
                    "type": "array",
                    "items": {"oneOf": [{"type": "number"}, day]},
                    "minItems": 2,
                    "maxItems": 2,
                },
                "bins": {"type": "integer", "minimum": 1},
                "hierarchy": {"oneOf": [text, {"type": "array", "items": {"type": "array", "items": text}}]},
                "nullable": {"type": "boolean"},
                "format": text,
                "zone": text,
                "precision": period,
                "calendar": {"type": "array", "items": period, "minItems": 1, "uniqueItems": True},
                "bin": period,
                "as_is": {"type": "boolean"},
                **JSON_SCHEMA,
            },
        }
        columns = {"type": "array", "items": text, "minItems": 1}
        table = {
            "type": "object",
            "additionalProperties": False,
            "required": ["columns"],
            "properties": {"columns": columns, "carried": columns},
        }
        person = {
            "column": text,
            "none": text,
            "rows": {"enum": [r.value for r in Rows]},
            "tables": {"type": "object", "minProperties": 2, "additionalProperties": table},
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "minProperties": 1,
            "$defs": {"allowed": ALLOWED_SCHEMA},
            "properties": {
                _PERSON: {"oneOf": [text, {**attribute, "properties": {**attribute["properties"], **person}}]}
            },
            "additionalProperties": attribute,
        }


def nameless_records(by: str, count: int) -> str:
    """What is wrong where records name no person."""
    return f"{by}: {count} records name no person: give each one, or drop these records"


_PERSON = "person"
_FIELDS = {
    *("role", "kind", "categories", "bounds", "bins", "hierarchy", "nullable"),
    *FORM_FIELDS,
    *FIELDS,
}


def _member(enum: type[E], value: object, name: str, field: str) -> E:
    try:
        return choice(enum, value, field)
    except ValueError as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None


def _texts(values: Any, name: str) -> tuple[str, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list | tuple) or not all(isinstance(v, str | int | float) for v in values):
        raise SchemaError(
            f"attribute {name!r}: categories must be a list of texts or numbers, none of them null"
        )
    return tuple(map(value_text, values))


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise SchemaError(f"attribute {name!r}: nullable must be true or false")
    return value


def _pair(values: Any, name: str) -> tuple[float, float] | None:
    if values is None:
        return None
    if not isinstance(values, list | tuple) or [type(v) in (int, float) for v in values] != [True, True]:
        raise SchemaError(f"attribute {name!r}: bounds must be two numbers, the lower first")
    return float(values[0]), float(values[1])


def _date_form(kind: Kind, fields: Mapping[str, Any], attribute: str) -> DateForm | None:
    """What is said of a date; None of an attribute of another kind, of which none of it may be said."""
    given = {name: fields[name] for name in FORM_FIELDS if fields.get(name) not in (None, False)}
    clock = _CLOCKS.get(kind)
    if clock is None and not given:
        return None
    if clock is None:
        raise SchemaError(
            f"attribute {attribute!r}: {sorted(given)} are of dates: make it kind: date or kind: timestamp, "
            "or leave them out"
        )
    if fields.get("hierarchy") is not None:
        raise SchemaError(
            f"attribute {attribute!r}: dates have no hierarchy of their own: give calendar, such as "
            "[month, year]"
        )
    try:
        return DateForm.of(clock, given)
    except SchemaError as error:
        raise SchemaError(f"attribute {attribute!r}: {error}") from None


def _hierarchy(value: Any, name: str, hierarchies: Mapping[str, Hierarchy]) -> Hierarchy | None:
    if value is None or isinstance(value, Hierarchy):
        return value
    if isinstance(value, str):
        if value not in hierarchies:
            raise SchemaError(
                f"attribute {name!r}: no hierarchy {value!r} was given; given are {sorted(hierarchies)}"
            )
        return hierarchies[value]
    if not isinstance(value, list | tuple) or not all(isinstance(row, list | tuple) for row in value):
        raise SchemaError(
            f"attribute {name!r}: hierarchy must be a name, or a list of rows from value to root"
        )
    return Hierarchy(tuple(tuple(map(value_text, row)) for row in value))
