"""Invent records from a schema only: values are drawn independently and evenly from the public domains."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.domains import Storage, public_domain, with_nullable_types
from privacy_engine.tables.linked import stacked
from privacy_engine.tables.persons import TABLE
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Role

_LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
_PSEUDONYM = 26  # letters of a pseudonym
_ROWS_OF_PERSON = 3  # mean number of records of a person, where a person may have several


def invented(
    schema: DataSchema, rows: int, rng: np.random.Generator, types: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Invent records that fit a schema. Each null is one of the values of its column.

    Args:
        schema: Schema of the records, as a release method receives it. All domains must be public.
        rows: Number of records, >= 1; of several tables, of all together.
        rng: Random generator of the values.
        types: Type of a column as pandas names it, such as `int32`. Others follow from the schema: whole
            numbers where both bounds are whole, otherwise real numbers; text where there are no bounds.

    Raises:
        SchemaError: If a domain is not public, or there are fewer records than tables.
    """
    require_domains(schema)
    if not schema.tables:
        persons = None if not schema.by else _persons(rows, -(-rows // _ROWS_OF_PERSON), rng)
        return _records(schema, rows, rng, types or {}, persons)
    frames = {
        name: _records(schema.of_table(name), len(whose), rng, types or {}, whose)
        for name, whose in _persons_of_tables(schema, rows, rng).items()
    }
    return stacked(frames).loc[:, list(schema.names)]


def require_domains(schema: DataSchema) -> None:
    """Raise if values cannot be invented, because only the records know them.

    Raises:
        SchemaError: Naming every such column and the remedy.
    """
    missing = [a.name for a in schema.without_identifiers().attributes if not _is_known(a, schema)]
    if missing:
        raise SchemaError(
            f"the schema does not list the values of {missing}, and a structure file reads no record; give "
            "each categories, bounds or a hierarchy, or the role identifier, so that it is not released"
        )


def _is_known(attribute: Attribute, schema: DataSchema) -> bool:
    is_table = bool(schema.tables) and attribute.name == TABLE
    return attribute.has_public_domain or attribute.pseudonym is not None or is_table


def _persons(rows: int, people: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the person of each record, shape (rows,). Each person has one if there are enough records."""
    further = rng.integers(people, size=max(rows - people, 0))
    return rng.permutation(np.concatenate([np.arange(people), further])[:rows]).astype(np.int64)


def _persons_of_tables(
    schema: DataSchema, rows: int, rng: np.random.Generator
) -> dict[str, npt.NDArray[np.int64]]:
    """Return the person of each record of each table. Tables whose columns are carried have one of each."""
    count, carried = len(schema.tables), {name for table in schema.tables for name in table.carried}
    if rows < count:
        raise SchemaError(f"rows must be at least {count}, one for each table, got {rows}")
    single = [table.name for table in schema.tables if carried & set(table.columns)]
    others = [table.name for table in schema.tables if table.name not in single]
    people = max(rows // (len(single) + len(others) * _ROWS_OF_PERSON), 1)
    left = rows - people * len(single)
    sizes = [left // len(others) + (i < left % len(others)) for i in range(len(others))]
    numbers = {name: np.arange(people) for name in single}
    numbers |= {name: _persons(n, people, rng) for name, n in zip(others, sizes, strict=True)}
    return {table.name: numbers[table.name] for table in schema.tables}


def _records(
    schema: DataSchema,
    rows: int,
    rng: np.random.Generator,
    types: Mapping[str, str],
    persons: npt.NDArray[np.int64] | None,
) -> pd.DataFrame:
    columns = {}
    for attribute in schema.attributes:
        name, named = attribute.name, attribute.role is Role.IDENTIFIER
        if name == schema.by and persons is not None:
            columns[name] = pd.Series(persons, name=name)
        elif named or attribute.pseudonym is not None:
            columns[name] = _pseudonyms(rows, rng)
        else:
            columns[name] = _values(attribute, rows, rng, types.get(name))
    return with_nullable_types(pd.DataFrame(columns), schema)


def _values(attribute: Attribute, rows: int, rng: np.random.Generator, kind: str | None) -> pd.Series:
    domain = public_domain(attribute, _storage(attribute, kind))
    values = domain.decode(rng.integers(domain.size, size=rows), rng)
    if kind is None:
        return values
    given = pd.api.types.pandas_dtype(kind)
    return values if values.hasnans and isinstance(given, np.dtype) else values.astype(given)


def _storage(attribute: Attribute, kind: str | None) -> Storage:
    """Return the type in which values are drawn: that of the column, or what the schema suggests."""
    if attribute.dates is not None:
        return Storage(attribute.kind.value)
    if kind is not None:
        return Storage.of(pd.Series([], dtype=pd.api.types.pandas_dtype(kind)), attribute)
    if attribute.bounds is None:
        return Storage.TEXT
    return Storage.WHOLE if all(float(bound).is_integer() for bound in attribute.bounds) else Storage.REAL


def _pseudonyms(rows: int, rng: np.random.Generator) -> pd.Series:
    """Return identifiers that are no person's, in the form of pseudonyms, shape (rows,)."""
    letters = _LETTERS[rng.integers(len(_LETTERS), size=(rows, _PSEUDONYM))]
    return pd.Series(["".join(row) for row in letters], dtype="str")
