"""Predict the cost of a release by running its steps on growing samples of the records.

A separate process measures, so that the memory of the caller does not count. It is ended if it takes too
long.
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
from privacy_engine.registry import Family, family_of, reads_records
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_release.budget.secrets import Memory, keyed
from privacy_release.explore.cells import of_one_release
from privacy_release.explore.records import simulated_records
from privacy_release.reports.figures import loss_bound, measure
from privacy_release.spec.methods import build_method
from privacy_release.spec.outliers import build_detector
from privacy_release.workarea.engines import LOCAL
from privacy_release.workarea.references import RecordsFileRef, Table
from privacy_release.workarea.references.files import Described

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.tables.schema import DataSchema
    from privacy_release.spec.model import ReleaseSpec
    from privacy_release.workarea.area import WorkArea

SMALLEST = 500  # records of the first sample; each next one has twice as many
LONGEST = 30.0  # seconds that are spent on samples
MARGIN = 1.4  # possible error of a prediction, in addition to the difference between the laws of growth
_PATIENCE = 3  # multiple of `LONGEST` after which a sample is abandoned
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Steps(Described):
    """The steps to run.

    Attributes:
        records: File of the records that samples are drawn from.
        schema: Path of the schema.
        method: Registry key of the method, with its parameters.
        policy: Policy that is verified afterwards.
        memoised: Whether its answers depend on a secret. A random one is used here.
        detector: Detector of outliers, with its parameters. None: no search for outliers.
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
class SampleCost:
    """The cost of the steps for a sample: its records, seconds, and peak bytes of the process."""

    rows: int
    seconds: float
    memory: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost for all records on this machine, as ranges.

    Attributes:
        rows: Number of all records.
        measured: Number of records in the largest sample.
        seconds: Seconds for outlier search, method, figures and verification, in a warm process.
        memory: Peak bytes of the process.
    """

    rows: int
    measured: int
    seconds: tuple[float, float]
    memory: tuple[float, float]


def cost_of(spec: "ReleaseSpec", policy: "ReleasePolicy", table: Table, work: "WorkArea") -> Cost:
    """Return the cost of a run of a specification with all records of its source.

    A private method is run on records that are drawn from the public domains of the schema, because running
    it on people would spend privacy.

    Args:
        spec: Specification of a release of one table, on the engine `local`.
        policy: Policy combined with the floor policy.
        table: Table from `source_table`.
        work: Work area in which records are simulated.

    Raises:
        SpecError: If the release is of another form.
        PrivacyEngineError: As `measured_on_samples`.
    """
    if spec.linked or spec.tables is not None or spec.engine.kind != LOCAL:
        raise SpecError(
            "the cost of a run is only predicted for one table, with the engine local and no linked rows"
        )
    if not reads_records(spec.release.method):
        raise SpecError("a structure file reads no records, so its cost does not depend on the source")
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


def cost(points: Sequence[SampleCost], rows: int) -> Cost:
    """Predict the cost of ``rows`` records from that of samples.

    Two laws of growth are fitted: a sum of a constant, a linear and a quadratic part, none of them negative,
    and a power of the number of records. The range contains both, widened by `MARGIN` if the last sample does
    not have all records.

    Args:
        points: Measurements, ascending in their records.
        rows: Number of all records, at least that of the largest sample.
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
    """Fit by least squares of the relative errors."""
    parts = np.stack([np.ones_like(sizes), sizes / rows, (sizes / rows) ** 2], axis=1)
    weights, _ = nnls(parts / taken[:, None], np.ones_like(taken))
    return float(weights.sum())


def _power(sizes: Floats, taken: Floats, rows: int) -> float:
    """Fit through the last two points."""
    if len(sizes) < 2:
        return float(taken[-1] * rows / sizes[-1])
    grown = np.log(taken[-1] / taken[-2]) / np.log(sizes[-1] / sizes[-2])
    return float(taken[-1] * (rows / sizes[-1]) ** np.clip(grown, 0, 3))


def _range(found: Sequence[float], least: float) -> tuple[float, float]:
    return max(min(found) / MARGIN, least), max(*found, least) * MARGIN


def measured_on_samples(steps: Steps, longest: float = LONGEST) -> list[SampleCost]:
    """Run the steps on samples of the records, each twice as large as the one before, while time is left.

    Args:
        steps: Steps to run, with their records.
        longest: Seconds for all samples together. A sample that takes much longer is abandoned.

    Raises:
        PrivacyEngineError: If the steps fail for the smallest sample.
        CapacityError: If even that was not done in time, or the process was killed.
    """
    spawn = get_context("spawn")  # a fork would copy the locks of threads, and the caller's memory
    ours, its = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_work, args=(its, steps, longest), daemon=True)
    points: list[SampleCost] = []
    try:
        child.start()
        its.close()
        until = time.monotonic() + _PATIENCE * longest
        while ours.poll(max(0.0, until - time.monotonic())):
            received = ours.recv()
            if isinstance(received, PrivacyEngineError) and not points:
                raise received
            if not isinstance(received, SampleCost):
                break
            points.append(received)
    except EOFError:
        pass
    finally:
        child.kill()
        child.join()
        ours.close()
    if not points:
        raise CapacityError(
            f"{steps.method} must be done with {SMALLEST:,} records within {_PATIENCE * longest:g} s for a "
            "prediction, but it was not; use another method, or a machine with more memory"
        )
    return points


def _work(pipe: Connection, steps: Steps, longest: float) -> None:
    """Measure in a separate process: send a `SampleCost` per sample, and finally an error or None."""
    try:
        pipe.send(_send_points(pipe, steps, longest))
    except PrivacyEngineError as error:
        pipe.send(error)
    except Exception as error:  # noqa: BLE001  its message may quote records
        pipe.send(CapacityError(f"{steps.method} failed on a sample: {type(error).__name__}"))


def _send_points(pipe: Connection, steps: Steps, longest: float) -> PrivacyEngineError | None:
    frame, schema = steps.records.frame(), steps.read_schema()
    frame, policy = _shuffled(frame, schema), ReleasePolicy.from_dict(steps.policy)
    why, began, size, warm = None, time.perf_counter(), 0, False
    while size < len(frame) and time.perf_counter() - began < longest:
        size = min(max(SMALLEST, 2 * size), len(frame))
        try:
            if not warm:  # imports and compilation are needed only once
                _seconds(steps, frame.head(size), schema, policy)
                warm, began = True, time.perf_counter()
            took = _seconds(steps, frame.head(size), schema, policy)
            pipe.send(SampleCost(rows=size, seconds=took, memory=_largest()))
        except PrivacyEngineError as error:  # more records may meet what few cannot
            why = error
    return why


def _seconds(steps: Steps, frame: "pd.DataFrame", schema: "DataSchema", policy: "ReleasePolicy") -> float:
    """Return the seconds of the steps as in a run, without those of the lake and Airflow."""
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
    """Shuffle so that each prefix is a random sample; of persons, if records have persons."""
    rng = np.random.default_rng(0)
    if not schema.by:
        return frame.iloc[rng.permutation(len(frame))]
    codes = frame[schema.by].factorize()[0]
    return frame.iloc[np.argsort(rng.permutation(codes.max() + 1)[codes], kind="stable")]


def _largest() -> int:
    """Return the peak bytes of this process. `getrusage` would include those of its parent."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
