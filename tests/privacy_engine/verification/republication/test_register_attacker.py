"""The attacker who knows a population, compared with all worlds that explain the released classes."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import VerificationError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.republication.population import candidates
from privacy_engine.vocabulary import Kind, Role

SCHEMA = DataSchema((Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 100)),))
BOXES = ("[0, 9]", "[10, 19]", "[20, 29]")
Ages = dict[str, int]  # of the whole population at one time
Released = set[str]


def release(ages: Ages, released: Released) -> Membership:
    """One class for each box that has persons."""
    people = sorted(released)
    boxes = [ages[person] // 10 for person in people]
    return Membership(
        persons=np.array(people, dtype=object),
        labels=np.unique(boxes, return_inverse=True)[1].astype(np.int64),
        boxes={"age": np.array([BOXES[box] for box in boxes], dtype=object)},
    )


def register(ages: Ages) -> Membership:
    return Membership(
        persons=np.array(list(ages), dtype=object),
        labels=np.arange(len(ages)),
        boxes={"age": np.array(list(map(str, ages.values())), dtype=object)},
    )


def found(times: list[tuple[Ages, Released]], *, arrivals: bool, registers: bool = True) -> dict[str, int]:
    *earlier, new = (release(ages, released) for ages, released in times)
    history = History(new=new, earlier=tuple(earlier), source=SCHEMA)
    known = [register(ages) for ages, _ in times] if registers else []
    return dict(
        zip(new.persons.tolist(), candidates(history, known, arrivals=arrivals).tolist(), strict=True)
    )


def worlds(times: list[tuple[Ages, Released]], i: int, target: str, arrivals: bool) -> set[str]:
    """All who is in the target's class of one release in some world with it."""
    ages, released = times[i]
    since = {p: next((j for j, (_, r) in enumerate(times) if p in r), len(times)) for p in ages}
    box = ages[target] // 10
    size = Counter(ages[p] // 10 for p in released)[box]
    fitting = [p for p in ages if ages[p] // 10 == box and (not arrivals or since[p] <= i)]
    sure = {target} | {p for p in fitting if arrivals and since[p] == i}
    return set().union(*(set(world) for world in combinations(fitting, size) if sure <= set(world)))


def by_worlds(times: list[tuple[Ages, Released]], *, arrivals: bool) -> dict[str, int]:
    return {
        target: len(
            set.intersection(
                *(worlds(times, i, target, arrivals) for i, (_, r) in enumerate(times) if target in r)
            )
        )
        for target in times[-1][1]
    }


def some_times() -> st.SearchStrategy[list[tuple[Ages, Released]]]:
    people = "abcdefg"
    ages = st.fixed_dictionaries({person: st.integers(0, 29) for person in people})
    released = st.sets(st.sampled_from(people), min_size=1)
    return st.lists(st.tuples(ages, released), min_size=1, max_size=3)


@given(some_times(), st.booleans())
def test_a_register_leaves_everybody_of_some_world(
    times: list[tuple[Ages, Released]], arrivals: bool
) -> None:
    assert found(times, arrivals=arrivals) == by_worlds(times, arrivals=arrivals)


@given(some_times(), st.booleans())
def test_without_a_register_no_more_are_found_than_with_one(
    times: list[tuple[Ages, Released]], arrivals: bool
) -> None:
    still = [(times[0][0], released) for _, released in times]  # no one moves
    few, many = (found(still, arrivals=arrivals, registers=known) for known in (False, True))
    assert all(few[person] <= many[person] for person in few)


def test_those_who_left_still_fit_where_only_arrivals_are_known() -> None:
    ages = dict.fromkeys("abcdefg", 5)
    times = [(ages, set("abcd")), (ages, set("abef"))]
    assert set(found(times, arrivals=False).values()) == {7}
    # e may be f, and no one else was a newcomer; a may be any of the first four.
    assert found(times, arrivals=True) == {"a": 4, "b": 4, "e": 6, "f": 6}


def test_a_register_for_each_release_or_none_is_given() -> None:
    new = release({"a": 1}, {"a"})
    history = History(new=new, earlier=(new,), source=SCHEMA)
    with pytest.raises(VerificationError, match="one for each release, got 1 for 2"):
        candidates(history, [register({"a": 1})], arrivals=False)


def test_releases_whose_cells_were_not_kept_are_refused() -> None:
    new = release({"a": 1}, {"a"})
    bare = Membership(persons=new.persons, labels=new.labels)
    with pytest.raises(VerificationError, match="cells of all releases must have been kept"):
        candidates(History(new=new, earlier=(bare,), source=SCHEMA), arrivals=False)
