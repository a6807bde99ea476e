"""Run Google's dpsynth once on each table and budget, and keep what was measured in a file.

``python -m benchmarks.peers.dpsynth_runs`` takes an hour or two, so the part `dp_dpsynth` of the benchmarks
reads the file and measures only LatentClass. A run that the file has is not repeated. Needs git, Python 3.12;
``PRIVACY_DPSYNTH`` may name a clone of the repository, ``PRIVACY_DPSYNTH_PYTHON`` an interpreter.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import dp_tables
from benchmarks.dp_tables import Data, split
from benchmarks.environments import OutOfTimeError, Source, answer_of, environment
from benchmarks.peers.dp_peers import SCRIPTS, peer_tables
from benchmarks.peers.dpsynth_budget import COMMIT, DELTA, MECHANISMS
from privacy_engine.measures.synthetic_utility import coded_marginal_tvd

STORE = Path(__file__).parent / "dpsynth_runs.json"
SOURCE = Source(
    name="dpsynth",
    repository="https://github.com/google/dpsynth",
    commit=COMMIT,
    variable="PRIVACY_DPSYNTH",
)
PYTHON = "3.12"
LIMIT = 600  # CPU seconds of a run
NUMBER = 0  # of the split and run: LatentClass's first has the same records
TABLES: Sequence[Callable[[], Data]] = (dp_tables.baseball_players, dp_tables.bank_marketing)
PLAN: Mapping[str, Sequence[float]] = {"AIM-GDP": (0.8, 0.2, 1.6), "MST": (0.8,), "SWIFT": (0.8, 1.6)}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a mechanism.

    Attributes:
        table: Name of the table.
        mechanism: Key of `MECHANISMS`.
        epsilon, delta: Promise for one record replaced.
        rho: zCDP that dpsynth books for a record added or removed.
        commit: Commit of dpsynth.
        versions: Package or Python -> version.
        iterations: Iterations of each fit of the graphical model, as dpsynth's authors set them.
        limit: CPU seconds after which the run is ended.
        distance: Mean total variation distance of all 3-way marginals; None if the run did not finish.
        cpu: CPU seconds of the fit and its records; None if the run did not finish.
        peak: Most memory of the process, bytes; None if the run did not finish.
    """

    table: str
    mechanism: str
    epsilon: float
    delta: float
    rho: float
    commit: str
    versions: Mapping[str, str] = field(default_factory=dict)
    iterations: int
    limit: int
    distance: float | None = None
    cpu: float | None = None
    peak: float | None = None

    @property
    def key(self) -> tuple[str, str, float]:
        """What it is a run of."""
        return self.table, self.mechanism, self.epsilon


def planned(tables: Sequence[Data]) -> Iterator[tuple[Data, str, float]]:
    """Each mechanism in turn on every table, at each of its epsilons."""
    for mechanism, epsilons in PLAN.items():
        for data in tables:
            for epsilon in epsilons:
                yield data, mechanism, epsilon


def stored(store: Path = STORE) -> dict[tuple[str, str, float], Run]:
    """The runs of a file, by what they are runs of; none if there is no file."""
    if not store.is_file():
        return {}
    runs = (Run(**run) for run in json.loads(store.read_text(encoding="utf-8")))
    return {run.key: run for run in runs}


def keep(runs: Mapping[tuple[str, str, float], Run], store: Path = STORE) -> None:
    """Write runs to a file."""
    rows = [asdict(run) for run in runs.values()]
    store.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """An interpreter that has dpsynth.

    Attributes:
        python: Path of the interpreter.
        versions: Package or Python -> version.
        iterations: Mechanism -> iterations of each fit, as dpsynth's authors set them.
    """

    python: Path
    versions: Mapping[str, str]
    iterations: Mapping[str, int]

    @classmethod
    def of(cls, python: Path) -> "Peer":
        """Read the versions and iterations of an interpreter.

        Raises:
            UnavailableError: If dpsynth cannot be imported there.
        """
        return cls(python=python, **json.loads(answer_of(python, SCRIPTS / "dpsynth_about.py")))


def measured(peer: Peer, data: Data, mechanism: str, epsilon: float, *, limit: int) -> Run:
    """One run, which ends at the limit.

    Args:
        peer: Interpreter that has dpsynth.
        data: Table of which four fifths are synthesized.
        mechanism: Key of `MECHANISMS`.
        epsilon: Promise for one record replaced, with delta 1e-9.
        limit: Most CPU seconds of the process.

    Raises:
        UnavailableError: If dpsynth fails for another reason than the limit.
    """
    known, train = MECHANISMS[mechanism], split(data, NUMBER).train
    rho = known.booked_rho(epsilon, len(train.names))
    found: dict[str, float] = {}
    try:
        made = peer_tables(peer.python, known.module, train, [rho], limit=limit)[rho]
        distance = coded_marginal_tvd(train, made.table, 3).mean
        found = {"distance": float(distance), "cpu": made.cpu, "peak": made.peak}
    except OutOfTimeError as error:
        print(f"[dpsynth] {error}", flush=True)
    return Run(
        table=data.name,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=DELTA,
        rho=rho,
        commit=COMMIT,
        versions=peer.versions,
        iterations=peer.iterations[mechanism],
        limit=limit,
        **found,
    )


def interpreter() -> Path:
    """The interpreter of a separate environment with dpsynth.

    Raises:
        UnavailableError: If it cannot be made.
    """
    wanted = os.environ.get("PRIVACY_DPSYNTH_PYTHON") or PYTHON
    return environment(SCRIPTS / "dpsynth.txt", python=wanted, source=SOURCE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, one after the other; keep each run as it ends."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.peers.dpsynth_runs", description=__doc__)
    made.add_argument("--limit", type=int, default=LIMIT, help="CPU seconds of a run (default: %(default)s)")
    made.add_argument("--only", nargs="+", choices=list(PLAN), default=list(PLAN), help="mechanisms to run")
    made.add_argument("--store", type=Path, default=STORE, help="file of the runs (default: %(default)s)")
    given = made.parse_args(arguments)
    peer, runs = Peer.of(interpreter()), stored(given.store)
    for data, mechanism, epsilon in planned([load() for load in TABLES]):
        if mechanism not in given.only or (data.name, mechanism, epsilon) in runs:
            continue
        run = measured(peer, data, mechanism, epsilon, limit=given.limit)
        runs[run.key] = run
        keep(runs, given.store)
        outcome = f"did not finish in {run.limit} CPU s" if run.distance is None else f"{run.distance:.4f}"
        print(f"[dpsynth] {mechanism} on {data.name} at {epsilon:g}: {outcome}", flush=True)


if __name__ == "__main__":
    main()
