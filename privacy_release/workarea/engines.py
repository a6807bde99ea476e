"""Settings and start of the engine of a table: in memory, in fragments on this machine, or on Spark."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from privacy_engine.errors import SpecError
from privacy_release.config.host import answer_of
from privacy_release.config.problems import problems_of
from privacy_release.config.settings import work_area_address
from privacy_release.workarea.fragment_files import FilesHere, PrivateFiles
from privacy_release.workarea.references import EngineRef
from privacy_release.workarea.remote.parts import SealedFiles, dealt_out
from privacy_release.workarea.remote.scratch import CURRENT, Scratch

if TYPE_CHECKING:
    from pathlib import Path

    from privacy_engine.engines.engine import Engine
    from privacy_engine.engines.spark_workers import Parts
    from privacy_release.workarea.spark_session import SparkCluster

LOCAL, FRAGMENTS, SPARK = "local", "fragments", "spark"
Kind = Literal["local", "fragments", "spark"]
DEFAULT_CONNECTION = "spark_default"
DEFAULT_ROWS = 500_000  # a fragment of this size is anonymized within about a gigabyte of memory
DEFAULT_MEMORY = "1GB"
LEAST_ROWS = 1_000
SMALL = 2**20  # bytes of all fragments up to which no other processes are started
_LEAST_MEMORY = 200_000_000
_UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def _memory(value: str | int) -> str | int:
    try:
        read_memory(value)
    except SpecError as error:
        raise ValueError(str(error).removeprefix("engine.memory ")) from None
    return value


class EngineSettings(BaseModel):
    """The settings of an engine.

    Attributes:
        kind: `local` holds the whole table in memory; `fragments` uses DuckDB and holds one fragment at a
            time; `spark` uses a Spark session.
        rows: Largest number of records in a fragment.
        memory: Memory that an aggregation may use, such as `1GB`.
        processes: Number of processes that work on fragments in one task, for kind `fragments`. None: one
            per core, as far as the memory allows.
        connection: Airflow connection ID of the session, for kind `spark`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    rows: int = Field(default=DEFAULT_ROWS, ge=LEAST_ROWS)
    memory: Annotated[str | int, AfterValidator(_memory)] = DEFAULT_MEMORY
    processes: int | None = Field(default=None, ge=1)
    connection: str = Field(default=DEFAULT_CONNECTION, min_length=1)


def read_engine(given: str | Mapping[str, Any] | None) -> EngineRef:
    """Return an engine given by its kind, or by a mapping of `kind` and its settings.

    >>> read_engine("fragments").rows
    500000

    Raises:
        SpecError: Naming the field and its valid values.
    """
    fields = {"kind": given} if isinstance(given, str) else dict(given or {"kind": LOCAL})
    try:
        found = EngineSettings.model_validate(fields, strict=True)
    except ValidationError as error:
        raise SpecError(
            "; ".join(f"engine.{problem}" for problem in problems_of(error, EngineSettings))
        ) from None
    return EngineRef(
        kind=found.kind,
        rows=found.rows,
        memory=read_memory(found.memory),
        processes=found.processes,
        connection=found.connection,
    )


def read_memory(given: str | int) -> int:
    """Return a number of bytes, given as a number with MB, GB, MiB or GiB.

    >>> read_memory("1.5GB")
    1500000000

    Raises:
        SpecError: If it is no amount of memory, or too small.
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


def kind_of_engine(ref: EngineRef | None) -> str:
    """Return the kind of a table's engine. A table without one is held in memory by this machine."""
    return LOCAL if ref is None else ref.kind


@contextmanager
def open_engine(ref: EngineRef | None, spill: "Path") -> Iterator["Engine"]:
    """Open the engine of a table until the block ends.

    Args:
        ref: Reference to the engine. None: DuckDB and processes of this machine, with defaults.
        spill: Private folder for data that does not fit into memory. A new subfolder is removed at the end.

    Raises:
        SpecError: If the connection of Spark does not exist, pyspark or Java is not installed, or its
            executors are not allowed to read the files.
    """
    ref = read_engine(LOCAL) if ref is None else ref
    if ref.kind == SPARK:
        scratch, cluster = _scratch_of(ref), _cluster(ref.connection)
        with cluster.session(spill, ref.memory) as session, _parts_in(scratch) as parts:
            from privacy_engine.engines.spark import SparkEngine

            yield SparkEngine(session, memory=ref.memory, parts=parts)
        return
    from privacy_engine.engines.local import LocalEngine

    with LocalEngine(memory=ref.memory, spill=spill, processes=ref.processes, here=SMALL) as engine:
        yield engine


def require_sealed(ref: EngineRef) -> bool:
    """Return whether Spark executors must read an encrypted work area, because they are on other machines.

    Raises:
        SpecError: If the executors would send or write the data unencrypted, or the connection of Spark does
            not exist.
    """
    if ref.kind != SPARK or work_area_address() is None:
        return False
    cluster = _cluster(ref.connection)
    if cluster.master.startswith("local"):
        return False
    cluster.require_encryption(f"connection {ref.connection}")
    return True


def reads_sources(ref: EngineRef, *, here: bool) -> bool:
    """Return whether the processes of an engine can copy the files of a source into the work area.

    Processes of this machine can. Executors of a cluster may not see its folders.

    Args:
        ref: Reference to the engine.
        here: Whether the source is in the file system of this machine.
    """
    if ref.kind != SPARK:
        return True
    return not here or _cluster(ref.connection).master.startswith("local")


def executors_files(ref: EngineRef, folder: str) -> SealedFiles | None:
    """Return a folder of the run's files for executors. None if they share the driver's file system."""
    scratch = _scratch_of(ref)
    return None if scratch is None else SealedFiles(run=scratch.run.lent(), folder=folder)


def engine_files(ref: EngineRef, folder: "Path") -> PrivateFiles:
    """Return a new, empty folder of the work area that all processes of an engine can reach.

    Raises:
        SpecError: As `executors_files`.
    """
    return executors_files(ref, folder.name) or FilesHere(folder)


def _scratch_of(ref: EngineRef) -> Scratch | None:
    """Return the folder of this task, if executors do not reach it."""
    if not require_sealed(ref):
        return None
    scratch = CURRENT.get()
    if scratch is None:
        raise SpecError(
            "the engine spark on a cluster needs an encrypted work area, which only exists in a task of "
            "Airflow; use the engine fragments here, or a master such as local[4]"
        )
    return scratch


@contextmanager
def _parts_in(scratch: Scratch | None) -> Iterator["Parts | None"]:
    if scratch is None:
        yield None
        return
    with dealt_out(scratch.run, stored=scratch.stored) as parts:
        yield parts


def _cluster(connection: str) -> "SparkCluster":
    cluster_of = answer_of("spark_cluster")
    if cluster_of is None:
        raise SpecError(
            "the engine spark takes its cluster from an Airflow connection; install "
            "airflow-privacy-release, or use the engine fragments"
        )
    cluster: SparkCluster = cluster_of(connection)
    return cluster


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
