"""A standing population released every week for a year: error by week of each way to keep one promise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks import dp_tables
from benchmarks.intervals import Mean
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import equal_part
from privacy_engine.dp.zcdp import epsilon_of_part, zcdp_rho
from privacy_engine.measures.synthetic_utility import coded, coded_marginal_tvd
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.repeated.following import followed, opened
from privacy_engine.tables.domains import CodedTable

EPSILON, DELTA, WEEKS, MOVED, DRIFTING = 1.0, 1e-9, 52, 0.02, 0.8
PROMISE = PrivacyLoss(epsilon=EPSILON, delta=DELTA, neighbours=Neighbours.REPLACE_ONE)
FIRST = 0.5  # part of rho that chooses the tables and measures the first release
SHOWN = (1, 4, 10, 20, 36, 52)
NOTE = """{people:,} of Adult's records are the people of the first week. Each week {moved:.0%} of them are
replaced. The promise is epsilon {epsilon:g} (delta {delta:g} where rho's are added) of a person who is in all
{weeks} weeks. *Error*: mean total variation distance of marginals of the released records to the table of the
week; means of {runs} runs{intervals}.

*ten weeks*: epsilon / 10 each, then the last release stands. *pure parts*: epsilon / {weeks} a week.
*zCDP parts*: rho / {weeks} a week, with Gaussian noise. *same tables*: half of rho chooses and measures
tables in the first week; the other half measures them again in each later week, and the estimates are
smoothed over time."""
MOVING = {
    False: "Those who come are like those who leave",
    True: f"{DRIFTING:.0%} of those who come are married, half of all at first",
}
Floats = npt.NDArray[np.float64]
Week = npt.NDArray[np.int64]
Course = Callable[["Stream", Sequence[int]], Iterator[BayesianNetwork]]


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Who is in the table week by week.

    Attributes:
        coded: the records that people have.
        weeks: (weeks,) each (people,) rows of `coded`, one a person.
        people: (weeks,) each (people,) who they are.
    """

    coded: CodedTable
    weeks: tuple[Week, ...]
    people: tuple[Week, ...]


def stream(rng: np.random.Generator, *, people: int, drift: bool, weeks: int = WEEKS) -> Stream:
    """People with records of Adult who come and go; with `drift`, who comes is most often married."""
    data = dp_tables.adult()
    married = np.flatnonzero(data.frame["marital-status"] == "Married-civ-spouse")
    n, moving = len(data.frame), round(MOVED * people)
    records, who = rng.choice(n, people, replace=people > n), np.arange(people)
    by_week, people_by_week = [records], [who]
    for _ in range(weeks - 1):
        stay = rng.choice(people, people - moving, replace=False)
        coming = rng.choice(n, moving)
        if drift:
            coming = np.where(rng.random(moving) < DRIFTING, rng.choice(married, moving), coming)
        records = np.concatenate([records[stay], coming])
        who = np.concatenate([who[stay], who.max() + 1 + np.arange(moving)])
        by_week.append(records)
        people_by_week.append(who)
    return Stream(coded=coded(data.frame, data.schema), weeks=tuple(by_week), people=tuple(people_by_week))


def of_rows(table: CodedTable, rows: Week) -> CodedTable:
    """The records of a week."""
    return replace(table, codes=np.ascontiguousarray(table.codes[:, rows]))


def pure(epsilon: float) -> PrivacyLoss:
    """A loss of pure epsilon."""
    return PrivacyLoss(epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE)


def method(loss: PrivacyLoss) -> LatentClass:
    """LatentClass of that loss."""
    return LatentClass(epsilon=loss.epsilon, delta=loss.delta, fits=2)


def parts(loss: PrivacyLoss, last: int) -> Course:
    """The first weeks are measured with that loss each; then the last release stands."""

    def course(made: Stream, shown: Sequence[int]) -> Iterator[BayesianNetwork]:
        for week in shown:  # what no one looks at is not measured here: weeks do not share anything
            yield method(loss).learn(of_rows(made.coded, made.weeks[min(week, last) - 1]))[0]

    return course


def same_tables(made: Stream, shown: Sequence[int]) -> Iterator[BayesianNetwork]:
    """Tables are chosen in the first week, and measured again in each later one."""
    rho = zcdp_rho(EPSILON, DELTA)
    parts_of_rho = (FIRST * rho, (1 - FIRST) * rho / (len(made.weeks) - 1))
    first, each = (
        PrivacyLoss.within(epsilon_of_part(part, DELTA), DELTA, Neighbours.REPLACE_ONE)
        for part in parts_of_rho
    )
    models: list[SynthesizerModel] = []
    for week, rows in enumerate(made.weeks[: max(shown)], start=1):
        table = of_rows(made.coded, rows)
        if not models:
            models.append(opened(method(first), table))
        else:
            models.append(followed(method(each), table, models[0], models[1:]))
        if week in shown:
            yield models[-1].network


COURSES: Mapping[str, Course] = {
    "ten weeks": parts(pure(EPSILON / 10), 10),
    "pure parts": parts(pure(EPSILON / WEEKS), WEEKS),
    "zCDP parts": parts(equal_part(PROMISE, WEEKS, gaussian=True), WEEKS),
    "same tables": same_tables,
}


def errors_by_week(
    course: Course, made: Stream, rng: np.random.Generator, shown: Sequence[int], widths: Sequence[int]
) -> Floats:
    """(widths, weeks) of the weeks that are shown."""
    found = []
    for week, network in zip(shown, course(made, shown), strict=True):
        table = of_rows(made.coded, made.weeks[week - 1])
        drawn = network.sample(len(made.weeks[week - 1]), rng)[: len(table.sizes)]
        released = replace(table, codes=np.ascontiguousarray(drawn.astype(table.codes.dtype)))
        found.append([coded_marginal_tvd(table, released, width).mean for width in widths])
    return np.array(found).T


def run(
    _: Table,
    *,
    runs: int = 5,
    people: int = 30_000,
    shown: Sequence[int] = SHOWN,
    courses: Sequence[str] = tuple(COURSES),
    widths: Sequence[int] = (2, 3),
) -> Section:
    """Both kinds of change, every regime."""
    blocks = [
        NOTE.format(
            people=people,
            moved=MOVED,
            epsilon=EPSILON,
            delta=DELTA,
            weeks=WEEKS,
            runs=runs,
            intervals=" with 95 % intervals" if runs > 2 else "",
        )
    ]
    better = []
    for drift, moving in MOVING.items():
        errors: dict[str, Floats] = {}  # (runs, widths, weeks) of a regime
        for name in courses:
            by_run = []
            for number in range(runs):
                rng = np.random.default_rng([29, number])
                made = stream(rng, people=people, drift=drift)
                by_run.append(errors_by_week(COURSES[name], made, rng, shown, widths))
            errors[name] = np.array(by_run)
            lines = [_row(name, errors[name][:, place]) for place in range(len(widths))]
            print(f"[dp_standing] {moving}: {lines}", flush=True)
        if {"same tables", "ten weeks", "pure parts"} <= set(courses):
            mean = {name: found[:, 0].mean() for name, found in errors.items()}
            better.append(mean["same tables"] < min(mean["ten weeks"], mean["pure parts"]))
        head = ("regime", *(f"week {week}" for week in shown), "mean of these")
        for place, width in enumerate(widths):
            rows = [_row(name, found[:, place]) for name, found in errors.items()]
            blocks += [f"### {moving}: {width}-way marginals", markdown_table(head, rows)]
    if better:
        claim = "following the same tables is nearer, over the year, than ten weeks and than pure parts"
        figures = f"{sum(better)} of {len(better)} kinds of change"
        blocks.append(verdict(claim, all(better), figures, runs=runs))
    return Section(
        title="23. A standing population, released every week for a year",
        blocks=tuple(blocks),
        source="Adult, 14 columns, without missing values.",
    )


def _row(name: str, errors: Floats) -> tuple[str, ...]:
    """Of a regime's errors (runs, weeks)."""
    return (name, *(str(Mean.of(list(week))) for week in errors.T), str(Mean.of(list(errors.mean(axis=1)))))
