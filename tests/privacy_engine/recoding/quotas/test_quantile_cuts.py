"""Cuts by quotas: both sides keep every rule, counted by the judge, where a plain cut would have none."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import InfeasibleError, load_method
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.boxes import boxes_of
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.recoding.grouping.partitioning import mondrian
from privacy_engine.recoding.quotas.quantile_cuts import cut_by_quotas
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    DistinctLDiversity,
    KAnonymity,
    PrivacyModel,
    RecursiveCLDiversity,
    TCloseness,
    holds,
)
from tests.privacy_engine.recoding.quotas.test_search import SCHEMA, requested, table

PLAIN = DataSchema.from_dict(
    {"age": {"role": "quasi_identifier", "kind": "numeric"}, "ill": {"role": "sensitive"}}
)


def cut(encoded: EncodedTable, models: tuple[PrivacyModel, ...], k: int) -> np.ndarray:
    constraints = compile_constraints(models, encoded)
    codes = np.ascontiguousarray(encoded.codes, np.int32)
    return cut_by_quotas(codes, encoded.geometry(), k, encoded.sensitive, constraints)


def loss(encoded: EncodedTable, labels: np.ndarray) -> float:
    boxes = boxes_of(encoded.codes, labels, encoded.geometry())
    return float(boxes.size @ boxes.cost)


@requested
def test_classes_keep_k_and_the_models_and_lose_no_more_than_plain_cuts(
    models: tuple[PrivacyModel, ...],
) -> None:
    encoded = EncodedTable.encode(table(), SCHEMA)
    labels = cut(encoded, models, 4)
    assert labels.max() > 1
    assert all(holds(model, encoded.classes_of(labels)) for model in (KAnonymity(k=4), *models))
    constraints = compile_constraints(models, encoded)
    plain = mondrian(encoded.codes, encoded.geometry(), 4, encoded.sensitive, constraints)
    assert loss(encoded, labels) <= loss(encoded, plain) + 1e-9


def test_each_value_is_cut_at_its_own_quantile_where_no_plain_cut_stands() -> None:
    # The healthy are 0 .. 3, the ill 2 .. 5: a cut by age has an excess of one illness on either side.
    encoded = EncodedTable.encode(
        pd.DataFrame({"age": [0, 1, 2, 3, 2, 3, 4, 5], "ill": ["no"] * 4 + ["yes"] * 4}), PLAIN
    )
    models = (TCloseness(t=0.0),)
    constraints = compile_constraints(models, encoded)
    assert mondrian(encoded.codes, encoded.geometry(), 4, encoded.sensitive, constraints).max() == 0
    labels = cut(encoded, models, 4)
    sides = {frozenset(encoded.rows[labels == c].tolist()) for c in range(labels.max() + 1)}
    assert sides == {frozenset({0, 1, 4, 5}), frozenset({2, 3, 6, 7})}


def test_neighbouring_numbers_of_one_kind_are_counted_one_by_one() -> None:
    rng = np.random.default_rng(1)
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "wage": {"role": "sensitive", "kind": "numeric"},
        }
    )
    encoded = EncodedTable.encode(
        pd.DataFrame({"age": rng.integers(0, 90, 900), "wage": rng.permutation(900)}), schema
    )
    models = (TCloseness(t=0.1, distance="ordered"), DistinctLDiversity(l=9))
    labels = cut(encoded, models, 5)
    assert labels.max() > 10
    assert all(holds(model, encoded.classes_of(labels)) for model in models)


def test_what_the_whole_table_breaks_is_refused() -> None:
    encoded = EncodedTable.encode(pd.DataFrame({"age": range(9), "ill": ["no"] * 8 + ["yes"]}), PLAIN)
    with pytest.raises(InfeasibleError):
        cut(encoded, (RecursiveCLDiversity(c=0.5, l=2),), 2)


def test_cuts_under_k_and_l_alone_stay_the_plain_ones() -> None:
    encoded = EncodedTable.encode(table(), SCHEMA)
    models = (DistinctLDiversity(l=3, attribute="illness"),)
    release = load_method("mondrian", k=4, require=models).release(table(), SCHEMA, np.random.default_rng(1))
    constraints = compile_constraints(models, encoded)
    plain = mondrian(encoded.codes, encoded.geometry(), 4, encoded.sensitive, constraints)
    assert release.recoding is not None
    assert gcp(release.recoding) * len(encoded) == pytest.approx(loss(encoded, plain))
