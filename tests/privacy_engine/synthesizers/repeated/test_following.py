"""Releases of the same tables: what they spend, what they tell, and what is refused."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema
from privacy_engine.dp.accounting import check_bookkeeping
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.repeated import following
from privacy_engine.synthesizers.repeated.following import Measured, followed, opened, smoothed
from privacy_engine.synthesizers.repeated.views import NoisyCounts
from privacy_engine.tables.domains import CodedTable, with_equal_bins

SCHEMA = DataSchema.from_dict(
    {
        "age": {"kind": "numeric", "bounds": [0, 100], "bins": 10},
        "town": {"categories": ["n", "e", "s", "w"]},
        "region": {"categories": ["north", "south"]},
        "ill": {"categories": ["no", "yes"]},
    }
)
OPENING = LatentClass(epsilon=4.0, delta=1e-9, classes=4, fits=1, rules=1, replicates=2)
LATER = LatentClass(epsilon=0.5, delta=1e-9, classes=4, fits=1, rules=1, replicates=2)
ROWS = 4_000


def week(share: float, rows: int = ROWS) -> CodedTable:
    """People of whom that share is ill, the older the more."""
    rng = np.random.default_rng(5)
    age, town = rng.integers(0, 100, rows), rng.choice(list("nesw"), rows)
    ill = np.where(rng.random(rows) < share * age / 50, "yes", "no")
    region = np.where((town == "n") | (town == "e"), "north", "south")
    frame = pd.DataFrame({"age": age, "town": town, "region": region, "ill": ill})
    return CodedTable.encode(frame, SCHEMA)


def ill(model: SynthesizerModel) -> float:
    return float(model.network.marginal(["ill"])[1])


@pytest.fixture(scope="module")
def first() -> SynthesizerModel:
    return opened(OPENING, week(0.2))


@pytest.fixture(scope="module")
def second(first: SynthesizerModel) -> SynthesizerModel:
    return followed(LATER, week(0.2), first, [])


def test_each_release_spends_no_more_than_its_own_loss(
    first: SynthesizerModel, second: SynthesizerModel
) -> None:
    for model, method in ((first, OPENING), (second, LATER)):
        assert model.loss == method.privacy_loss(SCHEMA)
        assert sum(Fraction(spend.rho or 0) for spend in model.spends) <= Fraction(model.loss.rho or 0)
        assert all(
            finding.passed for finding in check_bookkeeping(model.loss, model.spends, SCHEMA, model.loss)
        )


def test_a_later_release_measures_the_tables_of_the_first_and_chooses_nothing(
    first: SynthesizerModel, second: SynthesizerModel
) -> None:
    assert {spend.mechanism for spend in second.spends} == {"discrete_gaussian"}
    measured = [spend.target for spend in first.spends if spend.mechanism == "discrete_gaussian"]
    assert [spend.target for spend in second.spends] == measured[-len(second.spends) :]
    assert second.structure() == first.structure()
    assert second.replicates is not None


def test_what_is_kept_survives_its_text(first: SynthesizerModel, second: SynthesizerModel) -> None:
    read = [SynthesizerModel.from_json(model.to_json()) for model in (first, second)]
    assert [model.to_json() for model in read] == [model.to_json() for model in (first, second)]
    third = followed(LATER, week(0.2), read[0], read[1:])
    assert abs(ill(third) - ill(first)) < 0.1


def test_many_noisy_releases_of_a_population_that_stays_average_out() -> None:
    """Twelve releases of one table: the last has less than a quarter of one release's variance."""
    rng = np.random.default_rng(3)
    releases = [
        Measured(
            rows=ROWS, known=(NoisyCounts(cells=1_000 + 50 * rng.standard_normal(30), variance=2_500.0),)
        )
        for _ in range(12)
    ]
    (reported,) = smoothed(releases)
    assert reported.variance < 2_500 / 4
    # The mean square of 30 cells is 3 times its expectation less than once in 1e8.
    assert ((reported.cells - 1_000) ** 2).mean() < 3 * 2_500 / 4


def test_a_number_of_records_that_changes_is_no_change_of_shares() -> None:
    cells = np.array([600.0, 400.0])
    releases = [
        Measured(rows=rows, known=(NoisyCounts(cells=cells * rows / 1_000, variance=100.0),))
        for rows in (1_000, 5_000, 2_000)
    ]
    (reported,) = smoothed(releases)
    assert reported.cells == pytest.approx(2 * cells)


def test_a_model_follows_what_changed(first: SynthesizerModel) -> None:
    later: list[SynthesizerModel] = []
    for _ in range(4):
        later.append(followed(LATER, week(0.8), first, later))
    truth = week(0.8).codes[3].mean()
    assert abs(ill(later[-1]) - truth) < abs(ill(first) - truth) / 2


def test_only_the_newest_releases_are_read(first: SynthesizerModel, second: SynthesizerModel) -> None:
    with patch.object(following, "MOST", 2), patch.object(following, "smoothed", wraps=smoothed) as read:
        followed(LATER, week(0.2), first, [second, second, second])
    ((releases,), _) = read.call_args
    assert len(releases) == 3


def test_a_first_release_of_another_kind_is_refused_before_anything_is_measured(
    first: SynthesizerModel, second: SynthesizerModel
) -> None:
    with pytest.raises(ValueError, match="later releases can follow"):
        followed(LATER, week(0.2), OPENING.measure_coded(week(0.2)), [])
    with pytest.raises(ValueError, match="later releases can follow"):
        followed(LATER, week(0.2), second, [])
    other = DataSchema.from_dict({**SCHEMA.to_dict(), "ill": {"categories": ["no", "yes", "maybe"]}})
    frame = pd.DataFrame({"age": [1.0] * 9, "town": ["n"] * 9, "region": ["north"] * 9, "ill": ["no"] * 9})
    with pytest.raises(ValueError, match="same attributes and values"):
        followed(LATER, CodedTable.encode(frame, other), first, [])


def test_quantile_bins_are_chosen_in_the_opening_and_cost_nothing_later() -> None:
    wide = DataSchema.from_dict(
        {"cost": {"kind": "numeric", "bounds": [0, 100_000_000]}, "ill": {"categories": ["no", "yes"]}}
    )

    def coded(seed: int) -> CodedTable:
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"cost": rng.lognormal(8, 1, 500), "ill": rng.choice(["no", "yes"], 500)})
        return CodedTable.encode(frame, wide, fine=True)

    opening = opened(OPENING, coded(1))
    later = followed(LATER, coded(2), SynthesizerModel.from_json(opening.to_json()), [])
    assert opening.bins is not None
    assert later.bins == {name: bins.fixed() for name, bins in opening.bins.items()}
    for model, method in ((opening, OPENING), (later, LATER)):
        loss = method.privacy_loss(wide)
        assert all(finding.passed for finding in check_bookkeeping(loss, model.spends, wide, loss))
        assert method.sample(model, wide, 20, np.random.default_rng(3))["cost"].between(0, 1e8).all()
    assert [s.target for s in opening.spends[:2]] == ["cost", "cost"]


def test_a_schedule_that_was_opened_with_equal_bins_continues_with_them() -> None:
    wide = DataSchema.from_dict(
        {"cost": {"kind": "numeric", "bounds": [0, 100_000_000]}, "ill": {"categories": ["no", "yes"]}}
    )
    frame = pd.DataFrame({"cost": np.geomspace(1, 1e8, 500), "ill": ["no", "yes"] * 250})
    coded = CodedTable.encode(frame, with_equal_bins(wide), fine=True)
    first = opened(OPENING, coded)  # as an earlier version measured it
    later = followed(LATER, coded, first, [])
    assert later.bins is None
    assert LATER.sample(later, wide, 20, np.random.default_rng(3))["cost"].between(0, 1e8).all()
