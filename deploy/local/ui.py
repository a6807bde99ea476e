"""`make ui`: runs a complete Airflow inside the checkout, with the project's DAGs, until Ctrl-C.

It does not use `airflow standalone`, which leaves its scheduler, DAG processor and API server running when
SIGTERM ends it.
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
WARM = "warm"
WARM_COMMAND = ("nice", "-n", "19", sys.executable, "-m", "privacy_release.cli.main", "warm")
USER = "admin"
PREFERRED_PORT = 8080
READY_SECONDS = 300.0
GRACE_SECONDS = 8.0


class ComponentError(RuntimeError):
    """A component of Airflow ended or did not start: its log file says why."""


@dataclass(kw_only=True)
class Components:
    """The running components of Airflow. Each leads a session, by which all its descendants can be found.

    Attributes:
        logs: Folder of the log files.
        environment: Environment variables of all components.
        python: Path of the interpreter whose Airflow is started.
        running: Process of each running component, by name.
    """

    logs: Path
    environment: Mapping[str, str]
    python: str = sys.executable
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        """Start `airflow NAME`, e.g. `celery worker`; its output goes to a file in the log folder.

        Args:
            name: Subcommand, the words after `airflow`.
            settings: Environment variables for this component only.
        """
        command = (self.python, "-m", "airflow", *name.split())
        self.launch(name, command, dict(self.environment) | dict(settings or {}))

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a command under this name; its output goes to a file in the log folder."""
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
        """Return the file with the component's output."""
        return self.logs / f"{name}.log"

    def check(self) -> None:
        """Raise `ComponentError` if a component has ended."""
        for name, process in self.running.items():
            if process.poll() is not None:
                raise ComponentError(f"{name} ended with code {process.returncode}; see {self.log_of(name)}")

    def stop(self) -> None:
        """End every process of every session, first with SIGTERM, then with SIGKILL.

        Task processes leave their parent's process group, and after SIGTERM a scheduler may wait for its
        workers forever; but all of them stay in the session.
        """
        sessions = {process.pid for process in self.running.values()}
        for process in self.running.values():
            process.terminate()
        psutil.wait_procs(_members(sessions), timeout=GRACE_SECONDS)
        for name in list(self.running):
            self.kill(name)

    def kill(self, name: str) -> None:
        """Kill every process of a component, as if its machine had failed."""
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
    """Return the living processes of these sessions."""
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
    """Lock the embedded Airflow for this process: two schedulers must not use the same SQLite file.

    Raises:
        ComponentError: If another process holds the lock.
    """
    with (home / "ui.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ComponentError(f"another 'make ui' already uses {home}; stop it first") from None
        yield


def password(file: Path) -> str:
    """Return the login's password, made at the first start and kept in a file that only this user reads."""
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(json.dumps({USER: secrets.token_urlsafe(12)}))
    return str(json.loads(file.read_text())[USER])


def migrate(environment: Mapping[str, str], log: Path) -> None:
    """Make or update the metadata database.

    Raises:
        ComponentError: If that fails.
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
    """Whether the API answers and reports that the scheduler and the DAG processor are healthy."""
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
        components: Started components.
        address: Address of the API server.
        seconds: Longest time to wait, in seconds.

    Raises:
        ComponentError: If a component ended, or Airflow was not ready in time.
    """
    deadline = time.monotonic() + seconds
    while not healthy(address):
        components.check()
        if time.monotonic() > deadline:
            raise ComponentError(f"Airflow was not ready after {seconds:.0f} s; see {components.logs}")
        time.sleep(0.5)


def require_login(address: str, login: str) -> None:
    """Log in like a user: another server may have taken the free port before ours.

    Raises:
        ComponentError: If the server at this address does not know the login.
    """
    body = json.dumps({"username": USER, "password": login}).encode()
    request = urllib.request.Request(f"{address}/auth/token", body, {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        raise ComponentError(
            f"{address} does not know the login (status {error.code}): another server has taken the port; "
            "start again, or name a free one with --port"
        ) from None


def serve(root: Path, port: int) -> None:
    """Run Airflow until a component ends or a signal ends this process."""
    home, address = root / ".airflow", f"http://{HOST}:{port}"
    logs = home / "components"
    home.mkdir(mode=0o700, exist_ok=True)
    logs.mkdir(exist_ok=True)
    with only_one(home):
        environment = inherited_environment() | embedded_environment(root, port)
        # One secret for all components, only for this start: logins end with the server.
        environment["AIRFLOW__API_AUTH__JWT_SECRET"] = secrets.token_urlsafe(32)
        if write_samples(root / SAMPLES, weeks_around(datetime.now(UTC))):
            _say(f"Sample tables are in {root / SAMPLES}")
        _say(f"Starting Airflow; its output goes to {logs}")
        login = password(Path(environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]))
        migrate(environment, logs / "migrate.log")
        components = Components(logs=logs, environment=environment)
        compiling = Components(logs=logs, environment=environment)
        try:
            for name in COMPONENTS:
                components.start(name)
            wait_until_ready(components, address)
            require_login(address, login)
            _say(f"address   {address}\nlogin     {USER} / {login}\nlake      {root / '.lake'}")
            # Otherwise the first release of each method compiles what it calls, and shows no progress.
            compiling.launch(WARM, WARM_COMMAND, environment)
            _say(f"Compiling the engine for quick releases; progress goes to {compiling.log_of(WARM)}")
            _say("ready     (Ctrl-C stops everything)")
            while True:
                components.check()
                time.sleep(1.0)
        finally:
            # A second Ctrl-C must not leave half of the processes behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with suppress(OSError):  # the reader of the output may have closed it
                _say("Stopping Airflow")
            compiling.stop()
            components.stop()


def _say(text: str) -> None:
    print(text, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Parse the command line, serve, and report an error in one line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.ui", description=__doc__)
    parser.add_argument(
        "--port", type=int, help=f"port of the web page; {PREFERRED_PORT} or any free one by default"
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
