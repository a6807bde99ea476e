"""The model of releases over time as a rule of a policy: cases worked by hand, and what a slip breaks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, History, Membership, MInvariance
from privacy_engine.verification.models import KAnonymity, TCloseness, rule_of
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_engine.verification.republication.model import Attacker, Republication, window_of
from privacy_engine.verification.verify import Finding, verify
from privacy_engine.vocabulary import Departures, Kind, Role

SCHEMA = DataSchema(
    (
        Attribute(name="age", role=Role.QUASI_IDENTIFIER),
        Attribute(name="disease", role=Role.SENSITIVE),
    )
)
Rows = list[tuple[str, str, str]]  # person, released age, disease
OLD = (CrossReleaseKAnonymity(k=4), MInvariance(m=2))


def table(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame([row[1:] for row in rows], columns=["age", "disease"], dtype="str")


def persons(rows: Rows) -> Any:
    return np.array([row[0] for row in rows], dtype=object)


def membership(rows: Rows) -> Membership:
    return Membership.of_table(persons(rows), table(rows), SCHEMA)


def group(names: str, age: str, diseases: str = "12") -> Rows:
    return [(name, age, diseases[i % len(diseases)]) for i, name in enumerate(names)]


def findings(rows: Rows, earlier: list[Rows], *models: Any) -> list[Finding]:
    policy = ReleasePolicy(across=models)
    report = verify(
        table(rows),
        SCHEMA,
        policy,
        persons=persons(rows),
        earlier=[membership(e) for e in earlier],
        source=SCHEMA,
    )
    return list(report.findings)


def passes(rows: Rows, earlier: list[Rows], **fields: Any) -> bool:
    return findings(rows, earlier, Republication(**{"k": 2, "m": 2} | fields))[0].passed


WEEK_1 = [("a", "x", "flu"), ("b", "x", "flu"), ("c", "x", "hiv"), ("d", "x", "hiv")]


def test_a_newcomer_to_a_class_that_stays_is_found_by_subtracting() -> None:
    week_2 = [*WEEK_1, ("newcomer", "x", "hiv")]
    *old, new = findings(week_2, [WEEK_1], *OLD, Republication(k=4, m=2))
    assert [f.passed for f in old] == [True, True]
    assert (new.passed, new.measured, new.failing_rows) == (False, 0.0, 1)
    assert "identity 4, membership 4, difference 0, correction 0" in new.note


# Five of one place; four of them move away, and four of the other place move in.
MOVES_1 = group("Tabcd", "north") + group("efghijklmno", "south")
MOVES_2 = group("Tefgh", "north") + group("abcdijklmno", "south")
# No one moves: three leave, and three newcomers take their places.
LEAVE_1, LEAVE_2 = group("Tabc", "north"), group("Txyz", "north")


@pytest.mark.parametrize(("first", "second"), [(MOVES_1, MOVES_2), (LEAVE_1, LEAVE_2)])
def test_a_register_of_both_weeks_finds_the_only_one_who_can_be_in_both_classes(
    first: Rows, second: Rows
) -> None:
    unknown = CrossReleaseKAnonymity(k=4, departures=Departures.UNKNOWN)
    by_register = Republication(k=4, attackers=(Attacker.POPULATION,))
    old, invariance, new = findings(second, [first], unknown, MInvariance(m=2), by_register)
    assert [old.passed, invariance.passed] == [True, True]
    assert (new.passed, new.measured) == (False, 1.0)
    assert new.note.startswith(
        "persons left to each attacker: population 1; the population is all persons of all releases; not "
        "judged: identity, membership"
    )


def test_arrivals_and_departures_must_each_be_enough() -> None:
    first, second = group("abcdef", "x"), group("abcdyz", "x")
    assert passes(second, [first])  # two and two, of either value
    assert not passes(second, [first], k=3)
    assert not passes(group("abcdyz", "x"), [group("abcdefg", "x")], k=3)  # two for three
    assert not passes(group("abcdxyz", "x"), [first], k=3)  # three for two
    assert passes(group("abcdxyz", "x"), [group("abcdefg", "x")], k=3)
    assert not passes(group("abcdy", "x"), [first])
    assert not passes(second, [group("abcde", "x")])


def test_values_of_arrivals_do_not_count_for_those_who_leave() -> None:
    first = [*group("abcd", "x"), ("e", "x", "1"), ("f", "x", "1")]
    assert not passes([*group("abcd", "x"), ("y", "x", "1"), ("z", "x", "2")], [first])


def test_classes_are_joined_through_several_others() -> None:
    # Each new class has one arrival; stayers of one old class connect both, so the two hide each other.
    first = group("abcdefgh", "x", "1122")
    second = [*group("abcd", "p", "1122"), *group("efgh", "q", "1122"), ("y", "p", "1"), ("z", "q", "2")]
    assert passes(second, [first])
    # Where no one connects them each is alone.
    apart = group("abcd", "p", "1122") + group("efgh", "q", "1122")
    assert not passes(second, [apart])
    # A chain: p - x1 - q - x2 - r.
    chain_1 = [*group("abcdefgh", "x1", "1122"), *group("ijklmnop", "x2", "1122")]
    chain_2 = [
        *group("abcd", "p", "1122"),
        *group("efghijkl", "q", "1122"),
        *group("mnop", "r", "1122"),
        ("y", "p", "1"),
        ("z", "r", "2"),
    ]
    assert passes(chain_2, [chain_1])


def test_a_value_that_no_class_had_gives_an_arrival_away_in_a_large_component() -> None:
    first = group("abcdefgh", "x", "1122")
    second = [*group("abcd", "p", "1122"), *group("efgh", "q", "1122"), ("y", "p", "3"), ("z", "q", "4")]
    assert not passes(second, [first])


def test_a_class_that_is_cut_gives_away_what_remains_of_it() -> None:
    # c and d are a class of their own now, so a and b have what is left of the old one: both have 1.
    first = [("a", "x", "1"), ("b", "x", "1"), ("c", "x", "1"), ("d", "x", "2")]
    second = [
        ("a", "p", "1"),
        ("b", "p", "1"),
        ("y", "p", "2"),
        ("z", "p", "1"),
        ("c", "q", "1"),
        ("d", "q", "2"),
    ]
    by_sets = findings(second, [first], Republication(k=2, m=2, attackers=(Attacker.MEMBERSHIP,)))
    assert by_sets[0].passed
    assert not passes(second, [first])


def test_every_earlier_release_of_the_window_is_subtracted_and_not_the_last_alone() -> None:
    first, between = group("abcd", "x"), group("efgh", "x")
    newest = [*group("abcd", "x"), ("y", "x", "1")]
    assert not passes(newest, [first, between])
    assert passes(newest, [first, between], window=1)
    (found,) = findings(newest, [first, between], Republication(k=2, m=2, window=1))
    assert "differences from older releases (1 releases before the window)" in found.note


def test_an_old_class_that_left_as_a_whole_is_not_the_new_releases_concern() -> None:
    first = [*group("abcdef", "x"), *group("gh", "y")]
    assert passes(group("abcdef", "x"), [first], k=3)
    assert not passes([*group("abcdef", "x"), *group("ijk", "z")], [[*first, ("l", "x", "1")]], k=3)


def test_a_person_who_returns_is_an_arrival_since_the_release_without_them() -> None:
    first, between = group("abcdef", "x"), group("abcd", "x")
    assert passes(group("abcdef", "x"), [first, between])
    assert not passes(group("abcde", "x"), [group("abcde", "x"), between])


def test_a_corrected_record_is_found_by_an_attacker_who_knows_the_correction() -> None:
    first = group("abcd", "x")
    second = [*group("abc", "x"), ("d", "x", "1")]
    of_all, of_difference = findings(
        second, [first], Republication(k=2, m=2), Republication(k=2, attackers=(Attacker.DIFFERENCE,))
    )
    assert "correction 0" in of_all.note
    assert [of_all.passed, of_difference.passed] == [False, True]


def test_models_of_values_are_measured_on_each_group_against_the_whole_release() -> None:
    first = group("abcdefgh", "x")
    arrived = [("w", "x", "1"), ("y", "x", "1"), ("v", "x", "1"), ("z", "x", "2")]
    second = group("abcdefgh", "x") + arrived
    # 3/4 of the arrivals have value 1, and 7/12 of all do.
    assert passes(second, [first], groups=(TCloseness(t=0.17),))
    assert not passes(second, [first], groups=(TCloseness(t=0.16),))
    assert not passes(second, [first], groups=({"model": "entropy_l_diversity", "l": 2},))


def test_a_group_with_a_value_that_the_new_release_lacks_is_not_close_to_it() -> None:
    first = [*group("abcd", "x"), ("e", "x", "3"), ("f", "x", "1")]
    assert passes(group("abcd", "x"), [first])
    assert not passes(group("abcd", "x"), [first], groups=(TCloseness(t=1),))


def test_departures_of_a_file_without_values_are_counted_and_their_values_not_judged() -> None:
    first = membership([*group("abcd", "x"), ("e", "x", "1"), ("f", "x", "1")])
    bare = Membership(persons=first.persons, labels=first.labels, signatures=first.signatures)
    rows = group("abcd", "x")
    history = History(new=membership(rows), earlier=(bare,))
    classes = EquivalenceClasses.of_table(table(rows), SCHEMA)
    judged = Republication(k=2, m=2).judge(history, classes)
    assert judged.per_person.tolist() == [2.0] * 4  # two have left
    assert "differences: values of departures" in judged.sentence
    assert "correction (no earlier release keeps the values of persons)" in judged.sentence
    assert Republication(k=3, m=2).judge(history, classes).least[Attacker.DIFFERENCE] == 2


def test_a_correction_is_not_judged_by_an_older_release_than_those_of_the_window() -> None:
    rows = group("abcd", "x")
    first = membership(rows)
    bare = Membership(persons=first.persons, labels=first.labels, counts=first.counts)
    history = History(new=first, earlier=(first, bare))
    judged = Republication(k=2, m=2, window=1).judge(
        history, EquivalenceClasses.of_table(table(rows), SCHEMA)
    )
    assert Attacker.CORRECTION not in judged.least
    assert Attacker.CORRECTION in judged.unjudged


def test_the_values_of_departures_follow_from_those_of_classes() -> None:
    rows = group("abcd", "x")
    first = membership([*rows, ("e", "x", "1"), ("f", "x", "1")])
    kept = Membership(persons=first.persons, labels=first.labels, counts=first.counts)
    history = History(new=membership(rows), earlier=(kept,))
    judged = Republication(k=2, m=2).judge(history, EquivalenceClasses.of_table(table(rows), SCHEMA))
    assert judged.least[Attacker.DIFFERENCE] == 0


def test_all_spellings_of_a_value_are_one() -> None:
    first = group("abcd", "x", ("flu", "HIV"))
    second = [*group("abcd", "x", ("Flu ", "hiv")), ("y", "x", "FLU"), ("z", "x", "hiv")]
    assert passes(second, [first])


def test_a_counterfeit_is_no_arrival() -> None:
    rows = [*group("abcd", "x"), ("e", "x", "1"), ("f", "x", "2")]
    who = persons(rows)
    who[-1] = None
    history = History(
        new=Membership.of_table(who, table(rows), SCHEMA), earlier=(membership(group("abcd", "x")),)
    )
    judged = Republication(k=2).judge(history, EquivalenceClasses.of_table(table(rows), SCHEMA))
    assert judged.least[Attacker.DIFFERENCE] == 1


def test_a_counterfeit_is_a_record_of_its_value_and_no_person() -> None:
    real = np.array([True, True, False])
    counts = ClassValues.of_records(np.zeros(3, np.int64), np.array([0, 0, 1]), ("flu", "hiv"), real)
    assert counts.to_json() == ['{"flu": [2, 2], "hiv": [1, 0]}']


def test_counterfeits_that_can_be_recognised_leave_no_value() -> None:
    rows = [*group("ab", "x", "1"), ("c", "x", "2")]
    who = persons(rows)
    who[-1] = None  # one record where the signature needs two
    made_up = Membership.of_table(who, table(rows), SCHEMA)
    judged = Republication(k=2, m=2).judge(
        History(new=made_up), EquivalenceClasses.of_table(table(rows), SCHEMA)
    )
    assert judged.least[Attacker.IDENTITY] == judged.least[Attacker.MEMBERSHIP] == 0


def test_one_who_stays_is_certain_if_the_values_of_those_who_left_are_known() -> None:
    first = [*group("ab", "x"), *group("cd", "y")]
    (found,) = findings([("b", "x", "2"), ("c", "x", "1")], [first], Republication(k=2, m=2))
    assert found.measured == 0.0


def test_a_correction_of_any_sensitive_attribute_is_found() -> None:
    schema = DataSchema((*SCHEMA.attributes, Attribute(name="ward", role=Role.SENSITIVE)))
    rows = table(group("abcd", "x"))
    released = [rows.assign(ward=list("pqpq")), rows.assign(ward=list("pqpq"), disease=list("1211"))]
    old, new = (Membership.of_table(persons(group("abcd", "x")), r, schema) for r in released)
    classes = EquivalenceClasses.of_table(released[1], schema)
    judged = Republication(k=2, m=2).judge(History(new=new, earlier=(old,)), classes)
    assert judged.least[Attacker.CORRECTION] == 0


def test_a_policy_that_names_the_population_fails_where_it_cannot_be_judged() -> None:
    rows = group("abcd", "20")
    classes = EquivalenceClasses.of_table(table(rows), SCHEMA)
    history = History(new=replace(membership(rows), boxes={}))
    judged = Republication(k=2, attackers=("identity", "population")).judge(history, classes)  # type: ignore[arg-type]
    assert (judged.per_person.max(), judged.least) == (0.0, {Attacker.IDENTITY: 4.0})
    assert "cells of all releases must have been kept" in judged.sentence


def test_a_first_release_is_judged_by_its_classes() -> None:
    assert passes(group("abcd", "x"), [], k=4)
    assert not passes(group("abcd", "x"), [], k=5)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"k": 1}, "k must be a whole number >= 2, got 1"),
        ({"k": 2, "m": 1}, "m must be a whole number >= 2, got 1"),
        ({"k": 2, "window": 0}, "window must be a whole number >= 1, got 0"),
        ({"k": 2, "attackers": ["identify"]}, r"attackers must be one of .*did you mean identity"),
        ({"k": 2, "attackers": []}, "attackers must be a list of at least one attacker"),
        ({"k": 2, "attackers": "identity"}, "attackers must be a list"),
        (
            {"k": 2, "groups": [{"model": "k_anonymity", "k": 2}]},
            "models of sensitive values, got k_anonymity",
        ),
        ({"k": 2, "groups": {"model": "t_closeness"}}, "groups must be a list of models"),
        ({"k": 2, "groups": [{"model": "t_closeness", "t": 2}]}, r"t must be in \[0, 1\]"),
    ],
)
def test_a_wrong_rule_is_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=rf"require\[0\]: .*{message}"):
        ReleasePolicy.from_dict({"require": [{"model": "republication", **entry}]})


def test_a_policy_file_names_attackers_and_further_models() -> None:
    text = (
        "require:\n- {model: k_anonymity, k: 5}\n- model: republication\n  k: 5\n  m: 3\n"
        "  attribute: disease\n  attackers: [difference, identity]\n"
        "  groups: [{model: t_closeness, t: 0.3}]\n"
    )
    policy = ReleasePolicy.from_yaml(text)
    assert policy.require == (KAnonymity(k=5),)
    (rule,) = policy.across
    assert rule == Republication(
        k=5,
        m=3,
        attribute="disease",
        attackers=(Attacker.IDENTITY, Attacker.DIFFERENCE),
        groups=(TCloseness(t=0.3),),
    )
    assert ReleasePolicy.from_dict(policy.to_dict()) == policy
    assert policy.with_floor(policy) == policy
    assert "attackers=['identity', 'difference'], window=8, groups=[{'model': 't_closeness'" in rule_of(rule)


def test_a_smaller_window_and_a_smaller_k_are_weaker() -> None:
    floor = ReleasePolicy(across=(Republication(k=5),))
    assert ReleasePolicy(across=(Republication(k=5, window=4),)).weaker_than(floor)
    assert ReleasePolicy(across=(Republication(k=4),)).weaker_than(floor)
    assert not ReleasePolicy(across=(Republication(k=5, m=2),)).weaker_than(floor)


def test_values_of_persons_are_read_for_the_largest_window_of_a_model_that_names_the_attacker() -> None:
    difference = Republication(k=2, window=9, attackers=(Attacker.DIFFERENCE,))
    models = [Republication(k=2, window=2), difference, Republication(k=2, window=5)]
    assert window_of(models, Attacker.CORRECTION) == 5
    assert window_of(models, Attacker.POPULATION) == 0


def test_values_without_a_sensitive_attribute_are_refused() -> None:
    with pytest.raises(SchemaError, match="requires a sensitive attribute, the table has"):
        passes(group("ab", "x"), [], attribute="income")


def test_the_default_is_every_attacker_but_the_one_with_a_population() -> None:
    assert Republication(k=2).attackers == ("identity", "membership", "difference", "correction")


def test_values_of_numbers_are_compared_in_either_type() -> None:
    schema = DataSchema((Attribute(name="pay", role=Role.SENSITIVE, kind=Kind.NUMERIC),))
    one, other = (
        Membership.of_table(
            np.array(["a", "b"], dtype=object), pd.DataFrame({"pay": pd.Series([1, 2], dtype=kind)}), schema
        )
        for kind in ("int64", "float64")
    )
    assert one.counts["pay"] == other.counts["pay"]


def test_the_values_of_classes_are_kept_as_hashes() -> None:
    counts = membership(group("abcd", "x", ("flu", "hiv"))).counts["disease"]
    assert isinstance(counts, ClassValues)
    assert not {"flu", "hiv"} & set(counts.texts)
    assert counts.records.tolist() == [2, 2]
