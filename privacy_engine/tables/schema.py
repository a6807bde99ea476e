"""The attributes of a table, and the person of each row."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

from privacy_engine import plain_yaml
from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.date_form import DateSpan, Floats, Shift
from privacy_engine.tables.dates import DATES
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.persons import PERSON_FIELDS, TABLE, LinkedTable, Person, person_codes
from privacy_engine.vocabulary import Role, counted

_PERSON = "person"


@dataclass(frozen=True)
class DataSchema:
    """All attributes of a table, in column order, and the person of each row.

    Attributes:
        attributes: Attributes in the order of the columns.
        person: Person of each row; None: not stated, and each row counts as a person. The column that names
            the person is an identifier, so a released table no longer has it; if rows are linked, it has a
            pseudonym there, which is insensitive.

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
                f"{self[self.by].role.value}: what identifies persons is never released"
            )
        if self.by in self.names and self[self.by].pseudonym:
            raise SchemaError(
                f"attribute {self.by!r} names the person and must have no pseudonym, which would link the "
                "rows of a person and require classes of whole persons. Remove it, or aggregate the source "
                "to one row per person and remove `person`"
            )
        if len({a.dates.shift for a in self.attributes if a.dates and a.dates.shift}) > 1:
            raise SchemaError(
                "shift must be the same everywhere, because all dates of a person are shifted by the same "
                "number of days, which keeps the differences between them"
            )
        known = {self.by, TABLE, *(name for t in self.tables for name in (*t.columns, *t.carried))}
        if self.tables and (foreign := [name for name in self.names if name not in known]):
            raise SchemaError(f"attributes {foreign} belong to none of the tables. Name the table of each")

    @property
    def tables(self) -> tuple[LinkedTable, ...]:
        """The tables of the rows; empty if there is only one."""
        return self.person.tables if self.person else ()

    def of_table(self, name: str) -> "DataSchema":
        """Return the schema of one of the tables: its own columns, after that of the person.

        Raises:
            SchemaError: If it is not one of them.
        """
        for table in self.tables:
            if table.name == name and self.person is not None:
                own = {self.by, *table.columns}
                kept = tuple(a for a in self.attributes if a.name in own)
                return DataSchema(kept, replace(self.person, tables=()))
        raise SchemaError(f"no table {name!r} in the schema, which has {[t.name for t in self.tables]}")

    @property
    def by(self) -> str:
        """The column that names the person of a row; empty if each row counts as a person."""
        return (self.person.column if self.person else None) or ""

    @property
    def exact_persons(self) -> bool:
        """Whether two spellings of the person's identifier are two persons."""
        return self.by in self.names and self[self.by].exact is not None

    def person_codes(self, persons: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """(n,) a number 0 .. P - 1 for each person, see `persons.person_codes`."""
        return person_codes(persons, exact=self.exact_persons)

    @property
    def linked(self) -> bool:
        """Whether a pseudonym links the rows of a person in the release."""
        return self.person is not None and self.person.linked

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(a.name for a in self.attributes)

    @property
    def read(self) -> "DataSchema":
        """The schema of the source's columns, without those that are derived."""
        return replace(self, attributes=tuple(a for a in self.attributes if a.derive is None))

    @property
    def derived_from(self) -> tuple[str, ...]:
        """The columns that others are derived from."""
        return tuple(dict.fromkeys(name for a in self.attributes if a.derive for name in a.derive.columns))

    @property
    def counted_from_first(self) -> tuple[str, ...]:
        """The date columns from whose first date of a person another column counts days."""
        since = [a.derive for a in self.attributes if a.derive and a.derive.span is DateSpan.DAYS_SINCE_FIRST]
        return tuple(dict.fromkeys(derivation.of[0] for derivation in since))

    @property
    def to_shift(self) -> dict[str, Shift]:
        """The dates that are to be shifted when a source is read, and their shift, the same for all."""
        return {a.name: a.dates.shift for a in self.attributes if a.dates and a.dates.shift}

    @property
    def shifted_by(self) -> str:
        """The identifier of the person by whom dates are shifted; empty if none are.

        Raises:
            SchemaError: If the schema does not determine it.
        """
        names = [a.name for a in self.identifiers if a.name not in self.derived_from]
        if not self.to_shift or self.by or len(names) == 1:
            return (self.by or names[0]) if self.to_shift else ""
        raise SchemaError(
            f"{list(self.to_shift)} are shifted by person, but {len(names)} identifiers of the schema "
            "may identify the person of a row. Name that column as `person`, or keep only one "
            "identifier in the schema if each row belongs to another person"
        )

    @cached_property
    def quasi_identifiers(self) -> tuple[Attribute, ...]:
        """Attributes known to others."""
        return self._of(Role.QUASI_IDENTIFIER)

    @cached_property
    def sensitive(self) -> tuple[Attribute, ...]:
        """Attributes that must not be learned about a person."""
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
        raise SchemaError(f"no attribute {name!r} in the schema, which has {list(self.names)}")

    def select(self, names: Iterable[str]) -> "DataSchema":
        """Return the schema of some of the columns, in the given order."""
        return DataSchema(tuple(self[name] for name in names), self.person)

    def keeping_nulls(self) -> "DataSchema":
        """Return the schema with every releasable attribute nullable."""
        kept = (a if a.role is Role.IDENTIFIER else replace(a, nullable=True) for a in self.attributes)
        return replace(self, attributes=tuple(kept))

    def without_identifiers(self) -> "DataSchema":
        """Return the schema without identifiers, for the release."""
        kept = tuple(a for a in self.attributes if a.role is not Role.IDENTIFIER)
        return DataSchema(kept, self.person)

    def with_pseudonym(self) -> "DataSchema":
        """Return the schema of a release of linked rows, with a pseudonym instead of the person."""
        pseudonym = Attribute(name=self.by, role=Role.INSENSITIVE)
        named = (pseudonym if a.name == self.by else a for a in self.attributes)
        tables = tuple(replace(t, columns=(*t.columns, *t.carried), carried=()) for t in self.tables)
        person = self.person and replace(self.person, tables=tables)
        return DataSchema(tuple(a for a in named if a.role is not Role.IDENTIFIER), person)

    def require_original(self) -> None:
        """Raise if this is the schema of a release, whose persons have pseudonyms, instead of a source.

        Raises:
            SchemaError: If the column that names the person is not an identifier.
        """
        if self.by in self.names and self[self.by].role is not Role.IDENTIFIER:
            raise SchemaError(
                f"attribute {self.by!r} names the person of each record of a source, so its role must be "
                f"identifier, got {self[self.by].role.value}; a release has a pseudonym instead"
            )

    def require_derivable(self) -> None:
        """Raise if the schema lacks columns for derivations and shifts.

        Raises:
            SchemaError: If it does; the message names the attribute and the column.
        """
        dated = {a.name for a in self.attributes if a.dates is not None}
        for attribute in self.attributes:
            if attribute.derive is None:
                continue
            if missing := [name for name in attribute.derive.columns if name not in dated]:
                raise SchemaError(
                    f"attribute {attribute.name!r}: it is derived from {missing}, which must be columns of "
                    "the schema of kind date or timestamp; one that is not released has the role identifier"
                )
            if attribute.derive.span is DateSpan.DAYS_SINCE_FIRST and not self.by:
                raise SchemaError(
                    f"attribute {attribute.name!r}: {DateSpan.DAYS_SINCE_FIRST.value} requires the "
                    "person of each row. Name the column with it as `person`"
                )
        _ = self.shifted_by

    def derived(self, table: pd.DataFrame, first: Mapping[str, Floats] | None = None) -> pd.DataFrame:
        """Return the table with the columns that are derived from its true dates.

        Args:
            table: Table with the columns of the source.
            first: Column of dates -> (n,) its first day of each record's person; None: the first in `table`.

        Raises:
            SchemaError: If the dates cannot be read, by column, rule and count.
        """
        self.require_derivable()
        sources = [replace(self[name], nullable=True) for name in self.derived_from]
        if problems := [f"{a.name}: {p}" for a in sources for p in a.problems(table[a.name])]:
            raise SchemaError("; ".join(problems))
        days = {a.name: a.dates.read(table[a.name]).numbers(DATES) for a in sources if a.dates}
        if first is None:
            first = {
                name: pd.Series(days[name]).groupby(table[self.by].to_numpy()).transform("min").to_numpy()
                for name in self.counted_from_first
            }
        made = {
            a.name: a.derive.numbers(days, first.get(a.derive.of[0])).set_axis(table.index)
            for a in self.attributes
            if a.derive
        }
        return table.assign(**made)

    def shifted(self, table: pd.DataFrame, days: npt.NDArray[np.int64]) -> pd.DataFrame:
        """Return the table with dates shifted by the days (n,) of each record's person.

        Raises:
            SchemaError: If a shift may lead out of the calendar, by column and count.
        """
        moved = {}
        for attribute in self.attributes:
            if attribute.dates is not None and attribute.dates.shift is not None:
                try:
                    column = attribute.dates.shifted(table[attribute.name], days)
                except SchemaError as error:
                    raise SchemaError(f"{attribute.name}: {error}") from None
                moved[attribute.name] = column.set_axis(table.index)
        return table.assign(**moved)

    def ingested(self) -> "DataSchema":
        """Return the schema after a source is read: derived columns are columns, and dates are shifted."""
        return replace(self, attributes=tuple(a.ingested() for a in self.attributes))

    def without_zones(self) -> "DataSchema":
        """Return the schema of times that were read, which are already on the clocks of their zones."""
        return replace(
            self,
            attributes=tuple(
                replace(a, dates=replace(a.dates, zone=None)) if a.dates is not None and a.dates.zone else a
                for a in self.attributes
            ),
        )

    def check(self, table: pd.DataFrame) -> None:
        """Raise if a table does not fit the schema.

        Raises:
            SchemaError: If it does not; the message has all problems by column, rule and count, never values.
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
        """Raise for rows of no table, and rows that do not fit the schema of their table."""
        names = [t.name for t in self.tables]
        problems = []
        if foreign := int((~table[TABLE].isin(names)).sum()):
            problems.append(
                f"{TABLE}: {counted(foreign, 'row is', 'rows are')} of none of the tables {names}. "
                "Correct the source"
            )
        for name in names:
            own = self.of_table(name)
            try:
                own.check(table.loc[(table[TABLE] == name).to_numpy(dtype=bool), list(own.names)])
            except SchemaError as error:
                problems.append(f"table {name}: {error}")
        if problems:
            raise SchemaError("; ".join(problems))

    def normalized(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a checked table with dates in one type, cut to their precision, and values coded.

        A table that is already normalized is returned unchanged.

        Raises:
            SchemaError: If dates are still to be shifted.
        """
        if self.to_shift:
            raise SchemaError(
                f"the dates of {list(self.to_shift)} are shifted when a source is read, with a key. Use the "
                "table and the schema that privacy_release.ingest returns, or remove `shift`"
            )
        read = {
            a.name: a.normal(table[a.name]).set_axis(table.index)
            for a in self.normalized_attributes
            if a.name in table.columns
        }
        return table.assign(**read) if read else table

    @property
    def normalized_attributes(self) -> tuple[Attribute, ...]:
        """Attributes whose values `normalized` may change."""
        released = (a for a in self.attributes if a.role is not Role.IDENTIFIER)
        return tuple(a for a in released if a.dates is not None or a.coding is not None)

    def coded(self) -> "DataSchema":
        """The schema of a normalized table."""
        coded = (replace(a, coding=a.coding.coded()) if a.coding else a for a in self.attributes)
        return replace(self, attributes=tuple(coded))

    def as_of(self, day: date) -> "DataSchema":
        """Return the schema for a release of that day: codes that depend on its year are known."""
        return replace(self, attributes=tuple(a.as_of(day) for a in self.attributes))

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise for missing, unknown and repeated columns, before any value is read."""
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
        """Return ``{name: fields}``, and ``person``, for ``from_dict``."""
        values: dict[str, Any] = {a.name: a.to_dict() for a in self.attributes}
        if self.person is not None:  # a column of that name has its fields next to those of the person
            values[_PERSON] = {**values.get(_PERSON, {}), **self.person.to_dict()}
        return values

    @classmethod
    def from_dict(
        cls, fields: Mapping[str, Any], hierarchies: Mapping[str, Hierarchy] | None = None
    ) -> "DataSchema":
        """Read ``{name: {role, kind, ...}}``; hierarchies by key or written out.

        ``person`` is the person of each row, see `Person.from_dict`. If a column has that name, its role and
        kind are given with it: ``person: {role: identifier, column: person}``.
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
        schema = cls(tuple(attributes), person)
        schema.require_derivable()
        return schema

    def to_yaml(self) -> str:
        """YAML text."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @classmethod
    def from_yaml(cls, text: str, hierarchies: Mapping[str, Hierarchy] | None = None) -> "DataSchema":
        """Read YAML text."""
        try:
            return cls.from_dict(plain_yaml.load(text), hierarchies)
        except yaml.YAMLError as error:
            raise SchemaError(f"the schema is not valid YAML: {error}") from None

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, hierarchies: Mapping[str, Hierarchy] | None = None) -> "DataSchema":
        """Read JSON text."""
        try:
            return cls.from_dict(json.loads(text), hierarchies)
        except json.JSONDecodeError as error:
            raise SchemaError(f"the schema is not valid JSON: {error}") from None


def nameless_records(by: str, count: int) -> str:
    """Return the error for records that name no person."""
    return f"{by}: {counted(count, 'record is', 'records are')} without a person. Give each one, or drop them"
