"""Drafts of specifications from a query and from a Delta table."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import write_deltalake
from sqlalchemy import create_engine

from privacy_release.cli.main import main


def test_a_draft_can_be_made_from_a_query(
    tmp_path: Path, people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'people.db'}"
    people.to_sql("people", create_engine(url), index=False)
    ask = ["schema", "infer", "SELECT * FROM people", "--connection", "hospital"]
    assert main(ask) == 2
    assert "PRIVACY_SOURCE_HOSPITAL" in capsys.readouterr().err
    monkeypatch.setenv("PRIVACY_SOURCE_HOSPITAL", url)
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    assert main(ask) == 0
    text = capsys.readouterr().out
    draft = yaml.safe_load(text)
    assert draft["source"]["connection"] == "hospital"
    assert draft["source"]["sql"] == "SELECT * FROM people"
    assert list(draft["schema"]) == list(people.columns)
    assert "person-0" not in text
    assert not list((tmp_path / "work").rglob("*.parquet"))


def test_a_draft_can_be_made_from_a_delta_table(
    tmp_path: Path, people: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    write_deltalake(str(tmp_path / "people"), people)
    assert main(["schema", "infer", str(tmp_path / "people")]) == 2
    assert "format: delta" in capsys.readouterr().err
    assert main(["schema", "infer", str(tmp_path / "people"), "--format", "delta"]) == 0
    draft = yaml.safe_load(capsys.readouterr().out)
    assert draft["source"]["uri"] == str(tmp_path / "people")
    assert draft["source"]["format"] == "delta"
    assert draft["name"] == "people"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["E11"], ["I10", "J06"]] * 15),
        pa.array([{"code": "E11"}] * 30),
        pa.array([[("k", 1)]] * 30, pa.map_(pa.string(), pa.int64())),
    ],
    ids=["list", "struct", "map"],
)
def test_a_nested_column_is_of_no_kind_and_the_others_are_drafted(
    tmp_path: Path, column: pa.Array, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"codes": column, "age": [20, 30, 40] * 10}), tmp_path / "visits.parquet")
    assert main(["schema", "infer", str(tmp_path / "visits.parquet")]) == 0
    text = capsys.readouterr().out
    assert list(yaml.safe_load(text)["schema"]) == ["codes", "age"]
    assert "of no kind: cast it in the source, or do not read it" in text
    assert "E11" not in text
