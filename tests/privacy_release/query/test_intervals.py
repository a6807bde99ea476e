"""Intervals of published releases: what is answered, what is refused, and what lies beside the release."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import privacy_release
from privacy_engine.errors import IntegrityError, PublishError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.lake.read import proof_of, releases
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.query.answer import answer
from privacy_release.query.intervals import answer_with_intervals
from privacy_release.query.rules import QueryError
from tests.reading import people, publish_people, publish_synthetic
from tests.synthetic_tables import JOBS


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with a k-anonymous and a private release, which no test changes."""
    folder = tmp_path_factory.mktemp("intervals")
    lake = Lake(root=str(folder / "lake"))
    publish_people(folder / "people", lake)
    publish_synthetic(folder / "private", lake, name="private")
    return lake


def rows_of(lake: Lake, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer_with_intervals(lake, sql).rows.to_pylist()
    return found


def test_a_private_release_tells_value_and_interval_by_the_names_of_the_source(shared: Lake) -> None:
    found = rows_of(shared, "SELECT job, count(*) AS n, avg(age) FROM private WHERE age > 20 GROUP BY job")
    assert {row["job"] for row in found} == {*JOBS, None}
    for row in found:
        assert row["n_low"] <= row["n"] <= row["n_high"]
        assert row["mean_age_low"] < row["mean_age"] < row["mean_age_high"]
        assert 20 < row["mean_age"] < 100


def test_the_number_of_all_records_is_public_and_exact(shared: Lake) -> None:
    [row] = rows_of(shared, "SELECT count(*) FROM private")
    assert row == {"count": 437.0, "count_low": 437.0, "count_high": 437.0}


def test_the_parts_of_a_bin_add_up(shared: Lake) -> None:
    """A bin of the schema that a range cuts is taken as evenly spread."""
    below, above, both = (
        rows_of(shared, f"SELECT count(*) FROM private WHERE {where}")[0]["count"]
        for where in ("age < 33.3", "age >= 33.3 AND age <= 60", "age <= 60")
    )
    assert below + above == pytest.approx(both)


def test_a_higher_level_is_a_wider_interval(shared: Lake) -> None:
    wide, narrow = (
        privacy_release.intervals(shared.root, "private", where={"ill": "yes"}, level=level).to_pylist()[0]
        for level in (0.99, 0.5)
    )
    assert wide["count_low"] < narrow["count_low"] < narrow["count_high"] < wide["count_high"]


def test_a_k_anonymous_release_tells_certain_bounds_and_an_estimate(shared: Lake) -> None:
    found = rows_of(shared, "SELECT zip, count(*) AS n, avg(age) FROM people WHERE age >= 40 GROUP BY zip")
    source = people()
    assert [row["zip"] for row in found] == ["N1", "N2", "S1", "S2"]
    for row in found:
        assert row["n_low"] <= row["n"] <= row["n_high"]
        assert row["mean_age_low"] <= row["mean_age"] <= row["mean_age_high"]
        ages = source["age"][(source["zip"] == row["zip"]) & (source["age"] >= 40)]
        assert row["n_low"] <= len(ages) <= row["n_high"]
        assert row["mean_age_low"] <= ages.mean() <= row["mean_age_high"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM people WHERE age > 30 OR zip = 'N1'",
        "SELECT count(*) FROM people WHERE NOT age > 30",
        "SELECT count(*) FROM people WHERE age = NULL",
        "SELECT count(*) FROM people WHERE age + 1 > 30",
        "SELECT count(DISTINCT zip) FROM people",
        "SELECT count(*) FILTER (age > 3) FROM people",
        "SELECT median(age) FROM people",
        "SELECT zip, count(*) FROM people GROUP BY zip HAVING count(*) > 3",
        "SELECT zip, count(*) FROM people GROUP BY zip ORDER BY length(zip)",
        "SELECT zip, count(*) FROM people GROUP BY zip ORDER BY age",
        "SELECT zip, count(*) FROM people GROUP BY zip ORDER BY zip NULLS FIRST",
        "SELECT zip, count(*) FROM people GROUP BY zip ORDER BY zip LIMIT 3",
        "SELECT count(*) FROM people WHERE zip = 'male'",
        "SELECT count(*) FROM private WHERE ill = 'male'",
        "SELECT count(*) FROM private WHERE age IN (30, 300)",
        "SELECT zip, count(*) FROM people GROUP BY ROLLUP (zip)",
        "SELECT count(*) FROM people, private",
        "SELECT count(*) FROM (SELECT * FROM people)",
        "WITH people AS (SELECT * FROM private) SELECT count(*) FROM people",
        "SELECT zip FROM people",
        "SELECT count(*) OVER () FROM people",
        "SELECT age, count(*) FROM people GROUP BY age",
        "SELECT avg(zip) FROM people",
        "SELECT count(*) FROM people WHERE age > 'old'",
        "SELECT count(*) FROM private WHERE wage = 0.5",
        "SELECT count(*) FROM private WHERE shoe = 3",
        "SELECT count(*) FROM read_csv('/etc/passwd')",
    ],
)
def test_a_question_without_intervals_is_refused(shared: Lake, sql: str) -> None:
    with pytest.raises(QueryError):
        answer_with_intervals(shared, sql)


@pytest.mark.parametrize(
    ("order", "column", "downwards"),
    [
        ("zip DESC", "zip", True),
        ("1", "zip", False),
        ("n", "n", False),
        ("count(*) DESC, zip", "n", True),
        ("avg(age)", "mean_age", False),
    ],
)
def test_an_answer_is_sorted_by_its_columns(shared: Lake, order: str, column: str, downwards: bool) -> None:
    found = rows_of(shared, f"SELECT zip, count(*) n, avg(age) FROM people GROUP BY zip ORDER BY {order}")
    values = [row[column] for row in found]
    assert values == sorted(values, reverse=downwards)


def test_the_command_prints_intervals_and_says_what_it_refuses(
    shared: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = [
        "query",
        "SELECT ill, count(*) FROM private GROUP BY ill",
        "--intervals",
        "--lake",
        shared.root,
    ]
    assert main([*requested, "--format", "json"]) == DONE
    output = json.loads(capsys.readouterr().out)
    assert output["columns"] == ["ill", "count", "count_low", "count_high"]
    assert output["sources"][0]["table"] == "private"
    assert main([*requested, "--every-release"]) == WRONG
    assert main(["query", "SELECT max(age) FROM people", "--intervals", "--lake", shared.root]) == WRONG
    assert "query without --intervals the columns as they are released" in capsys.readouterr().err


def test_a_column_of_the_source_that_is_released_as_an_interval_leads_to_intervals(shared: Lake) -> None:
    with pytest.raises(QueryError, match=r"age_from and age_to: query its mean, .* with --intervals"):
        answer(shared, "SELECT avg(age) FROM people")


def test_a_release_without_replicates_is_read_and_says_why_it_has_no_intervals(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    publish_synthetic(tmp_path, lake, name="old", parameters={"replicates": 0})
    assert proof_of(lake.table("old"), "1", "replicates.parquet") is None
    assert privacy_release.read(lake.root, "old", quiet=True).num_rows == 437
    with pytest.raises(QueryError, match="without replicates"):
        privacy_release.intervals(lake.root, "old")
    with pytest.raises(PublishError, match="no replicates"):
        privacy_release.replicates(lake.root, "old")


def test_replicates_that_were_changed_are_refused_and_go_with_a_retraction(
    shared: Lake, tmp_path: Path
) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    shutil.copytree(shared.root, lake.root)
    digest = releases(lake.table("private"))[0]["further"]["replicates.parquet"]
    file = Path(lake.root) / lake.table("private").proofs / f"{digest}.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    with pytest.raises(IntegrityError, match=r"replicates\.parquet"):
        privacy_release.intervals(lake.root, "private")
    file.write_bytes(whole)
    retract(lake.table("private"), "1", "a test")
    assert not file.exists()


def test_a_question_about_a_table_that_the_user_may_not_read_is_refused(shared: Lake) -> None:
    sql = "SELECT count(*) FROM private"
    assert answer_with_intervals(shared, sql, tables={"private"}).count == 1
    with pytest.raises(QueryError, match="private") as refused:
        answer_with_intervals(shared, sql, tables={"people"})
    assert "437" not in str(refused.value)
