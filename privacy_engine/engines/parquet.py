"""Parquet files of one table, read as batches of records; errors name the file and show no value.

A file may be damaged, encrypted or made to mislead: what its footer says must agree with itself and with the
records, text must be UTF-8, and the checksums of pages are held against them where a file has any.
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

BATCH = 131_072  # records that are in memory at a time, and most of a row group
COLUMNS = 10_000  # most columns of a file


@contextmanager
def reading(file: str | Path) -> Iterator[None]:
    """Turn what Arrow raises about a file into an error that names it.

    Raises:
        SchemaError: if it cannot be read as a Parquet file.
        CapacityError: if there is too little memory to.
    """
    try:
        yield
    except FileNotFoundError:
        raise SchemaError(f"{Path(file).name} must exist: write it again") from None
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise unreadable(error, Path(file).name) from None


def unreadable(error: Exception, name: str) -> PrivacyEngineError:
    """What to say of a file that a library could not read as Parquet.

    Args:
        error: of pyarrow or DuckDB; its message may quote a value.
        name: of the file, for people.
    """
    if ours := translated(error, f"reading {name}"):
        return ours
    told = str(error)
    if re.search(r"encrypted metadata|[Cc]annot decrypt|is encrypted", told):
        return SchemaError(
            f"{name} must be readable without a key, and is encrypted by Parquet's own encryption: write it "
            "without, and leave encryption to the disk or the object store"
        )
    if "Invalid string encoding" in told:
        return SchemaError(f"{name}: text must be UTF-8, and some is not: encode it so, and write it again")
    return SchemaError(
        f"{name} must be a whole Parquet file, got {type(error).__name__}: it is truncated, damaged or of "
        "another format; write it again"
    )


def footer(file: str) -> pq.FileMetaData:
    """What a file says of itself.

    Raises:
        SchemaError: if it cannot be read, or contradicts itself.
    """
    with reading(file):
        found = pq.read_metadata(file)
        check_footer(found, Path(file).name)
        return found


def check_footer(found: pq.FileMetaData, name: str) -> None:
    """Refuse a footer that cannot be true, or that no table of records has, before anything is read by it.

    Raises:
        SchemaError: naming the file, the rule, what it says, and the remedy.
    """
    if found.num_columns > COLUMNS:
        raise SchemaError(
            f"{name} must have at most {COLUMNS:,} columns, got {found.num_columns:,}: write those that a "
            "release needs into a file of their own"
        )
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if min([found.num_rows, *rows]) < 0 or sum(rows) != found.num_rows:
        raise SchemaError(
            f"{name} must say how many records it has, got {found.num_rows:,} in all and {sum(rows):,} in "
            f"{len(rows):,} row groups: its footer is damaged; write it again"
        )


def check_count(read: int, told: int, name: str) -> None:
    """Refuse a file whose records are not as many as its footer says.

    Raises:
        SchemaError: naming the file and both numbers.
    """
    if read != told:
        raise SchemaError(
            f"{name} must hold the {told:,} records that its footer tells of, got {read:,}: it is damaged; "
            "write it again"
        )


def check_text(table: pa.Table, place: str) -> None:
    """Refuse text that is not UTF-8: Parquet does not check it, and pandas quotes it when it fails.

    Args:
        table: in types of `plain_columns`.
        place: where its records are, for people.

    Raises:
        SchemaError: naming the column and how many records have such text.
    """
    for field, column in zip(table.schema, table.columns, strict=True):
        if not t.is_string(field.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            wrong = sum(map(_is_not_utf8, column.cast(pa.binary()).to_pylist()))
            raise SchemaError(
                f"{place}: {field.name}: text must be UTF-8, and that of {wrong:,} records is not: encode it "
                "so, and write the file again"
            ) from None


def _is_not_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def opened(file: str | Path) -> pq.ParquetFile:
    """A file to read records of; the checksums of its pages are looked at, where it has any."""
    return pq.ParquetFile(file, page_checksum_verification=True)


def common_schema(files: Files) -> pa.Schema:
    """Names and types of the columns, which all files share.

    Raises:
        SchemaError: if there is no file, or they differ: a cast would change values in silence.
    """
    if not files:
        raise SchemaError("a table must have at least one file, got none")
    schemas = [footer(file).schema.to_arrow_schema().remove_metadata() for file in files]
    for file, found in zip(files, schemas, strict=True):
        if not found.equals(schemas[0]):
            differing = sorted({field.name for field in {*found} ^ {*schemas[0]}})
            raise SchemaError(
                "all files of a table must have the same columns and types in the same order; "
                f"{Path(files[0]).name} and {Path(file).name} differ in {differing or 'their order'}"
            )
    return schemas[0]


def batches(files: Files, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The records of all files, in order, at most `BATCH` at a time; with types of `plain_columns`."""
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
    """The same records, in the same order, in tables of `rows` records; the last table may have fewer.

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
    """At most so many random records, in their order; equal files and seeds give equal ones.

    Raises:
        ValueError: if rows is below 1.
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
    """(size,) ascending numbers of 0 .. total - 1, each set of them equally likely."""
    if 2 * size > total:
        return np.delete(np.arange(total), subset(total, total - size, rng))
    chosen = np.zeros(0, np.int64)
    while len(chosen) < size:  # which numbers fail to be new ones does not depend on what they are
        chosen = np.union1d(chosen, rng.integers(0, total, size - len(chosen)))
    return chosen
