"""What a person contributes: by brute force, never more than claimed where all rows of one are replaced."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import DataSchema, SchemaError, load_method
from privacy_engine.dp import contributions
from privacy_engine.dp.contributions import (
    UNITS,
    Contribution,
    count_share,
    dealt,
    person_numbers,
    require_bound,
    resized,
    with_public_number,
)
from privacy_engine.dp.noise import PureNoise
from privacy_engine.synthesizers.bayes.scores import (
    dependence,
    dependence_sensitivity,
    integer_mutual_information,
    integer_sensitivity,
    two_valued,
)
from privacy_engine.synthesizers.bayes.structure import Candidates
from privacy_engine.synthesizers.latent.noisy_tables import misfit_score
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords, contingency, table_sensitivity

SIZES = {"a": 2, "b": 3, "c": 2}
SCHEMA = DataSchema.from_dict(
    {
        "who": {"role": "identifier"},
        **{name: {"categories": [str(v) for v in range(size)]} for name, size in SIZES.items()},
        "person": "who",
    }
)
NARROW = DataSchema.from_dict(
    {"who": {"role": "identifier"}, "a": {"categories": ["0", "1"]}, "c": {"categories": ["0", "1"]}}
    | {"person": "who"}
)
ROWS = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES.values())), min_size=1, max_size=7)
BOUNDS = [Contribution(max_rows=1), Contribution(max_rows=3), Contribution(weight="person")]
bounds = pytest.mark.parametrize("bound", BOUNDS, ids=["one row", "three rows", "weight"])


def table(people: dict[int, list[tuple[int, ...]]], schema: DataSchema = SCHEMA) -> pd.DataFrame:
    rows = [[person, *map(str, row)] for person, own in people.items() for row in own]
    return pd.DataFrame(rows, columns=["who", *SIZES])[list(schema.names)]


def coded(people: dict[int, list[tuple[int, ...]]], bound: Contribution, schema: DataSchema = SCHEMA):
    method = load_method("latent_class", max_rows=bound.max_rows, weight=bound.weight)
    return method.coded(table(people, schema), schema)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[dict, dict]:
    """Two tables of the same persons but one, who has other rows, as many or not, and another name or not."""
    people = {person: draw(ROWS) for person in range(draw(st.integers(1, 4)))}
    leaves, comes = draw(st.integers(0, len(people) - 1)), draw(st.integers(90, 99))
    other = {person: rows for person, rows in people.items() if person != leaves}
    return people, other | {draw(st.sampled_from([leaves, comes])): draw(ROWS)}


def of_equal_number(one: CodedTable, other: CodedTable) -> list[tuple[CodedTable, CodedTable]]:
    """Both with the same number of records: as they are, filled up, or cut by the same ranks."""
    if len(one) == len(other):
        return [(one, other)]
    most = max(len(one), len(other))
    return [(resized(one, rows), resized(other, rows)) for rows in (most, most + 5)]


def counts(table: CodedTable) -> np.ndarray:
    return contingency(table, range(len(table.sizes)))


# --- a person's share


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5), st.integers(1, 40)), min_size=1, max_size=40),
    st.integers(1, 60),
    st.booleans(),
)
def test_a_person_has_the_units_in_parts_as_equal_as_can_be(
    rows: list[tuple[int, int, int]], units: int, fill: bool
) -> None:
    persons, keys, numbers = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    given_out = dealt(persons, keys, numbers, units=units, fill=fill)
    for person in set(persons.tolist()):
        own = persons == person
        r = int(numbers[own].sum())
        mass = units if fill else min(r, units)
        assert given_out[own].sum() == mass
        assert (given_out[own] >= mass // r * numbers[own]).all()
        assert (given_out[own] <= -(-mass // r) * numbers[own]).all()
        alone = dealt(persons[own], keys[own], numbers[own], units=units, fill=fill)
        assert (alone == given_out[own]).all()  # no matter who else takes part


def test_two_spellings_are_one_person_unless_they_are_said_to_be_two() -> None:
    spelled = pd.Series(["Ann Lee", "ann  LEE ", "Bob"])
    assert len(np.unique(person_numbers(spelled))) == 2
    assert len(np.unique(person_numbers(spelled, exact=True))) == 3


@given(ROWS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_neither_order_nor_form_of_the_rows_matters(rows: list[tuple[int, ...]], m: int, random) -> None:
    mixed = random.sample(rows, len(rows))
    for bound in (Contribution(max_rows=m), Contribution(weight="person")):
        one, other = coded({5: rows, 7: rows}, bound), coded({7: mixed, 5: mixed}, bound)
        assert (counts(one) == counts(other)).all()


def test_each_row_is_as_likely_as_any_other() -> None:
    """4 of 10 rows of 20,000 persons: off by more than 6 standard errors once in 5e8."""
    n, r, m = 20_000, 10, 4
    persons, keys = np.repeat(np.arange(n), r), np.tile(np.arange(r), n)
    taken = dealt(persons, keys, np.ones(n * r, np.int64), units=m, fill=False).reshape(n, r)
    assert (taken.sum(axis=1) == m).all()
    assert (abs(taken.mean(axis=0) - m / r) < 6 * np.sqrt(m / r * (1 - m / r) / n)).all()


def test_units_are_fewer_where_persons_are_many_and_never_none() -> None:
    weight = Contribution(weight="person")
    assert [weight.units(p) for p in (2, 19_972, 20_000, 2**24, 2**30)] == [UNITS, UNITS, 838, 1, 1]
    assert Contribution(max_rows=7).units(2**30) == 7


def test_persons_are_distinguished_by_text_or_number() -> None:
    assert person_numbers(pd.Series([3, -1, 3])).tolist() == [3, -1, 3]
    numbers = person_numbers(pd.Series(["x", "y", "x", "1.0", "1"]))
    assert len(set(numbers.tolist())) == 4
    assert person_numbers(pd.Series(["y"]))[0] == numbers[1]  # in every part


# --- sensitivities: all rows of one person replaced


@bounds
@given(pair=neighbours())
def test_a_table_of_counts_changes_by_its_sensitivity_at_most(bound: Contribution, pair) -> None:
    one, other = (coded(people, bound) for people in pair)
    assert one.persons == other.persons
    assert np.abs(counts(one) - counts(other)).sum() <= table_sensitivity(one) == 2 * bound.units(one.persons)
    for a, b in of_equal_number(one, other):
        assert len(a) == len(b)
        assert np.abs(counts(a) - counts(b)).sum() <= table_sensitivity(a)


@bounds
def test_that_much_it_does_change(bound: Contribution) -> None:
    one, other = (coded({1: [(0, 0, 0)] * 7, 2: [(value, 0, 0)] * 7}, bound) for value in (0, 1))
    assert np.abs(counts(one) - counts(other)).sum() == table_sensitivity(one)


def test_with_the_sensitivity_of_one_row_it_would_change_by_more() -> None:
    rows = DataSchema(SCHEMA.attributes).without_identifiers()
    people = ({1: [(value, 0, 0)] * 7, 2: [(0, 0, 0)]} for value in (0, 1))
    one, other = (CodedTable.encode(table(p).drop(columns="who"), rows) for p in people)
    assert np.abs(counts(one) - counts(other)).sum() > table_sensitivity(one) == 2


def all_pairs(sizes: tuple[int, ...]) -> Candidates:
    """Each attribute with each other one, and with both others, as its parents."""
    d = len(sizes)
    found = [
        (child, (*parents, *[-1] * (2 - len(parents))))
        for child in range(d)
        for width in range(1, d)
        for parents in itertools.combinations([a for a in range(d) if a != child], width)
    ]
    children, parents = zip(*found, strict=True)
    return Candidates(
        ids=np.arange(len(found)), children=np.array(children), parents=np.array(parents, dtype=np.int64)
    )


@bounds
@given(pair=neighbours(), narrow=st.booleans())
def test_no_score_changes_by_more_than_its_sensitivity(bound: Contribution, pair, narrow: bool) -> None:
    """Mutual information, R and the misfit, over all families and a fixed expectation."""
    schema = NARROW if narrow else SCHEMA
    if narrow:
        pair = tuple({p: [(a, 0, c) for a, _, c in rows] for p, rows in people.items()} for people in pair)
    for one, other in of_equal_number(*(coded(people, bound, schema) for people in pair)):
        if len(one) < 2:
            continue
        binary, cells = two_valued(one.sizes), int(np.prod(one.sizes))
        a, b = WeightedRecords.of(one), WeightedRecords.of(other)
        families = all_pairs(one.sizes)
        if narrow:
            families = families.take(families.parents[:, 1] < 0)
        information = integer_mutual_information(a, families) - integer_mutual_information(b, families)
        allowed = integer_sensitivity(len(one), cells, binary=binary, each=one.each)
        assert np.abs(information).max() <= allowed
        r = dependence(a, families) - dependence(b, families)
        assert np.abs(r).max() <= one.each * dependence_sensitivity(len(one))
        expected = np.full(counts(one).shape, len(one) // cells)
        misfits = [misfit_score(counts(t), expected, 3) for t in (one, other)]
        assert abs(misfits[0] - misfits[1]) <= table_sensitivity(one)


@given(neighbours(), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_a_cut_by_ranks_replaces_no_more_records_than_one_person_has(pair, rows: int, seed: int) -> None:
    """The proof of `with_public_number`: the same random rank for each record that both tables have."""
    rng = np.random.default_rng(seed)
    rank = {(person, i): rng.random() for person in range(100) for i in range(3)}

    def kept(people: dict) -> list[tuple[int, ...]]:
        records = [(rank[p, i], row) for p, own in people.items() for i, row in enumerate(own[:3])]
        records += [(1 + i, (9, 9, 9 + i)) for i in range(30)]  # what fills up
        return [row for _, row in sorted(records)[:rows]]

    one, other = (pd.Series(kept(people)).value_counts() for people in pair)
    assert one.sub(other, fill_value=0).abs().sum() <= 2 * 3


def test_what_fills_up_is_the_beginning_of_one_list() -> None:
    one = coded({1: [(0, 0, 0)], 2: [(1, 2, 1)]}, Contribution(max_rows=2))
    few, many = resized(one, 7), resized(one, 40)
    assert (many.codes[:, : few.codes.shape[1]] == few.codes).all()
    assert (many.codes < np.array(one.sizes)[:, None]).all()


# --- the public number of records


def test_the_number_of_rows_changes_by_one_less_than_the_bound_and_is_booked_so() -> None:
    people = {p: [(p % 2, 0, 0)] * (1 + p % 3) for p in range(100)}
    table = coded(people, Contribution(max_rows=3))
    noise = PureNoise(0.5)
    public = with_public_number(table, noise, 0.5)
    (spend,) = noise.spends
    assert (spend.target, spend.sensitivity, spend.scale) == ("number of rows", 2, 4.0)
    assert 100 <= len(public) <= 300
    assert public.persons == 100
    # Records less the scale of the noise, which is above 60 in size once in 1e6 runs.
    assert abs(len(public) - (len(table) - 4)) < 60


def test_the_number_of_rows_never_leaves_what_persons_can_have() -> None:
    table = coded({p: [(0, 0, 0)] for p in range(3)}, Contribution(max_rows=50))
    numbers = {len(with_public_number(table, PureNoise(0.01), 0.01)) for _ in range(50)}
    assert min(numbers) >= 3
    assert max(numbers) <= 150


def test_the_share_of_the_count_falls_with_persons() -> None:
    shares = [count_share(1.0, p) for p in (2, 25, 400, 10_000, 10**6)]
    assert shares == [0.2, 0.2, 0.05, 0.01, 0.001]


# --- refusals


@pytest.mark.parametrize("given_bound", [{}, {"max_rows": 2, "weight": "person"}, {"weight": "row"}])
def test_a_bound_is_one_of_two(given_bound: dict) -> None:
    with pytest.raises(ValueError, match=r"max_rows|weight"):
        Contribution(**given_bound)


@pytest.mark.parametrize("m", [0, -1, 1.5, True, "4"])
def test_a_number_of_rows_is_whole_and_positive(m: object) -> None:
    with pytest.raises(ValueError, match="max_rows must be a whole number >= 1"):
        Contribution(max_rows=m)


def test_a_schema_with_persons_and_no_bound_is_refused_with_all_remedies_and_the_other_way_round() -> None:
    with pytest.raises(
        SchemaError, match=r"who names the person.*`max_rows: m` or `weight: person`.*aggregate"
    ):
        require_bound(SCHEMA, None)
    with pytest.raises(SchemaError, match=r"names no person.*`person: <column>`"):
        require_bound(DataSchema(SCHEMA.attributes), BOUNDS[0])


def test_parts_are_joined_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    people = {p: [tuple(rng.integers(0, [2, 3, 2])) for _ in range(1 + p % 9)] for p in range(200)}
    whole = coded(people, Contribution(weight="person"))
    monkeypatch.setattr(contributions, "_WAITING", 3)
    none = CodedTable(domains=whole.domains, storages=whole.storages, codes=whole.codes[:, :0])
    parts = []
    for start in range(0, 200, 13):
        some = table({p: people[p] for p in range(start, min(start + 13, 200))})
        codes = CodedTable.encode(some, SCHEMA).codes
        parts.append((codes, some["who"].to_numpy(), np.ones(len(some), np.int64)))
    joined = contributions.contributed(none, parts, Contribution(weight="person"), 200)
    assert (joined.codes == whole.codes).all()
    assert (joined.weights == whole.weights).all()
