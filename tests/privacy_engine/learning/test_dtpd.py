"""DTPD: reversed records, proportions estimated from them, and its collapse around one half."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from privacy_engine.learning.dtpd import DTPD, reverse_records, warner_breach
from privacy_engine.randomizers.breach import breach_coefficients
from privacy_engine.randomizers.channel import Channel


def records(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Class 1 where the first two attributes are set; the other two say nothing."""
    table = np.random.default_rng(seed).random((n, 4)) < [0.6, 0.7, 0.5, 0.3]
    return table, (table[:, 0] & table[:, 1]).astype(int)


def test_each_record_is_kept_or_reversed_as_a_whole() -> None:
    table, _ = records(20_000)
    released = reverse_records(table, 0.7, np.random.default_rng(2))
    kept, reversed_ = (released == table).all(axis=1), (released != table).all(axis=1)
    assert (kept ^ reversed_).all()
    assert kept.mean() == pytest.approx(0.7, abs=0.025)  # 7 standard deviations are 0.023


def test_without_reversal_it_is_id3() -> None:
    table, y = records(2000)
    everything = np.array(list(product([False, True], repeat=4)))
    almost_one = 1 - 1e-12
    ours = DTPD(almost_one, least_share=0.0).fit(table, y).predict(everything)
    theirs = DecisionTreeClassifier(criterion="entropy").fit(table, y).predict(everything)
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("theta", [0.2, 0.8])
def test_the_tree_of_reversed_records_is_that_of_the_true_ones(theta: float) -> None:
    table, y = records(40_000)
    released = reverse_records(table, theta, np.random.default_rng(3))
    requested, truth = records(2000, seed=9)
    assert (DTPD(theta).fit(released, y).predict(requested) == truth).all()


def test_it_collapses_around_one_half() -> None:
    requested, truth = records(2000, seed=9)
    table, y = records(3000)
    scores = {
        theta: np.mean(
            [
                DTPD(theta)
                .fit(reverse_records(table, theta, np.random.default_rng(seed)), y)
                .score(requested, truth)
                for seed in range(20)
            ]
        )
        for theta in (0.1, 0.49, 0.51, 0.9)
    }
    assert min(scores[0.1], scores[0.9]) > 0.98
    assert max(scores[0.49], scores[0.51]) < 0.85


@pytest.mark.parametrize(
    ("theta", "given", "message"),
    [
        (0.5, [[True]], "must not be 0.5"),
        (0.0, [[True]], r"theta must be in \(0, 1\)"),
        (1.0, [[True]], r"theta must be in \(0, 1\)"),
        (0.8, [[1.0]], "boolean"),
        (0.8, np.ones((0, 2), dtype=bool), "at least one"),
    ],
)
def test_bad_input_is_refused(theta: float, given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DTPD(theta).fit(given, [0])


@given(st.fractions(Fraction(1, 1000), Fraction(999, 1000), max_denominator=10_000))
def test_partial_hiding_is_more_private_exactly_below_one_by_root_two(share: Fraction) -> None:
    hiding = 2 * share**2 / (1 + share)
    warner = share**2 + (1 - share) ** 2
    # (warner - hiding) (1 + share) = (1 - share) (1 - 2 share^2)
    assert (hiding < warner) == (2 * share**2 < 1)
    assert warner_breach(float(share)) == pytest.approx(float(warner), rel=1e-12)
    channel = Channel.partial_hiding(("no", "yes"), keep=float(share))
    assert breach_coefficients(channel) == pytest.approx([float(hiding)] * 2, rel=1e-6)
