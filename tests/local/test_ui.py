import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import psutil
import pytest

from deploy.local.embedded import HOST, free_port
from deploy.local.samples.files import ADULT, SAMPLES, write_table
from deploy.local.samples.synthetic_adult import synthetic_adult
from deploy.local.ui import ComponentError, require_login
from tests.servers.airflow_api import ask
from tests.waiting import DEADLINE, wait_for

pytestmark = pytest.mark.slow

DAG = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG("only"):
    EmptyOperator(task_id="nothing")
"""


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    write_table(tmp_path / SAMPLES / ADULT, synthetic_adult(100, rng=np.random.default_rng(1)), "generated")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "only.py").write_text(DAG)
    command = [sys.executable, "-m", "deploy.local.ui", "--port", str(free_port()), "--root", str(tmp_path)]
    # A separate session: what the test ends with must not be able to reach the test runner.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        yield process
        if process.poll() is None:
            process.terminate()


def printed_until_ready(process: subprocess.Popen[str]) -> dict[str, str]:
    """The lines of the form `key   value`."""
    assert process.stdout is not None
    facts = {}
    for line in process.stdout:
        key, _, value = line.partition(" ")
        facts[key] = value.strip()
        if key == "ready":
            return facts
    raise AssertionError(f"ended before it was ready, code {process.wait()}")


def is_alive(process: psutil.Process) -> bool:
    """Not ended, and not only waiting for init to take note of its end."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_printed_login_works_and_sigterm_leaves_no_process_behind(
    ui: subprocess.Popen[str], tmp_path: Path
) -> None:
    facts = printed_until_ready(ui)
    user, password = facts["login"].split(" / ")
    login = ask(facts["address"], "POST", "/auth/token", {"username": user, "password": password})
    assert json.loads(login)["access_token"]

    started = psutil.Process(ui.pid).children(recursive=True)
    assert len(started) >= 5  # API server, scheduler, DAG processor, triggerer, compiler
    compiler = tmp_path / ".airflow" / "components" / "warm.log"
    wait_for(lambda: "functions" in compiler.read_text(), "compiled functions", detail=compiler.read_text)
    ui.send_signal(signal.SIGTERM)
    assert ui.wait(DEADLINE) == 0
    assert not [process for process in started if is_alive(process)]

    written = {entry.name for entry in tmp_path.iterdir()}
    assert written <= {".airflow", "dags", "data"}
    assert (tmp_path / ".airflow" / "passwords.json").stat().st_mode & 0o077 == 0


def test_another_server_on_the_port_is_not_taken_for_ours() -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer((HOST, 0), Stranger) as server:
        threading.Thread(target=server.handle_request).start()
        with pytest.raises(ComponentError, match="another server has taken the port"):
            require_login(f"http://{HOST}:{server.server_port}", "secret")
