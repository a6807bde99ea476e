"""Streams of releases: what all of them spend, what they go on from, and when a release stands."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema
from privacy_engine.continual import stream
from privacy_engine.continual.standing import Patience, Standing
from privacy_engine.continual.stored import from_bytes, to_bytes
from privacy_engine.continual.strategies import Kind, strategy
from privacy_engine.continual.stream import TableStream
from privacy_engine.dp.accounting import total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.latent.latent_class import LatentClass
from privacy_engine.measures.synthetic_utility import coded_marginal_tvd
from privacy_engine.tables.domains import CodedTable

SCHEMA = DataSchema.from_dict(
    {
        "age": {"kind": "numeric", "bounds": [0, 100], "bins": 10},
        "town": {"categories": ["n", "e", "s", "w"]},
        "ill": {"categories": ["no", "yes"]},
    }
)
GAUSSIAN = LatentClass(epsilon=4.0, delta=1e-9, classes=2, fits=1, rules=0)
PURE = LatentClass(epsilon=6.0, classes=2, fits=1, rules=0)
ROWS = 2_000
PEOPLE = np.arange(ROWS)


def week(ill: float, seed: int = 5) -> CodedTable:
    rng = np.random.default_rng(seed)
    age, towns = rng.integers(0, 100, ROWS), rng.choice(list("nesw"), ROWS)
    columns = {"age": age, "town": towns, "ill": np.where(rng.random(ROWS) < ill, "yes", "no")}
    return CodedTable.encode(pd.DataFrame(columns), SCHEMA)


@pytest.mark.parametrize("kind", Kind)
def test_all_releases_together_spend_no_more_than_the_promise(kind: Kind) -> None:
    rows = strategy(kind, 4, 1)
    state = TableStream.begun(GAUSSIAN, rows, week(0.2), PEOPLE)
    state = state.after(week(0.3), PEOPLE)
    model = state.model(GAUSSIAN, week(0.3))
    spent = sum((spend.exact_rho for spend in model.spends), Fraction(0))
    assert Fraction(0.999) * Fraction(model.loss.rho or 0) <= spent <= Fraction(model.loss.rho or 0)
    assert model.loss.rho == stream.rho_of_promise(GAUSSIAN)
    assert not any(spend.is_too_quiet for spend in model.spends)
    assert model.rows == ROWS


@pytest.mark.parametrize("changes", [None, 1])
def test_a_stream_goes_on_from_what_was_stored(changes: int | None) -> None:
    state = TableStream.begun(GAUSSIAN, strategy(Kind.EACH_WEEK, 3, changes), week(0.2), PEOPLE)
    again = from_bytes(to_bytes(state))
    assert isinstance(again, TableStream)
    assert to_bytes(again) == to_bytes(state)
    assert again.model(GAUSSIAN, week(0.2)).to_json() == state.model(GAUSSIAN, week(0.2)).to_json()
    other = again.after(week(0.9), PEOPLE).after(week(0.9), PEOPLE)
    assert other.number == 3
    with pytest.raises(ValueError, match="is for 3 releases"):
        other.after(week(0.9), PEOPLE)


def test_who_changed_often_enough_is_counted_as_before() -> None:
    state = TableStream.begun(GAUSSIAN, strategy(Kind.SQUARE_ROOT, 3, 0), week(0.2), PEOPLE)
    for table in state.after(week(0.9), PEOPLE).tables.exact:
        assert (table[0] == table[1]).all()


def test_a_release_stands_until_the_records_moved_and_measurements_are_left() -> None:
    state = Standing.begun(PURE, Patience(anew=1, tolerance=0.2), week(0.1))
    first = state.model(PURE, week(0.1))
    # The noise of an answer is of scale 4 s / e, 13 here: the misfit of records that did not move is some
    # 300, of those that did 3,200, each more than a thousand from the threshold, 1,600.
    quiet = state.after(PURE, week(0.1, seed=6))
    assert (quiet.number, quiet.since, quiet.is_new) == (2, 1, False)
    assert quiet.model(PURE, week(0.1)).to_json() == first.to_json()
    again = from_bytes(to_bytes(quiet))
    assert isinstance(again, Standing)
    assert to_bytes(again) == to_bytes(quiet)
    moved = again.after(PURE, week(0.9))
    assert (moved.since, moved.measured, moved.watch) == (3, 2, None)
    model = moved.model(PURE, week(0.9))
    spent = total(model.spends, Neighbours.REPLACE_ONE).epsilon
    assert 0.9 * PURE.epsilon <= spent <= PURE.epsilon
    assert not any(spend.is_too_quiet for spend in model.spends)
    stands = moved.after(PURE, week(0.1))  # all that was paid for is spent
    assert (stands.since, stands.number) == (3, 4)
    drawn = model.network.sample(ROWS, np.random.default_rng(1))[:3]
    released = replace(week(0.9), codes=drawn.astype(np.uint8))
    assert coded_marginal_tvd(week(0.9), released, 1).mean < 0.2


def test_what_a_stream_cannot_hold_is_refused() -> None:
    rows = strategy(Kind.SQUARE_ROOT, 3, 1)
    with pytest.raises(ValueError, match="who the records are of must be known"):
        TableStream.begun(GAUSSIAN, rows, week(0.2))
    with pytest.raises(ValueError, match="give a delta"):
        TableStream.begun(PURE, rows, week(0.2), PEOPLE)
    with pytest.raises(ValueError, match="leave delta out"):
        Standing.begun(GAUSSIAN, Patience(anew=1, tolerance=0.1), week(0.2))
    with pytest.raises(ValueError, match="take max_rows: 1"):
        TableStream.begun(GAUSSIAN, rows, replace(week(0.2), each=2), PEOPLE)
    with pytest.raises(ValueError, match="tolerance must be in"):
        Patience(anew=1, tolerance=0)
    with pytest.raises(ValueError, match="anew must be"):
        Patience(anew=0, tolerance=0.1)
    for wrong in (b"{}", b"[]", b"", b'{"tables":{},"people":null}'):
        with pytest.raises(ValueError, match=r"no state|Expecting"):
            from_bytes(wrong)
