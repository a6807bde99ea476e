"""The few functions that must scale, behind one face: DuckDB on one machine, Spark on many.

Each reads Parquet files and holds no table. What it gives back is as large as its answer, not as its input.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privacy_engine.tables.classes import CountedClasses, SensitiveValues

Files = Sequence[str]  # the Parquet files of one table, all with the same columns
Assign = Callable[[pd.DataFrame], npt.NDArray[np.int32]]  # records -> (n,) the fragment of each
Code = Callable[[pa.Table], pa.Table]  # some records -> rows to count, not necessarily one a record
Work = Callable[[int, pa.Table], Mapping[str, Any]]  # fragment and its records -> plain values
Apart = Callable[[int], Mapping[str, Any]]  # the number of a part of some work -> plain values
Fold = Callable[[Iterable[CountedClasses]], Mapping[str, Any]]  # some of the classes -> plain values


@dataclass(frozen=True, kw_only=True)
class TrajectoryFiles:
    """Rows of several tables, in a file for each.

    Attributes:
        label: the column that tells the class of whole trajectories that the person of a row is in.
        files: table -> its file.
    """

    label: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """How records make classes, and what is counted of each.

    Attributes:
        columns: the quasi-identifiers: records of equal values of them are a class.
        sensitive: sensitive attribute -> its values in the whole table, with weights where a person is given.
        person: the column that tells whose record each is, to count by persons; None: each record counts as
            a person.
        linked: whether the rows of a person are linked; a class is of persons with equal trajectories then,
            see `tables.persons`.
    """

    columns: Sequence[str]
    sensitive: Mapping[str, SensitiveValues]
    person: str | None = None
    linked: bool = False


class Engine(Protocol):
    """Aggregations over Parquet files. A null is a value like any other, and so is NaN: the same one.

    Attributes:
        memory: bytes that an aggregation may take in this process.
    """

    memory: int

    def columns(self, files: Files) -> pa.Schema:
        """Names and types of the columns."""

    def rows(self, files: Files) -> int:
        """Number of records."""

    def class_sizes(self, files: Files, columns: Sequence[str]) -> dict[int, int]:
        """How many classes of equal values of the columns have so many records: size -> classes, ascending.

        Of n records there are no more than the square root of 2n different sizes.
        """

    def fold_classes(self, files: Files, grouping: Grouping, fold: Fold) -> Iterator[Mapping[str, Any]]:
        """What ``fold`` makes of the classes of the records, where they are counted.

        Each class is given to it once, whole, and together with others: to one call on one machine, to a call
        on each executor of several. The classes themselves go nowhere else, however many there are.

        Args:
            files: of the table.
            grouping: how its records make classes.
            fold: can be pickled; it takes the classes one part after the other, perhaps none, and gives plain
                values. The results of several calls come in no particular order.

        Raises:
            IntegrityError: if the values are not those that the grouping counts: the files changed.
        """

    def person_weights(self, files: Files, column: str, person: str, values: SensitiveValues) -> pa.Table:
        """How persons share the values of a column: columns ``code``, ``parts`` and ``persons``.

        So many ``persons`` have a value of the code, and all in all ``parts`` different codes; in no
        particular order.

        Args:
            files: of the table.
            column: the sensitive attribute.
            person: the column that tells whose record each is.
            values: of the column, and their codes.

        Raises:
            IntegrityError: if the values are not those that have a code: the files changed.
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
        """What whoever knows all rows of a person is left with, see `tables.persons.values_left`.

        Args:
            files: of the table.
            columns: the quasi-identifiers.
            sensitive: the sensitive attribute, one alone, and its values in the whole table.
            person: the column that tells whose record each is.
            linked: as of `Grouping`.

        Returns:
            Columns ``left``, ``persons`` and ``records``, all int64, ascending by the first.
        """

    def filled_cells(self, files: Files, column: str) -> dict[Any, dict[str, int]]:
        """Of each value of a column how many records have a value, and no null, in each column."""

    def trajectories_by_table(
        self, files: Files, columns: Sequence[str], person: str, table: str, kept: Mapping[str, Sequence[str]]
    ) -> TrajectoryFiles:
        """The rows of several tables with the class of their person; the files stay until the engine closes.

        Args:
            files: of the rows of all tables.
            columns: the quasi-identifiers, `table` among them.
            person: the column that tells whose record each is.
            table: the column that tells which table it is of.
            kept: the tables, and the columns of each that its file has beside the person and the class.
        """

    def contingency(self, files: Files, columns: Sequence[str]) -> pa.Table:
        """The distinct combinations of values of some columns, and in column ``count`` how often each occurs.

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
        """How often each row occurs among those that ``code`` makes of the records, part by part.

        Each distinct row is in one part; in column ``count`` (int64) how often it occurs.

        Args:
            files: of the table.
            columns: that ``code`` is given, in this order, some hundred thousand records at a time.
            code: can be pickled, and raises for no value that a column may hold.
            kinds: the columns of what it makes; none is called ``count``.
            whole: a column of whole numbers among them: all rows of one value of it are in one part.
        """

    def extent(self, files: Files, column: str) -> tuple[float, float] | None:
        """Least and largest number of a column; None if all its values are null."""

    def quantile_cuts(self, files: Files, column: str, parts: int) -> npt.NDArray[np.float64]:
        """(<= parts - 1,) ascending numbers that cut a column of numbers into parts of about equal size."""

    def sample(self, files: Files, rows: int, seed: int) -> pa.Table:
        """At most so many records, chosen at random; equal files and seeds give equal records."""

    def count_fragments(self, files: Files, assign: Assign, columns: Sequence[str]) -> pa.Table:
        """How often each combination of values of the columns occurs in each fragment.

        Columns of the result: ``fragment`` (int32), the given ones, ``count`` (int64).
        """

    def apply_by_fragment(self, files: Files, assign: Assign, work: Work) -> Iterator[Mapping[str, Any]]:
        """The records of each fragment given to ``work``, in other processes; its results as they come.

        ``work`` can be pickled, and doing it twice for the same fragment is harmless: what dies is run again.
        It is called once for each fragment that has a record.
        """

    def each(self, count: int, work: Apart, what: str) -> Generator[Mapping[str, Any], None, None]:
        """``work`` done for 0, 1, ..., ``count`` - 1 in other processes; its results as they come.

        Args:
            count: of the parts of some work.
            work: can be pickled, and doing it twice for the same part is harmless: what dies is run again.
            what: a part is called in errors.
        """
