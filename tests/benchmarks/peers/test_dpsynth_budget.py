"""What dpsynth may book, by hand and against its own steps taken one by one."""

import math
from math import exp, pi, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import softmax

from benchmarks.peers.dpsynth_budget import DELTA, MECHANISMS, gaussian_delta, gaussian_mu
from privacy_engine.dp.zcdp import zcdp_rho

EPSILONS = (0.2, 0.8, 1.6)
COUNTS, SCORES = 2, 4  # squared change by a replaced record, over that by an added or removed one


@pytest.mark.parametrize(
    ("mechanism", "cost"),
    [
        ("MST", 0.18 + 0.9 * (0.5 * 4 + 0.5 * 2)),
        ("SWIFT", 0.18 + 0.9 * (0.1 * 4 + 0.9 * 2)),
        ("AIM-GDP", 0.18 + 0.9 * (4 / 288 + 287 / 288 * (0.1 * 4 + 0.9 * 2))),
    ],
)
def test_a_replaced_record_of_nine_attributes_costs_what_a_hand_finds(mechanism: str, cost: float) -> None:
    assert MECHANISMS[mechanism].replacement_cost(9) == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize("d", [7, 17])
def test_the_rounds_of_aim_gdp_cost_the_same_however_it_anneals(d: int) -> None:
    """The steps of `aim_gdp.py`, in mu^2 for a replaced record; a round may be followed by a larger one."""
    rng, rho = np.random.default_rng(d), 0.03
    for _ in range(20):
        spent = COUNTS * 2 * (0.1 * rho) * d / (d + 1)
        left = budget = 2 * 0.9 * rho
        each = budget / (16 * d)
        left -= each / 2
        spent += SCORES * each / 2
        last = False
        while not last:
            if left < 2 * each:
                each, last = left, True
            left -= each
            spent += COUNTS * 0.9 * each + SCORES * 0.1 * each
            each *= 4 if rng.random() < 0.1 else 1
        assert spent == pytest.approx(2 * rho * MECHANISMS["AIM-GDP"].replacement_cost(d), rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_peer_gets_all_that_the_promise_allows_and_no_more(mechanism: str, epsilon: float) -> None:
    peer = MECHANISMS[mechanism]
    paid = peer.booked_rho(epsilon, 17) * peer.replacement_cost(17)
    assert gaussian_delta(sqrt(2 * paid), epsilon) <= DELTA < gaussian_delta(sqrt(2.0001 * paid), epsilon)
    assert paid > zcdp_rho(epsilon, DELTA)  # never less than zCDP would give it
    assert paid < peer.booked_rho(epsilon, 17) * 3


def test_the_delta_of_gaussian_noise_is_the_excess_of_its_density() -> None:
    mu, epsilon = 0.7, 0.5

    def excess(x: float) -> float:
        near, far = exp(-((x - mu) ** 2) / 2), exp(-(x**2) / 2)
        return max(0.0, near - exp(epsilon) * far) / sqrt(2 * pi)

    start = epsilon / mu + mu / 2  # where the densities' ratio is exp(epsilon)
    assert gaussian_delta(mu, epsilon) == pytest.approx(quad(excess, start, 20)[0], rel=1e-8)
    assert gaussian_mu(epsilon, gaussian_delta(mu, epsilon)) == pytest.approx(mu, rel=1e-9)


def test_an_added_record_costs_a_choice_of_aim_four_times_what_it_books() -> None:
    """`aim.py` draws by softmax(e u / sensitivity) and books e^2 / 8; here both attributes have weight 1."""
    expected = np.array([5, 5])
    before, after = ([(6, 4), (4, 6)], [(7, 4), (5, 6)])  # one more record, the first value of both

    def chosen(counts: list[tuple[int, int]], e: float) -> np.ndarray:
        return softmax(e * np.array([np.abs(np.array(c) - expected).sum() for c in counts], dtype=float))

    for e in (0.01, 0.5):
        old, new = chosen(before, e), chosen(after, e)
        odds = np.log(new / old)
        assert odds.max() - odds.min() == pytest.approx(2 * e)
        assert old[1] / new[1] == pytest.approx((1 + exp(2 * e)) / 2)
        assert old[1] / new[1] > exp(e)
    divergence = float((old * np.log(old / new)).sum())
    assert divergence > 0.5**2 / 8  # already the expected loss exceeds the booked zCDP
    small = [chosen(counts, 0.01) for counts in (before, after)]
    divergence = float((small[0] * np.log(small[0] / small[1])).sum())
    assert divergence == pytest.approx(4 * 0.01**2 / 8, rel=1e-3)
    assert math.isclose(0.1 + 0.9 * (0.9 + 0.1 * 4), 1.27)
