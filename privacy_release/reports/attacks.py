"""What reports tell of the attacks that were tried on a release.

The curator's own report has exact figures, which are not to be published. The published report tells of each
attack that it kept its bound, and a figure only where the manifest does.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privacy_release.reports.charts import Scale, interval
from privacy_release.reports.release import ATTACKS_PLACE, page_template
from privacy_release.reports.text import signed

if TYPE_CHECKING:
    from privacy_engine.attacks.trial import Outcome, Results
    from privacy_engine.verification.attack_risk import AttackRisk
    from privacy_release.workarea.references import TrialRef

_MARGIN = 0.04  # of a plot, beyond its outermost figure
ABOUT = {
    "singling_out": "A predicate read off the release is true of exactly one person.",
    "linkage": "Somebody who knows a part of a person finds the rest in the release.",
    "inference": "Somebody who knows a person's quasi-identifiers guesses the sensitive value.",
    "membership": "Somebody tells people in the release from people who are not.",
    "intersection": "Somebody who has earlier releases looks for a person in all of the person's classes.",
    "difference": "Someone who has earlier releases subtracts them for the values of who came or left.",
    "minimality": "Somebody who knows the rules of the release infers why its classes are not finer.",
}


def about(attack: str, shadows: int | None) -> str:
    """What an attack tries, in words.

    Args:
        attack: its name.
        shadows: how many shadow releases it learns from, if it does.
    """
    learned = f" They learn from {shadows} releases that the same method made of other people."
    return ABOUT.get(attack, "") + (learned if shadows else "")


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
                "excess": round(o["excess"], 2) + 0.0,  # no -0.0
                "low": math.floor(o["low"] * 100) / 100,
                "high": min(1.0, math.ceil(o["high"] * 100) / 100),
            }
            for o in outcomes
        ],
    }


def plotted(outcomes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Outcomes with their figures as text, and as charts of one scale.

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
    """A published report with what everybody may know of the attacks that were tried on its release.

    Of a trial without published figures that is its attack and its bound alone.

    Args:
        report: of `render_report`.
        trials: each of them kept its bound.
    """
    told = [
        {"attack": t.attack, "bound": t.bound, **outcome}
        for t in trials
        for outcome in (t.published["outcomes"] if t.published else ())
    ]
    drawn = iter(plotted(told))
    section = page_template("attacked.html.j2").render(
        figures=bool(told),
        rules=[
            {
                "attack": t.attack,
                "about": about(t.attack, t.shadows),
                "bound": t.bound,
                "published": t.published is not None,
                "outcomes": [next(drawn) for _ in t.published["outcomes"]] if t.published else [],
            }
            for t in trials
        ],
    )
    return report.replace(ATTACKS_PLACE, section, 1)


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
                "about": about(rule.attack.value, rule.shadows),
                "bound": rule.excess,
                "confidence": rule.confidence,
                "outcomes": [{**figures_of(o), "kept": o.within(rule.excess)} for o in results.outcomes],
            }
            for rule, results in found
        ],
    )
