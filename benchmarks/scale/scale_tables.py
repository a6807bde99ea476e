"""Tables of any size in the likeness of Adult, written part by part: none is ever in memory as a whole."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tables import SENSITIVE, Table
from deploy.local.samples.synthetic_adult import OCCUPATION
from privacy_engine import DataSchema
from privacy_engine.measures.recoding import as_released
from privacy_engine.vocabulary import bounds_of
from privacy_release.spec.files import load_schema

PART = 1_000_000  # records made at a time
GROUP = 131_072  # records of a row group, as ingest writes them
TREES = ("marital-status", "native-country", "race", "sex", "workclass")
RESAMPLED = (*TREES, "education-num", SENSITIVE)  # taken from a record of Adult, all of the same one
REDRAWN = 0.2  # chance that a value is drawn again from all values of its column
MONTHS, SHIFTED = (17 * 12, 91 * 12 - 1), 36
HOURS, FULL_TIME, FULL_TIME_SHARE = (0, 5_200), 2_080, 0.3
HOURS_MEAN, HOURS_SPREAD = 1_900, 600
FIELDS: dict[str, dict[str, object]] = {
    "age-in-months": {"role": "quasi_identifier", "kind": "numeric", "bounds": list(MONTHS)},
    "education-num": {"role": "quasi_identifier", "kind": "ordinal", "bounds": [1, 16]},
    "hours-per-year": {"role": "quasi_identifier", "kind": "numeric", "bounds": list(HOURS)},
    **{name: {"role": "quasi_identifier", "hierarchy": f"hierarchies/adult/{name}.csv"} for name in TREES},
    SENSITIVE: {"role": "sensitive", "categories": sorted(OCCUPATION)},
}
NOTE = f"""Records of Adult, resampled, and made so that they do not merely repeat: a value is drawn
again from its column with a chance of {REDRAWN:.0%}; the age is in months, moved by up to {SHIFTED // 12}
years; and there are hours of work a year, {FULL_TIME_SHARE:.0%} of them {FULL_TIME:,}. Eight
quasi-identifiers, five of them trees, and the sensitive occupation."""


def schema() -> DataSchema:
    """Eight quasi-identifiers and the occupation; all domains are public."""
    return load_schema(FIELDS)


def released_schema() -> DataSchema:
    """Of a release: intervals are two numbers, nodes are text."""
    source = schema()
    ends = [end for a in source.quasi_identifiers if a.ordered for end in bounds_of(a.name)[:2]]
    return as_released(source, [*ends, *TREES])


def write_table(table: Table, rows: int, file: Path, *, seed: int = 1, part: int = PART) -> None:
    """Make records and write them, ``part`` at a time.

    Args:
        table: the Adult setup.
        rows: how many.
        file: Parquet, one file.
        seed: equal seeds and parts give equal records; a longer table begins with a shorter one's full parts.
        part: records made at a time.
    """
    writer = None
    try:
        for made in parts(table, rows, seed, part):
            writer = writer or pq.ParquetWriter(file, made.schema, compression="zstd", store_schema=False)
            writer.write_table(made, row_group_size=GROUP)
    finally:
        if writer is not None:
            writer.close()


def parts(
    table: Table, rows: int, seed: int, part: int = PART, redrawn: float = REDRAWN
) -> Iterator[pa.Table]:
    """The records, part by part, each with its own stream of random numbers."""
    columns = {name: pd.factorize(table.frame[name]) for name in RESAMPLED}
    ages = table.frame["age"].to_numpy()
    for number, start in enumerate(range(0, rows, part)):
        rng = np.random.default_rng([seed, number])
        yield _part(columns, ages, min(part, rows - start), redrawn, rng)


def _part(
    columns: dict[str, tuple[npt.NDArray[np.intp], pd.Index]],
    ages: npt.NDArray[np.int64],
    rows: int,
    redrawn: float,
    rng: np.random.Generator,
) -> pa.Table:
    source = rng.integers(len(ages), size=rows)
    age = 12 * ages[source] + rng.integers(12, size=rows) + rng.integers(-SHIFTED, SHIFTED + 1, size=rows)
    hours = np.clip(np.rint(rng.normal(HOURS_MEAN, HOURS_SPREAD, size=rows)), *HOURS)
    made = {
        "age-in-months": pa.array(np.clip(age, *MONTHS).astype(np.int16)),
        "hours-per-year": pa.array(
            np.where(rng.random(rows) < FULL_TIME_SHARE, FULL_TIME, hours).astype(np.int16)
        ),
    }
    for name, (codes, values) in columns.items():
        redrawn_at = rng.random(rows) < redrawn
        picked = codes[np.where(redrawn_at, rng.integers(len(ages), size=rows), source)].astype(np.int32)
        # Parquet keeps it as dictionary pages, and readers see plain text
        made[name] = pa.DictionaryArray.from_arrays(picked, pa.array(values.to_list()))
    fields = {name: made[name] for name in FIELDS}
    numbers = {"education-num": fields["education-num"].dictionary_decode().cast(pa.int8())}
    return pa.table({**fields, **numbers})
