"""Weekly releases of a table whose people come and go: what is kept over every pair of them, and its loss."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import SENSITIVE, Table
from benchmarks.timing import timed
from privacy_engine import Release, load_method
from privacy_engine.measures.utility import gcp
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.republish import republish
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.verification.cross_release import Membership
from privacy_engine.vocabulary import Departures

K, M, BAR = 5, 3, 1.3
PERSONS, WEEKS, CHURN = 2_000, 52, 0.02
COUNTED = 8  # persons of a core class that are counted at most
INDEPENDENT, DIVERSE = "independent", f"independent, l = {M}"
COUNTERFEITS = 0.05  # of the records, at most
NOTE = """{persons:,} of Adult's records are the people of the first of {weeks} weekly releases. Each week
{churn:.0%} of them leave, drawn at random, and as many of the other records arrive; {bodies:,} people
in all, no one returns. k = {k}, bottom-up recoding inside, eight quasi-identifiers, nothing suppressed
but who is withheld. *Loss*: GCP, where a withheld record costs 1, as a mean of all weeks and in the
last; *times*: the mean against releases that know nothing of each other, with the same k alone and
with l = {m} beside it. *Least*: the fewest persons
that look like a person in any pair of the releases that both hold them, counted for all {pairs:,}
pairs apart from the judge, from true values and boxes in codes (at most {counted} of a core class are
counted). *Reserve*: how many times k a class holds when it is first published.

`unknown`: an attacker has a register of people and all releases, and does not know who left. `known`: they
know who is in which release. Of a class that is published once {left:.0%} are left after {weeks} weeks:
either it begins at about {first:.0f} persons, or the rest are withheld once fewer than k are left of
it. `m = {m}`: the occupations of a person's class stay the same set, of at least {m}, departures
unknown. Without counterfeits classes keep their people, newcomers form classes of their own, and who
would need a counterfeit is withheld for good. With them, at most {share:.0%} of the records, people are
divided into buckets of one set of {m} occupations each, and classes are made within buckets; a counterfeit
costs 1, like a withheld record. What remains is the price of equal sets: a bucket has fewer
people to make classes of, and occupation goes with education, so a class with all of its bucket's
occupations is wide in education."""


@dataclass
class Course:
    """What became of one way to release, week by week."""

    loss: list[float] = field(default_factory=list)
    withheld: list[int] = field(default_factory=list)
    counterfeits: list[int] = field(default_factory=list)
    weeks: list["Week"] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Week:
    """A release in the codes of the whole table.

    Attributes:
        labels: (people,) class of each, -1 = not in it.
        low, high: (classes, q) their boxes, each end the code of a value or node.
        cost: (classes,) what they lose.
        sets: of each class the sensitive values that are published, those of counterfeits among them.
    """

    labels: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    cost: npt.NDArray[np.float64]
    sets: tuple[frozenset[str], ...]


def run(
    table: Table,
    *,
    persons: int = PERSONS,
    weeks: int = WEEKS,
    known: Sequence[float] = (2, 4),
    unknown: Sequence[float] = (1,),
) -> Section:
    """Measure and describe."""
    rng = np.random.default_rng(1)
    order = rng.permutation(len(table.frame))
    leaving = round(CHURN * persons)
    present, fresh, present_in = order[:persons], persons, []
    for week in range(weeks):
        if week:
            stay = rng.choice(present, persons - leaving, replace=False)
            present = np.concatenate([stay, order[fresh : fresh + leaving]])
            fresh += leaving
        present_in.append(np.sort(present))
    if fresh > len(order):
        raise ValueError(f"{fresh} people are needed, the table has {len(order)}; use fewer persons or weeks")
    ways: dict[str, dict[str, Any] | None] = {INDEPENDENT: None, DIVERSE: None}
    ways |= {f"unknown, reserve {r:g}": {"departures": "unknown", "reserve": r} for r in unknown}
    ways |= {f"known, reserve {r:g}": {"departures": "known", "reserve": r} for r in known}
    ways[f"m = {M}"] = {"departures": "unknown", "m": {SENSITIVE: M}}
    filled = {"m": {SENSITIVE: M}, "counterfeits": COUNTERFEITS}
    ways[f"m = {M}, counterfeits"] = {"departures": "unknown", **filled}
    ways[f"m = {M}, counterfeits, known, reserve {known[-1]:g}"] = {
        "departures": "known",
        "reserve": known[-1],
        **filled,
    }
    whole = EncodedTable.encode(table.frame, table.schema)
    with ProcessPoolExecutor(len(ways), mp_context=get_context("spawn")) as pool:
        jobs = {
            name: pool.submit(_course, table, whole, present_in, way, name == DIVERSE)
            for name, way in ways.items()
        }
        courses = {name: job.result() for name, job in jobs.items()}
    for name in ways:
        figures = f"GCP {np.mean(courses[name].loss):.4f}, {courses[name].seconds:.0f} CPU s"
        print(f"[over_time] {name}: {figures}", flush=True)
    return describe(whole, courses, ways, persons, fresh)


def _course(
    table: Table,
    whole: EncodedTable,
    present_in: Sequence[npt.NDArray[np.int64]],
    way: Mapping[str, Any] | None,
    diverse: bool,
) -> Course:
    method, rng = load_method("bottom_up", k=K, l=M if diverse else None), np.random.default_rng(2)
    found, earlier = Course(), list[Membership]()
    place = np.argsort(whole.rows)
    for present in present_in:
        frame, who = table.frame.iloc[present].reset_index(drop=True), present.astype(str).astype(object)
        made: list[Release] = []

        def call(frame: Any = frame, who: Any = who, made: list[Release] = made) -> None:
            if way is None:
                made.append(method.release(frame, table.schema, rng))
            else:
                over_all = RepublicationGuarantee(k=K, **{**way, "departures": Departures(way["departures"])})
                given = {"persons": who, "earlier": earlier, "guarantee": over_all, "limit": 1.0}
                made.append(republish(method, frame, table.schema, rng, **given))

        found.seconds += timed(call)[1]
        (release,) = made
        assert release.rows is not None
        assert release.recoding is not None
        real = release.rows >= 0
        whose = np.where(real, who[release.rows], None)
        earlier.append(Membership.of_table(whose, release.table, release.schema))
        labels = np.full(len(whole), -1)
        labels[place[present[release.rows[real]]]] = earlier[-1].labels
        found.counterfeits.append(int((~real).sum()))
        found.loss.append(gcp(release.recoding) + found.counterfeits[-1] / len(present))
        found.withheld.append(release.recoding.suppressed)
        found.weeks.append(_in_codes(whole, labels, release, place[present]))
    return found


def _in_codes(
    whole: EncodedTable, labels: npt.NDArray[np.int64], release: Release, places: npt.NDArray[np.int64]
) -> Week:
    """The boxes of a release, which has separate codes, in those of the whole table."""
    recoding = release.recoding
    assert recoding is not None
    own, low, high = recoding.encoded, *recoding.spans
    classes = int(labels.max()) + 1
    of_record = labels[places[own.rows]]
    ends = np.zeros((2, classes, len(own.domains)), np.int64)
    shown = recoding.labels >= 0
    for j, domain in enumerate(own.domains):
        for end, codes in zip(ends, (low, high), strict=True):
            released = codes[recoding.labels[shown], j].astype(np.int64)
            if not isinstance(domain, Hierarchy):
                released = np.searchsorted(whole.domains[j].values, domain.values)[released]
            end[of_record[shown], j] = released
    cost = np.zeros(classes)
    geometry = whole.geometry()
    for j, domain in enumerate(own.domains):
        value = geometry.value[geometry.start[j] :]
        cost += (
            value[ends[0, :, j]]
            if isinstance(domain, Hierarchy)
            else value[ends[1, :, j]] - value[ends[0, :, j]]
        )
    sets = _published_sets(release, labels[places], classes)
    return Week(labels=labels, low=ends[0], high=ends[1], cost=cost, sets=sets)


def _published_sets(
    release: Release, labels: npt.NDArray[np.int64], classes: int
) -> tuple[frozenset[str], ...]:
    """The sensitive values of each class, by the released cells; labels (n,) of the rows of the source."""
    assert release.rows is not None
    quasi = [a.name for a in release.schema.quasi_identifiers]
    cells = list(release.table[quasi].astype(str).itertuples(index=False, name=None))
    values: dict[tuple[str, ...], set[str]] = {}
    for cell, value in zip(cells, release.table[SENSITIVE], strict=True):
        values.setdefault(cell, set()).add(str(value))
    cell_of = {int(labels[row]): cell for cell, row in zip(cells, release.rows, strict=True) if row >= 0}
    return tuple(frozenset(values[cell_of[c]]) for c in range(classes))


def least_of_pairs(whole: EncodedTable, weeks: Sequence[Week], *, nested: bool) -> tuple[int, float]:
    """The fewest persons that look like a person in two releases; the share below k in the first two.

    Those who share both classes; and where ``nested``, if they are more, those published in the cheapest
    class that the person was in until the later of the two, as far as their true values lie in both boxes.
    """
    n = len(whole)
    under = [
        np.array([(d.nodes == node).any(axis=1) for node in range(len(d.parent))]).T
        if isinstance(d, Hierarchy)
        else None
        for d in whole.domains
    ]
    cheapest, mates = np.full(n, np.inf), np.full((n, COUNTED), -1)
    least, share = n, 0.0
    for j, week in enumerate(weeks):
        here = np.flatnonzero(week.labels >= 0)
        better = here[week.cost[week.labels[here]] < cheapest[here] - 1e-12]
        cheapest[better] = week.cost[week.labels[better]]
        by_class = np.argsort(week.labels[here], kind="stable")
        ranked, start = (
            here[by_class],
            np.searchsorted(week.labels[here][by_class], np.arange(len(week.cost) + 1)),
        )
        at = start[week.labels[better]][:, None] + np.arange(COUNTED)
        mates[better] = np.where(
            at < start[week.labels[better] + 1][:, None], ranked[np.minimum(at, len(ranked) - 1)], -1
        )
        for i, other in enumerate(weeks[:j]):
            both = np.flatnonzero((week.labels >= 0) & (other.labels >= 0))
            if not len(both):
                continue
            pair = week.labels[both] * len(other.cost) + other.labels[both]
            _, which, sizes = np.unique(pair, return_inverse=True, return_counts=True)
            count = sizes[which]
            if nested:
                few = np.flatnonzero(count < K)
                inside = mates[both[few]] >= 0
                for one in (week, other):
                    inside &= _inside(whole, under, one, both[few], mates[both[few]])
                count[few] = np.maximum(count[few], inside.sum(axis=1))
            least = min(least, int(count.min()))
            if (i, j) == (0, 1):
                share = float((count < K).mean())
    return least, share


def _inside(
    whole: EncodedTable,
    under: Sequence[npt.NDArray[np.bool_] | None],
    week: Week,
    people: npt.NDArray[np.int64],
    mates: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """(p, m) whether the true values of the mates of people (p, m) lie in the people's boxes."""
    found = np.ones(mates.shape, np.bool_)
    for j, tree in enumerate(under):
        value = whole.codes[mates, j]
        low, high = (ends[week.labels[people], j][:, None] for ends in (week.low, week.high))
        found &= (low <= value) & (value <= high) if tree is None else tree[value, low]
    return found


def _keeps_m(weeks: Sequence[Week]) -> bool:
    """Whether the set of values of each person's class is the same in all releases, of at least `M`."""
    sets: dict[int, frozenset[str]] = {}
    for week in weeks:
        if min(map(len, week.sets)) < M:
            return False
        for person in np.flatnonzero(week.labels >= 0).tolist():
            own = week.sets[week.labels[person]]
            if sets.setdefault(person, own) != own:
                return False
    return True


def describe(
    whole: EncodedTable,
    courses: Mapping[str, Course],
    ways: Mapping[str, Mapping[str, Any] | None],
    persons: int,
    bodies: int,
) -> Section:
    """The table, the verdicts and the plot."""
    plain, diverse = (np.array(courses[name].loss) for name in (INDEPENDENT, DIVERSE))
    rows, verdicts, weeks = [], [], len(plain)
    for name, course in courses.items():
        nested = (ways[name] or {}).get("departures") == "unknown"
        least, share = least_of_pairs(whole, course.weeks, nested=nested)
        kept_m = "m" in (ways[name] or {})
        base = diverse if kept_m else plain
        times = float(np.mean(course.loss) / base.mean())
        rows.append(
            (
                name,
                f"{np.mean(course.loss):.4f}",
                f"{course.loss[-1]:.4f}",
                f"{np.mean(course.loss) / plain.mean():.2f}",
                f"{np.mean(course.loss) / diverse.mean():.2f}",
                f"{course.withheld[-1]:,}",
                f"{course.counterfeits[-1]:,}",
                least,
                f"{course.seconds / weeks:.1f}",
            )
        )
        if name == DIVERSE:
            continue
        if ways[name] is None:
            claim = f"independent releases bring people below k = {K} by the first two alone"
            verdicts.append(verdict(claim, share > 0, f"{share:.0%} of those in both"))
            continue
        verdicts.append(
            verdict(f"{name}: every pair of releases keeps k = {K}", least >= K, f"least {least}")
        )
        if kept_m:
            claim = f"{name}: the class of each person has one set of occupations, of at least {M}"
            verdicts.append(verdict(claim, _keeps_m(course.weeks), f"{weeks} releases"))
        beside = f"{name}: the mean loss is at most {BAR:g} times that of independent releases"
        claim = f"{beside} with l = {M}" if kept_m else beside
        verdicts.append(
            verdict(
                claim,
                times <= BAR,
                f"{times:.2f}, in the last week {course.loss[-1] / base[-1]:.2f}",
                runs=1,  # one year
            )
        )
    heads = [
        "",
        "loss, mean",
        "last week",
        "times",
        f"times, l = {M}",
        "withheld, last week",
        "counterfeits",
        "least",
        "CPU s a week",
    ]
    left = (1 - CHURN) ** (weeks - 1)
    note = NOTE.format(
        persons=persons, weeks=weeks, churn=CHURN, bodies=bodies, k=K, m=M, left=left, first=K / left,
        pairs=weeks * (weeks - 1) // 2, counted=COUNTED, share=COUNTERFEITS,
    )  # fmt: skip
    plot = _plot({name: course.loss for name, course in courses.items()})
    blocks = [note, markdown_table(heads, rows), "\n".join(verdicts), "over_time"]
    return Section(title="17. Weekly releases of the same people", blocks=blocks, plots={"over_time": plot})


def _plot(losses: Mapping[str, Sequence[float]]) -> Figure:
    """The loss of each week."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes: Axes = figure.subplots()
    for name, loss in losses.items():
        axes.plot(range(1, len(loss) + 1), loss, "--" if name == INDEPENDENT else "-", label=name)
    axes.set(xlabel="week", ylabel="GCP, a withheld record counts 1", yscale="log")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    return figure
