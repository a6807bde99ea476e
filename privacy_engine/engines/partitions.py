"""Records by fragment: counted, or written to one file per fragment, batch by batch."""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as t

from privacy_engine.engines.engine import Assign, Files
from privacy_engine.engines.frames import plain_columns, to_frame
from privacy_engine.engines.parquet import batches, common_schema, regrouped
from privacy_engine.errors import CapacityError, SchemaError
from privacy_engine.foreign import translated
from privacy_engine.pipeline import each_ahead, each_done

_THREADS = min(8, len(os.sched_getaffinity(0)))  # each has a batch of records
_COUNTED = 1_000_000  # counts that are collected before they are added up


def counted_fragments(files: Files, assign: Assign, columns: Sequence[str]) -> pa.Table:
    """Count each combination of values of the columns in each fragment.

    Columns of the result: ``fragment`` (int32), the given ones, ``count`` (int64).

    Raises:
        SchemaError: If a column has one of these names.
    """
    if taken := {"fragment", "count"} & set(columns):
        raise SchemaError(f"columns {sorted(taken)} cannot be counted by fragment. Rename them")
    kinds = plain_columns(common_schema(files).empty_table(), list(columns)).schema
    result = pa.schema([pa.field("fragment", pa.int32()), *kinds, pa.field("count", pa.int64())])

    def counted(batch: pa.Table) -> pa.Table:
        ones = pa.array(np.ones(len(batch), np.int64))
        own = [
            pa.array(_fragments(batch, assign)),
            *(_one_value(batch.column(name)) for name in columns),
            ones,
        ]
        return _added(pa.table(own, schema=result))

    parts, size = [result.empty_table()], 0
    with each_ahead(counted, batches(files), _THREADS) as found:
        for counts in found:
            parts.append(counts)
            size += len(counts)
            if size > _COUNTED:
                parts, size = [_added(pa.concat_tables(parts))], 0
    return _added(pa.concat_tables(parts))


def partition(files: Files, assign: Assign, folder: Path, buffer: int) -> dict[int, Path]:
    """Write the records of each fragment to a Parquet file, in their order.

    Args:
        files: Parquet files of the table.
        assign: Function from records to the fragment of each.
        folder: Existing private folder.
        buffer: Bytes of records to hold before writing.

    Raises:
        CapacityError: If nothing more can be written to the folder.
    """
    streams = partition_streams(files, assign, folder, buffer)
    with each_ahead(lambda fragment: _finished(fragment, folder), streams, _THREADS) as finished:
        return dict(zip(streams, finished, strict=True))


def partition_streams(files: Files, assign: Assign, folder: Path, buffer: int) -> dict[int, Path]:
    """Write files for `read_streams` instead, to be read once: they cost half as much as Parquet.

    Records beyond the buffer are appended to a fragment's file of Arrow streams, one after the other, however
    many fragments there are. Batches are split in threads, some ahead of their turn, and the files of
    different fragments are written at the same time.
    """

    def split(batch: pa.Table) -> tuple[int, list[tuple[int, pa.Table]]]:
        return batch.nbytes, list(_split(batch, _fragments(batch, assign)))

    held: dict[int, list[pa.Table]] = {}
    size = 0
    found: set[int] = set()
    with each_ahead(split, batches(files), _THREADS) as batches_split:
        for amount, parts in batches_split:
            for fragment, records in parts:
                held.setdefault(fragment, []).append(records)
            found.update(held)
            size += amount
            if size > buffer:
                _append(held, folder)
                held, size = {}, 0
    _append(held, folder)
    return {fragment: _streams_of(fragment, folder) for fragment in sorted(found)}


def _fragments(batch: pa.Table, assign: Assign) -> npt.NDArray[np.int32]:
    return np.asarray(assign(to_frame(batch)), dtype=np.int32)


def _split(batch: pa.Table, fragments: npt.NDArray[np.int32]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the records of each fragment of a batch, in their order."""
    order = np.argsort(fragments, kind="stable")
    present, starts = np.unique(fragments[order], return_index=True)
    records = batch.take(order)
    for fragment, start, end in zip(present, starts, [*starts[1:], len(order)], strict=True):
        yield int(fragment), records.slice(start, end - start)


def _append(held: dict[int, list[pa.Table]], folder: Path) -> None:
    """Append the records of each fragment to its file, as one more stream."""
    packed = pa.ipc.IpcWriteOptions(compression="lz4")

    def write(fragment: int) -> None:
        records = pa.concat_tables(held[fragment]).combine_chunks()
        with (
            _writing(),
            _streams_of(fragment, folder).open("ab") as file,
            pa.ipc.new_stream(file, records.schema, options=packed) as stream,
        ):
            stream.write_table(records)

    each_done(write, held, _THREADS)


def _finished(fragment: int, folder: Path) -> Path:
    """Return the Parquet file of a fragment, and remove its file of streams."""
    source, path = _streams_of(fragment, folder), folder / f"fragment-{fragment:05d}.parquet"
    records = read_streams(source)
    first = next(records)
    with _writing(), pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for group in regrouped(itertools.chain([first], records)):
            writer.write_table(group)
    source.unlink()
    return path


def read_streams(path: Path) -> Iterator[pa.Table]:
    """Yield the records of a file of Arrow streams, batch by batch."""
    size = path.stat().st_size
    with pa.OSFile(str(path)) as file:
        while file.tell() < size:
            stream = pa.ipc.open_stream(file)
            for batch in stream:
                yield pa.Table.from_batches([batch])


def _streams_of(fragment: int, folder: Path) -> Path:
    return folder / f"fragment-{fragment:05d}.arrows"


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise translated(error, "what is written to the spill folder") or CapacityError(
            f"the spill folder cannot take the records of all fragments: {type(error).__name__}. Give it "
            "more space, or name another folder"
        ) from None


def _added(counts: pa.Table) -> pa.Table:
    """Merge equal combinations and add up their counts."""
    names = counts.column_names[:-1]
    summed = counts.group_by(names).aggregate([("count", "sum")])
    return summed.rename_columns([*names, "count"]).cast(counts.schema)


def _one_value(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Normalize a column as a frame does: NaN becomes null, and -0.0 becomes 0.0."""
    if not t.is_floating(column.type):
        return column
    known = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return pc.add(known, pa.scalar(0.0, column.type))
