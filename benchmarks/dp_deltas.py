"""LatentClass with pure epsilon and with a delta, beside AIM; and NIST's K-marginal score."""

import itertools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks import dp_tables
from benchmarks.dp_tables import Data
from benchmarks.environments import UnavailableError
from benchmarks.intervals import Mean
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from privacy_engine import DataSchema, load_method
from privacy_engine.measures.synthetic_utility import coded, coded_marginal_tvd
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import contingency

Numbers = npt.NDArray[np.generic]

DELTA = 1e-9
EPSILONS = (0.2, 0.8, 1.6)
# Table -> epsilon -> 3-way TVD of AIM at half of it, for a record added or removed, by another program.
AIM_REPLACED: Mapping[str, Mapping[float, float]] = {
    "NLTCS": {0.2: 0.050, 0.8: 0.013, 1.6: 0.0095},
    "Adult, 14 columns": {0.8: 0.090},
}
NOTE = """Means of {runs} runs with 95 % intervals: total variation distance of 3-way marginals to the four
fifths of the records that were synthesized, and CPU seconds of a fit. One record replaced is the neighbour in
all lines. *With delta* is (epsilon, 1e-9), Gaussian noise; the other is pure epsilon. AIM's figures were
measured elsewhere, for a record added or removed, at half the epsilon that the column says and the same
delta, which is as much protection of a replaced record."""
NIST_NOTE = """NIST's K-marginal score on the table of the Collaborative Research Cycle, ten demographic
features, epsilon 1: 500 (2 - the mean over all pairs of features of the sum of absolute differences of their
relative frequencies); age is scored in 20 bins of equal frequency, which are public here, and released in
these or in 100 bins of a year."""
AGE, AGE_BINS, YEARS = "AGEP", 20, 100
OTHERS = ("SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE")
FEATURES = (AGE, *OTHERS)


@dataclass(frozen=True)
class Kind:
    """What a release claims beside its epsilon."""

    label: str
    delta: float


KINDS = (Kind("pure epsilon", 0.0), Kind("with delta", DELTA))


def run(_: Table, *, runs: int = 5) -> Section:
    """Measure and describe."""
    rows: list[list[str]] = []
    blocks, judged = [NOTE.format(runs=runs)], []
    for load in (dp_tables.nltcs, dp_tables.adult):
        try:
            data = load()
        except UnavailableError as error:
            blocks.append(f"A table was not measured: {error}.")
            continue
        quoted = AIM_REPLACED.get(data.name, {})
        for kind in KINDS:
            found = {epsilon: distances(data, epsilon, kind.delta, runs) for epsilon in EPSILONS}
            seconds = f"{np.mean([cpu for _, cpu in found.values()]):.1f}"
            means = {epsilon: Mean.of(far) for epsilon, (far, _) in found.items()}
            rows.append(
                [data.name, f"LatentClass, {kind.label}", *(m.shown(4) for m in means.values()), seconds]
            )
            if quoted:
                judged.append(
                    verdict(
                        f"{data.name}: LatentClass, {kind.label}, is nearer than AIM at an equal promise",
                        all(means[e].value < far for e, far in quoted.items()),
                        ", ".join(f"{means[e].shown(4)} / {far} at {e:g}" for e, far in quoted.items()),
                    )
                )
        if quoted:
            told = [f"{quoted[e]:.4f}" if e in quoted else "" for e in EPSILONS]
            rows.append([data.name, "*AIM, with delta, measured elsewhere*", *told, ""])
    blocks.append(markdown_table(["TVD, 3-way", "method", *(f"{e:g}" for e in EPSILONS), "CPU s"], rows))
    try:
        blocks += [NIST_NOTE, nist_table(runs)]
    except UnavailableError as error:
        blocks.append(f"NIST's score was not measured: {error}.")
    return Section(
        title="24. Pure epsilon, and with a delta",
        blocks=(*blocks, "\n".join(judged)),
        source="NLTCS and NIST's national2019 from the folder that PRIVACY_DATA names, and Adult.",
    )


def distances(data: Data, epsilon: float, delta: float, runs: int) -> tuple[list[float], float]:
    """3-way TVD of each run, and the mean of its CPU seconds."""
    far, seconds = [], []
    for number in range(runs):
        part = dp_tables.split(data, number)
        before = time.process_time()
        method = load_method("latent_class", epsilon=epsilon, delta=delta)
        released = method.release(part.frame, data.schema, np.random.default_rng([22, number])).table
        seconds.append(time.process_time() - before)
        far.append(coded_marginal_tvd(part.train, coded(released, data.schema), 3).mean)
    return far, float(np.mean(seconds))


def nist_table(runs: int) -> str:
    """K-marginal scores at epsilon 1, age in 20 and in 100 bins."""
    frame = nist()
    edges = np.unique(np.quantile(frame[AGE], np.linspace(0, 1, AGE_BINS + 1)[1:-1]))
    rows = []
    for kind in KINDS:
        told = [f"LatentClass, {kind.label}"]
        for bins in (AGE_BINS, YEARS):
            scores = []
            for number in range(runs):
                records, schema = nist_records(frame, edges, bins)
                method = load_method("latent_class", epsilon=1.0, delta=kind.delta)
                released = method.release(records, schema, np.random.default_rng([24, number])).table
                judged = nist_records(frame, edges, AGE_BINS)[1]
                real, made = (coded(_by_age_bin(t, edges, bins), judged) for t in (records, released))
                scores.append(k_marginal(real, made))
            told.append(Mean.of(scores).shown(1))
        rows.append(told)
    return markdown_table(["K-marginal, epsilon 1", f"{AGE_BINS} age bins", f"{YEARS} age bins"], rows)


def nist() -> pd.DataFrame:
    """The ten features; ages as numbers, all others as text.

    Raises:
        UnavailableError: if the table is not there.
    """
    path = Path(os.environ.get("PRIVACY_DATA", "")) / "nist_national2019.parquet"
    if not path.is_file():
        raise UnavailableError(f"{path.name} must lie in the folder that PRIVACY_DATA names")
    frame = pd.read_parquet(path, columns=list(FEATURES))
    return frame.astype(dict.fromkeys(OTHERS, str))


def nist_records(frame: pd.DataFrame, edges: Numbers, bins: int) -> tuple[pd.DataFrame, DataSchema]:
    """The records with age in bins of equal frequency, or in years, and their schema."""
    fields: dict[str, dict[str, object]] = {
        name: {"categories": sorted(frame[name].unique())} for name in OTHERS
    }
    most = len(edges) + 1 if bins == AGE_BINS else YEARS
    fields = {AGE: {"kind": "numeric", "bounds": [0, most], "bins": most}, **fields}
    ages = _bin_of(frame[AGE], edges) if bins == AGE_BINS else frame[AGE]
    return frame.assign(**{AGE: ages}), DataSchema.from_dict(fields)


def _by_age_bin(table: pd.DataFrame, edges: Numbers, bins: int) -> pd.DataFrame:
    ages = np.floor(table[AGE].to_numpy(dtype=np.float64))
    return table.assign(**{AGE: ages if bins == AGE_BINS else _bin_of(ages, edges)})


def _bin_of(ages: npt.ArrayLike, edges: Numbers) -> npt.NDArray[np.int64]:
    return np.searchsorted(edges, np.asarray(ages), side="right")


def k_marginal(real: CodedTable, made: CodedTable) -> float:
    """500 (2 - mean L1 distance of the relative frequencies of all pairs); 1,000 = equal.

    >>> from privacy_engine import DataSchema
    >>> schema = DataSchema.from_dict({"a": {"categories": ["x", "y"]}, "b": {"categories": ["u", "v"]}})
    >>> one, other = (coded(pd.DataFrame({"a": [a], "b": ["u"]}), schema) for a in "xy")
    >>> k_marginal(one, one), k_marginal(one, other)
    (1000.0, 0.0)
    """
    pairs = list(itertools.combinations(range(len(real.sizes)), 2))
    apart = [
        np.abs(contingency(real, pair) / len(real) - contingency(made, pair) / len(made)).sum()
        for pair in pairs
    ]
    return 500 * (2 - float(np.mean(apart)))
