"""Sets of values of persons with several records, compared with all assignments of values to records."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.republication import left
from privacy_engine.verification.republication.components import Pair
from privacy_engine.verification.republication.model import Republication
from privacy_engine.verification.republication.value_sets import NO_LIMIT, fewest_sets, possible_sets

SCHEMA = DataSchema.from_dict(
    {"place": {"role": "quasi_identifier", "kind": "categorical"}, "disease": {"role": "sensitive"}}
)
MODEL = Republication(k=2, m=2, attackers=("difference",))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Visit:
    """A record: whose it is, its class in the old and in the new release, and its value."""

    patient: int
    old: str
    new: str
    value: str

    def place(self, release: int) -> str:
        return (self.old, self.new)[release]


def visits(text: str) -> list[Visit]:
    """Visits such as `1 a- x`: of patient 1, in class a of the old release only, with value x."""
    words = [line.split() for line in text.split(",")]
    return [
        Visit(int(patient), places[0].strip("-"), places[1].strip("-"), value)
        for patient, places, value in words
    ]


def membership(rows: list[Visit], release: int) -> tuple[Membership, EquivalenceClasses]:
    """The visits of a release, by their places in the list."""
    there = [(str(i), row) for i, row in enumerate(rows) if row.place(release)]
    cells = {"place": [r.place(release) for _, r in there], "disease": [r.value for _, r in there]}
    table = pd.DataFrame(cells, dtype="str")
    owners = np.array([row.patient for _, row in there], dtype=np.int64)
    names = np.array([name for name, _ in there], dtype=object)
    return Membership.of_table(names, table, SCHEMA, owners), EquivalenceClasses.of_table(table, SCHEMA)


def judged(rows: list[Visit]) -> dict[str, float]:
    """The fewest persons left in each class of the new release, 0 where too few values or sets are."""
    (old, _), (new, classes) = membership(rows, 0), membership(rows, 1)
    found = MODEL.per_person(History(new=new, earlier=(old,), source=SCHEMA), classes)
    return pd.Series(found).groupby(new.boxes["place"]).min().to_dict()


def assignments(rows: list[Visit], known: list[int]) -> Iterator[tuple[str, ...]]:
    """Every way to give values to the visits that are not known, with the values of each class of both."""
    left = Counter((i, row.place(i), row.value) for row in rows for i in (0, 1) if row.place(i))
    values = sorted({row.value for row in rows})

    def extended(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(chosen) == len(rows):
            yield chosen
            return
        row = rows[len(chosen)]
        for value in [row.value] if len(chosen) in known else values:
            taken = [(i, row.place(i), value) for i in (0, 1) if row.place(i)]
            if all(left[key] for key in taken):
                left.subtract(taken)
                yield from extended((*chosen, value))
                left.update(taken)

    yield from extended(())


def sets_left(rows: list[Visit], side: int) -> dict[int, int]:
    """How many sets of values are possible for each patient who left (0) or came (1)."""
    mine = [i for i, row in enumerate(rows) if row.place(side) and not row.place(1 - side)]
    other = [i for i, row in enumerate(rows) if row.place(1 - side) and not row.place(side)]
    found: dict[int, set[frozenset[str]]] = {rows[i].patient: set() for i in mine}
    for values in assignments(rows, other):
        for patient, own in found.items():
            own.add(frozenset(values[i] for i in mine if rows[i].patient == patient))
    return {patient: len(own) for patient, own in found.items()}


# Patient 1 leaves with three of the four visits with x, x, y and y, so with both values in any case.
CERTAIN = "1 a- x,1 a- x,1 a- y,2 a- y,3 aa x,3 aa y,4 aa x,4 aa y"
# Patient 1 is the only one of class a who leaves, and 2 and 3 leave class b, which is connected.
BY_CLASS = "1 a- x,1 a- y,2 b- x,3 b- y,4 aa z,5 aa u,4 ab z,5 ab u,6 bb z,7 bb u"


def test_a_person_with_one_record_gone_and_another_corrected_is_one_departure() -> None:
    pair = Pair(
        new=np.array([0]),
        old=np.array([0]),
        gone=np.array([0]),
        old_classes=1,
        new_classes=1,
        corrected=np.array([True]),
        people=np.array([0]),  # the same person has another number in each release
        gone_people=np.array([1]),
        old_people=np.array([1]),
    )
    assert pair.apart.departures.sizes.tolist() == [1]


@pytest.mark.parametrize("text", [CERTAIN, BY_CLASS])
@pytest.mark.parametrize("side", [0, 1])
def test_the_set_of_values_of_one_who_leaves_or_comes_may_be_certain_where_each_value_is_not(
    text: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = visits(text)
    if side:
        rows = [Visit(row.patient, row.new, row.old, row.value) for row in rows]
    assert sets_left(rows, side)[1] == 1
    assert judged(rows)["a"] == 0
    monkeypatch.setattr(left, "possible_sets", lambda *given: np.full(given[-1], NO_LIMIT))  # the slip
    assert judged(rows)["a"] >= 2


def test_of_those_who_left_the_fewest_different_sets_that_they_can_have_count() -> None:
    """All of them may have x and y, although each of three sets is possible for each one."""
    stay = "8 aa x,8 aa y,9 aa x,9 aa y"
    same = visits(f"1 a- x,1 a- y,2 a- y,2 a- x,3 a- x,3 a- y,{stay}")
    assert sets_left(same, 0) == {1: 3, 2: 3, 3: 3}
    assert judged(same)["a"] == 0
    other = visits(f"1 a- x,1 a- y,2 a- x,2 a- x,3 a- x,3 a- y,{stay}")
    assert judged(other)["a"] == 2


def some_visits() -> st.SearchStrategy[list[Visit]]:
    """Up to seven visits, of which many leave."""
    one = st.builds(
        Visit,
        st.integers(1, 4),
        st.sampled_from("aabb"),
        st.sampled_from(["", "", "a", "b"]),
        st.sampled_from("xy"),
    )
    return st.lists(one, min_size=4, max_size=7)


@settings(max_examples=2 * settings.default.max_examples)
@given(some_visits(), st.booleans())
def test_no_set_of_values_is_certain_of_a_group_that_passes(rows: list[Visit], back: bool) -> None:
    if back:
        rows = [Visit(row.patient, row.new, row.old, row.value) for row in rows]
    assume(any(row.new for row in rows) and any(row.old for row in rows))
    passed, side = judged(rows), int(back)
    (old, _), (new, classes) = membership(rows, 0), membership(rows, 1)
    history = History(new=new, earlier=(old,), source=SCHEMA)
    (pair,) = left.subtractions(history, classes, ["disease"], window=1)
    component = pair.pair.components[side]
    member = (old, new)[side]
    of_visit = dict(zip(member.persons.tolist(), component[member.labels].tolist(), strict=True))
    places = zip(pair.pair.components[1][new.labels].tolist(), new.boxes["place"], strict=True)
    least: dict[int, float] = {}
    for c, place in places:  # a component is refused if one of its classes is
        least[c] = min(least.get(c, 2), passed[place])
    for patient, sets in sets_left(rows, side).items():
        own = {
            of_visit[str(i)]
            for i, row in enumerate(rows)
            if row.patient == patient and row.place(side) and not row.place(1 - side)
        }
        if len(own) == 1 and least.get(*own, 0) >= 2:
            assert sets >= 2


@st.composite
def groups(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes, persons and values of up to six records of one group."""
    n = draw(st.integers(1, 6))
    columns = [draw(st.lists(st.integers(0, most), min_size=n, max_size=n)) for most in (1, 3, 2)]
    classes, people, codes = (np.array(column, dtype=np.int64) for column in columns)
    return classes, people, codes


def dealt(classes: np.ndarray, codes: np.ndarray) -> Iterator[tuple[int, ...]]:
    """Every way to deal the values of each class out to its records."""
    truth = Counter(zip(classes.tolist(), codes.tolist(), strict=True))
    for values in product(sorted(set(codes.tolist())), repeat=len(codes)):
        if Counter(zip(classes.tolist(), values, strict=True)) == truth:
            yield values


@settings(max_examples=2 * settings.default.max_examples)
@given(groups())
def test_both_numbers_are_never_larger_than_by_all_assignments(group: tuple[np.ndarray, ...]) -> None:
    classes, people, codes = group
    one = np.zeros(len(people), dtype=np.int64)
    sets: dict[int, set[frozenset[int]]] = {p: set() for p in people.tolist()}
    different = []
    for values in dealt(classes, codes):
        own: dict[int, set[int]] = {p: set() for p in sets}
        for person, value in zip(people.tolist(), values, strict=True):
            own[person].add(value)
        different.append(len({frozenset(values) for values in own.values()}))
        for person, found in own.items():
            sets[person].add(frozenset(found))
    assert 1 <= fewest_sets(one, people, (one, codes), 1)[0] <= min(different)
    several = [len(found) for p, found in sets.items() if (people == p).sum() > 1]
    (found,) = possible_sets(one, classes, people, (classes, codes), 99, 1)
    assert found <= min(several, default=NO_LIMIT)
    if len(set(classes.tolist())) == 1:
        assert found == min(several, default=NO_LIMIT)


def test_with_one_record_each_sets_are_values() -> None:
    codes, zeros = np.array([0, 0, 1, 2, 2]), np.zeros(5, np.int64)
    assert fewest_sets(zeros, np.arange(5), (zeros, codes), 1).tolist() == [3]
    assert possible_sets(zeros, zeros, np.arange(5), (zeros, codes), 2, 1).tolist() == [NO_LIMIT]
