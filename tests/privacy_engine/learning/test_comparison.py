"""PPNB and DTPD on one table: what the split and the answers give, and what cannot be compared."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import SchemaError
from privacy_engine.learning.comparison import compare_learners


def table(n: int = 4_000) -> pd.DataFrame:
    """Two features that agree with the class in 90 % of the records, and one without information."""
    rng = np.random.default_rng(3)
    truth = rng.random(n) < 0.4
    agree = {name: np.where(rng.random(n) < 0.9, truth, ~truth) for name in ("owner", "married")}
    noise = rng.choice(["left", "right"], n)
    return pd.DataFrame({**agree, "hand": noise, "pays": np.where(truth, "yes", "no"), "age": np.arange(n)})


FEATURES = ("owner", "married", "hand")


def test_both_learn_far_from_one_half_and_only_ppnb_next_to_it() -> None:
    far = compare_learners(table(), FEATURES, "pays", 0.9, np.random.default_rng(1))
    near = [
        compare_learners(table(), FEATURES, "pays", 0.501, np.random.default_rng(seed)) for seed in (1, 2, 3)
    ]
    assert (far.learned, far.tested) == (3_000, 1_000)
    assert min(far.ppnb, far.dtpd, *(one.ppnb for one in near)) > 0.85
    assert min(one.dtpd for one in near) < 0.6
    assert 0.55 < far.majority < 0.65


def test_the_same_generator_gives_the_same_figures() -> None:
    one, other = (compare_learners(table(400), FEATURES, "pays", 0.7, np.random.default_rng(2)) for _ in "ab")
    assert one == other


@pytest.mark.parametrize(
    ("features", "target", "change", "error", "message"),
    [
        (("age",), "pays", {}, SchemaError, "age has more than two values"),
        (("hand",), "pays", {"hand": [None] + ["left"] * 39}, SchemaError, "hand: a value is null"),
        (("hand",), "pays", {"pays": [None] + ["yes"] * 39}, SchemaError, "pays: a class is null"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_refused(features, target, change, error, message) -> None:
    with pytest.raises(error, match=message):
        compare_learners(table(40).assign(**change), features, target, 0.7, np.random.default_rng(1))


@pytest.mark.parametrize(("p_0", "share"), [(0.5, 0.25), (1.0, 0.25), (0.7, 0.0), (0.7, 1.0)])
def test_parameters_out_of_range_are_refused(p_0: float, share: float) -> None:
    with pytest.raises(ValueError, match="must"):
        compare_learners(table(40), FEATURES, "pays", p_0, np.random.default_rng(1), test_share=share)
