"""Functional dependencies: sensitivities by brute force, what is found, kept, and left alone."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema
from privacy_engine.dp.accounting import total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.synthesizers.latent.dependencies import SCORE_SENSITIVITY, candidates, kept, score
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from tests.neighbours import neighbours

CODES = 20
SCHEMA = DataSchema.from_dict(
    {
        "code": {"categories": [f"c{i}" for i in range(CODES)]},
        "region": {"categories": [f"r{i}" for i in range(10)]},
        "country": {"categories": ["a", "b"]},
        "sex": {"categories": ["f", "m"]},
    }
)


def table(n: int = 6_000, exceptions: float = 0.0, seed: int = 1) -> pd.DataFrame:
    """Two codes a region and five regions a country, but for some of the records."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, CODES, n)
    region = np.where(rng.random(n) < exceptions, rng.integers(0, 10, n), code // 2)
    return pd.DataFrame(
        {
            "code": [f"c{i}" for i in code],
            "region": [f"r{i}" for i in region],
            "country": np.where(region < 5, "a", "b"),
            "sex": rng.choice(["f", "m"], n),
        }
    )


@pytest.mark.parametrize(("shape", "n"), [((2, 2), 5), ((3, 2), 4), ((2, 3), 4)])
def test_one_replaced_record_changes_what_is_kept_by_one_and_a_score_by_its_sensitivity(
    shape: tuple[int, int], n: int
) -> None:
    pairs = neighbours(shape, n)
    assert max(abs(kept(after) - kept(before)) for before, after in pairs) == 1
    assert max(abs(score(after, n) - score(before, n)) for before, after in pairs) <= SCORE_SENSITIVITY
    # It is reached: a record moves from the most frequent value to the exceptions, or back.
    larger = neighbours((2, 2), 6)
    assert max(abs(score(after, 6) - score(before, 6)) for before, after in larger) == SCORE_SENSITIVITY


def test_a_function_scores_higher_than_a_value_that_nearly_all_have() -> None:
    function = np.diag([30, 30, 40])
    constant = np.array([[30, 0, 0], [30, 0, 0], [39, 1, 0]])
    assert score(function, 100) == 60
    assert score(constant, 100) < 5


def test_only_attributes_of_many_values_determine_and_none_that_was_found() -> None:
    assert candidates([9, 9, 2, 8, 1], ()) == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3)]
    assert candidates([9, 9, 2, 8, 1], [0]) == [(1, 2), (1, 3)]
    assert candidates([300, 300], ()) == []  # of too many cells


def test_what_is_determined_is_kept_exactly_and_chains_are() -> None:
    # Each of two counts of exceptions would need noise of 20 scales to be too high: less than once in 1e8.
    method = LatentClass(epsilon=30, classes=8, fits=1, replicates=0)
    release = method.release(table(), SCHEMA, np.random.default_rng(1))
    drawn = release.table
    assert (drawn["region"].str[1:].astype(int) == drawn["code"].str[1:].astype(int) // 2).all()
    assert (drawn["country"] == np.where(drawn["region"].str[1:].astype(int) < 5, "a", "b")).all()
    parents = release.model.structure()
    assert parents["region"] != ["latent class"] or parents["code"] != ["latent class"]
    assert parents["country"] in (["code"], ["region"])
    assert parents["sex"] == ["latent class"]


@pytest.mark.quick("0.2")  # the nearer to a function
@pytest.mark.parametrize("exceptions", [0.2, 1.0])
def test_what_has_many_exceptions_is_left_to_the_model(exceptions: float) -> None:
    method = LatentClass(epsilon=3, classes=8, fits=1, replicates=0)
    model = method.measure(table(exceptions=exceptions), SCHEMA)
    parents = model.structure()
    assert parents["region"] == parents["code"] == ["latent class"]


@pytest.mark.quick("0.0-0.01", "1.0-0.3", "1.0-2.0", "0.0-50.0")
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("exceptions", [0.0, 1.0])
def test_spends_add_up_to_epsilon_whatever_was_found(epsilon: float, exceptions: float) -> None:
    method = LatentClass(epsilon=epsilon)
    spends = method.measured(method.coded(table(exceptions=exceptions), SCHEMA)).inputs.noise.spends
    spent = total(spends, Neighbours.REPLACE_ONE).epsilon
    assert spent <= epsilon
    assert spent == pytest.approx(epsilon, rel=1e-9)
    assert all(spend.epsilon_of_noise <= spend.epsilon for spend in spends)


def test_nothing_is_looked_for_where_the_budget_could_not_tell() -> None:
    for method, rows in (
        (LatentClass(epsilon=0.2), 300),
        (LatentClass(rules=0), 6_000),
    ):
        assert method.measured(method.coded(table(rows), SCHEMA)).found == ()


def test_all_rows_of_a_person_count() -> None:
    """Noise for a person who may bring four records, in the search, too."""
    people = table(2_000).assign(who=np.repeat(np.arange(500), 4))
    fields = {name: {"categories": list(SCHEMA[name].categories)} for name in SCHEMA.names}
    schema = DataSchema.from_dict({"who": {"role": "identifier"}, **fields, "person": "who"})
    method = LatentClass(epsilon=40, max_rows=4)
    spends = method.measured(method.coded(people, schema)).inputs.noise.spends
    search = next(s for s in spends if s.mechanism == "noisy_max")
    assert search.sensitivity == 4 * SCORE_SENSITIVITY
    tests = [s for s in spends if s.mechanism == "discrete_laplace" and s.sensitivity == 4]
    assert tests, "a count of exceptions changes by four where four records of one person are replaced"
