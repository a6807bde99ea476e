"""`privacy-release where`, and what it tells: the places that commands and tasks use, by who said so."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local.embedded import inherited_environment
from privacy_release.cli.main import main
from privacy_release.config.settings import VARIABLES, set_by, setting

Places = dict[str, dict[str, object]]
PROJECT = 'home = "."\nlake = "lake"\nledger = "postgresql://ledger:secret@db.example/privacy"\n'


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting, no Airflow, and a working directory without a project."""
    for name in (*VARIABLES.values(), "AIRFLOW_HOME", "AIRFLOW_CONFIG", "PRIVACY_RELEASE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AIRFLOW__CORE__DAGS_FOLDER", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def without_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which nothing has loaded Airflow."""
    monkeypatch.delitem(sys.modules, "airflow", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one's own."""
    folder = tmp_path / "project"
    (folder / "include" / "releases").mkdir(parents=True)
    (folder / "include" / "releases" / "visits.yaml").touch()
    (folder / "dags").mkdir()
    (folder / "privacy_release.toml").write_text(PROJECT)
    return folder


@pytest.fixture
def places(capsys: pytest.CaptureFixture[str]) -> Callable[[], Places]:
    """What the command says, by place."""

    def run() -> Places:
        main(["where", "--json"])
        return {place["name"]: place for place in json.loads(capsys.readouterr().out)}

    return run


@pytest.mark.usefixtures("without_airflow")
def test_a_project_is_found_from_a_folder_in_it(
    project: Path, places: Callable[[], Places], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "dags")
    found = places()
    file = str(project / "privacy_release.toml")
    assert found["project file"]["place"] == file
    assert (found["lake"]["place"], found["lake"]["origin"]) == (str(project / "lake"), file)
    assert found["home"]["state"] == "include/ has 1 releases, 0 policies"
    assert found["ledger"]["place"] == "postgresql://db.example/privacy"
    assert found["curator"]["origin"] == "by default"


@pytest.mark.usefixtures("without_airflow")
def test_home_is_the_folder_that_its_variable_names(
    project: Path, places: Callable[[], Places], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(project))
    home = places()["home"]
    assert (home["place"], home["origin"]) == (str(project), "$PRIVACY_RELEASE_HOME")


@pytest.mark.usefixtures("without_airflow")
def test_the_environment_goes_before_airflow_and_airflow_before_a_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(project)
    assert set_by("lake").origin == str(project / "privacy_release.toml")
    home = tmp_path / "airflow"
    home.mkdir()
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    assert setting("lake") == str(project / "lake")
    (home / "airflow.cfg").write_text("[privacy_release]\nlake = /of/the/file\n")
    assert (setting("lake"), setting("curator")) == ("/of/the/file", None)
    assert set_by("lake").origin == f"[privacy_release] lake in {home / 'airflow.cfg'}"
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__LAKE", "/of/the/variable")
    assert setting("lake") == "/of/the/variable"
    monkeypatch.setenv("PRIVACY_LAKE", "/of/the/shell")
    assert setting("lake") == "/of/the/shell"


def test_a_process_of_airflow_finds_the_project_of_its_dags_wherever_it_works(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import airflow  # noqa: F401

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "privacy_release.toml").write_text('lake = "another"\n')
    monkeypatch.chdir(elsewhere)
    assert setting("lake") is None
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(project / "dags"))
    assert setting("lake") == str(project / "lake")


@pytest.mark.usefixtures("without_airflow")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lake = ", r"readable TOML, got TOMLDecodeError \(at end of document\)"),
        ('lakes = "x"', r"lakes is no option; there are home, lake"),
        ("lake = 7", r"lake must be text, got int"),
        ('lake = ""', r"lake must be text"),
    ],
)
def test_a_wrong_project_file_stops_every_command_and_is_named(
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "privacy_release.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        setting("lake")
    assert main(["budget", "show"]) == 2
    assert str(file) in capsys.readouterr().err
    assert main(["where"]) == 2
    monkeypatch.setenv("PRIVACY_RELEASE_PROJECT", "")
    assert setting("lake") is None


@pytest.mark.usefixtures("without_airflow")
def test_a_project_that_is_named_must_be_there(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: Callable[[], Places]
) -> None:
    monkeypatch.setenv("PRIVACY_RELEASE_PROJECT", str(project))
    assert setting("lake") == str(project / "lake")
    monkeypatch.setenv("PRIVACY_RELEASE_PROJECT", str(tmp_path / "nowhere"))
    assert places()["project file"]["wrong"]


@pytest.mark.usefixtures("without_airflow")
def test_a_place_that_cannot_be_used_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(tmp_path / "nowhere.yaml"))
    assert main(["where"]) == 2


@pytest.mark.slow
def test_airflow_is_asked_for_connections_that_lead_elsewhere(project: Path, tmp_path: Path) -> None:
    lake = {"conn_type": "privacy_lake", "extra": {"path": str(tmp_path / "other")}}
    environment = inherited_environment() | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps(lake),
        "AIRFLOW_CONN_LEDGER_DEFAULT": "privacy-ledger://me:hidden@db.example/privacy",
    }
    for name in (*VARIABLES.values(), "PRIVACY_RELEASE_PROJECT"):
        environment.pop(name, None)
    command = [sys.executable, "-c", "from privacy_release.cli.main import main; raise SystemExit(main())"]
    done = subprocess.run(
        [*command, "where", "--airflow", "--json"],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr  # the lakes differ
    found = {place["name"]: place for place in json.loads(done.stdout)}
    assert found["lake_default"]["wrong"]
    assert found["lake_default"]["place"] == str(tmp_path / "other")
    assert found["ledger_default"]["state"] == "the same as the ledger above"
    assert "hidden" not in done.stdout + done.stderr
