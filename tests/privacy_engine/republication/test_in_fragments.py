"""Releases in fragments over time: each is made by itself, and all of them are judged together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import VerificationError
from privacy_engine.fragments.cut_tree import Cut, CutTree
from privacy_engine.registry import load_method
from privacy_engine.republication import in_fragments
from privacy_engine.republication.in_fragments import (
    NEW,
    FragmentPast,
    part_of,
    regions_of,
    release_followed,
    within_fragments,
)
from privacy_engine.republication.incremental import LastRelease
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.republication.model import Attacker, Republication

# The regions are not those of the hierarchy, so classes of two fragments may have equal cells.
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]},
        "town": {
            "role": "quasi_identifier",
            "hierarchy": [["a", "north", "*"], ["b", "north", "*"], ["c", "south", "*"], ["d", "south", "*"]],
        },
        "disease": {"role": "sensitive"},
    }
)
TREE = CutTree(cuts=(Cut(column="town", among=frozenset({"a", "c"})),), fragment_of=(0, 1))
MODEL = Republication(k=2, m=2)
METHODS = ("bottom_up", "mondrian", "obpa", "ilp_l_diversity")
Row = tuple[str, int, str, str]  # person, age, town, disease


@dataclass
class Course:
    """Releases of one table in two fragments, one after another, all judged together."""

    model: Republication = MODEL
    k: int = 2
    earlier: list[Membership] = field(default_factory=list)  # as everyone sees them
    within: list[Membership] = field(default_factory=list)  # within the fragments
    regions: list[np.ndarray] = field(default_factory=list)
    last: LastRelease | None = None
    waited: dict[str, int] = field(default_factory=dict)
    joint: int = 0  # classes with persons of both fragments
    fragment_of: tuple[int, int] = (0, 1)  # of each region

    def release(self, rows: Sequence[Row], method: str = "bottom_up", seed: int = 0) -> pd.DataFrame:
        """Make and judge the next one."""
        who = np.array([row[0] for row in rows], dtype=object)
        table = pd.DataFrame([row[1:] for row in rows], columns=["age", "town", "disease"])
        table = table.astype({"town": "str", "disease": "str"})
        known = [*zip((m.persons for m in self.within), self.regions, strict=True)]
        region = in_fragments.regions_of(who, known)
        region = np.where(region == NEW, TREE.assign(table), region)
        fragment_of, parts, persons, fragments = np.array(self.fragment_of), [], [], []
        for fragment in sorted(set(self.fragment_of)):
            own = fragment_of[region] == fragment
            past = self.past(fragment)
            made = release_followed(
                load_method(method, k=self.k, l=2, suppression_limit=0.9),
                table[own].reset_index(drop=True),
                SCHEMA,
                np.random.default_rng([seed, fragment]),
                persons=who[own],
                waited=np.array([self.waited.get(person, 0) for person in who[own]], dtype=np.int64),
                past=past,
                across=(self.model,),
                hold_back=2,
                reserve=1.0,
            )
            assert made.rows is not None
            left = past.last.persons if past.last is not None else who[:0]
            parts.append(made.table)
            persons.append(np.concatenate([who[own], left])[made.rows])
            fragments.append(np.full(len(made.table), fragment))
        joined, people, of = pd.concat(parts, ignore_index=True), *map(np.concatenate, (persons, fragments))
        member = Membership.of_table(people, joined, made.schema)
        self.require_safe(member, joined, made.schema)
        self.within.append(within_fragments(people, joined, made.schema, of))
        self.joint += len(np.unique(self.within[-1].labels)) - len(np.unique(member.labels))
        self.earlier.append(member)
        before = dict(zip(self.last.persons, self.regions[-1], strict=True)) if self.last else {}
        now = before | dict(zip(who, region, strict=True))
        self.regions.append(np.array([now[person] for person in people]))
        self.last = LastRelease(table=joined, persons=people)
        self.waited = {p: self.waited.get(p, 0) + 1 for p in set(who) - set(people)}
        return joined

    def past(self, fragment: int) -> FragmentPast:
        """The part of the earlier releases that belongs to a fragment."""
        if self.last is None:
            return FragmentPast()
        mine = [np.array(self.fragment_of)[own] == fragment for own in self.regions]
        earlier = [
            part_of(member, np.flatnonzero(own)) for member, own in zip(self.within, mine, strict=True)
        ]
        last = LastRelease(
            table=self.last.table[mine[-1]].reset_index(drop=True), persons=self.last.persons[mine[-1]]
        )
        return FragmentPast(earlier=tuple(earlier), last=last)

    def require_safe(self, member: Membership, table: pd.DataFrame, schema: DataSchema) -> None:
        """The judge finds nothing on the joined release."""
        history = History(new=member, earlier=tuple(self.earlier), source=SCHEMA)
        judged = self.model.judge(history, EquivalenceClasses.of_table(table, schema))
        assert set(judged.least) == set(self.model.attackers)
        assert min(judged.least.values()) >= self.model.k, judged.sentence
        require_groups(self.earlier, member, self.model)


def require_groups(earlier: Sequence[Membership], new: Membership, model: Republication) -> None:
    """Count the arrivals and departures of each component without the judge's code."""
    now = dict(zip(new.persons, new.labels.tolist(), strict=True))
    for old in earlier:
        was = dict(zip(old.persons, old.labels.tolist(), strict=True))
        leader = {("old", c): ("old", c) for c in was.values()} | {
            ("new", c): ("new", c) for c in now.values()
        }

        def find(node: tuple[str, int], leader: dict[tuple[str, int], tuple[str, int]] = leader) -> object:
            while leader[node] != node:
                node = leader[node]
            return node

        for person in now.keys() & was.keys():
            one, other = find(("old", was[person])), find(("new", now[person]))
            leader[one] = other  # type: ignore[index, assignment]
        sides = (
            [("new", now[p]) for p in now.keys() - was.keys()],
            [("old", was[p]) for p in was.keys() - now.keys()],
        )
        for side in sides:
            groups = [find(node) for node in side]
            assert all(groups.count(group) >= model.k for group in set(groups))


def weeks(seed: int, number: int) -> list[list[Row]]:
    """Releases of 24 persons of whom some leave, arrive, move, return and are corrected."""
    rng = np.random.default_rng(seed)

    def person(name: str) -> Row:
        return (name, int(rng.integers(2) * 50), str(rng.choice([*"abcd"])), f"d{rng.integers(0, 3)}")

    here, away, found = [person(f"p{i}") for i in range(24)], list[Row](), list[list[Row]]()
    for week in range(number):
        found.append([here[i] for i in rng.permutation(len(here))])
        gone = [row for row in here if rng.random() < 0.15]
        back = [row for row in away if rng.random() < 0.3]
        here = [row for row in here if row not in gone] + back
        away = [row for row in (*away, *gone) if row not in back]
        here += [person(f"p{week}.{i}") for i in range(rng.integers(0, 7))]
        one, other, third = rng.choice(len(here), 3, replace=False)
        here[one] = (*here[one][:2], str(rng.choice([*"abcd"])), here[one][3])
        here[third] = (*here[third][:2], str(rng.choice([*"abcd"])), here[third][3])
        here[other] = (*here[other][:3], f"d{rng.integers(0, 3)}")
    return found


@pytest.mark.quick("1", "2", "3")  # the fragments become one, a release is retracted, and both
@pytest.mark.parametrize("seed", range(24))
def test_no_attacker_learns_more_from_all_fragments_together(seed: int) -> None:
    attackers = (*Attacker,) if seed % 3 == 0 else MODEL.attackers
    course = Course(model=replace(MODEL, attackers=attackers))
    for week, rows in enumerate(weeks(seed, 3 + seed % 4)):
        if week == 3 and seed % 2:  # both fragments become one
            course.fragment_of = (0, 0)
        if week == 2 and seed % 4 > 1:  # the first release is retracted
            for kept in (course.earlier, course.within, course.regions):
                del kept[0]
        course.release(rows, METHODS[(seed + week) % 4], seed=week)


def test_a_person_who_returns_with_other_values_goes_to_the_former_fragment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everyone = [*alike("a", 20, "abcdefgh"), *alike("b", 70, "ijklmnop")]
    new, returned = alike("b", 70, "xyz"), [(who, 70, "b", disease) for who, _, _, disease in everyone[:2]]

    def followed() -> Course:
        course = Course(k=4)
        course.release(everyone)
        course.k = 2
        course.release(everyone[2:])
        course.release([*everyone[2:], returned[0], *new])
        return course

    course = followed()
    assert not {"a", "b"} & set(course.earlier[-1].persons)  # one alone waits for others of the same past
    course.release([*everyone[2:], *returned, *new])
    region = dict(zip(course.earlier[-1].persons, course.regions[-1], strict=True))
    assert (region["a"], region["b"], region["x"]) == (0, 0, 1)
    of_last = lambda who, known: regions_of(who, known[-1:])  # noqa: E731
    monkeypatch.setattr(in_fragments, "regions_of", of_last)
    with pytest.raises(AssertionError, match="membership 1"):
        followed()


# Both fragments publish one class, and the two classes have equal cells.
JOINT = [
    *[(f"a{i}", 20, "ac"[i % 2], disease) for i, disease in enumerate(["flu", "flu", "hiv", "gout", "flu"])],
    *[(f"b{i}", 20, "bd"[i % 2], disease) for i, disease in enumerate(["hiv", "gout", "flu", "hiv", "flu"])],
]


def test_departures_from_a_class_of_two_fragments_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(k=5)
    course.release(JOINT)
    assert course.joint == 1
    course.k = 2
    assert len(course.release(JOINT[2:])) == 10  # two persons with flu left, whose records stay
    monkeypatch.setattr(
        "tests.privacy_engine.republication.test_in_fragments.within_fragments",
        lambda persons, table, schema, _: Membership.of_table(persons, table, schema),
    )
    course = Course(k=5)
    course.release(JOINT)
    course.k = 2
    with pytest.raises(AssertionError, match="difference 0"):
        course.release(JOINT[2:])


def test_a_fragment_may_have_had_no_person_in_a_release() -> None:
    course = Course()
    both = [*alike("a", 20, "abcdef"), *alike("b", 70, "ghijkl")]
    course.release(both)
    course.release([*both, *alike("b", 71, "mnopqr")])
    empty = part_of(course.within[0], np.zeros(0, dtype=np.int64))
    assert len(empty) == 0
    assert course.past(0).earlier[0].persons.tolist() == course.past(0).earlier[1].persons.tolist()
    past = replace(course.past(0), earlier=(empty, course.past(0).earlier[1]))
    rows = alike("a", 20, "abcdef")
    made = release_followed(
        load_method("mondrian", k=2),
        pd.DataFrame([row[1:] for row in rows], columns=["age", "town", "disease"]),
        SCHEMA,
        np.random.default_rng(1),
        persons=np.array([row[0] for row in rows], dtype=object),
        waited=np.zeros(len(rows), dtype=np.int64),
        past=past,
        across=(MODEL,),
        hold_back=0,
        reserve=1.0,
    )
    assert len(made.table) == 6


def test_a_person_of_two_fragments_is_refused() -> None:
    who = np.array(["Ada", "Ben"], dtype=object)
    assert regions_of(who, []).tolist() == [NEW, NEW]
    assert regions_of(who, [(who[:1], np.array([4])), (who[:1], np.array([4]))]).tolist() == [4, NEW]
    with pytest.raises(VerificationError, match="1 persons are recorded in different fragments"):
        regions_of(who, [(who[:1], np.array([4])), (who[:1], np.array([5]))])


def alike(town: str, age: int, persons: str) -> list[Row]:
    """Persons with the same quasi-identifiers, and values in turn."""
    return [(who, age, town, ("flu", "hiv", "gout")[i % 3]) for i, who in enumerate(persons)]
