"""A table that Spark encodes and counts, for a method that adds noise: as it is in memory."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine import DataSchema, Hierarchy, SchemaError, load_method
from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.engines.spark import SparkEngine
from privacy_engine.errors import CapacityError
from privacy_engine.synthesizers.measuring import coded_files
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords
from tests.spark.work import CANARY

pytestmark = pytest.mark.spark

CITIES = Hierarchy((("Bern", "south", "*"), ("Köln", "north", "*"), ("Chur", "south", "*")))
SCHEMA = DataSchema.from_dict(
    {
        "Age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [17, 90], "bins": 16},
        "age": {"kind": "numeric", "bounds": [0.1, 0.7], "bins": 7, "nullable": True},
        "zip.code `x`": {"role": "sensitive", "hierarchy": "cities", "nullable": True},
        "count": {"categories": [True, False], "nullable": True},
        "grade": {"role": "sensitive", "categories": [1, 2, 3]},
    },
    {"cities": CITIES},
)


def people(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "Age": rng.integers(17, 91, n).astype(np.uint8),
            "age": rng.choice([*np.linspace(0.1, 0.7, 8), 0.25, np.nan], n),
            "zip.code `x`": rng.choice([*CITIES.values, None], n),
            "count": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "grade": rng.integers(1, 4, n).astype(np.int16),
        }
    )


def written(folder: Path, table: pd.DataFrame) -> list[str]:
    arrow = to_arrow(table)
    paths = [str(folder / f"part-{i}.parquet") for i in range(2)]
    for path, part in zip(paths, (arrow.slice(0, 250), arrow.slice(250)), strict=True):
        pq.write_table(part, path, row_group_size=100)
    return paths


def loaded(files: list[str]) -> pd.DataFrame:
    return to_frame(pa.concat_tables([pq.read_table(file) for file in files]))


def counts(coded: CodedTable) -> dict[tuple[int, ...], int]:
    records = WeightedRecords.of(coded)
    return dict(zip(zip(*records.codes.tolist(), strict=True), records.weights.tolist(), strict=True))


def test_the_counts_are_those_of_the_table_in_memory(local_spark: SparkEngine, tmp_path: Path) -> None:
    files = written(tmp_path, people())  # some 400 distinct records, in parts of about 100
    whole, parts = CodedTable.encode(loaded(files), SCHEMA), coded_files(local_spark, files, SCHEMA)
    assert counts(parts) == counts(whole)
    assert parts.storages == whole.storages
    assert len(parts) == 600


def test_a_table_is_refused_for_the_reasons_of_one_in_memory(
    local_spark: SparkEngine, tmp_path: Path
) -> None:
    table = people()
    table.loc[::3, "zip.code `x`"] = CANARY
    table.loc[5:9, "Age"] = 99
    files = written(tmp_path, table)
    with pytest.raises(SchemaError) as whole:
        CodedTable.encode(loaded(files), SCHEMA)
    with pytest.raises(SchemaError) as parts:
        coded_files(local_spark, files, SCHEMA)
    assert str(parts.value) == str(whole.value)
    assert CANARY not in str(parts.value)


def test_what_might_not_fit_into_the_memory_of_the_driver_is_refused(
    local_spark: SparkEngine, tmp_path: Path
) -> None:
    files = written(tmp_path, people())
    small = SparkEngine(local_spark._session, memory=1000)
    with pytest.raises(CapacityError, match="give it more memory, or the attributes fewer bins"):
        coded_files(small, files, SCHEMA)


def test_a_synthesizer_measures_on_spark(local_spark: SparkEngine, tmp_path: Path) -> None:
    files = written(tmp_path, people())
    method = load_method("privbayes", epsilon=1e9, degree=0)  # no choice, and noise that rounds to nothing
    on_spark = method.measure_files(local_spark, files, SCHEMA)
    assert on_spark.to_json() == method.measure(loaded(files), SCHEMA).to_json()
