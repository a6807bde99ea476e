"""Rows that Python computes from records, counted by DuckDB, which spills what exceeds memory."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from privacy_engine.engines.engine import Code, Files
from privacy_engine.engines.parquet import batches


def counted_codes(
    database: duckdb.DuckDBPyConnection,
    files: Files,
    columns: Sequence[str],
    code: Code,
    kinds: pa.Schema,
    folder: Path,
    order: str | None = None,
) -> str:
    """Count how often each row occurs among those that ``code`` computes, into a Parquet file.

    The result is a file so that the memory used for counting is free again when the counts are read.

    Args:
        database: Database with a memory limit and a spill folder.
        files: Parquet files of the table.
        columns: Columns that are passed to ``code``.
        code: Function from records to rows.
        kinds: Columns of the rows; the file also has ``count`` (int64).
        folder: Existing private folder for the file.
        order: Column to sort the file by; None: any order.

    Raises:
        SchemaError: If a file cannot be read.
        duckdb.Error: If memory and the spill folder do not suffice.
    """
    raised: list[Exception] = []

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            for records in batches(files, columns):
                yield from code(records).to_batches()
        except Exception as error:  # DuckDB would wrap it, and show its text
            raised.append(error)
            raise

    ordered = f' ORDER BY "{order}"' if order else ""
    named = ", ".join(f'"{name}"' for name in kinds.names)
    target = str(folder / "counts.parquet")
    with database.cursor() as cursor:
        cursor.register("rows", pa.RecordBatchReader.from_batches(kinds, rows()))
        try:
            cursor.execute(
                f"COPY (SELECT {named}, count(*) AS count FROM rows GROUP BY {named}{ordered}) "
                "TO $target (FORMAT parquet, COMPRESSION lz4)",
                {"target": target},
            )
        except duckdb.Error:
            if raised:
                raise raised[0] from None
            raise
    return target


def whole_runs(tables: Iterable[pa.Table], column: str) -> Iterator[pa.Table]:
    """Regroup rows so that all rows of one value of an ascending column are in the same part."""
    waiting: list[pa.Table] = []
    for table in tables:
        values = table.column(column).to_numpy()  # nulls, which come last, become NaN, which does as well
        last = int(np.searchsorted(values, values[-1]))
        if waiting and (last > 0 or waiting[-1].column(column)[-1] != table.column(column)[0]):
            waiting.append(table.slice(0, last))
            yield pa.concat_tables(waiting)
            waiting = []
        elif last > 0:
            yield table.slice(0, last)
        waiting.append(table.slice(last))
    if waiting:
        yield pa.concat_tables(waiting)
