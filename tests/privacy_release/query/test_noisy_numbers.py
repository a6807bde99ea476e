"""Intervals of releases by persons have a noisy number of records: all that rests on it says so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privacy_engine.registry import load_method
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.tables.schema import DataSchema
from privacy_release.lake.replicates import replicates_file
from privacy_release.query.intervals import Cell, PublishedModel
from privacy_release.query.questions import Question, question_from
from privacy_release.query.rules import QueryError

SCHEMA = DataSchema.from_dict(
    {
        "patient": {"role": "identifier"},
        "town": {"role": "insensitive", "categories": ["north", "south", "west", "east"]},
        "age": {"role": "insensitive", "kind": "numeric", "bounds": [0, 9]},
        "person": "patient",
    }
)
NAMES = ("north", "south", "west", "east")
TOWNS = (240, 120, 39, 1)  # records of each, two a person


@pytest.fixture(scope="module")
def model() -> SynthesizerModel:
    """Of 200 persons who take part, with two of at most two records each."""
    town = np.repeat(NAMES, TOWNS)
    frame = pd.DataFrame({"patient": np.repeat(np.arange(200), 2), "town": town, "age": np.arange(400) % 5})
    method = load_method("latent_class", epsilon=40.0, max_rows=2, classes=3, fits=1, replicates=4)
    rows = method.coded_participants(frame, SCHEMA, np.ones(400, dtype=bool))
    measured: SynthesizerModel = method.measure_participants(rows)
    return measured


def answers(model: SynthesizerModel, question: Question) -> dict[tuple[object, ...], Cell]:
    data = replicates_file(model, SCHEMA)
    assert data is not None
    return {group: cells[0] for group, cells in PublishedModel.read(data).answer(question, 0.95)}


def released(model: SynthesizerModel, rows: int) -> SynthesizerModel:
    """The model as if the noise in the number, of scale 20, had been another."""
    spends = [replace(s, scale=20.0) if s.target == "number of rows" else s for s in model.spends]
    return replace(model, rows=rows, spends=tuple(spends))


def test_the_number_of_all_records_has_the_interval_of_its_noise(model: SynthesizerModel) -> None:
    [cell] = answers(released(model, 330), question_from("count", None, (), None)).values()
    number = released(model, 330).noisy_number
    assert number is not None
    assert (cell.value, (cell.low, cell.high)) == (350.0, number.interval(0.95))
    assert cell.low < 330 < 400 < cell.high


def test_every_count_holds_the_noise_in_the_number(model: SynthesizerModel) -> None:
    for rows in (330, 430):  # records were left out, and such as fill up were put in
        found = answers(released(model, rows), question_from("count", None, "town", None))
        for town, true in zip(NAMES, TOWNS, strict=True):
            assert found[(town,)].low <= true <= found[(town,)].high, (rows, town)
        assert found[("north",)].high - found[("north",)].low > 50


def test_shares_and_means_hold_what_fills_up(model: SynthesizerModel) -> None:
    one, two = (
        answers(released(model, rows), question_from("share", None, "town", None)) for rows in (330, 430)
    )
    narrow = answers(replace(model, persons=None), question_from("share", None, "town", None))
    for town in NAMES:
        for found in (one, two):
            assert found[(town,)].low <= narrow[(town,)].low <= narrow[(town,)].high <= found[(town,)].high
    [mean] = answers(released(model, 430), question_from("mean", "age", (), None)).values()
    assert mean.value is not None
    assert 0 <= mean.low < mean.value < mean.high <= 9


def test_a_public_number_stays_exact(model: SynthesizerModel) -> None:
    [cell] = answers(replace(model, spends=(), rows=330), question_from("count", None, (), None)).values()
    assert cell == Cell(330.0, 330.0, 330.0)


def test_the_mean_of_a_number_in_quantile_bins_is_not_that_of_the_middles_of_bins() -> None:
    schema = DataSchema.from_dict(
        {"pay": {"kind": "numeric", "bounds": [0, 100_000_000]}, "town": {"categories": ["n", "s"]}}
    )
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"pay": rng.lognormal(10, 1, 2_000), "town": rng.choice(["n", "s"], 2_000)})
    measured = load_method("latent_class", epsilon=60.0, classes=2, fits=1, replicates=3).measure(
        frame, schema
    )
    data = replicates_file(measured, schema)
    assert data is not None
    [(_, [cell])] = PublishedModel.read(data).answer(question_from("mean", "pay", (), None), 0.95)
    assert cell.value == pytest.approx(frame["pay"].mean(), rel=0.1)
    published = PublishedModel.read(data)
    assert published.values["pay"]["high"].max() == 100_000_000
    filling = published.filling["pay"]  # uniform on the grid, of which the tails have most bins
    assert sum(filling) == pytest.approx(1)
    assert max(filling[1], filling[-1]) > 10 * min(filling)


def test_a_large_attribute_that_is_drawn_last_has_no_intervals_and_others_have() -> None:
    rng = np.random.default_rng(1)
    code = rng.integers(0, 120, 3_000)
    frame = pd.DataFrame({"code": code, "area": code % 5, "sex": code % 5 % 2}).astype(str)
    sizes = {"code": 120, "area": 5, "sex": 2}
    schema = DataSchema.from_dict(
        {name: {"categories": [str(v) for v in range(size)]} for name, size in sizes.items()}
    )
    method = load_method("latent_class", epsilon=5.0, classes=4, fits=1, replicates=2)
    data = replicates_file(method.measure(frame, schema), schema)
    assert data is not None
    published = PublishedModel.read(data)
    [(_, (found,))] = published.answer(
        question_from("count", None, (), {"area": "3", "sex": "1"}), level=0.95
    )
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(600, abs=150)
    with pytest.raises(
        QueryError, match="code must be a column of the release with intervals, one of area, sex"
    ):
        published.answer(question_from("count", None, (), {"code": "3"}), level=0.95)
