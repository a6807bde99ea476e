"""Releases of the same people over time, recounted in plain Python from the released cells alone."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.registry import load_method, method_class, method_names
from privacy_engine.release import Release
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.republish import republish
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, Membership
from privacy_engine.verification.models import KAnonymity, holds
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.republication.model import Republication
from privacy_engine.verification.verify import verify
from privacy_engine.vocabulary import Departures

TREE = "\n".join(f"{town};{town[0]};*" for town in ("a1", "a2", "b1", "b2", "c1"))
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]},
        "town": {"role": "quasi_identifier", "hierarchy": "town"},
        "pet": {"role": "quasi_identifier", "nullable": True},
        "disease": {"role": "sensitive"},
    },
    hierarchies={"town": Hierarchy.from_csv(TREE)},
)
READINGS = ("known", "unknown")
ANONYMIZERS = [name for name in method_names() if issubclass(method_class(name), Anonymizer)]
METHOD = load_method("bottom_up", k=3)
K = 3
QUASI = ["age", "town", "pet"]
CELLS = ["age_from", "age_to", "town", "pet"]  # as they are released


@dataclass(frozen=True)
class Week:
    """Who is in a release, and their released cells."""

    release: Release
    persons: np.ndarray

    @cached_property
    def cells(self) -> dict[str, tuple[object, ...]]:
        table = with_intervals(self.release.table).reindex(columns=QUASI).astype(object)
        columns = [table[name].where(table[name].notna(), None) for name in table]
        return dict(zip(self.persons.tolist(), zip(*columns, strict=True), strict=True))

    @cached_property
    def membership(self) -> Membership:
        return Membership.of_table(self.persons, self.release.table, self.release.schema)


def with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its ages in one column, as a text for the readers below."""
    if "age_from" not in table:
        return table
    return table.assign(age=table["age_from"].astype(str) + " to " + table["age_to"].astype(str))


def people(names: Sequence[int], rng: np.random.Generator) -> pd.DataFrame:
    """A record for each name, the same in every week."""
    each = [np.random.default_rng(name) for name in names]
    return pd.DataFrame(
        {
            "age": [int(r.integers(20, 60)) for r in each],
            "town": pd.Series([str(r.choice(["a1", "a2", "b1", "b2", "c1"])) for r in each], dtype="str"),
            "pet": pd.Series([r.choice(["cat", "dog, big", None]) for r in each], dtype="str"),
            "disease": pd.Series([f"d{r.integers(0, 5)}" for r in each], dtype="str"),
        }
    )


def published(
    table: pd.DataFrame,
    names: Sequence[int],
    earlier: Sequence[Week],
    reading: str,
    limit: float = 0.9,
    method: Anonymizer = METHOD,
    **more: Any,
) -> Week:
    who = np.array([f"person {name}" for name in names], dtype=object)
    release = republish(
        method,
        table,
        SCHEMA,
        np.random.default_rng(1),
        persons=who,
        earlier=[week.membership for week in earlier],
        guarantee=RepublicationGuarantee(k=K, departures=Departures(reading), **more),
        limit=limit,
    )
    return Week(release, who[release.rows])


@cache
def leaves(cell: object, name: str) -> set[object]:
    """All values that a cell covers, by its text."""
    text = str(cell)
    if cell is None:
        return {None}
    if name == "age":
        ends = [int(end) for end in re.findall(r"\d+", text)]
        return set(range(ends[0], ends[-1] + 1))
    if name == "town":
        return {row.split(";")[0] for row in TREE.split("\n") if text in row.split(";")}
    found: set[object] = {value for value in ("cat", "dog, big") if value in text}
    return found | ({None} if "null" in text else set())


def lies_in(inner: tuple[object, ...], outer: tuple[object, ...]) -> bool:
    names = ("age", "town", "pet")
    return all(leaves(a, n) <= leaves(b, n) for a, b, n in zip(inner, outer, names, strict=True))


def least(weeks: Sequence[Week], reading: str) -> int:
    """The fewest people that look like a person, in all releases together and in every pair of them."""
    every = [week.cells for week in weeks]
    found = 10**6
    groups = [
        *combinations(range(len(every)), 2),
        tuple(range(len(every))),
        *((i,) for i in range(len(every))),
    ]
    for group in groups:
        reported = [every[i] for i in group]
        for person in set().union(*reported):
            mine = [cells for cells in reported if person in cells]
            same = [{q for q, cell in cells.items() if cell == cells[person]} for cells in mine]
            count = len(set.intersection(*same))
            if reading == "unknown":  # earlier classes count, whether or not they are in the group
                known = [cells for cells in every[: group[-1] + 1] if person in cells]
                for cells in known:
                    core = cells[person]
                    if all(lies_in(core, other[person]) for other in mine):
                        count = max(count, sum(cell == core for cell in cells.values()))
            found = min(found, count)
    return found


def truthful(week: Week, table: pd.DataFrame) -> bool:
    rows = table.iloc[week.release.rows].astype(object).where(table.iloc[week.release.rows].notna(), None)
    reported = [week.cells[person] for person in week.persons]
    return all(
        row[name] in leaves(cell[i], name)
        for (_, row), cell in zip(rows.iterrows(), reported, strict=True)
        for i, name in enumerate(("age", "town", "pet"))
    )


@cache
def history(reading: str, seed: int, weeks: int = 6) -> list[Week]:
    """For reading only: arrivals, departures, returns, moves, birthdays and other diagnoses."""
    rng = np.random.default_rng(seed)
    present, fresh = list(range(40)), 40
    found: list[Week] = []
    for week in range(weeks):
        if week:
            gone = set(rng.choice(present, 4, replace=False).tolist())
            back = [n for n in range(fresh) if n not in present and rng.random() < 0.3]
            present = [n for n in present if n not in gone] + back + list(range(fresh, fresh + 4))
            fresh += 4
        table = people(present, rng)
        changed = rng.random(len(table)) < 0.05 * (week > 0)
        table.loc[changed, "age"] += 7
        table.loc[rng.random(len(table)) < 0.1, "disease"] = "d0"
        found.append(published(table, present, found, reading, reserve=1.5))
        assert truthful(found[-1], table)
        assert holds(
            KAnonymity(k=K), EquivalenceClasses.of_table(found[-1].release.table, found[-1].release.schema)
        )
        assert found[-1].release.notes["withheld"] == len(table) - len(found[-1].persons)
    return found


@pytest.mark.parametrize("reading", READINGS)
# Other histories meet other orders of arrivals, departures and returns.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_all_releases_and_every_pair_keep_k(reading: str, seed: int) -> None:
    assert least(history(reading, seed), reading) >= K


@pytest.mark.parametrize("reading", READINGS)
def test_the_judge_passes_each_release_and_refuses_a_person_who_is_moved(reading: str) -> None:
    *earlier, last = history(reading, 0)
    policy = ReleasePolicy(across=(CrossReleaseKAnonymity(k=K, departures=reading),))  # type: ignore[arg-type]
    memberships = [week.membership for week in earlier]

    def passed(table: pd.DataFrame) -> bool:
        return verify(
            table, last.release.schema, policy, persons=last.persons, earlier=memberships, source=SCHEMA
        ).passed

    assert passed(last.release.table)
    broken, cells, first = last.release.table.copy(), [last.cells[p] for p in last.persons], earlier[0].cells
    old, other = next(
        (i, j)
        for i, person in enumerate(last.persons)
        for j, mate in enumerate(last.persons)
        if person in first and mate in first and first[person] != first[mate] and cells[i] != cells[j]
        if not lies_in(first[person], cells[j]) and not lies_in(cells[j], first[person])
    )
    for name in CELLS:
        broken.loc[broken.index[old], name] = broken[name].iloc[other]
    assert not passed(broken)


@pytest.mark.quick("bottom_up", "obpa", "mondrian", "kacluk", "ilp_l_diversity")  # rfka tries many features
@pytest.mark.parametrize(
    ("key", "reading"), list(zip(ANONYMIZERS, itertools.cycle(READINGS[::-1]), strict=False))
)
def test_any_anonymizer_makes_the_next_release(key: str, reading: str) -> None:
    method = load_method(key, k=K, **({"l": 2} if key == "kacluk" else {}))
    rng = np.random.default_rng(3)
    first = published(people(range(40), rng), range(40), [], reading, method=method)
    names = [*range(4, 40), *range(100, 108)]
    second = published(people(names, rng), names, [first], reading, method=method)
    assert second.release.method == key
    assert least([first, second], reading) >= K


@pytest.mark.parametrize("reading", READINGS)
def test_the_same_seed_gives_the_same_release(reading: str) -> None:
    again = history.__wrapped__(reading, 0, weeks=2)
    assert again[-1].cells == history(reading, 0)[1].cells


@pytest.mark.parametrize("reading", READINGS)
def test_without_earlier_releases_of_its_people_a_release_is_the_methods_own(reading: str) -> None:
    rng = np.random.default_rng(1)
    table, before = people(range(30), rng), published(people(range(50, 80), rng), range(50, 80), [], reading)
    plain = METHOD.release(table, SCHEMA, np.random.default_rng(1)).table
    for earlier in ([], [before]):  # retracted, or everybody new
        pd.testing.assert_frame_equal(published(table, range(30), earlier, reading).release.table, plain)


def test_unknown_departures_withhold_no_one() -> None:
    assert all(week.release.notes["withheld"] == 0 for week in history("unknown", 0))


def test_known_departures_withhold_who_is_left_with_too_few_and_say_how_many() -> None:
    rng = np.random.default_rng(1)
    first = published(people(range(30), rng), range(30), [], "known")
    gone = first.persons[first.membership.labels == first.membership.labels[0]][:1]
    names = [n for n in range(30) if f"person {n}" not in gone]
    second = published(people(names, rng), names, [first], "known")
    left = int(second.release.notes["withheld"])
    assert 0 < left < len(names)
    with pytest.raises(InfeasibleError, match=rf"{left} of 29 persons .* at most 0 may be"):
        published(people(names, rng), names, [first], "known", limit=0.0)


def test_few_newcomers_join_those_who_were_there() -> None:
    rng = np.random.default_rng(1)
    for reading in READINGS:
        first = published(people(range(30), rng), range(30), [], reading)
        second = published(people(range(31), rng), range(31), [first], reading)
        assert "person 30" in second.persons
        assert least([first, second], reading) >= K


@pytest.mark.parametrize("reading", READINGS)
def test_sensitive_models_hold_in_every_release(reading: str) -> None:
    method = load_method("bottom_up", k=K, l=2)
    rng, weeks = np.random.default_rng(1), []
    for week in range(4):
        names = range(3 * week, 45 + 3 * week)
        weeks.append(published(people(names, rng), names, weeks, reading, method=method))
        assert weeks[-1].release.table.groupby(CELLS, dropna=False)["disease"].nunique().min() >= 2
    assert least(weeks, reading) >= K


@pytest.mark.parametrize("reading", READINGS)
def test_a_class_keeps_its_set_of_values_or_is_withheld(reading: str) -> None:
    rng, weeks = np.random.default_rng(1), []
    for week in range(4):
        names = range(2 * week, 60 + 2 * week)
        weeks.append(published(people(names, rng), names, weeks, reading, m={"disease": 2}, limit=0.99))
    every = []
    for week in weeks:
        table = week.release.table.assign(person=week.persons)
        sets = table.groupby(CELLS, dropna=False)["disease"].transform(lambda x: "|".join(sorted(set(x))))
        every.append(dict(zip(week.persons, sets, strict=True)))
        assert (sets.str.count(r"\|") >= 1).all()
    for one, other in combinations(every, 2):
        assert all(one[p] == other[p] for p in one.keys() & other.keys())


def test_a_person_of_several_rows_cannot_be_followed() -> None:
    table, who = people(range(9), np.random.default_rng(1)), np.array(list("abcdefgha"), dtype=object)
    given: dict[str, Any] = {"earlier": [], "guarantee": RepublicationGuarantee(k=3)}
    with pytest.raises(SchemaError, match="1 of 9 records repeat another's person; aggregate"):
        republish(METHOD, table, SCHEMA, np.random.default_rng(1), persons=who, **given)
    fields = {"age": {"role": "quasi_identifier", "kind": "numeric"}, "family": {"role": "identifier"}}
    schema = DataSchema.from_dict({**fields, "person": "family"})
    table, who = table[["age"]].assign(family=list("aabbcccde")), np.array(list("abcdefghi"), dtype=object)
    with pytest.raises(SchemaError, match="4 of 9 records repeat another's family; aggregate"):
        republish(METHOD, table, schema, np.random.default_rng(1), persons=who, **given)


def test_wrong_parameters_are_refused_by_name() -> None:
    table, who = (
        people(range(9), np.random.default_rng(1)),
        np.array([str(i) for i in range(9)], dtype=object),
    )
    for wrong, reported in (
        ({"k": 1}, "k must be"),
        ({"reserve": 0.5}, "reserve"),
        ({"departures": "x"}, "departures"),
        ({"counterfeits": 1.5}, "counterfeits"),
    ):
        with pytest.raises(ValueError, match=reported):
            RepublicationGuarantee(**{"k": 3, **wrong})
    unknown = RepublicationGuarantee(k=3, departures=Departures.UNKNOWN)
    given = {"persons": who, "earlier": [], "guarantee": unknown}
    with pytest.raises(SchemaError, match="8 of 9"):
        republish(METHOD, table, SCHEMA, np.random.default_rng(1), **{**given, "persons": who[:8]})
    midpoints = load_method("bottom_up", k=3, intervals="midpoint")
    schema = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric"}})
    with pytest.raises(SchemaError, match="midpoints"):
        republish(midpoints, table[["age"]], schema, np.random.default_rng(1), **given)


@pytest.mark.parametrize("reading", READINGS)
def test_without_the_model_of_subtraction_newcomers_are_not_safe_from_it(reading: str) -> None:
    """What releases do not keep so far, see "Attackers" in docs/republication.md."""
    rng = np.random.default_rng(2)
    names = [list(range(24)), [*range(2, 24), 50, 51]]
    first = published(people(names[0], rng), names[0], [], reading)
    second = published(people(names[1], rng), names[1], [first], reading)
    policy = ReleasePolicy(
        across=(CrossReleaseKAnonymity(k=K, departures=Departures(reading)), Republication(k=K, m=2))
    )
    old, new = verify(
        second.release.table,
        second.release.schema,
        policy,
        persons=second.persons,
        earlier=[first.membership],
        source=SCHEMA,
    ).findings
    assert old.passed
    assert not new.passed
    assert "difference 0" in new.note


def test_a_guarantee_is_written_and_read_as_it_is() -> None:
    guarantee = RepublicationGuarantee(
        k=4, m={"disease": 3}, departures=Departures.UNKNOWN, reserve=1.5, counterfeits=0.1, hold_back=2
    )
    assert RepublicationGuarantee.from_dict(guarantee.to_dict()) == guarantee
    assert RepublicationGuarantee.from_dict(RepublicationGuarantee(k=2).to_dict()).reserve == 1.0
