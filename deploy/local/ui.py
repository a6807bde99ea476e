"""`make ui`: a whole Airflow inside the checkout, with the project's DAGs loaded, until Ctrl-C.

Not `airflow standalone`: ended by SIGTERM that leaves its scheduler, DAG processor and API server running.
"""

import argparse
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from deploy.local.embedded import HOST, checkout, embedded_environment, free_port, inherited_environment
from deploy.local.samples.files import SAMPLES, weeks_around, write_samples

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
USER = "admin"
PREFERRED_PORT = 8080
READY_SECONDS = 300.0
GRACE_SECONDS = 8.0


class ComponentError(RuntimeError):
    """A part of Airflow ended or did not come up: its log file says why."""


@dataclass(kw_only=True)
class Components:
    """The running parts of Airflow, each the leader of a session, by which all descendants can be found.

    Attributes:
        python: the interpreter whose Airflow is started.
    """

    logs: Path
    environment: Mapping[str, str]
    python: str = sys.executable
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        """Start `airflow NAME`, e.g. `celery worker`; its output goes to a file in the log folder.

        Args:
            name: the words after `airflow`.
            settings: environment variables of this component alone.
        """
        command = (self.python, "-m", "airflow", *name.split())
        self.launch(name, command, dict(self.environment) | dict(settings or {}))

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a command that is known by this name; its output goes to a file in the log folder."""
        with self.log_of(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log_of(self, name: str) -> Path:
        """The file that holds the component's output."""
        return self.logs / f"{name}.log"

    def check(self) -> None:
        """Raise `ComponentError` where a component has ended."""
        for name, process in self.running.items():
            if process.poll() is not None:
                raise ComponentError(f"{name} ended with code {process.returncode}; see {self.log_of(name)}")

    def stop(self) -> None:
        """End every process of every session: politely, then for certain.

        Task processes leave their parent's process group, and a scheduler that is told to end may wait for
        its workers for ever; the session is what they all keep.
        """
        sessions = {process.pid for process in self.running.values()}
        for process in self.running.values():
            process.terminate()
        psutil.wait_procs(_members(sessions), timeout=GRACE_SECONDS)
        for name in list(self.running):
            self.kill(name)

    def kill(self, name: str) -> None:
        """Kill every process of a component, as when its machine goes."""
        process = self.running.pop(name)
        while survivors := _members({process.pid}):
            for survivor in survivors:
                try:
                    survivor.kill()
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(survivors, timeout=1.0)
        process.wait()


def _members(sessions: set[int]) -> list[psutil.Process]:
    """The living processes of these sessions."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getsid(process.pid) in sessions and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, PermissionError):
            continue
    return found


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the embedded Airflow for this process: two schedulers on one SQLite file would fight.

    Raises:
        ComponentError: when another process holds it.
    """
    with (home / "ui.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ComponentError(f"another 'make ui' already uses {home}; stop it first") from None
        yield


def password(file: Path) -> str:
    """The login's password: made at the first start and kept in a file that only this user can read."""
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(json.dumps({USER: secrets.token_urlsafe(12)}))
    return str(json.loads(file.read_text())[USER])


def migrate(environment: Mapping[str, str], log: Path) -> None:
    """Make or update the metadata database.

    Raises:
        ComponentError: when that fails.
    """
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise ComponentError(f"the metadata database could not be made; see {log}")


def healthy(address: str) -> bool:
    """Whether the API answers and says that the scheduler and the DAG processor are at work."""
    try:
        with urllib.request.urlopen(f"{address}/api/v2/monitor/health", timeout=5) as answer:
            health = json.load(answer)
    except (urllib.error.URLError, TimeoutError, ConnectionError, json.JSONDecodeError):
        return False
    parts = ("metadatabase", "scheduler", "dag_processor")
    return all((health.get(part) or {}).get("status") == "healthy" for part in parts)


def wait_until_ready(components: Components, address: str, seconds: float = READY_SECONDS) -> None:
    """Return once Airflow can be used.

    Args:
        components: That were started.
        address: Of the API server.
        seconds: After which the wait is given up.

    Raises:
        ComponentError: when a component ended, or the time is over.
    """
    deadline = time.monotonic() + seconds
    while not healthy(address):
        components.check()
        if time.monotonic() > deadline:
            raise ComponentError(f"Airflow was not ready after {seconds:.0f} s; see {components.logs}")
        time.sleep(0.5)


def require_login(address: str, login: str) -> None:
    """Log in as a person would: a free port may have become another server's before ours could take it.

    Raises:
        ComponentError: when whoever answers there does not know the login.
    """
    body = json.dumps({"username": USER, "password": login}).encode()
    asked = urllib.request.Request(f"{address}/auth/token", body, {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(asked, timeout=30).close()
    except urllib.error.HTTPError as error:
        raise ComponentError(
            f"{address} does not know the login (status {error.code}): another server has taken the port; "
            "start again, or name a free one with --port"
        ) from None


def serve(root: Path, port: int) -> None:
    """Run Airflow until a component ends or this process is told to end."""
    home, address = root / ".airflow", f"http://{HOST}:{port}"
    logs = home / "components"
    home.mkdir(mode=0o700, exist_ok=True)
    logs.mkdir(exist_ok=True)
    with only_one(home):
        environment = inherited_environment() | embedded_environment(root, port)
        # One secret for all components and for this start alone: logins end with the server.
        environment["AIRFLOW__API_AUTH__JWT_SECRET"] = secrets.token_urlsafe(32)
        if write_samples(root / SAMPLES, weeks_around(datetime.now(UTC))):
            _say(f"Sample tables are in {root / SAMPLES}")
        _say(f"Starting Airflow; its output goes to {logs}")
        login = password(Path(environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]))
        migrate(environment, logs / "migrate.log")
        components = Components(logs=logs, environment=environment)
        try:
            for name in COMPONENTS:
                components.start(name)
            wait_until_ready(components, address)
            require_login(address, login)
            _say(f"address   {address}\nlogin     {USER} / {login}\nlake      {root / '.lake'}")
            _say("ready     (Ctrl-C stops everything)")
            while True:
                components.check()
                time.sleep(1.0)
        finally:
            # A second Ctrl-C must not leave half of the processes behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with suppress(OSError):  # whoever read this may be gone
                _say("Stopping Airflow")
            components.stop()


def _say(text: str) -> None:
    print(text, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Parse the command line, serve, and report an error in one line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.ui", description=__doc__)
    parser.add_argument(
        "--port", type=int, help=f"of the web page; {PREFERRED_PORT} or any free one by default"
    )
    parser.add_argument("--root", type=Path, help="folder that holds dags/; this checkout by default")
    arguments = parser.parse_args()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, _interrupt)
    try:
        serve(arguments.root or checkout(), arguments.port or free_port(PREFERRED_PORT))
    except KeyboardInterrupt:
        return 0
    except (ComponentError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
