"""The engine on Spark gives the answers of the engine on DuckDB."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.engines.checking import sensitive_values
from privacy_engine.engines.engine import Grouping
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.local import LocalEngine
from privacy_engine.engines.spark import SparkEngine
from privacy_engine.errors import IntegrityError, SchemaError
from privacy_engine.tables.classes import SensitiveValues
from privacy_engine.tables.schema import DataSchema
from privacy_release.lake.store import Lake
from tests.reading import people as people_read
from tests.reading import publish_people, snippets
from tests.spark.conftest import awkward
from tests.spark.work import CODED, by_number, listed, remainders, shown, uneven

pytestmark = pytest.mark.spark

SCHEMA = DataSchema.from_dict(
    {
        "Age": {"role": "quasi_identifier", "kind": "numeric"},
        "illness": {"role": "sensitive", "kind": "categorical"},
        "salary": {"role": "sensitive", "kind": "numeric"},
        "grade": {"role": "sensitive", "kind": "ordinal"},
    }
)
KEYS = ["Age", "age", "zip.code `x`", "flag", "short"]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(memory=1 << 30, spill=tmp_path_factory.mktemp("duckdb"), processes=1) as engine:
        yield engine


@pytest.fixture
def empty(tmp_path: Path) -> list[str]:
    path = tmp_path / "empty.parquet"
    pq.write_table(awkward(np.random.default_rng(7), 0), path, store_schema=False)
    return [str(path)]


def plain(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    """Combination of values -> count; null and NaN are one."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in table.to_pylist():
        found[tuple(plain(value) for name, value in row.items() if name != "count")] += row["count"]
    assert len(found) == len(table), "a combination must be in one row"
    return found


def classes(folded: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """All classes that were shown, by whichever engine."""
    return Counter(text for reported in folded for text in reported["classes"])


def test_the_columns_and_rows_are_those_of_the_files(
    local_spark: SparkEngine, local: LocalEngine, files: list[str]
) -> None:
    assert local_spark.columns(files) == local.columns(files)
    assert local_spark.rows(files) == local.rows(files) == 300


@pytest.mark.parametrize("columns", [[], ["empty"], KEYS], ids=str)
def test_the_sizes_of_the_classes_are_the_same(
    local_spark: SparkEngine, local: LocalEngine, files: list[str], columns: list[str]
) -> None:
    assert local_spark.class_sizes(files, columns) == local.class_sizes(files, columns)


# Each way to count is tried on files, and parts of files are read by one of them.
@pytest.mark.parametrize(
    ("spark", "columns", "sensitive", "wide"),
    [
        *(
            ("files", columns, sensitive, wide)
            for columns, sensitive in (
                ([], True),
                (["Age", "age"], True),
                (["short", "zip.code `x`", "flag", "city"], False),
            )
            for wide in (0, 64)
        ),
        ("parts", ["Age", "age"], True, 0),
    ],
    ids=str,
    indirect=["spark"],
)
def test_the_sensitive_values_of_the_classes_are_the_same(
    spark: SparkEngine, local: LocalEngine, files: list[str], columns: list[str], sensitive: bool, wide: int
) -> None:
    values = sensitive_values(local, files, SCHEMA) if sensitive else {}
    engine = SparkEngine(spark._session, parts=spark._parts, wide=wide)
    found = classes(engine.fold_classes(files, Grouping(columns=columns, sensitive=values), shown))
    assert found == classes(local.fold_classes(files, Grouping(columns=columns, sensitive=values), shown))
    assert sum(found.values()) >= 1 + 5 * bool(columns)


def test_classes_are_counted_whatever_the_types_of_their_columns(
    local_spark: SparkEngine, local: LocalEngine, files: list[str]
) -> None:
    columns = ["day", "moment", "zoned", "large", "price", "empty"]
    values = {
        name: SensitiveValues.of(
            to_frame(found := local.contingency(files, [name]))[name], found["count"].to_numpy(), None
        )
        for name in ("day", "moment", "zoned", "large", "price", "Age")
    }
    assert classes(
        local_spark.fold_classes(files, Grouping(columns=columns, sensitive=values), shown)
    ) == classes(local.fold_classes(files, Grouping(columns=columns, sensitive=values), shown))


@pytest.mark.parametrize(
    ("columns", "linked"),
    [([], False), (["flag"], True), (["Age", "age"], False), (["Age", "age"], True)],
    ids=str,
)
def test_the_persons_of_the_classes_are_the_same(
    local_spark: SparkEngine, local: LocalEngine, files: list[str], columns: list[str], linked: bool
) -> None:
    values = sensitive_values(local, files, SCHEMA, person="city")
    again = sensitive_values(local_spark, files, SCHEMA, person="city")
    assert {name: v.weights.tolist() for name, v in again.items() if v.weights is not None} == {
        name: v.weights.tolist() for name, v in values.items() if v.weights is not None
    }
    grouping = Grouping(columns=columns, sensitive=values, person="city", linked=linked)
    found, expected = (
        classes(engine.fold_classes(files, grouping, shown)) for engine in (local_spark, local)
    )
    assert found == expected
    assert sum(found.values()) > (columns != [])


@pytest.mark.parametrize(
    ("columns", "linked"),
    [([], True), (["district"], False), (["district", "age"], False), (["district", "age"], True)],
    ids=str,
)
def test_who_knows_all_rows_of_a_person_is_left_with_as_many_values(
    local_spark: SparkEngine, local: LocalEngine, tmp_path: Path, columns: list[str], linked: bool
) -> None:
    rng = np.random.default_rng(5)
    person = rng.integers(0, 40, 200)
    names = np.array(["flu", "cold", None, "Flu\u200b"], dtype=object)
    constant = rng.integers(0, 3, 40)[person]
    table = {
        "person": person,
        "district": np.array(["a", "b", "c", None], dtype=object)[rng.integers(0, 4, 200)],
        "age": np.where(rng.random(200) < 0.2, np.nan, rng.integers(0, 3, 200)),
        "illness": names[np.where(rng.random(200) < 0.05, rng.integers(0, 4, 200), constant)],
    }
    path = str(tmp_path / "visits.parquet")
    pq.write_table(pa.table(table), path)
    schema = DataSchema.from_yaml("illness: {role: sensitive, kind: categorical, nullable: true}")
    values = sensitive_values(local, [path], schema)
    found, expected = (
        engine.values_left([path], columns, values, "person", linked=linked)
        for engine in (local_spark, local)
    )
    assert found.to_pydict() == expected.to_pydict()
    assert found.schema.types == expected.schema.types
    assert len(expected)


def test_a_contingency_table_is_the_same_in_values_and_types(
    spark: SparkEngine, local: LocalEngine, files: list[str]
) -> None:
    columns = [name for name in local.columns(files).names if name != "number"]
    found, expected = (engine.contingency(files, columns) for engine in (spark, local))
    assert found.schema == expected.schema
    assert counted(found) == counted(expected)


def test_values_that_were_not_counted_are_refused(local_spark: SparkEngine, files: list[str]) -> None:
    column = local_spark.contingency(files, ["illness"])
    kept = column.filter(pa.compute.not_equal(column["illness"], "flu"))
    known = SensitiveValues.of(kept["illness"].to_pandas(), kept["count"].to_numpy(), None)
    with pytest.raises(IntegrityError, match="files changed"):
        list(local_spark.fold_classes(files, Grouping(columns=["flag"], sensitive={"illness": known}), shown))


def test_the_extent_is_that_of_the_numbers(
    local_spark: SparkEngine, local: LocalEngine, files: list[str]
) -> None:
    for column in ("age", "short", "Age", "large", "price"):
        assert local_spark.extent(files, column) == local.extent(files, column)
    with pytest.raises(SchemaError, match="'city' must hold numbers"):
        local_spark.extent(files, "city")


def test_the_cuts_of_a_column_are_the_same(
    local_spark: SparkEngine, local: LocalEngine, files: list[str]
) -> None:
    for column, parts in (("number", 7), ("age", 4), ("number", 1)):
        expected = local.quantile_cuts(files, column, parts)
        assert local_spark.quantile_cuts(files, column, parts).tolist() == expected.tolist()


def test_a_sample_is_the_same_and_in_the_order_of_the_files(
    spark: SparkEngine, local: LocalEngine, files: list[str]
) -> None:
    for rows in (40, 10_000):
        assert plain_rows(spark.sample(files, rows, 3)) == plain_rows(local.sample(files, rows, 3))
    assert spark.sample(files, 40, 3).schema == local.sample(files, 40, 3).schema


def plain_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(plain(value) for value in row.values()) for row in table.to_pylist()]


def test_fragments_are_counted_alike(spark: SparkEngine, local: LocalEngine, files: list[str]) -> None:
    columns = ["illness", "salary", "Age"]
    found, expected = (e.count_fragments(files, uneven, columns) for e in (spark, local))
    assert found.schema == expected.schema
    assert counted(found) == counted(expected)


def test_coded_rows_are_counted_alike(spark: SparkEngine, local: LocalEngine, files: list[str]) -> None:
    columns = ["number", "city"]
    found, expected = (list(e.count_coded(files, columns, remainders, CODED)) for e in (spark, local))
    assert found[0].schema == expected[0].schema
    assert counted(pa.concat_tables(found)) == counted(pa.concat_tables(expected))


def test_work_gets_the_same_records_in_the_same_order(
    spark: SparkEngine, local: LocalEngine, files: list[str]
) -> None:
    found, expected = (list(e.apply_by_fragment(files, uneven, listed)) for e in (spark, local))
    assert [result["fragment"] for result in found] == [0, 1, 2, 5]
    assert found == sorted(expected, key=lambda result: result["fragment"])


def test_an_empty_table_has_no_class_no_extent_and_no_fragment(spark: SparkEngine, empty: list[str]) -> None:
    assert spark.class_sizes(empty, ["Age"]) == {}
    assert spark.class_sizes(empty, []) == {}
    assert classes(spark.fold_classes(empty, Grouping(columns=["Age"], sensitive={}), shown)) == Counter()
    assert len(spark.contingency(empty, [])) == 0
    assert spark.extent(empty, "age") is None
    assert spark.quantile_cuts(empty, "age", 4).tolist() == []
    assert len(spark.sample(empty, 5, 1)) == 0
    assert list(spark.apply_by_fragment(empty, by_number, listed)) == []


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.time64("us"), pa.list_(pa.int8())], ids=str)
def test_a_type_that_spark_would_change_is_refused(
    local_spark: SparkEngine, tmp_path: Path, kind: pa.DataType
) -> None:
    pq.write_table(pa.table({"odd": pa.nulls(3, kind)}), tmp_path / "odd.parquet")
    with pytest.raises(SchemaError, match="column 'odd' must have a type that Spark keeps"):
        local_spark.class_sizes([str(tmp_path / "odd.parquet")], [])


def test_a_file_that_spark_would_pass_over_is_refused(local_spark: SparkEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "_part.parquet")
    with pytest.raises(SchemaError, match=r"_part.parquet must not begin"):
        local_spark.class_sizes([str(tmp_path / "_part.parquet")], ["a"])


def test_a_file_that_is_no_parquet_is_named(local_spark: SparkEngine, tmp_path: Path) -> None:
    (tmp_path / "notes.parquet").write_text("no table")
    with pytest.raises(SchemaError, match=r"notes.parquet must be a whole Parquet file"):
        local_spark.contingency([str(tmp_path / "notes.parquet")], ["a"])


def test_a_damaged_file_is_an_error_without_context(
    local_spark: SparkEngine, files: list[str], tmp_path: Path
) -> None:
    data = bytearray(Path(files[0]).read_bytes())
    data[100:1500] = bytes(1400)  # the footer is as it was
    (tmp_path / "damaged [1].parquet").write_bytes(data)
    with pytest.raises(SchemaError, match=r"^damaged \[1\].parquet must be complete") as caught:
        local_spark.contingency([str(tmp_path / "damaged [1].parquet")], ["number", "Age", "age", "city"])
    assert caught.value.__context__ is None


def test_a_column_that_is_not_there_is_named(local_spark: SparkEngine, files: list[str]) -> None:
    with pytest.raises(SchemaError, match="'ages'"):
        local_spark.class_sizes(files, ["ages"])


def test_a_column_with_the_name_of_the_counts_is_refused(local_spark: SparkEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"count": [1], "fragment": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match="'count'"):
        local_spark.contingency([str(tmp_path / "a.parquet")], ["count"])
    with pytest.raises(SchemaError, match="'fragment'"):
        local_spark.count_fragments(
            [str(tmp_path / "a.parquet")], lambda f: np.zeros(len(f), np.int32), ["fragment"]
        )


def test_the_snippet_of_the_page_on_reading_counts_a_release(
    local_spark: SparkEngine, tmp_path: Path
) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    publish_people(tmp_path, lake)
    (snippet,) = (text for text in snippets() if "spark.sql" in text)
    names: dict[str, Any] = {"lake": lake.root, "options": {}, "spark": local_spark._session}
    exec(compile(snippet, "docs/reading.md", "exec"), names)
    expected = people_read().groupby("illness").size().to_dict()
    assert {row["illness"]: row["n"] for row in names["counts"].collect()} == expected
