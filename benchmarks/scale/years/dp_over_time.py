"""A year of weekly differentially private releases of visits: the error of each week, by how they are paid.

Every regime is one function from the weeks to the error of each of them; `REGIMES` lists what is drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.peers.dp_persons import CLASSES, COUNTIES, true_marginals
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table, synthea_visits
from privacy_engine import DataSchema, load_method
from privacy_engine.dp.contributions import person_numbers
from privacy_engine.dp.limits import Period
from privacy_engine.dp.participation import REPLACED, Participation
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork

Marginals = Mapping[tuple[str, str], npt.NDArray[np.float64]]
Errors = list[float]  # of each week, in percent

WEEKS, COPIES, PROMISE = 52, 100, 2.0
TURN = 27  # the first week in which a third of these are virtual:
TURNING = ("ambulatory", "wellness")
BOUND = {"max_rows": 1}
SEED = 7  # of the weeks by which copies are turned; nothing private
YEARS = range(2014, 2024)
SCHEMA = DataSchema.from_dict(
    {
        "patient": {"role": "identifier"},
        "class": {"categories": CLASSES},
        "county": {"categories": [f"{name} County" for name in COUNTIES]},
        "sex": {"categories": ["F", "M"]},
        "born": {"kind": "ordinal", "bounds": [1900, 2029], "bins": 13},
        "person": "patient",
    }
)
# Most ambulatory visits are of few people, who come every week.
POPULATIONS: Mapping[str, tuple[str, ...]] = {
    "All visits": CLASSES,
    "Visits that are not ambulatory": tuple(name for name in CLASSES if name not in ("ambulatory", "home")),
}
PEOPLE = """### {name}

{persons:,} persons, {rows:,.0f} a week in the mean. Half come in at most {median:.0f} weeks, one in ten in at
least {tenth:.0f}; with m = 4 people take part in {kept:.0%} of the weeks in which they come."""
NOTE = """A year of visits by week, made of Synthea's encounters: each of {people:,} years of a patient
stands for {copies} persons, whose weeks are turned by as many at random. So the weeks are alike, but for
one change: from week {turn} on a third of the ambulatory and wellness visits are virtual. Class of the
visit, county, sex and decade of birth; LatentClass, one row a person and week. All rows of one person
replaced by another's lose at most epsilon {promise:g} in the year, whichever way it is spent. *Error*:
total variation distance (%) of the marginals of two attributes to those of all that week's persons, mean
over the {pairs} pairs. *Bias*: the same of the exact counts of those who take part, which no epsilon
repairs: who comes often has taken part before. A skipped week has the last release. With m releases a
person each has epsilon {promise:g} / (2 m): a person and who replaces them may be in different ones."""


@dataclass(frozen=True, kw_only=True)
class Week:
    """The visits of a week, and the exact marginals of its persons."""

    frame: pd.DataFrame
    truth: Marginals


def weeks_of_a_year(classes: Sequence[str], copies: int = COPIES, weeks: int = WEEKS) -> list[Week]:
    """The visits of some classes by week; UnavailableError if PRIVACY_DATA does not have them."""
    joined = synthea_visits()
    start = joined["START"]
    frame = pd.DataFrame(
        {
            "patient": joined["PATIENT"].astype("str") + " " + start.dt.year.astype("str"),
            "class": joined["ENCOUNTERCLASS"].astype("str"),
            "county": joined["COUNTY"].astype("str"),
            "sex": joined["GENDER"].astype("str"),
            "born": pd.to_datetime(joined["BIRTHDATE"]).dt.year.astype(np.int64),
            "week": np.minimum((start.dt.day_of_year - 1) // 7, WEEKS - 1),
        }
    )[start.dt.year.isin(YEARS) & joined["ENCOUNTERCLASS"].isin(classes)]
    rng = np.random.default_rng(SEED)
    people = frame["patient"].unique()
    parts = []
    for copy in range(copies):
        turned = pd.Series(rng.integers(0, WEEKS, len(people)), index=people)
        week = (frame["week"] + frame["patient"].map(turned)) % WEEKS
        parts.append(frame.assign(patient=frame["patient"] + f" {copy}", week=week))
    year = pd.concat(parts, ignore_index=True)
    late = (year["week"] >= TURN - 1) & year["class"].isin(TURNING)
    year.loc[late & (rng.random(len(year)) < 1 / 3), "class"] = "virtual"
    found = []
    for number in range(weeks):
        own = year[year["week"] == number].drop(columns="week").reset_index(drop=True)
        found.append(Week(frame=own, truth=true_marginals(own, SCHEMA, by_person=True)))
    return found


def error(network: BayesianNetwork, truth: Marginals) -> float:
    """Mean total variation distance of a model's marginals, %."""
    return apart({pair: network.marginal(list(pair)) for pair in truth}, truth)


def apart(found: Marginals, truth: Marginals) -> float:
    """Mean total variation distance of two sets of marginals, %."""
    return 100 * float(np.mean([np.abs(found[pair] - truth[pair]).sum() / 2 for pair in truth]))


def first_releases(weeks: Sequence[Week], promise: float, releases: int) -> Errors:
    """Equal parts of the promise for a number of releases; then every week has the last of them."""
    method = load_method("latent_class", epsilon=promise / releases, **BOUND)
    errors, network = [], None
    for number, week in enumerate(weeks):
        if number < releases or network is None:
            network = method.measure(week.frame, SCHEMA).network
        errors.append(error(network, week.truth))
    return errors


def taking_part(weeks: Sequence[Week], releases: int) -> list[npt.NDArray[np.bool_]]:
    """(n,) of each week: whose rows are in its release, where no one is in more than N of the year."""
    rule = Participation(releases=releases, period=Period())
    earlier: list[npt.NDArray[np.int64]] = []
    found = []
    for week in weeks:
        persons = person_numbers(week.frame["patient"])
        kept = rule.takes_part(persons, earlier)
        earlier.append(np.unique(persons[kept]))
        found.append(kept)
    return found


def participation(weeks: Sequence[Week], promise: float, releases: int) -> Errors:
    """Every week is released, of persons who took part in fewer than a given number; 1 is `arrivals`."""
    method = load_method("latent_class", epsilon=promise / (REPLACED * releases), **BOUND)
    errors = []
    for week, kept in zip(weeks, taking_part(weeks, releases), strict=True):
        model = method.measure_participants(method.coded_participants(week.frame, SCHEMA, kept))
        errors.append(error(model.network, week.truth))
    return errors


def bias(weeks: Sequence[Week], releases: int) -> Errors:
    """What the exact marginals of those who take part are apart from those of all."""
    kept = taking_part(weeks, releases)
    return [
        apart(true_marginals(week.frame[k].reset_index(drop=True), SCHEMA, by_person=True), week.truth)
        if k.any()
        else 100.0
        for week, k in zip(weeks, kept, strict=True)
    ]


Regime = Callable[[Sequence[Week], float], Errors]
REGIMES: Mapping[str, Regime] = {
    "ten weeks, then skip": lambda weeks, promise: first_releases(weeks, promise, 10),
    "equal parts": lambda weeks, promise: first_releases(weeks, promise, WEEKS),
    "m = 8": lambda weeks, promise: participation(weeks, promise, 8),
    "m = 4": lambda weeks, promise: participation(weeks, promise, 4),
    "m = 2": lambda weeks, promise: participation(weeks, promise, 2),
    "arrivals (m = 1)": lambda weeks, promise: participation(weeks, promise, 1),
}
BIASED: Mapping[str, int] = {"m = 8": 8, "m = 4": 4, "m = 2": 2, "arrivals (m = 1)": 1}


def run(table: Table, *, weeks: int = WEEKS, copies: int = COPIES, promise: float = PROMISE) -> Section:
    """Release a year in each way and describe it; ``table`` is not used."""
    blocks, judged, drawn = [], [], {}
    for name, classes in POPULATIONS.items():
        year = weeks_of_a_year(classes, copies, weeks)
        courses: dict[str, Errors] = {}
        for regime, released in REGIMES.items():
            courses[regime] = released(year, promise)
            print(f"[dp_over_time] {name}, {regime}: {np.mean(courses[regime]):.1f} %", flush=True)
        blocks += [_people(name, year), _table(year, courses)]
        drawn[name] = courses
        four = np.mean(courses["m = 4"])
        for other in ("equal parts", "ten weeks, then skip"):
            beside = np.mean(courses[other])
            claim = f"{name.lower()}: a release every week with m = 4 has less error than {other}"
            figures = f"{four:.1f} % against {beside:.1f} %"
            judged.append(verdict(claim, four < beside, figures, runs=1))  # one year, whose noise is random
    note = NOTE.format(
        people=len(synthea_years()),
        copies=copies,
        turn=TURN,
        promise=promise,
        pairs=len(year[0].truth),
    )
    return Section(
        title="22. Weekly private releases of a year",
        blocks=[note, *blocks, "\n".join(judged), "dp_over_time"],
        plots={"dp_over_time": _plot(drawn)},
        source="Synthea's synthetic patients and encounters.",
    )


def synthea_years() -> pd.Series:
    """How many visits each patient has in each year."""
    joined = synthea_visits()
    years = joined["START"].dt.year
    return joined[years.isin(YEARS)].groupby(["PATIENT", years]).size()


def _people(name: str, year: Sequence[Week]) -> str:
    each = pd.concat([week.frame.assign(week=i) for i, week in enumerate(year)])
    visited = each.groupby("patient")["week"].nunique()
    return PEOPLE.format(
        name=name,
        persons=len(visited),
        rows=visited.sum() / len(year),
        median=visited.median(),
        tenth=visited.quantile(0.9),
        kept=visited.clip(upper=4).sum() / visited.sum(),
    )


def _table(year: Sequence[Week], courses: Mapping[str, Errors]) -> str:
    late = slice(len(year) // 2, None)
    rows = []
    for name, errors in courses.items():
        missed = bias(year, BIASED[name]) if name in BIASED else [0.0] * len(year)
        figures = (
            np.mean(errors),
            np.mean(errors[late]),
            np.max(errors),
            np.mean(missed),
            np.mean(missed[late]),
        )
        rows.append((name, *(f"{figure:.1f}" for figure in figures)))
    return markdown_table(["", "error, %", "second half", "worst week", "bias, %", "second half"], rows)


def _plot(drawn: Mapping[str, Mapping[str, Errors]]) -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (name, courses) in zip(figure.subplots(1, len(drawn), sharey=True), drawn.items(), strict=True):
        for regime, errors in courses.items():
            axes.plot(range(1, len(errors) + 1), errors, label=regime)
        axes.set(title=name, xlabel="week", ylim=(0, None))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("error of the week, %")
    figure.axes[0].legend(frameon=False, ncols=2, fontsize="small")
    return figure
