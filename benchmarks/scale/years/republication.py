"""How long the judge of releases over time takes on a year of weekly releases, and how much memory.

``python -m benchmarks.scale.years.republication PERSONS RELEASES`` judges such releases and prints a line of
JSON.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.processes import answer_of
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from privacy_engine.tables.classes import EquivalenceClasses, SensitiveColumn
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_engine.verification.republication.model import Republication

SIZES = (100_000, 1_000_000)
RELEASES, CHURN = 52, 0.05
BATCH, VALUES, M = 10, 20, 3  # persons who arrive as one class, sensitive values, and how many are asked for
JOINED = 0.1  # of the classes, each joined with another one in a release
CPU, MEMORY = 20 * 60, 2.0  # seconds for all releases, and GB
NOTE = """{releases} releases of {sizes} persons. Persons arrive in batches of {batch} and leave in
batches, {churn:.0%} a release, so that each release keeps the model; a class is one batch, or two that are
joined for one release ({joined:.0%} of them). One sensitive attribute of {values} values. Each release is
judged as verification does: for the attackers identity, membership and difference, k = {batch}, m = {m},
against all earlier releases, the newest 8 of which are subtracted. *One more*: in the last release one more
person joins a class of others, which the judge must find. Memory is the largest of the process, with Python
and its libraries."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What judging all releases took.

    Attributes:
        cpu: seconds of the process for all releases.
        slowest: seconds of the slowest one.
        memory: largest resident memory of the process, GB.
        kept: releases in which every person is left at least k persons.
        found: rows that fail where one more person joins a class.
    """

    cpu: float
    slowest: float
    memory: float
    kept: int
    found: int


def weekly(
    persons: int, releases: int, rng: np.random.Generator
) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]]:
    """Persons, classes and values of each release."""
    batches = np.arange(persons // BATCH)
    fresh, changed = len(batches), max(round(CHURN * len(batches)), 1)
    for week in range(releases):
        if week:
            gone = rng.choice(batches, changed, replace=False)
            batches = np.concatenate([np.setdiff1d(batches, gone), np.arange(fresh, fresh + changed)])
            fresh += changed
        joined = rng.choice(len(batches), 2 * round(JOINED * len(batches) / 2), replace=False).reshape(2, -1)
        classes = np.arange(len(batches))
        classes[joined[0]] = joined[1]
        people = (batches[:, None] * BATCH + np.arange(BATCH)).ravel()
        order = rng.permutation(len(people))
        labels = np.unique(np.repeat(classes, BATCH), return_inverse=True)[1]
        yield people[order].astype(np.int32), labels[order].astype(np.int32), _values(people[order])


def _values(people: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sensitive value of each person, the same in all releases, M or more in each batch."""
    batch, place = np.divmod(people, BATCH)
    drawn = (people * 2_654_435_761 >> 7) % VALUES
    return np.where(place < M, (batch * 7 + place * 5) % VALUES, drawn)


def membership(
    persons: npt.NDArray[np.int32], labels: npt.NDArray[np.int32], values: npt.NDArray[np.int64]
) -> Membership:
    """A release as it is kept: without the values of its persons."""
    texts = [str(value) for value in range(VALUES)]
    counts = ClassValues.of_records(labels.astype(np.int64), values, texts)
    return Membership(persons=persons, labels=labels, counts={"disease": counts})


def measure(persons: int, releases: int = RELEASES) -> Figures:
    """Judge release after release."""
    rng, model = np.random.default_rng(1), Republication(k=BATCH, m=M)
    earlier, taken, kept = list[Membership](), list[float](), 0
    found = 0
    for week, (people, labels, values) in enumerate(weekly(persons, releases, rng), 1):
        found = 0
        if week == releases:
            with_one = (np.append(column, one) for column, one in ((people, 2**30), (labels, 0), (values, 0)))
            found = int((_judged(model, earlier, *with_one)[1] < BATCH).sum())
        seconds, left = _judged(model, earlier, people, labels, values)
        taken.append(seconds)
        kept += bool((left >= BATCH).all())
        earlier.append(membership(people, labels, values))
    # Linux counts kilobytes.
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return Figures(cpu=sum(taken), slowest=max(taken), memory=memory, kept=kept, found=found)


def _judged(
    model: Republication,
    earlier: Sequence[Membership],
    people: npt.NDArray[np.int32],
    labels: npt.NDArray[np.int32],
    values: npt.NDArray[np.int64],
) -> tuple[float, npt.NDArray[np.float64]]:
    """CPU seconds, and persons left to the strongest attacker."""
    began = time.process_time()
    known = membership(people, labels, values)
    column = SensitiveColumn(codes=values.astype(np.int32), size=VALUES)
    classes = EquivalenceClasses(labels=labels.astype(np.int64), sensitive={"disease": column})
    new = Membership(persons=people, labels=labels, counts=known.counts, values={"disease": values})
    left = model.per_person(History(new=new, earlier=tuple(earlier)), classes)
    return time.process_time() - began, left


def run(table: Table, *, sizes: Sequence[int] = SIZES, releases: int = RELEASES) -> Section:
    """Measure and describe; ``table`` is not used."""
    return describe({persons: _measured_apart(persons, releases) for persons in sizes}, releases)


def describe(found: dict[int, Figures], releases: int) -> Section:
    """The section of these figures, by persons of a release."""
    heads = [
        "persons",
        "CPU s, all releases",
        "the slowest",
        "memory, GB",
        "releases kept",
        "one more: rows found",
    ]
    rows = [
        (f"{n:,}", f"{f.cpu:.0f}", f"{f.slowest:.1f}", f"{f.memory:.2f}", str(f.kept), str(f.found))
        for n, f in found.items()
    ]
    most = max(found)
    cpu, memory = found[most].cpu, found[most].memory
    kept, all_kept = sum(f.kept for f in found.values()), releases * len(found)
    seen = sum(f.found > 0 for f in found.values())
    year = f"{releases} releases of {most:,} persons"
    verdicts = [
        verdict(f"{year} take at most {CPU / 60:g} CPU minutes", cpu <= CPU, f"{cpu / 60:.1f}"),
        verdict(f"they take at most {MEMORY:g} GB", memory <= MEMORY, f"{memory:.2f} GB"),
        verdict("each release that keeps the model passes", kept == all_kept, f"{kept} of {all_kept}"),
        verdict("each newcomer to a class of others is found", seen == len(found), f"{seen} of {len(found)}"),
    ]
    sizes = " and ".join(f"{n:,}" for n in found)
    note = NOTE.format(
        releases=releases, sizes=sizes, batch=BATCH, churn=CHURN, joined=JOINED, values=VALUES, m=M
    )
    return Section(
        title="30. Judging releases over time",
        blocks=[note, markdown_table(heads, rows), "\n".join(verdicts)],
        source="Made releases.",
    )


def _measured_apart(persons: int, releases: int) -> Figures:
    return Figures(**answer_of("scale.years.republication", str(persons), str(releases)))


if __name__ == "__main__":
    print(json.dumps(vars(measure(int(sys.argv[1]), int(sys.argv[2])))))
