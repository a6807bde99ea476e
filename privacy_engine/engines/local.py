"""The engine of one machine: DuckDB aggregates straight on Parquet, and processes work on fragments.

DuckDB gets a share of the memory and a private folder to spill to. It counts classes exactly: it sorts the
records by their class, and they are counted as they go by.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

_DUCKDB_SHARE = 0.6  # of the memory; DuckDB takes up to a quarter more than its limit, and Python the rest
_CODING_SHARE = 0.4  # of the memory; where Python encodes what DuckDB counts
_BUFFER_SHARE = 0.2  # of the memory; for records on their way to the files of their fragments
_ROWS = 16_384  # of an answer at a time
_LIFE = 256  # parts of a process, whose work is less than that on a fragment
_RECORDS = 131_072  # that are counted at a time, where they come in the order of their class


class LocalEngine:
    """`Engine` on the files of this machine; open as a context manager.

    All methods raise `SchemaError` if a file is no whole Parquet file, or the files differ in their columns,
    and `CapacityError` if neither memory nor the spill folder hold what is in between.

    Args:
        memory: bytes that an aggregation may take.
        spill: existing private folder for what does not fit into them; a new subfolder is removed at the end.
        processes: that work on fragments at a time; None = one for each core, as far as memory goes.
        records: that are counted at a time, where they come in the order of their class.
        here: bytes of all fragments up to which this process works on them itself. A new process spends a
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
        self._folder = Path(tempfile.mkdtemp(prefix="engine-", dir=self.spill))  # of mode 0700
        try:
            self._database = duckdb.connect(
                ":memory:",
                config={
                    "memory_limit": f"{int(self.memory * _DUCKDB_SHARE)}B",
                    "temp_directory": str(self._folder / "duckdb"),
                    "threads": len(os.sched_getaffinity(0)),
                    "preserve_insertion_order": False,
                    "enable_external_file_cache": False,  # large files, read a few times
                    "autoload_known_extensions": False,
                    "autoinstall_known_extensions": False,
                    "allow_community_extensions": False,
                    "allow_persistent_secrets": False,
                    "python_enable_replacements": False,  # a table name must never find a variable
                },
            )
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        self._database.execute("SET enable_progress_bar = false")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._database.close()
        finally:
            shutil.rmtree(self._folder)

    def columns(self, files: Files) -> pa.Schema:
        """Names and types of the columns."""
        return common_schema(files)

    def rows(self, files: Files) -> int:
        """Number of records."""
        return sum(footer(file).num_rows for file in files)

    def class_sizes(self, files: Files, columns: Sequence[str]) -> dict[int, int]:
        """How many classes of equal values of the columns there are of each size; see `Engine`."""
        if self.rows(files) <= self.records:  # they fit into memory, and to number their values takes longer
            sizes_and_counts = self._table(files, class_sizes_sql(self._source(files), columns))
            return dict(zip(*(column.to_pylist() for column in sizes_and_counts.columns), strict=True))
        found: Counter[int] = Counter()
        for classes in self._ordered(files, Grouping(columns=columns, sensitive={})):
            sizes, counts = np.unique(classes.sizes, return_counts=True)
            found.update(dict(zip(sizes.tolist(), counts.tolist(), strict=True)))
        return dict(sorted(found.items()))

    def fold_classes(self, files: Files, grouping: Grouping, fold: Fold) -> Iterator[Mapping[str, Any]]:
        """What ``fold`` makes of all classes, which it gets part by part; see `Engine`."""
        yield fold(self.classes(files, grouping))

    def classes(self, files: Files, grouping: Grouping) -> Iterator[CountedClasses]:
        """The classes of the records, part by part: each class is in one part, whole.

        Raises:
            IntegrityError: if the sensitive values are not those that were counted before.
        """
        sensitive, by_person = grouping.sensitive, grouping.person is not None
        # a person counts once for a value, however many records they have with it
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
        """How persons share the values of a column: columns ``code``, ``parts`` and ``persons``."""
        source = self._source(files)
        with self._reading(files) as cursor:
            _register(cursor, coded_values(source, {column: values}))
            order = Order.of(cursor, source, [], {column: values.size}, person)
            found = ordered_parts(self._in_order(cursor, source, order), values.size)
        told = [np.zeros(0, np.int64)] * 3 if found is None else [found.values, found.parts, found.persons]
        return pa.table(dict(zip(("code", "parts", "persons"), told, strict=True)))

    def values_left(
        self,
        files: Files,
        columns: Sequence[str],
        sensitive: Mapping[str, SensitiveValues],
        person: str,
        *,
        linked: bool = False,
    ) -> pa.Table:
        """What is left to anyone who knows all rows of a person: ``left``, ``persons`` and ``records``."""
        source, columns = self._classed(files, columns, person, linked)
        (attribute,) = sensitive
        with self._reading(files) as cursor:
            _register(cursor, coded_values(source, sensitive))
            return cursor.sql(values_left_sql(source, columns, attribute, person)).to_arrow_table()

    def filled_cells(self, files: Files, column: str) -> dict[Any, dict[str, int]]:
        """Of each value of a column how many records have a value, and no null, in each column."""
        source = self._source(files)
        names = source.schema.names
        counted = ", ".join(f"count({source.value(name)}) AS n{i}" for i, name in enumerate(names))
        asked = f"SELECT {source.value(column)} AS value, {counted} FROM {source.sql} GROUP BY value"
        return {
            row["value"]: {name: row[f"n{i}"] for i, name in enumerate(names)}
            for row in self._table(files, asked).to_pylist()
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
            asked = f"SELECT {shown} FROM {source.sql} WHERE {source.value(table)} = '{quoted}'"
            found[name] = str(folder / f"{i}.parquet")
            with pq.ParquetWriter(found[name], kinds) as file:
                for batch in self._stream(files, asked):
                    rows = pa.Table.from_batches([batch]).rename_columns(names).cast(kinds)
                    file.write_table(rows)
        return TrajectoryFiles(label=label, files=found)

    def contingency(self, files: Files, columns: Sequence[str]) -> pa.Table:
        """The distinct combinations of values of some columns, and in column ``count`` how often each occurs.

        Raises:
            SchemaError: if a column is named ``count``.
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
        """How often each row occurs among those that ``code`` makes of the records, part by part."""
        with tempfile.TemporaryDirectory(prefix="counts-", dir=self._folder) as folder:
            with _answering(files), self._limited(_CODING_SHARE):
                counts = counted_codes(self._database, files, columns, code, kinds, Path(folder), whole)
            yield from batches([counts]) if whole is None else whole_runs(batches([counts]), whole)

    def extent(self, files: Files, column: str) -> tuple[float, float] | None:
        """Least and largest number of a column; None if all its values are null."""
        source = self._source(files)
        number = source.number(column)
        found = self._table(files, f"SELECT min({number}) AS low, max({number}) AS high FROM {source.sql}")
        low, high = found.column("low")[0].as_py(), found.column("high")[0].as_py()
        return None if low is None else (float(low), float(high))

    def quantile_cuts(self, files: Files, column: str, parts: int) -> npt.NDArray[np.float64]:
        """(<= parts - 1,) ascending numbers that cut a column of numbers into parts of about equal size.

        They are values of the column: quantiles of a million records that equal files give alike.
        """
        self._source(files).number(column)
        return cuts(to_frame(sampled(files, SAMPLE, SEED, [column]))[column], parts)

    def profile(self, files: Files, column: str, *, least: int, most: int) -> ColumnProfile:
        """A column in numbers.

        Args:
            files: of the table.
            column: its name.
            least: a value is told only if so many records have it, and it is no number.
            most: values that are told.
        """
        source = self._source(files)
        counted = self._table(files, profile_sql(source, column))
        told = None
        if not is_number(source.kind(column)):
            told = self._table(files, common_sql(source, column, least, most))
        return column_profile(
            source, column, counted, told, dates_profile(files, column, source.kind(column))
        )

    def sample(self, files: Files, rows: int, seed: int) -> pa.Table:
        """At most so many random records, in their order; equal files and seeds give equal ones."""
        return sampled(files, rows, seed)

    def ordered(self, files: Files) -> Iterator[pa.Table]:
        """All records in the order of their values, the first column first.

        An order that says nothing of where a record stood, nor of which file it comes from.

        Raises:
            SchemaError: if DuckDB cannot tell all values of a column apart.
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
        """How often each combination of values of the columns occurs in each fragment.

        Raises:
            SchemaError: if a column is named ``fragment`` or ``count``.
        """
        return counted_fragments(files, assign, columns)

    def partition_by_fragment(self, files: Files, assign: Assign, folder: Path) -> dict[int, Path]:
        """The records of each fragment in a Parquet file of its own, ``fragment-00012.parquet``.

        Args:
            files: of the table.
            assign: the fragment of each record.
            folder: existing private folder for the files.

        Returns:
            The file of each fragment that has a record, ascending.
        """
        return partition(files, assign, folder, int(self.memory * _BUFFER_SHARE))

    def apply_by_fragment(self, files: Files, assign: Assign, work: Work) -> Iterator[Mapping[str, Any]]:
        """Give the records of each fragment to ``work``, in other processes; yield its results as they come.

        Few records are worked on in this process, see `here`. Processes are spawned: a script that calls it
        does so below ``if __name__ == "__main__"``.

        Raises:
            CapacityError: if processes die twice over the same fragment.
            PrivacyEngineError: what ``work`` raises of this family, as it is.
            RuntimeError: if ``work`` raises anything else; only its type is told.
        """
        with tempfile.TemporaryDirectory(prefix="fragments-", dir=self._folder) as folder:
            buffer = int(self.memory * _BUFFER_SHARE)
            fragments = partition_streams(files, assign, Path(folder), buffer)
            if sum(file.stat().st_size for file in fragments.values()) <= self.here:
                yield from work_here(work, fragments)
            else:
                yield from work_apart(work, fragments, process_count(self.processes))

    def each(self, count: int, work: Apart, what: str) -> Generator[Mapping[str, Any], None, None]:
        """See `Engine`; as `apply_by_fragment`, and with the same errors."""
        for _, outcome in run_apart(work, range(count), process_count(self.processes), what, _LIFE):
            yield outcome

    def _ordered(self, files: Files, grouping: Grouping) -> Iterator[CountedClasses]:
        """The classes of records in their order, counted as they go by."""
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
        return map(order.told, _rows(cursor, order.sql(source), self.records))

    @contextmanager
    def _limited(self, share: float) -> Iterator[None]:
        """Less memory for DuckDB than otherwise, until the block ends."""
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
        """The records, and what those of a class share: the columns, or their person's trajectory in them."""
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
        """A connection of its own, whose tables are gone with it; its errors show no value."""
        with self._database.cursor() as cursor, _answering(files):
            yield cursor

    def _stream(self, files: Files, sql: str) -> Iterator[pa.RecordBatch]:
        with self._reading(files) as cursor:
            yield from _rows(cursor, sql, _ROWS)


def _rows(cursor: duckdb.DuckDBPyConnection, sql: str, most: int) -> Iterator[pa.RecordBatch]:
    """The rows of an answer, at most so many at a time."""
    yield from cursor.sql(sql).to_arrow_reader(most)


def _register(cursor: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        cursor.register(name, table)


@contextmanager
def _answering(files: Files) -> Iterator[None]:
    """Turn what DuckDB raises into errors that show no value."""
    shown = Path(files[0]).name + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
        full = any(words in str(error) for words in ("No space left", "Could not write", "Out of Memory"))
        if full or translated(error, shown):
            raise CapacityError(
                f"what is counted in {shown} must fit into memory and the spill folder; give the engine more "
                "memory, or a spill folder with more space"
            ) from None
        raise unreadable(error, shown) from None
