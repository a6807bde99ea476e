"""Holding what is known of a release against all rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from privacy_engine.errors import Problem
from privacy_release.spec.rules import attacks, columns, deployment, people, policy, spending
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rule
from privacy_release.work.problems import raise_problems

RULES: tuple[Rule, ...] = (
    *people.RULES,
    *columns.RULES,
    *spending.RULES,
    *policy.RULES,
    *attacks.RULES,
    *deployment.RULES,
)
# What is said where a fact must be known and is not.
_MISSING = {
    "policy": "policy must be given where a budget pays, for a release that it refuses must not be paid for; "
    "name the policy that the release is verified against",
}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is wrong, and which rules were not judged: by id, the facts that were not known."""

    problems: tuple[Problem, ...]
    unjudged: Mapping[str, tuple[str, ...]]


def judged(facts: Facts, must: tuple[str, ...] = ()) -> Judged:
    """Hold facts against all rules that they suffice for.

    Args:
        facts: what is known.
        must: what must be known; it is a problem that it is not.
    """
    problems = [Problem(text=_MISSING[name], path=(name,)) for name in facts.missing(must)]
    unjudged = {}
    for rule in RULES:
        if missing := facts.missing(rule.needs):
            unjudged[rule.id] = missing
        else:
            problems += rule.problems(facts)
    return Judged(problems=tuple(problems), unjudged=unjudged)


def refuse(facts: Facts, must: tuple[str, ...] = ()) -> None:
    """Refuse a release that breaks a rule, see `judged`.

    Raises:
        ProblemsError: with all that is wrong.
    """
    raise_problems(judged(facts, must).problems)
