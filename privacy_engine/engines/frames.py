"""Conversion between Arrow tables and data frames, with the types that a released table keeps."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.types as t

_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}

# Dates become days, decimals numbers, and no Python objects, which are a hundred times as slow.
_DATES = {kind: pd.ArrowDtype(kind) for kind in (pa.date32(), pa.date64())}


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a frame whose integers, truth values, decimals and dates keep their type if some are null."""
    columns = {
        name: column.to_pandas(types_mapper=_mapper(column))
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(columns, columns=table.column_names)


def _mapper(column: pa.ChunkedArray) -> Callable[[pa.DataType], Any] | None:
    """Return the pandas type of a column; None if pyarrow knows it (a mapper makes it mistype empty text)."""
    if t.is_decimal(column.type):
        return pd.ArrowDtype
    kinds = _NULLABLE | _DATES if column.null_count else _DATES
    return kinds.get if column.type in kinds else None


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """Return the columns of a frame in plain types: no index, and no metadata of file or fields."""
    return plain_columns(pa.Table.from_pandas(frame, preserve_index=False), list(frame.columns))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is read: dictionaries decoded, and one type of text.

    >>> plain_type(pa.dictionary(pa.int8(), pa.large_string()))
    DataType(string)
    """
    if t.is_dictionary(kind):
        return plain_type(kind.value_type)
    return pa.string() if t.is_large_string(kind) or t.is_string_view(kind) else kind


def plain_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns in order, dictionaries decoded, one text type, and no metadata of file or fields."""
    fields = [pa.field(name, plain_type(table.schema.field(name).type)) for name in names]
    columns = [table.column(field.name).cast(field.type) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)).combine_chunks()
