"""AIM and MST beside LatentClass and PrivBayes, at an equal or less strict promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from statistics import median

import numpy as np

from benchmarks import dp_tables
from benchmarks.dp_deltas import APPROXIMATE, CASES, METHODS, PURE
from benchmarks.dp_peers import SCRIPTS, peer_tables
from benchmarks.dp_scores import scores, tvd
from benchmarks.dp_synthesis import INDEPENDENT, RESAMPLED, measured
from benchmarks.dp_tables import Data
from benchmarks.environments import UnavailableError, environment
from benchmarks.intervals import Mean, difference
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.speed import GIGABYTE
from benchmarks.tables import Table

EPSILONS = (0.8,)
PEERS: Mapping[str, str] = {"MST": "mst", "AIM": "aim"}
NOTE = """Means of {runs} runs, with 95 % intervals from three on: total variation distance of 3-way marginals
to the four fifths of the records that were synthesized; CPU seconds of a fit with its records, median. One
record replaced is the neighbour. *With delta* is (epsilon, 1e-9), the others are pure epsilon. MST is
smartnoise-synth's and AIM OpenDP's, both on Private-PGM, in environments of their own, with the settings that
the scripts of `benchmarks/peers_dp` tell: they protect a record that is added or removed, and get half of the
epsilon in the column and the delta 1e-9. That protects a replaced record by epsilon and a delta of
(1 + e^(epsilon / 2)) 1e-9, so a little less than LatentClass does. All see the same records, in the codes of
the same public domains. Peak memory is that of the peers' process, their libraries included; ours is in
section 10."""


@dataclass(frozen=True)
class Found:
    """Epsilon -> distances of the runs; median CPU seconds; most memory, bytes, or NaN."""

    far: Mapping[float, Sequence[float]]
    cpu: float
    peak: float = float("nan")


def run(_: Table, *, runs: int = 5, epsilons: Sequence[float] = EPSILONS, with_peers: bool = True) -> Section:
    """Measure and describe."""
    blocks, judged = [NOTE.format(runs=runs)], []
    for case in CASES[:2]:
        try:
            data = case.load()
        except UnavailableError as error:
            blocks.append(f"A table was not measured: {error}.")
            continue
        made, floor = measured(data, METHODS, epsilons, runs, targets=())
        found = {
            label: Found({e: tvd(by[e], 3) for e in epsilons}, median(s.cpu for e in epsilons for s in by[e]))
            for label, by in made.items()
        }
        for label, module in PEERS.items() if with_peers else ():
            try:
                found[label] = peer_distances(module, data, epsilons, runs)
            except UnavailableError as error:
                blocks.append(f"{label} was not measured on {data.name}: {error}.")
        rows = [_line(label, by) for label, by in found.items()]
        for label in (RESAMPLED, INDEPENDENT):
            rows.append([label, *[f"{Mean.of(tvd(floor[label], 3)).value:.4f}"] * len(epsilons), "", ""])
        heads = [f"{data.name}: TVD, 3-way", *(f"{e:g}" for e in epsilons), "CPU s", "peak memory, GB"]
        blocks.append(markdown_table(heads, rows))
        judged += verdicts(data, found)
    return Section(
        title="27. AIM and MST at an equal promise",
        blocks=(*blocks, "\n".join(judged)),
        source="NLTCS from the folder that PRIVACY_DATA names, and Adult.",
    )


def peer_distances(module: str, data: Data, epsilons: Sequence[float], runs: int) -> Found:
    """A peer on the splits of our runs, at half of each epsilon.

    Raises:
        UnavailableError: if its environment cannot be made, or it fails.
    """
    python = environment(SCRIPTS / f"{module}.txt")
    far: dict[float, list[float]] = {e: [] for e in epsilons}
    made = []
    for number in range(runs):
        part, rng = dp_tables.split(data, number), np.random.default_rng([27, number])
        for half, table in peer_tables(python, module, part.train, [e / 2 for e in epsilons]).items():
            far[2 * half].append(scores(part, table.table, (), rng).tvd[3])
            made.append(table)
        print(f"[dp_aim] {module}, {data.name}: run {number + 1} of {runs}", flush=True)
    return Found(far, median(m.cpu for m in made), max(m.peak for m in made))


def verdicts(data: Data, found: Mapping[str, Found]) -> list[str]:
    """Ours against each peer, paired by the split."""
    judged = []
    for ours in (PURE, APPROXIMATE):
        for peer in PEERS:
            if peer in found:
                leads = {e: difference(found[peer].far[e], far) for e, far in found[ours].far.items()}
                figures = ", ".join(f"by {lead.shown(4)} at {e:g}" for e, lead in leads.items())
                nearer = all(lead.low > 0 for lead in leads.values())
                judged.append(verdict(f"{data.name}: {ours}, is nearer than {peer}", nearer, figures))
    return judged


def _line(label: str, by: Found) -> list[str]:
    means = (Mean.of(far).shown(4) for far in by.far.values())
    return [label, *means, f"{by.cpu:.1f}", "" if isnan(by.peak) else f"{by.peak / GIGABYTE:.2f}"]
