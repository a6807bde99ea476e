"""IMLap-Noisy beside the Laplace mechanism (Zhu, Xu, Ya, section 3.1): tables of published networks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks import intervals
from benchmarks.environments import UnavailableError
from benchmarks.intervals import Mean
from benchmarks.papers import networks
from benchmarks.report import Section, line_plot, markdown_table, panel_plot, verdict
from benchmarks.tables import Table
from benchmarks.verdicts import places
from privacy_engine.dp.mechanisms import laplace_counts, split
from privacy_engine.measures.synthetic_learning import accuracy
from privacy_engine.measures.synthetic_utility import coded
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.postprocess import PostProcess, conditional, probabilities
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords, contingency

TARGETS: Mapping[str, tuple[str, str]] = {  # the paper's
    "Cancer": ("Smoker", "Cancer"),
    "Sachs": ("Mek", "Raf"),
    "Alarm": ("LVEDVOLUME", "TPR"),
}
EPSILONS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
ROWS, MANY_ROWS, TEST_ROWS = 10_000, 100_000, 2_500
SVM_ROWS = 2_000
SENSITIVITY = 2  # of a table of counts, one record replaced
RULES: Mapping[PostProcess, str] = {
    PostProcess.CLIP: "Laplace (clip, normalise)",
    PostProcess.THRESHOLD: "IMLap (threshold)",
    PostProcess.SIMPLEX: "simplex projection",
}
EXACT = "NoLaplace"

NOTE = """{rows:,} records are drawn from each published network, and {many:,} for the distances. The
numbers of records are ours: the paper's are lost from the text at hand, and its claim depends on them. The
tables of the d families (an attribute and its parents) get discrete Laplace noise of scale 2 d / epsilon on
the counts: epsilon for all tables together, one record replaced. Every run draws new records and one noise,
and all rules process that same noise, so their differences are paired. Means of {runs} runs with 95 %
intervals. *Distance*: total variation distance of a table to the one without noise, mean over the families.
*Wasserstein*: of the same tables with their cells in a row (the child's values running fastest), as a share
of the row's length; the paper does not say how it orders cells. Both in %. The paper's own figures (its
tables 2 and 3) are lost from the text, too; its claim can be tested: IMLap better than Laplace under both
measures."""
SVM_NOTE = """Accuracy of an SVM (RBF) that learns from {svm:,} records drawn from the noisy network, on
{test:,} fresh records of the published one; {exact} is the network of tables without noise, the ceiling."""

WHY = """The threshold drops cells that hold little, which are mostly noise where a table has many cells and
few of them are filled. Where every cell is filled, or the noise is as large as the largest cell, it drops
records with the noise; and a rare combination of parents whose cells are all dropped forgets what its child
was like, which costs an SVM more than some noise on it does."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One rule, one noise: distances of the tables, and accuracy by target."""

    tvd: float
    wasserstein: float
    accuracy: Mapping[str, float]


Found = dict[str, dict[float, list[Outcome]]]  # rule -> epsilon -> runs; the exact tables at any epsilon


def run(table: Table, *, epsilons: Sequence[float] = EPSILONS, runs: int = 20) -> Section:
    """Measure and describe; ``table`` is not used."""
    blocks = [NOTE.format(rows=ROWS, many=MANY_ROWS, runs=runs)]
    accuracy_rows: list[list[str]] = []
    judged: list[str] = []
    plots: dict[str, Figure] = {}
    for name, targets in TARGETS.items():
        try:
            published = networks.published(name.lower())
            found = measured(published, targets, epsilons, runs, seed=1)
            of_many = measured(published, (), epsilons, runs, seed=1, rows=MANY_ROWS)
        except UnavailableError as error:
            blocks.append(f"{name} was not measured: {error}.")
            continue
        print(f"[imlap] {name}", flush=True)
        blocks += [
            distance_table(_sized(name, n), f, epsilons) for n, f in ((ROWS, found), (MANY_ROWS, of_many))
        ]
        accuracy_rows += accuracy_lines(name, found, targets, epsilons)
        judged += [
            distance_verdict(_sized(name, n), one, epsilons, measure)
            for n, one in ((ROWS, found), (MANY_ROWS, of_many))
            for measure in ("tvd", "wasserstein")
        ]
        judged += [accuracy_verdict(name, found, epsilons, target) for target in targets]
        key = f"imlap_{name.lower()}"
        plots[key] = line_plot(
            {
                RULES[rule]: {e: 100 * mean(found[rule][e], "tvd").value for e in epsilons}
                for rule in PostProcess
            },
            x="epsilon",
            y=f"distance of {name}'s tables, %",
            log=True,
        )
        plots[f"{key}_svm"] = accuracy_plot(name, found, targets, epsilons)
        blocks += [key, f"{key}_svm"]
    if accuracy_rows:
        blocks += [
            SVM_NOTE.format(svm=SVM_ROWS, test=TEST_ROWS, exact=EXACT),
            markdown_table(["", *(f"{e:g}" for e in epsilons)], accuracy_rows),
            "\n".join(judged),
            WHY,
        ]
    return Section(
        title="7. IMLap and Laplace on published networks",
        blocks=blocks,
        plots=plots,
        source=f"Networks from the package {networks.PACKAGE}.",
    )


def measured(
    published: networks.PublishedNetwork,
    targets: Sequence[str],
    epsilons: Sequence[float],
    runs: int,
    seed: int,
    rows: int = ROWS,
) -> Found:
    """All rules on the same noise, run by run; accuracies of the targets."""
    found: Found = {rule: {e: [] for e in epsilons} for rule in (*PostProcess, EXACT)}
    for number in range(runs):
        rng = np.random.default_rng([seed, number])
        records = coded(published.draw(rows, rng), published.schema)
        test = coded(published.draw(TEST_ROWS, rng), published.schema)
        exact = family_counts(records, published.network)

        def outcome(
            tables: list[npt.NDArray[np.float64]],
            records: CodedTable = records,
            test: CodedTable = test,
            exact: list[npt.NDArray[np.int64]] = exact,
            rng: np.random.Generator = rng,
        ) -> Outcome:
            truth = [counts / rows for counts in exact]
            return Outcome(
                tvd=float(np.mean([variation(a, b) for a, b in zip(truth, tables, strict=True)])),
                wasserstein=float(np.mean([transport(a, b) for a, b in zip(truth, tables, strict=True)])),
                accuracy=learned(with_tables(published.network, tables), records, test, targets, rng),
            )

        ceiling = outcome([counts / rows for counts in exact])
        for epsilon in epsilons:
            found[EXACT][epsilon].append(ceiling)
            noisy = noisy_counts(exact, epsilon)
            for rule in PostProcess:
                found[rule][epsilon].append(outcome([probabilities(c, rows, rule) for c in noisy]))
    return found


def learned(
    network: BayesianNetwork,
    records: CodedTable,
    test: CodedTable,
    targets: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, float]:
    """Accuracy of an SVM for each target, learned from records that are drawn from a network."""
    if not targets:
        return {}
    drawn = replace(records, codes=network.sample(SVM_ROWS, rng))
    return {target: accuracy(drawn, test, target) for target in targets}


def family_counts(records: CodedTable, network: BayesianNetwork) -> list[npt.NDArray[np.int64]]:
    """For each node its joint counts with its parents, the child on the last axis."""
    weighted = WeightedRecords.of(records)
    place = {name: i for i, name in enumerate(records.names)}
    return [
        contingency(weighted, [place[n] for n in (*node.parents, node.attribute)]) for node in network.nodes
    ]


def noisy_counts(exact: Sequence[npt.NDArray[np.int64]], epsilon: float) -> list[npt.NDArray[np.int64]]:
    """Noise for epsilon over all tables together, in equal parts."""
    parts = split(epsilon, [1] * len(exact))
    return [
        laplace_counts(counts, epsilon=part, sensitivity=SENSITIVITY)
        for counts, part in zip(exact, parts, strict=True)
    ]


def with_tables(network: BayesianNetwork, tables: Sequence[npt.NDArray[np.float64]]) -> BayesianNetwork:
    """The same structure with the conditional distributions of other joint tables."""
    nodes = tuple(
        Node(attribute=node.attribute, parents=node.parents, table=conditional(table))
        for node, table in zip(network.nodes, tables, strict=True)
    )
    return replace(network, nodes=nodes)


def variation(p: npt.NDArray[np.float64], q: npt.NDArray[np.float64]) -> float:
    """Total variation distance of two distributions."""
    return float(0.5 * np.abs(p - q).sum())


def transport(p: npt.NDArray[np.float64], q: npt.NDArray[np.float64]) -> float:
    """Wasserstein-1 distance of two distributions over cells in a row of length 1."""
    return float(np.abs(np.cumsum(p - q)).sum() / max(p.size - 1, 1))


def _sized(name: str, rows: int) -> str:
    """Return the name of a network, with its number of records if that is not the usual one.

    >>> _sized("Alarm", ROWS), _sized("Alarm", MANY_ROWS)
    ('Alarm', 'Alarm, 100,000 records')
    """
    return name if rows == ROWS else f"{name}, {rows:,} records"


def mean(runs: Sequence[Outcome], measure: str) -> Mean:
    """Mean of one of the two distances."""
    return Mean.of([getattr(run, measure) for run in runs])


def distance_table(name: str, found: Found, epsilons: Sequence[float]) -> str:
    """One row a measure and rule, in %."""
    rows = []
    for measure, word in (("tvd", "distance"), ("wasserstein", "Wasserstein")):
        for rule, label in RULES.items():
            rows.append(
                [f"{word}, {label}", *(mean(found[rule][e], measure).shown(2, 100) for e in epsilons)]
            )
    return markdown_table([f"{name}, %", *(f"{e:g}" for e in epsilons)], rows)


def accuracy_lines(
    name: str, found: Found, targets: Sequence[str], epsilons: Sequence[float]
) -> list[list[str]]:
    """One row a target and rule."""
    labels: dict[str, str] = {EXACT: EXACT, **RULES}
    return [
        [
            f"{name}, {target}: {label}",
            *(str(Mean.of([run.accuracy[target] for run in found[rule][e]])) for e in epsilons),
        ]
        for target in targets
        for rule, label in labels.items()
    ]


def accuracy_plot(name: str, found: Found, targets: Sequence[str], epsilons: Sequence[float]) -> Figure:
    """The paper's figures 3 to 5: accuracy over epsilon, a panel a target; no noise dashed."""
    labels: dict[str, str] = {EXACT: EXACT, **RULES}
    panels = {
        f"{name}, {target}": {
            label: {e: Mean.of([run.accuracy[target] for run in found[rule][e]]).value for e in epsilons}
            for rule, label in labels.items()
        }
        for target in targets
    }
    return panel_plot(panels, x="epsilon", y="accuracy of an SVM", dashed=[EXACT])


def distance_verdict(name: str, found: Found, epsilons: Sequence[float], measure: str) -> str:
    """Whether IMLap is nearer than Laplace at each epsilon, by paired differences."""
    gains = {
        e: intervals.difference(
            [getattr(run, measure) for run in found[PostProcess.CLIP][e]],
            [getattr(run, measure) for run in found[PostProcess.THRESHOLD][e]],
        )
        for e in epsilons
    }
    word = {"tvd": "distance", "wasserstein": "Wasserstein distance"}[measure]
    share = {e: gain.value / mean(found[PostProcess.CLIP][e], measure).value for e, gain in gains.items()}
    best = max(share, key=lambda e: share[e])
    return verdict(
        f"{name}: IMLap has the smaller {word} at every epsilon",
        all(gain.low > 0 for gain in gains.values()),
        f"{places(gains)}; largest gain {share[best]:.0%} at {best:g}",
        runs=min(gain.runs for gain in gains.values()),
    )


def accuracy_verdict(name: str, found: Found, epsilons: Sequence[float], target: str) -> str:
    """Whether an SVM learns at least as much from IMLap's tables as from Laplace's, paired."""
    leads = {
        e: intervals.difference(
            [run.accuracy[target] for run in found[PostProcess.THRESHOLD][e]],
            [run.accuracy[target] for run in found[PostProcess.CLIP][e]],
        )
        for e in epsilons
    }
    return verdict(
        f"{name}, {target}: IMLap's accuracy is nowhere clearly below Laplace's",
        all(lead.high >= 0 for lead in leads.values()),
        f"{places(leads)}; by {min(m.value for m in leads.values()):+.3f} to "
        f"{max(m.value for m in leads.values()):+.3f}",
        runs=min(lead.runs for lead in leads.values()),
    )
