"""Records drawn from a model part by part: those of one draw, and no more than a part in memory."""

import tracemalloc
from functools import cache

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, load_method
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.synthesizer import PART

SCHEMA = DataSchema.from_dict(
    {
        "age": {"kind": "numeric", "bounds": [17, 90]},
        "income": {"kind": "numeric", "bounds": [0.0, 1.0], "nullable": True},
        "town": {"categories": ["north", "south"], "nullable": True},
        "ill": {"categories": [True, False]},
    }
)
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(17, 91, 400),
        "income": np.where(RNG.random(400) < 0.2, np.nan, RNG.random(400)),
        "town": RNG.choice(["north", "south", None], 400),
        "ill": RNG.random(400) < 0.3,
    }
)
METHOD = load_method("latent_class", classes=3, fits=1, replicates=2)


@cache
def model() -> SynthesizerModel:
    """A model for reading only, which collecting the tests need not fit."""
    return METHOD.measure(TABLE, SCHEMA)


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize(
    ("rows", "size", "lengths"),
    [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 4, [3]), (0, 4, [0]), (3, 1, [1, 1, 1])],
)
def test_parts_are_as_large_as_asked_for(rows: int, size: int, lengths: list[int]) -> None:
    parts = list(METHOD.sample_parts(model(), SCHEMA, rows, rng(), size))
    assert [len(part) for part in parts] == lengths
    text = str(pd.Series(["a"], dtype="str").dtype)  # pandas 2 has objects for it
    assert {tuple(map(str, part.dtypes)) for part in parts} == {("int64", "float64", text, "bool")}


def test_the_parts_joined_are_what_one_draw_gives() -> None:
    rows = PART + 1000
    joined = pd.concat(list(METHOD.sample_parts(model(), SCHEMA, rows, rng())), ignore_index=True)
    pd.testing.assert_frame_equal(METHOD.sample(model(), SCHEMA, rows, rng()), joined)


def test_every_part_follows_the_model() -> None:
    shares = [
        (part["town"] == "north").mean()
        for part in METHOD.sample_parts(model(), SCHEMA, 60_000, rng(), 20_000)
    ]
    expected = model().network.marginal(["town"])[0]
    # Standard deviation .0035 at most: seven of them; 3e-12 for each of three parts.
    assert np.abs(np.array(shares) - expected).max() < 0.025


def test_one_part_is_in_memory_at_a_time() -> None:
    fitted = model()

    def peak(rows: int) -> int:
        tracemalloc.start()
        for part in METHOD.sample_parts(fitted, SCHEMA, rows, rng(), 20_000):
            assert len(part) == 20_000
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    once = peak(20_000)
    assert peak(120_000) < 3 * once


@pytest.mark.parametrize(
    ("schema", "size", "message"),
    [
        (SCHEMA.select(["age", "ill"]), 10, "other attributes"),
        (DataSchema.from_dict(SCHEMA.to_dict() | {"ill": {"categories": [True]}}), 10, "other domains"),
        (SCHEMA, 0, "size must be a whole number >= 1"),
    ],
)
def test_what_cannot_be_sampled_is_refused_before_the_first_part(
    schema: DataSchema, size: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        METHOD.sample_parts(model(), schema, 10, rng(), size)
