"""A year of weekly releases that no attacker can subtract: what is found, and what it costs.

``python -m benchmarks.scale.years.incremental PERSONS`` measures the speed and prints a line of JSON.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.processes import answer_of
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import SENSITIVE, Table, adult, enlarged
from privacy_engine.attacks.trial import Evidence, case_of
from privacy_engine.measures.utility import gcp
from privacy_engine.registry import load_attack, load_method
from privacy_engine.release import Release
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.incremental import LastRelease, release_incrementally
from privacy_engine.republication.republish import republish
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.verification.cross_release import History, Membership, MInvariance
from privacy_engine.verification.republication.model import Republication
from privacy_engine.vocabulary import Departures

Ints = npt.NDArray[np.int64]
METHODS = ("bottom_up", "mondrian", "obpa", "ilp_l_diversity")  # in turn
K, M, WEEKS, PERSONS = 5, 3, 52, 1_000
MOVED, CORRECTED, BACK = 0.01, 0.005, 0.002  # of the persons in a week; of all who left, who return
CASES = ((0.02, 4, 1.0), (0.02, 8, 2.0), (0.05, 4, 1.0), (0.05, 8, 2.0))  # churn, hold_back, reserve
SPEED_AT, SPEED_WEEKS = (30_000, 1_000_000), 4
UNIQUE_CASES = tuple(  # churn, departures, k, reserve
    (churn, *own)
    for churn in (0.02, 0.05)
    for own in (("unknown", M, 1.0), ("unknown", K, 1.0), ("known", K, 2.0))
)
BAR = 1.6  # times the loss of releases that know nothing of each other
NOTE = """{persons:,} of Adult's records are the people of the first of {weeks} weekly releases. Each
week a share of them (*churn*) leaves, drawn at random, and as many arrive; {back:.1%} of those
who left return, {moved:.0%} of the present get the age of another record, and {corrected:.1%}
its occupation. Methods in turn: {methods}. k = {k}, m = {m}, against the attackers identity,
membership, difference and correction, the newest 8 releases subtracted. Nothing limits who is
withheld.

*Found*: persons whose value the attack `difference` makes certain by subtraction, in all weeks together.
*Least*: the fewest persons left to an attacker in any week. *Held back*: persons who wait, as a share of
the persons present, mean of all weeks and in the last; *weeks*: that those wait who are published in the
end. *Outdated*: as a share of the published records, of persons who left, moved or were corrected, and
whose class is published as it was. *Withheld*: persons who fit no class and do not wait. *Loss*: GCP, in
which a withheld person costs 1 and so does one whose record is outdated; *times*: against releases by
the same methods, with l = {m}, that know nothing of each other. No counterfeits are made."""
UNIQUE_NOTE = """The same people in *m-unique* classes, the paper's option (`m_invariance` with `unique`,
m = {m}, and any number of counterfeits): no class has a value twice, and a person keeps one set of values.
k counts persons, so a class has at least k different values. *Departures*: whether it is known who left; if
it is, classes need a *reserve*. A person whose occupation is corrected to a value outside of the set is
withheld from then on. *Found*: as above. *Least*: the fewest persons left in any week, by that reading of
departures. *Values*: the fewest values of a person's class that are the same in all weeks. *Counterfeits*:
as a share of the published records. *Loss*: a withheld person and a counterfeit cost 1; *times*: against
releases by `bottom_up` with the same k and l = {m} that know nothing of each other. Shares and losses are
the mean of all weeks and the last one."""


@dataclass
class Course:
    """What became of a year, week by week."""

    loss: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    outdated: list[float] = field(default_factory=list)
    withheld: list[float] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)
    counterfeits: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    found: int = 0
    seconds: float = 0.0


def weekly(
    table: Table, persons: int, weeks: int, churn: float
) -> Iterator[tuple[npt.NDArray[np.object_], pd.DataFrame]]:
    """Persons and their records, week by week."""
    rng, frame = np.random.default_rng(1), table.frame
    order = rng.permutation(len(frame))
    known = frame.iloc[order].reset_index(drop=True)
    here, away, fresh = np.arange(persons), np.zeros(0, np.int64), persons
    for week in range(weeks):
        if week:
            gone = rng.choice(here, round(churn * len(here)), replace=False)
            back = rng.choice(away, round(BACK * len(away)), replace=False)
            come = fresh + np.arange(len(gone) - len(back))
            fresh += len(come)
            here = np.concatenate([np.setdiff1d(here, gone), back, come])
            away = np.concatenate([np.setdiff1d(away, back), gone])
            for share, name in ((MOVED, "age"), (CORRECTED, SENSITIVE)):
                some, others = rng.choice(here, (2, max(round(share * len(here)), 1)), replace=False)
                known.loc[some % len(known), name] = known[name].to_numpy()[others % len(known)]
        yield here.astype(str).astype(object), known.iloc[here % len(known)].reset_index(drop=True)


def year(
    table: Table,
    *,
    persons: int = PERSONS,
    weeks: int = WEEKS,
    churn: float,
    hold_back: int,
    reserve: float,
    methods: Sequence[str] = METHODS,
    attacked: bool = True,
) -> Course:
    """Make and judge a year of releases."""
    model, found = Republication(k=K, m=M), Course()
    earlier, last, waited = list[Membership](), None, dict[str, int]()
    for week, (who, frame) in enumerate(weekly(table, persons, weeks, churn)):
        method = load_method(methods[week % len(methods)], k=K, l=M)
        rng, began = np.random.default_rng(week), time.process_time()
        made = release_incrementally(
            method,
            frame,
            table.schema,
            rng,
            persons=who,
            earlier=earlier,
            last=last,
            across=[model],
            hold_back=hold_back,
            waited=waited,
            reserve=reserve,
            limit=1.0,
        )
        found.seconds += time.process_time() - began
        assert made.rows is not None
        everybody = who if last is None else np.concatenate([who, last.persons])
        whose = everybody[made.rows]
        classes = EquivalenceClasses.of_table(made.table, made.schema)
        member = Membership.of_classes(whose, classes, made.table, made.schema)
        if attacked:
            found.least.append(_least(model, member, earlier, classes, table))
            found.found += _certain(member, earlier, made, frame, table)
            found.alone.append(_alone(table, frame, methods[week % len(methods)], rng))
            assert made.recoding is not None
            found.loss.append(gcp(made.recoding))
        shown = set(whose)
        found.waited += [waited[p] for p in shown & waited.keys()]
        waited = {p: waited.get(p, 0) + 1 for p in who if p not in shown}
        for name, of in (("held", len(frame)), ("outdated", len(made.table)), ("withheld", len(frame))):
            note = {"held": "held_back"}.get(name, name)
            getattr(found, name).append(made.notes[note] / of)
        earlier.append(member)
        last = LastRelease(table=made.table, persons=whose)
    return found


def unique_year(
    table: Table,
    *,
    persons: int = PERSONS,
    weeks: int = WEEKS,
    churn: float,
    departures: str,
    k: int,
    reserve: float,
) -> Course:
    """Make and judge a year of releases in m-unique classes, with counterfeits."""
    found, earlier = Course(), list[Membership]()
    reading, m = Departures(departures), MInvariance(m=M, attribute=SENSITIVE, unique=True)
    for week, (who, frame) in enumerate(weekly(table, persons, weeks, churn)):
        rng = np.random.default_rng(week)
        made = republish(
            load_method("bottom_up", k=k),
            frame,
            table.schema,
            rng,
            persons=who,
            earlier=earlier,
            guarantee=RepublicationGuarantee(
                k=k,
                m={SENSITIVE: M},
                departures=reading,
                reserve=reserve,
                counterfeits=1.0,
                unique=True,
            ),
            limit=1.0,
        )
        assert made.rows is not None
        assert made.recoding is not None
        whose = np.append(who, None)[made.rows]  # -1 = a counterfeit
        classes = EquivalenceClasses.of_table(made.table, made.schema)
        member = Membership.of_classes(whose, classes, made.table, made.schema)
        history = History(new=member, earlier=tuple(earlier), source=table.schema)
        found.least.append(float(history.candidates(reading).min()))
        found.values.append(float(m.per_person(history, classes).min()))
        found.found += _certain(member, earlier, made, frame, table)
        found.counterfeits.append(made.notes["counterfeits"] / len(made.table))
        found.withheld.append(made.notes["withheld"] / len(frame))
        found.loss.append(gcp(made.recoding) + made.notes["counterfeits"] / len(frame))
        found.alone.append(_alone(table, frame, "bottom_up", rng, k))
        earlier.append(member)
    return found


def _least(
    model: Republication,
    member: Membership,
    earlier: Sequence[Membership],
    classes: EquivalenceClasses,
    table: Table,
) -> float:
    history = History(new=member, earlier=tuple(earlier), source=table.schema)
    return float(model.per_person(history, classes).min())


def _certain(
    member: Membership, earlier: Sequence[Membership], made: Release, frame: pd.DataFrame, table: Table
) -> int:
    """Values that the attack makes certain."""
    if not earlier:
        return 0
    evidence = Evidence(
        release=made.table,
        source=table.schema,
        people=frame,
        outsiders=frame.head(1),
        memberships=(member, *earlier[-8:]),
    )
    rng = np.random.default_rng(1)
    tries = load_attack("difference").tries(case_of(evidence, rng), rng)
    return round(sum(own.main.right - own.control.right for own in tries.values()))


def _alone(table: Table, frame: pd.DataFrame, method: str, rng: np.random.Generator, k: int = K) -> float:
    """The loss of a release that knows nothing of the others."""
    release = load_method(method, k=k, l=M).release(frame, table.schema, rng)
    assert release.recoding is not None
    return gcp(release.recoding)


def run(
    table: Table,
    *,
    cases: Sequence[tuple[float, int, float]] = CASES,
    unique: Sequence[tuple[float, str, int, float]] = UNIQUE_CASES,
    persons: int = PERSONS,
    weeks: int = WEEKS,
    sizes: Sequence[int] = SPEED_AT,
) -> Section:
    """Measure and describe."""
    courses = {}
    for churn, hold_back, reserve in cases:
        own = year(table, persons=persons, weeks=weeks, churn=churn, hold_back=hold_back, reserve=reserve)
        courses[churn, hold_back, reserve] = own
        print(f"[incremental] {churn:.0%}, {hold_back}, {reserve}: {_row(own)}", flush=True)
    filled = {}
    for churn, departures, k, reserve in unique:
        own = unique_year(
            table, persons=persons, weeks=weeks, churn=churn, departures=departures, k=k, reserve=reserve
        )
        filled[churn, departures, k, reserve] = own
        print(f"[incremental] m-unique {churn:.0%}, {departures}, {k}: {_unique_row(own)}", flush=True)
    return describe(courses, filled, {size: _speed_apart(size) for size in sizes}, persons, weeks)


def describe(
    courses: dict[tuple[float, int, float], Course],
    filled: dict[tuple[float, str, int, float], Course],
    speed: dict[int, tuple[float, float, float]],
    persons: int,
    weeks: int,
) -> Section:
    """The section of these figures."""
    heads = [
        "churn",
        "hold_back",
        "reserve",
        "found",
        "least",
        "held back",
        "weeks",
        "outdated",
        "withheld",
        "loss",
        "times",
    ]
    rows = [[f"{c:.0%}", str(h), f"{r:g}", *_row(own)] for (c, h, r), own in courses.items()]
    fast = [
        [f"{n:,}", f"{first:.0f}", f"{later:.0f}", f"{memory:.2f}"]
        for n, (first, later, memory) in speed.items()
    ]
    times = [np.mean(own.loss) / np.mean(own.alone) for own in courses.values()]
    verdicts = [
        verdict(
            "no value is certain by subtraction", not sum(c.found for c in courses.values()), f"{weeks} weeks"
        ),
        verdict(
            f"every person is left with k = {K} at least",
            min(min(own.least) for own in courses.values()) >= K,
            f"{min(min(own.least) for own in courses.values()):g}",
        ),
        verdict(
            f"the loss is at most {BAR:g} times that of independent releases",
            max(times) <= BAR,
            ", ".join(f"{own:.1f}" for own in times),
            runs=1,  # one year for each case
        ),
    ]
    note = NOTE.format(
        persons=persons,
        weeks=weeks,
        back=BACK,
        moved=MOVED,
        corrected=CORRECTED,
        methods=", ".join(METHODS),
        k=K,
        m=M,
    )
    blocks = [note, markdown_table(heads, rows)]
    if fast:
        blocks.append(f"Bottom-up, {SPEED_WEEKS} weeks, churn 5 %, the records resampled:")
        blocks.append(markdown_table(["persons", "first, CPU s", "each later, CPU s", "memory, GB"], fast))
    if filled:
        blocks += [UNIQUE_NOTE.format(m=M), _unique_table(filled)]
        verdicts += _unique_verdicts(filled, weeks)
    blocks.append("\n".join(verdicts))
    return Section(title="31. Releases that cannot be subtracted", blocks=blocks)


def _unique_table(filled: dict[tuple[float, str, int, float], Course]) -> str:
    heads = ["churn", "departures", "k", "reserve", "found", "least", "values"]
    heads += ["counterfeits", "withheld", "loss", "times"]
    rows = [[f"{c:.0%}", d, str(k), f"{r:g}", *_unique_row(own)] for (c, d, k, r), own in filled.items()]
    return markdown_table(heads, rows)


def _unique_verdicts(filled: dict[tuple[float, str, int, float], Course], weeks: int) -> list[str]:
    least = {key: min(own.least) for key, own in filled.items()}
    values = [min(own.values) for own in filled.values()]
    times = [np.mean(own.loss) / np.mean(own.alone) for own in filled.values()]
    return [
        verdict(
            "no value is certain by subtraction from m-unique classes",
            not sum(own.found for own in filled.values()),
            f"{weeks} weeks",
        ),
        verdict(
            "m-unique classes leave every person k persons",
            all(found >= k for (_, _, k, _), found in least.items()),
            ", ".join(f"{found:g}" for found in least.values()),
        ),
        verdict(
            f"they keep at least m = {M} values for every person",
            min(values) >= M,
            ", ".join(f"{found:g}" for found in values),
        ),
        verdict(
            f"their loss is at most {BAR:g} times that of independent releases",
            max(times) <= BAR,
            ", ".join(f"{own:.1f}" for own in times),
            runs=1,  # one year for each case
        ),
    ]


def _shares(values: Sequence[float]) -> str:
    """The mean of all weeks, and the last one."""
    return f"{np.mean(values):.1%}, {values[-1]:.1%}"


def _unique_row(own: Course) -> list[str]:
    """The figures of a year in m-unique classes."""
    return [
        str(own.found),
        f"{min(own.least):g}",
        f"{min(own.values):g}",
        _shares(own.counterfeits),
        _shares(own.withheld),
        f"{np.mean(own.loss):.3f}, {own.loss[-1]:.3f}",
        f"{np.mean(own.loss) / np.mean(own.alone):.1f}",
    ]


def _row(own: Course) -> list[str]:
    """The figures of a year."""
    return [
        str(own.found),
        f"{min(own.least):g}",
        _shares(own.held),
        f"{np.mean(own.waited):.1f}" if own.waited else "-",
        _shares(own.outdated),
        _shares(own.withheld),
        f"{np.mean(own.loss):.3f}, {own.loss[-1]:.3f}",
        f"{np.mean(own.loss) / np.mean(own.alone):.1f}",
    ]


def _speed_apart(persons: int) -> tuple[float, float, float]:
    first, later, memory = answer_of("scale.years.incremental", str(persons))
    return first, later, memory


def main(persons: int) -> None:
    """Measure CPU seconds of the first and of a later release, and the memory; print them."""
    table = adult()
    if persons * 2 > len(table.frame):
        table = enlarged(table, persons * 2, np.random.default_rng(1))
    given = {"persons": persons, "churn": 0.05, "hold_back": 4, "reserve": 1.0, "attacked": False}
    first = year(table, weeks=1, methods=METHODS[:1], **given).seconds  # type: ignore[arg-type]
    whole = year(table, weeks=SPEED_WEEKS, methods=METHODS[:1], **given).seconds  # type: ignore[arg-type]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps([first, (whole - first) / (SPEED_WEEKS - 1), memory]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
