"""Several tables that share a person, as one: their rows one below the other, each with its table's name.

A column that two tables have is one attribute. Columns that a table does not have are null in its rows. That
is not a value of theirs, so values are only counted in the rows of tables that have the column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.persons import TABLE, LinkedTable, Person, Rows
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role, released_as


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """The rows of one of the tables.

    Attributes:
        name: Name of the table; empty for a single table.
        schema: Schema of the table.
        table: Rows of the table, with its own columns and that of the person.
        places: Index of each row among the rows of all tables, shape (n,) int64.
    """

    name: str
    schema: DataSchema
    table: pd.DataFrame
    places: npt.NDArray[np.int64]


def rows_by_table(table: pd.DataFrame, schema: DataSchema) -> list[TableRows]:
    """Return the rows of each table; all rows if the schema is of a single table.

    Args:
        table: Rows of all tables.
        schema: Schema of all tables.
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
    """The classes of a release with one or several tables.

    Attributes:
        whole: Classes of all rows. For several tables they have no sensitive attribute, because a null there
            may mean that the table lacks it.
        tables: Classes of the rows of each table with a sensitive attribute, if there are several tables: the
            same classes of whole trajectories, as far as they have rows in it.
    """

    whole: EquivalenceClasses
    tables: Mapping[str, EquivalenceClasses]

    @classmethod
    def of_table(
        cls, table: pd.DataFrame, schema: DataSchema, persons: npt.NDArray[np.generic] | None = None
    ) -> "ReleasedClasses":
        """Like `EquivalenceClasses.of_table`, with the same arguments."""
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
        """Return the classes that have a sensitive attribute; the whole if none does."""
        return next((c for c in self.tables.values() if name in c.sensitive), self.whole)


def stacked(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Stack tables, with the name of each in the column `TABLE`, which comes first.

    Whole numbers and truth values keep their type, in a form that has nulls.

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
    """Return the type of a column, or one with the same values and nulls."""
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
    """Add to released tables the released values of their person in another table.

    Persons of a class have the same number of rows in each table, with the same values. So what is carried
    from a table with one row per person is the same for all of them. Persons without a row there get nulls.

    Args:
        schema: Schema of the source.
        tables: Released rows of each table.
        schemas: Schema of each table.
        persons: Table -> (n,) person of each row.

    Raises:
        SchemaError: If a person has several rows in the table that it is carried from.
    """
    whose = dict(zip(tables, persons, strict=True))
    found = dict(tables)
    for table in schema.tables:
        for column in table.carried:
            name = next(t.name for t in schema.tables if column in t.columns)
            if len(np.unique(whose[name])) < len(whose[name]):
                raise SchemaError(
                    f"column {column!r} is carried from table {name!r}, which must have one row per person. "
                    "Remove it from carry"
                )
            shown = _released_as(column, schemas[name])
            row = pd.Index(whose[name]).get_indexer(pd.Index(whose[table.name]))
            cells = tables[name][shown].astype({n: _knows_nulls(tables[name][n]) for n in shown})
            cells = cells.reindex(pd.Index(row)).reset_index(drop=True)
            found[table.name] = pd.concat([found[table.name], cells], axis="columns")
    return found


def _released_as(column: str, schema: DataSchema) -> list[str]:
    """Return the columns that a quasi-identifier was released as: itself, or the ends of its interval."""
    return list(released_as(column, schema.names))


def released_schema(
    source: DataSchema, tables: Mapping[str, pd.DataFrame], schemas: Mapping[str, DataSchema]
) -> DataSchema:
    """Return the schema of stacked released tables, without the pseudonyms.

    Args:
        source: Schema of the tables before the release.
        tables: Released rows of each table, with carried columns.
        schemas: Schema of each table, without carried columns.

    Raises:
        SchemaError: If two tables have different columns of one name.
    """
    found = {TABLE: source[TABLE]}
    for name, schema in schemas.items():
        for attribute in schema.attributes:
            if found.setdefault(attribute.name, attribute) != attribute:
                raise SchemaError(
                    f"column {attribute.name!r} of table {name!r} must be released like that of the other "
                    "table. Rename one of them"
                )
    kept = tuple(LinkedTable(name=name, columns=tuple(table.columns)) for name, table in tables.items())
    person = Person(column=source.by, rows=Rows.LINKED, tables=kept)
    return DataSchema(tuple(found.values()), person)


def schema_of_tables(
    schemas: Mapping[str, DataSchema], by: str, carried: Mapping[str, Sequence[str]] | None = None
) -> DataSchema:
    """Combine the schemas of several tables.

    Args:
        schemas: Schema of each table by name; they need no `person`.
        by: Column that names the person in each of them.
        carried: Table -> quasi-identifiers of another table with one row per person, whose released values
            are added to its rows.

    Raises:
        SchemaError: If two tables use a column with different meanings, or share a sensitive one; if a table
            has no person or no quasi-identifier; or if a column cannot be carried.
    """
    found: dict[str, Attribute] = {}
    for name, schema in schemas.items():
        if by not in schema.names or schema[by].role is not Role.IDENTIFIER:
            raise SchemaError(f"table {name!r} must have the person {by!r}, with the role identifier")
        if not schema.quasi_identifiers:
            raise SchemaError(
                f"table {name!r} must have at least one quasi-identifier. Give one attribute that role"
            )
        for attribute in schema.attributes:
            _require_free(attribute, found.get(attribute.name), name, by)
            found[attribute.name] = attribute
    carried = carried or {}
    if unknown := sorted(set(carried) - set(schemas)):
        raise SchemaError(f"columns are carried to {unknown}, which are not among the tables {list(schemas)}")
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
    """Return a table's schema with another name for the column that names the person.

    Raises:
        SchemaError: If there is no such column, or the new name is another column's.
    """
    if old not in schema.names:
        raise SchemaError(
            f"the person must be a column of the table, got {old!r}. It has {list(schema.names)}"
        )
    named = tuple(replace(a, name=new) if a.name == old else a for a in schema.attributes)
    return DataSchema(named, Person(column=new))


def _require_free(attribute: Attribute, other: Attribute | None, table: str, by: str) -> None:
    """Raise if a column's name has another meaning."""
    name = attribute.name
    if name == TABLE:
        raise SchemaError(
            f"table {table!r}: the column {TABLE!r} is reserved for the table's name. Rename it"
        )
    if other is None or name == by:
        return
    if attribute != other:
        raise SchemaError(
            f"column {name!r} of table {table!r} must have the same meaning as in the other table, "
            "with the same role, kind and domain. Rename one of them"
        )
    if attribute.role is Role.SENSITIVE:
        raise SchemaError(
            f"column {name!r} is sensitive in two tables, whose values are counted separately. Rename one"
        )


def _require_carriable(table: str, columns: Sequence[str], schemas: Mapping[str, DataSchema]) -> None:
    """Raise for carrying a column to a table that has it, or that is not one table's quasi-identifier."""
    if len(set(columns)) < len(columns):
        raise SchemaError(f"columns that are carried to table {table!r} must be distinct")
    for column in columns:
        if column in schemas[table].names:
            raise SchemaError(
                f"column {column!r} is carried to table {table!r}, which already has it. Remove one"
            )
        own = [s for s in schemas.values() if column in s.names]
        if len(own) != 1 or own[0][column].role is not Role.QUASI_IDENTIFIER:
            raise SchemaError(
                f"column {column!r}, carried to table {table!r}, must be a quasi-identifier of one other "
                "table"
            )
