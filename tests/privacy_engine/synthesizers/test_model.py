"""A measured model: stored as text, read back bit for bit, shown without a probability."""

import json

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, SynthesizerModel
from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.release import Release
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.bayes.dpsm_bayes import DPSMBayes
from privacy_engine.synthesizers.bayes.privbayes import PrivBayes
from privacy_engine.tables.domains import Storage

SCHEMA = DataSchema.from_dict({"rain": {"categories": ["no", "yes"]}, "wet": {"categories": [False, True]}})
HIDDEN = Node(attribute="season", table=np.array([0.1 + 0.2, 0.7]))  # .30000000000000004
RAIN = Node(attribute="rain", parents=("season",), table=np.array([[1.0, 0.0], [0.0, 1.0]]))
WET = Node(attribute="wet", parents=("rain",), table=np.array([[1.0, 0.0], [0.0, 1.0]]))


def model(**parts: object) -> SynthesizerModel:
    known: dict[str, object] = {
        "method": "privbayes",
        "parameters": {"epsilon": 0.5, "levels": {}},
        "network": BayesianNetwork(
            names=("season", "wet", "rain"), sizes=(2, 2, 2), nodes=(HIDDEN, RAIN, WET)
        ),
        "rows": 40,
        "spends": (
            Spend(mechanism="discrete_laplace", target="rain", epsilon=0.5, sensitivity=2, scale=4.0),
        ),
        "loss": PrivacyLoss(epsilon=0.5, neighbours=Neighbours.REPLACE_ONE),
        "storages": {"rain": Storage.TEXT, "wet": Storage.TRUTH},
    }
    return SynthesizerModel(**{**known, **parts})


def test_a_model_is_read_back_bit_for_bit() -> None:
    again = SynthesizerModel.from_json(model().to_json())
    assert again == model()
    assert again.network.nodes[0].table[0] == 0.1 + 0.2
    assert again.to_json() == model().to_json()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"method": "privbayes"}', "null"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no synthesizer's model"):
        SynthesizerModel.from_json(text)


def test_the_structure_names_the_parents_of_each_attribute_in_order() -> None:
    assert list(model().structure().items()) == [("season", []), ("rain", ["season"]), ("wet", ["rain"])]


def test_hidden_attributes_are_drawn_but_not_released() -> None:
    table = PrivBayes(epsilon=0.5).sample(model(), SCHEMA, 1000, np.random.default_rng(0))
    assert list(table.columns) == ["rain", "wet"]
    assert ((table["rain"] == "yes") == table["wet"]).all()
    # 300 expected, standard deviation 14.5: eight of them, 1e-15.
    assert 584 < table["wet"].sum() < 816


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA.select(["rain"]),
        DataSchema.from_dict({**SCHEMA.to_dict(), "more": {"categories": ["x"]}}),
        DataSchema.from_dict({**SCHEMA.to_dict(), "rain": {"categories": ["no", "yes", "?"]}}),
    ],
    ids=["one fewer", "one more", "another domain"],
)
def test_another_schema_is_refused(schema: DataSchema) -> None:
    with pytest.raises(ValueError, match="must be the one that the model was measured with"):
        PrivBayes(epsilon=0.5).sample(model(), schema, 10, np.random.default_rng(0))


def test_a_model_of_another_method_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of 'dpsm_bayes', got one of 'privbayes'"):
        DPSMBayes(epsilon=0.5).release_of(model(), SCHEMA, np.random.default_rng(0))


def test_a_manifest_tells_structure_and_mechanisms_of_a_model() -> None:
    release = PrivBayes(epsilon=0.5, rows=5).release_of(model(), SCHEMA, np.random.default_rng(0))
    manifest = release.manifest()
    assert manifest["model"] == {
        "network": {"season": [], "rain": ["season"], "wet": ["rain"]},
        "mechanisms": [model().spends[0].to_dict()],
        "source_rows": 40,
        "domains": "schema",
    }
    assert manifest["loss"] == {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}
    assert manifest["rows"] == 5
    assert "0.7" not in json.dumps(manifest)


def test_a_release_without_a_model_tells_none() -> None:
    release = Release(
        table=pd.DataFrame({"rain": ["no"], "wet": [True]}),
        schema=SCHEMA,
        method="mondrian",
        parameters={},
        guarantees=(),
    )
    assert "model" not in release.manifest()
