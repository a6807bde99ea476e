"""Channels: probabilities, epsilon, perturbation, estimates."""

import json
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.randomizers.breach import breach_coefficients, breach_width
from privacy_engine.randomizers.channel import LARGEST, TOTAL, Channel
from privacy_engine.randomizers.estimation import estimate_joint

ABC = ("a", "b", "c")


def words(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 64, size=n, dtype=np.uint64)


domains = st.integers(2, 9).map(lambda k: tuple(f"v{i}" for i in range(k)))
spreads = st.lists(st.floats(0.05, 1), min_size=3, max_size=3).map(lambda p: np.array(p) / sum(p))


@given(labels=domains, keep=st.floats(0.01, 0.99))
def test_rows_sum_to_one_exactly(labels: tuple[str, ...], keep: float) -> None:
    channel = Channel.partial_hiding(labels, keep=keep)
    assert (channel.weights.sum(axis=1) == TOTAL).all()
    assert (channel.matrix.sum(axis=1) == 1).all()


@given(keep=st.floats(0.01, 0.99), spread=spreads)
def test_epsilon_of_partial_hiding_is_ln_of_one_plus_p_0_by_the_least_p_j(
    keep: float, spread: np.ndarray
) -> None:
    p = spread * (1 - keep)
    channel = Channel.partial_hiding(ABC, keep=keep, spread=p)
    assert channel.epsilon == pytest.approx(math.log(1 + keep / p.min()), rel=1e-9)


@given(labels=domains, epsilon=st.floats(1e-6, 60))
def test_a_channel_made_for_an_epsilon_never_exceeds_it(labels: tuple[str, ...], epsilon: float) -> None:
    for channel in (Channel.of_epsilon(labels, epsilon), Channel.geometric(labels, epsilon)):
        assert 0 <= channel.epsilon <= epsilon
        assert channel.epsilon == pytest.approx(min(epsilon, 30), rel=1e-3) or epsilon > 25


def test_a_stated_epsilon_is_never_below_the_exact_ratio() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        matrix = rng.dirichlet(np.ones(4), size=4)
        channel = Channel.of_matrix(("a", "b", "c", "d"), matrix)
        exact = max(
            math.log(int(w[i, j])) - math.log(int(w[k, j]))
            for w in (channel.weights,)
            for i, j, k in product(range(4), repeat=3)
        )
        assert exact - 1e-13 <= channel.epsilon <= exact + 1e-13


@pytest.mark.parametrize(
    ("matrix", "epsilon"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], math.inf),  # the value itself
        ([[1.0, 0.0], [0.5, 0.5]], math.inf),  # one answer rules a value out
        ([[0.5, 0.5], [0.5, 0.5]], 0.0),  # tells nothing
        ([[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.5, 0.5, 0.0]], math.log(3)),  # one output never occurs
    ],
)
def test_epsilon_by_hand(matrix: list[list[float]], epsilon: float) -> None:
    channel = Channel.of_matrix(ABC[: len(matrix)], matrix)
    assert channel.epsilon == pytest.approx(epsilon, abs=1e-12)


def test_the_empirical_likelihood_ratio_never_exceeds_e_to_epsilon() -> None:
    # The bound on each ratio allows 7 standard errors of its logarithm: false alarm < 1e-10 over 36 ratios.
    channel = Channel.of_epsilon(("a", "b", "c", "d"), 1.0)
    assert not exceeded(channel, channel.epsilon)


def test_the_likelihood_ratio_test_finds_a_channel_that_claims_too_little() -> None:
    # Positive control: epsilon 1.0 sampled, 0.9 claimed; the excess is over 30 standard errors.
    assert exceeded(Channel.of_epsilon(("a", "b", "c", "d"), 1.0), 0.9)


def exceeded(channel: Channel, epsilon: float, n: int = 1_000_000) -> bool:
    k = len(channel)
    counts = np.stack(
        [
            np.bincount(channel.perturb(np.full(n, true), words(n, seed=true)), minlength=k)
            for true in range(k)
        ]
    )
    for i, j, out in product(range(k), range(k), range(k)):
        error = math.sqrt(1 / counts[i, out] + 1 / counts[j, out])
        if math.log(counts[i, out] / counts[j, out]) > epsilon + 7 * error:
            return True
    return False


@pytest.mark.parametrize(
    "channel",
    [
        Channel.partial_hiding(ABC, keep=0.4, spread=[0.1, 0.2, 0.3]),
        Channel.geometric(tuple("abcdefg"), 2.0),
        Channel.of_matrix(ABC, [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8]]),
    ],
    ids=["hiding", "geometric", "matrix"],
)
def test_values_are_released_with_the_stated_probabilities(channel: Channel) -> None:
    # Each count is within 7 standard deviations (and 1) of its mean: false alarm < 49 * 3e-12.
    n, k = 200_000, len(channel)
    for true in range(k):
        counts = np.bincount(channel.perturb(np.full(n, true), words(n, seed=true)), minlength=k)
        p = channel.matrix[true]
        assert (np.abs(counts - n * p) <= 7 * np.sqrt(n * p * (1 - p)) + 1).all()


def test_the_same_bits_release_the_same_values_and_the_extremes_stay_in_the_domain() -> None:
    channel = Channel.partial_hiding(ABC, keep=0.5)
    ends = np.array([0, (1 << 64) - 1], dtype=np.uint64)
    for true in range(3):
        assert channel.perturb([true, true], ends).tolist() == [0, 2]


def test_an_estimate_inverts_the_channel_in_expectation() -> None:
    channel = Channel.partial_hiding(ABC, keep=0.3, spread=[0.1, 0.2, 0.4])
    true = np.array([0.5, 0.3, 0.2])
    assert channel.estimate(true @ channel.matrix * 1000).shares == pytest.approx(true)


def test_an_estimate_of_partial_hiding_is_equation_one_with_its_variance() -> None:
    p_0, p, counts = 0.4, np.array([0.1, 0.2, 0.3]), np.array([250, 400, 350])
    share = counts / 1000
    found = Channel.partial_hiding(ABC, keep=p_0, spread=p).estimate(counts)
    assert found.shares == pytest.approx((share - p) / p_0)
    assert found.standard_errors == pytest.approx(np.sqrt(share * (1 - share) / 1000) / p_0)


def test_reconstruction_errors_are_as_large_as_stated() -> None:
    # 400 releases of one table: errors divided by the stated one have a mean square near 1. With 400 x 2 free
    # cells its standard deviation is 0.05-0.07; 0.55 .. 1.45 is over 6 of them: false alarm < 1e-9.
    channel = Channel.partial_hiding(ABC, keep=0.4)
    table = np.repeat([0, 1, 2], [3000, 1500, 500])
    population, given_table = [], []
    rng = np.random.default_rng(3)
    for seed in range(400):
        found = channel.estimate(np.bincount(channel.perturb(table, words(5000, seed)), minlength=3))
        given_table.append((found.shares - [0.6, 0.3, 0.1]) / found.randomization_errors)
        drawn = rng.choice(3, size=5000, p=[0.6, 0.3, 0.1])
        found = channel.estimate(np.bincount(channel.perturb(drawn, words(5000, seed)), minlength=3))
        population.append((found.shares - [0.6, 0.3, 0.1]) / found.standard_errors)
    assert 0.55 < np.square(given_table).mean() < 1.45
    assert 0.55 < np.square(population).mean() < 1.45


def test_errors_of_the_given_table_are_smaller_than_of_the_population() -> None:
    found = Channel.partial_hiding(ABC, keep=0.4).estimate([300, 400, 300])
    assert (found.randomization_errors < found.standard_errors).all()


def test_a_joint_distribution_is_estimated_through_both_channels() -> None:
    one, other = Channel.partial_hiding(ABC, keep=0.5), Channel.partial_hiding(("x", "y"), keep=0.3)
    true = np.array([[0.3, 0.1], [0.05, 0.25], [0.2, 0.1]])
    released = one.matrix.T @ true @ other.matrix
    found = estimate_joint(released * 500, [one.inverse, other.inverse])
    assert found.shares == pytest.approx(true)
    product_inverse = np.kron(one.inverse.T, other.inverse.T)  # by the definition, on the product domain
    covariance = np.diag(released.ravel()) - np.outer(released, released)
    errors = np.sqrt(np.diag(product_inverse @ covariance @ product_inverse.T) / 500)
    assert found.standard_errors.ravel() == pytest.approx(errors)


def test_a_distribution_has_no_negative_share_and_sums_to_one() -> None:
    found = Channel.partial_hiding(ABC, keep=0.2).estimate([1000, 10, 10])
    assert (found.shares < 0).any()
    assert (found.distribution >= 0).all()
    assert found.distribution.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "channel",
    [
        Channel.partial_hiding(ABC, keep=0.4, spread=[0.1, 0.2, 0.3]),
        Channel.geometric(ABC, 1.0),
        Channel.geometric(tuple("abcdefgh"), 1.0),
        Channel.of_matrix(tuple("abcd"), np.full((4, 4), 0.2) + 0.2 * np.eye(4)[[1, 0, 3, 2]]),
    ],
    ids=["hiding", "geometric", "bands", "another"],
)
def test_a_channel_survives_json_exactly(channel: Channel) -> None:
    again = Channel.from_dict(json.loads(json.dumps(channel.to_dict())))
    assert again.labels == channel.labels
    assert np.array_equal(again.weights, channel.weights)
    assert again.epsilon == channel.epsilon


def test_partial_hiding_and_noise_are_written_short() -> None:
    labels = tuple(f"v{i}" for i in range(100))
    assert len(json.dumps(Channel.partial_hiding(labels, keep=0.5).to_dict())) < 4000
    assert len(json.dumps(Channel.geometric(labels, 5.0).to_dict())) < 10_000


def test_fingerprints_tell_channels_apart() -> None:
    channels = [Channel.partial_hiding(ABC, keep=p) for p in (0.4, 0.5)]
    channels.append(Channel.partial_hiding(("a", "b", "d"), keep=0.4))
    assert len({channel.fingerprint for channel in channels}) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Channel.partial_hiding(ABC, keep=0.0), r"p_0 must be in \(0, 1\)"),
        (lambda: Channel.partial_hiding(ABC, keep=1.0), r"p_0 must be in \(0, 1\)"),
        (lambda: Channel.partial_hiding(ABC, keep=math.nan), r"p_0 must be in \(0, 1\)"),
        (lambda: Channel.partial_hiding(ABC, keep=0.5, spread=[0.1, 0.1, 0.1]), "must sum to 1"),
        (lambda: Channel.partial_hiding(ABC, keep=0.5, spread=[0.5, 0.1, -0.1]), "p_j > 0"),
        (lambda: Channel.partial_hiding(ABC, keep=0.5, spread=[0.5]), "p_j > 0 for each of the 3"),
        (lambda: Channel.of_matrix(ABC, np.eye(3) * 0.9), "sum to 1"),
        (lambda: Channel.of_matrix(ABC, np.eye(2)), "square"),
        (lambda: Channel.of_matrix(("a", "b"), [[1.5, -0.5], [0, 1]]), "probabilities"),
        (lambda: Channel.of_epsilon(ABC, 0.0), "epsilon must be > 0"),
        (lambda: Channel.of_epsilon(ABC, math.inf), "epsilon must be > 0 and finite"),
        (lambda: Channel(("a", "a"), np.full((2, 2), TOTAL // 2)), "distinct labels"),
        (lambda: Channel(("a", "b"), np.full((2, 2), 1)), "each row sum"),
        (lambda: Channel.from_dict({"labels": ["a", "b"]}), "weights of whole numbers"),
        (lambda: Channel.from_dict({"labels": 5, "weights": [[1]]}), "must have labels"),
        (
            lambda: Channel.partial_hiding(tuple(map(str, range(LARGEST + 1))), keep=0.5),
            f"1 to {LARGEST} distinct",
        ),
    ],
)
def test_a_bad_channel_is_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_channel_that_tells_nothing_cannot_be_inverted() -> None:
    with pytest.raises(ValueError, match="no usable inverse"):
        Channel.of_matrix(("a", "b"), [[0.5, 0.5], [0.5, 0.5]]).estimate([3, 4])


@pytest.mark.parametrize("counts", [[0, 0, 0], [1, 2], [[1, 2, 3]]])
def test_counts_that_are_none_or_of_another_domain_are_refused(counts: object) -> None:
    with pytest.raises(ValueError, match="counts of shape"):
        Channel.partial_hiding(ABC, keep=0.5).estimate(counts)


@pytest.mark.parametrize("codes", [[-1], [3]])
def test_a_code_outside_the_domain_is_refused(codes: list[int]) -> None:
    with pytest.raises(ValueError, match=r"codes must be 0 \.\. 2"):
        Channel.partial_hiding(ABC, keep=0.5).perturb(codes, words(1))


@given(k=st.integers(2, 9), keep=st.floats(0.05, 0.95))
def test_the_breach_coefficient_is_the_papers(k: int, keep: float) -> None:
    found = breach_coefficients(Channel.partial_hiding(tuple(map(str, range(k))), keep=keep))
    assert found == pytest.approx(np.full(k, k * keep**2 / ((k - 1) * keep + 1)))


def test_the_breach_coefficient_rises_with_p_0_from_0_to_1() -> None:
    found = [
        breach_coefficients(Channel.partial_hiding(ABC, keep=p))[0] for p in np.linspace(0.001, 0.999, 50)
    ]
    assert (np.diff(found) > 0).all()
    assert found[0] < 0.01
    assert found[-1] > 0.99


def test_breach_measures_of_something_else_are_refused() -> None:
    with pytest.raises(ValueError, match="partial hiding"):
        breach_coefficients(Channel.geometric(tuple("abcd"), 1.0))
    with pytest.raises(ValueError, match="confidence"):
        breach_width(1.0, 1.0)
