"""Released numbers: unbiased scores, reconstructed moments and their errors."""

import json
import math

import numpy as np
import pytest

from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.numeric import Grid, Plain, Transformation, moments, numeric_from_dict

TRANSFORMATIONS = [
    Transformation(),
    Transformation(a_mean=2.0, a_variance=10.0, b_variance=5.0),
    Transformation(a_mean=-0.5, a_variance=0.0, b_mean=3.0, b_variance=4.0),
]
LABELS = tuple(map(str, range(33)))
GRIDS = [
    Grid(low=-8.0, high=24.0, channel=Channel.geometric(LABELS, 3.0), laplace=3.0),
    Grid(low=-8.0, high=24.0, channel=Channel.partial_hiding(LABELS, keep=0.5)),
]


def words(n: int, each: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 64, size=(n, each), dtype=np.uint64)


def released(mechanism: Transformation | Grid, x: np.ndarray, seed: int = 1) -> np.ndarray:
    if isinstance(mechanism, Transformation):
        return mechanism.transform(x, words(len(x), 2, seed))
    return mechanism.points[mechanism.channel.perturb(mechanism.codes(x), words(len(x), 1, seed)[:, 0])]


@pytest.mark.parametrize("mechanism", [*TRANSFORMATIONS, *GRIDS], ids=range(5))
@pytest.mark.parametrize("centre", [0.0, 7.0])
def test_scores_are_unbiased_for_a_value_and_its_square(mechanism, centre: float) -> None:
    # Means of 50,000 scores within 7 of their standard errors: false alarm < 3e-12 each.
    for x in (-8.0, 2.0, 24.0):
        scores = mechanism.scores(released(mechanism, np.full(50_000, x)), centre)
        errors = scores.std(axis=0) / math.sqrt(len(scores))
        truth = np.array([x - centre, (x - centre) ** 2])
        assert (np.abs(scores.mean(axis=0) - truth) < 7 * errors + 1e-12).all()


def test_a_transformed_value_has_the_papers_mean_and_variance() -> None:
    # y = a x + b: mean a x, variance s_A^2 x^2 + s_B^2. 7 standard errors (of a normal): false alarm < 1e-11.
    y = Transformation(a_mean=2.0, a_variance=10.0, b_variance=5.0).transform(
        np.full(200_000, 3.0), words(200_000, 2, 5)
    )
    variance = 10 * 9 + 5
    assert abs(y.mean() - 6) < 7 * math.sqrt(variance / 200_000)
    assert abs(y.var() - variance) < 7 * variance * math.sqrt(2 / 200_000)


@pytest.mark.parametrize("mechanism", TRANSFORMATIONS, ids=range(3))
def test_moments_are_the_papers_equations_two_and_three(mechanism: Transformation) -> None:
    y = released(mechanism, np.random.default_rng(2).normal(8, 3, size=5000))
    found, n = moments(mechanism, y), len(y)
    m = mechanism
    mean = (y.mean() - m.b_mean) / m.a_mean  # eq. (2), with b
    spread = y.var(ddof=1)
    mean_square = mean**2 - spread / (n * m.a_mean**2)  # E[mean^2] is too large by the mean's own variance
    total = m.a_variance + m.a_mean**2
    # Eq. (3); with b the scores of the square lose 2 b (y - b), which changes nothing but rounding.
    assert found.mean == pytest.approx(mean)
    assert found.variance == pytest.approx((spread - m.a_variance * mean_square - m.b_variance) / total)


@pytest.mark.parametrize("mechanism", [*TRANSFORMATIONS, *GRIDS], ids=range(5))
def test_errors_of_moments_are_as_large_as_stated(mechanism) -> None:
    # 300 tables; the mean square of error / stated error is near 1. For the variance of a product of normals
    # the delta method's own error adds some. 0.5 .. 1.6 is over 6 of its standard deviation, 0.08.
    rng = np.random.default_rng(11)
    ratios = []
    for seed in range(300):
        x = rng.normal(8, 3, size=1000)
        found = moments(mechanism, released(mechanism, x, seed))
        rounding = 1 / 12 if isinstance(mechanism, Grid) else 0.0  # to the nearest point, step 1
        ratios.append(
            ((found.mean - 8) / found.mean_error, (found.variance - 9 - rounding) / found.variance_error)
        )
    squares = np.square(ratios).mean(axis=0)
    assert (squares > 0.5).all()
    assert (squares < 1.6).all()


def test_moments_of_plain_numbers_are_the_usual_ones_far_from_zero_too() -> None:
    x = np.random.default_rng(1).normal(1e9, 2.0, size=1000)
    found = moments(Plain(), x)
    assert found.mean == pytest.approx(x.mean(), rel=1e-15)
    assert found.variance == pytest.approx(x.var(ddof=1), rel=1e-6)


def test_a_variance_lost_in_noise_is_floored_and_said_to_be() -> None:
    loud = Transformation(a_variance=0.0, b_variance=1e6)
    found = [moments(loud, released(loud, np.full(50, 3.0), seed)) for seed in range(40)]
    assert min(m.variance for m in found) == 0
    assert all(m.floored == (m.variance == 0) for m in found)
    assert any(m.floored for m in found)


@pytest.mark.parametrize("mechanism", [*TRANSFORMATIONS, *GRIDS, Plain()], ids=range(6))
def test_a_numeric_mechanism_survives_json(mechanism) -> None:
    again = numeric_from_dict(json.loads(json.dumps(mechanism.to_dict())))
    values = np.array([1.0, 2.5, 9.0])
    assert np.array_equal(again.scores(values), mechanism.scores(values))
    assert again.to_dict() == mechanism.to_dict()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"a_mean": 0.0}, "a_mean must not be 0"),
        ({"a_variance": -1.0}, "must be >= 0"),
        ({"b_variance": -1.0}, "must be >= 0"),
        ({"a_variance": 0.0, "b_variance": 0.0}, "not both 0"),
        ({"b_mean": math.inf}, "b_mean must be a finite number"),
        ({"a_mean": "2"}, "a_mean must be a finite number"),
    ],
)
def test_a_bad_transformation_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transformation(**fields)


@pytest.mark.parametrize("fields", [{}, {"mechanism": "magic"}, {"mechanism": "grid", "low": 0}])
def test_what_is_no_numeric_mechanism_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="mechanism must"):
        numeric_from_dict(fields)


def test_moments_need_two_records() -> None:
    with pytest.raises(ValueError, match="at least 2 records"):
        moments(Plain(), np.array([1.0]))


def test_clamped_noise_has_the_distribution_of_opendps_clamped_discrete_laplace() -> None:
    # Differential: OpenDP's noise on the same grid. Chi-square of 17 cells, each of 70 or more of the 10,000
    # draws; 90 is beyond 1 - 1e-11.
    from privacy_engine.dp.mechanisms import laplace_counts

    labels, n = tuple(map(str, range(17))), 10_000
    for true in (0, 8, 14):
        expected = n * Channel.geometric(labels, 2.0).matrix[true]
        noisy = laplace_counts(np.full(n, true), epsilon=2.0, sensitivity=16)
        counts = np.bincount(np.clip(noisy, 0, 16), minlength=17)
        assert ((counts - expected) ** 2 / expected).sum() < 90
