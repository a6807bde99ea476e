"""Releases: a manifest of plain values without a record, and parameters that can be stored."""

import json
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import yaml

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.measures.recoding import Recoding
from privacy_engine.release import Release, parameters_of
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import KAnonymity, TCloseness
from privacy_engine.vocabulary import Intervals

SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric"},
        "disease": {"role": "sensitive"},
    }
)
TABLE = pd.DataFrame(
    {
        "name": ["canary A", "canary B", "canary C"],
        "age": [20, 30, 90],
        "disease": ["canary flu", "gout", "flu"],
    }
)


def release(**parts: object) -> Release:
    recoding = Recoding(EncodedTable.encode(TABLE, SCHEMA), np.array([0, 0, -1]))
    table, schema = recoding.render()
    known = {
        "method": "mondrian",
        "parameters": {"k": 2},
        "guarantees": (KAnonymity(k=2),),
        "recoding": recoding,
    }
    return Release(table=table, schema=schema, **{**known, **parts})


def test_a_manifest_says_what_was_done_and_what_is_guaranteed() -> None:
    assert release(notes={"distorted": 0.25}).manifest() == {
        "method": "mondrian",
        "parameters": {"k": 2},
        "guarantees": [{"model": "k_anonymity", "k": 2}],
        "loss": None,  # no claim, which is not a loss of zero
        "rows": 2,
        "suppressed": 1,
        "classes": 1,
        "columns": {
            "age_from": {"role": "quasi_identifier", "kind": "numeric"},
            "age_to": {"role": "quasi_identifier", "kind": "numeric"},
            "disease": {"role": "sensitive", "kind": "categorical"},
        },
        "notes": {"distorted": 0.25},
    }


def test_a_manifest_holds_no_cell_of_source_or_release() -> None:
    text = json.dumps(release(guarantees=(TCloseness(t=0.5, distance="ordered"),)).manifest())
    assert "canary" not in text
    assert "[20, 30]" not in text


def test_a_release_without_a_recoding_names_its_loss() -> None:
    loss = PrivacyLoss(epsilon=0.5, neighbours="add_remove")
    manifest = release(recoding=None, loss=loss, guarantees=()).manifest()
    assert manifest["loss"] == {"epsilon": 0.5, "delta": 0.0, "neighbours": "add_remove"}
    assert (manifest["classes"], manifest["suppressed"]) == (None, 0)


@dataclass(frozen=True, kw_only=True)
class Method:
    k: int = 5
    intervals: Intervals = Intervals.BOUNDS
    require: tuple[object, ...] = field(default=(TCloseness(t=0.5, distance="ordered"), KAnonymity(k=3)))
    utility: tuple[tuple[float, ...], ...] = ((0.5, 1.0),)


def test_parameters_of_a_method_are_plain_values_for_json_and_yaml() -> None:
    parameters = parameters_of(Method(k=np.int64(7)))
    assert parameters == {
        "k": 7,
        "intervals": "bounds",
        "require": [
            {"model": "t_closeness", "t": 0.5, "distance": "ordered"},
            {"model": "k_anonymity", "k": 3},
        ],
        "utility": [[0.5, 1.0]],
    }
    assert json.loads(json.dumps(parameters)) == yaml.safe_load(yaml.safe_dump(parameters)) == parameters
