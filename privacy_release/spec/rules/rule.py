"""A rule: its id, the facts that it needs, and what it finds."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from privacy_engine.errors import BudgetExceededError, PrivacyEngineError, Problem, SpecError
from privacy_release.spec.rules.facts import NAMES, Facts

Check = Callable[[Facts], Iterable[Problem | str]]


@dataclass(frozen=True)
class Rule:
    """What must hold of every release of which the facts are known.

    Attributes:
        id: names it in the documentation and in tests.
        needs: names of facts.
        check: what is wrong by these facts. A sentence alone begins with the field that it is about.
        error: what is raised where nothing else is wrong; a caller acts on it.
    """

    id: str
    needs: tuple[str, ...]
    check: Check
    error: type[PrivacyEngineError] = SpecError

    @property
    def lasting(self) -> bool:
        """Whether it must be mended; otherwise it may pass, as a budget that is used up for now."""
        return self.error is not BudgetExceededError

    def problems(self, facts: Facts) -> Iterator[Problem]:
        """What is wrong; the facts that the rule needs must be known."""
        for found in self.check(facts):
            yield Problem(text=found) if isinstance(found, str) else found


class Rules(list[Rule]):
    """The rules of a module, in the order in which they are told."""

    def rule(
        self, name: str, *needs: str, error: type[PrivacyEngineError] = SpecError
    ) -> Callable[[Check], Check]:
        """Add a function as the rule of that id.

        Raises:
            ValueError: if it needs something that is no fact.
        """
        if unknown := sorted(set(needs) - set(NAMES)):
            raise ValueError(f"{name}: {unknown} are no facts; see Facts")

        def added(check: Check) -> Check:
            self.append(Rule(name, needs, check, error))
            return check

        return added
