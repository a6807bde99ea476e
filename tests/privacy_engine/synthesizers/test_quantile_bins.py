"""Private quantile bins: what they cost, what they read, and how near values come to those of the records."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, InfeasibleError, load_method
from privacy_engine.dp.accounting import check_bookkeeping
from privacy_engine.dp.noise import PureNoise
from privacy_engine.synthesizers.bayes.privbayes import PrivBayes
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.quantile_bins import largest, pending, share_of_all, with_quantile_bins
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.tables.domains import BinnedDomain, CodedTable

WIDE = {"kind": "numeric", "bounds": [0, 100_000_000]}
SCHEMA = DataSchema.from_dict({"income": WIDE, "sex": {"categories": ["f", "m"]}})


def people(rows: int, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    income = np.where(rng.random(rows) < 0.3, 0.0, rng.lognormal(10, 1, rows))
    return pd.DataFrame({"income": income, "sex": rng.choice(["f", "m"], rows)})


TABLE = people(3_000)


def paid(model: SynthesizerModel, method: Synthesizer) -> bool:
    """Whether the books say that the mechanisms spent no more than the claim, which was booked."""
    return all(
        f.passed for f in check_bookkeeping(model.loss, model.spends, SCHEMA, method.privacy_loss(SCHEMA))
    )


@pytest.mark.parametrize("name", ["latent_class", "privbayes", "privbayes_r", "dpsm_bayes"])
def test_bins_and_method_together_spend_no_more_than_the_claim(name: str) -> None:
    method = load_method(
        name, epsilon=2.0, **({"classes": 4, "fits": 1, "replicates": 0} if name == "latent_class" else {})
    )
    model = method.measure(TABLE, SCHEMA)
    grid, bins = model.spends[:2]
    assert {grid.target, bins.target} == {"income"}
    assert Fraction(grid.epsilon) + Fraction(bins.epsilon) == pytest.approx(2 * method.quantile_share)
    assert model.loss.epsilon == 2.0
    assert paid(model, method)


def test_a_share_that_is_not_subtracted_is_found_in_the_books() -> None:
    method = PrivBayes(epsilon=2.0)
    with patch.object(PrivBayes, "_spending", lambda self, part: self):  # the slip: the rest is the whole
        model = method.measure(TABLE, SCHEMA)
    assert not paid(model, method)


def test_bins_that_are_not_booked_are_missed() -> None:
    method = PrivBayes(epsilon=2.0)
    spent = sum(Fraction(s.epsilon or 0) for s in method.measure(TABLE, SCHEMA).spends)
    assert 2 * (1 - 1e-9) < spent <= 2  # all of it: a mechanism that is left out of the books leaves a gap


def test_the_claim_is_of_a_delta_if_there_is_one() -> None:
    method = load_method("latent_class", epsilon=2.0, delta=1e-9, classes=4, fits=1, replicates=0)
    model = method.measure(TABLE, SCHEMA)
    assert [s.mechanism for s in model.spends[:2]] == ["discrete_gaussian"] * 2
    assert paid(model, method)


def test_nothing_is_spent_where_bounds_are_not_wide() -> None:
    schema = DataSchema.from_dict({"income": {"kind": "numeric", "bounds": [0, 10_000]}})
    method = PrivBayes(epsilon=2.0)
    model = method.measure(TABLE[["income"]].clip(upper=10_000), schema)
    assert model.bins is None
    assert "quantile_share" not in model.parameters
    assert '"bins"' not in model.to_json()


def test_the_share_is_a_parameter_of_the_measurement() -> None:
    assert PrivBayes(quantile_share=0.2).measurement_parameters()["quantile_share"] == 0.2
    assert [share_of_all(0.3, 1), share_of_all(0.01, 3)] == [0.3, 0.03]
    with pytest.raises(ValueError, match=r"quantile_share must be in \(0, 1\)"):
        PrivBayes(quantile_share=1.0)


def test_a_stored_model_keeps_its_bins() -> None:
    method = PrivBayes(epsilon=2.0)
    model = method.measure(TABLE, SCHEMA)
    read = SynthesizerModel.from_json(model.to_json())
    assert read == model
    samples = [method.sample(m, SCHEMA, 50, np.random.default_rng(4)) for m in (model, read)]
    pd.testing.assert_frame_equal(*samples)


def test_a_model_of_equal_bins_from_before_is_still_read() -> None:
    linear = DataSchema.from_dict({"income": {**WIDE, "scale": "linear"}, "sex": {"categories": ["f", "m"]}})
    model = PrivBayes(epsilon=2.0).measure(TABLE, linear)  # as an earlier version measured it
    drawn = PrivBayes(epsilon=2.0).sample(model, SCHEMA, 50, np.random.default_rng(4))
    assert drawn["income"].between(0, 100_000_000).all()


def test_a_refusal_comes_before_any_noise_whatever_bins_would_be_chosen() -> None:
    method = PrivBayes(epsilon=2.0, degree=1, cell_limit=2 * 14)  # 12 bins and zero pass, 19 do not
    with (
        patch.object(PureNoise, "add", side_effect=AssertionError("noise was drawn")),
        pytest.raises(InfeasibleError, match="more than the cell limit"),
    ):
        method.measure(TABLE, SCHEMA)


def test_no_more_bins_are_chosen_than_the_method_accepted_in_advance() -> None:
    rng = np.random.default_rng(7)
    for into in (1, 2, 3, 12, 32):
        for low in (-1e8, 0.0):
            column = {"kind": "numeric", "bounds": [low, 1e8], "bins": into, "scale": "quantiles"}
            schema = DataSchema.from_dict({"x": column})
            table = pd.DataFrame(
                {"x": rng.choice([-1, 0, 1], 300, p=[0.4, 0.1, 0.5]) * rng.lognormal(9, 3, 300)}
            )
            fine = CodedTable.encode(table.clip(lower=low, upper=1e8), schema, fine=True)
            for epsilon in (0.01, 1.0, 100.0):
                coded, _ = with_quantile_bins(fine, PureNoise(epsilon), epsilon)
                assert coded.sizes[0] <= largest(fine).sizes[0]


def test_bins_depend_on_the_noise_only() -> None:
    """Other records with the same noisy counts give the same bins: nothing else is read."""
    seen = []
    for table in (TABLE, people(3_000, seed=2)):
        coded = CodedTable.encode(table, SCHEMA, fine=True)
        with patch.object(
            PureNoise, "_noisy", lambda self, counts, part, change: np.arange(len(counts))[::-1]
        ):
            seen.append(with_quantile_bins(coded, PureNoise(1.0), 1.0)[1])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("fields", [{}, {"scale": "log"}, {"scale": "log", "bins": 40}, {"bins": 20}])
def test_records_keep_their_place_in_the_chosen_bins(fields: dict[str, object]) -> None:
    schema = DataSchema.from_dict({"income": {**WIDE, **fields, "nullable": True}})
    table = TABLE[["income"]].assign(income=TABLE["income"].where(TABLE.index % 10 > 0))
    coded, bins = with_quantile_bins(CodedTable.encode(table, schema, fine=True), PureNoise(1.0), 1.0)
    (domain,) = coded.domains
    assert isinstance(domain, BinnedDomain)
    assert not pending(coded.domains)
    assert domain.edges.tolist() == list(bins["income"].edges)
    assert coded.codes[0].tolist() == domain.encode(table["income"]).tolist()
    assert sum(bins["income"].shares) == pytest.approx(1)


def test_zero_stays_zero_and_all_values_within_the_bounds() -> None:
    drawn = PrivBayes(epsilon=5.0).release(TABLE, SCHEMA, np.random.default_rng(0)).table["income"]
    assert (drawn == 0).mean() == pytest.approx((TABLE["income"] == 0).mean(), abs=0.05)
    assert drawn.between(0, 100_000_000).all()
    assert drawn[drawn > 0].median() == pytest.approx(TABLE["income"][TABLE["income"] > 0].median(), rel=0.2)


def test_few_records_and_little_budget_give_bins_too() -> None:
    for rows, epsilon in ((2, 0.01), (20, 1.0), (200, 100.0)):
        table = people(rows)
        drawn = PrivBayes(epsilon=epsilon).release(table, SCHEMA, np.random.default_rng(0)).table
        assert len(drawn) == rows
