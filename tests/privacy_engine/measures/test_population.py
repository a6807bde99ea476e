"""Uniqueness in a population: against populations that are known, and by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import SchemaError
from privacy_engine.measures.population import people_in_population, pitman, zayatz
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role

SCHEMA = DataSchema((Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC),))


def test_zayatz_by_hand() -> None:
    # Of N = 4 two are drawn: h(1) = C(3, 1) / C(4, 2) = 1/2 of a class of one, h(2) = 2 * 2 / 6 = 2/3 of two.
    assert zayatz(np.array([1, 1]), 4) == pytest.approx(1.0)
    # Of N = 6 four are drawn: h(1) = 10 / 15, h(2) = 2 * 4 / 15; two classes of one, one of two.
    assert zayatz(np.array([1, 1, 2]), 6) == pytest.approx(2 * 10 / (2 * 10 + 8) * 2 / 4)
    assert zayatz(np.array([3, 2]), 100) == 0


@pytest.mark.parametrize("estimate", [zayatz, pitman])
def test_a_whole_population_that_is_the_sample_is_counted_or_nearly(estimate: object) -> None:
    rng = np.random.default_rng(1)
    population = rng.zipf(1.6, 20_000) % 5_000
    sizes = np.unique(population, return_counts=True)[1]
    unique = (sizes == 1).sum() / len(population)
    assert estimate(sizes, len(population)) == pytest.approx(unique, rel=0.25)  # type: ignore[operator]


def test_pitman_finds_the_uniqueness_of_a_population_of_the_models_kind() -> None:
    # A Chinese restaurant of alpha = .5, theta = 50 has Gamma(51) / Gamma(50.5) sqrt(N) unique people.
    rng, sizes = np.random.default_rng(2), [1]
    for n in range(1, 5_000):
        at = rng.random() * (n + 50) - (50 + 0.5 * len(sizes))
        if at < 0:
            sizes.append(1)
            continue
        ends = np.cumsum(np.array(sizes) - 0.5)
        sizes[int(np.searchsorted(ends, at))] += 1
    people = np.repeat(np.arange(len(sizes)), sizes)
    expected = math.exp(math.lgamma(51) - math.lgamma(50.5)) / math.sqrt(5_000)
    drawn = np.unique(rng.choice(people, 2_000, replace=False), return_counts=True)[1]
    assert (np.array(sizes) == 1).mean() > 0.3
    assert pitman(drawn, 5_000) == pytest.approx(expected, rel=0.2)


def test_no_one_and_everybody() -> None:
    assert pitman(np.array([10]), 100) == 0
    assert pitman(np.ones(10, np.int64), 100) == 1
    with pytest.raises(ValueError, match="population must be >= the 10 records"):
        pitman(np.ones(10, np.int64), 9)


def test_a_class_is_counted_in_a_population() -> None:
    release = pd.DataFrame({"age_from": [0, 0, 10], "age_to": [9, 9, 19]})
    population = pd.DataFrame({"age": [1, 2, 3, 9, 12, 40]})
    assert people_in_population(release, population, SCHEMA).tolist() == [4, 4, 1]
    with pytest.raises(SchemaError, match=r"quasi-identifiers \['age'\]"):
        people_in_population(release, population[[]], SCHEMA)
