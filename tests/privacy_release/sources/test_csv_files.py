"""CSV files as Parquet files: which types columns get, and what an error must not quote."""

import gzip
import stat
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import MissingSourceError, PrivacyEngineError, SchemaError, SpecError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.sources.csv_files import converted, is_csv

TEXT = "card,born,zip,share,joined,note\nL1,1980,01752,0.5,2015-01-31,a\nL2,,10117,1e3,2016-02-29,\n"


def test_a_column_has_a_type_only_if_all_its_values_are_written_so(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(TEXT + 'L3,1990,1,2,2016-03-01,"b,\nc"\n')
    target = converted(path)
    assert target == tmp_path / "people.parquet"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert pq.read_table(target).to_pydict() == {
        "card": ["L1", "L2", "L3"],
        "born": [1980, None, 1990],
        "zip": ["01752", "10117", "1"],
        "share": [0.5, 1000.0, 2.0],
        "joined": [date(2015, 1, 31), date(2016, 2, 29), date(2016, 3, 1)],
        "note": ["a", None, "b,\nc"],
    }


def test_one_value_of_another_form_far_down_makes_a_column_text(tmp_path: Path) -> None:
    rows = [f"{i},2015-01-01,{i}" for i in range(200_000)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c", *rows, "1,2015-13-01,007", ""]))
    types = pq.read_schema(converted(tmp_path / "t.csv")).types
    assert [str(kind) for kind in types] == ["int64", "string", "string"]


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_the_first_line_decides_on_the_delimiter(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "T.TSV.gz"
    path.write_bytes(gzip.compress(f"a{mark}b\n1{mark}x,y\n".encode()))
    assert is_csv(path)
    assert pq.read_table(converted(path)).to_pydict() == {"a": [1], "b": ["x,y"]}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"a,b\n1,canary\n1,2,canary\n", SchemaError),
        (b"a,b\n1,canary\xff\n", SchemaError),
        (b"a,a\n1,canary\n", SchemaError),
        (b"", SchemaError),
        (b"a,b\n", MissingSourceError),
    ],
)
def test_a_wrong_file_is_refused_without_a_value_and_leaves_nothing(
    tmp_path: Path, content: bytes, error: type[PrivacyEngineError]
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(error) as caught:
        converted(tmp_path / "t.csv")
    assert "canary" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "t.parquet").write_text("mine")
    with pytest.raises(SchemaError, match="never overwritten"):
        converted(tmp_path / "t.csv")
    assert (tmp_path / "t.parquet").read_text() == "mine"


def test_a_place_that_the_deployment_excludes_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    monkeypatch.setenv("PRIVACY_SOURCES", str(tmp_path / "allowed"))
    with pytest.raises(SpecError, match="sources"):
        converted(tmp_path / "t.csv")


def test_a_draft_of_a_csv_file_reads_the_parquet_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    (tmp_path / "people.csv").write_text(TEXT)
    assert main(["schema", "infer", str(tmp_path / "people.csv")]) == DONE
    said = capsys.readouterr()
    assert f"uri: {tmp_path / 'people.parquet'}" in said.out
    assert "people.parquet" in said.err
    assert main(["schema", "infer", str(tmp_path / "people.csv")]) == WRONG
