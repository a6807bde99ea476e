"""What the README shows works when it is pasted."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privacy_release.lake.store import Lake
from tests.dags.conftest import Run

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(kind: str, beginning: str) -> str:
    """The one code block of a language that begins with this text."""
    (found,) = re.findall(rf"^```{kind}\n({re.escape(beginning)}.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def dags_folder(
    few_adults: None, airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The reader's folder of DAGs, with an include folder and the sample tables beside it."""
    shutil.copytree(airflow_home.parent / "include", tmp_path / "include")
    (tmp_path / "data").symlink_to(airflow_home.parent / "data")
    folder = tmp_path / "dags"
    folder.mkdir()
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(tmp_path))
    return folder


def test_the_dag_by_hand_publishes(dags_folder: Path, run: Callable[[str], Run], airflow_lake: Lake) -> None:
    schemas = dags_folder.parent / "include" / "schemas"
    schemas.mkdir()
    (schemas / "adult.yaml").write_text(block("yaml", "age:"))
    (dags_folder / "adult_by_hand.py").write_text(block("python", "from pathlib"))
    assert run("adult_by_hand").state == "success"
    assert Path(airflow_lake.root, "adult_by_hand", "_delta_log").is_dir()


def test_the_release_file_becomes_a_dag_by_the_two_lines(dags_folder: Path, load: Callable[..., Any]) -> None:
    releases = dags_folder.parent / "include" / "releases"
    shutil.rmtree(releases)
    releases.mkdir()
    (releases / "clinic_visits.yaml").write_text(block("yaml", "name: clinic_visits"))
    (dags_folder / "releases.py").write_text(block("python", "from airflow_privacy_release"))
    bag = load()
    assert bag.import_errors == {}
    assert set(bag.dags) == {"clinic_visits"}
