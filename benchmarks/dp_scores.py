"""What a synthetic table is worth: distances of its marginals, and what a classifier learns from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.dp_tables import Split
from benchmarks.intervals import Mean, difference
from privacy_engine.measures.synthetic_learning import accuracy
from privacy_engine.measures.synthetic_utility import coded_marginal_tvd
from privacy_engine.tables.domains import CodedTable

WAYS = (1, 2, 3)
TRAINING_ROWS = 5_000


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Of one synthetic table.

    Attributes:
        tvd: ways -> mean total variation distance of all marginals of this many attributes.
        accuracy: target -> share of the test records that an SVM trained on the table gets right.
        cpu: CPU seconds to make the table; NaN where it was not requested.
        peak: most memory that its process held, bytes; NaN where it had no separate one.
    """

    tvd: Mapping[int, float]
    accuracy: Mapping[str, float]
    cpu: float = float("nan")
    peak: float = float("nan")


Runs = Mapping[float, Sequence[Scores]]  # epsilon -> runs


def scores(
    split: Split,
    synthetic: CodedTable,
    targets: Sequence[str],
    rng: np.random.Generator,
    rows: int = TRAINING_ROWS,
) -> Scores:
    """Distances to the records that were synthesized, accuracy on those held out."""
    return Scores(
        tvd={w: coded_marginal_tvd(split.train, synthetic, w).mean for w in WAYS},
        accuracy={t: accuracy(sample(synthetic, rng, rows), split.test, t) for t in targets},
    )


def sample(table: CodedTable, rng: np.random.Generator, rows: int) -> CodedTable:
    """At most this many records, at random: an SVM's cost grows with their square."""
    if len(table) <= rows:
        return table
    return table.take(np.sort(rng.choice(len(table), rows, replace=False)))


def tvd(runs: Sequence[Scores], ways: int) -> list[float]:
    """(runs,) distances."""
    return [run.tvd[ways] for run in runs]


def accuracies(runs: Sequence[Scores], target: str) -> list[float]:
    """(runs,) accuracies."""
    return [run.accuracy[target] for run in runs]


def lead(ours: Runs, theirs: Runs, measure: str | int) -> dict[float, Mean]:
    """Paired lead of one method over another, positive = better: less distance, or more accuracy."""
    if isinstance(measure, int):
        return {e: difference(tvd(theirs[e], measure), tvd(ours[e], measure)) for e in ours}
    return {e: difference(accuracies(ours[e], measure), accuracies(theirs[e], measure)) for e in ours}
