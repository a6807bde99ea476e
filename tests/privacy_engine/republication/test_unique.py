"""m-unique classes by the paper's phases: its example, and weeks of arrivals, departures and returns."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.measures.recoding import Recoding
from privacy_engine.registry import load_method
from privacy_engine.release import Release
from privacy_engine.republication.counterfeits import filled, rendered
from privacy_engine.republication.earlier_boxes import blocks_of, known_of
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.republish import republish
from privacy_engine.republication.unique import Bucket, Demand, _assign, m_unique_classes, most_classes
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, Membership, MInvariance
from privacy_engine.verification.models import KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_engine.vocabulary import Departures, Intervals

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]},
        "zip": {"role": "quasi_identifier", "kind": "numeric", "bounds": [10000, 50000]},
        "disease": {"role": "sensitive"},
    }
)
# Tables 1 and 2 of the paper: T(1) with the classes of T*(1), and T(2).
FIRST = """
Bob 21 12000 dyspepsia 1
Alice 22 14000 bronchitis 1
Andy 24 18000 flu 2
David 23 25000 gastritis 2
Gary 41 20000 flu 3
Helen 36 27000 gastritis 3
Jane 37 33000 dyspepsia 4
Ken 40 35000 flu 4
Linda 43 26000 gastritis 4
Paul 52 33000 dyspepsia 5
Steve 56 34000 gastritis 5
"""
SECOND = """
Bob 21 12000 dyspepsia
David 23 25000 gastritis
Emily 25 21000 flu
Jane 37 33000 dyspepsia
Linda 43 26000 gastritis
Gary 41 20000 flu
Mary 46 30000 gastritis
Ray 54 31000 dyspepsia
Steve 56 34000 gastritis
Tom 60 44000 gastritis
Vince 65 36000 flu
"""
HEAD = ["name", "age", "zip", "disease", "class"]


def rows_of(text: str) -> pd.DataFrame:
    rows = [line.split() for line in text.strip().splitlines()]
    table = pd.DataFrame(rows, columns=HEAD[: len(rows[0])]).astype({"age": int, "zip": int})
    return table.astype({"name": "str", "disease": "str"})


def first_of_the_paper() -> Membership:
    """T*(1), with the number of counterfeits in each class: none."""
    table = rows_of(FIRST)
    names, classes = table["name"].to_numpy(dtype=object), table["class"].astype(int).to_numpy() - 1
    known = known_of(table[["age", "zip", "disease"]], SCHEMA, names, [], nested=False)
    plain = rendered(Recoding.of_labels(known.encoded, classes[known.encoded.rows]), Intervals.BOUNDS)
    released = filled(plain, classes[plain.rows], [{}] * 5, "disease", table["disease"])
    return Membership.of_table(names[released.rows], released.table, released.schema)


def test_the_second_release_of_the_paper() -> None:
    """Table 3: six classes, and a counterfeit each beside Bob, and beside Jane and Linda."""
    table = rows_of(SECOND)
    names = table["name"].to_numpy(dtype=object)
    known = known_of(table[["age", "zip", "disease"]], SCHEMA, names, [first_of_the_paper()], nested=False)
    demand = Demand(attribute="disease", m=2, k=1, counterfeits=True, together=False)
    everyone = np.ones(len(table), np.bool_)
    rng = np.random.default_rng(1)
    labels, values, buckets = m_unique_classes(known, blocks_of(known.history), everyone, demand, rng)
    found: dict[frozenset[str], set[str]] = {}
    for label in range(labels.max() + 1):
        mine = np.flatnonzero(labels == label)
        (of,) = set(buckets.of[mine])
        found[frozenset(known.persons[mine])] = set(buckets.signatures[of]) - set(values[mine])
    assert found == {
        frozenset({"Bob"}): {"bronchitis"},
        frozenset({"David", "Emily"}): set(),
        frozenset({"Jane", "Linda"}): {"flu"},
        frozenset({"Gary", "Mary"}): set(),
        frozenset({"Ray", "Steve"}): set(),
        frozenset({"Tom", "Vince"}): set(),
    }


def test_the_second_release_of_the_paper_with_two_persons_a_class() -> None:
    """Persons count for k, not counterfeits, so Bob is withheld; c2 is published with its number."""
    table = rows_of(SECOND)
    release = republish(
        load_method("mondrian", k=2),
        table[["age", "zip", "disease"]],
        SCHEMA,
        np.random.default_rng(1),
        persons=table["name"].to_numpy(dtype=object),
        earlier=[first_of_the_paper()],
        guarantee=RepublicationGuarantee(
            k=2, m={"disease": 2}, departures=Departures.UNKNOWN, counterfeits=1.0, unique=True
        ),
        limit=0.1,
    )
    assert release.notes == {"distorted": 0.0, "withheld": 1.0, "counterfeits": 1.0}
    reported = release.table[release.table["counterfeits"] == 1]
    assert sorted(reported["disease"]) == ["dyspepsia", "flu", "gastritis"]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(2, 4), st.integers(0, 99))
def test_arrivals_who_are_eligible_are_all_assigned(counts: list[int], m: int, seed: int) -> None:
    most = most_classes(counts, m)
    arrivals = {f"d{i}": list(range(100 * i, 100 * i + min(n, most))) for i, n in enumerate(counts)}
    buckets: list[Bucket] = []
    demand = Demand(attribute="disease", m=m, k=2, counterfeits=False, together=False)
    total = sum(map(len, arrivals.values()))
    _assign(buckets, arrivals, m, demand)
    assert not any(arrivals.values())
    assert sum(sum(bucket.counts.values()) for bucket in buckets) == total
    for bucket in buckets:
        assert len(bucket.signature) >= m
        assert len(set(bucket.counts.values())) == 1


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 4))
def test_as_many_classes_are_made_as_have_enough_persons(counts: list[int], persons: int) -> None:
    fitting = [c for c in range(1, max(counts) + 1) if sum(min(n, c) for n in counts) >= persons * c]
    assert most_classes(counts, persons) == max(fitting, default=0)


def people(names: list[int], skew: float = 0.3) -> pd.DataFrame:
    each = [np.random.default_rng(name) for name in names]
    rare = (1 - skew) / 4
    return pd.DataFrame(
        {
            "age": [int(r.integers(20, 60)) for r in each],
            "zip": [int(r.integers(10000, 50000)) for r in each],
            "disease": pd.Series(
                [str(r.choice(list("vwxyz"), p=[skew, rare, rare, rare, rare])) for r in each], dtype="str"
            ),
        }
    )


def published(
    table: pd.DataFrame, names: list[int], earlier: list[Membership], **more: Any
) -> tuple[Release, np.ndarray]:
    who = np.array([f"person {name}" for name in names], dtype=object)
    given = {"k": 2, "m": {"disease": 3}, "counterfeits": 0.01, "unique": True} | more
    limit = given.pop("limit", 0.9)
    given["departures"] = Departures(given.get("departures", "known"))
    release = republish(
        load_method("bottom_up", k=given["k"]),
        table,
        SCHEMA,
        np.random.default_rng(1),
        persons=who,
        earlier=earlier,
        guarantee=RepublicationGuarantee(**given),
        limit=limit,
    )
    return release, np.array([None if row < 0 else who[row] for row in release.rows], dtype=object)


def judged(release: Release, persons: np.ndarray, earlier: list[Membership], reading: str) -> Any:
    policy = ReleasePolicy(
        require=(KAnonymity(k=2),),
        across=(
            CrossReleaseKAnonymity(k=2, departures=reading),  # type: ignore[arg-type]
            MInvariance(m=3, attribute="disease", unique=True),
        ),
    )
    return verify(release.table, release.schema, policy, persons=persons, earlier=earlier, source=SCHEMA)


def weeks(seed: int, skew: float, size: int = 60) -> list[list[int]]:
    """Who is there in each week: arrivals, departures and returns."""
    rng = np.random.default_rng(seed)
    present, fresh, found = list(range(1000 * seed, 1000 * seed + size)), 1000 * seed + size, []
    for week in range(4):
        if week:
            gone = set(rng.choice(present, 6, replace=False).tolist())
            back = [n for n in range(1000 * seed, fresh) if n not in present and rng.random() < 0.3]
            present = [n for n in present if n not in gone] + back + list(range(fresh, fresh + 8))
            fresh += 8
        found.append(present)
    return found


@pytest.mark.quick("0-0.2-known-0.0", "0-0.2-unknown-0.01", "1-0.6-known-0.01", "1-0.6-unknown-0.0")
@pytest.mark.parametrize("counterfeits", [0.0, 0.01])
@pytest.mark.parametrize("reading", ["known", "unknown"])
# Other histories meet other orders; of a skewed attribute first classes have counterfeits, too.
@pytest.mark.parametrize(("seed", "skew"), [(0, 0.2), (1, 0.6)])
def test_every_week_is_m_unique_with_the_signatures_of_before(
    seed: int, skew: float, reading: str, counterfeits: float
) -> None:
    earlier: list[Membership] = []
    for names in weeks(seed, skew):
        given = {"departures": reading, "counterfeits": counterfeits, "reserve": 2}
        release, persons = published(people(names, skew), names, earlier, **given)
        report = judged(release, persons, earlier, reading)
        assert report.passed, [f for f in report.findings if not f.passed]
        cells = [c for c in release.table if c not in ("disease", "counterfeits")]
        for _, own in release.table.assign(no_person=[p is None for p in persons]).groupby(cells):
            assert own["disease"].is_unique
            if counterfeits:
                assert (own["counterfeits"] == own["no_person"].sum()).all()
        assert release.notes["withheld"] == len(names) - sum(p is not None for p in persons)
        earlier.append(Membership.of_table(persons, release.table, release.schema))


def test_counterfeits_keep_most_people_in_however_many_they_are() -> None:
    left: Counter[float] = Counter()
    for counterfeits in (0.0, 0.01):
        earlier: list[Membership] = []
        for names in weeks(3, 0.2)[:3]:
            release, persons = published(
                people(names, 0.2), names, earlier, departures="unknown", counterfeits=counterfeits
            )
            earlier.append(Membership.of_table(persons, release.table, release.schema))
            left[counterfeits] += int(release.notes["withheld"])
    assert release.notes["counterfeits"] > 0.01 * len(names)
    assert left[0.01] == 0
    assert left[0.0] > 0


def test_the_slip_of_a_class_that_keeps_a_value_twice_is_found() -> None:
    names = list(range(60))
    release, persons = published(people(names), names, [])
    assert judged(release, persons, [], "known").passed
    # One person's record is written into another class with the same value.
    cells = ["age_from", "age_to", "zip_from", "zip_to"]
    value = release.table["disease"].iloc[0]
    other = next(
        i for i in range(1, len(persons)) if release.table["disease"].iloc[i] == value and persons[i]
    )
    slipped = release.table.copy()
    slipped.loc[slipped.index[other], [*cells, "counterfeits"]] = release.table.loc[
        release.table.index[0], [*cells, "counterfeits"]
    ].to_numpy()
    report = verify(
        slipped,
        release.schema,
        ReleasePolicy(across=(MInvariance(m=2, unique=True),)),
        persons=persons,
        source=SCHEMA,
    )
    (found,) = [f for f in report.findings if f.rule.startswith("m_invariance")]
    assert (found.measured, found.passed) == (0.0, False)
    plain = ReleasePolicy(across=(MInvariance(m=2),))
    report = verify(slipped, release.schema, plain, persons=persons, source=SCHEMA)
    (found,) = [f for f in report.findings if f.rule.startswith("m_invariance")]
    assert found.measured > 0


def test_two_classes_with_the_same_cells_are_distinguished() -> None:
    """They would be one class for a reader, with each value twice."""
    table = pd.DataFrame({"age": [30] * 4 + [40] * 2 + [50] * 2, "zip": 10000, "disease": list("vw") * 4})
    release, _ = published(table.astype({"disease": "str"}), list(range(8)), [], m={"disease": 2})
    assert release.notes["withheld"] == 0
    spans = release.table.groupby(["age_from", "age_to"])["disease"].agg("".join)
    assert sorted(spans.map(sorted).map("".join)) == ["vw"] * 4
    with pytest.raises(InfeasibleError, match="4 of 4 persons cannot be kept safe"):  # no other box is there
        published(table[:4].astype({"disease": "str"}), list(range(4)), [], m={"disease": 2})


def test_spellings_that_read_the_same_are_one_value() -> None:
    names = list(range(60))
    table = people(names)
    table.loc[table.index[:5], "disease"] = table["disease"][:5].str.upper() + " "
    release, persons = published(table, names, [])
    assert judged(release, persons, [], "known").passed
    assert release.notes["withheld"] <= 5


def test_classes_of_more_records_than_there_are_values_are_refused() -> None:
    names = list(range(60))
    with pytest.raises(
        InfeasibleError, match=r"classes of 6 records must have as many different values of disease, .* has 5"
    ):
        published(people(names), names, [], k=6)
    with pytest.raises(SchemaError, match="m must name one, but names 0"):
        published(people(names), names, [], m={}, counterfeits=0.0)
