"""Groups of persons: what sums them up, how their rows are aligned, and what becomes of one that fails."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.trajectories import QUANTILES, aligned, linked_recoding, people_of
from privacy_engine.measures.recoding import Recoding
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.boxes import tabulate
from privacy_engine.tables.columns import NULL
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, EntropyLDiversity, KAnonymity

TREE = Hierarchy((("a1", "a", "*"), ("a2", "a", "*"), ("b1", "b", "*"), ("b2", "b", "*")))
SCHEMA = DataSchema.from_dict(
    {
        "who": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "month": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 10]},
        "place": {"role": "quasi_identifier", "hierarchy": "tree"},
        "illness": {"role": "sensitive"},
        "person": {"column": "who", "rows": "linked"},
    },
    {"tree": TREE},
)
L2 = (KAnonymity(k=2), DistinctLDiversity(l=2))


def encoded(rows: list[tuple[str, int, int, str, str]]) -> EncodedTable:
    return EncodedTable.encode(pd.DataFrame(rows, columns=list(SCHEMA.names)), SCHEMA)


def test_a_person_is_summed_up_in_one_row() -> None:
    table = encoded(
        [
            ("u", 30, month, place, ill)
            for month, place, ill in zip(range(5), ["b1"] * 3 + ["a1"] * 2, "xxyyx", strict=True)
        ]
        + [("v", 40, 9, "a2", "x")]
    )
    people = people_of([table], L2, np.random.default_rng(1)).table
    names = people.quasi_identifiers
    assert names == ("age", *(f"month, quantile {q}" for q in QUANTILES), "place", "number of rows")
    reported = [[d.labels[c] for d, c in zip(people.domains, row, strict=True)] for row in people.codes]
    assert reported == [["30", "1", "3", "b1", "5"], ["40", "9", "9", "a2", "1"]]
    assert len(set(people.sensitive[0])) == 2  # {x, y} and {x}


def test_a_distribution_is_asked_of_drawn_values_that_each_person_has() -> None:
    table = encoded([("u", 30, i, "a1", ill) for i, ill in enumerate("xyz")] + [("v", 40, 9, "a2", "x")])
    drawn = set()
    for seed in range(30):
        people = people_of([table], (EntropyLDiversity(l=2),), np.random.default_rng(seed)).table
        assert people.sensitive_domains == table.sensitive_domains
        u, v = people.sensitive[0]
        assert v == 0
        drawn.add(int(u))
    assert drawn == {0, 1, 2}


visit = st.tuples(st.integers(0, 10), st.sampled_from(["a1", "a2", "b1", "b2"]))


@given(st.lists(visit, min_size=1, max_size=4), st.lists(visit, min_size=1, max_size=5))
def test_two_persons_are_aligned_at_the_least_cost(
    u: list[tuple[int, str]], v: list[tuple[int, str]]
) -> None:
    table = encoded([("u", 30, *r, "x") for r in u] + [("v", 30, *r, "y") for r in v])
    assert table.persons is not None
    space = tabulate(table.geometry())
    chosen = aligned(table.codes, [np.flatnonzero(table.persons == p) for p in (0, 1)], space)
    short, long = sorted((u, v), key=len)
    assert chosen.shape == (2, len(short))

    def apart(a: tuple[int, str], b: tuple[int, str]) -> float:
        tree = 0 if a[1] == b[1] else 2 if a[1][0] == b[1][0] else 4
        return (abs(a[0] - b[0]) / 10 + tree / 4) / 3

    cheapest = min(sum(map(apart, short, picked)) for picked in itertools.permutations(long, len(short)))
    labels = np.full(len(table), -1, dtype=np.int64)
    labels[chosen] = np.arange(len(short))
    recoding = Recoding(table, labels)
    found = gcp(recoding) * len(table) - recoding.suppressed
    assert found == pytest.approx(2 * cheapest)


def by_tens(people: EncodedTable) -> Recoding:
    ages = np.array([int(people.domains[0].labels[c]) for c in people.codes[:, 0]])
    return Recoding.of_labels(people, ages // 10)


# The two of each ten; those of the thirties have one illness together.
TENS = encoded(
    [
        (f"{age}", age, month, "a1", ill)
        for age, ill in [(20, "x"), (21, "y"), (30, "x"), (31, "x"), (50, "x"), (51, "y")]
        for month in range(1 + age % 2)
    ]
)


@pytest.mark.parametrize(("limit", "persons", "smallest"), [(0.0, 6, 2), (0.7, 4, 2), (0.2, 6, 2)])
def test_a_group_that_fails_is_merged_or_suppressed_where_that_is_allowed(
    limit: float, persons: int, smallest: int
) -> None:
    people = people_of([TENS], L2, np.random.default_rng(1))
    (recoding,) = linked_recoding([TENS], people, by_tens(people.table), L2, limit)
    assert TENS.persons is not None
    kept = recoding.labels >= 0
    assert len(set(TENS.persons[kept])) == persons
    assert recoding.suppressed == (3 if persons == 6 else 5)
    assert recoding.sizes.min() >= smallest


def test_rows_that_find_no_match_take_their_values_with_them() -> None:
    """v's second value goes with the rows that are suppressed, so one value is left of two."""
    rows = [("u", 20, 0, "a1", "x"), ("v", 21, 0, "a1", "x"), ("v", 21, 9, "b1", "y")]
    table = encoded([*rows, ("w", 80, 0, "a1", "y"), ("z", 81, 0, "a1", "x")])
    people = people_of([table], L2, np.random.default_rng(1))
    (recoding,) = linked_recoding([table], people, by_tens(people.table), L2, 0.0)
    assert recoding.classes == 1
    assert recoding.sizes.tolist() == [4]


def test_who_has_no_row_in_a_table_is_known_by_that() -> None:
    """None is as far from one row as a factor of e between two numbers, and has someone else's values."""
    first = encoded([("u", 30, 1, "a1", "x"), ("v", 40, 2, "b1", "x"), ("w", 50, 3, "b2", "y")])
    second = encoded([("v", 0, 9, "a1", "s"), ("w", 0, 9, "a1", "t"), ("w", 10, 9, "a1", "s")])
    second = replace(second, persons=second.persons + 1)  # v and w
    second = replace(
        second,
        schema=DataSchema(tuple(replace(a, name=f"{a.name} 2") for a in second.schema.attributes)),
        table=second.table.set_axis([f"{n} 2" for n in second.table], axis="columns"),
    )
    models = (KAnonymity(k=2), EntropyLDiversity(l=1.5))
    people = people_of([first, second], models, np.random.default_rng(1))
    assert [own.tolist() for own in people.of] == [[0, 1, 2], [1, 2, 2]]
    fields = dict(zip(people.table.quasi_identifiers, range(99), strict=False))
    labels = {
        name: [people.table.domains[j].labels[c] for c in people.table.codes[:, j]]
        for name, j in fields.items()
    }
    assert labels["0: age"] == ["30", "40", "50"]
    assert labels["1: age 2, quantile 0.75"] == [NULL, "0", "0"]
    assert labels["1: number of rows"] == ["0", "1", "2"]
    values = people.table.domains[fields["1: number of rows"]].values
    assert values.tolist() == pytest.approx([-1, 0, np.log(2)])
    assert set(people.table.sensitive[1]) <= {0, 1}
