"""What a draft of a schema needs to know of a column; a value is told only if many records have it."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as t

from privacy_engine.engines.class_sql import Source
from privacy_engine.engines.frames import to_frame
from privacy_engine.tables.columns import factorize


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """A column in numbers.

    Attributes:
        name: of the column.
        rows, nulls, distinct: records, those without a value, and different values.
        number: whether it holds numbers; truth values are none.
        whole: whether all its finite numbers are whole ones, and there is one.
        extent: least and largest number; None if there is none.
        common: of a column of other values, those that so many records have as was asked for, as text and
            ascending; cut off beyond as many as were asked for.
    """

    name: str
    rows: int
    nulls: int
    distinct: int
    number: bool
    whole: bool
    extent: tuple[float, float] | None
    common: tuple[str, ...]


def profile_sql(source: Source, name: str) -> str:
    """One row: ``n`` records, ``nulls``, ``d`` distinct values; of numbers ``low``, ``high``, ``whole``."""
    numbers = ""
    if is_number(source.kind(name)):
        known = "isfinite(v::DOUBLE)"
        numbers = (
            ", min(v)::DOUBLE AS low, max(v)::DOUBLE AS high, "
            f"coalesce(bool_and(v = round(v)) FILTER ({known}), false) AS whole"
        )
    return (
        "SELECT coalesce(sum(n), 0)::BIGINT AS n, coalesce(sum(n) FILTER (v IS NULL), 0)::BIGINT AS nulls, "
        f"count(v) AS d{numbers} FROM ({_values(source, name)})"
    )


def common_sql(source: Source, name: str, least: int, most: int) -> str:
    """Values that at least so many records have, at most so many of them."""
    return f"SELECT v FROM ({_values(source, name)}) WHERE n >= {least} AND v IS NOT NULL LIMIT {most}"


def column_profile(source: Source, name: str, counted: pa.Table, common: pa.Table | None) -> ColumnProfile:
    """From the rows of `profile_sql`, and of `common_sql` where the column holds no numbers."""
    (row,) = counted.to_pylist()
    texts: list[str] = []
    if common is not None:
        texts = factorize(to_frame(common.cast(pa.schema([("v", source.kind(name))])))["v"]).texts
    return ColumnProfile(
        name=name,
        rows=row["n"],
        nulls=row["nulls"],
        distinct=row["d"],
        number=is_number(source.kind(name)),
        whole=row.get("whole", False),
        extent=None if row.get("low") is None else (row["low"], row["high"]),
        common=tuple(sorted(texts)),
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type is one of numbers in a frame."""
    return bool(t.is_integer(kind) or t.is_floating(kind))


def _values(source: Source, name: str) -> str:
    value = source.value(name)
    return f"SELECT {value} AS v, count(*) AS n FROM {source.sql} GROUP BY {value}"
