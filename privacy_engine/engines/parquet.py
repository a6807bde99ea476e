"""Parquet files of one table, read as batches of records. Errors name the file and show no value.

A file may be damaged, encrypted or crafted to mislead. So its footer must agree with itself and with the
records, text must be UTF-8, and checksums of pages are verified if the file has them.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as t

from privacy_engine.engines.engine import Files
from privacy_engine.engines.frames import plain_columns
from privacy_engine.errors import PrivacyEngineError, SchemaError
from privacy_engine.foreign import translated

BATCH = 131_072  # records in memory at a time, and most in a row group
COLUMNS = 10_000  # most columns of a file


@contextmanager
def reading(file: str | Path) -> Iterator[None]:
    """Translate errors of Arrow about a file into an error that names it.

    Raises:
        SchemaError: If it cannot be read as a Parquet file.
        CapacityError: If there is too little memory.
    """
    try:
        yield
    except FileNotFoundError:
        raise SchemaError(f"{Path(file).name} does not exist. Write it again") from None
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise unreadable(error, Path(file).name) from None


def unreadable(error: Exception, name: str) -> PrivacyEngineError:
    """Return the error for a file that a library could not read as Parquet.

    Args:
        error: Error of pyarrow or DuckDB, whose message may quote a value.
        name: Name of the file, for the message.
    """
    if ours := translated(error, f"reading {name}"):
        return ours
    message = str(error)
    if re.search(r"encrypted metadata|[Cc]annot decrypt|is encrypted", message):
        return SchemaError(
            f"{name} is encrypted with Parquet's own encryption. Write it without encryption, and leave "
            "encryption to the disk or the object store"
        )
    if "Invalid string encoding" in message:
        return SchemaError(f"{name}: some text is not UTF-8. Encode it as UTF-8 and write the file again")
    return SchemaError(
        f"{name} must be a whole Parquet file, got {type(error).__name__}: it is truncated, damaged or of "
        "another format; write it again"
    )


def footer(file: str) -> pq.FileMetaData:
    """Read the footer of a file.

    Raises:
        SchemaError: If it cannot be read, or contradicts itself.
    """
    with reading(file):
        found = pq.read_metadata(file)
        check_footer(found, Path(file).name)
        return found


def check_footer(found: pq.FileMetaData, name: str) -> None:
    """Raise for a footer that cannot be correct, or that no table of records has, before using it.

    Raises:
        SchemaError: If it is not correct; the message names file, rule, value and remedy.
    """
    if found.num_columns > COLUMNS:
        raise SchemaError(
            f"{name} must have at most {COLUMNS:,} columns, got {found.num_columns:,}. Write the "
            "columns that a release requires to a separate file"
        )
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if min([found.num_rows, *rows]) < 0 or sum(rows) != found.num_rows:
        raise SchemaError(
            f"{name} has a damaged footer: {found.num_rows:,} records in total, but {sum(rows):,} in "
            f"{len(rows):,} row groups. Write it again"
        )


def check_count(read: int, expected: int, name: str) -> None:
    """Raise if a file does not have the number of records in its footer.

    Raises:
        SchemaError: If the numbers differ; the message names the file and both numbers.
    """
    if read != expected:
        raise SchemaError(
            f"{name} is damaged: its footer has {expected:,} records, the file {read:,}. Write it again"
        )


def check_text(table: pa.Table, place: str) -> None:
    """Raise for text that is not UTF-8: Parquet does not check it, and pandas' error would quote it.

    Args:
        table: Table with the types of `plain_columns`.
        place: Name of the file, for the message.

    Raises:
        SchemaError: If there is any; the message names the column and the number of records.
    """
    for field, column in zip(table.schema, table.columns, strict=True):
        if not t.is_string(field.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            wrong = sum(map(_is_not_utf8, column.cast(pa.binary()).to_pylist()))
            raise SchemaError(
                f"{place}: {field.name}: the text of {wrong:,} records is not UTF-8. Encode it "
                "as UTF-8 and write the file again"
            ) from None


def _is_not_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def opened(file: str | Path) -> pq.ParquetFile:
    """Open a file to read its records, with checksums of pages verified if it has them."""
    return pq.ParquetFile(file, page_checksum_verification=True)


def common_schema(files: Files) -> pa.Schema:
    """Return names and types of the columns, which all files share.

    Raises:
        SchemaError: If there is no file, or they differ: a cast would change values silently.
    """
    if not files:
        raise SchemaError("a table must have at least one file, got none")
    schemas = [footer(file).schema.to_arrow_schema().remove_metadata() for file in files]
    for file, found in zip(files, schemas, strict=True):
        if not found.equals(schemas[0]):
            differing = sorted({field.name for field in {*found} ^ {*schemas[0]}})
            raise SchemaError(
                "all files of a table must have the same columns and types in the same order. "
                f"{Path(files[0]).name} and {Path(file).name} differ in {differing or 'their order'}"
            )
    return schemas[0]


def batches(files: Files, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the records of all files, in order, at most `BATCH` at a time, with types of `plain_columns`."""
    names = list(common_schema(files).names if columns is None else columns)
    for file in files:
        name, read = Path(file).name, 0
        with reading(file):
            found = opened(file)
        with found:
            parts = found.iter_batches(BATCH, columns=names)
            while True:
                with reading(file):
                    batch = next(parts, None)
                if batch is None:
                    break
                table = plain_columns(pa.Table.from_batches([batch]), names)
                check_text(table, name)
                read += len(table)
                yield table
            check_count(read, found.metadata.num_rows, name)


def regrouped(tables: Iterable[pa.Table], rows: int = BATCH) -> Iterator[pa.Table]:
    """Yield the same records, in order, in tables of `rows` records; the last table may have fewer.

    If the tables come from a generator, it is closed when this one ends.
    """
    waiting: list[pa.Table] = []
    with closing(tables) if isinstance(tables, Generator) else nullcontext():
        for table in tables:
            waiting.append(table)
            while sum(map(len, waiting)) >= rows:
                whole = pa.concat_tables(waiting)
                yield whole.slice(0, rows).combine_chunks()
                waiting = [whole.slice(rows)]
    whole = pa.concat_tables(waiting) if waiting else None
    if whole:
        yield whole.combine_chunks()


def sampled(files: Files, rows: int, seed: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Draw at most a number of random records, in order; equal files and seeds give equal ones.

    Raises:
        ValueError: If rows is below 1.
    """
    if rows < 1:
        raise ValueError(f"a sample must have at least one record, got {rows}")
    total = sum(footer(file).num_rows for file in files)
    chosen = subset(total, min(rows, total), np.random.default_rng(seed))
    taken, first = [], 0
    names = list(common_schema(files).names if columns is None else columns)
    for batch in batches(files, names):
        start, end = np.searchsorted(chosen, [first, first + len(batch)])
        if end > start:
            taken.append(batch.take(chosen[start:end] - first))
        first += len(batch)
    empty = plain_columns(common_schema(files).empty_table(), names)
    return pa.concat_tables([empty, *taken])


def subset(total: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """(size,) ascending numbers of 0 .. total - 1; each set of them is equally likely."""
    if 2 * size > total:
        return np.delete(np.arange(total), subset(total, total - size, rng))
    chosen = np.zeros(0, np.int64)
    while len(chosen) < size:  # which numbers repeat does not depend on their values
        chosen = np.union1d(chosen, rng.integers(0, total, size - len(chosen)))
    return chosen
