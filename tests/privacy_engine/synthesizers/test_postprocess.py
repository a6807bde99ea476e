"""From noisy counts to probabilities: hand-worked tables, and what every rule keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.synthesizers.postprocess import (
    PostProcess,
    chosen_threshold,
    clip_and_normalise,
    conditional,
    imlap_threshold,
    probabilities,
    project_to_simplex,
)

counts = st.lists(st.integers(-1000, 1000), min_size=1, max_size=40).map(np.array)
totals = st.integers(1, 2000)


@given(counts, totals, st.sampled_from(PostProcess))
def test_every_rule_gives_a_distribution(noisy: np.ndarray, total: int, rule: PostProcess) -> None:
    found = probabilities(noisy, total, rule)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1, abs=1e-12)


@given(counts, totals, st.sampled_from(PostProcess))
def test_a_larger_count_never_gets_less(noisy: np.ndarray, total: int, rule: PostProcess) -> None:
    found = probabilities(noisy, total, rule)[np.argsort(noisy, kind="stable")]
    assert (np.diff(found) >= -1e-15).all()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(any).map(np.array))
def test_clip_and_simplex_leave_true_counts_as_they_are(exact: np.ndarray) -> None:
    for rule in (PostProcess.CLIP, PostProcess.SIMPLEX):
        np.testing.assert_allclose(probabilities(exact, int(exact.sum()), rule), exact / exact.sum())


@given(st.sampled_from(PostProcess), st.permutations(range(12)))
def test_the_shape_of_the_table_does_not_matter(rule: PostProcess, values: list[int]) -> None:
    noisy = np.array(values) - 3
    flat = probabilities(noisy, 20, rule)
    np.testing.assert_allclose(probabilities(noisy.reshape(3, 2, 2), 20, rule).ravel(), flat)


@pytest.mark.parametrize("rule", PostProcess)
def test_a_table_without_any_count_above_zero_is_uniform(rule: PostProcess) -> None:
    assert probabilities(np.array([-3, -3, -3, -3]), 10, rule).tolist() == [0.25] * 4


def test_the_threshold_takes_the_mass_nearest_to_one() -> None:
    """Mass of the cells >= t: 1.2 up to t = .1, 1.1 to .2, .9 to .4, .5 to .5: 1.1 and .9 are equally near.

    The smaller t, .101, is taken: the cells .5, .4, .2 stay.
    """
    noisy = np.array([500, 400, 200, 100, -200])
    assert chosen_threshold(noisy, 1000) == 101
    np.testing.assert_allclose(imlap_threshold(noisy, 1000), np.array([5, 4, 2, 0, 0]) / 11)


def test_a_cell_at_the_threshold_stays() -> None:
    """Mass 1.0 needs the cell of .1, and t = .002 is the first above the cell of .001."""
    noisy = np.array([900, 100, 1])
    assert chosen_threshold(noisy, 1000) == 2
    np.testing.assert_allclose(imlap_threshold(noisy, 1000), [0.9, 0.1, 0.0])


def test_the_threshold_never_empties_a_table() -> None:
    """A single cell of 3: without the rule's last clause a t above it has mass 0, which is nearer to 1."""
    assert imlap_threshold(np.array([30, -10, 0]), 10).tolist() == [1.0, 0.0, 0.0]


@given(counts, totals)
def test_the_threshold_is_the_best_of_the_whole_grid(noisy: np.ndarray, total: int) -> None:
    grid = [i for i in range(1, 1001) if i == 1 or i * total <= 1000 * noisy.max()]
    gap = [abs(int(noisy[1000 * noisy >= i * total].sum()) - total) for i in grid]
    assert chosen_threshold(noisy, total) == grid[gap.index(min(gap))]


def test_clipping_scales_what_is_left() -> None:
    assert clip_and_normalise(np.array([6, -4, 2]), 4).tolist() == [0.75, 0.0, 0.25]


@given(counts, totals, st.integers(0, 2**32 - 1))
def test_no_distribution_is_nearer_than_the_projection(noisy: np.ndarray, total: int, seed: int) -> None:
    cells = noisy / total
    found = project_to_simplex(noisy, total)
    others = np.random.default_rng(seed).dirichlet(np.ones(len(noisy)), size=50)
    others = np.concatenate([others, 0.99 * found + 0.01 * others, np.eye(len(noisy))])
    distances = ((others - cells) ** 2).sum(axis=1)
    assert ((found - cells) ** 2).sum() <= distances.min() + 1e-9


def test_conditionals_divide_each_combination_of_parents_by_its_mass() -> None:
    joint = np.array([[0.3, 0.1], [0.0, 0.6]])
    np.testing.assert_allclose(conditional(joint), [[0.75, 0.25], [0.0, 1.0]])


def test_an_unseen_combination_of_parents_gets_the_childs_own_distribution() -> None:
    joint = np.array([[0.3, 0.1], [0.0, 0.0], [0.1, 0.5]])
    np.testing.assert_allclose(conditional(joint)[1], [0.4, 0.6])


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_conditionals_of_any_table_are_distributions(p: int, x: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    joint = rng.random((p, 2, x)) * (rng.random((p, 2, x)) < 0.3)
    joint[0, 0, 0] += 1e-300  # tiny mass must not upset the division
    np.testing.assert_allclose(conditional(joint / joint.sum()).sum(axis=-1), 1, atol=1e-12)
