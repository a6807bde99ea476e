"""Zhang and Tang (2007), Figures 2 and 3: PPNB against p_0 beside plain naive Bayes and DTPD.

The paper shows curves and no numbers; what can be reproduced are its claims. Its real table (suspects of a
criminal investigation) is not public: Adult stands in.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.environments import UnavailableError
from benchmarks.intervals import difference
from benchmarks.papers.ppnb_tables import Data, adult, bank, binned, booleans
from benchmarks.peers.ppnb_peers import OURS, Accuracies, averaging, mean_of, ours_at, peers_at
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from benchmarks.timing import timed
from deploy.local.samples.adult import sample_table
from privacy_engine import DataSchema
from privacy_engine.learning.dtpd import DTPD, reverse_records, warner_breach
from privacy_engine.learning.ppnb import PrivateNaiveBayes
from privacy_engine.randomizers.breach import breach_coefficients
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.errph import ERRPH
from privacy_engine.randomizers.local_laplace import LocalLaplace
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.randomizers.randomness import Secret
from privacy_engine.randomizers.trr import TRR

P_0S = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.49, 0.51, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9)
QUIET, LOUD = "PPNB, A ~ N(1, 1), B ~ N(0, 1)", "PPNB, A ~ N(2, 10), B ~ N(0, 5)"
NOISE: Mapping[str, tuple[float, float, float]] = {QUIET: (1, 1, 1), LOUD: (2, 10, 5)}
NB, PPNB, TREE = "NB on the source", "PPNB", "DTPD"
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
TRAIN, TEST = 50_000, 5_000
POINTS = 0.02  # how near to plain naive Bayes PPNB must come
LARGE = 1_000_000

NOTE = """Trained on the released records and their manifest alone, tested on true records. Bank-card
customers are simulated ({train:,} and {test:,} for the test, attributes independent given the class, drawn
afresh for each of the {runs} runs that the figures are means of); an eleventh of Adult's complete records (12
attributes) is set aside. The class is released as it is. Numbers: y = a x + b, a and b drawn for each record,
second argument of N the variance. A number that was so transformed has no differential privacy.
PPNB is the paper's plain estimator (`shrinkage=False`); the default is steadier where answers are few."""
BOOLEAN_NOTE = """All attributes cut into two. PPNB: each attribute by ERRPH. DTPD: each record whole or
reversed as a whole, kept with the same probability; it has no local differential privacy at any of them."""
EQUAL_NOTE = """At an equal epsilon of a person (the class is public on both sides), numbers in eight public
bins, smoothed alike. SPL: epsilon split over all attributes, as a release of whole records must; SMP: each
person answers about one attribute with all of epsilon, which gives frequencies and no table to release. OUE
gives bit vectors and no table either."""
AVERAGING_NOTE = """The same {people:,} people released again and again, p_0 = 0.5, four values; an attacker
who can link a person's records takes the commonest answer. Share of values that are read off."""


def run(
    table: Table,
    *,
    p_0s: Sequence[float] = P_0S,
    epsilons: Sequence[float] = EPSILONS,
    runs: int = 5,
    peer_runs: int = 3,
    rows: int | None = LARGE,
) -> Section:
    """Measure and describe; ``table`` says only how many records there are at most."""
    scale = min(1.0, len(table.frame) / 30_000)
    frame = sample_table()[0]
    return measure(frame, int(TRAIN * scale), int(TEST * scale), p_0s, epsilons, runs, peer_runs, rows)


def measure(
    frame: pd.DataFrame,
    train: int,
    test: int,
    p_0s: Sequence[float],
    epsilons: Sequence[float],
    runs: int,
    peer_runs: int,
    rows: int | None,
) -> Section:
    """The section on Adult's records and on simulated ones; no peer, no large table with 0, None."""
    blocks: list[str] = [NOTE.format(train=train, test=test, runs=runs)]
    plots: dict[str, Figure] = {}
    judged: list[str] = []
    makers: dict[str, Callable[[np.random.Generator, int, int], Data]] = {
        "bank": bank,
        "adult": partial(adult, frame),
    }
    for key, make in makers.items():
        streams = [np.random.default_rng([2007, number]) for number in range(runs)]
        data = [make(rng, train, test) for rng in streams]
        numeric = mean_of([against_p_0(d, p_0s, rng) for d, rng in zip(data, streams, strict=True)])
        halves = [booleans(d) for d in data]
        boolean = mean_of([against_dtpd(d, p_0s, rng) for d, rng in zip(halves, streams, strict=True)])
        for name, found, note in (("", numeric, ""), ("_boolean", boolean, BOOLEAN_NOTE)):
            plots[f"ppnb_{key}{name}"] = accuracy_plot(found)
            heading = f"{data[0].name}{', booleans' if name else ''}"
            blocks += [note, accuracy_table(heading, found, p_0s), f"ppnb_{key}{name}"]
        judged += [*numeric_verdicts(data[0].name, numeric, runs), *boolean_verdicts(key, boolean, runs)]
        blocks += equal_epsilon(data, epsilons, peer_runs, streams)
        print(f"[ppnb] {data[0].name}", flush=True)
    blocks += [
        breach_table(p_0s),
        breach_verdict(p_0s),
        *averaging_blocks(),
        *(speed_blocks(rows) if rows else []),
        "\n".join(judged),
    ]
    return Section(
        title="11. Randomized releases: PPNB, Figures 2 and 3", blocks=[b for b in blocks if b], plots=plots
    )


def against_p_0(data: Data, p_0s: Sequence[float], rng: np.random.Generator) -> Accuracies:
    """Accuracy of PPNB with both settings of A and B, and of plain naive Bayes."""
    plain = learned(data, data.plain(), data.train)
    found: Accuracies = {NB: dict.fromkeys(p_0s, plain)}
    for name, (a, a_variance, b_variance) in NOISE.items():
        found[name] = {
            p: accuracy(data, TRR(a_mean=a, a_variance=a_variance, b_variance=b_variance, p_0=p), rng)
            for p in p_0s
        }
    return found


def against_dtpd(data: Data, p_0s: Sequence[float], rng: np.random.Generator) -> Accuracies:
    """Accuracy of PPNB and DTPD on booleans, and of plain naive Bayes."""
    found: Accuracies = {NB: dict.fromkeys(p_0s, learned(data, data.plain(), data.train)), PPNB: {}, TREE: {}}
    asked, truth = data.asked()
    records = data.train.drop(columns=data.label).to_numpy(dtype=bool)
    for p in p_0s:
        found[PPNB][p] = accuracy(data, ERRPH(p_0=p), rng)
        tree = DTPD(p).fit(reverse_records(records, p, rng), data.train[data.label])
        found[TREE][p] = float(tree.score(asked.to_numpy(dtype=bool), truth))
    return found


def accuracy(data: Data, method: Randomizer, rng: np.random.Generator) -> float:
    """Of PPNB on a release, made repeatable."""
    release = replace(method, randomness="seeded").release(data.train, data.schema, rng)
    return learned(data, release.manifest(), release.table)


def learned(data: Data, manifest: Mapping[str, object], table: pd.DataFrame) -> float:
    """Accuracy of naive Bayes on true records, learned from a table with its manifest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a variance lost in noise: it shows in the accuracy
        model = PrivateNaiveBayes(manifest, shrinkage=False).fit(
            table.drop(columns=data.label), table[data.label]
        )
        return float(model.score(*data.asked()))


def equal_epsilon(
    data: Sequence[Data], epsilons: Sequence[float], peer_runs: int, streams: Sequence[np.random.Generator]
) -> list[str]:
    """Ours and the peer's at equal epsilon; ours alone where the peer cannot be had."""
    bins = [binned(d) for d in data]
    plain = [{NB: dict.fromkeys(epsilons, learned(d, d.plain(), d.train))} for d in bins]
    ours = [ours_at(d, epsilons, rng) for d, rng in zip(bins, streams, strict=True)]
    peers: list[Accuracies] = []
    lost = ""
    if peer_runs:
        try:
            peers = [peers_at(d, epsilons, seed) for seed, d in enumerate(bins[:peer_runs])]
        except UnavailableError as error:
            lost = f"multi-freq-ldpy was not measured: {error}."
    found = mean_of(plain) | mean_of(ours) | (mean_of(peers) if peers else {})
    head = [f"accuracy, {bins[0].name}", *(f"epsilon = {e:g}" for e in epsilons)]
    rows = [[name, *(f"{line[e]:.3f}" for e in epsilons)] for name, line in found.items()]
    judged = [peer_verdict(bins[0].name, ours, peers, name) for name in found if "SPL" in name]
    return [EQUAL_NOTE, markdown_table(head, rows), "\n".join(judged), lost]


def peer_verdict(where: str, ours: Sequence[Accuracies], peers: Sequence[Accuracies], peer: str) -> str:
    """Whether ours is nowhere clearly below a peer that answers every attribute, on the runs of both."""
    pairs = list(zip(ours, peers, strict=False))
    lead = {
        e: difference([one[OURS][e] for one, _ in pairs], [other[peer][e] for _, other in pairs])
        for e in pairs[0][0][OURS]
    }
    return verdict(
        f"{where}: {OURS} is at no epsilon below {peer} by more than 2 points, beyond the 95 % interval",
        all(by.high >= -POINTS for by in lead.values()),
        f"points, {len(pairs)} runs: "
        + ", ".join(f"{100 * by.value:+.1f} at {e:g}" for e, by in lead.items()),
        runs=len(pairs),
    )


def accuracy_table(heading: str, found: Accuracies, p_0s: Sequence[float]) -> str:
    head = [f"accuracy, {heading}", *(f"{p:g}" for p in p_0s)]
    return markdown_table(head, [[name, *(f"{line[p]:.3f}" for p in p_0s)] for name, line in found.items()])


def breach_table(p_0s: Sequence[float]) -> str:
    """The paper's breach coefficient and the epsilon that it means, for two and five values, and DTPD's."""
    rows = [["breach coefficient, DTPD (two values)", *(f"{warner_breach(p):.3f}" for p in p_0s)]]
    for k in (2, 5):
        channels = [Channel.partial_hiding(tuple(map(str, range(k))), keep=p) for p in p_0s]
        rows.append(
            [f"breach coefficient, {k} values", *(f"{breach_coefficients(c).max():.3f}" for c in channels)]
        )
        rows.append([f"epsilon of an attribute, {k} values", *(f"{c.epsilon:.2f}" for c in channels)])
    return markdown_table(["p_0", *(f"{p:g}" for p in p_0s)], rows)


def breach_verdict(p_0s: Sequence[float]) -> str:
    """The paper's comparison of ERRPH and DTPD on two values: which one breaches less, and where it turns."""
    turn = sqrt(0.5)
    gaps = {p: hiding_breach(p) - warner_breach(p) for p in (*p_0s, turn)}
    return verdict(
        "two values: ERRPH breaches less than DTPD for p_0 < 1 / sqrt 2, as much there, more above",
        abs(gaps.pop(turn)) < 1e-12 and all((gap < 0) == (p < turn) for p, gap in gaps.items()),
        f"ERRPH's less DTPD's: {', '.join(f'{gap:+.3f} at {p:g}' for p, gap in gaps.items())}",
    )


def hiding_breach(p_0: float) -> float:
    """The breach coefficient of partial hiding of two values."""
    return float(breach_coefficients(Channel.partial_hiding(("no", "yes"), keep=p_0)).max())


def averaging_blocks(people: int = 2000, shown: Sequence[int] = (1, 2, 5, 10, 20, 50)) -> list[str]:
    """The averaging attack with and without memoised answers."""
    found = averaging(max(shown), people, np.random.default_rng(5))
    rows = [[name, *(f"{line[n]:.3f}" for n in shown)] for name, line in found.items()]
    fresh, kept = found["fresh answers"], found["memoised answers"]
    last = max(shown)
    return [
        AVERAGING_NOTE.format(people=people),
        markdown_table(["releases", *map(str, shown)], rows),
        verdict(
            f"{last} releases give away no more than one does if answers are memoised, nearly all if not",
            kept[last] == kept[1] and fresh[last] > 0.99,
            f"{kept[1]:.3f} to {kept[last]:.3f}, and {fresh[1]:.3f} to {fresh[last]:.3f}",
        ),
    ]


def speed_blocks(rows: int) -> list[str]:
    """Seconds of a release of ten attributes."""
    rng = np.random.default_rng(1)
    listed = {f"a{i}": [f"v{j}" for j in range(5 + i)] for i in range(7)}
    columns = {name: rng.choice(values, rows) for name, values in listed.items()}
    columns |= {f"x{i}": rng.uniform(0, 100, rows) for i in range(3)}
    fields: dict[str, dict[str, object]] = {"id": {"role": "identifier"}}
    fields |= {name: {"role": "quasi_identifier", "categories": values} for name, values in listed.items()}
    number = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]}
    schema = DataSchema.from_dict(fields | {f"x{i}": number for i in range(3)})
    frame = pd.DataFrame({"id": np.arange(rows)} | columns)
    secret = Secret(rng.bytes(32))
    calls = {
        "ERRPH": ERRPH(),
        "ERRPH, memoised": ERRPH(randomness="memoised").with_secret(secret),
        "TRR": TRR(),
        "TRR, memoised": TRR(randomness="memoised").with_secret(secret),
        "LocalLaplace (OpenDP's noise)": LocalLaplace(epsilon=10.0),
        "LocalLaplace, memoised": LocalLaplace(epsilon=10.0, randomness="memoised").with_secret(secret),
    }
    measured = []
    for name, method in calls.items():
        wall, cpu = timed(partial(method.release, frame, schema, rng))
        measured.append([name, f"{wall:.1f}", f"{cpu:.1f}"])
    return [markdown_table([f"{rows:,} records, 7 listed and 3 numbers", "wall s", "CPU s"], measured)]


def numeric_verdicts(where: str, found: Accuracies, runs: int) -> list[str]:
    """The claims of Figure 2."""
    quiet, loud, plain = found[QUIET], found[LOUD], next(iter(found[NB].values()))
    low, high = min(quiet), max(quiet)
    asked = [p for p in quiet if p >= 0.35]
    lines = [
        verdict(
            f"{where}: {QUIET} is within 2 points of plain naive Bayes for p_0 >= 0.35",
            all(quiet[p] >= plain - POINTS for p in asked),
            f"{plain:.3f}; {min(quiet[p] for p in asked):.3f} to {max(quiet[p] for p in asked):.3f}",
            runs=runs,
        ),
        verdict(
            f"{where}: the accuracy falls as the variances of A and B grow",
            np.mean(list(loud.values())) < np.mean(list(quiet.values())),
            f"mean over p_0 {np.mean(list(quiet.values())):.3f}, then {np.mean(list(loud.values())):.3f}",
            runs=runs,
        ),
    ]
    for name, line in ((QUIET, quiet), (LOUD, loud)):
        lines.append(
            verdict(
                f"{where}: the accuracy of {name} rises with p_0",
                line[high] > line[low] and np.corrcoef(list(line), list(line.values()))[0, 1] > 0,
                f"{line[low]:.3f} at {low:g}, {line[high]:.3f} at {high:g}",
                runs=runs,
            )
        )
    return lines


def boolean_verdicts(key: str, found: Accuracies, runs: int) -> list[str]:
    """The claims of Figure 3: (a) from p_0 = 0.3 on, (b) on [0.4, 0.7]."""
    ours, tree = found[PPNB], found[TREE]
    low, high, where = (0.3, 1.0, "bank-card customers") if key == "bank" else (0.4, 0.7, "Adult")
    asked = [p for p in ours if low <= p <= high]
    near = [p for p in tree if abs(p - 0.5) < 0.02] or [min(tree, key=lambda p: abs(p - 0.5))]
    return [
        verdict(
            f"{where}, booleans: DTPD collapses around 0.5, by over 5 points",
            max(tree.values()) - max(tree[p] for p in near) > 0.05,
            f"best {max(tree.values()):.3f}, {', '.join(f'{tree[p]:.3f} at {p:g}' for p in near)}",
            runs=runs,
        ),
        verdict(
            f"{where}, booleans: PPNB stays level within 2 points from 0.3 on",
            max(v for p, v in ours.items() if p >= 0.3) - min(v for p, v in ours.items() if p >= 0.3)
            < POINTS,
            f"{min(ours.values()):.3f} to {max(ours.values()):.3f}",
            runs=runs,
        ),
        verdict(
            f"{where}, booleans: PPNB is above DTPD for p_0 in [{low:g}, {high:g}]",
            all(ours[p] > tree[p] for p in asked),
            ", ".join(f"{100 * (ours[p] - tree[p]):+.1f} at {p:g}" for p in asked),
            runs=runs,
        ),
    ]


def accuracy_plot(found: Accuracies) -> Figure:
    """One line a method over p_0."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    for (name, line), marker in zip(found.items(), "osD^v", strict=False):
        axes.plot(list(line), list(line.values()), "--" if name == NB else "-", marker=marker, label=name)
    axes.set(xlabel="p_0 (DTPD: theta)", ylabel="accuracy")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    return figure
