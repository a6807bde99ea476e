"""Compiled rules against figures worked by hand, against the papers' examples and against the models."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.recoding.grouping.constraints import (
    Rule,
    RuleKind,
    SensitiveTree,
    admits,
    class_counts,
    equal_distance,
    hierarchical_distance,
    no_constraints,
    ordered_distance,
    pack_rules,
)
from privacy_engine.recoding.grouping.model_rules import compile_constraints, least_size, require_feasible
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    TCloseness,
)
from privacy_engine.vocabulary import Kind, Role

PAIRS = SensitiveTree(  # ((0, 1), (2, 3))
    parent=np.array([4, 4, 5, 5, 6, 6, 6], np.int32), height=np.array([0, 0, 0, 0, 0.5, 0.5, 1.0])
)
DISEASES = Hierarchy(
    (
        ("flu", "airways", "*"),
        ("asthma", "airways", "*"),
        ("ulcer", "stomach", "*"),
        ("gastritis", "stomach", "*"),
        ("fracture", "bones", "*"),
    )
)
SCHEMA = DataSchema(
    (
        Attribute(name="zip", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC),
        Attribute(name="disease", role=Role.SENSITIVE, hierarchy=DISEASES),
        Attribute(name="salary", role=Role.SENSITIVE, kind=Kind.NUMERIC),
    )
)


def one_rule(kind, limit, rank=0, table=(4, 4, 4, 4)):
    return pack_rules([Rule(kind=kind, limit=limit, rank=rank)], [np.array(table)], [PAIRS])


def counts(*values):
    return np.array(values, np.int32)


def encode(disease, salary):
    names = [DISEASES.values[code] for code in disease]
    return EncodedTable.encode(
        pd.DataFrame({"zip": range(len(names)), "disease": names, "salary": salary}), SCHEMA
    )


@pytest.mark.parametrize(
    ("constraints", "kept", "broken"),
    [
        (one_rule(RuleKind.DISTINCT, 3), counts(1, 1, 0, 1), counts(5, 5, 0, 0)),
        # two values of equal share are worth exactly 2; 2:1:0:0 is worth exp(0.6365) = 1.89
        (one_rule(RuleKind.ENTROPY, 2), counts(3, 3, 0, 0), counts(2, 1, 0, 0)),
        # r_1 < 2 (r_2 + ...): 3 < 2 * 2; 4 < 2 * 2 fails, for the definition is strict
        (one_rule(RuleKind.RECURSIVE, 2, rank=2), counts(3, 1, 1, 0), counts(4, 1, 1, 0)),
        # fewer than l distinct values: the tail is empty
        (one_rule(RuleKind.RECURSIVE, 9, rank=3), counts(3, 2, 1, 0), counts(3, 2, 0, 0)),
        # shares 1/2 1/2 0 0 against 1/4 each: total variation 1/2; 1 0 0 0: 3/4
        (one_rule(RuleKind.CLOSE_EQUAL, 0.5), counts(1, 1, 0, 0), counts(1, 0, 0, 0)),
        # crossing mass 1/4 1/2 1/4, mean 1/3; for 1 0 0 0: 3/4 1/2 1/4, mean 1/2
        (one_rule(RuleKind.CLOSE_ORDERED, 1 / 3), counts(1, 1, 0, 0), counts(1, 0, 0, 0)),
        # all on leaf 0: 1/4 goes to its sibling at 1/2, 1/2 across the root: 1/8 + 1/2
        (one_rule(RuleKind.CLOSE_HIERARCHICAL, 0.5), counts(1, 1, 0, 0), counts(1, 0, 0, 0)),
        (one_rule(RuleKind.ALPHA, 0.3), counts(3, 3, 3, 1), counts(4, 3, 2, 1)),
        # relative gain of 1/2 over 1/4 is 1; of 3/4 it is 2
        (one_rule(RuleKind.BETA_BASIC, 1), counts(2, 1, 1, 0), counts(3, 1, 0, 0)),
        # -ln(1/4) = 1.386 binds before beta = 5: 5/10 gains 1, 6/10 gains 1.4
        (one_rule(RuleKind.BETA_ENHANCED, 5), counts(5, 5, 0, 0), counts(6, 4, 0, 0)),
        # |ln(q / p)|: 0.4 against 1/4 is 0.47, 0.6 is 0.88
        (one_rule(RuleKind.DELTA, 0.6), counts(4, 2, 2, 2), counts(12, 4, 2, 2)),
        (one_rule(RuleKind.DELTA, 99), counts(1, 1, 1, 97), counts(1, 1, 1, 0)),
    ],
)
def test_a_rule_keeps_and_breaks_as_worked_by_hand(constraints, kept, broken):
    assert admits(kept, int(kept.sum()), constraints)
    assert not admits(broken, int(broken.sum()), constraints)


def test_a_value_that_the_table_lacks_breaks_beta_likeness():
    constraints = one_rule(RuleKind.BETA_BASIC, 100, table=(4, 4, 4, 0))
    assert not admits(counts(1, 1, 1, 1), 4, constraints)


@pytest.mark.parametrize(("held", "distance"), [((0, 1, 2), 0.375), ((3, 5, 8), 1 / 6)])
def test_ordered_distance_is_that_of_the_salaries_in_li_et_al(held, distance):
    # Li et al. (2007), section 4.2: {3k 4k 5k} and {6k 8k 11k} against 3k .. 11k
    own = np.zeros(9, np.int32)
    own[list(held)] = 1
    assert ordered_distance(own, 3, np.full(9, 1 / 9)) == pytest.approx(distance)


def test_a_value_that_the_table_lacks_is_no_step_of_the_ordered_distance():
    assert ordered_distance(counts(2, 0, 0), 2, np.array([0.5, 0.0, 0.5])) == 0.5


def test_hierarchical_distance_is_worked_by_hand():
    # 1/4 from leaf 0 to its sibling over 1/2, 1/2 to the other pair over 1
    assert hierarchical_distance(counts(1, 0, 0, 0), 1, np.full(4, 0.25), PAIRS.parent, PAIRS.height) == 0.625


def test_hierarchical_distance_on_a_flat_tree_is_the_equal_distance():
    prior, own = np.array([0.5, 0.2, 0.2, 0.1]), counts(1, 3, 0, 2)
    flat = hierarchical_distance(own, 6, prior, np.full(5, 4, np.int32), np.array([0, 0, 0, 0, 1.0]))
    assert flat == pytest.approx(equal_distance(own, 6, prior))


def test_no_constraints_admit_every_class():
    assert admits(np.zeros(0, np.int32), 1, no_constraints())


def test_an_empty_class_breaks_nothing():
    assert admits(counts(0, 0, 0, 0), 0, one_rule(RuleKind.DISTINCT, 3))


def test_class_counts_leave_out_suppressed_records():
    labels, sensitive = np.array([0, 1, -1, 1]), np.array([[0, 1, 1, 1], [2, 0, 0, 2]], np.int32)
    found = class_counts(labels, sensitive, np.array([0, 2, 5]), 2)
    assert found.tolist() == [[1, 0, 0, 0, 1], [0, 2, 1, 0, 1]]


MODELS = st.one_of(
    st.builds(DistinctLDiversity, l=st.integers(2, 4)),
    st.builds(EntropyLDiversity, l=st.floats(1.1, 4)),
    st.builds(RecursiveCLDiversity, c=st.floats(0.3, 4), l=st.integers(2, 4)),
    st.builds(TCloseness, t=st.floats(0, 0.6), distance=st.sampled_from(["equal", "ordered"])),
    st.builds(
        TCloseness, t=st.floats(0, 0.6), distance=st.just("hierarchical"), attribute=st.just("disease")
    ),
    st.builds(AlphaKAnonymity, alpha=st.floats(0.2, 1), k=st.just(2)),
    st.builds(BetaLikeness, beta=st.floats(0.1, 4), enhanced=st.booleans()),
    st.builds(DeltaDisclosure, delta=st.floats(0.1, 3)),
)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=24
)


@given(records=RECORDS, models=st.lists(MODELS, min_size=1, max_size=3))
def test_a_class_is_admitted_exactly_where_no_model_is_violated(records, models):
    group, disease, salary = (np.array(column) for column in zip(*records, strict=True))
    labels = np.unique(group, return_inverse=True)[1].astype(np.int64)
    encoded = encode(disease, salary)
    constraints = compile_constraints(models, encoded)
    classes = encoded.classes_of(labels)
    # (alpha, k) counts a class of fewer than k records as violated; that part is the method's own k
    violated = np.array([model.violations(classes) for model in models]).any(axis=0)
    found = class_counts(labels, encoded.sensitive, constraints.start, len(classes))
    admitted = [
        admits(own, int(size), constraints) and size >= least_size(models)
        for own, size in zip(found, classes.sizes, strict=True)
    ]
    assert admitted == (~violated).tolist()


@pytest.mark.parametrize("kind", list(RuleKind), ids=lambda kind: kind.name.lower())
def test_two_admitted_classes_may_be_merged(kind):
    rng, seen = np.random.default_rng(int(kind)), 0
    for _ in range(1000):
        own = rng.integers(0, 4, (2, 4)).astype(np.int32)
        table = own.sum(axis=0) + rng.integers(0, 3, 4)
        constraints = one_rule(kind, rng.uniform(0.1, 4), int(rng.integers(2, 5)), table=table)
        if all(c.sum() > 0 and admits(c, int(c.sum()), constraints) for c in own):
            seen += 1
            assert admits(own[0] + own[1], int(own.sum()), constraints)
    assert seen > 50  # or the claim was not tried


def test_a_model_without_attribute_speaks_of_every_sensitive_attribute():
    encoded = encode([0, 1, 2, 3], [10, 10, 10, 20])
    constraints = compile_constraints(
        [DistinctLDiversity(l=2), TCloseness(t=0.5, attribute="salary")], encoded
    )
    assert constraints.attribute.tolist() == [0, 1, 1]


def test_k_alone_needs_no_rule():
    encoded = encode([0, 1], [1, 2])
    assert len(compile_constraints([KAnonymity(k=5)], encoded).kind) == 0
    assert least_size([KAnonymity(k=5), AlphaKAnonymity(alpha=0.5, k=7), DistinctLDiversity(l=9)]) == 7


@pytest.mark.parametrize(
    "model",
    [
        DistinctLDiversity(l=2, attribute="zip"),
        TCloseness(t=0.1, distance="hierarchical", attribute="salary"),
    ],
)
def test_a_model_that_the_table_cannot_answer_is_refused(model):
    with pytest.raises(SchemaError):
        compile_constraints([model], encode([0, 1], [1, 2]))


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (DistinctLDiversity(l=3, attribute="disease"), "distinct l-diversity .* lower l"),
        (EntropyLDiversity(l=1.9, attribute="disease"), "entropy l-diversity .* lower l"),
        (RecursiveCLDiversity(c=1, l=2, attribute="disease"), "recursive .* raise c"),
        (AlphaKAnonymity(alpha=0.5, k=2, attribute="disease"), "alpha.* raise alpha"),
    ],
)
def test_a_rule_that_the_whole_table_breaks_is_named_with_its_remedy(model, remedy):
    encoded = encode([0, 0, 0, 1], [1, 2, 3, 4])
    with pytest.raises(InfeasibleError, match=remedy) as error:
        require_feasible(4, 2, encoded.sensitive, compile_constraints([model], encoded))
    assert "flu" not in str(error.value)


def test_fewer_records_than_k_are_refused_with_both_counts():
    with pytest.raises(InfeasibleError, match="3 rows cannot be 5-anonymous"):
        require_feasible(3, 5, np.zeros((0, 3), np.int32), no_constraints())
