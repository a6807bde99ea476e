"""All rows of a person protected: `max_rows` and `weight: person` beside each other on Synthea's visits."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.intervals import Mean
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table, synthea_visits
from privacy_engine import DataSchema, load_method
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.tables.domains import CodedTable

Marginals = Mapping[tuple[str, str], npt.NDArray[np.float64]]

EPSILONS = (0.5, 1.0, 2.0)
BOUNDS: Mapping[str, Mapping[str, object]] = {
    "`weight: person`": {"weight": "person"},
    "`max_rows: 1`": {"max_rows": 1},
    "`max_rows: 4`": {"max_rows": 4},
    "`max_rows: 16`": {"max_rows": 16},
    "`max_rows: 64`": {"max_rows": 64},
}
COPIES = 100  # of each person in the larger table
CLASSES = (
    *("ambulatory", "emergency", "home", "hospice", "inpatient"),
    *("outpatient", "snf", "urgentcare", "virtual", "wellness"),
)
COUNTIES = (
    *("Barnstable", "Berkshire", "Bristol", "Dukes", "Essex", "Franklin", "Hampden"),
    *("Hampshire", "Middlesex", "Nantucket", "Norfolk", "Plymouth", "Suffolk", "Worcester"),
)
SCHEMA = DataSchema.from_dict(
    {
        "patient": {"role": "identifier"},
        "class": {"categories": CLASSES},
        "county": {"categories": [f"{name} County" for name in COUNTIES]},
        "sex": {"categories": ["F", "M"]},
        "born": {"kind": "ordinal", "bounds": [1900, 2029], "bins": 13},
        "month": {"kind": "ordinal", "bounds": [1, 12]},
        "person": "patient",
    }
)
NOTE = """Synthea's encounters with their patients: {rows:,} visits of {persons:,} persons, of whom one has
{most:,} and the median person {median:,}. Class of the visit, county, sex, decade of birth and month of the
visit, with public domains. LatentClass, epsilon for all rows of one person replaced, the number of persons
public. Total variation distance (%) of the model's marginals of two attributes, mean over the {pairs} pairs
and {runs} measurements with 95 % intervals, to two truths: *persons*, where each person weighs one, and
*rows*, where each visit does. These two are {apart:.1f} % apart, at any epsilon. The second table has
each person {copies} times, as {many:,} persons."""


def visits() -> pd.DataFrame:
    """The visits; UnavailableError if PRIVACY_DATA does not have them."""
    joined = synthea_visits()
    born = pd.to_datetime(joined["BIRTHDATE"]).dt.year
    return pd.DataFrame(
        {
            "patient": joined["PATIENT"].astype("str"),
            "class": joined["ENCOUNTERCLASS"].astype("str"),
            "county": joined["COUNTY"].astype("str"),
            "sex": joined["GENDER"].astype("str"),
            "born": born.astype(np.int64),
            "month": joined["START"].dt.month.astype(np.int64),
        }
    ).reset_index(drop=True)


def repeated(frame: pd.DataFrame, copies: int) -> pd.DataFrame:
    """Each person a number of times, as another one each time."""
    parts = [frame.assign(patient=frame["patient"] + f" {copy}") for copy in range(copies)]
    return pd.concat(parts, ignore_index=True)


def true_marginals(frame: pd.DataFrame, schema: DataSchema, *, by_person: bool) -> Marginals:
    """Exact marginals of two attributes, each visit or each person weighing one."""
    coded = CodedTable.encode(frame, schema)
    rows = frame.groupby("patient")["patient"].transform("size").to_numpy()
    weights = 1 / rows if by_person else np.ones(len(frame))
    found = {}
    for a, b in itertools.combinations(range(len(coded.names)), 2):
        shape = (coded.sizes[a], coded.sizes[b])
        cells = np.ravel_multi_index((coded.codes[a], coded.codes[b]), shape)
        counts = np.bincount(cells, weights, minlength=shape[0] * shape[1]).reshape(shape)
        found[coded.names[a], coded.names[b]] = counts / counts.sum()
    return found


def distance(network: BayesianNetwork, truth: Marginals) -> float:
    """Mean total variation distance of the model's marginals to the true ones."""
    return float(np.mean([_tvd(network.marginal(list(pair)), table) for pair, table in truth.items()]))


def _tvd(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    return float(np.abs(one - other).sum() / 2)


def run(
    table: Table, *, epsilons: Sequence[float] = EPSILONS, runs: int = 5, copies: int = COPIES
) -> Section:
    """Measure and describe; ``table`` is not used."""
    frame = visits()
    each = frame["patient"].value_counts()
    truths = {
        name: true_marginals(frame, SCHEMA, by_person=name == "persons") for name in ("persons", "rows")
    }
    apart = float(np.mean([_tvd(truths["rows"][pair], table) for pair, table in truths["persons"].items()]))
    note = NOTE.format(
        rows=len(frame),
        persons=len(each),
        most=each.max(),
        median=round(each.median()),
        pairs=len(truths["rows"]),
        runs=runs,
        apart=100 * apart,
        copies=copies,
        many=copies * len(each),
    )
    blocks, judged = [note], []
    for people in (frame, repeated(frame, copies)):
        persons = people["patient"].nunique()
        print(f"[dp_persons] {persons:,} persons", flush=True)
        found = measured(people, truths, epsilons, runs)
        blocks += [f"### {persons:,} persons", distances_table(found, epsilons)]
        judged += verdicts(found, epsilons, persons)
    source = "Synthea's synthetic patients and encounters."
    return Section(title="13. All rows of a person", blocks=[*blocks, "\n".join(judged)], source=source)


Found = dict[tuple[str, float, str], Mean]  # bound, epsilon, truth


def measured(
    people: pd.DataFrame, truths: Mapping[str, Marginals], epsilons: Sequence[float], runs: int
) -> Found:
    """The distance of each bound at each epsilon to each truth."""
    found: Found = {}
    for label, bound in BOUNDS.items():
        coded = load_method("latent_class", **bound).coded(people, SCHEMA)
        for epsilon in epsilons:
            method = load_method("latent_class", epsilon=epsilon, **bound)
            networks = [method.measure_coded(coded).network for _ in range(runs)]
            for name, truth in truths.items():
                found[label, epsilon, name] = Mean.of([100 * distance(n, truth) for n in networks])
    return found


def distances_table(found: Found, epsilons: Sequence[float]) -> str:
    """A row a bound."""
    columns = list(itertools.product(epsilons, ("persons", "rows")))
    rows = [[label, *(found[label, e, truth].shown(1) for e, truth in columns)] for label in BOUNDS]
    return markdown_table(["TVD, %", *(f"epsilon {e:g}, {truth}" for e, truth in columns)], rows)


NEAREST: Mapping[str, str] = {"persons": "`weight: person`", "rows": "`max_rows: 64`"}  # that should be


def verdicts(found: Found, epsilons: Sequence[float], persons: int) -> list[str]:
    """Whether each truth is met best by the bound that measures it."""
    judged = []
    for truth, expected in NEAREST.items():
        best = {e: min(BOUNDS, key=lambda label: found[label, e, truth].value) for e in epsilons}
        figures = ", ".join(f"{best[e]} at epsilon {e:g}" for e in epsilons)
        claim = f"of {persons:,} persons, {expected} is nearest to *{truth}*"
        runs = min(mean.runs for mean in found.values())
        good = all(label == expected for label in best.values())
        judged.append(verdict(claim, good, figures, runs=runs))
    return judged
