"""Subtracting releases: the planted hole, releases without one, and small tables by brute force."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.attacks.difference import Difference
from privacy_engine.attacks.trial import Case, Evidence, Tries, case_of, try_attack
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.republication.model import Attacker, Republication
from privacy_engine.vocabulary import Role

SCHEMA = DataSchema(
    (Attribute(name="age", role=Role.QUASI_IDENTIFIER), Attribute(name="disease", role=Role.SENSITIVE))
)
Rows = list[tuple[str, str, str]]  # person, class, disease
WEEK_1 = [("a", "x", "flu"), ("b", "x", "flu"), ("c", "x", "hiv"), ("d", "x", "hiv")]
SAFE = [*WEEK_1, ("e", "x", "flu"), ("f", "x", "hiv")]


def membership(rows: Rows) -> Membership:
    table = pd.DataFrame([row[1:] for row in rows], columns=["age", "disease"], dtype="str")
    return Membership.of_table(np.array([row[0] for row in rows], dtype=object), table, SCHEMA)


def case(*releases: Rows) -> Case:
    """The newest release first."""
    people = pd.DataFrame([row[1:] for row in releases[0]], columns=["age", "disease"], dtype="str")
    evidence = Evidence(
        release=people,
        source=SCHEMA,
        people=people,
        outsiders=people,
        memberships=tuple(map(membership, releases)),
    )
    return case_of(evidence, np.random.default_rng(1))


def found(*releases: Rows) -> tuple[Tries, Tries]:
    """Those who came, and those who left."""
    tries = Difference().tries(case(*releases), np.random.default_rng(1))
    return tries["disease of people who came"], tries["disease of people who left"]


def right(*releases: Rows) -> tuple[float, float]:
    came, left = found(*releases)
    return came.main.right, left.main.right


def test_a_newcomer_to_a_class_that_stays_is_found() -> None:
    came, left = found([*WEEK_1, ("newcomer", "x", "hiv")], WEEK_1)
    assert (came.main.right, came.main.tries, came.control.right) == (1, 1, 0)
    assert (left.main.right, left.main.tries) == (0, 5)


def test_who_left_a_class_that_stays_is_found() -> None:
    assert right(WEEK_1, [*WEEK_1, ("gone", "x", "hiv")]) == (0, 1)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (SAFE, WEEK_1),
        (WEEK_1, SAFE),
        (WEEK_1, WEEK_1),
        ([*WEEK_1[2:], ("e", "x", "flu"), ("f", "x", "hiv")], WEEK_1),  # two of each for two
    ],
    ids=["two came", "two left", "no one", "exchanged"],
)
def test_where_people_hide_each_other_no_one_is_found(new: Rows, old: Rows) -> None:
    assert right(new, old) == (0, 0)


def test_an_older_release_is_subtracted_too() -> None:
    # Each week one more comes; of the week before the last two came, and one of them is known already.
    weeks = [WEEK_1, [*WEEK_1, ("e", "x", "flu")], [*WEEK_1, ("e", "x", "flu"), ("f", "x", "flu")]]
    assert right(weeks[2], weeks[1], weeks[0]) == (2, 0)
    assert right(weeks[2], weeks[0]) == (2, 0)  # both have the same value


def test_classes_are_connected_by_those_who_stayed() -> None:
    old = [(p, "xy"[i // 4], v) for i, (p, v) in enumerate(zip("abcdefgh", ["flu", "hiv"] * 4, strict=True))]
    moved = [(p, "pq"[i % 2], v) for i, (p, _, v) in enumerate(old)]
    # One of either value came, but only into a class that the other cannot be in.
    assert right([*moved, ("y", "p", "gout"), ("z", "q", "cold")], old) == (2, 0)
    assert right([*moved, ("y", "p", "flu"), ("z", "q", "hiv")], old) == (2, 0)


def test_the_attack_sees_its_planted_hole_and_says_nothing_of_one_release() -> None:
    rng = np.random.default_rng(2)
    many = [(f"p{i}", f"c{i // 6}", ("flu", "hiv", "gout")[i % 3]) for i in range(300)]
    later = [*many, *((f"n{i}", f"c{i // 3}", ("flu", "hiv", "gout")[i % 3]) for i in range(150))]
    came, left = try_attack(Difference(), case(later, many), rng).outcomes
    assert came.sees
    assert left.sees
    assert came.within(0.1)
    assert not try_attack(Difference(), case(many), rng).outcomes


def test_releases_without_the_values_of_classes_are_not_attacked() -> None:
    known = case(SAFE, WEEK_1)
    old = Membership(persons=known.evidence.memberships[1].persons, labels=np.zeros(4, np.int64))
    people = known.evidence.people
    evidence = Evidence(
        release=people,
        source=SCHEMA,
        people=people,
        outsiders=people,
        memberships=(known.evidence.memberships[0], old),
    )
    rng = np.random.default_rng(1)
    assert Difference().tries(case_of(evidence, rng), rng) == {}


def worlds(new: Rows, old: Rows) -> Iterator[dict[str, str]]:
    """Every assignment of values to persons that gives the same multiset in each class of both releases."""
    values = sorted({row[2] for row in (*new, *old)})
    people = sorted({row[0] for row in (*new, *old)})

    def multisets(rows: Rows, of: dict[str, str]) -> list[tuple[str, str]]:
        return sorted((row[1], of[row[0]]) for row in rows)

    truth = {row[0]: row[2] for row in (*new, *old)}
    for assigned in product(values, repeat=len(people)):
        world = dict(zip(people, assigned, strict=True))
        if all(multisets(rows, world) == multisets(rows, truth) for rows in (new, old)):
            yield world


def some_weeks() -> st.SearchStrategy[list[Rows]]:
    """A new and an old release of some of six people."""
    people = "abcdef"
    values = st.fixed_dictionaries({p: st.sampled_from("12") for p in people})
    classes = st.dictionaries(st.sampled_from(people), st.sampled_from("xy"), min_size=1)
    return st.tuples(values, classes, classes).map(
        lambda drawn: [[(p, place, drawn[0][p]) for p, place in week.items()] for week in drawn[1:]]
    )


@given(some_weeks())
def test_whom_it_finds_has_that_value_in_every_world(weeks: list[Rows]) -> None:
    new, old = weeks
    every = list(worlds(new, old))
    certain = {p for p in every[0] if len({world[p] for world in every}) == 1}
    came = {row[0] for row in new} - {row[0] for row in old}
    left = {row[0] for row in old} - {row[0] for row in new}
    of_came, of_left = right(new, old)
    assert of_came <= len(came & certain)
    assert of_left <= len(left & certain)
    for one, other, count in ((came, left, of_came), (left, came, of_left)):
        if len(one) == 1 and not other:  # a single person who came or left is always found
            assert count == 1


@given(some_weeks())
def test_the_judge_refuses_whatever_the_attack_finds_by_subtraction(weeks: list[Rows]) -> None:
    tries = found(*weeks)
    new, old = map(membership, weeks)
    table = pd.DataFrame([row[1:] for row in weeks[0]], columns=["age", "disease"], dtype="str")
    model = Republication(k=2, m=2, attackers=(Attacker.DIFFERENCE,))
    history = History(new=new, earlier=(old,))
    judged = model.judge(history, EquivalenceClasses.of_table(table, SCHEMA)).least[Attacker.DIFFERENCE]
    if any(side.main.right > side.control.right for side in tries):
        assert judged < 2
