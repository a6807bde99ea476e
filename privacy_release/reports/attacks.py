"""The curator's report on the attacks that were tried on a release: exact figures, not to be published."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privacy_release.reports.release import page_template

if TYPE_CHECKING:
    from privacy_engine.attacks.trial import Outcome, Results
    from privacy_engine.judge.attack_risk import AttackRisk

ABOUT = {
    "singling_out": "A predicate read off the release is true of exactly one person.",
    "linkage": "Somebody who knows a part of a person finds the rest in the release.",
    "inference": "Somebody who knows a person's quasi-identifiers guesses the sensitive value.",
    "membership": "Somebody tells people in the release from people who are not.",
    "intersection": "Somebody who has earlier releases looks for a person in all of the person's classes.",
}


def figures_of(outcome: "Outcome") -> dict[str, Any]:
    """What an attack found of one subject, plain values."""
    return {
        "subject": outcome.subject,
        "main": outcome.found.main.value,
        "control": outcome.found.control.value,
        "baseline": outcome.found.baseline.value,
        "excess": outcome.excess,
        "low": max(-1.0, outcome.low),
        "high": outcome.high,
        "planted": outcome.planted.excess,
        "verdict": outcome.verdict.value,
    }


def published_figures(rule: "AttackRisk", outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a manifest may tell of an attack: no rate, and the interval rounded outwards to hundredths.

    Args:
        rule: that the attack was tried for.
        outcomes: of `figures_of`.
    """
    return {
        "attack": rule.attack.value,
        "bound": rule.excess,
        "confidence": rule.confidence,
        "outcomes": [
            {
                "subject": o["subject"],
                "excess": round(o["excess"], 2),
                "low": math.floor(o["low"] * 100) / 100,
                "high": min(1.0, math.ceil(o["high"] * 100) / 100),
            }
            for o in outcomes
        ],
    }


def attack_page(
    found: "Sequence[tuple[AttackRisk, Results]]", *, title: str, release_id: str, targets: int
) -> str:
    """The report as HTML.

    Args:
        found: each rule of the policy, and what its attack found.
        title: of the release, for people.
        release_id: of this one.
        targets: people who were attacked.
    """
    return page_template("attacks.html.j2").render(
        title=title,
        release_id=release_id,
        targets=targets,
        rules=[
            {
                "attack": rule.attack.value,
                "about": ABOUT.get(rule.attack.value, ""),
                "bound": rule.excess,
                "confidence": rule.confidence,
                "outcomes": [{**figures_of(o), "kept": o.within(rule.excess)} for o in results.outcomes],
            }
            for rule, results in found
        ],
    )
