"""Releases over time where several records may be of one person: persons are counted, records followed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import InfeasibleError, SchemaError, VerificationError
from privacy_engine.registry import load_method
from privacy_engine.release import Release
from privacy_engine.republication import incremental
from privacy_engine.republication.incremental import LastRelease, release_incrementally
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.persons import Person
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, History, Membership
from privacy_engine.verification.republication.model import Republication

COLUMNS = {
    "patient": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]},
    "disease": {"role": "sensitive"},
}
SCHEMA = replace(DataSchema.from_dict(COLUMNS), person=Person(column="patient"))
Row = tuple[str, int, int, str]  # visit, patient, age, disease


@dataclass
class Course:
    """Releases of one table of visits, each recounted by hand when it is made."""

    k: int = 3
    m: int = 2
    earlier: list[Membership] = field(default_factory=list)
    last: LastRelease | None = None
    waited: dict[str, int] = field(default_factory=dict)

    def release(self, rows: Sequence[Row], seed: int = 0, **more: float) -> Release:
        """The next one."""
        visits = np.array([row[0] for row in rows], dtype=object)
        owners = np.array([row[1] for row in rows], dtype=np.int64)
        table = pd.DataFrame([row[1:] for row in rows], columns=["patient", "age", "disease"])
        made = release_incrementally(
            load_method("bottom_up", k=self.k, l=self.m),
            table.astype({"disease": "str"}),
            SCHEMA,
            np.random.default_rng(seed),
            persons=visits,
            owners=owners,
            earlier=self.earlier,
            last=self.last,
            across=[Republication(k=self.k, m=self.m)],
            waited=self.waited,
            **more,  # type: ignore[arg-type]
        )
        assert made.rows is not None
        assert made.persons is not None
        shown = visits if self.last is None else np.concatenate([visits, self.last.persons])
        whose = np.asarray(made.persons, dtype=np.int64)
        known = owners
        if self.last is not None:
            assert self.last.owners is not None
            known = np.concatenate([owners, self.last.owners])
        assert (known[made.rows] == whose).all()
        member = Membership.of_table(shown[made.rows], made.table, made.schema, whose)
        self.earlier.append(member)
        self.last = LastRelease(table=made.table, persons=shown[made.rows], owners=whose)
        self.waited = {v: self.waited.get(v, 0) + 1 for v in set(visits) - set(member.persons)}
        return made


def classes(member: Membership) -> list[set[str]]:
    """The visits of each class."""
    return [set(member.persons[member.labels == label]) for label in np.unique(member.labels)]


def fewest(course: Course) -> int:
    """The fewest persons of any class, and of what any subtraction of two releases leaves, by all unions."""
    found = []
    for i, new in enumerate(course.earlier):
        patient = dict(zip(new.persons, new.owners, strict=True))  # type: ignore[arg-type]
        found += [len({patient[v] for v in own}) for own in classes(new)]
        for old in course.earlier[:i]:
            patient |= dict(zip(old.persons, old.owners, strict=True))  # type: ignore[arg-type]
            both = set(new.persons) & set(old.persons)
            of_old = unions(old, both)
            for stayed, mine in unions(new, both).items():
                for left in (mine - both, of_old.get(stayed, both) - both):
                    found += [len({patient[v] for v in left})] if left and stayed in of_old else []
    return min(found)


def unions(member: Membership, both: set[str]) -> dict[frozenset[str], set[str]]:
    """The visits of every union of classes, by those of them that are in both releases, if any are."""
    found = {frozenset[str](): set[str]()}
    for own in (own for own in classes(member) if own & both):
        found |= {stayed | (own & both): visits | own for stayed, visits in found.items()}
    del found[frozenset()]
    return found


def weeks(seed: int) -> list[list[Row]]:
    """Five releases of the visits of some patients, of whom some leave, and some come again."""
    rng = np.random.default_rng(seed)
    ages = {patient: int(rng.integers(18, 90)) for patient in range(60)}

    def visit(patient: int, number: int) -> Row:
        return f"{patient}/{number}", patient, ages[patient], f"d{rng.integers(0, 3)}"

    here = [visit(patient, n) for patient in range(14) for n in range(1 + patient % 2)]
    found, fresh = [], 14
    for week in range(5):
        found.append(list(here))
        here = [row for row in here if rng.random() > 0.15]
        again = rng.choice([row[1] for row in here], 3)
        here += [visit(int(patient), 100 * (week + 1) + n) for n, patient in enumerate(again)]
        here += [visit(fresh + n, 1000 * (week + 1)) for n in range(3)]
        fresh += 3
    return found


@pytest.mark.parametrize("seed", range(4))
def test_in_all_releases_no_subtraction_leaves_fewer_than_k_persons(seed: int) -> None:
    course = Course()
    for week, rows in enumerate(weeks(seed)):
        made = course.release(rows, seed=week, hold_back=2, limit=0.9)
        assert len(made.table) > len(rows) // 2
    assert fewest(course) >= course.k


def test_counted_by_records_a_subtraction_would_leave_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_records(made: incremental._Made, method: object, requested: incremental._Required) -> np.ndarray:
        found = EquivalenceClasses.of_table(made.table, made.schema)
        member = Membership.of_classes(made.persons, found, made.table, made.schema)
        earlier = [replace(e, owners=None) for e in made.of.earlier]
        return requested.failing(History(new=member, earlier=tuple(earlier), source=made.of.schema), found)

    monkeypatch.setattr(incremental._Made, "failing", by_records)
    monkeypatch.setattr(
        incremental._Persons, "_counted", lambda of, rows: np.bincount(of.label[rows], minlength=of.classes)
    )

    def found(seed: int) -> int:
        course = Course()
        try:
            for week, rows in enumerate(weeks(seed)):
                course.release(rows, seed=week, hold_back=2, limit=0.9)
        except InfeasibleError:  # what was counted by records misses k by persons
            return 0
        return fewest(course)

    assert any(found(seed) < Course.k for seed in range(6))


def test_three_visits_of_one_new_patient_are_no_three_persons() -> None:
    first = [(f"{p}/1", p, 20 + p, "ab"[p % 2]) for p in range(6)]
    course = Course()
    course.release(first)
    came = [(f"7/{n}", 7, 25, "abc"[n]) for n in range(3)]
    assert course.release([*first, *came], hold_back=3).notes["held_back"] == 3
    more = [*came, ("8/1", 8, 24, "a"), ("9/1", 9, 26, "b")]
    assert course.release([*first, *more], hold_back=3).notes["held_back"] == 0


def member(visits: str, owners: Sequence[int], labels: Sequence[int], values: str) -> Membership:
    table = pd.DataFrame({"age": labels, "disease": list(values)}).astype({"disease": "str"})
    schema = DataSchema.from_dict(
        {"age": {"role": "quasi_identifier", "kind": "numeric"}, "disease": {"role": "sensitive"}}
    )
    return Membership.of_table(
        np.array(list(visits), dtype=object), table, schema, np.array(owners, dtype=np.int64)
    )


def judged(model: Republication | CrossReleaseKAnonymity, *releases: Membership) -> list[float]:
    *earlier, new = releases
    table = pd.DataFrame({"c": new.labels})
    values = {} if not new.counts else {"disease": new.values["disease"]}
    frame = table.assign(**values)
    found = EquivalenceClasses.of_columns(frame, ["c"], list(values))
    return model.per_person(History(new=new, earlier=tuple(earlier)), found).tolist()


def test_persons_share_classes_in_all_releases_not_records() -> None:
    # a, b, c are of one person, so d is hidden among two persons in the second release, not among four
    one = member("abcd", [1, 1, 1, 2], [0, 0, 0, 0], "xyxy")
    assert judged(CrossReleaseKAnonymity(k=2), one, one) == [2, 2, 2, 2]


def test_the_persons_of_arrivals_and_of_departures_are_counted() -> None:
    old = member("abcdef", [1, 2, 3, 4, 4, 4], [0] * 6, "xyxyxy")
    stay = member("abc", [1, 2, 3], [0] * 3, "xyx")
    assert judged(Republication(k=2, attackers=("difference",)), old, stay) == [1, 1, 1]
    assert judged(Republication(k=2, attackers=("difference",)), stay, old) == [3, 3, 3, 1, 1, 1]


def test_arrivals_who_all_have_the_same_values_in_several_records_have_one_set_of_values() -> None:
    old = member("abc", [1, 2, 3], [0] * 3, "xyx")
    new = member("abcdefg", [1, 2, 3, 4, 4, 5, 5], [0] * 7, "xyxxyxy")
    assert judged(Republication(k=2, m=2, attackers=("difference",)), old, new)[3:] == [0] * 4
    other = member("abcdefg", [1, 2, 3, 4, 4, 5, 5], [0] * 7, "xyxxyxx")
    assert judged(Republication(k=2, m=2, attackers=("difference",)), old, other)[3:] == [2] * 4


def test_persons_with_a_possible_value_are_never_overcounted() -> None:
    # In the first release all have x or y. In the second the class has x alone in common with it.
    rng = np.random.default_rng(5)
    for _ in range(40):
        n = int(rng.integers(4, 9))
        owners, values = rng.integers(0, 4, n), rng.choice(list("xyz"), n)
        visits = "abcdefghi"[:n]
        old = member(visits, owners.tolist(), [0] * n, "".join(values))
        again = rng.choice(list("xw"), n)
        new = member(visits, owners.tolist(), [0] * n, "".join(again))
        left = set(values) & set(again)
        if not left:
            continue
        most = min(
            len({o for o, v in zip(owners, column, strict=True) if v in left}) for column in (values, again)
        )
        found = judged(Republication(k=2, m=2, attackers=("identity",)), old, new)
        # fewer than m values are left where one is: the number of persons is judged with two
        if len(left) >= 2:
            assert max(found) <= most


def test_releases_with_and_without_owners_cannot_be_compared() -> None:
    old = member("abc", [1, 2, 3], [0] * 3, "xyx")
    without = replace(old, owners=None)
    with pytest.raises(VerificationError, match="must be known for all releases of a table or for none"):
        History(new=old, earlier=(without,))


def test_owners_must_be_the_persons_of_the_schema() -> None:
    rows = [(f"{p}/1", p, 20 + p, "ab"[p % 2]) for p in range(6)]
    visits = np.array([row[0] for row in rows], dtype=object)
    table = pd.DataFrame([row[1:] for row in rows], columns=["patient", "age", "disease"])
    for owners in (np.zeros(6, np.int64), np.array([0, 1, 2, 3, 4, 4])):
        with pytest.raises(SchemaError, match="owners must be the persons of the column"):
            release_incrementally(
                load_method("bottom_up", k=2),
                table.astype({"disease": "str"}),
                SCHEMA,
                np.random.default_rng(0),
                persons=visits,
                owners=owners,
                earlier=[],
                last=None,
                across=[Republication(k=2)],
            )


def test_groups_are_not_judged_where_several_records_may_be_of_one_person() -> None:
    old = member("abcd", [1, 2, 3, 3], [0] * 4, "xyxy")
    model = Republication(k=2, groups=({"model": "t_closeness", "t": 0.5},))  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="Remove groups"):
        judged(model, old, old)
    assert Counter(judged(Republication(k=2), old, old)) == {3.0: 4}
