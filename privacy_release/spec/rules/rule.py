"""A rule: its ID, the facts that it needs, and its check."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from privacy_engine.errors import BudgetExceededError, PrivacyEngineError, Problem, SpecError
from privacy_release.spec.rules.facts import NAMES, Facts

Check = Callable[[Facts], Iterable[Problem | str]]


@dataclass(frozen=True)
class Rule:
    """A condition on every release whose facts are known.

    Attributes:
        id: Name of the rule in the documentation and in tests.
        needs: Names of the facts that it needs.
        check: Function that returns the problems. A plain sentence begins with the field that it is about.
        error: Error that is raised if nothing else is wrong, so that a caller can act on it.
    """

    id: str
    needs: tuple[str, ...]
    check: Check
    error: type[PrivacyEngineError] = SpecError

    @property
    def lasting(self) -> bool:
        """Whether a problem must be corrected. Otherwise it may disappear, like a budget that is used up."""
        return self.error is not BudgetExceededError

    def problems(self, facts: Facts) -> Iterator[Problem]:
        """Yield the problems. The facts that the rule needs must be known."""
        for found in self.check(facts):
            yield Problem(text=found) if isinstance(found, str) else found


class Rules(list[Rule]):
    """The rules of a module, in the order in which problems are reported."""

    def rule(
        self, name: str, *needs: str, error: type[PrivacyEngineError] = SpecError
    ) -> Callable[[Check], Check]:
        """Add a function as the rule of an ID.

        Raises:
            ValueError: If it needs something that is not a fact.
        """
        if unknown := sorted(set(needs) - set(NAMES)):
            raise ValueError(f"{name}: {unknown} are no facts; see Facts")

        def added(check: Check) -> Check:
            self.append(Rule(name, needs, check, error))
            return check

        return added
