"""Which engine works on a table: in memory as a whole, in fragments on this machine, or on Spark."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from privacy_engine.errors import SpecError
from privacy_release.work.host import answer_of
from privacy_release.work.problems import problems_of
from privacy_release.work.references import EngineRef
from privacy_release.work.settings import work_area_address

if TYPE_CHECKING:
    from pathlib import Path

    from privacy_engine.engines.engine import Engine
    from privacy_release.work.spark_session import SparkCluster

LOCAL, FRAGMENTS, SPARK = "local", "fragments", "spark"
Kind = Literal["local", "fragments", "spark"]
DEFAULT_CONNECTION = "spark_default"
DEFAULT_ROWS = 500_000  # a fragment of so many records is anonymized within about a gigabyte
DEFAULT_MEMORY = "1GB"
LEAST_ROWS = 1_000
_LEAST_MEMORY = 200_000_000
_UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def _memory(value: str | int) -> str | int:
    try:
        read_memory(value)
    except SpecError as error:
        raise ValueError(str(error).removeprefix("engine.memory ")) from None
    return value


class EngineSettings(BaseModel):
    """What works on a table, and what each engine may be told.

    Attributes:
        kind: `local`, the whole table in memory; `fragments`, DuckDB and a fragment in memory at a time; or
            `spark`.
        rows: most records of a fragment.
        memory: that an aggregation may take, such as `1GB`.
        processes: of kind `fragments`: that work on fragments at a time, where one task does them all; None:
            one for each core, as far as memory goes.
        connection: of kind `spark`: Airflow connection id of the session.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    rows: int = Field(default=DEFAULT_ROWS, ge=LEAST_ROWS)
    memory: Annotated[str | int, AfterValidator(_memory)] = DEFAULT_MEMORY
    processes: int | None = Field(default=None, ge=1)
    connection: str = Field(default=DEFAULT_CONNECTION, min_length=1)


def read_engine(given: str | Mapping[str, Any] | None) -> EngineRef:
    """An engine by its kind, or by a mapping of `kind` and its settings.

    >>> read_engine("fragments")["rows"]
    500000

    Raises:
        SpecError: naming the field and what it must be.
    """
    fields = {"kind": given} if isinstance(given, str) else dict(given or {"kind": LOCAL})
    try:
        found = EngineSettings.model_validate(fields, strict=True)
    except ValidationError as error:
        raise SpecError("; ".join(f"engine.{told}" for told in problems_of(error, EngineSettings))) from None
    return EngineRef(
        kind=found.kind,
        rows=found.rows,
        memory=read_memory(found.memory),
        processes=found.processes,
        connection=found.connection,
    )


def read_memory(given: str | int) -> int:
    """Bytes, from a number with MB, GB, MiB or GiB.

    >>> read_memory("1.5GB")
    1500000000

    Raises:
        SpecError: if it is no amount of memory, or too little to work with.
    """
    match = (
        re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?(MB|GB|MiB|GiB)", given) if isinstance(given, str) else None
    )
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
        SpecError: if the connection of Spark does not exist, pyspark or Java is not installed, or its
            executors would find no file.
    """
    ref = read_engine(LOCAL) if ref is None else ref
    require_files_within_reach(ref)
    if ref["kind"] == SPARK:
        with _cluster(ref["connection"]).session(spill, ref["memory"]) as session:
            from privacy_engine.engines.spark import SparkEngine

            yield SparkEngine(session, memory=ref["memory"])
        return
    from privacy_engine.engines.local import LocalEngine

    with LocalEngine(memory=ref["memory"], spill=spill, processes=ref["processes"]) as engine:
        yield engine


def require_files_within_reach(ref: EngineRef) -> None:
    """Refuse a cluster of Spark where the work area is an address.

    Each task decrypts to its own machine there, and the executors of a cluster run on others.

    Raises:
        SpecError: if the engine could not open the files, or its connection does not exist.
    """
    if ref["kind"] != SPARK or work_area_address() is None:
        return
    if not _cluster(ref["connection"]).master.startswith("local"):
        raise SpecError(
            "the engine spark on a cluster needs a work area that is a folder which driver and executors "
            "share, and here it is an address, from which each task decrypts to its own machine; take the "
            "engine fragments, a master such as local[4], or set work_area to a shared folder"
        )


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
