"""Utility measures: values worked out by hand, brute force by the definitions, and what no measure may do."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.measures import utility
from privacy_engine.measures.recoding import Recoding
from privacy_engine.measures.utility import (
    Charge,
    average_class_size,
    discernibility,
    figures,
    gcp,
    ilp,
    ncp,
    non_uniform_entropy,
    query_error,
    suppressed_cells,
)
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role

JOBS = Hierarchy(
    (("clerk", "office", "*"), ("coder", "office", "*"), ("cook", "food", "*"), ("waiter", "food", "*"))
)
SCHEMA = DataSchema(
    (
        Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 100)),
        Attribute(name="job", role=Role.QUASI_IDENTIFIER, hierarchy=JOBS),
        Attribute(name="city", role=Role.QUASI_IDENTIFIER),
    )
)
ROWS = [
    (20, "clerk", "A"),
    (30, "clerk", "A"),
    (30, "coder", "B"),
    (50, "cook", "B"),
    (60, "cook", "C"),
    (80, "clerk", "D"),
]
# {20, 30} clerk A | {30, 50, 60} coder, cook, cook: root; {B, C} | 80 suppressed
LABELS = np.array([0, 0, 1, 1, 1, -1])


def table(rows: list[tuple[int, str, str]] = ROWS) -> EncodedTable:
    return EncodedTable.encode(pd.DataFrame(rows, columns=["age", "job", "city"]), SCHEMA)


@pytest.fixture
def recoding() -> Recoding:
    return Recoding(table(), LABELS)


def test_ncp_of_a_hand_worked_table_by_common_ancestor(recoding: Recoding) -> None:
    age = (2 * 0.1 + 3 * 0.3 + 1) / 6
    job = (2 * 0 + 3 * 1 + 1) / 6
    city = (2 * 0 + 3 * 1 + 1) / 6  # no hierarchy: the common ancestor of B and C is the root
    assert ncp(recoding) == pytest.approx([age, job, city])
    assert gcp(recoding) == pytest.approx((age + job + city) / 3)


def test_ncp_of_a_hand_worked_table_by_own_values(recoding: Recoding) -> None:
    age = (2 * 0.1 + 3 * 0.3 + 1) / 6
    job = (3 * 2 / 4 + 1) / 6  # coder and cook, of 4 leaves
    city = (3 * 2 / 4 + 1) / 6  # B and C, of A, B, C, D
    assert ncp(recoding, "own") == pytest.approx([age, job, city])


def test_ilp_sums_the_weighted_losses_of_all_records(recoding: Recoding) -> None:
    weights = np.array([[0.1, 0.2, 0.0], [0.3, 0.0, 0.4]])  # column sums .4, .2, .4
    losses = 2 * (0.4 * 0.1) + 3 * (0.4 * 0.3 + 0.2 + 0.4) + 1 * 1.0
    assert ilp(recoding, weights) == pytest.approx(losses)


def test_ilp_with_equal_weights_is_gcp_times_records(recoding: Recoding) -> None:
    assert ilp(recoding, np.full((4, 3), 1 / 12)) == pytest.approx(gcp(recoding) * 6)


@pytest.mark.parametrize(
    "weights", [np.full((2, 2), 0.25), np.full((2, 3), 0.5), [[-1.0, 1.0, 1.0]], np.full(3, 1 / 3)]
)
def test_ilp_refuses_weights_that_are_not_shares(recoding: Recoding, weights: object) -> None:
    with pytest.raises(ValueError, match="weights must be"):
        ilp(recoding, weights)


def test_counting_measures_of_a_hand_worked_table(recoding: Recoding) -> None:
    assert discernibility(recoding) == 2 * 2 + 3 * 3 + 6
    assert average_class_size(recoding) == 2.5
    # class 0 changes age only: 2 cells; class 1 all three: 9; the suppressed record: 3
    assert suppressed_cells(recoding) == 2 + 9 + 3


def test_non_uniform_entropy_of_a_hand_worked_attribute() -> None:
    # city alone: A A B B C D; classes {A A} kept, {B B C} as {B, C}, D suppressed
    schema = DataSchema((Attribute(name="city", role=Role.QUASI_IDENTIFIER),))
    encoded = EncodedTable.encode(pd.DataFrame({"city": list("AABBCD")}), schema)
    lost = (
        2 * math.log2(3 / 2) + math.log2(3 / 1) + math.log2(6)
    )  # B given {B, C}, C given {B, C}, D given all
    full = 4 * math.log2(3) + 2 * math.log2(6)
    assert non_uniform_entropy(Recoding(encoded, LABELS)) == pytest.approx(lost / full)


def test_non_uniform_entropy_of_global_recoding_is_the_conditional_entropy() -> None:
    jobs = ["clerk"] * 3 + ["coder"] * 2 + ["cook"] * 4 + ["waiter"]
    schema = DataSchema((Attribute(name="job", role=Role.QUASI_IDENTIFIER, hierarchy=JOBS),))
    encoded = EncodedTable.encode(pd.DataFrame({"job": jobs}), schema)
    recoding = Recoding(encoded, np.array([0] * 5 + [1] * 5))

    def entropy(counts: list[int]) -> float:
        return -sum(c / sum(counts) * math.log(c / sum(counts)) for c in counts)

    conditional = 0.5 * entropy([3, 2]) + 0.5 * entropy([4, 1])
    assert non_uniform_entropy(recoding) == pytest.approx(conditional / entropy([3, 2, 4, 1]))


def test_a_constant_attribute_has_no_entropy_to_lose() -> None:
    encoded = EncodedTable.encode(
        pd.DataFrame({"city": ["A"] * 4}), DataSchema((Attribute(name="city", role=Role.QUASI_IDENTIFIER),))
    )
    assert non_uniform_entropy(Recoding(encoded, np.zeros(4, dtype=np.int64))) == 0
    assert non_uniform_entropy(Recoding(encoded, np.array([0, 0, 0, -1]))) == 0.25


records = st.lists(
    st.tuples(st.integers(0, 100), st.sampled_from(JOBS.values), st.sampled_from("ABCD")),
    min_size=1,
    max_size=8,
)


@st.composite
def recodings(draw: st.DrawFn) -> Recoding:
    rows = draw(records)
    labels = draw(st.lists(st.integers(-1, 3), min_size=len(rows), max_size=len(rows)))
    return Recoding.of_labels(table(rows), np.array(labels))


def cells(recoding: Recoding) -> list[list[set[str] | tuple[int, int] | None]]:
    """(n, 3) what each record's cells cover, by the definitions: an interval or values; None = suppressed."""
    source = recoding.encoded.table
    out: list[list[set[str] | tuple[int, int] | None]] = []
    for label in recoding.labels:
        if label < 0:
            out.append([None, None, None])
            continue
        members = source[recoding.labels == label]
        jobs = set(members["job"])
        groups = {row[1] for row in JOBS.rows if row[0] in jobs}
        if len(jobs) > 1:
            jobs = {row[0] for row in JOBS.rows if row[1] in groups or len(groups) > 1}
        out.append([(members["age"].min(), members["age"].max()), jobs, set(members["city"])])
    return out


@given(recodings())
def test_measures_agree_with_brute_force_over_records(recoding: Recoding) -> None:
    n = len(recoding.encoded)
    loss, changed, penalty = 0.0, 0, 0
    for i, (age, job, city) in enumerate(cells(recoding)):
        if age is None or job is None or city is None:
            loss, changed, penalty = loss + 3, changed + 3, penalty + n
            continue
        loss += (age[1] - age[0]) / 100
        loss += len(job) / 4 if len(job) > 1 else 0
        loss += 1 if len(city) > 1 else 0
        changed += int(age[0] != age[1]) + (len(job) > 1) + (len(city) > 1)
        penalty += int((recoding.labels == recoding.labels[i]).sum())
    assert gcp(recoding) == pytest.approx(loss / (3 * n))
    assert suppressed_cells(recoding) == changed
    assert discernibility(recoding) == penalty


@given(recodings())
def test_non_uniform_entropy_agrees_with_brute_force_over_cells(recoding: Recoding) -> None:
    source, n = recoding.encoded.table, len(recoding.encoded)
    shares = []
    for j, name in enumerate(["age", "job", "city"]):
        count = Counter(source[name])
        full = sum(-c * math.log(c / n) for c in count.values())
        lost = 0.0
        for value, row in zip(source[name], cells(recoding), strict=True):
            cell = row[j]
            if cell is None:
                covered = n
            elif name == "age":
                covered = sum(c for v, c in count.items() if cell[0] <= v <= cell[1])
            else:
                covered = sum(count[v] for v in cell)
            lost += math.log(covered / count[value])
        shares.append(lost / full if full else recoding.suppressed / n)
    assert non_uniform_entropy(recoding) == pytest.approx(np.mean(shares), abs=1e-9)


@given(recodings(), st.integers(0, 3), st.integers(0, 3))
def test_merging_classes_never_lowers_a_loss(recoding: Recoding, a: int, b: int) -> None:
    merged = Recoding.of_labels(recoding.encoded, np.where(recoding.labels == a, b, recoding.labels))
    if b >= recoding.classes:
        return  # a mere change of number
    for charge in Charge:
        assert (ncp(merged, charge) >= ncp(recoding, charge) - 1e-12).all()
    assert non_uniform_entropy(merged) >= non_uniform_entropy(recoding) - 1e-9
    assert suppressed_cells(merged) >= suppressed_cells(recoding)
    assert discernibility(merged) >= discernibility(recoding)


@given(recodings())
def test_own_values_never_cost_more_than_their_common_ancestor(recoding: Recoding) -> None:
    assert (ncp(recoding, Charge.OWN) <= ncp(recoding, Charge.LCA) + 1e-12).all()


def test_a_recoding_that_changes_nothing_loses_nothing() -> None:
    identity = figures(Recoding(table(), np.arange(6)), np.random.default_rng(1))
    zero = ["gcp", "gcp_own", "suppressed", "suppressed_cells", "non_uniform_entropy", "query_error"]
    assert {name: identity[name] for name in zero} == pytest.approx(dict.fromkeys(zero, 0.0), abs=1e-12)
    assert identity["discernibility"] == 6


def test_suppressing_all_records_loses_everything() -> None:
    nothing = figures(Recoding(table(), np.full(6, -1)), np.random.default_rng(1))
    one = ["gcp", "gcp_lca", "gcp_own", "suppressed", "non_uniform_entropy", "query_error"]
    assert {name: nothing[name] for name in one} == pytest.approx(dict.fromkeys(one, 1.0))
    assert nothing["suppressed_cells"] == 18
    assert nothing["discernibility"] == 36
    assert nothing["average_class_size"] == 0


def test_query_error_of_a_hand_worked_table() -> None:
    # one attribute, values 1 and 2, one class [1, 2] of 3 records with value 1 and 1 with value 2. Queries:
    # {1}: truth 3, estimate 2, error 1/3; {2}: truth 1, estimate 2, error 1; {1, 2}: truth 4, error 0
    schema = DataSchema((Attribute(name="x", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(1, 2)),))
    encoded = EncodedTable.encode(pd.DataFrame({"x": [1, 1, 1, 2]}), schema)
    recoding = Recoding(encoded, np.zeros(4, dtype=np.int64))
    single = {query_error(recoding, np.random.default_rng(seed), queries=1) for seed in range(60)}
    assert sorted(round(e, 6) for e in single) == [0.0, 0.333333, 1.0]


def test_query_error_grows_with_the_classes_and_repeats_with_the_seed() -> None:
    rng = np.random.default_rng(3)
    ages = (100 * rng.beta(1, 6, 600)).astype(int)  # far from the uniformity that the answers assume
    rows = [(int(age), JOBS.values[min(age // 10, 3)], "ABCD"[age % 4]) for age in ages]
    encoded = table(rows)
    order = np.argsort(encoded.codes[:, 0])
    errors = []
    for k in (5, 60, 600):
        labels = np.empty(600, dtype=np.int64)
        labels[order] = np.arange(600) // k
        errors.append(query_error(Recoding(encoded, labels), np.random.default_rng(7)))
        assert errors[-1] == query_error(Recoding(encoded, labels), np.random.default_rng(7))
    assert errors[0] < errors[1] < errors[2]


@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_queries_that_are_answered_together_have_the_errors_of_each(
    recoding: Recoding, attributes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for records in (1, 20, 10_000):
        monkeypatch.setattr(utility, "_AT_ONCE", records)
        found.append(query_error(recoding, np.random.default_rng(4), queries=50, attributes=attributes))
    assert found == [found[0]] * 3


@pytest.mark.parametrize(("queries", "attributes"), [(0, 2), (5, 0)])
def test_query_error_refuses_to_measure_nothing(recoding: Recoding, queries: int, attributes: int) -> None:
    with pytest.raises(ValueError, match="must be >= 1"):
        query_error(recoding, np.random.default_rng(0), queries=queries, attributes=attributes)


def test_figures_are_finite_floats_and_ask_queries_only_with_an_rng(recoding: Recoding) -> None:
    found = figures(recoding)
    assert "query_error" not in found
    assert all(isinstance(v, float) and math.isfinite(v) for v in found.values())
    assert found["gcp"] == found["gcp_lca"] == gcp(recoding)
    assert "query_error" in figures(recoding, np.random.default_rng(0))
