import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.embedded import HOST, embedded_environment, free_port, inherited_environment


def test_every_folder_of_the_embedded_airflow_is_inside_the_root(tmp_path: Path) -> None:
    values = embedded_environment(tmp_path, port=8080).values()
    folders = [value for value in values if value.startswith("/")]
    assert folders
    assert all(Path(folder).is_relative_to(tmp_path) for folder in folders)


def test_the_address_that_tasks_use_follows_the_port(tmp_path: Path) -> None:
    environment = embedded_environment(tmp_path, port=12345)
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == f"http://{HOST}:12345/execution/"


def test_without_a_port_no_server_is_configured(tmp_path: Path) -> None:
    assert not [name for name in embedded_environment(tmp_path) if name.startswith("AIRFLOW__API__")]


def test_a_taken_port_is_replaced_by_a_free_one() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) not in (0, port)


def test_settings_of_another_airflow_are_not_inherited_but_connections_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", "/elsewhere")
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/elsewhere/dags")
    monkeypatch.setenv("AIRFLOW_CONN_MINE", "fs://")
    inherited = inherited_environment()
    assert "AIRFLOW_CONN_MINE" in inherited
    assert not {"AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER"} & inherited.keys()


def test_the_settings_can_be_read_before_airflow_is_imported() -> None:
    code = "import sys, deploy.local.embedded; sys.exit('airflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
