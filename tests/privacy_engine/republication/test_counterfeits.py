"""Counterfeits complete the sets of classes; all is recounted in plain Python from the released cells."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.measures.recoding import released_order
from privacy_engine.registry import load_method, method_class, method_names
from privacy_engine.release import Release
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.republish import republish
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, Membership, MInvariance
from privacy_engine.verification.models import AlphaKAnonymity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import Report, verify
from privacy_engine.vocabulary import Departures

TREE = "\n".join(f"{town};{town[0]};*" for town in ("a1", "a2", "b1", "b2", "c1"))
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]},
        "town": {"role": "quasi_identifier", "hierarchy": "town"},
        "disease": {"role": "sensitive"},
    },
    hierarchies={"town": Hierarchy.from_csv(TREE)},
)
READINGS = ("known", "unknown")
ANONYMIZERS = [name for name in method_names() if issubclass(method_class(name), Anonymizer)]
K, M = 3, 2
CELLS = ["age_from", "age_to", "town"]
Cells = tuple[object, ...]


@dataclass(frozen=True)
class Week:
    """A release, and whose record each is; None of a counterfeit."""

    release: Release
    persons: np.ndarray

    @cached_property
    def membership(self) -> Membership:
        return Membership.of_table(self.persons, self.release.table, self.release.schema)

    @cached_property
    def cells(self) -> list[Cells]:
        return list(self.release.table[CELLS].astype(str).itertuples(index=False, name=None))

    @cached_property
    def classes(self) -> dict[object, Cells]:
        """Of each person the class."""
        return {p: cell for p, cell in zip(self.persons, self.cells, strict=True) if p is not None}

    @cached_property
    def sets(self) -> dict[Cells, set[str]]:
        """Of each class the values, those of counterfeits among them."""
        found: dict[Cells, set[str]] = {}
        for cell, disease in zip(self.cells, self.release.table["disease"], strict=True):
            found.setdefault(cell, set()).add(disease)
        return found

    @property
    def fakes(self) -> dict[Cells, int]:
        return Counter(c for c, p in zip(self.cells, self.persons, strict=True) if p is None)


def people(names: Sequence[int]) -> pd.DataFrame:
    each = [np.random.default_rng(name) for name in names]
    return pd.DataFrame(
        {
            "age": [int(r.integers(20, 60)) for r in each],
            "town": pd.Series([str(r.choice(["a1", "a2", "b1", "b2", "c1"])) for r in each], dtype="str"),
            "disease": pd.Series(
                [str(r.choice(["d0", "d1", "d2", "d3"], p=[0.4, 0.3, 0.2, 0.1])) for r in each], dtype="str"
            ),
        }
    )


def published(
    table: pd.DataFrame, names: Sequence[int], earlier: Sequence[Week], reading: str, **more: Any
) -> Week:
    who = np.array([f"person {name}" for name in names], dtype=object)
    given = {"k": K, "m": {"disease": M}, "counterfeits": 0.3} | more
    method, limit = given.pop("method", load_method("bottom_up", k=K)), given.pop("limit", 0.9)
    memberships = [week.membership for week in earlier]
    release = republish(
        method,
        table,
        SCHEMA,
        np.random.default_rng(1),
        persons=who,
        earlier=memberships,
        guarantee=RepublicationGuarantee(departures=Departures(reading), **given),
        limit=limit,
    )
    if "counterfeits" in release.table:  # whether a record is a person's must not show in its place
        assert released_order(release.table).tolist() == list(range(len(release.table)))
    return Week(release, np.array([None if row < 0 else who[row] for row in release.rows], dtype=object))


def history(reading: str, seed: int, weeks: int = 5, **more: Any) -> list[Week]:
    """Arrivals, departures and returns."""
    rng = np.random.default_rng(seed)
    present, fresh = list(range(100 * seed, 100 * seed + 60)), 100 * seed + 60
    found: list[Week] = []
    for week in range(weeks):
        if week:
            gone = set(rng.choice(present, 6, replace=False).tolist())
            back = [n for n in range(100 * seed, fresh) if n not in present and rng.random() < 0.2]
            present = [n for n in present if n not in gone] + back + list(range(fresh, fresh + 6))
            fresh += 6
        found.append(published(people(present), present, found, reading, **more))
    return found


def judged(week: Week, earlier: Sequence[Week], reading: str, **given: Any) -> Report:
    policy = ReleasePolicy(
        require=(KAnonymity(k=K),),
        across=(CrossReleaseKAnonymity(k=K, departures=reading), MInvariance(m=M, attribute="disease")),  # type: ignore[arg-type]
    )
    fields = {"table": week.release.table, "persons": week.persons} | given
    memberships = [w.membership for w in earlier]
    return verify(
        fields["table"],
        week.release.schema,
        policy,
        persons=fields["persons"],
        earlier=memberships,
        source=SCHEMA,
    )


def recounted(weeks: Sequence[Week], reading: str) -> None:
    """k and m of every release and every pair of them, from cells and persons alone."""
    for week in weeks:
        fields = dict(zip(week.cells, week.release.table["counterfeits"], strict=True))
        assert {cell: number for cell, number in fields.items() if number} == week.fakes
        assert len({*zip(week.cells, week.release.table["counterfeits"], strict=True)}) == len(fields)
        assert min(Counter(week.classes.values()).values()) >= K
        assert set(week.classes.values()) == set(week.cells)
        assert min(map(len, week.sets.values())) >= M
        assert_not_revealed(week)
    for one, other in combinations(weeks, 2):
        both = one.classes.keys() & other.classes.keys()
        assert all(one.sets[one.classes[p]] == other.sets[other.classes[p]] for p in both)
        if reading == "known":
            assert min(Counter((one.classes[p], other.classes[p]) for p in both).values(), default=K) >= K


def assert_not_revealed(week: Week) -> None:
    """Each value of a class with counterfeits may be a person's, for someone who knows how they are made."""
    for cell, fakes in week.fakes.items():
        counts = Counter(
            d for c, d in zip(week.cells, week.release.table["disease"], strict=True) if c == cell
        )
        fewest = min(counts.values())
        rarest = [value for value, count in counts.items() if count == fewest]
        assert fakes % fewest == 0
        assert fakes < len(rarest) * fewest


@pytest.mark.parametrize("reading", READINGS)
# Other histories meet other orders of arrivals, departures and returns.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_all_releases_and_every_pair_keep_k_and_m(reading: str, seed: int) -> None:
    weeks = history(reading, seed, weeks=3, reserve=2)
    recounted(weeks, reading)
    for i, week in enumerate(weeks):
        assert judged(week, weeks[:i], reading).passed
        n = len(week.classes) + week.release.notes["withheld"]
        assert sum(week.fakes.values()) == week.release.notes["counterfeits"] <= 0.3 * n
        assert list(week.release.table) == [*CELLS, "disease", "counterfeits"]


# Of known departures, the class that lost a value (below) is the small case.
@pytest.mark.slow  # several releases of hundreds
@pytest.mark.parametrize("reading", ["unknown", pytest.param("known", marks=pytest.mark.slow)])
def test_a_value_that_all_people_leave_with_is_kept_by_counterfeits(reading: str) -> None:
    table, found = people(range(90)), list[Week]()
    for gone in ([], [], ["d3"], ["d3"]):
        names = np.flatnonzero(~table["disease"].isin(gone)).tolist()
        found.append(
            published(table.iloc[names].reset_index(drop=True), names, found, reading, counterfeits=1.0)
        )
    assert [bool(week.fakes) for week in found] == [False, False, True, True]
    if reading == "unknown":  # where it is known who left, those left of a class may be fewer than k
        assert all(week.release.notes["withheld"] == 0 for week in found)
    recounted(found, reading)


@pytest.mark.quick("bottom_up", "obpa", "mondrian", "kacluk")  # rfka tries many features
@pytest.mark.parametrize(("key", "reading"), list(zip(ANONYMIZERS, itertools.cycle(READINGS), strict=False)))
def test_any_anonymizer_makes_the_next_release(key: str, reading: str) -> None:
    method = load_method(key, k=K, **({"l": 2} if key == "kacluk" else {}))
    first = published(people(range(40)), range(40), [], reading, method=method, reserve=2)
    names = [*range(4, 40), *range(100, 106)]
    second = published(people(names), names, [first], reading, method=method, reserve=2)
    assert second.release.method == key
    recounted([first, second], reading)


def test_fewer_are_withheld_than_without() -> None:
    with_them = history("unknown", 1)
    without = history("unknown", 1, counterfeits=0.0)
    assert with_them[-1].release.notes["withheld"] < without[-1].release.notes["withheld"]


def lacking_one() -> tuple[Week, pd.DataFrame, list[int]]:
    """A class that loses all people of one of its two values; all others have other values."""
    ages = [20, 21, 22, 23, 24, 25, *range(50, 66)]
    diseases = ["d0", "d0", "d0", "d0", "d1", "d1", *["d2", "d3"] * 8]
    table = pd.DataFrame({"age": ages, "town": "a1", "disease": diseases}).astype(
        {"town": "str", "disease": "str"}
    )
    first = published(table, range(22), [], "known", reserve=2)
    stay = [i for i in range(22) if i not in (4, 5)]
    return first, table.iloc[stay].reset_index(drop=True), stay


def test_a_class_that_lost_a_value_gets_as_many_as_its_rarest_has() -> None:
    first, table, stay = lacking_one()
    second = published(table, stay, [first], "known", counterfeits=0.2)
    young = second.classes["person 0"]
    assert second.fakes == {young: 4}
    assert second.sets[young] == {"d0", "d1"}
    assert second.release.notes["withheld"] == 0
    recounted([first, second], "known")


def test_more_than_may_be_added_are_withheld_or_refused_with_both_numbers() -> None:
    first, table, stay = lacking_one()
    assert published(table, stay, [first], "known", counterfeits=0.19).release.notes == {
        "distorted": 0.0,
        "withheld": 4.0,
        "counterfeits": 0.0,
    }
    with pytest.raises(
        InfeasibleError, match=r"4 of 20 persons .* at most 0 may be: 3 counterfeits may be added"
    ):
        published(table, stay, [first], "known", counterfeits=0.19, limit=0.0)
    with pytest.raises(InfeasibleError, match="counterfeits"):
        published(table, stay, [first], "known", counterfeits=0.0, limit=0.0)


def filled_week() -> tuple[Week, Week, Cells]:
    first, table, stay = lacking_one()
    second = published(table, stay, [first], "known", counterfeits=0.2)
    return first, second, second.classes["person 0"]


def test_a_number_that_is_wrong_by_one_fails() -> None:
    first, second, cell = filled_week()
    assert judged(second, [first], "known").passed
    for by in (-1, 1):
        table = second.release.table.copy()
        mine = [c == cell for c in second.cells]
        table.loc[mine, "counterfeits"] += by
        report = judged(second, [first], "known", table=table)
        (found,) = [f for f in report.findings if f.rule.startswith("counterfeits")]
        assert not report.passed
        assert (found.failing_classes, found.failing_rows) == (1, 8)
        assert [f.rule for f in report.findings if not f.passed] == [found.rule]


def test_a_counterfeit_that_is_claimed_a_person_and_the_reverse_fail() -> None:
    first, second, cell = filled_week()
    fake = next(i for i, p in enumerate(second.persons) if p is None)
    real = next(i for i, c in enumerate(second.cells) if c == cell and second.persons[i] is not None)
    claimed, disowned, exchanged = (second.persons.copy() for _ in range(3))
    claimed[fake] = "person 99"
    disowned[real] = None
    exchanged[fake], exchanged[real] = exchanged[real], None
    for persons in (claimed, disowned, exchanged):
        assert not judged(second, [first], "known", persons=persons).passed


def test_a_counterfeit_does_not_count_for_k() -> None:
    _, second, cell = filled_week()
    keep = [i for i, c in enumerate(second.cells) if c != cell or second.persons[i] is None]
    keep += [i for i, c in enumerate(second.cells) if c == cell and second.persons[i] is not None][:2]
    table = second.release.table.iloc[keep].reset_index(drop=True)
    assert table.groupby(CELLS).size().min() >= K  # with the counterfeits
    for model in (KAnonymity(k=K), AlphaKAnonymity(alpha=1.0, k=K)):
        report = verify(
            table,
            second.release.schema,
            ReleasePolicy(require=(model,)),
            persons=second.persons[keep],
        )
        (found,) = [f for f in report.findings if "k=3" in f.rule]
        assert (found.passed, found.failing_rows) == (False, 2)


def test_counterfeits_that_can_be_recognized_make_a_set_of_nothing() -> None:
    """One d1 next to four d0: someone who knows how they are made knows which is made up."""
    first, second, cell = filled_week()
    fakes = [i for i, p in enumerate(second.persons) if p is None]
    keep = [i for i in range(len(second.persons)) if i not in fakes[1:]]
    table = second.release.table.iloc[keep].reset_index(drop=True)
    table.loc[[second.cells[i] == cell for i in keep], "counterfeits"] = 1
    report = judged(second, [first], "known", table=table, persons=second.persons[keep])
    (found,) = [f for f in report.findings if f.rule.startswith("m_invariance")]
    assert (found.passed, found.measured, found.failing_rows) == (False, 0.0, 4)
    assert [f.rule for f in report.findings if not f.passed] == [found.rule]


def test_counterfeits_are_followed_as_no_one() -> None:
    first, second, _ = filled_week()
    assert set(second.membership.persons) == set(second.classes)
    third = published(*_same(), [first, second], "known", counterfeits=0.2)
    recounted([first, second, third], "known")


def _same() -> tuple[pd.DataFrame, list[int]]:
    _, table, stay = lacking_one()
    return table, stay


def test_a_value_outside_of_the_signature_is_withheld() -> None:
    first, table, stay = lacking_one()
    table.loc[0, "disease"] = "d9"
    second = published(table, stay, [first], "known", counterfeits=0.5)
    assert "person 0" not in second.classes
    recounted([first, second], "known")


@pytest.mark.parametrize(
    ("column", "m"),
    [
        ({"visits": {"role": "insensitive", "kind": "numeric"}}, {"disease": 2}),
        ({"drug": {"role": "sensitive"}}, {"disease": 2, "drug": 2}),
        ({"drug": {"role": "sensitive"}}, {"disease": 2}),
        ({}, {}),
    ],
)
def test_what_would_tell_a_counterfeit_is_refused(column: dict[str, Any], m: dict[str, int]) -> None:
    schema = DataSchema.from_dict(
        {"age": {"role": "quasi_identifier", "kind": "numeric"}, "disease": {"role": "sensitive"}} | column
    )
    table = pd.DataFrame({"age": [1, 2], "disease": "d0", **dict.fromkeys(column, 1)})
    with pytest.raises(SchemaError, match="m must name one attribute"):
        republish(
            load_method("bottom_up", k=2),
            table,
            schema,
            np.random.default_rng(1),
            persons=np.array(["a", "b"], dtype=object),
            earlier=[],
            guarantee=RepublicationGuarantee(k=2, m=m, counterfeits=0.1),
        )
