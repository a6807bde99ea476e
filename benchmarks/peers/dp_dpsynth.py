"""LatentClass next to Google's dpsynth (AIM-GDP, SWIFT, MST) at an equal promise, on two untuned tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.dp_scores import Runs, tvd
from benchmarks.dp_tables import Data
from benchmarks.environments import UnavailableError
from benchmarks.intervals import Mean
from benchmarks.papers.dp_synthesis import INDEPENDENT, RESAMPLED, measured
from benchmarks.peers.dp_aim import peak
from benchmarks.peers.dp_deltas import APPROXIMATE, METHODS, PURE
from benchmarks.peers.dpsynth_budget import MECHANISMS
from benchmarks.peers.dpsynth_runs import STORE, TABLES, Run, stored
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.scale.speed import GIGABYTE
from benchmarks.tables import Table

EPSILONS = (0.2, 0.8, 1.6)
OURS = (PURE, APPROXIMATE)
OPEN = "not measured"
NOTE = """Mean total variation distance of all 3-way marginals to the four fifths of the records that were
synthesized. No setting of any method was chosen on these tables. LatentClass: means of {runs} runs with 95
% intervals, CPU seconds of a release, median, and peak memory of a separate process. The mechanisms of
[dpsynth](https://github.com/google/dpsynth) run once each, on the records of our first run, in one thread,
with the iterations that their authors set. *Did not finish* means that the process was ended after the CPU
seconds that the line gives, imports and compilation included. All methods see the same codes: numbers in 16
bins of equal width between public bounds, and of the players' dates only the years."""
PROMISE = """One replaced record is the neighbour relation in all lines. *With delta* and dpsynth are
(epsilon, 1e-9); the other line is pure epsilon. dpsynth books zCDP, rho in all, for a record *added or
removed*, so it may not book what (epsilon, 1e-9) allows. A tenth of rho goes in equal parts to the number
of records, which a replacement does not change, and to the counts of each of d attributes, which change by
sqrt(2) in L2 instead of 1 and so cost 2 times what is booked. Of the other nine tenths, a share c goes to
choices. Their scores are L1 distances between counts and a model. They change by up to 2 instead of 1, so
choices cost 4 times what is booked. The rest is noise on counts, again 2 times. In all, a replaced record
costs 2 d / (d + 1) / 10 + 9 / 10 (4 c + 2 (1 - c)) times what is booked, which for d = 17 is {costs}. c is
1/2 for MST and 1/10 for SWIFT; AIM-GDP adds to 1/10 the half round in which it first scores all tables. So
each mechanism gets the rho whose cost is that of a Gaussian mechanism of exactly (epsilon, 1e-9); the
second table of each data set shows it. MST's choices are not Gaussian, so this is more than zCDP allows:
where the derivation is in doubt, the peer gets more."""
AIM = """dpsynth's plain AIM is omitted because it spends more than it books. It selects the next table by
an exponential mechanism with `monotonic=True`, which draws by exp(e u) instead of exp(e u / 2), and books
e^2 / 8. That is right only if an added record moves all scores in the same direction. The score u, an L1
distance between counts and a model, has no such direction. Let the model expect (5, 5) for each of two
binary attributes, and let the counts be (6, 4) and (4, 6): both scores are 2. One more record with the
first value of both attributes makes the counts (7, 4) and (5, 6), and the scores 3 and 1. The odds of the
two choices change from 1 to exp(2 e), and the probability of the second falls from 1/2 to 1 / (1 + exp(2
e)). That is a factor of (1 + exp(2 e)) / 2, which is above exp(e). The log-odds range over 2 e instead of
e, so each choice costs 4 times the e^2 / 8 that is booked. Choices get a tenth of nine tenths of rho, so an
added or removed record costs 1/10 + 9/10 (9/10 + 4/10) = 1.27 times the booked rho. For a replaced record
scores change by up to 2, so each choice costs 16 times what is booked, and the whole up to 2/10 + 9/10
(18/10 + 16/10) = 3.26 times."""


@dataclass(frozen=True, kw_only=True)
class Ours:
    """LatentClass on a table.

    Attributes:
        table: Name of the table.
        runs: Label of a form of LatentClass -> epsilon -> runs.
        peaks: Label of a form of LatentClass -> most memory of a process, bytes.
        bounds: Label of a bound -> distance.
    """

    table: str
    runs: Mapping[str, Runs]
    peaks: Mapping[str, float]
    bounds: Mapping[str, float]


def run(_: Table, *, runs: int = 5, epsilons: Sequence[float] = EPSILONS, store: Path = STORE) -> Section:
    """Measure LatentClass, and show it next to the stored runs of dpsynth.

    Args:
        runs: Number of runs of LatentClass.
        epsilons: Budgets that are compared.
        store: File that `benchmarks.peers.dpsynth_runs` wrote.
    """
    found, missing = [], []
    for load in TABLES:
        try:
            found.append(ours_on(load(), epsilons, runs))
        except UnavailableError as error:
            missing.append(f"A table was not measured: {error}.")
    section = describe(found, list(stored(store).values()), runs)
    return replace(section, blocks=[*section.blocks, *missing])


def ours_on(data: Data, epsilons: Sequence[float], runs: int) -> Ours:
    """Measure LatentClass, pure and with a delta, on the splits of the first runs."""
    made, floor = measured(data, {label: METHODS[label] for label in OURS}, epsilons, runs, targets=())
    return Ours(
        table=data.name,
        runs=made,
        peaks={label: peak(label, data) for label in OURS},
        bounds={label: Mean.of(tvd(floor[label], 3)).value for label in (RESAMPLED, INDEPENDENT)},
    )


def describe(found: Sequence[Ours], theirs: Sequence[Run], runs: int) -> Section:
    """Two tables for each data set, and the judgements."""
    costs = ", ".join(f"{m.replacement_cost(17):.2f} ({name})" for name, m in MECHANISMS.items())
    blocks, judged = [NOTE.format(runs=runs), PROMISE.format(costs=costs), AIM], []
    for ours in found:
        peers = [one for one in theirs if one.table == ours.table]
        blocks += [distances(ours, peers), costs_of(ours, peers)]
        judged += verdicts(ours, peers)
    blocks += ["\n".join(judged)] if judged else []
    return Section(
        title="33. Google's dpsynth at an equal promise",
        blocks=[*blocks, versions(theirs)],
        source="UCI's Bank Marketing and the players of the Lahman data base, from PRIVACY_DATA.",
    )


def distances(ours: Ours, peers: Sequence[Run]) -> str:
    """One row a method, then what bounds them."""
    epsilons = list(next(iter(ours.runs.values())))
    means = {label: [Mean.of(tvd(by[e], 3)) for e in epsilons] for label, by in ours.runs.items()}
    rows = [[label, *(mean.shown(4) for mean in by)] for label, by in means.items()]
    for mechanism in MECHANISMS:
        known = {one.epsilon: one for one in peers if one.mechanism == mechanism}
        rows.append([mechanism, *(_distance(known.get(e)) for e in epsilons)])
    rows += [[label, *[f"{value:.4f}"] * len(epsilons)] for label, value in ours.bounds.items()]
    return markdown_table([f"{ours.table}: TVD, 3-way", *(f"{e:g}" for e in epsilons)], rows)


def costs_of(ours: Ours, peers: Sequence[Run]) -> str:
    """One row a method and epsilon: what dpsynth may book, its iterations, CPU seconds, memory."""
    rows = []
    for label, by in ours.runs.items():
        memory = f"{ours.peaks[label] / GIGABYTE:.2f}"
        for epsilon, scored in by.items():
            seconds = median(score.cpu for score in scored)
            rows.append([label, f"{epsilon:g}", "", "", f"{seconds:.1f}", memory])
    for one in sorted(peers, key=lambda run: (list(MECHANISMS).index(run.mechanism), run.epsilon)):
        cpu = f"more than {one.limit}" if one.cpu is None else f"{one.cpu:.1f}"
        memory = "" if one.peak is None else f"{one.peak / GIGABYTE:.2f}"
        rows.append(
            [one.mechanism, f"{one.epsilon:g}", f"{one.rho:#.3g}", f"{one.iterations:,}", cpu, memory]
        )
    heads = ["epsilon", "booked rho", "iterations", "CPU s", "peak memory, GB"]
    return markdown_table([f"{ours.table}: cost of a run", *heads], rows)


def verdicts(ours: Ours, peers: Sequence[Run]) -> list[str]:
    """LatentClass against each mechanism where that finished; one run of a peer decides nothing."""
    judged = []
    for label, by in ours.runs.items():
        means = {e: Mean.of(tvd(scored, 3)) for e, scored in by.items()}
        for mechanism in MECHANISMS:
            known = {
                one.epsilon: one.distance
                for one in peers
                if one.mechanism == mechanism and one.distance is not None and one.epsilon in means
            }
            if known:
                nearer = all(means[e].value < distance for e, distance in known.items())
                figures = ", ".join(f"{means[e].shown(4)} / {known[e]:.4f} at {e:g}" for e in sorted(known))
                claim = f"{ours.table}: {label}, is nearer than {mechanism}"
                judged.append(verdict(claim, nearer, figures, runs=1))
    return judged


def versions(peers: Sequence[Run]) -> str:
    """What the stored runs of dpsynth ran on."""
    found = {
        f"commit {one.commit} ({', '.join(f'{name} {of}' for name, of in one.versions.items())})"
        for one in peers
    }
    if not found:
        return "No run of dpsynth is stored: `python -m benchmarks.peers.dpsynth_runs` makes them."
    return (
        f"dpsynth: {'; '.join(sorted(found))}. `python -m benchmarks.peers.dpsynth_runs` makes the runs that "
        "`benchmarks/peers/dpsynth_runs.json` does not have; `PRIVACY_DPSYNTH` may name a clone of its "
        "repository, and `PRIVACY_DPSYNTH_PYTHON` an interpreter of Python 3.12."
    )


def _distance(run: Run | None) -> str:
    if run is None:
        return OPEN
    return f"did not finish in {run.limit:,} CPU s" if run.distance is None else f"{run.distance:.4f}"
