"""DPSM-Bayes beside PrivBayes (Zhu, Xu, Ya, section 3.2) on NLTCS and ACS, with our other synthesizers."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from benchmarks import dp_tables
from benchmarks.dp_methods import DPSM_BAYES, METHODS, PRIVBAYES, Made, synthetic
from benchmarks.dp_scores import Runs, Scores, accuracies, lead, scores, tvd
from benchmarks.dp_tables import TRAIN, Data, Split, split
from benchmarks.environments import UnavailableError
from benchmarks.intervals import Mean
from benchmarks.report import Section, line_plot, markdown_table, panel_plot, verdict
from benchmarks.tables import Table
from benchmarks.verdicts import places
from privacy_engine.dp.amplification import inner_epsilon
from privacy_engine.synthesizers.bayes.dpsm_bayes import DPSMBayes, Sampling, best_sample_size
from privacy_engine.synthesizers.bayes.scores import mutual_information_sensitivity
from privacy_engine.tables.domains import CodedTable

EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
SMALL = 0.2  # "clearly at the small ones"
SVM_ROWS = 3_000
TABLES: Mapping[str, Callable[[], Data]] = {"NLTCS": dp_tables.nltcs, "ACS": dp_tables.acs}
# What the paper's two ideas bring one by one, and what other choices in them would.
SAMPLING = "DPSM-Bayes, clip: the sampling step alone"
ABLATION: Mapping[str, Made] = {
    SAMPLING: Made("dpsm_bayes", {"post_process": "clip"}),
    "DPSM-Bayes, simplex projection": Made("dpsm_bayes", {"post_process": "simplex"}),
    "DPSM-Bayes, a fresh sample for each pick": Made("dpsm_bayes", {"sampling": "fresh"}),
}
REAL, RESAMPLED, INDEPENDENT = "*real records*", "*records resampled*", "*independent columns*"

# The paper gives its algorithm the degree and does not say which; by theta DPSM-Bayes, which measures all d
# tables, often gets another one than PrivBayes. Degree -> DPSM-Bayes, PrivBayes.
EQUAL_DEGREE: Mapping[int, tuple[str, str]] = {
    k: (f"{DPSM_BAYES}, degree {k}", f"{PRIVBAYES}, degree {k}") for k in (2, 3)
}

SOURCE = "NLTCS, 21,574 records, and ACS, 47,461, from the folder that PRIVACY_DATA names."
NOTE = """Four fifths of the records are synthesized, at epsilon in all, one record replaced. TVD is the mean
total variation distance of all 1-, 2- or 3-way marginals to those records; accuracy is that of an SVM (RBF)
that learns from {svm:,} synthetic records, on the other fifth. Means of runs with splits of their own,
the same for all methods, with 95 % intervals. Each method has its defaults; PrivBayes and DPSM-Bayes choose
the degree by theta-usefulness, as PrivBayes's authors do; as the paper gives its algorithm the degree, they
are also compared with the same one. The columns of the extracts have no names: the
paper's names stand for the columns that fit by prevalence. The paper shows curves and no figures; its claim
is that DPSM-Bayes is above PrivBayes everywhere. Each interval is for itself: of the many here one in
twenty misses."""
WHY = """What the paper's two ideas bring one by one: the sampling step alone is DPSM-Bayes with clipped
tables. Its selection differs from PrivBayes's by the sample alone; and it measures all d tables, as the
paper does, where PrivBayes shares some. Beside PrivBayes it is {signs} in {runs} runs (leads {least:+.3f}
to {most:+.3f}); the threshold then adds {low:+.3f} to {high:+.3f}."""

GAIN = """What the sampling step gains on paper, by its own formula, before the sample's own error, which it
adds:"""


def run(
    table: Table,
    *,
    epsilons: Sequence[float] = EPSILONS,
    runs: int = 20,
    ablation_runs: int = 10,
    degree_runs: int = 5,
    other_runs: int = 3,
) -> Section:
    """Measure and describe; ``table`` is not used."""
    blocks = [NOTE.format(svm=SVM_ROWS)]
    plots: dict[str, Figure] = {}
    judged: list[str] = []
    for name, load in TABLES.items():
        try:
            data = load()
        except UnavailableError as error:
            blocks.append(f"{name} was not measured: {error}.")
            continue
        fewer = {m: other_runs for m in METHODS if m not in (PRIVBAYES, DPSM_BAYES)}
        fewer |= {label: degree_runs for pair in EQUAL_DEGREE.values() for label in pair}
        found, floor = measured(data, METHODS | equal_degree_methods(), epsilons, runs, fewer=fewer)
        blocks += [f"### {name}", tvd_table(found, floor, epsilons, 3), tvd_table(found, floor, epsilons, 2)]
        blocks += [tvd_table(found, floor, epsilons, 1)]
        blocks += [accuracy_table(data, t, found, floor, epsilons) for t in data.targets]
        measures = {"TVD of 3-way marginals": 3, "TVD of 2-way marginals": 2} | {
            f"accuracy, {label}": target for target, label in data.targets.items()
        }
        for label, measure in measures.items():
            judged += claims(f"{name}, {label}", lead(found[DPSM_BAYES], found[PRIVBAYES], measure))
            for k, (ours, theirs) in EQUAL_DEGREE.items():
                leads = lead(found[ours], found[theirs], measure)
                judged += claims(f"{name}, {label}, both of degree {k}", leads)
        key = f"dp_synthesis_{name.lower()}"
        plots[key] = line_plot(
            {m: {e: Mean.of(tvd(by[e], 3)).value for e in epsilons} for m, by in found.items()},
            x="epsilon",
            y=f"TVD of 3-way marginals, {name}",
            log=True,
        )
        plots[f"{key}_svm"] = accuracy_plot(data, found, floor, epsilons)
        blocks += [key, f"{key}_svm"]
        if name == "NLTCS":
            blocks += ablation(data, found, epsilons, min(ablation_runs, runs))
    blocks.append("\n".join(judged))
    return Section(title="8. DPSM-Bayes and PrivBayes", blocks=blocks, plots=plots, source=SOURCE)


def measured(
    data: Data,
    methods: Mapping[str, Made],
    epsilons: Sequence[float],
    runs: int,
    targets: Sequence[str] | None = None,
    rows: int = SVM_ROWS,
    fewer: Mapping[str, int] | None = None,
) -> tuple[dict[str, dict[float, list[Scores]]], dict[str, list[Scores]]]:
    """Scores of each method, and of what bounds them, on the same splits.

    Args:
        data: the records.
        methods: by label.
        epsilons: of each method.
        runs: each with its own split and noise.
        targets: to learn; all where None.
        rows: Most records that train an SVM.
        fewer: label -> number of runs, where less than the others'.
    """
    asked = list(data.targets) if targets is None else targets
    found: dict[str, dict[float, list[Scores]]] = {m: {e: [] for e in epsilons} for m in methods}
    floor: dict[str, list[Scores]] = {REAL: [], RESAMPLED: [], INDEPENDENT: []}
    for number in range(runs):
        rng, part = np.random.default_rng([7, number]), split(data, number)
        for label, bound in bounds(part, rng).items():
            floor[label].append(scores(part, bound, asked, rng, rows))
        for name, made in methods.items():
            for epsilon in epsilons if number < (fewer or {}).get(name, runs) else ():
                before = time.process_time()
                table = synthetic(made, epsilon, data, part, rng)
                cpu = time.process_time() - before
                found[name][epsilon].append(replace(scores(part, table, asked, rng, rows), cpu=cpu))
        print(f"[dp] {data.name}: run {number + 1} of {runs}", flush=True)
    return found, floor


def bounds(part: Split, rng: np.random.Generator) -> dict[str, CodedTable]:
    """The records themselves, a bootstrap sample of them, and their columns shuffled apart."""
    n = len(part.train)
    shuffled = np.stack([rng.permutation(column) for column in part.train.codes])
    return {
        REAL: part.train,
        RESAMPLED: part.train.take(rng.integers(n, size=n)),
        INDEPENDENT: replace(part.train, codes=np.ascontiguousarray(shuffled)),
    }


def ablation(data: Data, found: Mapping[str, Runs], epsilons: Sequence[float], runs: int) -> list[str]:
    """What each idea of the paper brings, in distance of the 3-way marginals, on the first of the runs."""
    others, _ = measured(data, ABLATION, epsilons, runs, targets=())
    known = {m: {e: found[m][e][:runs] for e in epsilons} for m in (PRIVBAYES, DPSM_BAYES)}
    sampling = lead(others[SAMPLING], known[PRIVBAYES], 3)
    threshold = lead(known[DPSM_BAYES], others[SAMPLING], 3)
    rows = [[m, *(str(Mean.of(tvd(by[e], 3))) for e in epsilons)] for m, by in (known | others).items()]
    gains = [sampling_gain(round(TRAIN * len(data.frame)), len(data.schema.names), e) for e in epsilons]
    return [
        WHY.format(
            runs=runs,
            signs=places(sampling),
            least=min(m.value for m in sampling.values()),
            most=max(m.value for m in sampling.values()),
            low=min(m.value for m in threshold.values()),
            high=max(m.value for m in threshold.values()),
        ),
        markdown_table([f"TVD, 3-way, {runs} runs", *(f"{e:g}" for e in epsilons)], rows),
        GAIN,
        markdown_table(
            ["the sample", *(f"{e:g}" for e in epsilons)],
            [
                ["records", *(f"{m:,}" for m, _ in gains)],
                ["noise to signal of a pick, times less", *(f"{gain:.2f}" for _, gain in gains)],
            ],
        ),
    ]


def sampling_gain(rows: int, attributes: int, epsilon: float) -> tuple[int, float]:
    """The best sample size, and how much less noise to signal a pick has on it than on all records."""
    on_structure = DPSMBayes().structure_share * epsilon
    m = best_sample_size(rows, on_structure, attributes - 1, binary=True, sampling=Sampling.ONE)
    whole = mutual_information_sensitivity(rows, binary=True) / on_structure
    inner = inner_epsilon(on_structure, Fraction(m, rows))
    return m, whole / (mutual_information_sensitivity(m, binary=True) / inner)


def tvd_table(
    found: Mapping[str, Runs], floor: Mapping[str, Sequence[Scores]], epsilons: Sequence[float], ways: int
) -> str:
    """One row a method; below them what random records and independent columns have."""
    rows = [line(m, by, lambda runs: tvd(runs, ways)) for m, by in found.items()]
    rows += [bound_line(label, tvd(floor[label], ways), len(epsilons)) for label in (RESAMPLED, INDEPENDENT)]
    return markdown_table([f"TVD, {ways}-way", "runs", *(f"{e:g}" for e in epsilons)], rows)


def accuracy_table(
    data: Data,
    target: str,
    found: Mapping[str, Runs],
    floor: Mapping[str, Sequence[Scores]],
    epsilons: Sequence[float],
) -> str:
    """One row a method; the ceiling is what real records teach."""
    rows = [line(m, by, lambda runs: accuracies(runs, target)) for m, by in found.items()]
    rows.append(bound_line(REAL, accuracies(floor[REAL], target), len(epsilons)))
    heads = [f"accuracy, {data.targets[target]}", "runs", *(f"{e:g}" for e in epsilons)]
    return markdown_table(heads, rows)


def line(label: str, by: Runs, values: Callable[[Sequence[Scores]], Sequence[float]]) -> list[object]:
    """A row of a table: label, number of runs, a mean for each epsilon."""
    means = [Mean.of(values(runs)) for runs in by.values()]
    return [label, means[0].runs, *map(str, means)]


def bound_line(label: str, values: Sequence[float], epsilons: int) -> list[object]:
    """A row of what does not depend on epsilon."""
    return [label, len(values), *[f"{Mean.of(values).value:.3f}"] * epsilons]


def accuracy_plot(
    data: Data,
    found: Mapping[str, Runs],
    floor: Mapping[str, Sequence[Scores]],
    epsilons: Sequence[float],
) -> Figure:
    """The paper's figures 6 and 7: accuracy over epsilon, a panel a target; real records dashed."""
    real = REAL.strip("*")
    panels = {
        f"{data.name}, {label}": {
            m: {e: Mean.of(accuracies(by[e], target)).value for e in epsilons} for m, by in found.items()
        }
        | {real: dict.fromkeys(epsilons, Mean.of(accuracies(floor[REAL], target)).value)}
        for target, label in data.targets.items()
    }
    return panel_plot(panels, x="epsilon", y="accuracy of an SVM", dashed=[real])


def equal_degree_methods() -> dict[str, Made]:
    """DPSM-Bayes and PrivBayes with the same degree, by label."""
    return {
        label: Made(METHODS[method].key, {"degree": k})
        for k, pair in EQUAL_DEGREE.items()
        for method, label in zip((DPSM_BAYES, PRIVBAYES), pair, strict=True)
    }


def claims(what: str, leads: Mapping[float, Mean]) -> list[str]:
    """Judge paired leads: at or better everywhere, and clearly better at the small epsilons."""
    figures = f"{places(leads)}; leads {', '.join(f'{m.value:+.3f}' for m in leads.values())}"
    small = {e: m for e, m in leads.items() if e <= SMALL}
    runs = min(m.runs for m in leads.values())
    return [
        verdict(
            f"{what}: DPSM-Bayes is nowhere clearly behind PrivBayes",
            all(m.high >= 0 for m in leads.values()),
            figures,
            runs=runs,
        ),
        verdict(
            f"{what}: DPSM-Bayes is clearly ahead up to epsilon {SMALL:g}",
            all(m.low > 0 for m in small.values()),
            places(small),
            runs=runs,
        ),
    ]
