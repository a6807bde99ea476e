"""Bins of wide bounds: their edges, by bounds and numbers alone, and the values within them."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.domains import (
    BinnedDomain,
    Storage,
    coarse_scales,
    public_domain,
    scale_of,
)
from privacy_engine.tables.scales import SMALLEST, Scale, log_edges, positions, sides_of, values_at
from privacy_engine.tables.spread import Spread
from privacy_engine.vocabulary import Kind


def number(low: float, high: float, **fields: object) -> Attribute:
    return Attribute(name="x", kind=Kind.NUMERIC, bounds=(low, high), **fields)  # type: ignore[arg-type]


BOUNDS = [(0.0, 1e8), (-1e6, 1e8), (-1e8, -1.0), (-50.0, 0.0), (1.0, 1e4), (0.001, 50.0)]


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("whole", [False, True])
def test_bins_ascend_between_the_bounds_and_hold_every_value(
    bounds: tuple[float, float], *, whole: bool
) -> None:
    storage = Storage.WHOLE if whole else Storage.REAL
    domain = public_domain(number(*bounds, scale=Scale.LOG, bins=8), storage)
    assert isinstance(domain, BinnedDomain)
    assert (np.diff(domain.edges) > 0).all()
    rng = np.random.default_rng(1)
    values = domain.decode(rng.integers(domain.size, size=200), rng)
    assert values.between(*bounds).all()
    codes = rng.integers(domain.size, size=200)
    assert domain.encode(domain.decode(codes, rng)).tolist() == codes.tolist()


@pytest.mark.parametrize("bounds", BOUNDS)
def test_positions_have_an_inverse(bounds: tuple[float, float]) -> None:
    values = np.linspace(*bounds, 9)
    np.testing.assert_allclose(values_at(positions(values, bounds), bounds), values, rtol=1e-9, atol=1e-9)
    assert (np.diff(positions(values, bounds)) > 0).all()


@pytest.mark.parametrize(
    ("bounds", "storage"), [((-10.0, 10.0), Storage.REAL), ((-10.0, 10.0), Storage.WHOLE)]
)
def test_zero_has_a_bin_that_no_other_value_is_in(bounds: tuple[float, float], storage: Storage) -> None:
    domain = public_domain(number(*bounds, scale=Scale.LOG, bins=4), storage)
    near = [-1, 0, 1] if storage is Storage.WHOLE else [-1e-300, 0.0, 1e-300]
    codes = domain.encode(pd.Series(near))
    assert len(set(codes.tolist())) == 3
    zeros = domain.decode(np.full(5, codes[1]), np.random.default_rng(0))
    assert zeros.eq(0).all()


def test_wide_bounds_follow_from_bounds_and_number_of_bins_alone() -> None:
    assert scale_of(number(0, 1e8)) is Scale.QUANTILES
    assert scale_of(number(0, 99_999)) is Scale.LINEAR
    assert scale_of(number(0, 99_999, bins=2)) is Scale.LINEAR
    assert scale_of(number(0, 1e8, bins=8_192)) is Scale.QUANTILES
    assert scale_of(number(0, 1e8, bins=20_000)) is Scale.LINEAR
    assert scale_of(number(0, 1e8, scale=Scale.LINEAR)) is Scale.LINEAR
    assert scale_of(number(1.6e9, 1.7e9)) is Scale.LINEAR  # times: far from 0, but not wide


def test_bounds_that_are_not_wide_keep_equal_bins() -> None:
    domain = public_domain(number(0, 160), Storage.REAL, fine=True)
    assert isinstance(domain, BinnedDomain)
    assert domain.edges.tolist() == np.linspace(0, 160, 17).tolist()
    assert (domain.bounds, domain.into) == (None, None)


def test_a_scale_requires_a_number_with_bounds() -> None:
    with pytest.raises(SchemaError, match="scale requires bounds"):
        Attribute(name="x", kind=Kind.NUMERIC, scale=Scale.LOG)
    with pytest.raises(SchemaError, match="scale must be one of"):
        DataSchema.from_dict({"x": {"kind": "numeric", "bounds": [0, 1], "scale": "cubic"}})
    fields = {"x": {"kind": "numeric", "bounds": [0, 1], "scale": "log"}}
    schema = DataSchema.from_dict(fields)
    assert DataSchema.from_dict(schema.to_dict()) == schema


def test_coarse_bins_are_warned_of_without_records() -> None:
    fields = {"x": {"kind": "numeric", "bounds": [0, 1e8]}}
    assert coarse_scales(DataSchema.from_dict(fields)) == []
    assert (
        "scale: quantiles"
        in coarse_scales(DataSchema.from_dict({"x": {**fields["x"], "scale": "linear"}}))[0]
    )
    (text,) = coarse_scales(DataSchema.from_dict({"x": {**fields["x"], "scale": "log", "bins": 3}}))
    assert "spans a factor of 464" in text
    (text,) = coarse_scales(DataSchema.from_dict(fields), linear=True)
    assert text.endswith("Narrow the bounds")


def pareto(places: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return 1 - np.maximum(places, 1.0) ** -3


def test_the_tail_of_a_pareto_distribution_goes_on_beyond_the_last_edge() -> None:
    edges = np.array([1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 1e6])
    spread = Spread.of(edges, (1.0, 1e6), np.diff(pareto(edges)))
    drawn = (np.arange(2000) + 0.5) / 2000
    tail = spread.values(np.full(2000, 5), drawn)
    assert np.median(tail) == pytest.approx(3 * 2 ** (1 / 3), rel=0.02)
    assert tail.mean() == pytest.approx(4.5, rel=0.02)


def test_values_follow_the_shares_that_are_known_better_than_those_drawn() -> None:
    edges = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    drawn, shares = np.array([0.4, 0.1, 0.4, 0.1]), np.array([0.25, 0.25, 0.25, 0.25])
    spread = Spread.of(edges, (1.0, 16.0), drawn, shares)
    rng = np.random.default_rng(3)
    values = spread.values(rng.choice(4, 20_000, p=drawn), rng.random(20_000))
    np.testing.assert_allclose(np.histogram(values, edges)[0] / 20_000, shares, atol=0.02)


def test_edges_of_a_spread_lie_where_its_values_change_bins() -> None:
    edges = np.array([-9.0, -1.0, 0.0, SMALLEST, 5.0, 40.0])
    spread = Spread.of(edges, (-9.0, 40.0), np.full(5, 0.2))
    np.testing.assert_allclose(spread.edges(edges), [-9, -1, 0, 0, 5, 40], atol=1e-9)
    assert spread.means()[2] == 0
    assert sides_of(edges) == [slice(0, 2), slice(3, 5)]


def test_whole_numbers_close_together_share_no_bin_edge() -> None:
    assert log_edges((1.0, 6.0), 16, whole=True).tolist() == [1, 2, 3, 4, 5, 6]
