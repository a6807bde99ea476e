"""Rules about attacks in a policy: read, compared with a floor, and never taken for kept untried."""

import numpy as np
import pytest

from privacy_engine.errors import SpecError
from privacy_engine.verification.attack_risk import AttackRisk
from privacy_engine.verification.models import rule_of
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_engine.vocabulary import AttackName
from tests.synthetic_tables import SCHEMA, people

K = {"model": "k_anonymity", "k": 2}


def policy(**changed: object) -> ReleasePolicy:
    rule = {"model": "attack_risk", "attack": "inference", "excess": 0.05, **changed}
    return ReleasePolicy.from_dict({"require": [K, rule]})


def test_a_policy_with_an_attack_is_read_and_written() -> None:
    read = policy(confidence=0.9)
    assert read.attacks == (AttackRisk(attack=AttackName.INFERENCE, excess=0.05, confidence=0.9),)
    assert ReleasePolicy.from_dict(read.to_dict()) == read
    assert read.holdout == 0.1
    assert ReleasePolicy.from_dict({"require": [K]}).holdout == 0


def test_an_attack_alone_is_no_policy() -> None:
    with pytest.raises(SpecError, match="proves nothing"):
        ReleasePolicy.from_dict({"require": [{"model": "attack_risk", "attack": "linkage", "excess": 0.1}]})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"attack": "guessing"}, "attack must be"),
        ({"excess": 0}, "excess must be"),
        ({"excess": True}, "excess must be"),
        ({"confidence": 1}, "confidence must be"),
        ({"holdout": 0.6}, "holdout must be"),
        ({"holdout": "half"}, "holdout must be"),
        ({"attack": "membership", "shadows": 2}, "shadows must be an even number of 4 to 32, or 0, got 2"),
        ({"attack": "membership", "shadows": 5}, "shadows must be"),
        ({"attack": "membership", "shadows": 34}, "shadows must be"),
        ({"attack": "membership", "shadows": False}, "shadows must be"),
        ({"attack": "membership", "shadows": 4.0}, "shadows must be"),
        ({"attack": "membership", "shadows": "4"}, "shadows must be"),
        ({"shadows": 4}, "shadows applies only to the attack membership"),
    ],
)
def test_wrong_values_are_refused_by_name(changed: dict[str, object], expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        policy(**changed)


def test_a_released_table_alone_does_not_keep_a_rule_about_attacks() -> None:
    rng = np.random.default_rng(1)
    table = people(60, rng).drop(columns="name").assign(age=30, job="cook")
    report = verify(table, SCHEMA, policy())
    untried = report.findings[-1]
    assert not report.passed
    assert untried.measured is None
    assert "is tried while a release is made" in untried.remedy
    assert all(finding.passed for finding in report.findings[:-1])


def test_a_weaker_attack_rule_than_the_floors_is_reported() -> None:
    floor = policy()
    assert policy(excess=0.1).weaker_than(floor)
    assert policy(confidence=0.8).weaker_than(floor)
    assert not policy(excess=0.01, holdout=0.2).weaker_than(floor)
    assert not policy(attack="linkage", excess=0.5).weaker_than(floor)
    assert policy(attack="linkage", excess=0.5).with_floor(floor).attacks == (
        AttackRisk(attack=AttackName.LINKAGE, excess=0.5),
        AttackRisk(attack=AttackName.INFERENCE, excess=0.05),
    )


def membership(**changed: object) -> ReleasePolicy:
    return policy(attack="membership", **changed)


def test_no_shadows_and_left_out_are_one_rule_and_some_are_reported() -> None:
    assert membership(shadows=0) == membership(shadows=None) == membership()
    assert "shadows" not in membership(shadows=0).to_dict()["require"][1]
    read = membership(shadows=8)
    assert ReleasePolicy.from_dict(read.to_dict()) == read
    assert rule_of(read.attacks[0]).endswith("holdout=0.1, shadows=8)")


@pytest.mark.parametrize(
    ("own", "least", "weaker"), [(0, 8, True), (4, 8, True), (8, 8, False), (8, 0, False)]
)
def test_fewer_shadows_than_the_floors_or_none_are_weaker(own: int, least: int, weaker: bool) -> None:
    floor = membership(shadows=least)
    assert bool(membership(shadows=own).weaker_than(floor)) is weaker
    assert membership(shadows=own, excess=0.1).weaker_than(floor)  # whatever it has of shadows
    both = membership(shadows=own).with_floor(floor)
    assert {rule.shadows or 0 for rule in both.attacks} == {own, least}
    # A policy of both rules asks for as much as the floor.
    assert not both.weaker_than(floor)
