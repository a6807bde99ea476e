"""The interface for functions that must scale: DuckDB on one machine, Spark on many.

Each function reads Parquet files and holds no table. Its result is as large as the answer, not as the input.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privacy_engine.tables.classes import CountedClasses, SensitiveValues

Files = Sequence[str]  # Parquet files of one table, all with the same columns
Assign = Callable[[pd.DataFrame], npt.NDArray[np.int32]]  # records -> (n,) fragment of each
Code = Callable[[pa.Table], pa.Table]  # records -> rows to count, not necessarily one per record
Work = Callable[[int, pa.Table], Mapping[str, Any]]  # fragment and its records -> plain values
Apart = Callable[[int], Mapping[str, Any]]  # number of a part of the work -> plain values
Fold = Callable[[Iterable[CountedClasses]], Mapping[str, Any]]  # some classes -> plain values


@dataclass(frozen=True, kw_only=True)
class TrajectoryFiles:
    """Rows of several tables, in one file per table.

    Attributes:
        label: Column with the class of whole trajectories of each row's person.
        files: Table -> its file.
    """

    label: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """How records form classes, and what is counted in each.

    Attributes:
        columns: Quasi-identifiers; records with equal values of them form a class.
        sensitive: Sensitive attribute -> its values in the whole table, with weights if a person is given.
        person: Column with the person of each record, to count by persons; None: each record counts as a
            person.
        linked: Whether the rows of a person are linked; then a class consists of persons with equal
            trajectories, see `tables.persons`.
    """

    columns: Sequence[str]
    sensitive: Mapping[str, SensitiveValues]
    person: str | None = None
    linked: bool = False


class Engine(Protocol):
    """Aggregations over Parquet files. Null is a value like any other, and NaN is the same value as null.

    Attributes:
        memory: Bytes that an aggregation may use in this process.
    """

    memory: int

    def columns(self, files: Files) -> pa.Schema:
        """Return names and types of the columns."""

    def rows(self, files: Files) -> int:
        """Return the number of records."""

    def class_sizes(self, files: Files, columns: Sequence[str]) -> dict[int, int]:
        """Count the classes of equal values by their number of records: size -> classes, ascending.

        n records have at most the square root of 2n different sizes.
        """

    def fold_classes(self, files: Files, grouping: Grouping, fold: Fold) -> Iterator[Mapping[str, Any]]:
        """Apply ``fold`` to the classes of the records, where they are counted.

        Each class is passed to it once, complete, and together with others: in one call on one machine, in a
        call on each executor otherwise. The classes themselves go nowhere else, however many there are.

        Args:
            files: Parquet files of the table.
            grouping: How the records form classes.
            fold: Function that can be pickled. It receives the classes one part after the other, perhaps
                none, and returns plain values. The results of several calls come in no particular order.

        Raises:
            IntegrityError: If the values differ from those of the grouping, because the files changed.
        """

    def person_weights(self, files: Files, column: str, person: str, values: SensitiveValues) -> pa.Table:
        """Count how persons share the values of a column: columns ``code``, ``parts`` and ``persons``.

        ``persons`` is the number of persons who have a value of the code, and in total ``parts`` different
        codes. The rows are in no particular order.

        Args:
            files: Parquet files of the table.
            column: Name of the sensitive attribute.
            person: Column with the person of each record.
            values: Values of the column, and their codes.

        Raises:
            IntegrityError: If a value has no code, because the files changed.
        """

    def values_left(
        self,
        files: Files,
        columns: Sequence[str],
        sensitive: Mapping[str, SensitiveValues],
        person: str,
        *,
        linked: bool = False,
    ) -> pa.Table:
        """Return the values left to someone who knows all rows of a person, see `tables.persons.values_left`.

        Args:
            files: Parquet files of the table.
            columns: Names of the quasi-identifiers.
            sensitive: One sensitive attribute, and its values in the whole table.
            person: Column with the person of each record.
            linked: Whether the rows of a person are linked, as in `Grouping`.

        Returns:
            Columns ``left``, ``persons`` and ``records``, all int64, ascending by the first.
        """

    def filled_cells(self, files: Files, column: str) -> dict[Any, dict[str, int]]:
        """For each value of a column, count the records that are not null in each column."""

    def trajectories_by_table(
        self, files: Files, columns: Sequence[str], person: str, table: str, kept: Mapping[str, Sequence[str]]
    ) -> TrajectoryFiles:
        """Write the rows of several tables with their person's class; the files stay until the engine closes.

        Args:
            files: Parquet files with the rows of all tables.
            columns: Quasi-identifiers, including `table`.
            person: Column with the person of each record.
            table: Column with the table of each record.
            kept: Table -> columns of its file in addition to person and class.
        """

    def contingency(self, files: Files, columns: Sequence[str]) -> pa.Table:
        """Return the distinct combinations of values of some columns, with their frequency in ``count``.

        In no particular order. ``count`` is int64; a column of that name is refused with `SchemaError`.
        """

    def count_coded(
        self,
        files: Files,
        columns: Sequence[str],
        code: Code,
        kinds: pa.Schema,
        *,
        whole: str | None = None,
    ) -> Iterator[pa.Table]:
        """Count how often each row occurs among those that ``code`` computes from records, part by part.

        Each distinct row is in one part, with its frequency in column ``count`` (int64).

        Args:
            files: Parquet files of the table.
            columns: Columns that are passed to ``code``, in this order, some hundred thousand records at a
                time.
            code: Function that can be pickled, and raises for no value that a column may have.
            kinds: Columns of its result; none is named ``count``.
            whole: Column of whole numbers among them, whose equal values must be in the same part; None: no
                such column.
        """

    def extent(self, files: Files, column: str) -> tuple[float, float] | None:
        """Return the smallest and largest number of a column; None if all values are null."""

    def quantile_cuts(self, files: Files, column: str, parts: int) -> npt.NDArray[np.float64]:
        """(<= parts - 1,) ascending numbers that cut a numeric column into parts of about equal size."""

    def sample(self, files: Files, rows: int, seed: int) -> pa.Table:
        """Draw at most a number of random records; equal files and seeds give equal records."""

    def count_fragments(self, files: Files, assign: Assign, columns: Sequence[str]) -> pa.Table:
        """Count each combination of values of the columns in each fragment.

        Columns of the result: ``fragment`` (int32), the given ones, ``count`` (int64).
        """

    def apply_by_fragment(self, files: Files, assign: Assign, work: Work) -> Iterator[Mapping[str, Any]]:
        """Apply ``work`` to the records of each fragment in other processes; yield results as they come.

        ``work`` can be pickled, and repeating it for a fragment is harmless: if a process dies, it is run
        again. It is called once for each fragment that has a record.
        """

    def each(self, count: int, work: Apart, what: str) -> Generator[Mapping[str, Any], None, None]:
        """Run ``work`` for 0, 1, ..., ``count`` - 1 in other processes; yield results as they come.

        Args:
            count: Number of parts.
            work: Function that can be pickled; repeating it is harmless, and it is run again if a process
                dies.
            what: Name of a part in errors.
        """
