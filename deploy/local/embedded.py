"""Settings of an Airflow inside the checkout: SQLite, local folders, nothing outside.

`make demo`, `make ui` and the tests use them. Airflow reads its settings when it is first imported, so apply
them before that, or pass them to a child process. This module does not import Airflow and changes nothing.
"""

import json
import os
import socket
from pathlib import Path

HOST = "127.0.0.1"


def checkout() -> Path:
    """Return the folder that holds `dags/` and `include/`.

    Raises:
        FileNotFoundError: If this package was installed without them, so that there is nothing to run.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "dags").is_dir():
        raise FileNotFoundError(f"{root} holds no dags folder; run this from a checkout of the project")
    return root


def free_port(preferred: int = 0) -> int:
    """Return the preferred port if it is free on the loopback interface, otherwise any free port."""
    with socket.socket() as probe:
        # As for servers, a port is free if only closed connections still wait on it (TIME_WAIT).
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, preferred))
        except OSError:
            return free_port()
        return int(probe.getsockname()[1])


def embedded_environment(root: Path, port: int | None = None) -> dict[str, str]:
    """Return the environment variables of the embedded Airflow.

    Args:
        root: Folder that holds `dags/`; the state goes to `.airflow/` and the lake to `.lake/` below it.
        port: Port of the API server, if one is started; `None` for DAG runs in this process.
    """
    home = root / ".airflow"
    settings = {
        "AIRFLOW_HOME": home,
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "fs", "extra": {"path": str(root / ".lake")}}),
        "PRIVACY_LAKE": root / ".lake",
        "PRIVACY_RELEASE_HOME": root,
        "PRIVACY_RELEASE_PROJECT": "",  # these settings give all locations
        "PRIVACY_WORK_AREA": home / "work_area",
        "AIRFLOW__CORE__DAGS_FOLDER": root / "dags",
        "AIRFLOW__CORE__PLUGINS_FOLDER": home / "plugins",
        "AIRFLOW__CORE__LOAD_EXAMPLES": False,
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # Each slot is a process of about 150 MB that waits for work.
        "AIRFLOW__CORE__PARALLELISM": 2,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": False,
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": home / "logs",
        "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": home / "logs" / "dag_processor",
        # New and edited DAG files appear in seconds; the default is five minutes.
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": 10,
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 15,
        # By default matplotlib writes to the user's configuration folder.
        "MPLCONFIGDIR": home / "matplotlib",
    }
    environment = {name: str(value) for name, value in settings.items()}
    return environment if port is None else environment | _server_settings(home, port)


def inherited_environment() -> dict[str, str]:
    """Return the environment of this process without the settings of another Airflow.

    Connections and variables (`AIRFLOW_CONN_...`, `AIRFLOW_VAR_...`) stay, because releases may need them.
    """
    # Without byte code on disk every process compiles Airflow again: an import takes 10 s instead of 1.5 s.
    unwanted = {"AIRFLOW_HOME", "AIRFLOW_CONFIG", "PYTHONDONTWRITEBYTECODE"}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in unwanted and not name.startswith("AIRFLOW__")
    }


def _server_settings(home: Path, port: int) -> dict[str, str]:
    address = f"http://{HOST}:{port}"
    return {
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": address,
        # Tasks call the server at this address; Airflow does not derive it from the port.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        # Fixed ports would clash with another Airflow on the same machine.
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(free_port()),
    }
