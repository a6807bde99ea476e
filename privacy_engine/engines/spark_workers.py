"""What the Python processes of a Spark cluster do with records."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privacy_engine.engines.engine import Assign, Code, Work
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.spark_columns import Columns
from privacy_engine.engines.spark_errors import error_of, from_worker, told_of
from privacy_engine.errors import PrivacyEngineError, SchemaError

FRAGMENT, POSITION = "fragment", "position"
WORKED = f"{FRAGMENT} int, rows bigint, outcome string"  # what `working` gives back, in Spark's words


class Part(Protocol):
    """Some records of a file, which a worker opens by itself; it can be pickled."""

    @property
    def rows(self) -> int:
        """How many records it has."""

    def __call__(self) -> pa.Table:
        """The records, in types of `plain_columns`."""


Parts = Callable[[str], Sequence[Part]]  # a file of the driver's machine -> its parts, in order


def opening(
    columns: Columns, parts: Sequence[Part]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that gives, for the numbers of parts, their records, each with its ``position``."""
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
    """A function that gives each batch a column ``fragment``, beside some of those it came with."""

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            fragments = from_worker(lambda batch=batch: _assigned(columns, assign, batch))  # type: ignore[misc]
            arrays = [*(batch.column(name) for name in kept), fragments]
            yield pa.RecordBatch.from_arrays(arrays, names=[*kept, FRAGMENT])

    return batches


def coding(
    columns: Columns, code: Code, made: Columns
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that makes of each batch the rows that are to be counted."""

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            if batch.num_rows:
                yield from from_worker(lambda batch=batch: _coded(columns, code, made, batch))  # type: ignore[misc]

    return batches


def working(columns: Columns, work: Work) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """A function that gives the records of one fragment, in the order of the files, to ``work``."""

    def fragment(key, carried):  # type: ignore[no-untyped-def]  # Spark takes hints for a choice of protocol
        number, rows = key[0].as_py(), carried.num_rows
        outcome = from_worker(lambda: _outcome(columns, work, number, carried))
        values = {FRAGMENT: [number], "rows": [rows], "outcome": [outcome]}
        types = {FRAGMENT: pa.int32(), "rows": pa.int64(), "outcome": pa.string()}
        return pa.table(values, schema=pa.schema(types))

    return fragment


def result_of(outcome: str) -> Mapping[str, Any]:
    """What ``work`` gave back.

    Raises:
        PrivacyEngineError: that it raised.
    """
    told = json.loads(outcome)
    if "error" in told:
        raise error_of(told)
    result: Mapping[str, Any] = told["result"]
    return result


def _assigned(columns: Columns, assign: Assign, batch: pa.RecordBatch) -> pa.Array:
    fragments = np.asarray(assign(to_frame(columns.restored(pa.Table.from_batches([batch])))))
    if fragments.shape != (batch.num_rows,) or fragments.min(initial=0) < 0:
        raise SchemaError(
            f"each of {batch.num_rows} records must get the number of a fragment, >= 0, got an array of "
            f"shape {fragments.shape}"
        )
    return pa.array(fragments.astype(np.int32))


def _coded(columns: Columns, code: Code, made: Columns, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    rows: list[pa.RecordBatch] = made.carry(
        code(columns.restored(pa.Table.from_batches([batch])))
    ).to_batches()
    return rows


def _outcome(columns: Columns, work: Work, number: int, carried: pa.Table) -> str:
    # Records come in any order; whoever does a fragment again must see them in the same one.
    table = columns.restored(carried.take(pc.sort_indices(carried.column(POSITION))))
    try:
        return json.dumps({"result": dict(work(number, table))})
    except PrivacyEngineError as error:  # not worth a second try, which Spark gives to what raises
        return json.dumps(told_of(error))
