"""One method's or peer's releases of a table: their losses, and their guarantees by two judges."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
import pandas as pd

from benchmarks.peers import peers
from benchmarks.tables import SENSITIVE, Table
from benchmarks.timing import timed
from privacy_engine import (
    DataSchema,
    DistinctLDiversity,
    KAnonymity,
    Recoding,
    Release,
    ReleaseMethod,
    ReleasePolicy,
    verify,
)
from privacy_engine.measures.risk import hasr
from privacy_engine.measures.utility import average_class_size, discernibility, gcp


@dataclass(frozen=True, kw_only=True)
class Result:
    """One method at one k, as the mean over seeds; models are the worst over seeds.

    Attributes:
        gcp_lca, gcp_own: mean NCP of a quasi-identifier cell; a set pays for its common ancestor, or itself.
        suppressed: share of the records.
        claimed: k, and l where the method claims it.
        verified, counted: the same measured on the release by `verify` and by pycanon.
        passed: whether `verify` passed every release.
        wall, cpu: median seconds of the whole call.
    """

    gcp_lca: float
    gcp_own: float
    discernibility: float
    class_size: float
    hasr: float
    suppressed: float
    claimed: tuple[int, ...]
    verified: tuple[int, ...]
    counted: tuple[int, ...]
    passed: bool
    wall: float
    cpu: float

    @property
    def kept(self) -> bool:
        """Whether both judges find all that was claimed, and agree."""
        return (
            self.passed
            and self.verified == self.counted
            and all(measured >= asked for measured, asked in zip(self.verified, self.claimed, strict=True))
        )


def of_method(table: Table, method: ReleaseMethod, seeds: Sequence[int]) -> Result:
    """Release with every seed; measure the releases."""
    releases: list[Release] = []

    def release(seed: int) -> None:
        releases.append(method.release(table.frame, table.schema, np.random.default_rng(seed)))

    seconds = [timed(partial(release, seed)) for seed in seeds]
    guarantees = releases[0].guarantees
    asks_l = any(isinstance(model, DistinctLDiversity) for model in guarantees)
    claimed = tuple(int(model.threshold) for model in guarantees)
    reports = [verify(r.table, r.schema, ReleasePolicy(require=guarantees)) for r in releases]
    verified = [[int(finding.measured or 0) for finding in report.findings] for report in reports]
    counted = [_counted(r.table, r.schema, asks_l=asks_l) for r in releases]
    return result(
        [r.recoding for r in releases if r.recoding],
        claimed=claimed,
        verified=tuple(map(min, zip(*verified, strict=True))),
        counted=tuple(map(min, zip(*counted, strict=True))),
        passed=all(report.passed for report in reports),
        seconds=seconds,
    )


def _counted(released: pd.DataFrame, schema: DataSchema, *, asks_l: bool) -> list[int]:
    """k, and l if asked for, by pycanon."""
    names = [a.name for a in schema.quasi_identifiers]
    return [peers.pycanon_k(released, names), *([peers.pycanon_l(released, names)] if asks_l else [])]


def of_peer(table: Table, k: int, call: peers.Peer) -> Result:
    """Let a peer cut the table once; measure its classes, and count them by pycanon on our rendering."""
    found: list[np.ndarray] = []
    seconds = [timed(lambda: found.append(call(table, k)))]
    recoding = peers.recoding_of(table, found[0])
    classes = recoding.encoded.classes_of(recoding.labels)
    smallest = int(KAnonymity(k=k).measure(classes))
    (counted,) = _counted(*recoding.render(), asks_l=False)
    return result(
        [recoding],
        claimed=(k,),
        verified=(smallest,),
        counted=(counted,),
        passed=smallest >= k,
        seconds=seconds,
    )


def result(
    recodings: Sequence[Recoding],
    *,
    claimed: tuple[int, ...],
    verified: tuple[int, ...],
    counted: tuple[int, ...],
    passed: bool,
    seconds: Sequence[tuple[float, float]],
) -> Result:
    """Put the figures together."""
    classes = [r.encoded.classes_of(r.labels) for r in recodings]
    return Result(
        gcp_lca=fmean([gcp(r, "lca") for r in recodings]),
        gcp_own=fmean([gcp(r, "own") for r in recodings]),
        discernibility=fmean([discernibility(r) for r in recodings]),
        class_size=fmean([average_class_size(r) for r in recodings]),
        hasr=fmean([hasr(c, SENSITIVE) for c in classes]),
        suppressed=fmean([r.suppressed / len(r.encoded) for r in recodings]),
        claimed=claimed,
        verified=verified,
        counted=counted,
        passed=passed,
        wall=float(np.median([wall for wall, _ in seconds])),
        cpu=float(np.median([cpu for _, cpu in seconds])),
    )
