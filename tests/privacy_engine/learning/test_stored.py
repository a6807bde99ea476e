"""A stored model predicts, and learns on, as the one that was trained."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema
from privacy_engine.learning.ppnb import PrivateNaiveBayes
from privacy_engine.learning.stored import model_from_dict, model_to_dict
from privacy_engine.randomizers.errph import ERRPH
from privacy_engine.randomizers.local_laplace import LocalLaplace
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.randomizers.trr import TRR
from tests.privacy_engine.learning.tables import PUBLIC_CLASS, SCHEMA, people

METHODS = [ERRPH(p_0=0.8), TRR(a_variance=0.1), LocalLaplace(epsilon=30.0)]


def trained(method: Randomizer, schema: DataSchema) -> PrivateNaiveBayes:
    made = dataclasses.replace(method, randomness="seeded")
    release = made.release(people(20_000), schema, np.random.default_rng(8))
    model = PrivateNaiveBayes(release.manifest(), label="kind", alpha=0.5)
    return model.fit(release.table[["wage", "city"]], release.table["kind"])


def stored(model: PrivateNaiveBayes) -> PrivateNaiveBayes:
    return model_from_dict(json.loads(json.dumps(model_to_dict(model), allow_nan=False)))


def records() -> pd.DataFrame:
    return people(300, seed=5)[["wage", "city"]]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.key)
@pytest.mark.parametrize("schema", [SCHEMA, PUBLIC_CLASS], ids=["randomized class", "public class"])
def test_a_stored_model_predicts_the_very_same(method: Randomizer, schema: DataSchema) -> None:
    model = trained(method, schema)
    assert np.array_equal(stored(model).predict_proba(records()), model.predict_proba(records()))
    assert stored(model).predict(records()).tolist() == model.predict(records()).tolist()


def test_a_stored_model_learns_on() -> None:
    made = dataclasses.replace(METHODS[0], randomness="seeded")
    more = made.release(people(5000, seed=9), SCHEMA, np.random.default_rng(9)).table
    model = trained(METHODS[0], SCHEMA)
    again = stored(model).partial_fit(more[["wage", "city"]], more["kind"])
    assert np.array_equal(
        again.predict_proba(records()),
        model.partial_fit(more[["wage", "city"]], more["kind"]).predict_proba(records()),
    )


def test_a_model_that_was_stored_without_shrinkage_predicts_and_learns_on_without() -> None:
    model = trained(METHODS[0], SCHEMA)
    fields = model_to_dict(model)
    del fields["shrinkage"]
    for kept in fields["attributes"]:
        if "sums" in kept:  # of both scores, and of the first one's square
            kept["sums"] = [[row[0][1], row[0][2], row[1][1]] for row in kept["sums"]]
    old = model_from_dict(fields)
    model.set_params(shrinkage=False)
    assert np.array_equal(old.predict_proba(records()), model.predict_proba(records()))
    for learner in (old, model):
        learner.partial_fit(records(), people(300, seed=5)["kind"])
    assert np.array_equal(stored(old).predict_proba(records()), model.predict_proba(records()))


@pytest.mark.parametrize("part", ["label", "classes", "class_count", "unmix", "randomization", "attributes"])
def test_a_stored_model_that_lacks_a_part_is_refused(part: str) -> None:
    fields = model_to_dict(trained(METHODS[0], SCHEMA))
    del fields[part]
    with pytest.raises(ValueError, match="must have"):
        model_from_dict(fields)


@pytest.mark.parametrize("fields", [{}, {"model": "other"}, []], ids=str)
def test_what_is_no_model_is_refused(fields: object) -> None:
    with pytest.raises(ValueError, match="must be a mapping with `model: private_naive_bayes`"):
        model_from_dict(fields)  # type: ignore[arg-type]  # the very mistake
