"""Growing a network: the candidates against plain enumeration, the limits by hand, refusals with a remedy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import InfeasibleError
from privacy_engine.synthesizers.bayes.scores import once
from privacy_engine.synthesizers.bayes.structure import (
    MOST_FAMILIES,
    Candidates,
    Family,
    FamilyLimit,
    check_single_tables,
    countable_degree,
    fixed_limit,
    grow,
    maximal_parent_sets,
    measured_families,
    theta_limit,
    useful_cells,
    useful_degree,
)

sizes_lists = st.lists(st.integers(1, 5), min_size=1, max_size=6)


def maximal_by_enumeration(
    placed: list[int], sizes: list[int], cells: int, degree: int
) -> set[frozenset[int]]:
    fitting = [
        frozenset(s)
        for k in range(min(degree, len(placed)) + 1)
        for s in itertools.combinations(placed, k)
        if math.prod(sizes[a] for a in s) <= cells
    ]
    return {s for s in fitting if not any(s < other for other in fitting)}


@given(sizes_lists, st.integers(0, 200), st.integers(0, 6))
def test_parent_sets_are_the_maximal_ones(sizes: list[int], cells: int, degree: int) -> None:
    placed = list(range(len(sizes)))
    found = maximal_parent_sets(placed, sizes, cells, degree)
    assert len(set(found)) == len(found)
    assert {frozenset(s) for s in found} == maximal_by_enumeration(placed, sizes, cells, degree)


@given(sizes_lists, st.integers(1, 200), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_every_pick_sees_all_candidates_and_no_other(
    sizes: list[int], cells: int, degree: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    d = len(sizes)
    placed = [int(rng.integers(d))]

    def choose(pool: Candidates) -> int:
        expected = {
            (child, parents)
            for child in set(range(d)) - set(placed)
            for parents in maximal_by_enumeration(placed, sizes, cells // sizes[child], degree)
            or {frozenset()}
        }
        families = [pool.family(i) for i in range(len(pool))]
        found = [(f.child, frozenset(f.parents)) for f in families]
        assert len(found) == len(set(found))
        assert set(found) == expected
        assert (np.diff(pool.ids) > 0).all()
        position = int(rng.integers(len(pool)))
        placed.append(families[position].child)
        return position

    families = grow(sizes, placed[0], FamilyLimit(degree=degree, cells=cells), choose)
    assert sorted(f.child for f in families) == list(range(d))
    for place, family in enumerate(families):
        assert set(family.parents) <= {f.child for f in families[:place]}


@given(sizes_lists, st.integers(0, 2**32 - 1))
def test_remembered_scores_choose_as_fresh_ones_do(sizes: list[int], seed: int) -> None:
    weights = np.random.default_rng(seed).integers(1, 10**6, (len(sizes), len(sizes) + 1))
    weights[:, -1] = 0  # where the parents are filled up

    def score(pool: Candidates) -> np.ndarray:
        return weights[pool.children[:, None], pool.parents].sum(axis=1)

    limit, remembered = FamilyLimit(degree=2, cells=30), once(score)
    one = grow(sizes, 0, limit, lambda pool: int(np.argmax(score(pool))))
    other = grow(sizes, 0, limit, lambda pool: int(np.argmax(remembered(pool))))
    assert one == other


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 7])
def test_a_network_of_degree_k_over_binary_attributes_has_d_minus_k_tables(degree: int) -> None:
    d, rng = 8, np.random.default_rng(degree)
    limit = FamilyLimit(degree=degree, cells=2 ** (degree + 1))
    families = grow([2] * d, 3, limit, lambda pool: int(rng.integers(len(pool))))
    assert [len(f.parents) for f in families] == [min(degree, place) for place in range(d)]
    assert measured_families(families) == list(range(degree, d))


def test_a_family_that_is_no_subset_has_its_own_table() -> None:
    families = [
        Family(child=0, parents=()),
        Family(child=1, parents=(0,)),
        Family(child=2, parents=(0,)),  # not part of the next
        Family(child=3, parents=(0, 1)),
        Family(child=4, parents=()),
    ]
    assert measured_families(families) == [2, 3, 4]


def test_useful_tables_of_nltcs_by_hand() -> None:
    """n e2 = 21,574 * .56 = 12,081. Degree 6: 10 tables of 128 cells, 12,081 / 2,560 = 4.7. 7: 9 of 256,
    12,081 / 4,608 = 2.6.
    """
    assert useful_degree(21_574, 0.56, 16, 4) == 6
    assert useful_degree(21_574, 0.56, 16, 2.6) == 7
    assert useful_cells(21_574, 0.56, 16, 4) == 94  # all sixteen tables: 12,081 / 128 = 94.4


def test_no_degree_is_useful_where_noise_is_everything() -> None:
    assert useful_degree(100, 0.001, 16, 4) == 0
    limit = theta_limit([2] * 16, 100, 0.001, theta=4, cell_limit=1000, shared=True)
    assert not limit.allows_parents([2] * 16)


@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=6),
    st.integers(1, 10**6),
    st.floats(0.01, 10),
    st.floats(0.5, 10),
    st.booleans(),
)
def test_chosen_tables_are_theta_useful(
    sizes: list[int], rows: int, epsilon: float, theta: float, shared: bool
) -> None:
    limit = theta_limit(sizes, rows, epsilon, theta=theta, cell_limit=2**18, shared=shared)
    rng = np.random.default_rng(rows)
    families = grow(sizes, 0, limit, lambda pool: int(rng.integers(len(pool))))
    measured = measured_families(families) if shared else range(len(families))
    for i in measured:
        cells = math.prod(sizes[a] for a in families[i].members)
        assert not families[i].parents or rows * epsilon / (2 * len(measured) * cells) >= theta * (1 - 1e-12)


def test_parents_are_possible_from_two_attributes_that_fit_one_table() -> None:
    assert FamilyLimit(degree=1, cells=6).allows_parents([3, 9, 2])
    assert not FamilyLimit(degree=1, cells=5).allows_parents([3, 9, 2])
    assert not FamilyLimit(degree=0, cells=600).allows_parents([3, 9, 2])
    assert not FamilyLimit(degree=3, cells=600).allows_parents([3])


@pytest.mark.parametrize(("attributes", "degree"), [(2, 1), (16, 15), (23, 6), (40, 3), (2000, 1)])
def test_the_degree_stays_where_the_families_can_be_counted(attributes: int, degree: int) -> None:
    assert countable_degree(attributes) == degree
    assert degree == 1 or math.comb(attributes, degree + 1) <= MOST_FAMILIES


NAMES = ("city", "job", "age", "sex")
SIZES = (41, 14, 16, 2)


def test_a_degree_within_reach_is_taken() -> None:
    assert fixed_limit(2, NAMES, SIZES, 1000, 10_000) == FamilyLimit(degree=2, cells=10_000)
    assert fixed_limit(9, ("a", "b"), (2, 2), 1000, 10_000) == FamilyLimit(degree=1, cells=10_000)


def test_a_table_of_fewer_rows_than_the_degree_needs_is_refused_with_the_remedy() -> None:
    fixed_limit(1, NAMES, SIZES, 28, 10_000)
    with pytest.raises(InfeasibleError, match=r"27 rows are fewer than the 28 cells.*lower the degree"):
        fixed_limit(1, NAMES, SIZES, 27, 10_000)


def test_a_domain_too_large_for_a_table_is_refused_by_columns_cells_and_limit() -> None:
    with pytest.raises(InfeasibleError) as refused:
        fixed_limit(2, NAMES, SIZES, 10_000, 9_000)
    for part in ("9184 cells", "'city': 41", "'job': 14", "'age': 16", "9000", "fewer bins", "levels"):
        assert part in str(refused.value)


def test_too_many_families_are_refused_with_the_largest_degree() -> None:
    names = tuple(f"a{i}" for i in range(40))
    with pytest.raises(
        InfeasibleError, match=r"degree 4 of 40 attributes has 658008 families.*lower it to 3"
    ):
        fixed_limit(4, names, (2,) * 40, 10_000, 2**18)


def test_a_lone_domain_above_the_limit_is_refused() -> None:
    check_single_tables(NAMES, SIZES, 41)
    with pytest.raises(InfeasibleError, match=r"limit of 40: \{'city': 41\}; give them fewer bins"):
        check_single_tables(NAMES, SIZES, 40)
