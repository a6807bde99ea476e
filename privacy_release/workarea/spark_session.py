"""A Spark session of one task: started with what a connection says, and gone without a trace at its end."""

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
_LEAST_HEAP = 1 << 30  # bytes; with less Spark starts, and then spills what it reads
# Spark's own rule for what it hides in its logs: these settings are kept off the command line too.
_HIDDEN = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
_PROTECTION = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
_SECRET = "spark.authenticate.secret"


@dataclass(frozen=True, kw_only=True)
class SparkCluster:
    """Where Spark is, and what to tell it.

    Attributes:
        master: `local[N]` (this machine), `spark://HOST:PORT` and the like, or `sc://HOST:PORT` (Connect).
        conf: Spark's settings, which go before ours.
        secret: of `spark.authenticate`, or the token of Connect; None = none.
    """

    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    secret: str | None = field(default=None, repr=False)

    @property
    def connect(self) -> bool:
        """Whether the session is a client of a Spark Connect server, and needs no Java here."""
        return self.master.startswith("sc://")

    @contextmanager
    def session(self, spill: Path, memory: int) -> Iterator["SparkSession"]:
        """A session until the block ends.

        Args:
            spill: private folder; a new subfolder holds what Spark writes on this machine, and its log.
            memory: bytes of heap of the driver, which in local mode does all the work.

        Raises:
            SpecError: if pyspark or Java is missing, nothing answers at the address, it refuses us, or a
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
            # All that we use of it is tested with pandas 3.
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
        """Ask whether somebody listens at the address, which Spark itself would do for minutes.

        Raises:
            SpecError: if nobody does, or Java is missing where it is needed.
        """
        if not self.connect and _java() is None:
            raise SpecError(
                "Spark needs Java 17 or newer on this machine, and no `java` is on PATH or in JAVA_HOME; "
                "install it (Debian: apt-get install default-jre-headless), or use a Spark Connect server, "
                "sc://HOST:PORT"
            )
        places = _places(self.master)
        if places and not any(_listens(host, port) for host, port in places):
            raise SpecError(
                f"Spark must listen at {self.master}, and nobody answers there; start it, or correct the "
                "`master` of the connection"
            )

    def require_encryption(self, place: str) -> None:
        """Refuse a cluster that carries or writes in clear text what others encrypt.

        Args:
            place: where the cluster is told of, for people.

        Raises:
            SpecError: naming what is missing.
        """
        if self.connect:
            raise SpecError(
                f"{place}: a Spark Connect server does not say whether it encrypts what its executors send "
                "and write, so it gets no record of an encrypted work area; name the cluster itself, such as "
                "spark://HOST:7077, take the engine fragments, or a shared folder as work_area"
            )
        told = self._protection() | dict(self.conf)
        off = [name for name in _PROTECTION if told.get(name, "").strip().lower() != "true"]
        if off or not told.get(_SECRET):
            raise SpecError(
                f"{place}: a cluster that reads an encrypted work area must encrypt what it sends and "
                f"writes, and {', '.join(off) or _SECRET} is not set; give the connection the secret of "
                "the cluster as its password, take the engine fragments, or a shared folder as work_area"
            )

    def _protection(self) -> dict[str, str]:
        """With a secret comes encryption: of what travels, and of what executors write to their disks."""
        return {} if self.secret is None else dict.fromkeys(_PROTECTION, "true") | {_SECRET: self.secret}

    def settings(self, folder: Path, memory: int) -> dict[str, str]:
        """All settings of a session that is started here."""
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
    except Exception as error:  # noqa: BLE001  gRPC's and Spark's own share no base
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
    """A driver in a Java of its own, whose output goes to a file: it may quote records."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise SpecError("a process can have one Spark session at a time, and there is one; close it first")
    settings = cluster.settings(folder, memory)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    gateway = problem = session = None
    log = folder / "spark.log"
    try:
        with log.open("wb") as output, _environment(settings, folder):
            try:
                gateway = _gateway(settings, output)
                session = _session(gateway, settings)
            except Exception as error:  # noqa: BLE001  py4j's and Spark's own share no base
                problem = _told(error, settings)
        if problem is not None or session is None:
            raise SpecError(
                f"Spark must start with the master {cluster.master}, got {problem}; check the address, the "
                f"secret and the settings {sorted(cluster.conf)} of the connection"
            )
        yield session
    finally:
        _end(session, gateway)


def _gateway(settings: Mapping[str, str], output: Any) -> Any:
    """A Java with Spark in it."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    shown = [(name, value) for name, value in settings.items() if not _HIDDEN.search(name)]
    conf = SparkConf(loadDefaults=False).setAll(shown)
    return launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]


def _session(gateway: Any, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # The Java knows most of it from its command line, which every user of the machine can read.
    conf = SparkConf(_jvm=gateway.jvm).setAll(list(settings.items()))
    return SparkSession(SparkContext(conf=conf, gateway=gateway))


def _told(error: Exception, settings: Mapping[str, str]) -> str:
    """What Spark says before it has read any record; the secrets of the settings struck out."""
    try:
        java = getattr(error, "java_exception", None)
        text = str(error) if java is None else str(java.toString())
    except Exception:  # noqa: BLE001  the Java that would tell has died
        text = type(error).__name__
    for name, value in settings.items():
        if value and _HIDDEN.search(name):
            text = text.replace(value, "***")
    return text.partition("\n")[0][:300]


def _end(session: "SparkSession | None", gateway: Any) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with suppress(Exception):  # the Java may have died
        if session is not None:
            session.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        gateway.proc.stdin.close()  # upon which it exits
        try:
            gateway.proc.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
    # A later session of this process must get a Java of its own, with its own memory and secret.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


@contextmanager
def _environment(settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """What Spark reads from the environment alone, for as long as it starts."""
    before = dict(os.environ)
    # Spark looks for `python3` on PATH, which has other packages than this Python.
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
    """Machines and ports of a master; none of one that is reached in other ways.

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
