"""Reading a release: the helper, and each snippet of the page on reading as it is printed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from deltalake import DeltaTable

import privacy_release
from privacy_engine.errors import IntegrityError, PublishError
from privacy_release.lake.layout import TableRules
from privacy_release.lake.publish import publish
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file
from tests.reading import people, publish_people, publish_synthetic, queries, snippets


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with one release, which no test changes."""
    folder = tmp_path_factory.mktemp("reading")
    lake = Lake(root=str(folder / "lake"))
    publish_people(folder, lake)
    publish_synthetic(folder / "private", lake, name="private")
    return lake


def run(lake: Lake) -> dict[str, Any]:
    """What the snippets of the page have made, but those of Spark and, where it is not installed, Polars."""
    names: dict[str, Any] = {}
    for snippet in snippets()[1:]:
        if "spark" in snippet or "import polars" in snippet:
            continue
        names |= {"lake": lake.root, "options": lake.options}
        exec(compile(snippet, "docs/reading.md", "exec"), names)
    return names


def require_right(names: dict[str, Any], lake: Lake) -> None:
    """The snippets' answers, counted again on the release and on the source."""
    rows = privacy_release.read(lake.root, "people", storage_options=lake.options, quiet=True).to_pandas()
    assert len(names["frame"]) == 200
    assert dict(names["counts"].itertuples(index=False)) == rows["illness"].value_counts().to_dict()
    source = people()
    require_bounds(names["people"], rows, source)
    assert names["newest"]["n"].tolist() == [200]
    bounds = {row["illness"]: row for row in names["bounds"].to_pylist()}
    those = source[source["age"].between(30, 49) & (source["zip"] == "N1")]
    for illness, count in those["illness"].value_counts().items():
        assert bounds[illness]["count_low"] <= count <= bounds[illness]["count_high"]
    given = privacy_release.intervals(
        lake.root, "private", ask="share", by=["job", "ill"], storage_options=lake.options
    )
    for row in given.to_pylist():
        if row["job"] is not None and row["ill"] is not None:
            place = (row["job"], row["ill"])
            assert names["ours"][place] == pytest.approx(row["share"])
            # The noise alone: what the misfit adds makes the interval wider.
            assert 2.08 * names["variance"][place] ** 0.5 <= row["share_high"] - row["share"] + 1e-9


def require_bounds(released: Any, rows: pd.DataFrame, source: pd.DataFrame) -> None:
    """The answers of the page's SQL are bounds of the answers on the source, and not trivial."""
    connection = duckdb.connect().register("people", released)
    between, mean, label = (connection.sql(query).df() for query in queries())
    assert between.at_least[0] == ((rows["age_from"] >= 30) & (rows["age_to"] <= 49)).sum()
    assert between.at_most[0] == ((rows["age_to"] >= 30) & (rows["age_from"] <= 49)).sum()
    assert 0 < between.at_least[0] <= source["age"].between(30, 49).sum() <= between.at_most[0] < len(source)
    for illness, least, most in mean.itertuples(index=False):
        assert least < source["age"][source["illness"] == illness].mean() < most
    assert len(mean) == source["illness"].nunique()
    assert 0 < label.at_least[0] <= source["zip"].isin(["N1", "N2"]).sum() <= label.at_most[0]


def test_the_snippets_of_the_page_read_a_folder(shared: Lake) -> None:
    require_right(run(shared), shared)


def test_polars_reads_a_folder(shared: Lake) -> None:
    pytest.importorskip("polars")
    (snippet,) = (text for text in snippets() if "import polars" in text)
    names: dict[str, Any] = {"lake": shared.root, "options": {}}
    exec(compile(snippet, "docs/reading.md", "exec"), names)
    assert names["frame"].height == 200


def test_reading_says_which_release_and_which_guarantee(
    shared: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = privacy_release.read(shared.root, "people")
    output = capsys.readouterr()
    assert output.out == ""
    first, second = output.err.splitlines()
    assert first.startswith("people, release 1 of 20")
    assert first.endswith(": 200 records")
    assert second == "guarantee: k-anonymity (k=5)"
    assert rows.equals(privacy_release.read(Path(shared.root), "people", release="1", quiet=True))
    assert capsys.readouterr().err == ""


def test_the_newest_release_that_stands_is_read(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    by_partition = TableRules()
    publish_people(tmp_path, lake, "1", k=5, rules=by_partition)
    publish_people(tmp_path, lake, "2", k=20, rules=by_partition)
    assert privacy_release.dictionary(lake.root, "people")["release"] == "2"
    retract(lake.table("people"), "2", "wrong source")
    assert privacy_release.dictionary(lake.root, "people")["release"] == "1"
    assert len(privacy_release.read(lake.root, "people", quiet=True)) == 200
    with pytest.raises(PublishError, match="retracted"):
        privacy_release.read(lake.root, "people", release="2")


@pytest.mark.parametrize("release", [None, "other"])
def test_what_is_not_there_is_an_error_that_says_what_to_check(tmp_path: Path, release: str | None) -> None:
    with pytest.raises(PublishError, match="check the address"):
        privacy_release.read(tmp_path, "people", release=release)


def test_a_release_without_a_dictionary_is_read_and_says_what_its_commit_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people().to_parquet(tmp_path / "t.parquet", index=False)
    (tmp_path / "r.html").write_text("<p>")
    fields = {"measured": [{"rule": "k_anonymity(k=2)", "measured": 3.0, "passed": True}], "loss": None}
    lake = Lake(root=str(tmp_path / "lake"))
    digest = sha256_file(tmp_path / "t.parquet")
    publish(
        lake.table("old"), "1", tmp_path / "t.parquet", fields, tmp_path / "r.html", expected_sha256=digest
    )
    assert len(privacy_release.read(lake.root, "old")) == 200
    assert "guarantee: k_anonymity(k=2)" in capsys.readouterr().err
    with pytest.raises(PublishError, match="no data dictionary"):
        privacy_release.dictionary(lake.root, "old")


def test_a_table_that_another_tool_changed_is_refused(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    publish_people(tmp_path, lake)
    DeltaTable(lake.table("people").address).delete("illness = 'flu'")
    with pytest.raises(IntegrityError, match="must hold 200 rows"):
        privacy_release.read(lake.root, "people")


@pytest.mark.parametrize(("zone", "reader"), [(None, 3), ("UTC", 1)])
def test_only_time_stamps_without_a_zone_need_a_new_reader(
    tmp_path: Path, zone: str | None, reader: int
) -> None:
    frame = people().assign(seen=pd.Timestamp("2026-01-01", tz=zone))
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    (tmp_path / "r.html").write_text("<p>")
    lake, digest = Lake(root=str(tmp_path / "lake")), sha256_file(tmp_path / "t.parquet")
    publish(lake.table("times"), "1", tmp_path / "t.parquet", {}, tmp_path / "r.html", expected_sha256=digest)
    needed = DeltaTable(lake.table("times").address).protocol()
    assert needed.min_reader_version == reader
    assert set(needed.reader_features or ()) <= {"timestampNtz"}


@pytest.mark.slow  # a process; `test_architecture` starts one that imports more
def test_reading_loads_neither_airflow_nor_great_expectations() -> None:
    code = (
        "import sys, privacy_release; privacy_release.read;"
        "print({'airflow', 'great_expectations'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
