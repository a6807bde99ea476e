"""What a release is said to show of three standards: never more than was measured."""

from typing import Any

import pytest

from privacy_engine.verification.attack_risk import AttackRisk
from privacy_engine.verification.models import model_to_dict, rule_of
from privacy_engine.vocabulary import AttackName
from privacy_release.evidence.criteria import (
    HIPAA,
    NIST,
    WP29,
    CriterionAnswer,
    Status,
    answers,
    hides_counts,
)
from privacy_release.manifest.manifest import Manifest

K = {"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": 6.0, "passed": True}
L = {"rule": "distinct_l_diversity(l=2)", "threshold": 2.0, "measured": 2.0, "passed": True}
INFERENCE = {"model": "attack_risk", "attack": "inference", "excess": 0.1}
TRIED = {
    "rule": rule_of(AttackRisk(attack="inference", excess=0.1)),  # type: ignore[arg-type]  # as of a policy
    "threshold": 0.1,
    "measured": None,
    "passed": True,
}


def manifest(*measured: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"measured": list(measured), "policy": {"require": [{"model": "k_anonymity", "k": 5}]}} | more


def by_name(given: dict[str, Any]) -> dict[str, CriterionAnswer]:
    return {answer.criterion: answer for answer in answers(Manifest.from_dict(given))}


def wp29(given: dict[str, Any]) -> list[Status]:
    return [answer.status for answer in answers(Manifest.from_dict(given)) if answer.standard == WP29]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (manifest(), [Status.NOT_SHOWN] * 3),
        # As the opinion itself has it: classes leave linking and inference open, l alone not the latter.
        (manifest(K), [Status.SHOWN, Status.NOT_SHOWN, Status.NOT_SHOWN]),
        (manifest(K, L), [Status.SHOWN, Status.NOT_SHOWN, Status.PARTLY]),
        (manifest(K | {"passed": False}), [Status.NOT_SHOWN] * 3),
        (manifest(K, L | {"passed": False}), [Status.NOT_SHOWN] * 3),
    ],
)
def test_the_status_follows_what_was_measured(given: dict[str, Any], expected: list[Status]) -> None:
    assert wp29(given) == expected


@pytest.mark.parametrize(("epsilon", "status"), [(1.0, Status.SHOWN), (5.0, Status.PARTLY)])
def test_a_large_epsilon_answers_in_part(epsilon: float, status: Status) -> None:
    loss = {"epsilon": epsilon, "delta": 0.0, "neighbours": "replace_person"}
    assert wp29(manifest(loss=loss)) == [status] * 3
    assert by_name(manifest(loss=loss))["Formal privacy guarantee"].status is status
    failed = by_name(manifest(K | {"passed": False}, loss=loss))
    assert failed["Formal privacy guarantee"].status is Status.NOT_SHOWN


@pytest.mark.parametrize(
    ("more", "hidden"),
    [
        ({}, False),
        ({"loss": {"epsilon": 1.0, "delta": 0.0, "neighbours": "replace_one"}}, True),
        ({"person": {"column": "patient"}}, True),  # records are not people
    ],
)
def test_sizes_of_classes_are_shown_where_each_record_is_a_person(more: dict[str, Any], hidden: bool) -> None:
    assert hides_counts(Manifest.from_dict(manifest(K, **more))) is hidden


def test_an_attack_that_kept_its_bound_is_reported_and_makes_no_status_better() -> None:
    policy = {"require": [{"model": "k_anonymity", "k": 5}, INFERENCE]}
    reported = by_name(manifest(K, TRIED, policy=policy))
    assert reported["Inference"].status is Status.NOT_SHOWN
    assert any("kept its bound: an excess of 0.1" in text for text in reported["Inference"].says)
    assert reported["Re-identification studies"].status is Status.PARTLY
    failed = by_name(manifest(K, TRIED | {"passed": False}, policy=policy))
    assert any("did NOT keep" in text for text in failed["Inference"].says)
    assert failed["Singling out"].status is Status.NOT_SHOWN
    missing = by_name(manifest(K, policy=policy))
    assert any("not on record" in text for text in missing["Inference"].says)


def test_what_a_person_must_say_is_never_shown() -> None:
    reported = [answer for answer in answers(Manifest.from_dict(manifest(K, L))) if answer.standard == HIPAA]
    assert reported[0].status is Status.PERSON
    assert "person with appropriate knowledge" in " ".join(reported[0].says)


@pytest.mark.parametrize(
    ("approval", "status"),
    [
        (None, Status.NOT_SHOWN),
        ({"by": "x", "at": "2026-01-01", "automatic": True}, Status.NOT_SHOWN),
        ({"by": "x", "at": "2026-01-01", "automatic": False}, Status.SHOWN),
    ],
)
def test_a_review_counts_where_someone_answered(approval: dict[str, Any] | None, status: Status) -> None:
    given = manifest(K) | ({} if approval is None else {"approval": approval})
    assert by_name(given)["Review by a disclosure review board"].status is status


def test_every_answer_has_grounds() -> None:
    for given in (manifest(), manifest(K, L)):
        found = answers(Manifest.from_dict(given))
        assert {answer.standard for answer in found} == {WP29, HIPAA, NIST}
        assert all(answer.says and all(answer.says) for answer in found)


def test_shadows_are_named_where_the_attack_is_and_each_rule_of_an_attack_is_reported() -> None:
    rules = [
        AttackRisk(attack=AttackName.MEMBERSHIP, excess=0.2),
        AttackRisk(attack=AttackName.MEMBERSHIP, excess=0.3, shadows=8),
    ]
    policy = {"require": [{"model": "k_anonymity", "k": 5}, *map(model_to_dict, rules)]}
    tried = [TRIED | {"rule": rule_of(rule)} for rule in rules]
    alone, shadowed = (
        t for t in by_name(manifest(K, *tried, policy=policy))["Inference"].says if "membership" in t
    )
    assert "an excess of 0.2" in alone
    assert "shadow" not in alone
    assert "membership, by 8 shadow releases of people who were held out, tried on exactly these" in shadowed
    assert "kept its bound: an excess of 0.3" in shadowed
