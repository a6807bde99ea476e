"""Tables as Parquet bytes, and the private files of a work area."""

import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import IntegrityError

if TYPE_CHECKING:
    import pandas as pd


def parquet_bytes(table: "pd.DataFrame") -> bytes:
    """A table as one Parquet file: equal tables give equal bytes; no index, and no metadata of the source."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from privacy_engine.engines.frames import to_arrow

    sink = pa.BufferOutputStream()
    pq.write_table(to_arrow(table), sink, compression="zstd", store_schema=False)
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

    from privacy_engine.engines.frames import to_frame

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
