"""Figures 2-5 of Huang and Zhu's RFKA: AUC and time against K, beside Greedy_Hamdist and naive loops.

The paper shows curves and no numbers; what can be reproduced are its claims.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from benchmarks.intervals import Mean, difference
from benchmarks.report import Section, line_plot, markdown_table, verdict
from benchmarks.tables import Table
from benchmarks.timing import Timing, interleaved, timed
from benchmarks.verdicts import of_leads, places, sentence
from deploy.local.samples.adult import sample_table
from privacy_engine import DataSchema, EncodedTable, KAnonymity
from privacy_engine.anonymizers.feature_selection import (
    FeatureSelection,
    class_label,
    forward_pass,
    gain_order,
)
from privacy_engine.anonymizers.greedy_hamdist import GreedyHamdist
from privacy_engine.anonymizers.rfka import RFKA
from privacy_engine.recoding.features.features import Feature, one_hot, value_features
from privacy_engine.recoding.features.forest_importance import flattened, lost_votes
from privacy_release.spec.files import load_schema

KS = (1, 2, 5, 10, 20, 30, 50, 100)  # 1 = no protection, the paper's K = 0
ADULT_ROWS, TREES, FOLDS, BINS = 2000, 1000, 5, 5
SEEDS = tuple(range(1, 11))
NAIVE_TREES = 20  # of the naive loop, whose seconds are scaled to all trees
SECONDS = 10.0  # "in seconds"
SKIPPED_IN_BREAST_CANCER = ("id", "class", "mitoses")  # the paper takes 8 of the 9 and does not say which
CONTINUOUS: Mapping[str, tuple[float, float] | None] = {
    "age": (0, 100),  # (0, 20], (20, 40], ... as in the paper
    "fnlwgt": None,
    "education-num": (1, 16),
    "capital-gain": None,
    "capital-loss": None,
    "hours-per-week": (0, 100),
}
RFKA_, HAMDIST = "RFKA", "Greedy_Hamdist"
GENERALIZING, GAIN = "RFKA, generalizes first (ours)", "RFKA, order by gain (ours)"
ALL_PAIRS = "Greedy_Hamdist from all pairs (scaled)"
PAPER, CLEAN = "paper's protocol", "clean protocol"
SVM, WEIGHTED = "SVM", "class-weighted SVM"
CLASSIFIERS: Mapping[str, Callable[[], ClassifierMixin]] = {
    SVM: SVC,
    WEIGHTED: partial(SVC, class_weight="balanced"),
    "logistic regression": LogisticRegression,
}

NOTE = """AUC in {folds}-fold stratified cross-validation on the one-hot columns of the kept features, by the
paper's classifier, scikit-learn's default SVM (RBF), by the same with each class weighing one half in
all, and by logistic regression; {trees} trees. Means over {seeds} seeds (of the draw of Adult's records, the
folds and the forest), with 95 % intervals. K = 1 is the unprotected table. Leads are paired by seed and
judged by their interval: *ahead*, *tied* or *behind* at each K. A comparison as a whole is behind if it is
behind at one K, otherwise ahead if it is ahead at one K; with seven K, up to three in ten comparisons
of equals are not called tied.
*Paper's protocol*: features are chosen once on all records, those of the test fold and their labels
included. *Clean*: the choice, forest included, sees the training folds only. The chosen features depend on
the label, so publishing the choice reveals something about the labels; no differential privacy is claimed.
Breast Cancer: the 683 complete records of 699, 8 attributes, all but mitoses (the paper does not name its
eight). Adult: 2,000 records drawn for each seed, as in the paper; 14 attributes, 6 of them cut into {bins}
bins of equal width. Where no feature is left, the classifier gets one constant column."""
WHY = """Few columns leave few distinct records. The margin of an RBF machine ranks such a handful of points
almost at random, sometimes in reverse, so its AUC says little about the features; logistic regression ranks
the same columns more steadily. *Order by gain* adds, at each step, the allowed feature that says most about
the label given those already kept: few features are kept, and two important ones may say the same, or use up
what k leaves for a third."""
TIME_NOTE = """Seconds to value and choose features, encoding not counted, medians of {repeats} interleaved
runs at each K. Greedy_Hamdist's sum over pairs of records is additive over features and has a closed form
of two counts a column: ours needs no pairs. *From all pairs* is the search that sums over all pairs of
records, for each feature left, at every step (one step measured in numpy, scaled to all steps). The naive
importance calls `permutation_importance` on each tree and its out-of-bag records; it ran on {naive} trees
and is scaled to {trees}; growing the forest is not counted on either side."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """A table of the paper."""

    name: str
    frame: pd.DataFrame
    schema: DataSchema


Curves = dict[str, dict[str, dict[int, float]]]  # protocol and classifier -> method -> K -> AUC
Runs = dict[str, dict[str, dict[int, list[float]]]]  # the same, an AUC for each seed


def adult_data(frame: pd.DataFrame, rows: int) -> Data:
    """14 quasi-identifiers and the income; all complete records."""
    frame = frame.dropna().reset_index(drop=True)
    trees = {"workclass", "education", "marital-status", "race", "sex", "native-country"}
    fields: dict[str, dict[str, object]] = {}
    for name in frame.columns:
        if name in CONTINUOUS:
            fields[name] = {"role": "quasi_identifier", "kind": "numeric", "bounds": CONTINUOUS[name]}
        else:
            fields[name] = {"role": "sensitive" if name == "salary-class" else "quasi_identifier"}
            if name in trees:
                fields[name]["hierarchy"] = f"hierarchies/adult/{name}.csv"
    return Data(name=f"Adult, {rows:,} rows", frame=frame, schema=load_schema(fields))


def breast_cancer_data() -> Data | None:
    """The 683 complete records of Breast Cancer Wisconsin; None where PRIVACY_DATA does not hold them."""
    file = Path(os.environ.get("PRIVACY_DATA", "")) / "breast_cancer_wisconsin.parquet"
    if not file.is_file():
        return None
    frame = pd.read_parquet(file).dropna().reset_index(drop=True)
    names = [name for name in frame.columns if name not in SKIPPED_IN_BREAST_CANCER]
    fields: dict[str, dict[str, object]] = {name: {"role": "quasi_identifier"} for name in names}
    fields["class"] = {"role": "sensitive"}
    return Data(name="Breast Cancer", frame=frame[list(fields)], schema=load_schema(fields))


def drawn(data: Data, rows: int, seed: int) -> EncodedTable:
    """The given number of records at the classes' ratio, encoded."""
    if rows < len(data.frame):
        label = data.schema.sensitive[0].name
        share = rows / len(data.frame)
        frame = data.frame.groupby(label).sample(frac=share, random_state=seed)
        data = replace(data, frame=frame)
    return EncodedTable.encode(data.frame, data.schema)


def valued(
    method: FeatureSelection, encoded: EncodedTable, features: Sequence[Feature], seed: int
) -> npt.NDArray[np.float64]:
    """(f,) what a method thinks of each feature."""
    columns, feature_of = one_hot(encoded, features)
    return method.worth(columns, feature_of, class_label(encoded, None), np.random.default_rng(seed))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Features, what a method thinks of each, and how it orders them."""

    features: Sequence[Feature]
    worth: npt.NDArray[np.float64]
    by_gain: bool = False

    def columns(self, encoded: EncodedTable, k: int) -> Callable[[EncodedTable], npt.NDArray[np.float64]]:
        """From a table to the columns of the features that are k-anonymous together in ``encoded``."""
        models, order = [KAnonymity(k=max(k, 2))], np.argsort(-self.worth, kind="stable")
        levels: tuple[int, ...] = (0,) * len(self.features)
        if k > 1:
            if self.by_gain:
                order = gain_order(encoded, self.features, order, models, class_label(encoded, None))
            levels = forward_pass(encoded, self.features, order, models).levels
        kept = [(f, level) for f, level in zip(self.features, levels, strict=True) if level >= 0]

        def shown(table: EncodedTable) -> npt.NDArray[np.float64]:
            if not kept:
                return np.zeros((len(table), 1))  # a classifier needs a column
            # No constant column otherwise: it would change the SVM, whose gamma="scale" depends on the
            # number of columns and on their variance.
            return np.column_stack([f.groups(table.codes, level) for f, level in kept])

        return shown


def curves(encoded: EncodedTable, ks: Sequence[int], trees: int, seed: int) -> Curves:
    """AUC of each method under both protocols."""
    y = class_label(encoded, None)
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(y, y))
    names = (RFKA_, HAMDIST, GENERALIZING, GAIN)
    found: Curves = {
        f"{protocol}, {classifier}": {name: dict.fromkeys(ks, 0.0) for name in names}
        for classifier in CLASSIFIERS
        for protocol in (PAPER, CLEAN)
    }
    everything = shown_columns(encoded, choices(encoded, trees, seed), ks)
    for train, test in folds:
        part, rest = encoded.take(train), encoded.take(test)
        known: dict[tuple[str, bytes, bytes], float] = {}  # methods often keep the same features
        for protocol, chosen in (
            (PAPER, everything),
            (CLEAN, shown_columns(part, choices(part, trees, seed), ks)),
        ):
            for (name, k), columns in chosen.items():
                shown, asked = columns(part), columns(rest)
                for classifier, make in CLASSIFIERS.items():
                    key = (classifier, shown.tobytes(), asked.tobytes())
                    if key not in known:
                        decided = make().fit(shown, y[train]).decision_function(asked)
                        known[key] = float(roc_auc_score(y[test], decided))
                    found[f"{protocol}, {classifier}"][name][k] += known[key] / FOLDS
    return found


def shown_columns(
    encoded: EncodedTable, chosen: Mapping[str, Choice], ks: Sequence[int]
) -> dict[tuple[str, int], Callable[[EncodedTable], npt.NDArray[np.float64]]]:
    """What each method shows of a table at each K, its features chosen on ``encoded``."""
    return {(name, k): choice.columns(encoded, k) for (name, choice), k in product(chosen.items(), ks)}


def choices(encoded: EncodedTable, trees: int, seed: int) -> dict[str, Choice]:
    """The features and their worth by each method; they do not depend on K."""
    plain = value_features(encoded, BINS, generalize=False)
    by_forest = valued(RFKA(trees=trees), encoded, plain, seed)
    return {
        RFKA_: Choice(features=plain, worth=by_forest),
        HAMDIST: Choice(features=plain, worth=valued(GreedyHamdist(), encoded, plain, seed)),
        GENERALIZING: Choice(features=value_features(encoded, BINS, generalize=True), worth=by_forest),
        GAIN: Choice(features=plain, worth=by_forest, by_gain=True),
    }


def seconds(
    encoded: EncodedTable, ks: Sequence[int], trees: int, repeats: int
) -> dict[str, dict[int, Timing]]:
    """Time to value and choose the features at each K."""
    found: dict[str, dict[int, Timing]] = {RFKA_: {}, HAMDIST: {}}
    features = value_features(encoded, BINS, generalize=False)
    methods: dict[str, FeatureSelection] = {RFKA_: RFKA(trees=trees), HAMDIST: GreedyHamdist()}
    for k in (k for k in ks if k > 1):

        def select(method: FeatureSelection, k: int = k) -> None:
            Choice(features=features, worth=valued(method, encoded, features, 1)).columns(encoded, k)

        timings = interleaved(
            {name: partial(select, method) for name, method in methods.items()},
            dict.fromkeys(methods, repeats),
        )
        for name, timing in timings.items():
            found[name][k] = timing
    return found


def importance_seconds(encoded: EncodedTable, trees: int, repeats: int) -> tuple[float, float]:
    """Seconds of the importance alone, without growing the forest: ours, and the naive loop's, scaled."""
    features = value_features(encoded, BINS, generalize=False)
    columns, feature_of = one_hot(encoded, features)
    y = class_label(encoded, None)
    forest = RandomForestClassifier(trees, random_state=1, n_jobs=-1).fit(columns.astype(np.float32), y)
    some = min(NAIVE_TREES, trees)

    def naive() -> None:
        for tree, seen in zip(forest.estimators_[:some], forest.estimators_samples_[:some], strict=True):
            oob = np.setdiff1d(np.arange(len(y)), seen)
            permutation_importance(
                tree, columns[oob].astype(np.float32), y[oob], scoring="accuracy", n_repeats=1, random_state=1
            )

    timings = interleaved(
        {
            "ours": lambda: lost_votes(columns, feature_of, y, flattened(forest, len(y)), 1),
            "naive": naive,
        },
        {"ours": max(repeats, 2), "naive": 1},
    )
    return timings["ours"].wall, timings["naive"].wall * trees / some


def all_pairs_seconds(encoded: EncodedTable) -> float:
    """Seconds of the greedy search that sums over all pairs at every step, scaled from its first step."""
    columns, _ = one_hot(encoded, value_features(encoded, BINS, generalize=False))
    y = class_label(encoded, None)
    positive, negative = columns[y == 1].T, columns[y == 0].T

    def step() -> None:
        for ours, theirs in zip(positive, negative, strict=True):
            np.count_nonzero(ours[:, None] != theirs[None, :])

    count = columns.shape[1]
    return timed(step)[0] * (count + 1) / 2  # step i looks at the count - i features that are left


def run(
    table: Table,
    *,
    ks: Sequence[int] = KS,
    seeds: Sequence[int] = SEEDS,
    trees: int = TREES,
    repeats: int = 5,
) -> Section:
    """Measure and describe; ``table`` says only how many records of Adult there are at most."""
    rows = min(ADULT_ROWS, len(table.frame))
    tables = [(data, rows if data.name != "Breast Cancer" else len(data.frame)) for data in _data(rows)]
    blocks = [
        NOTE.format(folds=FOLDS, trees=f"{trees:,}", seeds=len(seeds), bins=BINS),
    ]
    plots: dict[str, Figure] = {}
    timing_rows, judged = [], []
    for data, count in tables:
        name = data.name.split(",")[0]
        print(f"[rfka] {data.name}", flush=True)
        auc = merged([curves(drawn(data, count, seed), ks, trees, seed) for seed in seeds])
        blocks.append(auc_table(data.name, auc, ks))
        for classifier in CLASSIFIERS:
            key = f"rfka_auc_{name}_{classifier}".lower().replace(" ", "_")
            blocks.append(key)
            plots[key] = auc_plot({part: by for part, by in auc.items() if part.endswith(f", {classifier}")})
        judged += [
            auc_verdict(f"{data.name}, {part}", auc[part], ks, method=method)
            for part in auc
            for method in (RFKA_, GAIN)
        ]
        judged += [weights_verdict(data.name, auc, ks, protocol) for protocol in (PAPER, CLEAN)]
        encoded = drawn(data, count, seeds[0])
        taken = seconds(encoded, ks, trees, repeats)
        ours, naive = importance_seconds(encoded, trees, repeats)
        pairs = all_pairs_seconds(encoded)
        timing_rows += [
            [f"{data.name}: {method}", *(f"{timing.wall:.3f}" for timing in by_k.values())]
            for method, by_k in taken.items()
        ] + [[f"{data.name}: {ALL_PAIRS}", *[f"{pairs:.3f}"] * len(taken[RFKA_])]]
        judged += time_verdicts(data.name, taken, pairs, ours, naive)
        key = f"rfka_time_{name.lower().replace(' ', '_')}"
        plots[key] = line_plot(
            {m: {k: t.wall for k, t in by_k.items()} for m, by_k in taken.items()}
            | {ALL_PAIRS: dict.fromkeys(taken[RFKA_], pairs)},
            x="K",
            y="seconds",
            log=True,
        )
    protected = [k for k in ks if k > 1]
    blocks += [
        TIME_NOTE.format(repeats=repeats, naive=min(NAIVE_TREES, trees), trees=f"{trees:,}"),
        markdown_table(["seconds", *(f"K = {k}" for k in protected)], timing_rows),
        *(key for key in plots if key.startswith("rfka_time")),
        "\n".join(judged),
        WHY,
    ]
    if all(data.name != "Breast Cancer" for data, _ in tables):
        blocks.append(
            "Breast Cancer was not measured: put breast_cancer_wisconsin.parquet into PRIVACY_DATA."
        )
    return Section(title="6. RFKA and Greedy_Hamdist", blocks=blocks, plots=plots)


def _data(rows: int) -> list[Data]:
    return [data for data in (breast_cancer_data(), adult_data(sample_table()[0], rows)) if data is not None]


def merged(found: Sequence[Curves]) -> Runs:
    """The AUC of every seed, in the order of the seeds."""
    return {
        protocol: {m: {k: [f[protocol][m][k] for f in found] for k in by_k} for m, by_k in methods.items()}
        for protocol, methods in found[0].items()
    }


def auc_table(name: str, auc: Runs, ks: Sequence[int]) -> str:
    """One row a method and protocol."""
    rows = [
        [f"{method}, {protocol}", *(str(Mean.of(by_k[k])) for k in ks)]
        for protocol, methods in auc.items()
        for method, by_k in methods.items()
    ]
    return markdown_table([f"AUC, {name}", *(f"K = {k}" for k in ks)], rows)


def auc_plot(auc: Runs) -> Figure:
    """All methods, the clean protocol dashed."""
    lines = {
        f"{m}, {protocol}": {k: fmean(values) for k, values in by_k.items()}
        for protocol, methods in auc.items()
        for m, by_k in methods.items()
    }
    figure = line_plot(lines, x="K (1 = no protection)", y="AUC", dashed=[n for n in lines if CLEAN in n])
    figure.axes[0].set_ylim(0.45, 1.0)
    return figure


def auc_verdict(
    where: str, auc: Mapping[str, Mapping[int, Sequence[float]]], ks: Sequence[int], *, method: str
) -> str:
    """Whether a method is ahead of Greedy_Hamdist, tied with it or behind, by leads paired by seed."""
    leads = {k: difference(auc[method][k], auc[HAMDIST][k]) for k in ks if k > 1}
    return sentence(of_leads(leads.values()), f"{where}: AUC of {method} against {HAMDIST}", _leads(leads))


def weights_verdict(where: str, auc: Runs, ks: Sequence[int], protocol: str) -> str:
    """Whether weighted classes raise the SVM's AUC on RFKA's features, by gains paired by seed."""
    weighted, plain = (auc[f"{protocol}, {name}"][RFKA_] for name in (WEIGHTED, SVM))
    gains = {k: difference(weighted[k], plain[k]) for k in ks if k > 1}
    claim = f"{where}, {protocol}: AUC of the class-weighted SVM against the SVM on {RFKA_}'s features"
    return sentence(of_leads(gains.values()), claim, _leads(gains))


def _leads(leads: Mapping[int, Mean]) -> str:
    values = [lead.value for lead in leads.values()]
    return f"{places(leads)}; leads {min(values):+.3f} to {max(values):+.3f}, mean {fmean(values):+.3f}"


def time_verdicts(
    name: str, taken: Mapping[str, Mapping[int, Timing]], all_pairs: float, ours: float, naive: float
) -> list[str]:
    """RFKA's time beside Greedy_Hamdist's, a bound, and the naive loop's."""
    forest = [t.wall for t in taken[RFKA_].values()]
    pairs = [t.wall for t in taken[HAMDIST].values()]
    return [
        verdict(
            f"{name}: RFKA is faster than Greedy_Hamdist at each K",
            all(f < p for f, p in zip(forest, pairs, strict=True)),
            f"{min(forest):.2f}-{max(forest):.2f} s against {min(pairs):.3f}-{max(pairs):.3f} s",
        ),
        verdict(
            f"{name}: RFKA is faster than Greedy_Hamdist from all pairs",
            max(forest) < all_pairs,
            f"{max(forest):.2f} s against {all_pairs:.2f} s",
        ),
        verdict(f"{name}: RFKA takes under {SECONDS:g} s", max(forest) < SECONDS, f"{max(forest):.2f} s"),
        verdict(
            f"{name}: the importance is faster than a naive loop over trees and features",
            ours < naive,
            f"{ours:.2f} s against {naive:.0f} s, {naive / ours:.0f} times",
        ),
    ]
