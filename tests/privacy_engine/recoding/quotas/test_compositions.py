"""Quotas: what is found keeps its rules, by the judge, and is the smallest that brute force finds."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.recoding.grouping.constraints import (
    Rule,
    RuleKind,
    SensitiveTree,
    admits,
    bounds_distribution,
    pack_rules,
    shortfall,
)
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.recoding.quotas.compositions import MOST_KINDS, compose, kinds_of, least_sizes
from privacy_engine.tables.classes import EquivalenceClasses, SensitiveColumn
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    PrivacyModel,
    RecursiveCLDiversity,
    TCloseness,
    holds,
)

SCHEMA = DataSchema.from_dict(
    {"age": {"role": "quasi_identifier", "kind": "numeric"}, "disease": {"role": "sensitive"}}
)
TREE = SensitiveTree(  # ((0, 1), (2, 3))
    parent=np.array([4, 4, 5, 5, 6, 6, 6], np.int32), height=np.array([0, 0, 0, 0, 0.5, 0.5, 1.0])
)
MODELS: list[PrivacyModel] = [
    TCloseness(t=0.3),
    TCloseness(t=0.2, distance="ordered"),
    BetaLikeness(beta=1),
    BetaLikeness(beta=1, enhanced=True),
    DeltaDisclosure(delta=1),
    EntropyLDiversity(l=1.5),
    RecursiveCLDiversity(c=3, l=2),
    AlphaKAnonymity(alpha=0.8, k=2),
]
tables = st.lists(st.integers(1, 12), min_size=2, max_size=4)


def of_counts(counts: list[int]) -> EncodedTable:
    """A table with the given number of records of each disease, a, b, ..."""
    diseases = [name for name, count in zip("abcd", counts, strict=False) for _ in range(count)]
    return EncodedTable.encode(pd.DataFrame({"age": range(len(diseases)), "disease": diseases}), SCHEMA)


def one_class(quota: np.ndarray, encoded: EncodedTable) -> EquivalenceClasses:
    """A class of the given number of records of each value of the table."""
    prior = encoded.classes_of(np.zeros(len(encoded), np.int64)).counts("disease").prior
    column = SensitiveColumn(
        np.repeat(np.arange(len(quota)), quota).astype(np.int32), len(quota), None, prior
    )
    return EquivalenceClasses(labels=np.zeros(quota.sum(), np.int64), sensitive={"disease": column})


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
@given(counts=tables, size=st.integers(2, 12), data=st.data())
def test_a_composition_keeps_its_model_and_takes_no_more_than_there_is(
    model: PrivacyModel, counts: list[int], size: int, data: st.DataObject
) -> None:
    encoded = of_counts(counts)
    constraints, left = compile_constraints([model], encoded), np.array(counts)
    kinds, quota = kinds_of(encoded.sensitive, constraints), np.zeros(len(counts), np.int64)
    kind = data.draw(st.integers(0, len(counts) - 1))
    if len(kinds.places) < len(counts) or size > left.sum():
        return  # a rule of the single values alone knows no kinds
    if compose(left, size, kind, kinds.places, constraints, quota):
        assert quota.sum() == size
        assert quota[kind] >= 1
        assert (quota <= left).all()
        assert holds(model, one_class(quota, encoded))


@given(counts=st.lists(st.integers(2, 6), min_size=2, max_size=3), t=st.sampled_from([0.1, 0.2, 0.3]))
def test_the_least_size_for_equal_distance_is_that_of_brute_force(counts: list[int], t: float) -> None:
    encoded = of_counts(counts)
    constraints = compile_constraints([TCloseness(t=t)], encoded)
    kinds, left = kinds_of(encoded.sensitive, constraints), np.array(counts)
    found = least_sizes(left, 2, kinds.places, constraints)
    quotas = [np.array(q) for q in itertools.product(*(range(count + 1) for count in counts))]
    for kind in range(len(counts)):
        right = [
            int(q.sum())
            for q in quotas
            if q.sum() >= 2 and q[kind] and admits(q.astype(np.int32), int(q.sum()), constraints)
        ]
        assert min(right) <= found[kind] <= max(10, min(right))  # sizes above ten are tried in steps


@given(counts=st.lists(st.integers(0, 9), min_size=4, max_size=4))
@pytest.mark.parametrize("kind", [kind for kind in RuleKind if kind is not RuleKind.RECURSIVE])
def test_nothing_falls_short_exactly_where_the_rule_is_kept(kind: RuleKind, counts: list[int]) -> None:
    limit = {RuleKind.DISTINCT: 3, RuleKind.ENTROPY: 2.5, RuleKind.DELTA: 0.77}.get(kind, 0.37)
    constraints = pack_rules([Rule(kind=kind, limit=limit)], [np.array([5, 4, 3, 2])], [TREE])
    if sum(counts):
        short = shortfall(np.array(counts, np.int32), sum(counts), constraints)
        assert (short <= 0) == admits(np.array(counts, np.int32), sum(counts), constraints)


def test_only_models_of_shares_ask_for_quotas() -> None:
    encoded = of_counts([3, 3])
    requested = [bounds_distribution(compile_constraints([model], encoded)) for model in MODELS]
    assert requested == [True] * 7 + [False]
    assert not bounds_distribution(compile_constraints([DistinctLDiversity(l=2)], encoded))


def test_kinds_are_the_values_of_all_attributes_together() -> None:
    sensitive = np.array([[0, 0, 1, 1, 0], [2, 1, 0, 0, 2]], np.int32)
    rules = [Rule(kind=RuleKind.CLOSE_EQUAL, limit=0.1, attribute=a) for a in range(2)]
    kinds = kinds_of(sensitive, pack_rules(rules, [np.array([3, 2]), np.array([2, 1, 2])], [None, None]))
    assert kinds.exact
    assert kinds.of.tolist() == [1, 0, 2, 2, 1]
    assert kinds.places.tolist() == [[0, 3], [0, 4], [1, 2]]


def test_neighbouring_values_are_one_kind_where_there_are_very_many() -> None:
    sensitive = np.arange(1000, dtype=np.int32)[None, :]
    kinds = kinds_of(
        sensitive,
        pack_rules([Rule(kind=RuleKind.CLOSE_ORDERED, limit=0.1)], [np.ones(1000, np.int64)], [None]),
    )
    assert not kinds.exact
    assert len(kinds.places) <= MOST_KINDS
    assert (np.diff(kinds.of) >= 0).all()
