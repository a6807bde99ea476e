"""Prices of records against the linear program that they solve roughly."""

import numpy as np
import pytest
from scipy.optimize import linprog

from privacy_engine.recoding.nearness.prices import descend


@pytest.mark.parametrize("seed", range(4))
def test_prices_and_columns_come_near_the_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [rng.choice(6, size=3, replace=False) for _ in range(12)]
    costs, counts = rng.uniform(0.1, 2.0, 12), rng.integers(1, 4, 6).astype(np.float64)
    held = np.array([np.isin(np.arange(6), members) for members in sets], dtype=np.float64)
    # A tuple that no column covers costs 1 for each of its records.
    program = linprog([*costs, *np.ones(6)], A_ub=-np.hstack([held.T, np.eye(6)]), b_ub=-counts).fun
    start = np.arange(0, 37, 3)
    x, y = descend(start, np.concatenate(sets), np.ones(36), costs, counts, np.zeros(12), np.zeros(6), 20_000)
    assert y @ counts == pytest.approx(program, rel=0.02)
    assert (held @ y <= costs + 0.02).all()
    assert costs @ x + np.maximum(counts - held.T @ x, 0).sum() == pytest.approx(program, rel=0.02)
