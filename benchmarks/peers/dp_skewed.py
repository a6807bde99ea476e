"""Skewed and heavy-tailed numbers with honest bounds: what equal bins, and what others, leave of them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.intervals import Mean
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from privacy_engine import DataSchema, load_method

RECORDS, EPSILON, TOLERANCE = 30_000, 1.0, 0.05
FIRST_SEED = 1000  # of the tables that are reported; smaller ones were used to choose settings
BOUNDS = (0, 100_000_000)
SKEWED = {"income": "log-normal", "claim": "Pareto, shape 3", "gain": "three quarters zeros, else log-normal"}
SCALES: Mapping[str, Mapping[str, object]] = {
    "equal, 16 (before)": {"scale": "linear"},
    "`scale: log`": {"scale": "log"},
    "`scale: quantiles` (default)": {},
}
NOTE = """A generated table of {records:,} records with ten attributes, three of them skewed numbers with the
bounds 0 to 100,000,000, at epsilon {epsilon:g} for one record replaced: log-normal incomes with a median of
22,400, claims of a Pareto distribution, and gains that are mostly zero. Deviation of a figure of the released
records from the same one of the table, as a mean of {runs} runs with its 95 % interval, in percent; of `gain`
the median of what is not zero. Settings were chosen on tables of seeds below {first:,}."""
Floats = npt.NDArray[np.float64]
FIGURES: Mapping[str, Callable[[pd.Series], float]] = {
    "median": lambda x: float(x[x > 0].median()),
    "mean": lambda x: float(x.mean()),
    "99th percentile": lambda x: float(x.quantile(0.99)),
}


def table_of(rng: np.random.Generator, rows: int = RECORDS) -> pd.DataFrame:
    """Three skewed numbers and seven attributes of few values, which depend on each other."""
    trait, group = rng.normal(size=rows), rng.integers(0, 4, rows)
    gain = np.exp(8.5 + 0.5 * trait + 0.9 * rng.normal(size=rows))
    columns: dict[str, object] = {
        "income": np.exp(np.log(22_400) + 0.6 * trait + 0.8 * rng.normal(size=rows)),
        "claim": 500 * rng.random(rows) ** (-1 / 3),
        "gain": np.where(rng.random(rows) < 0.75, 0, gain),
    }
    for number in range(3):
        grade = np.round(3 + 0.8 * trait + 1.5 * rng.normal(size=rows)).clip(0, 9)
        columns[f"grade{number}"] = grade.astype(int).astype(str)
    for number in range(4):
        columns[f"kind{number}"] = ((group + rng.integers(0, 2 + number, rows)) % (4 + number)).astype(str)
    return pd.DataFrame(columns)


def schema_of(scale: Mapping[str, object]) -> DataSchema:
    """The schema of the table, with this scale for its skewed numbers."""
    wide = {"kind": "numeric", "bounds": list(BOUNDS), **scale}
    grades = {f"grade{i}": {"categories": [str(v) for v in range(10)]} for i in range(3)}
    kinds = {f"kind{i}": {"categories": [str(v) for v in range(4 + i)]} for i in range(4)}
    return DataSchema.from_dict({**{name: dict(wide) for name in SKEWED}, **grades, **kinds})


def deviations(method: str, scale: Mapping[str, object], seeds: Sequence[int]) -> Floats:
    """(runs, 3, 3) deviation of each figure of each skewed number, by run."""
    found, given = [], {"replicates": 0} if method == "latent_class" else {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        table = table_of(rng)
        made = load_method(method, epsilon=EPSILON, **given)
        drawn = made.release(table, schema_of(scale), rng).table
        found.append([[f(drawn[name]) / f(table[name]) - 1 for f in FIGURES.values()] for name in SKEWED])
    return np.array(found)


def run(_: Table, *, runs: int = 8) -> Section:
    """Every scale with LatentClass, and the default one with PrivBayes with R."""
    cases = [("latent_class", name) for name in SCALES] + [("privbayes_r", list(SCALES)[-1])]
    rows, seeds = [], range(FIRST_SEED, FIRST_SEED + runs)
    largest = 0.0
    for method, name in cases:
        found = deviations(method, SCALES[name], seeds)
        for number, column in enumerate(SKEWED):
            shown = [Mean.of(found[:, number, i].tolist()).shown(1, 100) for i in range(len(FIGURES))]
            rows.append((method, name, f"{column}: {SKEWED[column]}", *shown))
        print(f"[dp_skewed] {method}, {name}: {rows[-len(SKEWED) :]}", flush=True)
        if (method, name) == cases[len(SCALES) - 1]:
            largest = float(np.abs(found.mean(axis=0)).max())
    claim = f"With the default, all nine figures of LatentClass are within {TOLERANCE:.0%} on average"
    return Section(
        title="35. Skewed and heavy-tailed numbers",
        blocks=(
            NOTE.format(records=RECORDS, epsilon=EPSILON, runs=runs, first=FIRST_SEED),
            markdown_table(("method", "bins", "column", *FIGURES), rows),
            verdict(claim, largest <= TOLERANCE, f"the largest is {largest:.1%}", runs=runs),
        ),
        source=f"Generated tables of {RECORDS:,} records.",
    )
