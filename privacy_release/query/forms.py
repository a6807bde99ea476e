"""Formats of an answer: Arrow, CSV, JSON, generated piece by piece in the process of the query."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

_ROWS = 256  # number of rows that are converted to text at a time


def arrow_pieces(schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]") -> Iterator[bytes]:
    """Yield a stream in Arrow's IPC format."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield _taken(sink)
    yield _taken(sink)


def csv_pieces(schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]") -> Iterator[bytes]:
    """Yield a CSV file with the names of the columns in its first line."""
    yield _csv([schema.names])
    for rows in _slices(batches):
        yield _csv(rows)


def json_pieces(schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]") -> Iterator[bytes]:
    """Yield a JSON array of rows, each an array (a query may repeat a column). Other types become text."""
    before = "["
    for rows in _slices(batches):
        lines = [
            json.dumps([_jsonable(value) for value in row], ensure_ascii=False, allow_nan=False, default=str)
            for row in rows
        ]
        yield (before + ",\n".join(lines)).encode()
        before = ",\n"
    yield b"[]" if before == "[" else b"]"


FORMS: Mapping[str, Callable[["pa.Schema", "Iterable[pa.RecordBatch]"], Iterator[bytes]]] = {
    "arrow": arrow_pieces,
    "csv": csv_pieces,
    "json": json_pieces,
}


def _slices(batches: "Iterable[pa.RecordBatch]") -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows as Python values, some at a time."""
    for batch in batches:
        for start in range(0, len(batch), _ROWS):
            yield list(zip(*(c.to_pylist() for c in batch.slice(start, _ROWS).columns), strict=True))


def _csv(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _jsonable(value: Any) -> Any:
    """Return a value without infinities, which JSON does not support."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return {key: _jsonable(item) for key, item in value.items()} if isinstance(value, dict) else value


def _taken(sink: io.BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data
