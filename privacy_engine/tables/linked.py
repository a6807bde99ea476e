"""Several tables that share a person, as one: their rows below each other, each with the name of its table.

A column that two tables have is one attribute. What a table does not have is null in its rows; that is no
value of theirs, and whoever counts values looks at the rows of the table alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.persons import TABLE, LinkedTable, Person, Rows
from privacy_engine.tables.schema import Attribute, DataSchema
from privacy_engine.vocabulary import Kind, Role, released_as


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """The rows of one of the tables.

    Attributes:
        name: of the table; empty where there is one alone.
        schema: of the table.
        table: its rows, with its own columns and that of the person.
        places: (n,) int64, where they stand among the rows of all tables.
    """

    name: str
    schema: DataSchema
    table: pd.DataFrame
    places: npt.NDArray[np.int64]


def rows_by_table(table: pd.DataFrame, schema: DataSchema) -> list[TableRows]:
    """The rows of each table; all of them where the schema is of one.

    Args:
        table: the rows of all tables.
        schema: of them.
    """
    if not schema.tables:
        return [TableRows(name="", schema=schema, table=table, places=np.arange(len(table)))]
    found = []
    for name in (t.name for t in schema.tables):
        own, places = schema.of_table(name), np.flatnonzero((table[TABLE] == name).to_numpy(dtype=bool))
        rows = table.loc[:, list(own.names)].take(places).reset_index(drop=True)
        found.append(TableRows(name=name, schema=own, table=rows, places=places))
    return found


@dataclass(frozen=True, kw_only=True)
class ReleasedClasses:
    """The classes of a release, of one table or of several.

    Attributes:
        whole: of all rows. Where they are of several tables it knows no sensitive attribute: a null there may
            mean that the table has none.
        tables: of each of several tables that has a sensitive attribute, of its rows alone: the same classes
            of whole trajectories, as far as they have rows in it.
    """

    whole: EquivalenceClasses
    tables: Mapping[str, EquivalenceClasses]

    @classmethod
    def of_table(
        cls, table: pd.DataFrame, schema: DataSchema, persons: npt.NDArray[np.generic] | None = None
    ) -> "ReleasedClasses":
        """As `EquivalenceClasses.of_table`, whose arguments these are."""
        classes = EquivalenceClasses.of_table(table, schema, persons)
        if not schema.tables:
            return cls(whole=classes, tables={})
        assert classes.persons is not None
        found = {}
        for own in rows_by_table(table, schema):
            if own.schema.sensitive:
                found[own.name] = EquivalenceClasses(
                    labels=np.unique(classes.labels[own.places], return_inverse=True)[1].astype(np.int64),
                    sensitive=EquivalenceClasses.of_table(own.table, own.schema).sensitive,
                    persons=classes.persons[own.places],
                )
        return cls(whole=EquivalenceClasses(classes.labels, {}, classes.persons), tables=found)

    def of_attribute(self, name: str) -> EquivalenceClasses:
        """The classes that know a sensitive attribute; the whole where none does."""
        return next((c for c in self.tables.values() if name in c.sensitive), self.whole)


def stacked(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Tables below each other, with the name of each in the column `TABLE`, which comes first.

    Whole numbers and truth values stay what they are: their type becomes one that knows nulls.

    >>> rows = stacked(
    ...     {"patients": pd.DataFrame({"id": [1], "age": [40]}), "visits": pd.DataFrame({"id": [1]})}
    ... )
    >>> rows["age"].tolist(), rows["table_name"].tolist()
    ([40, <NA>], ['patients', 'visits'])
    """
    every = list(dict.fromkeys(name for frame in tables.values() for name in frame.columns))
    parts = []
    for name, frame in tables.items():
        parts.append(frame.astype({n: _knows_nulls(frame[n]) for n in frame.columns}))
        parts[-1].insert(0, TABLE, pd.Series(name, index=frame.index, dtype="str"))
    return pd.concat(parts, ignore_index=True).loc[:, [TABLE, *every]]


def _knows_nulls(column: pd.Series) -> Any:
    """The type of a column, or one of the same values and nulls."""
    kind = column.dtype
    if not isinstance(kind, np.dtype) or kind.kind not in "iub":
        return kind
    name = "Boolean" if kind.kind == "b" else f"{'U' * (kind.kind == 'u')}Int{kind.itemsize * 8}"
    return getattr(pd, f"{name}Dtype")()


def with_carried(
    schema: DataSchema,
    tables: Mapping[str, pd.DataFrame],
    schemas: Mapping[str, DataSchema],
    persons: Sequence[npt.NDArray[np.generic]],
) -> dict[str, pd.DataFrame]:
    """Released tables, to whose rows the released values of their person in another table are carried.

    Persons of a class have as many rows in each table, with the same values; so what is carried from a table
    of one row a person is the same for all of them. Who has no row there has nulls.

    Args:
        schema: of the source.
        tables: the released rows of each table.
        schemas: of them.
        persons: of each table (n,) whose record each row is.

    Raises:
        SchemaError: if a person has several rows in the table that it is carried from.
    """
    whose = dict(zip(tables, persons, strict=True))
    found = dict(tables)
    for table in schema.tables:
        for column in table.carried:
            name = next(t.name for t in schema.tables if column in t.columns)
            if len(np.unique(whose[name])) < len(whose[name]):
                raise SchemaError(
                    f"column {column!r} is carried from table {name!r}, which must have one row a person; "
                    "take it out of carry"
                )
            shown = _released_as(column, schemas[name])
            row = pd.Index(whose[name]).get_indexer(pd.Index(whose[table.name]))
            cells = tables[name][shown].astype({n: _knows_nulls(tables[name][n]) for n in shown})
            cells = cells.reindex(pd.Index(row)).reset_index(drop=True)
            found[table.name] = pd.concat([found[table.name], cells], axis="columns")
    return found


def _released_as(column: str, schema: DataSchema) -> list[str]:
    """The columns that a quasi-identifier was released as: itself, or the ends of its interval."""
    return list(released_as(column, schema.names))


def released_schema(
    source: DataSchema, tables: Mapping[str, pd.DataFrame], schemas: Mapping[str, DataSchema]
) -> DataSchema:
    """The schema of released tables below each other, without the pseudonyms.

    Args:
        source: of the tables before they were released.
        tables: the released rows of each, with what is carried to them.
        schemas: of each, without what is carried.

    Raises:
        SchemaError: if two tables have different columns of one name.
    """
    found = {TABLE: source[TABLE]}
    for name, schema in schemas.items():
        for attribute in schema.attributes:
            if found.setdefault(attribute.name, attribute) != attribute:
                raise SchemaError(
                    f"column {attribute.name!r} of table {name!r} must be released as that of the other "
                    "table; rename one of both"
                )
    kept = tuple(LinkedTable(name=name, columns=tuple(table.columns)) for name, table in tables.items())
    person = Person(column=source.by, rows=Rows.LINKED, tables=kept)
    return DataSchema(tuple(found.values()), person)


def schema_of_tables(
    schemas: Mapping[str, DataSchema], by: str, carried: Mapping[str, Sequence[str]] | None = None
) -> DataSchema:
    """The schema of several tables as one.

    Args:
        schemas: of each table, by its name; `person` need not be said in them.
        by: the column that names the person in each of them.
        carried: table -> quasi-identifiers of another one, which has one row a person, whose released values
            its rows get, too.

    Raises:
        SchemaError: if two tables mean different things by a column, or share a sensitive one; if a table has
            no person or no quasi-identifier; or if a column cannot be carried.
    """
    found: dict[str, Attribute] = {}
    for name, schema in schemas.items():
        if by not in schema.names or schema[by].role is not Role.IDENTIFIER:
            raise SchemaError(f"table {name!r} must have the person {by!r}, with the role identifier")
        if not schema.quasi_identifiers:
            raise SchemaError(f"table {name!r} must have at least one quasi-identifier: give one that role")
        for attribute in schema.attributes:
            _require_free(attribute, found.get(attribute.name), name, by)
            found[attribute.name] = attribute
    carried = carried or {}
    if unknown := sorted(set(carried) - set(schemas)):
        raise SchemaError(f"columns are carried to {unknown}, which are none of the tables {list(schemas)}")
    for name, columns in carried.items():
        _require_carriable(name, columns, schemas)
    tables = tuple(
        LinkedTable(
            name=name,
            columns=tuple(n for n in schema.names if n != by),
            carried=tuple(carried.get(name, ())),
        )
        for name, schema in schemas.items()
    )
    tag = Attribute(name=TABLE, role=Role.QUASI_IDENTIFIER, kind=Kind.CATEGORICAL, categories=tuple(schemas))
    person = Person(column=by, rows=Rows.LINKED, tables=tables)
    return DataSchema((found.pop(by), tag, *found.values()), person)


def renamed_person(schema: DataSchema, old: str, new: str) -> DataSchema:
    """The schema of a table whose column that names the person has another name.

    Raises:
        SchemaError: if there is no such column, or the new name is another column's.
    """
    if old not in schema.names:
        raise SchemaError(
            f"the person must be a column of the table, got {old!r}; it has {list(schema.names)}"
        )
    named = tuple(replace(a, name=new) if a.name == old else a for a in schema.attributes)
    return DataSchema(named, Person(column=new))


def _require_free(attribute: Attribute, other: Attribute | None, table: str, by: str) -> None:
    """Refuse a column whose name has another meaning."""
    name = attribute.name
    if name == TABLE:
        raise SchemaError(f"table {table!r}: a column {TABLE!r} tells which table a row is of; rename it")
    if other is None or name == by:
        return
    if attribute != other:
        raise SchemaError(
            f"column {name!r} of table {table!r} must be what it is in the other table, with the same role, "
            "kind and domain; rename one of both"
        )
    if attribute.role is Role.SENSITIVE:
        raise SchemaError(
            f"column {name!r} is sensitive in two tables, whose values are counted by themselves; rename one"
        )


def _require_carriable(table: str, columns: Sequence[str], schemas: Mapping[str, DataSchema]) -> None:
    """Refuse to carry a column to a table that has it, or that is no quasi-identifier of one other table."""
    if len(set(columns)) < len(columns):
        raise SchemaError(f"columns that are carried to table {table!r} must be distinct")
    for column in columns:
        if column in schemas[table].names:
            raise SchemaError(f"column {column!r} is carried to table {table!r}, which has it; remove one")
        own = [s for s in schemas.values() if column in s.names]
        if len(own) != 1 or own[0][column].role is not Role.QUASI_IDENTIFIER:
            raise SchemaError(
                f"column {column!r}, carried to table {table!r}, must be a quasi-identifier of one other "
                "table"
            )
