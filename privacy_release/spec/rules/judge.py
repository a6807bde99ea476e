"""Holding what is known of a release against all rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from privacy_engine.errors import PrivacyEngineError, Problem, ProblemsError, SpecError
from privacy_release.config.problems import raise_problems
from privacy_release.spec.rules import attacks, columns, deployment, people, policy, spending, tables
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    *tables.RULES,
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
    """What is wrong, and which rules were not judged.

    Attributes:
        problems: in the order of the rules, those that must be mended.
        for_now: those that may pass, such as a budget that is used up until next year.
        unjudged: by the id of a rule, the facts that were not known.
        errors: of the rules that are broken.
    """

    problems: tuple[Problem, ...]
    for_now: tuple[Problem, ...]
    unjudged: Mapping[str, tuple[str, ...]]
    errors: frozenset[type[PrivacyEngineError]] = frozenset()

    def refuse(self, found: Iterable[Problem] = ()) -> None:
        """Refuse a release that breaks a rule.

        Args:
            found: what is wrong beside.

        Raises:
            PrivacyEngineError: with all that is wrong: a ProblemsError, but where all rules that are broken
                have another error.
        """
        beside, own = tuple(found), (*self.problems, *self.for_now)
        if not beside and len(self.errors) == 1 and self.errors != {SpecError}:
            raise next(iter(self.errors))(str(ProblemsError(own)))
        raise_problems((*beside, *own))


def judged(facts: Facts, must: tuple[str, ...] = ()) -> Judged:
    """Hold facts against all rules that they suffice for.

    Args:
        facts: what is known.
        must: what must be known; it is a problem that it is not.
    """
    problems = [Problem(text=_MISSING[name], path=(name,)) for name in facts.missing(must)]
    errors: set[type[PrivacyEngineError]] = {SpecError} if problems else set()
    for_now, unjudged = list[Problem](), {}
    for rule in RULES:
        if missing := facts.missing(rule.needs):
            unjudged[rule.id] = missing
        elif found := list(rule.problems(facts)):
            (problems if rule.lasting else for_now).extend(found)
            errors.add(rule.error)
    return Judged(
        problems=tuple(problems), for_now=tuple(for_now), unjudged=unjudged, errors=frozenset(errors)
    )


def refuse(facts: Facts, must: tuple[str, ...] = ()) -> None:
    """Refuse a release that breaks a rule, see `judged` and `Judged.refuse`."""
    judged(facts, must).refuse()
