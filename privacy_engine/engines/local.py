"""The engine for one machine: DuckDB aggregates directly on Parquet, and processes work on fragments.

DuckDB gets a share of the memory and a private folder to spill to. It counts classes exactly: it sorts the
records by class, and they are counted as they pass.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.engines.class_order import changed_values, ordered_classes, ordered_parts
from privacy_engine.engines.class_sql import (
    Order,
    Source,
    class_sizes_sql,
    coded_values,
    combinations_sql,
    named,
    values_left_sql,
    values_of,
)
from privacy_engine.engines.closed import CLOSED
from privacy_engine.engines.coded_counts import counted_codes, whole_runs
from privacy_engine.engines.engine import Apart, Assign, Code, Files, Fold, Grouping, TrajectoryFiles, Work
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.parquet import batches, common_schema, footer, sampled, unreadable
from privacy_engine.engines.partitions import counted_fragments, partition, partition_streams
from privacy_engine.engines.processes import process_count, run_apart, work_apart, work_here
from privacy_engine.engines.profiling import (
    SAMPLE,
    SEED,
    ColumnProfile,
    column_profile,
    common_sql,
    cuts,
    dates_profile,
    is_number,
    profile_sql,
)
from privacy_engine.errors import CapacityError
from privacy_engine.foreign import translated
from privacy_engine.tables.classes import CountedClasses, SensitiveValues

_DUCKDB_SHARE = 0.6  # share of the memory; DuckDB uses up to a quarter more than its limit, Python the rest
_CODING_SHARE = 0.4  # share of the memory if Python encodes what DuckDB counts
_BUFFER_SHARE = 0.2  # share of the memory for records before they are written to their fragments' files
_ROWS = 16_384  # rows of an answer at a time
_LIFE = 256  # parts per process; they are less work than fragments
_RECORDS = 131_072  # records counted at a time if sorted by class


class LocalEngine:
    """`Engine` on the files of this machine; use it as a context manager.

    All methods raise `SchemaError` if a file is not a complete Parquet file or the files differ in their
    columns, and `CapacityError` if intermediate results fit neither into memory nor into the spill folder.

    Args:
        memory: Bytes that an aggregation may use.
        spill: Existing private folder for data beyond that; a new subfolder is removed at the end.
        processes: Number of processes for fragments; None: one per core, as far as memory allows.
        records: Number of records counted at a time, if sorted by class.
        here: Bytes of all fragments up to which this process works on them itself. A new process spends a
            second or two on imports.
    """

    def __init__(
        self,
        *,
        memory: int,
        spill: Path,
        processes: int | None = None,
        records: int = _RECORDS,
        here: int = 0,
    ) -> None:
        self.memory = memory
        self.spill = spill
        self.processes = processes
        self.records = records
        self.here = here

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="engine-", dir=self.spill))  # created with mode 0700
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if "_database" in self.__dict__:
                self._database.close()
        finally:
            shutil.rmtree(self._folder)

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """The database in memory, opened by the first query: that takes longer than many a query."""
        found = duckdb.connect(
            ":memory:",
            config={
                **CLOSED,
                "memory_limit": f"{int(self.memory * _DUCKDB_SHARE)}B",
                "temp_directory": str(self._folder / "duckdb"),
                "threads": len(os.sched_getaffinity(0)),
                "preserve_insertion_order": False,
                "enable_external_file_cache": False,  # large files, read a few times
            },
        )
        found.execute("SET enable_progress_bar = false")
        return found

    def connection(self) -> duckdb.DuckDBPyConnection:
        """Open a separate connection to its database, for queries that the engine does not have."""
        return self._database.cursor()

    def columns(self, files: Files) -> pa.Schema:
        """Return names and types of the columns."""
        return common_schema(files)

    def rows(self, files: Files) -> int:
        """Return the number of records."""
        return sum(footer(file).num_rows for file in files)

    def class_sizes(self, files: Files, columns: Sequence[str]) -> dict[int, int]:
        """Count the classes of equal values of the columns by size; see `Engine`."""
        if self.rows(files) <= self.records:  # they fit into memory, and numbering their values is slower
            sizes_and_counts = self._table(files, class_sizes_sql(self._source(files), columns))
            return dict(zip(*(column.to_pylist() for column in sizes_and_counts.columns), strict=True))
        found: Counter[int] = Counter()
        for classes in self._ordered(files, Grouping(columns=columns, sensitive={})):
            sizes, counts = np.unique(classes.sizes, return_counts=True)
            found.update(dict(zip(sizes.tolist(), counts.tolist(), strict=True)))
        return dict(sorted(found.items()))

    def fold_classes(self, files: Files, grouping: Grouping, fold: Fold) -> Iterator[Mapping[str, Any]]:
        """Apply ``fold`` to all classes, part by part; see `Engine`."""
        yield fold(self.classes(files, grouping))

    def classes(self, files: Files, grouping: Grouping) -> Iterator[CountedClasses]:
        """Yield the classes of the records, part by part: each class is in one part, complete.

        Raises:
            IntegrityError: If the sensitive values differ from those counted before.
        """
        sensitive, by_person = grouping.sensitive, grouping.person is not None
        # a person counts once for a value, however many of their records have it
        totals = {name: np.zeros(1 if by_person else v.size, np.int64) for name, v in sensitive.items()}
        for classes in self._ordered(files, grouping):
            for name, total in totals.items():
                if by_person:
                    total += classes.records
                else:
                    np.add.at(total, classes.entries[name].values, classes.entries[name].counts)
            yield classes
            del classes
        known = {name: values.counts for name, values in sensitive.items()}
        if any((total != (known[n].sum() if by_person else known[n])).any() for n, total in totals.items()):
            raise changed_values()

    def person_weights(self, files: Files, column: str, person: str, values: SensitiveValues) -> pa.Table:
        """Count how persons share the values of a column: columns ``code``, ``parts`` and ``persons``."""
        source = self._source(files)
        with self._reading(files) as cursor:
            _register(cursor, coded_values(source, {column: values}))
            order = Order.of(cursor, source, [], {column: values.size}, person)
            found = ordered_parts(self._in_order(cursor, source, order), values.size)
        columns = [np.zeros(0, np.int64)] * 3 if found is None else [found.values, found.parts, found.persons]
        return pa.table(dict(zip(("code", "parts", "persons"), columns, strict=True)))

    def values_left(
        self,
        files: Files,
        columns: Sequence[str],
        sensitive: Mapping[str, SensitiveValues],
        person: str,
        *,
        linked: bool = False,
    ) -> pa.Table:
        """Return the values left to someone who knows all rows of a person, see `Engine`."""
        source, columns = self._classed(files, columns, person, linked)
        (attribute,) = sensitive
        with self._reading(files) as cursor:
            _register(cursor, coded_values(source, sensitive))
            return cursor.sql(values_left_sql(source, columns, attribute, person)).to_arrow_table()

    def filled_cells(self, files: Files, column: str) -> dict[Any, dict[str, int]]:
        """For each value of a column, count the records that are not null in each column."""
        source = self._source(files)
        names = source.schema.names
        counted = ", ".join(f"count({source.value(name)}) AS n{i}" for i, name in enumerate(names))
        query = f"SELECT {source.value(column)} AS value, {counted} FROM {source.sql} GROUP BY value"
        return {
            row["value"]: {name: row[f"n{i}"] for i, name in enumerate(names)}
            for row in self._table(files, query).to_pylist()
        }

    def trajectories_by_table(
        self, files: Files, columns: Sequence[str], person: str, table: str, kept: Mapping[str, Sequence[str]]
    ) -> TrajectoryFiles:
        """See `Engine`."""
        whole = self._source(files)
        source, label = whole.with_trajectories(columns, person)
        folder = Path(tempfile.mkdtemp(prefix="trajectories-", dir=self._folder))
        found = {}
        for i, (name, own) in enumerate(kept.items()):
            names = [label, person, *own]
            kinds = pa.schema([pa.field(n, source.kind(n)) for n in names])
            shown = ", ".join(source.value(n) for n in names)
            quoted = name.replace("'", "''")
            query = f"SELECT {shown} FROM {source.sql} WHERE {source.value(table)} = '{quoted}'"
            found[name] = str(folder / f"{i}.parquet")
            with pq.ParquetWriter(found[name], kinds) as file:
                for batch in self._stream(files, query):
                    rows = pa.Table.from_batches([batch]).rename_columns(names).cast(kinds)
                    file.write_table(rows)
        return TrajectoryFiles(label=label, files=found)

    def contingency(self, files: Files, columns: Sequence[str]) -> pa.Table:
        """Return the distinct combinations of values of some columns, with their frequency in ``count``.

        Raises:
            SchemaError: If a column is named ``count``.
        """
        source = self._source(files)
        return named(self._table(files, combinations_sql(source, columns)), source, columns)

    def count_coded(
        self,
        files: Files,
        columns: Sequence[str],
        code: Code,
        kinds: pa.Schema,
        *,
        whole: str | None = None,
    ) -> Iterator[pa.Table]:
        """Count how often each row occurs among those that ``code`` computes from records, part by part."""
        with tempfile.TemporaryDirectory(prefix="counts-", dir=self._folder) as folder:
            with _answering(files), self._limited(_CODING_SHARE):
                counts = counted_codes(self._database, files, columns, code, kinds, Path(folder), whole)
            yield from batches([counts]) if whole is None else whole_runs(batches([counts]), whole)

    def extent(self, files: Files, column: str) -> tuple[float, float] | None:
        """Return the smallest and largest number of a column; None if all values are null."""
        source = self._source(files)
        number = source.number(column)
        found = self._table(files, f"SELECT min({number}) AS low, max({number}) AS high FROM {source.sql}")
        low, high = found.column("low")[0].as_py(), found.column("high")[0].as_py()
        return None if low is None else (float(low), float(high))

    def quantile_cuts(self, files: Files, column: str, parts: int) -> npt.NDArray[np.float64]:
        """(<= parts - 1,) ascending numbers that cut a numeric column into parts of about equal size.

        They are values of the column: quantiles of a million records, the same for equal files.
        """
        self._source(files).number(column)
        return cuts(to_frame(sampled(files, SAMPLE, SEED, [column]))[column], parts)

    def profile(self, files: Files, column: str, *, least: int, most: int) -> ColumnProfile:
        """Summarize a column in numbers.

        Args:
            files: Parquet files of the table.
            column: Name of the column.
            least: Number of records that must have a value for it to be listed; numbers are never listed.
            most: Largest number of listed values.
        """
        source = self._source(files)
        counted = self._table(files, profile_sql(source, column))
        common = None
        if not is_number(source.kind(column)):
            common = self._table(files, common_sql(source, column, least, most))
        return column_profile(
            source, column, counted, common, dates_profile(files, column, source.kind(column))
        )

    def sample(self, files: Files, rows: int, seed: int) -> pa.Table:
        """Draw at most a number of random records, in order; equal files and seeds give equal ones."""
        return sampled(files, rows, seed)

    def ordered(self, files: Files) -> Iterator[pa.Table]:
        """Yield all records sorted by their values, first column first.

        The order reveals neither where a record was nor which file it comes from.

        Raises:
            SchemaError: If DuckDB cannot distinguish all values of a column.
        """
        source = self._source(files)
        for name in source.schema.names:
            source.value(name)
        with self._reading(files) as cursor:
            order, known = Order.of_values(cursor, source)
            for rows in self._in_order(cursor, source, order):
                values = map(values_of, rows.columns, known)
                yield pa.table([*values], names=source.schema.names).cast(source.schema)

    def count_fragments(self, files: Files, assign: Assign, columns: Sequence[str]) -> pa.Table:
        """Count each combination of values of the columns in each fragment.

        Raises:
            SchemaError: If a column is named ``fragment`` or ``count``.
        """
        return counted_fragments(files, assign, columns)

    def partition_by_fragment(self, files: Files, assign: Assign, folder: Path) -> dict[int, Path]:
        """Write the records of each fragment to a Parquet file, ``fragment-00012.parquet``.

        Args:
            files: Parquet files of the table.
            assign: Function from records to the fragment of each.
            folder: Existing private folder for the files.

        Returns:
            The file of each fragment that has a record, ascending.
        """
        return partition(files, assign, folder, int(self.memory * _BUFFER_SHARE))

    def apply_by_fragment(self, files: Files, assign: Assign, work: Work) -> Iterator[Mapping[str, Any]]:
        """Apply ``work`` to the records of each fragment, in other processes; yield its results as they come.

        Small tables are processed in this process, see `here`. Processes are spawned, so a script must call
        this below ``if __name__ == "__main__"``.

        Raises:
            CapacityError: If processes die twice on the same fragment.
            PrivacyEngineError: Any such error of ``work``, unchanged.
            RuntimeError: If ``work`` raises anything else; only its type is reported.
        """
        with tempfile.TemporaryDirectory(prefix="fragments-", dir=self._folder) as folder:
            buffer = int(self.memory * _BUFFER_SHARE)
            fragments = partition_streams(files, assign, Path(folder), buffer)
            if sum(file.stat().st_size for file in fragments.values()) <= self.here:
                yield from work_here(work, fragments)
            else:
                yield from work_apart(work, fragments, process_count(self.processes))

    def each(self, count: int, work: Apart, what: str) -> Generator[Mapping[str, Any], None, None]:
        """See `Engine`; like `apply_by_fragment`, with the same errors."""
        for _, outcome in run_apart(work, range(count), process_count(self.processes), what, _LIFE):
            yield outcome

    def _ordered(self, files: Files, grouping: Grouping) -> Iterator[CountedClasses]:
        """Yield the classes of sorted records, counted as they pass."""
        source, sensitive, columns = self._source(files), grouping.sensitive, grouping.columns
        with self._reading(files) as cursor:
            if grouping.person is not None and grouping.linked:
                source, trajectory = source.with_trajectories(columns, grouping.person)
                source = source.kept(cursor, [trajectory, grouping.person, *sensitive])
                columns = [trajectory]
            _register(cursor, coded_values(source, sensitive))
            sizes = {name: values.size for name, values in sensitive.items()}
            order = Order.of(cursor, source, columns, sizes, grouping.person)
            records = self._in_order(cursor, source, order)
            yield from ordered_classes(records, sensitive, by_person=grouping.person is not None)

    def _in_order(
        self, cursor: duckdb.DuckDBPyConnection, source: Source, order: Order
    ) -> Iterator[pa.RecordBatch]:
        return map(order.digits, _rows(cursor, order.sql(source), self.records))

    @contextmanager
    def _limited(self, share: float) -> Iterator[None]:
        """Lower DuckDB's memory limit until the block ends."""
        self._database.execute(f"SET memory_limit = '{int(self.memory * share)}B'")
        try:
            yield
        finally:
            self._database.execute(f"SET memory_limit = '{int(self.memory * _DUCKDB_SHARE)}B'")

    def _source(self, files: Files) -> Source:
        return Source.of_files(files, common_schema(files))

    def _classed(
        self, files: Files, columns: Sequence[str], person: str, linked: bool
    ) -> tuple[Source, Sequence[str]]:
        """Return the records, and the columns or the trajectory that those of a class share."""
        source = self._source(files)
        if not linked:
            return source, columns
        source, trajectory = source.with_trajectories(columns, person)
        return source, [trajectory]

    def _table(self, files: Files, sql: str) -> pa.Table:
        with self._reading(files) as cursor:
            return cursor.sql(sql).to_arrow_table()

    @contextmanager
    def _reading(self, files: Files) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a separate connection, whose tables are dropped at the end; its errors show no value."""
        with self.connection() as cursor, _answering(files):
            yield cursor

    def _stream(self, files: Files, sql: str) -> Iterator[pa.RecordBatch]:
        with self._reading(files) as cursor:
            yield from _rows(cursor, sql, _ROWS)


def _rows(cursor: duckdb.DuckDBPyConnection, sql: str, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an answer, at most a number at a time."""
    yield from cursor.sql(sql).to_arrow_reader(most)


def _register(cursor: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        cursor.register(name, table)


@contextmanager
def _answering(files: Files) -> Iterator[None]:
    """Translate errors of DuckDB into errors that show no value."""
    shown = Path(files[0]).name + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
        full = any(words in str(error) for words in ("No space left", "Could not write", "Out of Memory"))
        if full or translated(error, shown):
            raise CapacityError(
                f"counting {shown} exceeds memory and the spill folder. Give the engine more "
                "memory, or a spill folder with more space"
            ) from None
        raise unreadable(error, shown) from None
