"""Which engine works on a table: in memory as a whole, in fragments on this machine, or on Spark."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from privacy_engine.errors import SpecError
from privacy_release.work.host import answer_of
from privacy_release.work.references import EngineRef

if TYPE_CHECKING:
    from pathlib import Path

    from privacy_engine.engines.engine import Engine
    from privacy_release.work.spark_session import SparkCluster

LOCAL, FRAGMENTS, SPARK = "local", "fragments", "spark"
KINDS = (LOCAL, FRAGMENTS, SPARK)
DEFAULT_CONNECTION = "spark_default"
DEFAULT_ROWS = 500_000  # a fragment of so many records is anonymized within about a gigabyte
DEFAULT_MEMORY = "1GB"
LEAST_ROWS = 1_000
_LEAST_MEMORY = 200_000_000
_UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def read_engine(given: str | Mapping[str, Any] | None) -> EngineRef:
    """An engine by its kind, or by a mapping of `kind` and its settings.

    >>> read_engine("fragments")["rows"]
    500000

    Raises:
        SpecError: naming the field, what it must be and what was given.
    """
    fields = {"kind": given} if isinstance(given, str) else dict(given or {"kind": LOCAL})
    if unknown := sorted(set(map(str, fields)) - set(EngineRef.__annotations__)):
        raise SpecError(f"engine: unknown fields {unknown}; known are {sorted(EngineRef.__annotations__)}")
    kind, rows = fields.get("kind"), fields.get("rows", DEFAULT_ROWS)
    processes, connection = fields.get("processes"), fields.get("connection", DEFAULT_CONNECTION)
    if kind not in KINDS:
        raise SpecError(f"engine.kind must be one of {list(KINDS)}, got {kind!r}")
    if not _whole(rows) or rows < LEAST_ROWS:
        raise SpecError(f"engine.rows must be a whole number >= {LEAST_ROWS}, got {rows!r}")
    if processes is not None and (not _whole(processes) or processes < 1):
        raise SpecError(f"engine.processes must be a whole number >= 1, or left out, got {processes!r}")
    if not isinstance(connection, str) or not connection:
        raise SpecError("engine.connection must be an Airflow connection id")
    memory = read_memory(fields.get("memory", DEFAULT_MEMORY))
    return EngineRef(kind=kind, rows=rows, memory=memory, processes=processes, connection=connection)


def read_memory(given: str | int) -> int:
    """Bytes, from a number with MB, GB, MiB or GiB.

    >>> read_memory("1.5GB")
    1500000000

    Raises:
        SpecError: if it is no amount of memory, or too little to work with.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(MB|GB|MiB|GiB)", given) if isinstance(given, str) else None
    amount = int(float(match[1]) * _UNITS[match[2]]) if match else given
    if not _whole(amount) or amount < _LEAST_MEMORY:
        raise SpecError(
            f"engine.memory must be an amount such as 1GB, at least {_LEAST_MEMORY // 10**6}MB, got {given!r}"
        )
    return amount


@contextmanager
def open_engine(ref: EngineRef | None, spill: "Path") -> Iterator["Engine"]:
    """The engine of a table, until the block ends.

    Args:
        ref: its kind: `spark`, or DuckDB and processes of this machine; None: the latter, with defaults.
        spill: private folder for what does not fit into memory; its new subfolder is removed at the end.

    Raises:
        SpecError: if the connection of Spark does not exist, or pyspark or Java is not installed.
    """
    ref = read_engine(LOCAL) if ref is None else ref
    if ref["kind"] == SPARK:
        with _cluster(ref["connection"]).session(spill, ref["memory"]) as session:
            from privacy_engine.engines.spark import SparkEngine

            yield SparkEngine(session, memory=ref["memory"])
        return
    from privacy_engine.engines.local import LocalEngine

    with LocalEngine(memory=ref["memory"], spill=spill, processes=ref["processes"]) as engine:
        yield engine


def _cluster(connection: str) -> "SparkCluster":
    cluster_of = answer_of("spark_cluster")
    if cluster_of is None:
        raise SpecError(
            "the engine spark takes its cluster from an Airflow connection; install "
            "airflow-privacy-release, or take the engine fragments"
        )
    cluster: SparkCluster = cluster_of(connection)
    return cluster


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
