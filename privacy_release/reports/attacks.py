"""The sections of reports about attacks on a release.

The curator's own report has exact figures, which must not be published. The published report states for each
attack that it met its bound, and gives a figure only if the manifest does.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privacy_release.reports.charts import Scale, interval
from privacy_release.reports.release import ATTACKS_PLACE, page_template
from privacy_release.reports.text import signed

if TYPE_CHECKING:
    from privacy_engine.attacks.trial import AttackOutcome, Results
    from privacy_engine.verification.attack_risk import AttackRisk
    from privacy_release.workarea.references import TrialRef

_MARGIN = 0.04  # of a plot, outside of its outermost figure
ABOUT = {
    "singling_out": "A predicate read off the release is true of exactly one person.",
    "linkage": "Someone who knows part of a person's record finds the rest in the release.",
    "inference": "Someone who knows a person's quasi-identifiers guesses the sensitive value.",
    "membership": "Someone distinguishes people in the release from people who are not in it.",
    "intersection": "Someone who has earlier releases looks for a person in all of the person's classes.",
    "difference": "Someone who has earlier releases subtracts them for the values of those who came or left.",
    "minimality": "Someone who knows the rules of the release infers why its classes are not finer.",
}


def about(attack: str, shadows: int | None) -> str:
    """Describe in words what an attack tries.

    Args:
        attack: Name of the attack.
        shadows: Number of shadow releases that the attack learns from. None if it uses none.
    """
    learned = f" They learn from {shadows} releases that the same method made of other people."
    return ABOUT.get(attack, "") + (learned if shadows else "")


def figures_of(outcome: "AttackOutcome") -> dict[str, Any]:
    """Return the results of an attack on one subject as plain values."""
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
    """Return the figures of an attack for a manifest: no rates, and the interval rounded outwards.

    Args:
        rule: Rule that the attack was tried for.
        outcomes: Outcomes from `figures_of`.
    """
    return {
        "attack": rule.attack.value,
        "bound": rule.excess,
        "confidence": rule.confidence,
        "outcomes": [
            {
                "subject": o["subject"],
                "excess": round(o["excess"], 2) + 0.0,  # no -0.0
                "low": math.floor(o["low"] * 100) / 100,
                "high": min(1.0, math.ceil(o["high"] * 100) / 100),
            }
            for o in outcomes
        ],
    }


def plotted(outcomes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add texts and charts of one common scale to outcomes.

    >>> about = {"attack": "inference", "subject": "illness", "bound": 0.3}
    >>> (one,) = plotted([about | {"excess": 0.02, "low": -0.1, "high": 0.1}])
    >>> one["text"], round(one["chart"].nothing), round(one["chart"].bound)
    ('0.02 (-0.10 to 0.10)', 27, 96)

    Args:
        outcomes: Attack, subject, bound, excess, low and high of each.
    """
    least: float = min([0.0, *(o["low"] for o in outcomes)])
    most: float = max([0.0, *(max(o["high"], o["bound"]) for o in outcomes)])
    margin = _MARGIN / (1 - 2 * _MARGIN) * ((most - least) or 1.0)
    scale = Scale(low=least - margin, high=most + margin)

    def drawn(o: Mapping[str, Any]) -> dict[str, Any]:
        text = f"{signed(o['excess'])} ({signed(o['low'])} to {signed(o['high'])})"
        chart = interval(
            o["low"],
            o["excess"],
            o["high"],
            scale=scale,
            nothing=0.0,
            bound=o["bound"],
            label=f"Excess risk {text}, bound {o['bound']:g}",
        )
        return {**o, "text": text, "chart": chart}

    return [drawn(o) for o in outcomes]


def with_attacks(report: str, trials: "Sequence[TrialRef]") -> str:
    """Add the public results of attacks to a published report.

    For a trial without published figures, these are only its attack and its bound.

    Args:
        report: Report from `render`.
        trials: Trials of attacks, each of which met its bound.
    """
    outcomes = [
        {"attack": t.attack, "bound": t.bound, **outcome} for t in trials for outcome in t.published_outcomes
    ]
    drawn = iter(plotted(outcomes))
    section = page_template("attacked.html.j2").render(
        figures=bool(outcomes),
        rules=[
            {
                "attack": t.attack,
                "about": about(t.attack, t.shadows),
                "bound": t.bound,
                "published": t.publishes_figures,
                "outcomes": [next(drawn) for _ in t.published_outcomes],
            }
            for t in trials
        ],
    )
    return report.replace(ATTACKS_PLACE, section, 1)


def attack_page(
    found: "Sequence[tuple[AttackRisk, Results]]", *, title: str, release_id: str, targets: int
) -> str:
    """Return the curator's report on attacks as HTML.

    Args:
        found: Each rule of the policy with the results of its attack.
        title: Title of the release.
        release_id: ID of the release.
        targets: Number of people who were attacked.
    """
    return page_template("attacks.html.j2").render(
        title=title,
        release_id=release_id,
        targets=targets,
        rules=[
            {
                "attack": rule.attack.value,
                "about": about(rule.attack.value, rule.shadows),
                "bound": rule.excess,
                "confidence": rule.confidence,
                "outcomes": [{**figures_of(o), "kept": o.within(rule.excess)} for o in results.outcomes],
            }
            for rule, results in found
        ],
    )
