"""Parquet files of one table, read as batches of records; errors name the file and show no value."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.engines.engine import Files
from privacy_engine.engines.frames import plain_columns
from privacy_engine.errors import SchemaError

BATCH = 131_072  # records that are in memory at a time, and most of a row group


@contextmanager
def reading(file: str | Path) -> Iterator[None]:
    """Turn what Arrow raises about a file into an error that names it.

    Raises:
        SchemaError: if it cannot be read as a Parquet file.
    """
    try:
        yield
    except FileNotFoundError:
        raise SchemaError(f"{Path(file).name} must exist: write it again") from None
    except (pa.ArrowException, OSError) as error:
        raise SchemaError(
            f"{Path(file).name} must be a whole Parquet file, got {type(error).__name__}: it is truncated, "
            "damaged or of another format; write it again"
        ) from None


def footer(file: str) -> pq.FileMetaData:
    """What a file says of itself."""
    with reading(file):
        return pq.read_metadata(file)


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
        with reading(file):
            opened = pq.ParquetFile(file)
        with opened:
            parts = opened.iter_batches(BATCH, columns=names)
            while True:
                with reading(file):
                    batch = next(parts, None)
                if batch is None:
                    break
                yield plain_columns(pa.Table.from_batches([batch]), names)


def regrouped(tables: Iterable[pa.Table], rows: int = BATCH) -> Iterator[pa.Table]:
    """The same records, in the same order, in tables of so many records each; the last one may have fewer."""
    waiting: list[pa.Table] = []
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
