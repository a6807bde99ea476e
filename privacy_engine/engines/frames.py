"""Arrow tables as frames and back, with the types that a released table keeps."""

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

# Dates are days, decimals are numbers, and no Python objects that take a hundred times as long.
_DATES = {kind: pd.ArrowDtype(kind) for kind in (pa.date32(), pa.date64())}


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A frame whose integers, truth values, decimals and dates stay what they are where some are null."""
    columns = {
        name: column.to_pandas(types_mapper=_mapper(column))
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(columns, columns=table.column_names)


def _mapper(column: pa.ChunkedArray) -> Callable[[pa.DataType], Any] | None:
    """The types of pandas for a column; None where pyarrow knows: by a mapper it calls empty text no text."""
    if t.is_decimal(column.type):
        return pd.ArrowDtype
    kinds = _NULLABLE | _DATES if column.null_count else _DATES
    return kinds.get if column.type in kinds else None


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """The columns of a frame in plain types: no index, and no metadata of file or fields."""
    return plain_columns(pa.Table.from_pandas(frame, preserve_index=False), list(frame.columns))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column is read in: dictionaries decoded, and one type of text.

    >>> plain_type(pa.dictionary(pa.int8(), pa.large_string()))
    DataType(string)
    """
    if t.is_dictionary(kind):
        return plain_type(kind.value_type)
    return pa.string() if t.is_large_string(kind) or t.is_string_view(kind) else kind


def plain_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Columns in order, dictionaries decoded, one text type, and no metadata of file or fields."""
    fields = [pa.field(name, plain_type(table.schema.field(name).type)) for name in names]
    columns = [table.column(field.name).cast(field.type) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)).combine_chunks()
