"""m-unique classes, compared with all assignments of values to persons that explain what was published.

Anyone who knows all persons of each class, and how many counterfeits it has, looks for the values that each
person may have. Xiao, X., Tao, Y.: m-Invariance. SIGMOD 2007, lemma 1: of m values each is as likely.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
import pytest

from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership, MInvariance
from privacy_engine.vocabulary import COUNTERFEITS, Kind, Role

SCHEMA = DataSchema(
    (
        Attribute(name="place", role=Role.QUASI_IDENTIFIER),
        Attribute(name="disease", role=Role.SENSITIVE),
        Attribute(name=COUNTERFEITS, role=Role.INSENSITIVE, kind=Kind.NUMERIC),
    )
)
M = 2
Rows = list[tuple[str | None, str, str]]  # person or no one, released place, disease


def membership(rows: Rows) -> tuple[Membership, EquivalenceClasses]:
    fakes = Counter(place for person, place, _ in rows if person is None)
    table = pd.DataFrame(
        {
            "place": pd.Series([place for _, place, _ in rows], dtype="str"),
            "disease": pd.Series([value for *_, value in rows], dtype="str"),
            COUNTERFEITS: [fakes[place] for _, place, _ in rows],
        }
    )
    classes = EquivalenceClasses.of_table(table, SCHEMA)
    persons = np.array([person for person, *_ in rows], dtype=object)
    return Membership.of_classes(persons, classes, table, SCHEMA), classes


def least(releases: list[Rows], *, unique: bool) -> float:
    """The worst number that any release had when it was published."""
    found, earlier = [], list[Membership]()
    for rows in releases:
        new, classes = membership(rows)
        model = MInvariance(m=M, unique=unique)
        found.append(model.per_person(History(new=new, earlier=tuple(earlier)), classes).min())
        earlier.append(new)
    return float(min(found))


def worlds(releases: list[Rows]) -> Iterator[dict[str, str]]:
    """Each way to give persons values, one each, so that every class has enough records of each value."""
    persons = sorted({person for rows in releases for person, *_ in rows if person is not None})
    values = sorted({value for rows in releases for *_, value in rows})
    places = [(rows, place) for rows in releases for place in {place for _, place, _ in rows}]
    classes = [
        (
            Counter(value for _, own, value in rows if own == place),
            [person for person, own, _ in rows if own == place and person is not None],
        )
        for rows, place in places
    ]
    for assigned in product(values, repeat=len(persons)):
        world = dict(zip(persons, assigned, strict=True))
        if all(Counter(world[person] for person in members) <= have for have, members in classes):
            yield world


def values_left(releases: list[Rows]) -> dict[str, Counter[str]]:
    """person -> in how many worlds the person has which value."""
    found: dict[str, Counter[str]] = {}
    for world in worlds(releases):
        for person, value in world.items():
            found.setdefault(person, Counter())[value] += 1
    return found


def some_history(rng: np.random.Generator) -> list[Rows]:
    """Three releases of six persons who come, leave, return and move within their signatures."""
    signature = {person: str(rng.choice(["123", "12", "23"])) for person in "abcdef"}
    value = {person: str(rng.choice(list(own))) for person, own in signature.items()}
    releases = []
    for _ in range(3):
        rows: Rows = []
        classes: list[tuple[str, list[str]]] = []  # signature and persons
        for person in rng.permutation([p for p in "abcdef" if rng.random() < 0.7]).tolist():
            fitting = [
                members
                for own, members in classes
                if own == signature[person] and value[person] not in [value[p] for p in members]
            ]
            if not fitting or rng.random() < 0.2:
                classes.append((signature[person], []))
                fitting = [classes[-1][1]]
            fitting[int(rng.integers(len(fitting)))].append(person)
        for place, (own, members) in enumerate(classes):
            rows += [(person, f"p{place}", value[person]) for person in members]
            rows += [(None, f"p{place}", v) for v in own if v not in [value[p] for p in members]]
        if rows:
            releases.append(rows)
    return releases


# Each has another order of arrivals, departures, returns and moves.
@pytest.mark.parametrize("seed", range(25))
def test_each_value_of_the_signature_is_as_likely_for_each_person(seed: int) -> None:
    releases = some_history(np.random.default_rng(seed))
    assert least(releases, unique=True) >= M
    for counts in values_left(releases).values():
        assert len(counts) >= M
        assert len(set(counts.values())) == 1


WEEK_1: Rows = [("a", "x", "flu"), ("b", "x", "hiv")]
# b left and e came, so the class has its values again.
SOUND: Rows = [("a", "x", "flu"), ("e", "x", "hiv")]
SLIP: Rows = [*WEEK_1, ("e", "x", "hiv")]  # the class keeps a value twice


def test_a_class_that_has_a_value_twice_gives_the_newcomer_away() -> None:
    assert values_left([WEEK_1, SOUND])["e"] == {"flu": 1, "hiv": 1}
    assert least([WEEK_1, SOUND], unique=True) == 2.0
    assert set(values_left([WEEK_1, SLIP])["e"]) == {"hiv"}
    assert [least([WEEK_1, SLIP], unique=unique) for unique in (False, True)] == [2.0, 0.0]


def test_a_counterfeit_counts_as_the_second_record_with_its_value() -> None:
    once: Rows = [("a", "x", "flu"), (None, "x", "hiv")]
    assert least([WEEK_1, once], unique=True) == 2.0
    twice: Rows = [*once, (None, "x", "hiv")]
    assert least([WEEK_1, twice], unique=True) == 0.0
    assert least([WEEK_1, [*WEEK_1, (None, "x", "hiv")]], unique=True) == 0.0


def test_the_first_two_releases_of_the_paper_are_2_invariant() -> None:
    """Tables 1 to 3: Bob stands beside the counterfeit c1, Jane and Linda beside c2."""
    first, second = ([(p, g, v) for g, own in week.items() for p, v in own] for week in PAPER)
    assert least([first, second], unique=True) == 2.0
    without = [row for row in second if row[0] is not None]
    assert least([first, without], unique=True) == 0.0
    of_bob = [[row for row in rows if row[1] == "1"] for rows in (first, without)]
    assert set(values_left(of_bob)["Bob"]) == {"dyspepsia"}


PAPER: tuple[dict[str, list[tuple[str | None, str]]], ...] = (
    {
        "1": [("Bob", "dyspepsia"), ("Alice", "bronchitis")],
        "2": [("Andy", "flu"), ("David", "gastritis")],
        "3": [("Gary", "flu"), ("Helen", "gastritis")],
        "4": [("Jane", "dyspepsia"), ("Ken", "flu"), ("Linda", "gastritis")],
        "5": [("Paul", "dyspepsia"), ("Steve", "gastritis")],
    },
    {
        "1": [("Bob", "dyspepsia"), (None, "bronchitis")],
        "2": [("David", "gastritis"), ("Emily", "flu")],
        "3": [("Jane", "dyspepsia"), (None, "flu"), ("Linda", "gastritis")],
        "4": [("Gary", "flu"), ("Mary", "gastritis")],
        "5": [("Ray", "dyspepsia"), ("Steve", "gastritis")],
        "6": [("Tom", "gastritis"), ("Vince", "flu")],
    },
)
