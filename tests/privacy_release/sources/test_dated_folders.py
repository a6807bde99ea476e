"""Files named by date and folders named by columns: which are read, their types, and missing ones."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import MissingSourceError, SchemaError, SkippedError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.cli.main import main
from privacy_release.lake.read import releases
from privacy_release.lake.store import Lake
from privacy_release.sources.waiting import await_source
from privacy_release.spec.model import load_spec
from privacy_release.spec.placeholders import ReleaseName, check_placeholders
from privacy_release.steps.ingest import ingest
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.clock import Clock

FIELDS = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "year": {"role": "quasi_identifier", "kind": "numeric", "bounds": [2000, 2100]},
    "month": {"role": "quasi_identifier", "kind": "categorical"},
    "day": {"role": "quasi_identifier", "kind": "date", "precision": "day"},
}


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        pd.DataFrame({"age": range(20, 40)}).to_parquet(folder / name / "part.parquet", index=False)


def test_columns_of_folders_have_the_types_of_the_schema(tmp_path: Path, work: WorkArea) -> None:
    source = tmp_path / "source"
    write(source, "year=2025/month=02/day=2025-02-03", "year=2026/month=11/day=2026-11-30")
    table = ingest(str(source), DataSchema.from_dict(FIELDS), work)
    found = pq.read_table(table.uri)
    assert str(found.schema.field("year").type) == "int64"
    assert str(found.schema.field("month").type) == "string"
    cells = {(row["year"], row["month"], str(row["day"])[:10]) for row in found.to_pylist()}
    assert cells == {(2025, "02", "2025-02-03"), (2026, "11", "2026-11-30")}


@pytest.mark.parametrize("name", ["year=bob/month=1/day=2026-01-01", "year=2026/month=1/day=bob"])
def test_a_folder_that_does_not_fit_the_schema_is_refused_without_its_name(
    tmp_path: Path, work: WorkArea, name: str
) -> None:
    source = tmp_path / "source"
    write(source, "year=2025/month=02/day=2025-02-03", name)
    with pytest.raises(SchemaError, match="folder names must have values of type") as caught:
        ingest(str(source), DataSchema.from_dict(FIELDS), work)
    assert "bob" not in str(caught.value)


def test_one_partition_can_be_read_by_the_date_of_the_release(tmp_path: Path, work: WorkArea) -> None:
    source = tmp_path / "source"
    write(source, "year=2026/month=11/day=2026-11-01", "year=2026/month=11/day=2026-11-02")
    message = f"{source}/year={{release:%Y}}/month={{release:%m}}/day={{release:%Y-%m-%d}}/*.parquet"
    columns = {name: fields for name, fields in FIELDS.items() if name == "age"}
    table = ingest(ReleaseName.of("2026-11-02").address(message), DataSchema.from_dict(columns), work)
    assert (table.rows, table.source.files) == (20, 1)


def test_a_release_without_a_date_is_reported() -> None:
    with pytest.raises(SpecError, match="--release-id 2026-11-02"):
        ReleaseName.of("manual__2026-11-02").address("/data/{release:%Y}.parquet")


@pytest.mark.parametrize("text", ["{release:Y}", "{release:%Q}", "{release:}", "{releases}", "{release!r}"])
def test_a_misspelt_placeholder_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="or a form of the release's date"):
        check_placeholders(text)


def test_late_files_are_awaited_and_the_waiting_is_reported(tmp_path: Path, clock: Clock) -> None:
    messages: list[str] = []

    def arrive(seconds: float) -> None:
        if len(messages) == 2:
            write(tmp_path, "day")

    clock.stop()
    clock.in_sleep(arrive)
    await_source(str(tmp_path / "day"), "wait", "1 hour", "1 minute", messages.append)
    assert [line.partition(", ")[2] for line in messages] == ["0:00:00 of 1:00:00", "0:01:00 of 1:00:00"]


def test_files_that_never_come_are_awaited_for_the_timeout_alone(tmp_path: Path, clock: Clock) -> None:
    clock.stop()
    messages: list[str] = []
    with pytest.raises(MissingSourceError, match="within 1 minute, but none arrived"):
        await_source(str(tmp_path / "day"), "wait", "1 minute", "1 minute", messages.append)
    assert len(messages) == 1
    with pytest.raises(SkippedError, match="this release is left out"):
        await_source(str(tmp_path / "day"), "skip", "1 minute", "1 minute", messages.append)


def test_days_on_the_command_line_one_there_one_missing_one_late(
    home: Path, people: pd.DataFrame, lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(day: str, **source: object) -> int:
        path = tables.write_release(home, source={"uri": "days/{release:%Y/%m-%d}.parquet", **source})
        return main(["run", str(path), "--lake", lake.root, "--release-id", day])

    (home / "days" / "2026").mkdir(parents=True)
    people.to_parquet(home / "days" / "2026" / "11-02.parquet")
    assert run("2026-11-02") == 0
    assert run("2026-11-03") == 2
    assert "found none" in capsys.readouterr().err
    assert run("2026-11-03", when_missing="skip") == 0
    assert "nothing was published" in capsys.readouterr().err
    assert [found["release_id"] for found in releases(lake.table("people"))] == ["2026-11-02"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"uri": "a", "sql": "SELECT 1", "connection": "c"}, "uri, or a sql"),
        ({"connection": "c"}, "uri, or a sql"),
        ({"sql": "SELECT 1"}, "connection of its database"),
        ({"sql": "DROP TABLE x", "connection": "c"}, "SELECT or WITH"),
        ({"uri": "a", "format": "delta", "when_missing": "wait"}, "is about Parquet files and queries"),
        ({"uri": "a", "wait": {"timeout": "1 day"}}, "when_missing: wait"),
        ({"uri": "a", "when_missing": "wait", "wait": {"timeout": "soon"}}, "whole number of minutes"),
        ({"uri": "a/{release:%Q}"}, "form of the release's date"),
    ],
)
def test_a_source_that_contradicts_itself_is_refused(home: Path, source: object, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load_spec(tables.write_release(home, source=source))
