"""Tables as Parquet bytes, and the private files of a work area, large ones part by part.

If a table of the work area is a set of files, its address and hash are those of their list, see `file_sets`.
Functions that read it read all its files, and check each against its hash in the list.
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

ROWS = 131_072  # records of a row group, the unit in which large tables are read and written
MAX_EXPANSION = 1_000  # largest allowed ratio of bytes in memory to bytes in a source file
_THREADS = min(8, len(os.sched_getaffinity(0)))  # threads that hash files
_BUFFER = 1 << 20  # bytes of a column chunk that are read at once


def how_to_convert(name: str) -> str | None:
    """Return how to convert a file to Parquet if its name says that it is CSV. None for other files.

    >>> how_to_convert("voters.parquet") is None
    True
    """
    if not name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        return None
    return (
        "CSV has no types, so convert it with DuckDB, which is installed with this package, and name the "
        'columns whose leading zeros count: python -c "import duckdb; '
        "duckdb.sql(\\\"COPY (FROM read_csv('FILE.csv', types={'zip': 'VARCHAR'})) TO 'FILE.parquet'\\\")\""
    )


def parquet_bytes(table: "pd.DataFrame") -> bytes:
    """Return a table as one Parquet file. Equal tables give equal bytes. No index or metadata is kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from privacy_engine.engines.frames import to_arrow

    sink = pa.BufferOutputStream()
    pq.write_table(to_arrow(table), sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


def part_bytes(table: "pa.Table") -> bytes:
    """Return a table in memory as the bytes that `private_parquet` would write."""
    sink = io.BytesIO()
    file = PrivateParquet(_Hashed(sink))
    file.write(table)
    file.close()
    return sink.getvalue()


def write_private(path: Path, data: bytes) -> str:
    """Write a file atomically, readable only by the service user, and return its SHA-256."""
    with new_private(path) as stream:
        stream.write(data)
    return hashlib.sha256(data).hexdigest()


def read_private(path: str | Path, sha256: str) -> "pd.DataFrame":
    """Read the table of a Parquet file of the work area, if its bytes are the recorded ones.

    Raises:
        IntegrityError: If the file is missing, changed or incomplete.
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
    """Raise if a file of the work area does not have the recorded bytes. It is read in blocks.

    Raises:
        IntegrityError: If the file is missing or changed.
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
    """Yield the records of a large Parquet file of the work area in batches, in order.

    One open file is hashed, read and hashed again. If the file is replaced, this has no effect; if it is
    written to, this is noticed after the last batch at the latest. So do not use results before the last
    batch was read.

    Args:
        path: Path of the file.
        sha256: Recorded SHA-256 of the file.
        columns: Columns to read. None: all.
        rows: Largest number of records in a batch.

    Raises:
        IntegrityError: If the file is missing, changed or incomplete.
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
    """Open a Parquet file whose column chunks are read in pieces.

    The checksums of its pages are verified, if it has any.

    Args:
        stream: Stream of the file.
        folded: Text columns that are read as dictionaries, so that a long value is in memory only once.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        stream,
        buffer_size=_BUFFER,
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=list(folded),
        # in nanoseconds, dates before 1677 and after 2262 would silently change
        coerce_int96_timestamp_unit="us",
    )


def batches_of(
    opened: "pq.ParquetFile", columns: Sequence[str] | None = None, rows: int = ROWS
) -> Iterator["pa.RecordBatch"]:
    """Yield the records of an open file, in order."""
    return opened.iter_batches(  # type: ignore[no-any-return]  # its stub has no return type
        rows, columns=None if columns is None else list(columns), use_threads=False
    )


class PrivateParquet:
    """A Parquet file that is written part by part, see `private_parquet`.

    Attributes:
        rows: Number of records written so far.
    """

    def __init__(self, stream: "_Hashed") -> None:
        self.rows = 0
        self._stream = stream
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: "pa.Table") -> None:
        """Add records, in row groups of at most `ROWS`. All parts have the first part's columns and types."""
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
        """Write nothing more, even when the Parquet library closes the file."""
        self._stream.abandoned = True
        if self._writer is not None:
            self._writer.close()

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written so far, and of the file once it is complete."""
        return self._stream.digest.hexdigest()


@contextmanager
def private_parquet(path: Path) -> Iterator[PrivateParquet]:
    """Write a large Parquet file atomically, like `write_private`, with zstd and without source metadata.

    When the block ends, the file is in its place and its `sha256` is known.
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
    """Open a new file with mode 0600 under a temporary name. When complete, it is moved to the path.

    Raises:
        CapacityError: If the disk or the memory is full. The incomplete file is removed.
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
    """Return the SHA-256 of an open file, and rewind it."""
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
