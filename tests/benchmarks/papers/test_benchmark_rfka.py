"""The RFKA benchmark on a few hundred generated records: that it runs, and that it judges by the numbers."""

import numpy as np
import pytest

from benchmarks.papers import rfka
from benchmarks.timing import Timing
from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_engine import EncodedTable
from privacy_engine.recoding.features.features import value_features


@pytest.fixture(scope="module")
def encoded() -> EncodedTable:
    data = rfka.adult_data(synthetic_adult(900, rng=np.random.default_rng(1)), 250)
    return rfka.drawn(data, 250, seed=1)


def test_records_are_drawn_at_the_ratio_of_the_classes(encoded: EncodedTable) -> None:
    frame = synthetic_adult(900, rng=np.random.default_rng(1)).dropna()
    share = (frame["salary-class"] == ">50K").mean()
    assert abs(len(encoded) - 250) <= 1
    assert (encoded.table["salary-class"] == ">50K").mean() == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("by_gain", [True, False])
def test_chosen_columns_are_k_anonymous_where_they_were_chosen(encoded: EncodedTable, by_gain: bool) -> None:
    part = encoded.take(np.arange(0, len(encoded), 2))
    features = value_features(part, 5, generalize=False)
    worth = np.random.default_rng(2).random(len(features))
    columns = rfka.Choice(features=features, worth=worth, by_gain=by_gain).columns(part, 6)
    assert np.unique(columns(part), axis=0, return_counts=True)[1].min() >= 6
    assert columns(encoded).shape == (len(encoded), columns(part).shape[1])


@pytest.mark.slow  # it trains every classifier
def test_curves_have_every_protocol_classifier_method_and_k_and_start_alike(encoded: EncodedTable) -> None:
    curves = rfka.curves(encoded, (1, 5), trees=10, seed=1)
    assert set(curves) == {f"{p}, {c}" for p in (rfka.PAPER, rfka.CLEAN) for c in rfka.CLASSIFIERS}
    for methods in curves.values():
        assert len(methods) == 4
        assert len({round(by_k[1], 9) for by_k in methods.values()}) == 1  # no protection, no difference
        assert all(0 <= auc <= 1 for by_k in methods.values() for auc in by_k.values())


@pytest.mark.slow  # it measures every way
def test_times_are_measured_of_every_way_to_the_same_features(encoded: EncodedTable) -> None:
    taken = rfka.seconds(encoded, (1, 5), trees=5, repeats=1)
    assert {name: list(by_k) for name, by_k in taken.items()} == {rfka.RFKA_: [5], rfka.HAMDIST: [5]}
    assert rfka.all_pairs_seconds(encoded) > 0
    assert min(rfka.importance_seconds(encoded, trees=5, repeats=1)) > 0


def test_no_constant_column_stands_with_the_chosen_ones(encoded: EncodedTable) -> None:
    features = value_features(encoded, 5, generalize=False)
    worth = np.random.default_rng(2).random(len(features))
    columns = rfka.Choice(features=features, worth=worth).columns(encoded, 6)(encoded)
    assert (columns.min(axis=0) < columns.max(axis=0)).all()
    nothing = rfka.Choice(features=features, worth=worth).columns(encoded, len(encoded) + 1)(encoded)
    assert (nothing == 0).all()
    assert nothing.shape == (len(encoded), 1)


@pytest.mark.parametrize(
    ("ours", "word"),
    [
        ([0.71, 0.72, 0.71, 0.72, 0.71], "Ahead"),
        ([0.71, 0.69, 0.71, 0.69, 0.7], "Tied"),
        ([0.69, 0.68, 0.69, 0.68, 0.69], "Behind"),
        ([0.71, 0.72, 0.71, 0.72], "Undecided"),
    ],
)
def test_a_lead_is_judged_by_its_interval_over_the_seeds(ours: list[float], word: str) -> None:
    theirs = [0.7] * len(ours)
    auc = {rfka.RFKA_: {1: theirs, 5: ours}, rfka.HAMDIST: {1: theirs, 5: theirs}}
    judged = rfka.auc_verdict("Adult", auc, (1, 5), method=rfka.RFKA_)
    assert judged.startswith(f"- **{word}**")
    assert f"({word.lower()} at 5; leads" in judged


@pytest.mark.parametrize(("gain", "word"), [(0.002, "Ahead"), (0.0, "Tied"), (-0.002, "Behind")])
def test_weights_are_judged_by_what_they_add_to_the_svm(gain: float, word: str) -> None:
    plain = [0.7, 0.71, 0.72, 0.73, 0.74]
    auc = {
        f"{rfka.CLEAN}, {rfka.WEIGHTED}": {rfka.RFKA_: {1: plain, 5: [p + gain for p in plain], 9: plain}},
        f"{rfka.CLEAN}, {rfka.SVM}": {rfka.RFKA_: {1: plain, 5: plain, 9: plain}},
    }
    judged = rfka.weights_verdict("Adult", auc, (1, 5, 9), rfka.CLEAN)
    assert judged.startswith(f"- **{word}**")


def test_a_slower_forest_is_said_to_be_slower() -> None:
    taken = {rfka.RFKA_: {5: Timing((2.0,), (2.0,))}, rfka.HAMDIST: {5: Timing((0.1,), (0.1,))}}
    judged = rfka.time_verdicts("Adult", taken, 1.0, 0.1, 5.0)
    assert ["**Holds**" in line for line in judged] == [False, False, True, True]
