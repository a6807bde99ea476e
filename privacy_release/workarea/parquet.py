"""Tables as Parquet bytes, and the private files of a work area, large ones part by part.

Where a table of the work area is a set of files, its address and hash are those of their list, see
`file_sets`; whatever reads it reads all of them, each held against its own hash in the list.
"""

import hashlib
import io
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from privacy_engine.errors import IntegrityError
from privacy_engine.foreign import translated
from privacy_engine.pipeline import each_done
from privacy_release.workarea.file_sets import files_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq
    from _typeshed import ReadableBuffer

ROWS = 131_072  # records that a large table is read and written by: one row group
MAX_EXPANSION = 1_000  # bytes that the records of a source take for each byte of their file, at most
_THREADS = min(8, len(os.sched_getaffinity(0)))  # that hash files
_BUFFER = 1 << 20  # bytes of a column chunk that are read at a time


def how_to_convert(name: str) -> str | None:
    """How a file is made Parquet whose name says that it is CSV; None of any other.

    >>> how_to_convert("voters.parquet") is None
    True
    """
    if not name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        return None
    return (
        "CSV has no types, so convert it with DuckDB, which is installed with this, and name the columns "
        'whose leading zeros count: python -c "import duckdb; '
        "duckdb.sql(\\\"COPY (FROM read_csv('FILE.csv', types={'zip': 'VARCHAR'})) TO 'FILE.parquet'\\\")\""
    )


def parquet_bytes(table: "pd.DataFrame") -> bytes:
    """A table as one Parquet file: equal tables give equal bytes; no index, and no metadata of the source."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from privacy_engine.engines.frames import to_arrow

    sink = pa.BufferOutputStream()
    pq.write_table(to_arrow(table), sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


def part_bytes(table: "pa.Table") -> bytes:
    """A table that is in memory as the bytes of the file that `private_parquet` would write of it."""
    sink = io.BytesIO()
    file = PrivateParquet(_Hashed(sink))
    file.write(table)
    file.close()
    return sink.getvalue()


def write_private(path: Path, data: bytes) -> str:
    """Write a file whole or not at all, readable by the service user alone; its sha256."""
    with new_private(path) as stream:
        stream.write(data)
    return hashlib.sha256(data).hexdigest()


def read_private(path: str | Path, sha256: str) -> "pd.DataFrame":
    """The table of a Parquet file of the work area, if its bytes are the recorded ones; read once.

    Raises:
        IntegrityError: if the file is missing, changed or not whole.
    """
    import pyarrow as pa

    from privacy_engine.engines.frames import to_frame

    files = files_of(path, sha256)
    return to_frame(pa.concat_tables(_read(file, own) for file, own in files.items()))


def _read(path: Path, sha256: str) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = path.read_bytes()
    except OSError as error:
        raise _missing(path, error) from None
    _require(path, sha256, hashlib.sha256(data).hexdigest())
    try:
        return pq.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError) as error:
        raise translated(error, f"reading {path.name}") or _broken(path, len(data)) from None


def require_unchanged(path: str | Path, sha256: str) -> None:
    """Refuse a file of the work area whose bytes are not the recorded ones; read in blocks.

    Raises:
        IntegrityError: if the file is missing or changed.
    """

    def look(item: tuple[Path, str]) -> None:
        file, own = item
        try:
            with file.open("rb") as stream:
                found = _hash(stream)
        except OSError as error:
            raise _missing(file, error) from None
        _require(file, own, found)

    each_done(look, files_of(path, sha256).items(), _THREADS)


def unchanged_batches(
    path: str | Path, sha256: str, columns: Sequence[str] | None = None, rows: int = ROWS
) -> Iterator["pa.RecordBatch"]:
    """The records of a large Parquet file of the work area, in its order, a batch at a time.

    One open file is hashed, read and hashed again: a file that is put in its place changes nothing, and one
    that is written to is noticed after the last batch at the latest. What is made of the batches must not be
    used before the last one has come.

    Args:
        path: of the file.
        sha256: that was recorded for it.
        columns: to read; None: all.
        rows: most records of a batch.

    Raises:
        IntegrityError: if the file is missing, changed or not whole.
    """
    for file, own in files_of(path, sha256).items():
        yield from _unchanged_batches(file, own, columns, rows)


def _unchanged_batches(
    path: Path, sha256: str, columns: Sequence[str] | None, rows: int
) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    try:
        stream = path.open("rb")
    except OSError as error:
        raise _missing(path, error) from None
    with stream:
        _require(path, sha256, _hash(stream))
        try:
            yield from batches_of(opened_parquet(stream), columns, rows)
        except (pa.ArrowException, OSError) as error:
            _require(path, sha256, _hash(stream))
            size = stream.seek(0, os.SEEK_END)
            raise translated(error, f"reading {path.name}") or _broken(path, size) from None
        _require(path, sha256, _hash(stream))


def opened_parquet(stream: IO[bytes], folded: Sequence[str] = ()) -> "pq.ParquetFile":
    """A Parquet file whose column chunks are read piece by piece, not at once.

    The checksums of its pages are held against them, where it has any.

    Args:
        stream: of the file.
        folded: columns of text that are read as dictionaries, so that a long value is there once.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        stream,
        buffer_size=_BUFFER,
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=list(folded),
        # in nanoseconds, dates before 1677 and after 2262 would become others without a word
        coerce_int96_timestamp_unit="us",
    )


def batches_of(
    opened: "pq.ParquetFile", columns: Sequence[str] | None = None, rows: int = ROWS
) -> Iterator["pa.RecordBatch"]:
    """The records of an open file, in its order."""
    return opened.iter_batches(  # type: ignore[no-any-return]  # its stub tells no type
        rows, columns=None if columns is None else list(columns), use_threads=False
    )


class PrivateParquet:
    """A Parquet file that is being written part by part, see `private_parquet`.

    Attributes:
        rows: that were written.
    """

    def __init__(self, stream: "_Hashed") -> None:
        self.rows = 0
        self._stream = stream
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: "pa.Table") -> None:
        """Add records, in row groups of at most `ROWS`; all parts have the columns and types of the first."""
        import pyarrow.parquet as pq

        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._stream, table.schema, compression="zstd", store_schema=False
            )
        self._writer.write_table(table, row_group_size=ROWS)
        self.rows += len(table)

    def close(self) -> None:
        """Write the footer."""
        if self._writer is None:
            raise ValueError("a Parquet file needs at least one part, which may be empty")
        self._writer.close()

    def abandon(self) -> None:
        """Write no more, also not when the Parquet library tidies up."""
        self._stream.abandoned = True
        if self._writer is not None:
            self._writer.close()

    @property
    def sha256(self) -> str:
        """Of the bytes that were written; of the file once it is whole."""
        return self._stream.digest.hexdigest()


@contextmanager
def private_parquet(path: Path) -> Iterator[PrivateParquet]:
    """Write a large Parquet file as `write_private` does: whole or not at all, zstd, without source metadata.

    The file stands in its place when the block has ended, and its `sha256` is known then.
    """
    with new_private(path) as stream:
        file = PrivateParquet(_Hashed(stream))
        try:
            yield file
        except BaseException:
            file.abandon()
            raise
        file.close()


class _Hashed(io.RawIOBase):
    """A stream that is hashed while it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.digest = hashlib.sha256()
        self.abandoned = False
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        if self.abandoned:
            return memoryview(data).nbytes
        self.digest.update(data)
        return self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()


@contextmanager
def new_private(path: Path) -> Iterator[IO[bytes]]:
    """A new file under a name of its own, with mode 0600, that takes the path once it is whole.

    Raises:
        CapacityError: if the disk or the memory is full; nothing is left of the file then.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            yield stream
        partial.replace(path)
    except Exception as error:
        if ours := translated(error, f"writing {path.name}"):
            raise ours from None
        raise
    finally:
        partial.unlink(missing_ok=True)


def _hash(stream: IO[bytes]) -> str:
    """sha256 of an open file, from its beginning; it stands at its beginning afterwards."""
    stream.seek(0)
    found = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # any readable file
    stream.seek(0)
    return found


def _require(path: Path, sha256: str, found: str) -> None:
    if found != sha256:
        raise IntegrityError(
            f"{path.name} must have the recorded sha256 {sha256}, got {found}: it changed between two steps; "
            "run from ingest again"
        )


def _missing(path: Path, error: OSError) -> IntegrityError:
    return IntegrityError(
        f"{path.name} must be in the work area, got {type(error).__name__}; run from ingest again"
    )


def _broken(path: Path, size: int) -> IntegrityError:
    return IntegrityError(f"{path.name} of {size} bytes must be a whole Parquet file; run from ingest again")
