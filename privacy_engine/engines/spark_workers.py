"""The work of a Spark cluster's Python processes on records."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from privacy_engine.engines.class_order import changed_values
from privacy_engine.engines.engine import Apart, Assign, Code, Fold, Work
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.spark_columns import Columns
from privacy_engine.engines.spark_errors import description_of, error_of, from_worker
from privacy_engine.errors import PrivacyEngineError, SchemaError
from privacy_engine.tables.classes import CountedClasses, SensitiveValues
from privacy_engine.tables.persons import scrambled

FRAGMENT, POSITION = "fragment", "position"
WORKED = f"{FRAGMENT} int, rows bigint, outcome string"  # result of `working`, as a Spark schema
FOLDED = "outcome string"  # result of `folding`
Counted = Callable[[Iterable[pa.RecordBatch], Mapping[str, SensitiveValues]], Iterator[CountedClasses]]

WIDE = 64  # most values of all sensitive attributes together for which each has a column of counts
_RANGE = 1 << 64


class Part(Protocol):
    """Some records of a file, which a worker opens itself; it can be pickled."""

    @property
    def rows(self) -> int:
        """Number of records."""

    def __call__(self) -> pa.Table:
        """Return the records, with types of `plain_columns`."""


Parts = Callable[[str], Sequence[Part]]  # file on the driver's machine -> its parts, in order


def opening(
    columns: Columns, parts: Sequence[Part]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function from numbers of parts to their records, each with its ``position``."""
    starts = np.cumsum([0, *(part.rows for part in parts)])

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            for number in batch.column(0).to_pylist():
                start = int(starts[number])
                yield from from_worker(lambda part=parts[number], start=start: _opened(columns, part, start))  # type: ignore[misc]

    return batches


def _opened(columns: Columns, part: Part, start: int) -> list[pa.RecordBatch]:
    carried = columns.carry(part())
    positions = pa.array(np.arange(start, start + part.rows))
    batches: list[pa.RecordBatch] = carried.add_column(0, POSITION, positions).to_batches()
    return batches


def assigning(
    columns: Columns, assign: Assign, kept: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that adds a column ``fragment`` to each batch and keeps some of its columns."""

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            fragments = from_worker(lambda batch=batch: _assigned(columns, assign, batch))  # type: ignore[misc]
            arrays = [*(batch.column(name) for name in kept), fragments]
            yield pa.RecordBatch.from_arrays(arrays, names=[*kept, FRAGMENT])

    return batches


def coding(
    columns: Columns, code: Code, made: Columns
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function from each batch to the rows that are to be counted."""

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            if batch.num_rows:
                yield from from_worker(lambda batch=batch: _coded(columns, code, made, batch))  # type: ignore[misc]

    return batches


def working(columns: Columns, work: Work) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return a function that passes the records of one fragment, in file order, to ``work``."""

    def fragment(key, carried):  # type: ignore[no-untyped-def]  # Spark chooses a protocol by type hints
        number, rows = key[0].as_py(), carried.num_rows
        outcome = from_worker(lambda: _outcome(lambda: work(number, _in_place(columns, carried))))
        values = {FRAGMENT: [number], "rows": [rows], "outcome": [outcome]}
        types = {FRAGMENT: pa.int32(), "rows": pa.int64(), "outcome": pa.string()}
        return pa.table(values, schema=pa.schema(types))

    return fragment


def numbered_work(work: Apart) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that does ``work`` for each of the given numbers, and returns the results."""

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            for number in batch.column(0).to_pylist():
                outcome = from_worker(lambda number=number: _outcome(lambda: work(number)))  # type: ignore[misc]
                yield pa.RecordBatch.from_pydict({"outcome": [outcome]})

    return batches


def folding(
    sensitive: Mapping[str, SensitiveValues], counted: Counted, fold: Fold
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that passes the classes of a task to ``fold``, and returns the result.

    It also returns their number of records, and for each attribute a sum of the counts: see `check_sums`.

    Args:
        sensitive: Sensitive attribute -> its values in the whole table.
        counted: Function from the rows of a task to their classes, part by part.
        fold: Function for `Engine.fold_classes`.
    """
    # A worker knows the values by their codes.
    known = {name: replace(values, column=values.column.iloc[:0]) for name, values in sensitive.items()}

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcome = from_worker(lambda: _folded(given, known, counted, fold))
        yield pa.RecordBatch.from_pydict({"outcome": [outcome]})

    return batches


def _folded(
    given: Iterator[pa.RecordBatch], sensitive: Mapping[str, SensitiveValues], counted: Counted, fold: Fold
) -> str:
    sums = dict.fromkeys(sensitive, 0)
    records = 0

    def parts() -> Iterator[CountedClasses]:
        nonlocal records
        for part in counted(given, sensitive):
            records += part.records
            for name, entries in part.entries.items():
                if part.persons is None:
                    sums[name] = (sums[name] + _sum(entries.values, entries.counts)) % _RANGE
            yield part
            del part

    return _outcome(lambda: {"fold": dict(fold(parts())), "records": records, "sums": sums})


def check_sums(results: Sequence[Mapping[str, Any]], sensitive: Mapping[str, SensitiveValues]) -> bool:
    """Return whether the classes of all tasks together have the records with each value counted before.

    The counts are compared by their sum modulo 2 ** 64, each multiplied by a scrambled number for its value.
    The sum is as short for a million values as for two, and differs if any count does, except with a
    probability of about one in 2 ** 64 for a table that was not crafted for it.
    """
    return all(
        sum(part["sums"][name] for part in results) % _RANGE == _sum(np.arange(values.size), values.counts)
        for name, values in sensitive.items()
    )


def _sum(codes: npt.NDArray[np.int64], counts: npt.NDArray[Any]) -> int:
    with np.errstate(over="ignore"):
        return int((scrambled(codes) * counts.astype(np.uint64)).sum(dtype=np.uint64))


def is_wide(sensitive: Mapping[str, SensitiveValues], most: int) -> bool:
    """Return whether a class is one row of `wide_columns`; otherwise `ordered_classes` counts it."""
    return sum(values.size for values in sensitive.values()) <= most


def wide_columns(codes: Sequence[str], sensitive: Mapping[str, SensitiveValues]) -> dict[str, str]:
    """Return what is counted of each class, by name: its records, and those with each sensitive value.

    Numbers have a fixed width, so that grouping can spill them and add them up before anything is sent. It
    needs neither lists nor a second grouping.

    Args:
        codes: Column with the codes of each attribute.
        sensitive: Sensitive attribute -> its values in the whole table.
    """
    columns = {"n": "count(*)"}
    for i, (code, values) in enumerate(zip(codes, sensitive.values(), strict=True)):
        columns |= {f"n{i}_{value}": f"count_if({code} = {value})" for value in range(values.size)}
    return columns


def counted_wide(rows: pa.RecordBatch, sensitive: Mapping[str, SensitiveValues]) -> CountedClasses:
    """Return the classes of rows of `wide_columns`.

    Raises:
        IntegrityError: If a record has a value that is not among the known ones.
    """
    sizes = rows.column("n").to_numpy()
    entries = {}
    for i, (name, values) in enumerate(sensitive.items()):
        counts = np.zeros((len(sizes), values.size), np.int64)
        for value in range(values.size):
            counts[:, value] = rows.column(f"n{i}_{value}").to_numpy()
        if not np.array_equal(counts.sum(axis=1), sizes):
            raise changed_values()
        classes, codes = np.nonzero(counts)
        entries[name] = (classes, codes, counts[classes, codes])
    return CountedClasses.of_entries(sizes, entries, sensitive)


def counted_rows(
    given: Iterable[pa.RecordBatch], sensitive: Mapping[str, SensitiveValues]
) -> Iterator[CountedClasses]:
    """Yield the classes of rows of `wide_columns`."""
    return (counted_wide(batch, sensitive) for batch in given if batch.num_rows)


def result_of(outcome: str) -> Mapping[str, Any]:
    """Return the result of ``work``.

    Raises:
        PrivacyEngineError: The error that it raised.
    """
    decoded = json.loads(outcome)
    if "error" in decoded:
        raise error_of(decoded)
    result: Mapping[str, Any] = decoded["result"]
    return result


def _assigned(columns: Columns, assign: Assign, batch: pa.RecordBatch) -> pa.Array:
    fragments = np.asarray(assign(to_frame(columns.restored(pa.Table.from_batches([batch])))))
    if fragments.shape != (batch.num_rows,) or fragments.min(initial=0) < 0:
        raise SchemaError(
            f"each of {batch.num_rows} records must be assigned the number of a fragment, >= 0, got "
            f"an array of shape {fragments.shape}"
        )
    return pa.array(fragments.astype(np.int32))


def _coded(columns: Columns, code: Code, made: Columns, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    rows: list[pa.RecordBatch] = made.carry(
        code(columns.restored(pa.Table.from_batches([batch])))
    ).to_batches()
    return rows


def _in_place(columns: Columns, carried: pa.Table) -> pa.Table:
    # Records come in any order; repeating a fragment must see them in the same order.
    return columns.restored(carried.take(pc.sort_indices(carried.column(POSITION))))


def _outcome(work: Callable[[], Mapping[str, Any]]) -> str:
    try:
        return json.dumps({"result": dict(work())})
    except PrivacyEngineError as error:  # Spark would retry what raises, which is not useful here
        return json.dumps(description_of(error))
