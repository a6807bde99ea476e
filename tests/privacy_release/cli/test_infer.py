"""Drafts of specifications from a query and from a Delta table."""

from pathlib import Path

import pandas as pd
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
