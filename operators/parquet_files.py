"""Tables as Parquet bytes, and the private files of a work area."""

import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import IntegrityError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def to_frame(table: "pa.Table") -> "pd.DataFrame":
    """A frame whose integers and truth values stay what they are where some are null."""
    import pandas as pd
    import pyarrow as pa

    nullable = {
        pa.bool_(): pd.BooleanDtype(),
        **{
            getattr(pa, name.lower())(): pd.array([], dtype=name).dtype
            for name in ("Int8", "Int16", "Int32", "Int64")
        },
        **{
            getattr(pa, name.lower())(): pd.array([], dtype=name).dtype
            for name in ("UInt8", "UInt16", "UInt32", "UInt64")
        },
    }
    columns = {
        name: column.to_pandas(types_mapper=nullable.get if column.null_count else None)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(columns, columns=table.column_names)


def parquet_bytes(table: "pd.DataFrame") -> bytes:
    """A table as one Parquet file: equal tables give equal bytes; no index, and no metadata of the source."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = plain_columns(pa.Table.from_pandas(table, preserve_index=False), list(table.columns))
    sink = pa.BufferOutputStream()
    pq.write_table(plain, sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


def write_private(path: Path, data: bytes) -> str:
    """Write a file whole or not at all, readable by the service user alone; its sha256."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return hashlib.sha256(data).hexdigest()


def read_private(path: str | Path, sha256: str) -> "pd.DataFrame":
    """The table of a Parquet file of the work area, if its bytes are the recorded ones; read once.

    Raises:
        IntegrityError: if the file is missing, changed or not whole.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IntegrityError(
            f"{path.name} must be in the work area, got {type(error).__name__}; run from ingest again"
        ) from None
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise IntegrityError(
            f"{path.name} must have the recorded sha256 {sha256}, got {found}: it changed between two steps; "
            "run from ingest again"
        )
    try:
        return to_frame(pq.ParquetFile(pa.BufferReader(data)).read())
    except (pa.ArrowException, OSError):
        raise IntegrityError(
            f"{path.name} of {len(data)} bytes must be a whole Parquet file; run from ingest again"
        ) from None


def plain_columns(table: "pa.Table", names: Sequence[str]) -> "pa.Table":
    """Columns in order, dictionaries decoded, one text type, and no metadata of file or fields."""
    import pyarrow as pa
    import pyarrow.types as t

    def plain(kind: "pa.DataType") -> "pa.DataType":
        if t.is_dictionary(kind):
            return plain(kind.value_type)
        return pa.string() if t.is_large_string(kind) or t.is_string_view(kind) else kind

    fields = [pa.field(name, plain(table.schema.field(name).type)) for name in names]
    columns = [table.column(field.name).cast(field.type) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)).combine_chunks()
