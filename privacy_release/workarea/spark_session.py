"""A Spark session of one task: started with the settings of a connection, and removed without a trace."""

import logging
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 10  # seconds that a machine may take to accept a connection
_LEAST_HEAP = 1 << 30  # bytes; with less, Spark starts but spills what it reads
# Spark hides these settings in its logs. They are kept off the command line, too.
_HIDDEN = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
_PROTECTION = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
_SECRET = "spark.authenticate.secret"


@dataclass(frozen=True, kw_only=True)
class SparkCluster:
    """The address and settings of Spark.

    Attributes:
        master: `local[N]` (this machine), `spark://HOST:PORT` and the like, or `sc://HOST:PORT` (Connect).
        conf: Settings of Spark, which override ours.
        secret: Secret of `spark.authenticate`, or the token of Connect. None: no secret.
    """

    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    secret: str | None = field(default=None, repr=False)

    @property
    def connect(self) -> bool:
        """Whether the session is a client of a Spark Connect server, which needs no Java here."""
        return self.master.startswith("sc://")

    @contextmanager
    def session(self, spill: Path, memory: int) -> Iterator["SparkSession"]:
        """Open a session until the block ends.

        Args:
            spill: Private folder. A new subfolder contains the files that Spark writes here, and its log.
            memory: Bytes of the driver's heap. In local mode, the driver does all the work.

        Raises:
            SpecError: If pyspark or Java is missing, the server does not answer or refuses the session, or a
                setting is wrong.
        """
        try:
            import pyspark  # noqa: F401
        except ImportError:
            raise SpecError(
                "the engine `spark` needs pyspark; install privacy-release[spark], or "
                "choose the engine `fragments`"
            ) from None
        self.require_reachable()
        with warnings.catch_warnings():
            # All parts of it that are used here are tested with pandas 3.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            if self.connect:
                with _connected(self) as session:
                    yield session
            else:
                with (
                    tempfile.TemporaryDirectory(prefix="spark-", dir=spill) as folder,
                    _started(self, Path(folder), memory) as session,
                ):
                    yield session

    def require_reachable(self) -> None:
        """Check that a server listens at the address. Spark itself would try for minutes.

        Raises:
            SpecError: If no server listens, or Java is missing but needed.
        """
        if not self.connect and _java() is None:
            raise SpecError(
                "Spark needs Java 17 or newer on this machine, but no `java` is on PATH or in JAVA_HOME; "
                "install it (Debian: apt-get install default-jre-headless), or use a Spark Connect server, "
                "sc://HOST:PORT"
            )
        places = _places(self.master)
        if places and not any(_listens(host, port) for host, port in places):
            raise SpecError(
                f"Spark must listen at {self.master}, but no server answers there; start it, or correct the "
                "`master` of the connection"
            )

    def require_encryption(self, place: str) -> None:
        """Raise if a cluster sends or writes data unencrypted that the work area encrypts.

        Args:
            place: Name of the cluster's connection, for the error.

        Raises:
            SpecError: Naming what is missing.
        """
        if self.connect:
            raise SpecError(
                f"{place}: cannot verify that executors encrypt what they send and write, because Spark "
                "Connect does not expose the setting, so they get no record of an encrypted work area; name "
                "the cluster itself, such as spark://HOST:7077, use the engine fragments, or use a shared "
                "folder as work_area"
            )
        settings = self._protection() | dict(self.conf)
        off = [name for name in _PROTECTION if settings.get(name, "").strip().lower() != "true"]
        if off or not settings.get(_SECRET):
            raise SpecError(
                f"{place}: a cluster that reads an encrypted work area must encrypt what it sends and "
                f"writes, but {', '.join(off) or _SECRET} is not set; set the secret of the cluster as the "
                "connection's password, use the engine fragments, or use a shared folder as work_area"
            )

    def _protection(self) -> dict[str, str]:
        """Return the settings that encrypt network traffic and executors' disks, if there is a secret."""
        return {} if self.secret is None else dict.fromkeys(_PROTECTION, "true") | {_SECRET: self.secret}

    def settings(self, folder: Path, memory: int) -> dict[str, str]:
        """Return all settings of a session that is started here."""
        ours = {
            "spark.master": self.master,
            "spark.app.name": f"privacy-release-{secrets.token_hex(4)}",
            "spark.driver.memory": f"{max(memory, _LEAST_HEAP) >> 20}m",
            "spark.local.dir": str(folder),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        if self.master.startswith("local") or all(_is_loopback(host) for host, _ in _places(self.master)):
            ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return ours | self._protection() | dict(self.conf)


@contextmanager
def _connected(cluster: SparkCluster) -> Iterator["SparkSession"]:
    from pyspark.sql.connect.session import SparkSession as Connected

    address = cluster.master
    if cluster.secret is not None:
        address += f"{'' if '/;' in address else '/'};token={quote(cluster.secret, safe='')}"
    session = None
    try:
        session = Connected.builder.remote(address).create()
        for name, value in cluster.conf.items():
            session.conf.set(name, value)
        problem = None
    except Exception as error:  # noqa: BLE001  the errors of gRPC and Spark share no base
        problem = type(error).__name__
    try:
        if problem is not None:
            raise SpecError(
                f"the Spark Connect server at {cluster.master} must accept this session, got {problem}; "
                "check its version, the token, and whether all of `conf` may be set in a session"
            )
        yield session  # type: ignore[misc]  # a session of either kind has the same methods
    finally:
        if session is not None:
            with suppress(Exception):  # the server may be gone
                session.stop()


@contextmanager
def _started(cluster: SparkCluster, folder: Path, memory: int) -> Iterator["SparkSession"]:
    """Start a driver in a separate Java process. Its output goes to a file, because it may quote records."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise SpecError("a process can have only one Spark session at a time; close the open one first")
    settings = cluster.settings(folder, memory)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    gateway = problem = session = None
    log = folder / "spark.log"
    try:
        with log.open("wb") as output, _environment(settings, folder):
            try:
                gateway = _gateway(settings, output)
                session = _session(gateway, settings)
            except Exception as error:  # noqa: BLE001  the errors of py4j and Spark share no base
                problem = _reason(error, settings)
        if problem is not None or session is None:
            raise SpecError(
                f"Spark must start with the master {cluster.master}, got {problem}; check the address, the "
                f"secret and the settings {sorted(cluster.conf)} of the connection"
            )
        yield session
    finally:
        _end(session, gateway)


def _gateway(settings: Mapping[str, str], output: Any) -> Any:
    """Start a Java process with Spark."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    shown = [(name, value) for name, value in settings.items() if not _HIDDEN.search(name)]
    conf = SparkConf(loadDefaults=False).setAll(shown)
    return launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]


def _session(gateway: Any, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # Java knows most settings from its command line, which every user of the machine can read.
    conf = SparkConf(_jvm=gateway.jvm).setAll(list(settings.items()))
    return SparkSession(SparkContext(conf=conf, gateway=gateway))


def _reason(error: Exception, settings: Mapping[str, str]) -> str:
    """Return Spark's error message from before it reads any record, without the settings' secrets."""
    try:
        java = getattr(error, "java_exception", None)
        text = str(error) if java is None else str(java.toString())
    except Exception:  # noqa: BLE001  the Java process that would answer has died
        text = type(error).__name__
    for name, value in settings.items():
        if value and _HIDDEN.search(name):
            text = text.replace(value, "***")
    return text.partition("\n")[0][:300]


def _end(session: "SparkSession | None", gateway: Any) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with suppress(Exception):  # the Java process may have died
        if session is not None:
            session.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        gateway.proc.stdin.close()  # which makes it exit
        try:
            gateway.proc.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
    # A later session of this process must get a new Java process, with its own memory and secret.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


@contextmanager
def _environment(settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Set the environment variables that Spark reads only when it starts."""
    before = dict(os.environ)
    # Spark looks for `python3` on PATH, which may have other packages than this Python.
    os.environ["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python", sys.executable)
    os.environ["SPARK_LOCAL_DIRS"] = str(folder)
    if settings.get("spark.driver.host") == "127.0.0.1":
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _places(master: str) -> list[tuple[str, int]]:
    """Return machines and ports of a master. Empty for masters that are reached in other ways.

    >>> _places("spark://one:7077,two:7077"), _places("sc://[::1]/;use_ssl=true"), _places("local[2]")
    ([('one', 7077), ('two', 7077)], [('::1', 15002)], [])
    """
    scheme, _, rest = master.partition("://")
    default = {"spark": 7077, "sc": 15002}.get(scheme)
    if default is None:
        return []
    found = re.findall(r"(?:^|,)(?:\[([^\]]+)\]|([^:,/\[\]]+))(?::(\d+))?", rest.partition("/")[0])
    return [(bracketed or host, int(port or default)) for bracketed, host, port in found]


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")
