"""Uniqueness by a Gaussian copula: against populations in which it is known, and by hand."""

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from privacy_engine.errors import SchemaError
from privacy_engine.measures.copula import GaussianCopula
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role


def numbers(names: str) -> DataSchema:
    return DataSchema(tuple(Attribute(name=c, role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC) for c in names))


def population(people: int, correlations: list[list[float]], values: int, seed: int) -> pd.DataFrame:
    """Cut normal variables, with the correlations given."""
    rng = np.random.default_rng(seed)
    normal = rng.multivariate_normal(np.zeros(len(correlations)), correlations, people)
    cut = (stats.norm.cdf(normal) ** 2 * values).astype(int)  # low values are more frequent
    return pd.DataFrame(cut, columns=list("xyzw"[: len(correlations)]))


def share_of_unique(table: pd.DataFrame) -> float:
    return float((table.groupby(list(table.columns)).size() == 1).sum() / len(table))


def test_of_one_attribute_the_mass_of_a_record_is_its_frequency() -> None:
    sample = pd.DataFrame({"x": [5, 5, 5, 9]})
    model = GaussianCopula.of(sample, numbers("x"))
    assert model.probabilities(model.codes) == pytest.approx([0.75, 0.75, 0.75, 0.25])
    # (1 - .75)^3 and (1 - .25)^3
    assert model.likelihoods(4) == pytest.approx([0.015625] * 3 + [0.421875])


def test_the_uniqueness_of_equally_frequent_values_is_exact() -> None:
    model = GaussianCopula.of(pd.DataFrame({"x": range(200)}), numbers("x"))
    # Each drawn value has the mass 1/200, whatever is drawn.
    assert model.uniqueness(300, np.random.default_rng(1)) == pytest.approx((1 - 1 / 200) ** 299, rel=1e-9)


def test_the_masses_of_all_records_add_up_to_one() -> None:
    correlations = [[1, 0.7, -0.5], [0.7, 1, 0], [-0.5, 0, 1]]
    sample = population(3_000, correlations, 5, 1)
    model = GaussianCopula.of(sample, numbers("xyz"))
    every = np.stack(np.meshgrid(*(np.arange(len(e) - 1) for e in model.ends)), axis=-1).reshape(-1, 3)
    assert model.probabilities(every).sum() == pytest.approx(1, abs=0.01)


def test_correlations_are_found_with_their_signs() -> None:
    correlations = [[1, 0.7, -0.5], [0.7, 1, 0], [-0.5, 0, 1]]
    model = GaussianCopula.of(population(20_000, correlations, 12, 2), numbers("xyz"))
    # Of 20,000 pairs a correlation is off by .007 in the standard error, and by .03 through the cuts at most.
    # A correlation of 0 comes back as one whose information is what chance leaves: sqrt(2 * .0005) = .03.
    assert model.correlations == pytest.approx(np.array(correlations), abs=0.07)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_uniqueness_of_a_population_of_the_models_kind_is_found(share: float) -> None:
    everybody = population(20_000, [[1, 0.6, 0.3], [0.6, 1, 0], [0.3, 0, 1]], 40, 3)
    sample = everybody.sample(frac=share, random_state=4)
    model = GaussianCopula.of(sample, numbers("xyz"))
    true = share_of_unique(everybody)
    assert 0.1 < true < 0.6
    # Five standard errors of 2,000 draws are .056 at most; at the smallest sample values are missing.
    assert model.uniqueness(20_000, np.random.default_rng(5)) == pytest.approx(true, abs=0.06)


@pytest.mark.skipif("PRIVACY_DATA" not in os.environ, reason="needs the folder PRIVACY_DATA")
@pytest.mark.quick("0.05")  # the harder one
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_the_uniqueness_of_adult_is_found_from_samples_of_it(share: float) -> None:
    from benchmarks.tables import adult

    table = adult()
    schema, everybody = table.schema, table.frame
    names = [a.name for a in schema.quasi_identifiers]
    sample = everybody.sample(frac=share, random_state=8)
    for some in (names, names[:4]):
        model = GaussianCopula.of(sample, schema.select(some))
        found = model.uniqueness(len(everybody), np.random.default_rng(9))
        # A mean of 2,000 likelihoods is off by .011 in the standard error at most; the rest is the model.
        assert found == pytest.approx(share_of_unique(everybody[some]), abs=0.04)


def test_likelihoods_tell_who_is_unique_better_than_the_share_does() -> None:
    everybody = population(20_000, [[1, 0.6, 0.3], [0.6, 1, 0], [0.3, 0, 1]], 40, 6)
    sample = everybody.sample(1_000, random_state=7)
    sizes = everybody.groupby(list(everybody.columns))["x"].transform("size")
    unique = (sizes == 1).loc[sample.index].to_numpy()
    likely = GaussianCopula.of(sample, numbers("xyz")).likelihoods(20_000)
    assert np.mean((likely - unique) ** 2) < 0.75 * unique.mean() * (1 - unique.mean())


def test_nulls_and_values_without_an_order_are_records_too() -> None:
    schema = DataSchema(
        (
            Attribute(name="job", role=Role.QUASI_IDENTIFIER, nullable=True),
            Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, nullable=True),
        )
    )
    sample = pd.DataFrame({"job": ["a", "a", None, "b"], "age": [1.0, None, 2.0, 2.0]})
    found = GaussianCopula.of(sample, schema).likelihoods(10)
    assert ((found > 0) & (found < 1)).all()


def test_wrong_samples_are_refused() -> None:
    sample = pd.DataFrame({"x": [1, 2]})
    with pytest.raises(SchemaError, match=r"must have the quasi-identifiers \['y'\]"):
        GaussianCopula.of(sample, numbers("xy"))
    with pytest.raises(SchemaError, match="a record and a quasi-identifier"):
        GaussianCopula.of(sample[:0], numbers("x"))
    no_quasi = DataSchema(tuple(replace(a, role=Role.INSENSITIVE) for a in numbers("x").attributes))
    with pytest.raises(SchemaError, match="a record and a quasi-identifier"):
        GaussianCopula.of(sample, no_quasi)
    with pytest.raises(ValueError, match="population must be >= the 2 records"):
        GaussianCopula.of(sample, numbers("x")).likelihoods(1)
