"""What noisy tables of many cells show: functions, cells, low ranks, and groups of values."""

import numpy as np
import numpy.typing as npt
import pytest

from privacy_engine.synthesizers.latent.pair_estimates import (
    alike,
    clear_cells,
    is_function,
    is_sure,
    low_rank,
    readable_cells,
)

Ints = npt.NDArray[np.int64]


def noisy(counts: Ints, deviation: float, seed: int = 1) -> Ints:
    """Counts with rounded Laplace noise of a standard deviation."""
    rng = np.random.default_rng(seed)
    return counts + np.rint(rng.laplace(scale=deviation / 2**0.5, size=counts.shape)).astype(np.int64)


def test_noise_alone_has_hardly_any_clear_cells() -> None:
    found = [
        clear_cells(noisy(np.zeros((100, 100), dtype=np.int64), 10.0, seed).astype(float)).sum()
        for seed in range(20)
    ]
    assert np.mean(found) < 5  # of 10,000


def test_cells_above_the_noise_are_clear_and_few_others() -> None:
    off = noisy(np.diag(np.full(100, 150)), 10.0).astype(float)
    clear = clear_cells(off)
    assert clear.diagonal().all()
    assert clear.sum() - 100 <= 20


def test_a_low_rank_is_read_out_of_noise_and_noise_has_none() -> None:
    rng = np.random.default_rng(3)
    signal = 10 * np.multiply.outer(rng.choice([-1, 1], 80), rng.choice([-1, 1], 60))
    noise = rng.normal(scale=8.0, size=signal.shape)
    assert np.abs(low_rank(noise, 8.0)).max() < 2
    found = low_rank(signal + noise, 8.0)
    assert np.square(found - signal).mean() < 0.2 * np.square(noise).mean()
    assert np.linalg.matrix_rank(found, tol=1.0) <= 2


def test_cells_have_the_counts_of_both_attributes_and_keep_a_diagonal() -> None:
    counts = np.diag(np.full(50, 200)) + 2
    rows, columns = counts.sum(axis=1).astype(float), counts.sum(axis=0).astype(float)
    cells = readable_cells(noisy(counts, 20.0), rows, columns, 20.0)
    assert cells.min() > 0
    assert cells.sum(axis=0) == pytest.approx(columns)
    assert cells.sum(axis=1) == pytest.approx(rows, rel=0.05)
    assert cells.trace() == pytest.approx(counts.trace(), rel=0.1)


@pytest.mark.parametrize(("share", "holds"), [(0.0, True), (0.3, False)])
def test_a_function_has_few_exceptions(share: float, holds: bool) -> None:
    counts = np.zeros((60, 8), dtype=np.int64)
    counts[np.arange(60), np.arange(60) % 8] = round(200 * (1 - share))
    counts += round(200 * share / 8)
    assert is_function(noisy(counts, 5.0), 5.0) == holds


def test_nothing_that_noise_hides_is_a_function() -> None:
    assert not is_function(noisy(np.full((60, 8), 3), 20.0), 20.0)
    assert not is_function(np.zeros((0, 3), dtype=np.int64), 5.0)


def test_a_value_is_sure_whose_largest_cell_is_clearly_larger() -> None:
    assert is_sure(np.array([[9, 0, 1], [9, 8, 1]]), 5.0).tolist() == [True, False]
    assert is_sure(np.array([[9], [0]]), 5.0).all()


def test_values_with_the_same_distribution_are_in_one_group() -> None:
    kind = np.arange(90) % 3
    shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    counts = np.rint(300 * shares[kind]).astype(np.int64)
    found = alike(noisy(counts, 10.0), np.full(90, 300.0), 10.0, 3, np.random.default_rng(1))
    assert {len(np.unique(found[kind == k])) for k in range(3)} == {1}
    assert len(np.unique(found)) == 3
    assert alike(counts[:1], np.ones(1), 1.0, 3, np.random.default_rng(1)).tolist() == [0]
