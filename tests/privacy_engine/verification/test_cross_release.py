"""Releases of the same people over time, compared with brute force and with examples worked by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import SchemaError, SpecError, VerificationError
from privacy_engine.registry import load_method, method_class, method_names
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.counterfeits import wrong_counts
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, History, Membership, MInvariance
from privacy_engine.verification.models import KAnonymity, rule_of
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import across_findings, verify
from privacy_engine.vocabulary import Kind, Role

SCHEMA = DataSchema(
    (
        Attribute(name="age", role=Role.QUASI_IDENTIFIER),
        Attribute(name="disease", role=Role.SENSITIVE),
    )
)
Rows = list[tuple[str, str, str]]  # person, released age, disease
ANONYMIZERS = [name for name in method_names() if issubclass(method_class(name), Anonymizer)]


def table(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame([row[1:] for row in rows], columns=["age", "disease"], dtype="str")


def persons(rows: Rows) -> Any:
    return np.array([row[0] for row in rows], dtype=object)


def membership(rows: Rows) -> Membership:
    return Membership.of_table(persons(rows), table(rows), SCHEMA)


def measured(rows: Rows, earlier: list[Rows], *models: Any) -> list[Any]:
    policy = ReleasePolicy(across=models)
    report = verify(
        table(rows), SCHEMA, policy, persons=persons(rows), earlier=[membership(e) for e in earlier]
    )
    return [(f.measured, f.passed, f.failing_rows) for f in report.findings]


def members(release: Rows, person: str) -> set[str]:
    """Who shares the person's class."""
    (own,) = [age for name, age, _ in release if name == person]
    return {name for name, age, _ in release if age == own}


def values(release: Rows, person: str) -> set[str]:
    return {disease for name, _, disease in release if name in members(release, person)}


def brute_shared(rows: Rows, earlier: list[Rows]) -> dict[str, int]:
    """By the definition, one person and one release at a time."""
    found = {}
    for person, _, _ in rows:
        candidates = members(rows, person)
        for release in earlier:
            if person in {name for name, _, _ in release}:
                candidates &= members(release, person)
        found[person] = len(candidates)
    return found


def brute_invariance(rows: Rows, earlier: list[Rows], *, unique: bool = False) -> dict[str, int]:
    found = {}
    for person, _, _ in rows:
        own = values(rows, person)
        others = [values(r, person) for r in earlier if person in {name for name, _, _ in r}]
        once = not unique or len(own) == len(members(rows, person))
        found[person] = len(own) if once and all(own == other for other in others) else 0
    return found


def some_release() -> st.SearchStrategy[Rows]:
    row = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz"), st.sampled_from("12"))
    return st.lists(row, min_size=1, max_size=8, unique_by=lambda r: r[0])


@given(some_release(), st.lists(some_release(), max_size=4))
def test_candidates_are_those_of_the_definition(rows: Rows, earlier: list[Rows]) -> None:
    history = History(new=membership(rows), earlier=tuple(membership(e) for e in earlier))
    assert dict(zip(persons(rows), history.shared, strict=True)) == brute_shared(rows, earlier)


@given(some_release(), st.lists(some_release(), max_size=4), st.booleans())
def test_signatures_are_those_of_the_definition(rows: Rows, earlier: list[Rows], unique: bool) -> None:
    expected = brute_invariance(rows, earlier, unique=unique)
    lost = sum(count < 2 for count in expected.values())
    model = MInvariance(m=2, unique=unique)
    assert measured(rows, earlier, model) == [(min(expected.values()), lost == 0, lost)]


@given(some_release(), st.lists(some_release(), max_size=3), some_release())
def test_one_more_release_never_adds_candidates(rows: Rows, earlier: list[Rows], more: Rows) -> None:
    few, many = (
        History(new=membership(rows), earlier=tuple(map(membership, e))).shared
        for e in (earlier, [*earlier, more])
    )
    assert (many <= few).all()


def group(names: str, age: str, diseases: str | tuple[str, ...] = "12") -> Rows:
    return [(name, age, diseases[i % len(diseases)]) for i, name in enumerate(names)]


def test_two_releases_that_are_each_anonymous_can_single_people_out_together() -> None:
    first = group("abcd", "young") + group("efgh", "old")
    second = group("aefg", "north") + group("bcdh", "south")
    for release in (first, second):
        assert verify(table(release), SCHEMA, ReleasePolicy(require=(KAnonymity(k=4),))).passed
    assert measured(second, [first], CrossReleaseKAnonymity(k=2)) == [(1.0, False, 2)]  # a, h
    assert measured(first, [], CrossReleaseKAnonymity(k=4)) == [(4.0, True, 0)]


def test_two_records_of_one_person_are_one_candidate() -> None:
    records = Membership(
        persons=np.array(["a1", "a2", "b1"], dtype=object),
        labels=np.zeros(3, dtype=np.int64),
        owners=np.array([7, 7, 8]),
    )
    assert History(new=records).shared.tolist() == [2, 2, 2]


def test_cells_of_which_none_is_within_all_others_leave_no_candidates() -> None:
    young, old = membership(group("abcd", "young")), membership(group("abcd", "old"))
    sizes, releases = History(new=young, earlier=(young,)).core
    assert (sizes.tolist(), set(releases.tolist())) == ([4] * 4, {0})
    sizes, releases = History(new=young, earlier=(old,)).core
    assert (sizes.tolist(), set(releases.tolist())) == ([0] * 4, {-1})


def test_releases_with_cells_of_different_attributes_leave_no_candidates() -> None:
    young = membership(group("abcd", "young"))
    wider = replace(young, boxes={**young.boxes, "sex": np.array([*"mmmm"], dtype=object)})
    sizes, releases = History(new=wider, earlier=(young,)).core
    assert (sizes.tolist(), set(releases.tolist())) == ([0] * 4, {-1})


def test_a_class_that_counterfeits_give_another_set_than_before_is_not_invariant() -> None:
    rows: Any = [*group("ab", "young"), (None, "young", "3")]
    new, classes = membership(rows), EquivalenceClasses.of_table(table(rows), SCHEMA)
    assert not new.recognisable["disease"].any()
    same, other = (History(new=new, earlier=(release,)) for release in (new, membership(rows[:2])))
    assert MInvariance(m=2).per_person(same, classes).tolist() == [3, 3]
    assert MInvariance(m=2).per_person(other, classes).tolist() == [0, 0]


def test_a_counterfeit_in_another_spelling_of_a_persons_value_can_be_recognised() -> None:
    """Of one value, one record is made up and one is not; as texts, they would be two."""
    rows: Any = [("Ada", "young", "flu"), (None, "young", "FLU")]
    assert membership(rows).recognisable["disease"].tolist() == [True]


def test_a_value_that_is_made_up_of_some_records_can_be_recognised_however_frequent_it_is() -> None:
    rows: Any = [("Ada", "young", "flu"), (None, "young", "flu"), *group("bc", "young", ("cold",))]
    assert membership(rows).recognisable["disease"].all()
    rows[0] = (None, "young", "flu")
    assert not membership(rows).recognisable["disease"].any()


def test_a_release_of_no_one_keeps_no_model_across_releases() -> None:
    assert measured([], [], CrossReleaseKAnonymity(k=2)) == [(None, False, 0)]


def test_counterfeits_of_which_no_class_tells_the_number_are_wrong() -> None:
    labels, fake = np.array([0, 0, 1]), np.array([False, True, False])
    assert wrong_counts(labels, fake, None).tolist() == [0]
    assert wrong_counts(labels, fake, pd.Series([1, 1, 0])).tolist() == []


def test_registers_count_where_every_release_has_one() -> None:
    without = membership(group("abcd", "young"))
    listed = replace(without, register=membership(group("abcdef", "young")))
    assert History(new=listed, earlier=(listed,)).registers == (listed.register, listed.register)
    assert History(new=listed, earlier=(without,)).registers == ()


def test_the_same_classes_again_single_no_one_out() -> None:
    first, second = group("abcd", "young") + group("efgh", "old"), group("abcd", "1") + group("efgh", "2")
    assert measured(second, [first], CrossReleaseKAnonymity(k=4), MInvariance(m=2)) == [
        (4.0, True, 0),
        (2.0, True, 0),
    ]


def test_someone_who_is_in_one_of_the_releases_alone_is_no_cover_for_one_who_is_in_both() -> None:
    first, second = group("abcd", "young"), group("abce", "young")
    assert measured(second, [first], CrossReleaseKAnonymity(k=4)) == [(3.0, False, 3)]
    assert measured(second, [first], CrossReleaseKAnonymity(k=3)) == [(3.0, True, 0)]


def test_a_release_of_other_people_changes_nothing() -> None:
    assert measured(group("abcd", "x"), [group("efgh", "x", "34")], CrossReleaseKAnonymity(k=4)) == [
        (4.0, True, 0)
    ]
    assert measured(group("abcd", "x"), [group("efgh", "x", "34")], MInvariance(m=2)) == [(2.0, True, 0)]


def test_a_class_with_another_value_than_before_is_not_invariant() -> None:
    # a's class holds {1, 2} and then {1, 3}: anyone who knows that a is in both learns that it is 1.
    first, second = group("ab", "x", "12"), group("ab", "x", "13")
    assert measured(second, [first], MInvariance(m=2)) == [(0.0, False, 2)]
    assert measured(second, [first], CrossReleaseKAnonymity(k=2)) == [(2.0, True, 0)]


def test_a_null_is_its_own_sensitive_value() -> None:
    first = pd.DataFrame({"age": ["x", "x"], "disease": ["1", None]})
    second = pd.DataFrame({"age": ["x", "x"], "disease": ["1", "2"]})
    people = np.array(["a", "b"], dtype=object)
    one, same, other = (Membership.of_table(people, t, SCHEMA) for t in (first, first, second))
    assert not History(new=one, earlier=(same,)).changed("disease").any()
    assert History(new=one, earlier=(other,)).changed("disease").all()


def test_whole_numbers_are_the_same_values_in_either_type() -> None:
    people = np.array(["a", "b"], dtype=object)
    schema = DataSchema((Attribute(name="pay", role=Role.SENSITIVE, kind=Kind.NUMERIC),))
    one, other = (
        Membership.of_table(people, pd.DataFrame({"pay": pd.Series([1, 2], dtype=kind)}), schema)
        for kind in ("int64", "float64")
    )
    assert not History(new=one, earlier=(other,)).changed("pay").any()


def test_an_attribute_that_was_not_released_before_is_not_invariant() -> None:
    before = membership(group("ab", "x"))
    bare = Membership(persons=before.persons, labels=before.labels)
    assert History(new=before, earlier=(bare,)).changed("disease").all()


def test_a_person_with_two_records_is_refused_with_the_count() -> None:
    with pytest.raises(SchemaError, match="one record in a release, got 1 further records"):
        membership([("a", "x", "1"), ("a", "x", "2"), ("b", "x", "1")])


def test_a_demand_without_knowing_the_people_fails_closed_with_the_remedy() -> None:
    policy = ReleasePolicy(across=(CrossReleaseKAnonymity(k=2),))
    with pytest.raises(VerificationError, match=r"records are not known.*history\.identifier"):
        verify(table(group("ab", "x")), SCHEMA, policy)


def test_a_demand_on_a_private_release_is_refused_as_meaningless() -> None:
    policy = ReleasePolicy(across=(MInvariance(m=2),), max_epsilon=1.0)
    loss = PrivacyLoss(epsilon=1.0, neighbours=Neighbours.REPLACE_ONE)
    with pytest.raises(VerificationError, match="does not apply to a release with a privacy loss"):
        verify(table(group("ab", "x")), SCHEMA, policy, loss=loss)


def test_a_policy_file_names_the_models_among_the_others() -> None:
    text = (
        "require:\n- {model: k_anonymity, k: 10}\n- {model: cross_release_k_anonymity, k: 10}\n"
        "- {model: m_invariance, m: 3, attribute: disease}\n"
    )
    policy = ReleasePolicy.from_yaml(text)
    assert policy.require == (KAnonymity(k=10),)
    assert policy.across == (CrossReleaseKAnonymity(k=10), MInvariance(m=3, attribute="disease"))
    assert ReleasePolicy.from_dict(policy.to_dict()) == policy


def test_a_policy_without_unique_classes_is_written_as_before() -> None:
    plain = {"require": [{"model": "m_invariance", "m": 3}]}
    unique = {"require": [{"model": "m_invariance", "m": 3, "unique": True}]}
    assert ReleasePolicy.from_dict({"require": [unique["require"][0] | {"unique": False}]}).to_dict() == plain
    assert rule_of(MInvariance(m=3)) == "m_invariance(m=3)"
    assert ReleasePolicy.from_dict(unique).to_dict() == unique
    assert rule_of(MInvariance(m=3, unique=True)) == "m_invariance(m=3, unique=True)"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"model": "m_invariance", "m": 2, "unique": 1}, "unique must be true or false, got 1"),
        ({"model": "cross_release_k_anonymity", "k": 1}, "k must be a whole number >= 2, got 1"),
        ({"model": "cross_release_k_anonymity"}, "missing .* 'k'"),
        ({"model": "m_invariance", "m": True}, "m must be a whole number >= 2"),
        ({"model": "m_invariant", "m": 2}, "must be one of .*m_invariance"),
    ],
)
def test_a_wrong_demand_is_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=rf"require\[0\]: .*{message}"):
        ReleasePolicy.from_dict({"require": [entry]})


def test_a_method_cannot_claim_what_it_cannot_see() -> None:
    with pytest.raises(ValueError, match="model must be one of"):
        load_method("mondrian", k=5, require=({"model": "cross_release_k_anonymity", "k": 5},))


@pytest.mark.parametrize("method", ANONYMIZERS)
def test_every_anonymizer_tells_which_record_of_the_source_each_released_one_is(method: str) -> None:
    rng = np.random.default_rng(4)
    n = 80
    source = pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "town": rng.choice(["north", "south", "west"], n),
            "disease": rng.choice(["cold", "flu", "gout"], n),
            "ticket": rng.permutation(n),
        },
        index=rng.permutation(n),
    )
    schema = DataSchema(
        (
            Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 100)),
            Attribute(name="town", role=Role.QUASI_IDENTIFIER),
            Attribute(name="disease", role=Role.SENSITIVE),
            Attribute(name="ticket", role=Role.INSENSITIVE, kind=Kind.NUMERIC),
        )
    )
    trees = {"trees": 20} if method == "rfka" else {}
    release = load_method(method, k=4, l=2, suppression_limit=0.5, **trees).release(source, schema, rng)
    assert release.rows is not None
    assert release.table["ticket"].tolist() == source["ticket"].to_numpy()[release.rows].tolist()
    assert release.table.index.equals(pd.RangeIndex(len(release.table)))


@pytest.mark.parametrize("measure", [verify, across_findings])
def test_the_classes_of_a_release_are_made_once_for_all_its_models(
    measure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    of_table = EquivalenceClasses.of_table

    def counted(*arguments: Any) -> EquivalenceClasses:
        made.append(of_table(*arguments))
        return made[-1]

    monkeypatch.setattr(EquivalenceClasses, "of_table", counted)
    rows = group("abcd", "young") + group("efgh", "old")
    policy = ReleasePolicy(require=(KAnonymity(k=2),), across=(CrossReleaseKAnonymity(k=2), MInvariance(m=2)))
    measure(table(rows), SCHEMA, policy, persons=persons(rows))
    assert sum(len(classes) > 0 for classes in made) == 1  # those of no records cost nothing
