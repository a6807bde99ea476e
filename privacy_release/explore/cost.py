"""What a release will cost: its steps run on growing samples of the records, and what they say of all.

One process measures, so that what the caller holds does not count, and is ended where it takes too long.
"""

import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from privacy_engine.errors import CapacityError, PrivacyEngineError, SpecError
from privacy_engine.randomizers.randomness import Secret
from privacy_engine.registry import Family, family_of
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_release.budget.secrets import Memory, keyed
from privacy_release.explore.cells import of_one_release
from privacy_release.explore.records import simulated_records
from privacy_release.reports.figures import loss_bound, measure
from privacy_release.spec.methods import build_method
from privacy_release.spec.outliers import build_detector
from privacy_release.workarea.engines import LOCAL
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.references import RecordsFileRef, Table
from privacy_release.workarea.staged import read_schema

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.tables.schema import DataSchema
    from privacy_release.spec.model import ReleaseSpec
    from privacy_release.workarea.area import WorkArea

SMALLEST = 500  # records of the first sample; each next one has twice as many
LONGEST = 30.0  # seconds that are spent on samples
MARGIN = 1.4  # that a prediction may be off, beside what the laws of growth differ by
_PATIENCE = 3  # times `LONGEST`, after which a sample is given up
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What is run.

    Attributes:
        records: that samples are drawn from.
        schema: path of the file.
        method: registry key, with its parameters.
        policy: that is measured afterwards.
        memoised: whether its answers go by a secret; another one is taken here.
        detector: of outliers, with its parameters; None: nobody looks for them.
    """

    records: RecordsFileRef
    schema: str
    method: str
    parameters: Mapping[str, Any]
    policy: Mapping[str, Any]
    memoised: bool = False
    detector: str | None = None
    detector_parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Point:
    """What the steps took for a sample: its records, seconds, and bytes of the process at its largest."""

    rows: int
    seconds: float
    memory: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What all records take on this machine, from and to.

    Attributes:
        rows: all records.
        measured: of how many records the largest sample was.
        seconds: of outlier search, method, figures and verification, in a warm process.
        memory: bytes of the process at its largest.
    """

    rows: int
    measured: int
    seconds: tuple[float, float]
    memory: tuple[float, float]


def cost_of(spec: "ReleaseSpec", policy: "ReleasePolicy", table: Table, work: "WorkArea") -> Cost:
    """What a run of a specification takes with all records of its source.

    A private method is run on records that are drawn from the public domains of the schema, for to run it on
    people is to spend.

    Args:
        spec: of a release of one table, on the engine `local`.
        policy: with the deployment's floor.
        table: what `source_table` gave.
        work: where records are simulated.

    Raises:
        SpecError: if the release is of another form.
        PrivacyEngineError: as `measured_on_samples`.
    """
    if spec.linked or spec.tables is not None or spec.engine.kind != LOCAL:
        raise SpecError(
            "what a run takes is told only of one table, with the engine local and rows that are not linked"
        )
    records, schema = RecordsFileRef(uri=table.uri, rows=table.rows, sha256=table.sha256), table.schema
    if family_of(spec.release.method) is Family.SYNTHESIZER:
        simulated = simulated_records(spec.method_schema(), policy, work, rows=table.rows)
        records, schema = simulated.made_from, simulated.schema
    points = measured_on_samples(
        Steps(
            records=records,
            schema=schema,
            method=spec.release.method,
            parameters=spec.release.parameters,
            policy=policy.to_dict(),
            memoised=spec.release.memoised,
            detector=spec.outliers.method if spec.outliers else None,
            detector_parameters=spec.outliers.parameters if spec.outliers else {},
        )
    )
    return cost(points, records.rows)


def cost(points: Sequence[Point], rows: int) -> Cost:
    """What ``rows`` records take, after what samples took.

    Two laws of growth are fitted, a sum of a constant, a linear and a quadratic part, none of them negative,
    and a power of the number of records; the range has both, widened by `MARGIN` where the last sample does
    not have all records.

    Args:
        points: ascending in their records.
        rows: all records, at least as many as the largest sample has.
    """
    last = points[-1]
    if last.rows == rows:
        return Cost(rows=rows, measured=rows, seconds=(last.seconds,) * 2, memory=(float(last.memory),) * 2)
    sizes = np.array([point.rows for point in points], dtype=float)
    seconds = np.array([point.seconds for point in points])
    memory = np.array([float(point.memory) for point in points])
    return Cost(
        rows=rows,
        measured=last.rows,
        seconds=_range([_sum(sizes, seconds, rows), _power(sizes, seconds, rows)], last.seconds),
        memory=_range([_sum(sizes, memory, rows), _power(sizes, memory, rows)], last.memory),
    )


def _sum(sizes: Floats, taken: Floats, rows: int) -> float:
    """By least squares of the relative errors."""
    parts = np.stack([np.ones_like(sizes), sizes / rows, (sizes / rows) ** 2], axis=1)
    weights, _ = nnls(parts / taken[:, None], np.ones_like(taken))
    return float(weights.sum())


def _power(sizes: Floats, taken: Floats, rows: int) -> float:
    """Through the last two points."""
    if len(sizes) < 2:
        return float(taken[-1] * rows / sizes[-1])
    grown = np.log(taken[-1] / taken[-2]) / np.log(sizes[-1] / sizes[-2])
    return float(taken[-1] * (rows / sizes[-1]) ** np.clip(grown, 0, 3))


def _range(found: Sequence[float], least: float) -> tuple[float, float]:
    return max(min(found) / MARGIN, least), max(*found, least) * MARGIN


def measured_on_samples(steps: Steps, longest: float = LONGEST) -> list[Point]:
    """Run the steps on samples of the records, each twice as large as the one before, while time is left.

    Args:
        steps: what is run, on which records.
        longest: seconds, of all samples together; a sample that takes much longer is given up.

    Raises:
        PrivacyEngineError: what the steps raise for the smallest sample.
        CapacityError: if not even that was done in time, or the process was killed.
    """
    spawn = get_context("spawn")  # a fork would copy the locks of threads, and what the caller holds
    ours, its = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_work, args=(its, steps, longest), daemon=True)
    points: list[Point] = []
    try:
        child.start()
        its.close()
        until = time.monotonic() + _PATIENCE * longest
        while ours.poll(max(0.0, until - time.monotonic())):
            told = ours.recv()
            if isinstance(told, PrivacyEngineError) and not points:
                raise told
            if not isinstance(told, Point):
                break
            points.append(told)
    except EOFError:
        pass
    finally:
        child.kill()
        child.join()
        ours.close()
    if not points:
        raise CapacityError(
            f"{steps.method} must be done with {SMALLEST:,} records within {_PATIENCE * longest:g} s before "
            "it can be told what all take, and was not; take another method, or a machine with more memory"
        )
    return points


def _work(pipe: Connection, steps: Steps, longest: float) -> None:
    """In a process of its own: sends a `Point` a sample, at last why there is no other, or None."""
    try:
        pipe.send(_tell_points(pipe, steps, longest))
    except PrivacyEngineError as error:
        pipe.send(error)
    except Exception as error:  # noqa: BLE001  its message may quote records
        pipe.send(CapacityError(f"{steps.method} broke down on a sample: {type(error).__name__}"))


def _tell_points(pipe: Connection, steps: Steps, longest: float) -> PrivacyEngineError | None:
    frame, schema = read_private(steps.records.uri, steps.records.sha256), read_schema(steps.schema)
    frame, policy = _shuffled(frame, schema), ReleasePolicy.from_dict(steps.policy)
    why, began, size, warm = None, time.perf_counter(), 0, False
    while size < len(frame) and time.perf_counter() - began < longest:
        size = min(max(SMALLEST, 2 * size), len(frame))
        try:
            if not warm:  # imports and compiled code cost once
                _seconds(steps, frame.head(size), schema, policy)
                warm, began = True, time.perf_counter()
            took = _seconds(steps, frame.head(size), schema, policy)
            pipe.send(Point(rows=size, seconds=took, memory=_largest()))
        except PrivacyEngineError as error:  # what few records cannot keep, more may
            why = error
    return why


def _seconds(steps: Steps, frame: "pd.DataFrame", schema: "DataSchema", policy: "ReleasePolicy") -> float:
    """That the steps take as a run does them, without what the lake and Airflow add."""
    memory = Memory(secret=Secret(bytes(32))) if steps.memoised else None
    method, rng = keyed(build_method(steps.method, steps.parameters), memory, None), np.random.default_rng(0)
    began = time.perf_counter()
    if steps.detector is not None:
        build_detector(steps.detector, steps.detector_parameters).detect(frame, schema)
    release = method.release(frame, schema, rng)
    loss, _ = measure(release, rng)
    loss_bound(release)
    if (own := of_one_release(policy)) is not None:
        verify(
            release.table,
            release.schema,
            own,
            loss=release.loss,
            figures=loss,
            persons=release.persons,
            year=datetime.now(UTC).year,
        )
    return time.perf_counter() - began


def _shuffled(frame: "pd.DataFrame", schema: "DataSchema") -> "pd.DataFrame":
    """In an order of which each beginning is a random sample; of persons, where records have one."""
    rng = np.random.default_rng(0)
    if not schema.by:
        return frame.iloc[rng.permutation(len(frame))]
    codes = frame[schema.by].factorize()[0]
    return frame.iloc[np.argsort(rng.permutation(codes.max() + 1)[codes], kind="stable")]


def _largest() -> int:
    """Bytes that this process ever held at once; `getrusage` would count those of its parent."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
