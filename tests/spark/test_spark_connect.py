"""The engine as a client of a Spark Connect server, which has no RDDs, and other classes for the rest."""

import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.engines.checking import sensitive_values
from privacy_engine.engines.engine import Grouping
from privacy_engine.engines.spark import SparkEngine
from privacy_engine.errors import EngineError, InfeasibleError, SpecError
from privacy_engine.tables.schema import DataSchema
from tests.spark.conftest import awkward
from tests.spark.work import CANARY, by_number, infeasible, listed, quoting, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = DataSchema.from_dict(
    {
        "illness": {"role": "sensitive", "kind": "categorical"},
        "salary": {"role": "sensitive", "kind": "numeric"},
    }
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files, in a folder whose name is not quite plain."""
    folder = tmp_path_factory.mktemp("files") / "run: 1 + %20é"
    folder.mkdir()
    table = awkward(np.random.default_rng(7), 300)
    for part in range(2):
        pq.write_table(table.slice(150 * part, 150), folder / f"{part}.parquet", store_schema=False)
    return [str(folder / f"{part}.parquet") for part in range(2)]


def test_classes_are_counted(connected_spark: SparkEngine, files: list[str]) -> None:
    values = sensitive_values(connected_spark, files, SCHEMA)
    reported = list(
        connected_spark.fold_classes(files, Grouping(columns=["Age", "flag"], sensitive=values), totals)
    )
    assert [sum(part["totals"][i] for part in reported) for i in range(3)] == [300, 12, 300]
    assert sum(connected_spark.class_sizes(files, ["Age", "flag"]).values()) == 12


def test_a_sample_comes_in_the_order_of_the_files(connected_spark: SparkEngine, files: list[str]) -> None:
    numbers = connected_spark.sample(files, 25, 7)["number"].to_pylist()
    assert len(set(numbers)) == 25
    assert numbers == sorted(numbers)


def test_every_fragment_is_worked_on(connected_spark: SparkEngine, people: list[str]) -> None:
    results = list(connected_spark.apply_by_fragment(people, by_number, listed))
    assert [result["numbers"] for result in results] == [list(range(i, 300, 8)) for i in range(8)]


def test_errors_of_work_arrive_and_quote_no_record(connected_spark: SparkEngine, people: list[str]) -> None:
    with pytest.raises(InfeasibleError, match="fragment 3 cannot be 500-anonymous"):
        list(connected_spark.apply_by_fragment(people, by_number, infeasible))
    with pytest.raises(EngineError, match="ValueError in a Spark worker") as caught:
        list(connected_spark.apply_by_fragment(people, by_number, quoting))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_a_path_that_would_be_a_pattern_is_refused(connected_spark: SparkEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "part[1].parquet")
    with pytest.raises(SpecError, match=r"part\[1\].parquet does. Move"):
        connected_spark.class_sizes([str(tmp_path / "part[1].parquet")], ["a"])
