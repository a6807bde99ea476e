"""What attackers are left with, compared with all assignments that explain what they see."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.republication.model import Attacker, Republication
from privacy_engine.vocabulary import Role

SCHEMA = DataSchema(
    (
        Attribute(name="place", role=Role.QUASI_IDENTIFIER),
        Attribute(name="disease", role=Role.SENSITIVE),
    )
)
Rows = list[tuple[str, str, str]]  # person, released place, disease
NONE_LEFT = 0.0


def table(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame([row[1:] for row in rows], columns=["place", "disease"], dtype="str")


def membership(rows: Rows) -> Membership:
    return Membership.of_table(np.array([row[0] for row in rows], dtype=object), table(rows), SCHEMA)


def left_to(attacker: str, rows: Rows, earlier: list[Rows], m: int | None = 2, **fields: Any) -> list[float]:
    """What the model says of each person of the new release."""
    history = History(new=membership(rows), earlier=tuple(map(membership, earlier)), source=SCHEMA)
    classes = EquivalenceClasses.of_table(table(rows), SCHEMA)
    model = Republication(k=2, m=m, attackers=(Attacker(attacker),), **fields)
    return model.per_person(history, classes).tolist()


def class_of(release: Rows) -> dict[str, str]:
    return {person: place for person, place, _ in release}


def value_of(release: Rows) -> dict[str, str]:
    return {person: value for person, _, value in release}


def records(release: Rows, place: str) -> list[str]:
    return [value for _, own, value in release if own == place]


def subsets(items: Iterable[str]) -> Iterator[tuple[str, ...]]:
    known = sorted(set(items))
    return chain.from_iterable(combinations(known, size) for size in range(1, len(known) + 1))


def by_identity(rows: Rows, earlier: list[Rows], m: int) -> list[float]:
    """Choose a record of the person's class in each release, all of one value, in every way."""
    found = []
    for person, _, _ in rows:
        mine = [records(r, class_of(r)[person]) for r in (rows, *earlier) if person in class_of(r)]
        ways = [way for way in product(*map(enumerate, mine)) if len({value for _, value in way}) == 1]
        hidden = min(len({way[j][0] for way in ways}) for j in range(len(mine)))
        found.append(float(hidden) if len({way[0][1] for way in ways}) >= m else NONE_LEFT)
    return found


def by_membership(rows: Rows, earlier: list[Rows], m: int) -> list[float]:
    found = []
    for person, _, _ in rows:
        mine = [r for r in (rows, *earlier) if person in class_of(r)]
        alike = {
            other
            for other in class_of(rows)
            if all(class_of(r).get(other) == class_of(r)[person] for r in mine)
        }
        values = set.intersection(*(set(records(r, class_of(r)[person])) for r in mine))
        found.append(float(len(alike)) if len(values) >= m else NONE_LEFT)
    return found


def possible(old: Rows, new: Rows, known: dict[str, str]) -> dict[str, set[str]]:
    """The values of each person in all assignments that give every class of both releases its multiset.

    Args:
        old, new: the releases.
        known: values that this attacker knows.
    """
    places = {person: (class_of(old).get(person), class_of(new).get(person)) for person, _, _ in old + new}
    unknown = sorted(set(places) - set(known))
    values = sorted({row[2] for row in old + new})

    def multisets(values: dict[str, str]) -> Counter[tuple[int, str | None, str]]:
        return Counter((i, places[p][i], v) for p, v in values.items() for i in (0, 1))

    seen = Counter((0, place, v) for _, place, v in old) + Counter((1, place, v) for _, place, v in new)
    found: dict[str, set[str]] = {person: set() for person in places}
    for chosen in product(values, repeat=len(unknown)):
        whole = known | dict(zip(unknown, chosen, strict=True))
        counted = multisets(whole)
        if all(counted[key] == seen[key] for key in counted.keys() | seen.keys() if key[1] is not None):
            for person, value in whole.items():
                found[person].add(value)
    return found


def group_of(old: Rows, new: Rows, place: str) -> tuple[set[str], set[str]]:
    """Arrivals and departures of the least union of new classes, with a class, that subtracts cleanly."""
    was, now = class_of(old), class_of(new)
    found = []
    for many in subsets(now.values()):
        stay = {p for p in now if now[p] in many and p in was}
        for fewer in chain([()], subsets(was.values())):
            if place in many and {p for p in was if was[p] in fewer and p in now} == stay:
                arrivals = {p for p in now if now[p] in many and p not in was}
                departures = {p for p in was if was[p] in fewer and p not in now}
                found.append((len(many) + len(fewer), arrivals, departures))
    # An old class of which no one stayed may be added to each; the least union has none.
    return min(found, key=lambda union: union[0])[1:]


def by_pair(old: Rows, new: Rows, m: int) -> list[float]:
    """What subtracting the old release leaves, where the values of the other side may be known, too."""
    was, now = class_of(old), class_of(new)
    true_old, true_new = value_of(old), value_of(new)
    gone = {p: true_old[p] for p in was if p not in now}
    came = {p: true_new[p] for p in now if p not in was}
    of_new, of_old = possible(old, new, gone), possible(old, new, came)
    found = []
    for person in now:
        arrivals, departures = group_of(old, new, now[person])
        if person in was:
            hidden = float(sum(now[p] == now[person] and was.get(p) == was[person] for p in now))
            values = min(len(of_new[person]), len(of_old[person]))
        else:
            hidden, values = float(len(arrivals)), len(of_new[person])
            if len({came[p] for p in arrivals}) < m:
                hidden = NONE_LEFT
        if departures:
            hidden = min(hidden, len(departures))
            if len({gone[p] for p in departures}) < m or any(len(of_old[p]) < m for p in departures):
                hidden = NONE_LEFT
        if values < m:
            hidden = NONE_LEFT
        found.append(hidden)
    return found


def by_difference(rows: Rows, earlier: list[Rows], m: int) -> list[float]:
    sizes = Counter(class_of(rows).values())
    found = [[float(sizes[place]) for _, place, _ in rows], *(by_pair(old, rows, m) for old in earlier)]
    return [min(numbers) for numbers in zip(*found, strict=True)]


def apart(old: Rows, rows: Rows) -> Rows:
    """The old release, its corrected records under another name, as a departure is."""
    now = value_of(rows)
    return [(p if now.get(p, v) == v else f"{p} before", place, v) for p, place, v in old]


def by_correction(rows: Rows, earlier: list[Rows], m: int) -> list[float]:
    return by_difference(rows, [apart(old, rows) for old in earlier], m)


def some_releases(values: str, persons: str = "abcdef") -> st.SearchStrategy[list[Rows]]:
    """Three releases; each person has one value in all of them, and is in most of them."""
    places = st.tuples(*(st.sampled_from(["x", "y", "x", "y", "z", ""]) for _ in persons)).filter(any)
    return st.builds(
        lambda placed, value: [
            [(p, place, value[p]) for p, place in zip(persons, release, strict=True) if place]
            for release in placed
        ],
        st.lists(places, min_size=3, max_size=3),
        st.fixed_dictionaries({person: st.sampled_from(values) for person in persons}),
    )


@given(some_releases("123", "abcdefgh"))
def test_identity_is_left_what_all_choices_of_records_leave(releases: list[Rows]) -> None:
    *earlier, rows = releases
    assert left_to("identity", rows, earlier) == by_identity(rows, earlier, 2)


@given(some_releases("123", "abcdefgh"))
def test_membership_is_left_the_persons_and_values_of_all_classes_together(releases: list[Rows]) -> None:
    *earlier, rows = releases
    assert left_to("membership", rows, earlier) == by_membership(rows, earlier, 2)


@settings(max_examples=2 * settings.default.max_examples)
@given(some_releases("12"))
def test_difference_is_left_what_all_assignments_leave(releases: list[Rows]) -> None:
    *earlier, rows = releases
    assert left_to("difference", rows, earlier) == by_difference(rows, earlier, 2)


@given(some_releases("123", "abcde"), st.sampled_from([2, 3]))
def test_difference_never_finds_more_left_than_all_assignments(releases: list[Rows], m: int) -> None:
    *earlier, rows = releases
    found, exact = left_to("difference", rows, earlier, m), by_difference(rows, earlier, m)
    assert all(own <= other for own, other in zip(found, exact, strict=True))


@settings(max_examples=2 * settings.default.max_examples)
@given(some_releases("12", "abcde"), st.sets(st.sampled_from("abcde"), max_size=2))
def test_correction_counts_a_corrected_record_as_a_departure_and_an_arrival(
    releases: list[Rows], corrected: set[str]
) -> None:
    *earlier, rows = releases
    rows = [(p, place, {"1": "2", "2": "1"}[v] if p in corrected else v) for p, place, v in rows]
    assert left_to("correction", rows, earlier) == by_correction(rows, earlier, 2)
