"""Check the facts about a release against all rules."""

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
# Messages for facts that must be known but are not.
_MISSING = {
    "policy": "policy must be given if a budget pays, since a release that it refuses must not be paid for; "
    "name the policy that the release is verified against",
}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The broken rules, and the rules that were not judged.

    Attributes:
        problems: Problems that must be corrected, in the order of the rules.
        for_now: Problems that may disappear, such as a budget that is used up until next year.
        unjudged: Unknown facts, by the ID of the rule that needs them.
        errors: Error types of the broken rules.
    """

    problems: tuple[Problem, ...]
    for_now: tuple[Problem, ...]
    unjudged: Mapping[str, tuple[str, ...]]
    errors: frozenset[type[PrivacyEngineError]] = frozenset()

    def refuse(self, found: Iterable[Problem] = ()) -> None:
        """Raise if a rule is broken.

        Args:
            found: Further problems to report.

        Raises:
            PrivacyEngineError: With all problems. A ProblemsError, unless all broken rules have another type
                of error.
        """
        beside, own = tuple(found), (*self.problems, *self.for_now)
        if not beside and len(self.errors) == 1 and self.errors != {SpecError}:
            raise next(iter(self.errors))(str(ProblemsError(own)))
        raise_problems((*beside, *own))


def judged(facts: Facts, must: tuple[str, ...] = ()) -> Judged:
    """Check facts against all rules for which they suffice.

    Args:
        facts: Facts about the release.
        must: Names of facts that must be known. A missing one is a problem.
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
    """Raise if a release breaks a rule, see `judged` and `Judged.refuse`."""
    judged(facts, must).refuse()
