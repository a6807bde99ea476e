"""The columns of a table while Spark processes them: other names, and some other types."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as t

from privacy_engine.engines.frames import plain_columns
from privacy_engine.errors import SchemaError

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
}
_KEPT = (
    t.is_signed_integer,
    t.is_float32,
    t.is_float64,
    t.is_boolean,
    t.is_string,
    t.is_binary,
    t.is_date32,
    t.is_decimal128,
    t.is_null,
)


@dataclass(frozen=True)
class Columns:
    """Names and types as in the files. In Spark the columns are named ``c0``, ``c1``, ...

    Spark reads a dot in a name as a field, and treats `Age` and `age` as one name by default.

    >>> Columns.of(pa.schema({"a.b": pa.uint8(), "x": pa.float64()})).key("x")
    'case when isnan(c1) then null when c1 = 0 then 0D else c1 end'
    """

    schema: pa.Schema

    @classmethod
    def of(cls, stored: pa.Schema) -> "Columns":
        """Build the columns of files with this schema, in the types that a frame has.

        Raises:
            SchemaError: If Spark would change the values of one.
        """
        columns = cls(plain_columns(stored.empty_table(), stored.names).schema)
        for field in columns.schema:
            carried_type(field)
        return columns

    @property
    def carried(self) -> list[str]:
        """Spark's names."""
        return [f"c{i}" for i in range(len(self.schema))]

    def field(self, name: str) -> pa.Field:
        """Return the field of a column.

        Raises:
            SchemaError: If there is no such column.
        """
        if name not in self.schema.names:
            raise SchemaError(f"column {name!r} must be in the files; they have {self.schema.names}")
        return self.schema.field(name)

    def carrying(self, name: str) -> str:
        """Return Spark's name of a column."""
        return f"c{self.schema.get_field_index(self.field(name).name)}"

    def key(self, name: str) -> str:
        """Return an expression that is equal for values that count as equal: NaN is null, and -0 is 0."""
        kind, column = self.field(name).type, self.carrying(name)
        if not t.is_floating(kind):
            return column
        zero = "cast(0 as float)" if t.is_float32(kind) else "0D"
        return f"case when isnan({column}) then null when {column} = 0 then {zero} else {column} end"

    def number(self, name: str) -> str:
        """Like `key`, for numbers in double precision; dates are days, times seconds since 1970.

        Raises:
            SchemaError: If the column has other values.
        """
        kind = self.field(name).type
        if t.is_date32(kind):
            return f"cast(unix_date({self.key(name)}) as double)"
        if t.is_timestamp(kind) and kind.tz is None:
            return f"unix_micros(cast({self.key(name)} as timestamp)) / 1e6D"
        if not (t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)):
            raise SchemaError(f"column {name!r} must hold numbers, got {kind}")
        return f"cast({self.key(name)} as double)"

    def restored(self, carried: pa.Table) -> pa.Table:
        """Give the columns of a table with Spark's names their own names and types again."""
        columns = [
            restored(carried.column(name), field.type)
            for name, field in zip(self.carried, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self.schema).combine_chunks()

    def carry(self, table: pa.Table) -> pa.Table:
        """Give columns Spark's names and types; the inverse of `restored`."""
        columns = [table.column(field.name).cast(carried_type(field)) for field in self.schema]
        return pa.Table.from_arrays(columns, names=self.carried)

    def counted(self, found: pa.Table, names: Sequence[str]) -> pa.Table:
        """Rename counts by columns ``k0``, ``k1``, ... to the names and types of those columns.

        Raises:
            SchemaError: If one has the name of a column of the result.
        """
        others = [name for name in found.column_names if name not in key_names(names)]
        if clash := sorted(set(others) & set(names)):
            raise SchemaError(
                f"columns {clash} cannot be counted, because the result has columns with these names. Rename"
            )
        keys = {
            name: restored(found.column(key), self.field(name).type)
            for name, key in zip(names, key_names(names), strict=True)
        }
        return pa.table(
            {name: found.column(name) for name in others[:-1]} | keys | {others[-1]: found.column(others[-1])}
        )


def restored(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column as it was in the file."""
    return pa.chunked_array([pa.nulls(len(column))]) if t.is_null(kind) else column.cast(kind)


def carried_type(field: pa.Field) -> pa.DataType:
    """Return the type that Spark uses for a column: it has no unsigned numbers, and one unit of time.

    Raises:
        SchemaError: If values would change.
    """
    kind = field.type
    if t.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", kind.tz)
    if kind in _WIDER or any(test(kind) for test in _KEPT):
        return _WIDER.get(kind, kind)
    raise SchemaError(
        f"column {field.name!r} must have a type that Spark keeps unchanged, got {kind}. Write it as text, a "
        "number, a date, or a time stamp in microseconds"
    )


def key_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns that are grouped by."""
    return [f"k{i}" for i in range(len(names))]
