"""The search under quotas: classes keep k and all rules at every step, and no step loses more."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import load_method
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.boxes import boxes_of, tabulate
from privacy_engine.recoding.grouping.constraints import class_counts
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.recoding.grouping.refinement import look_up_serially
from privacy_engine.recoding.grouping.repair import merge_until_kept
from privacy_engine.recoding.quotas.box_steps import step_boxes
from privacy_engine.recoding.quotas.compositions import kinds_of
from privacy_engine.recoding.quotas.growth import grow_classes
from privacy_engine.recoding.quotas.search import QuotaSearch
from privacy_engine.tables.classes import SensitiveValues
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    PrivacyModel,
    RecursiveCLDiversity,
    TCloseness,
    holds,
)

ILLNESSES = Hierarchy(
    (
        ("asthma", "airways", "*"),
        ("cough", "airways", "*"),
        ("flu", "airways", "*"),
        ("gout", "bones", "*"),
        ("ulcer", "stomach", "*"),
    )
)
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "zip": {"role": "quasi_identifier", "categories": list("abcdefgh")},
        "illness": {"role": "sensitive", "hierarchy": "illnesses"},
        "salary": {"role": "sensitive", "kind": "numeric", "bounds": [0, 20]},
    },
    {"illnesses": ILLNESSES},
)
ASKED: dict[str, tuple[PrivacyModel, ...]] = {
    "t": (TCloseness(t=0.2, attribute="illness"),),
    "hierarchical": (TCloseness(t=0.15, attribute="illness", distance="hierarchical"),),
    "ordered": (TCloseness(t=0.1, attribute="salary", distance="ordered"),),
    "beta": (BetaLikeness(beta=1, attribute="illness"),),
    "delta": (DeltaDisclosure(delta=1.5, attribute="illness"),),
    "entropy": (EntropyLDiversity(l=3, attribute="illness"),),
    "recursive": (RecursiveCLDiversity(c=1, l=3, attribute="illness"),),
    "beside": (TCloseness(t=0.2, attribute="illness"), DistinctLDiversity(l=3, attribute="salary")),
    "several": (
        TCloseness(t=0.3, attribute="illness"),
        TCloseness(t=0.15, attribute="salary", distance="ordered"),
        DistinctLDiversity(l=3),
    ),
}
requested = pytest.mark.parametrize("models", ASKED.values(), ids=ASKED)


def table(n: int = 500, seed: int = 5) -> pd.DataFrame:
    """Illness and salary depend on age, so that classes of neighbours do not have the table's shares."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 101, n)
    chance = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    illness = [rng.choice(ILLNESSES.values, p=np.roll(chance, a // 40)) for a in age]
    return pd.DataFrame(
        {
            "age": age,
            "zip": rng.choice(list("abcdefgh"), n),
            "illness": illness,
            "salary": np.clip(age // 6 + rng.integers(0, 6, n), 0, 20),
        }
    )


@pytest.fixture(scope="module")
def encoded() -> EncodedTable:
    return EncodedTable.encode(table(), SCHEMA)


def search_of(encoded: EncodedTable, models: tuple[PrivacyModel, ...], k: int = 4) -> QuotaSearch:
    constraints = compile_constraints(models, encoded)
    return QuotaSearch(encoded.codes, encoded.sensitive, encoded.geometry(), constraints, k)


@requested
def test_grown_classes_keep_k_and_the_models(encoded: EncodedTable, models: tuple[PrivacyModel, ...]) -> None:
    search = search_of(encoded, tuple(m for m in models if not isinstance(m, DistinctLDiversity)))
    kinds = kinds_of(search.sensitive, search.constraints)
    labels = grow_classes(
        tabulate(search.geometry), search.codes, kinds.of, kinds.places, np.arange(len(encoded)), 4,
        search.constraints,
    )  # fmt: skip
    assert (labels >= 0).mean() > 0.5
    kept = np.flatnonzero(labels >= 0)
    priors = {
        name: encoded.classes_of(np.zeros(len(encoded), np.int64)).counts(name).prior
        for name in encoded.sensitive_names
    }
    assert kinds.exact
    part = encoded.take(kept)
    classes = type(part)(**{**vars(part), "whole_priors": priors}).classes_of(labels[kept])
    for model in (KAnonymity(k=4), *search_models(models)):
        assert holds(model, classes)


def search_models(models: tuple[PrivacyModel, ...]) -> tuple[PrivacyModel, ...]:
    return tuple(m for m in models if not isinstance(m, DistinctLDiversity))


@pytest.mark.quick("t", "hierarchical", "entropy", "several")  # a model of each kind
@requested
def test_improving_keeps_k_and_the_models_and_never_loses_more(
    encoded: EncodedTable, models: tuple[PrivacyModel, ...]
) -> None:
    search, rng = search_of(encoded, models), np.random.default_rng(1)
    start = merge_until_kept(encoded, search.starts(rng)[0], search.geometry, search.constraints, 4)
    found = search.improve(start, rng, look_up_serially)
    classes = encoded.classes_of(found)
    assert all(holds(model, classes) for model in (KAnonymity(k=4), *models))
    assert search.loss(found) <= search.loss(start) + 1e-9


@requested
def test_swaps_of_equal_values_move_no_distribution(
    encoded: EncodedTable, models: tuple[PrivacyModel, ...]
) -> None:
    search, rng = search_of(encoded, models), np.random.default_rng(1)
    labels = rng.permutation(len(encoded)) % 50
    swapped = search._swapped(tabulate(search.geometry), labels.copy(), rng)
    assert search.loss(swapped) < search.loss(labels)
    start = search.constraints.start
    if kinds_of(search.sensitive, search.constraints).exact:
        own, other = (class_counts(found, encoded.sensitive, start, 50) for found in (labels, swapped))
        rules = np.unique(search.constraints.attribute)
        for a in rules:
            assert np.array_equal(own[:, start[a] : start[a + 1]], other[:, start[a] : start[a + 1]])


def test_steps_of_boxes_draw_apart_what_no_single_record_can(encoded: EncodedTable) -> None:
    # Two large classes that each span everything, though half of one and half of the other are apart.
    models = (EntropyLDiversity(l=1.5, attribute="illness"),)
    search = search_of(encoded, models)
    labels = np.arange(len(encoded)) % 2
    boxes = boxes_of(search.codes, labels, search.geometry)
    counts = class_counts(labels, search.sensitive, search.constraints.start, 2)
    before = float(boxes.size @ boxes.cost)
    fell = step_boxes(
        tabulate(search.geometry),
        search.codes,
        search._values(),
        labels,
        boxes,
        counts,
        4,
        search.constraints,
    )
    assert fell > 0
    assert search.loss(labels) == pytest.approx(before - fell)
    fresh = boxes_of(search.codes, labels, search.geometry)
    assert np.array_equal(fresh.lo, boxes.lo)
    assert np.array_equal(fresh.size, boxes.size)
    assert np.array_equal(counts, class_counts(labels, search.sensitive, search.constraints.start, 2))
    assert all(holds(model, encoded.classes_of(labels)) for model in models)


@pytest.mark.quick("t-bottom_up", "several-bottom_up")  # a quality; one method shows it
@pytest.mark.parametrize("name", ["bottom_up", "obpa"])
@requested
def test_a_release_loses_less_than_cuts_alone(name: str, models: tuple[PrivacyModel, ...]) -> None:
    ours, cut = (
        load_method(key, k=4, require=models).release(table(), SCHEMA, np.random.default_rng(2)).recoding
        for key in (name, "mondrian")
    )
    assert ours is not None
    assert cut is not None
    assert gcp(ours) <= gcp(cut)


def test_a_part_is_compared_with_the_whole_table() -> None:
    whole = table()
    model = TCloseness(t=0.35, attribute="illness")
    counts = whole["illness"].value_counts()
    values = SensitiveValues.of(pd.Series(counts.index), counts.to_numpy(), SCHEMA["illness"])
    part = whole[whole["age"] < 60]
    release = load_method("bottom_up", k=4, require=(model,)).release(
        part, SCHEMA, np.random.default_rng(3), whole={"illness": values}
    )
    assert release.recoding is not None
    shares = counts / counts.sum()
    classes = release.table.groupby([a.name for a in release.schema.quasi_identifiers])["illness"]
    assert classes.ngroups > 3
    for _, own in classes:
        distance = (own.value_counts(normalize=True).reindex(shares.index, fill_value=0) - shares).abs().sum()
        assert distance / 2 <= 0.35 + 1e-9
