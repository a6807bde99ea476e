"""The interval of a number that was measured with noise: as wide as the law of the noise says."""

import math

import pytest

from privacy_engine.synthesizers.noisy_number import NoisyNumber


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 120.0])
def test_the_interval_is_the_least_that_holds_discrete_laplace_noise_with_its_chance(
    scale: float, level: float
) -> None:
    number = NoisyNumber(released=10_000, mechanism="discrete_laplace", scale=scale)
    low, high = number.interval(level)
    reach = int(high - number.value)
    assert number.value - low == reach

    def chance(q: int) -> float:  # P(|X| <= q), P(X = x) = (1 - p) / (1 + p) p^|x|
        p = math.exp(-1 / scale)
        return 1 - 2 * p ** (q + 1) / (1 + p)

    assert chance(reach) >= level
    assert reach == 0 or chance(reach - 1) < level


def test_the_interval_of_gaussian_noise_holds_it() -> None:
    number = NoisyNumber(released=1000, mechanism="discrete_gaussian", scale=10.0)
    assert number.value == 1010
    assert number.interval(0.95) == (1010 - 21, 1010 + 21)  # 1.96 standard deviations, whole ones


def test_the_interval_keeps_within_what_is_public_and_reaches_it_where_the_number_was_moved_there() -> None:
    raised = NoisyNumber(released=100, mechanism="discrete_laplace", scale=5.0, least=100, most=200)
    low, high = raised.interval(0.95)
    assert (low, raised.value) == (100, 105)
    assert 105 < high < 200
    lowered = NoisyNumber(released=200, mechanism="discrete_laplace", scale=5.0, least=100, most=200)
    assert lowered.value == 200
    assert lowered.interval(0.95)[1] == 200


def test_it_is_read_back() -> None:
    number = NoisyNumber(released=7, mechanism="discrete_laplace", scale=2.0, least=2, most=14)
    assert NoisyNumber.from_dict(number.to_dict()) == number
