import os
import subprocess
import sys
from pathlib import Path

import pytest

from privacy_engine.errors import SecretError
from privacy_release.config.settings import VARIABLES, default_lake_root, folder_of, secret, setting


def configure(monkeypatch: pytest.MonkeyPatch, option: str, value: str) -> None:
    """As a line of airflow.cfg would."""
    monkeypatch.setenv(f"AIRFLOW__PRIVACY_RELEASE__{option.upper()}", value)


@pytest.mark.parametrize("option", VARIABLES)
def test_the_environment_goes_before_airflows_configuration(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLES[option], raising=False)
    assert setting(option) is None
    configure(monkeypatch, option, "/configured")
    assert setting(option) == "/configured"
    monkeypatch.setenv(VARIABLES[option], "/environment")
    assert setting(option) == "/environment"


def test_the_command_line_tool_does_not_load_airflow_for_a_setting() -> None:
    code = (
        "import sys, privacy_release.config.settings as s\n"
        "s.setting('lake')\n"
        "sys.exit('airflow' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRIVACY_")}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_folder_is_below_airflows_home_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv("PRIVACY_CURATOR", raising=False)
    assert folder_of("curator", "curator") == tmp_path / "curator"
    configure(monkeypatch, "curator", "/srv/curator")
    assert folder_of("curator", "curator") == Path("/srv/curator")


def test_a_relative_folder_is_refused_with_both_ways_to_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", "somewhere")
    with pytest.raises(
        ValueError, match=r"set PRIVACY_WORK_AREA, or work_area in the section \[privacy_release\]"
    ):
        folder_of("work_area", "work_area")


def test_the_lake_may_be_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVACY_LAKE", raising=False)
    configure(monkeypatch, "lake", "s3://bucket/releases")
    assert default_lake_root() == "s3://bucket/releases"


def test_a_secret_is_a_variable_or_else_the_text_of_the_file_that_one_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert secret("OURS") is None
    file = tmp_path / "secret"
    file.write_text(" in the file \n")
    monkeypatch.setenv("OURS_FILE", str(file))
    assert secret("OURS") == " in the file "
    monkeypatch.setenv("OURS", "in the environment")
    assert secret("OURS") == "in the environment"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff hidden"])
def test_a_file_that_holds_no_secret_is_refused_and_not_shown(
    content: bytes | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("OURS_FILE", str(file))
    with pytest.raises(SecretError, match=r"\$OURS_FILE must name a file") as refused:
        secret("OURS")
    assert "hidden" not in str(refused.value)
