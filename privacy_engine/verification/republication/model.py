"""The policy model for releases of the same people over time: what each named attacker is left with.

Policies are read when DAGs are parsed, so the modules that measure are imported only for measuring.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError, VerificationError
from privacy_engine.verification.models import (
    BetaLikeness,
    DeltaDisclosure,
    SensitiveModel,
    TCloseness,
    model_from_dict,
)

if TYPE_CHECKING:  # they load pandas
    from privacy_engine.tables.classes import EquivalenceClasses
    from privacy_engine.verification.cross_release import History
    from privacy_engine.verification.republication.left import GroupsLeft, Left

Floats = npt.NDArray[np.float64]


class Attacker(StrEnum):
    """What an attacker who has all releases of a table knows in addition."""

    IDENTITY = "identity"  # one person's quasi-identifiers, and which releases the person is in
    MEMBERSHIP = "membership"  # the same about every person
    DIFFERENCE = "difference"  # membership, and subtracts one release from another
    POPULATION = "population"  # the quasi-identifiers of a whole population at every time, not who left
    CORRECTION = "correction"  # difference, and whose record was corrected


DEFAULT_ATTACKERS = tuple(a for a in Attacker if a is not Attacker.POPULATION)
DEFAULT_WINDOW = 8


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the attackers are left with, by person and by attacker.

    Attributes:
        per_person: Fewest persons among whom an attacker still finds each one of the new release, shape (n,),
            or in a group of arrivals or departures by which the person's classes reveal them; 0 if fewer
            sensitive values are left than required.
        least: The number of the worst person, by attacker; empty for a release without persons.
        unjudged: Attacker, or part of an attacker's knowledge -> why it was not judged.
        population: Population of the attacker `population`, in words; empty if not judged.
    """

    per_person: Floats
    least: Mapping[Attacker, float]
    unjudged: Mapping[str, str]
    population: str = ""

    @property
    def sentence(self) -> str:
        """Say what was judged and what was not."""
        judged = ", ".join(f"{attacker} {number:g}" for attacker, number in self.least.items())
        reasons: dict[str, list[str]] = {}
        for what, why in self.unjudged.items():
            reasons.setdefault(why, []).append(what)
        not_judged = "; ".join(f"{', '.join(whats)} ({why})" for why, whats in reasons.items())
        population = f"; the population is {self.population}" if self.population else ""
        return f"persons left to each attacker: {judged or 'none judged'}{population}" + (
            f"; not judged: {not_judged}" if not_judged else ""
        )


@dataclass(frozen=True, kw_only=True)
class Republication:
    """No named attacker who has all releases is left with fewer than k persons or m sensitive values.

    When two releases are subtracted, an attacker learns the values of arrivals and of departures together.
    Each such group must be empty or have at least k persons with at least m values. If a person may have
    several records, m counts sets of values as well: those that remain possible for each person of the group,
    and the different ones that its persons have.

    Attributes:
        k: Least number of persons, >= 2.
        m: Least number of distinct values of a sensitive attribute, >= 2; None: values are not judged.
        attribute: Name of the sensitive attribute; None for each of the table's.
        attackers: Any of identity, membership, difference, population and correction; all but population by
            default.
        window: Number of earlier releases, the newest ones, from each of which the new one is subtracted.
        groups: Further models of sensitive values that each group of arrivals and of departures must satisfy,
            measured against the whole new release.

    >>> Republication(k=1)
    Traceback (most recent call last):
    ValueError: k must be a whole number >= 2, got 1
    """

    k: int
    m: int | None = None
    attribute: str | None = None
    attackers: tuple[Attacker, ...] = DEFAULT_ATTACKERS
    window: int = DEFAULT_WINDOW
    groups: tuple[SensitiveModel, ...] = ()
    name: ClassVar[str] = "republication"

    def __post_init__(self) -> None:
        _require_whole("k", self.k, 2)
        _require_whole("window", self.window, 1)
        if self.m is not None:
            _require_whole("m", self.m, 2)
        given: object = self.attackers
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise ValueError(f"attackers must be a list of at least one attacker, got {given!r}")
        chosen = {choice(Attacker, attacker, "attackers") for attacker in given}
        object.__setattr__(self, "attackers", tuple(a for a in Attacker if a in chosen))
        object.__setattr__(self, "groups", tuple(_models(self.groups)))

    @property
    def threshold(self) -> float:
        """k."""
        return float(self.k)

    @property
    def subtracts(self) -> bool:
        """Whether an attacker is named who subtracts one release from another."""
        return bool({Attacker.DIFFERENCE, Attacker.CORRECTION} & set(self.attackers))

    def per_person(self, history: History, classes: EquivalenceClasses) -> Floats:
        """(n,) the fewest persons left to an attacker, 0 if too few values are; see `Judgement`."""
        return self.judge(history, classes).per_person

    def judge(self, history: History, classes: EquivalenceClasses) -> Judgement:
        """Measure what each of the attackers is left with.

        Args:
            history: New release, with the values of its persons, and the earlier ones. The population is that
                of their registers if each has one, else all of their persons.
            classes: Classes of the new release, counterfeits included.

        Raises:
            SchemaError: If values are required and the release has no such sensitive attribute, or `groups`
                is set for a table in which a person may have several records.
        """
        if self.groups and history.new.people is not None:
            raise SchemaError(
                "groups cannot be judged if a person may have several records, because the persons "
                "of the values of departures are not kept. Remove groups from the model"
            )
        names = self._attributes(classes)
        unjudged = self._unjudged(history, names)
        found = self._of_intersections(history, names, unjudged)
        found |= self._of_pairs(history, classes, names)
        found = {attacker: numbers for attacker, numbers in found.items() if attacker not in unjudged}
        n = len(history.new)
        # No policy names this attacker by default, so a policy that names it fails if it cannot be judged.
        silent = Attacker.POPULATION in self.attackers and Attacker.POPULATION not in found
        return Judgement(
            per_person=np.zeros(n) if silent or not found else np.minimum.reduce([*found.values()]),
            least={a: float(found[a].min()) for a in self.attackers if a in found and n},
            unjudged=unjudged,
            population=_population(history) if Attacker.POPULATION in found else "",
        )

    def _of_intersections(
        self,
        history: History,
        names: Sequence[str],
        unjudged: dict[str, str],
    ) -> dict[Attacker, Floats]:
        """Judge the attackers who do not subtract, and note what is not judged."""
        from privacy_engine.verification.republication.left import by_intersection
        from privacy_engine.verification.republication.population import candidates

        if not {Attacker.IDENTITY, Attacker.MEMBERSHIP, Attacker.POPULATION} & set(self.attackers):
            return {}
        one, everybody = by_intersection(history, names if self.m is not None else ())
        found = {Attacker.IDENTITY: self._kept(one), Attacker.MEMBERSHIP: self._kept(everybody)}
        if Attacker.POPULATION in self.attackers:
            try:
                hidden = [candidates(history, history.registers, arrivals=known) for known in (False, True)]
                found[Attacker.POPULATION] = np.minimum.reduce([found[Attacker.IDENTITY], *hidden])
            except VerificationError as error:
                unjudged[Attacker.POPULATION] = str(error)
        return {attacker: numbers for attacker, numbers in found.items() if attacker in self.attackers}

    def _of_pairs(
        self, history: History, classes: EquivalenceClasses, names: Sequence[str]
    ) -> dict[Attacker, Floats]:
        """Judge the attackers who subtract."""
        from privacy_engine.verification.republication.left import subtractions

        attackers = [a for a in (Attacker.DIFFERENCE, Attacker.CORRECTION) if a in self.attackers]
        if Attacker.CORRECTION not in attackers and self.m is None and not self.groups:
            names = ()
        sizes = history.new.sizes[history.new.labels].astype(np.float64)
        found: dict[Attacker, Floats] = dict.fromkeys(attackers, sizes)
        for pair in subtractions(history, classes, names, window=self.window) if attackers else ():
            kept = {}
            for knows in {attacker is Attacker.CORRECTION and pair.corrected for attacker in attackers}:
                kept[knows] = self._kept(pair.left(self.m or 1, corrections=knows))
            for attacker in attackers:
                own = kept[attacker is Attacker.CORRECTION and pair.corrected]
                found[attacker] = np.minimum(found[attacker], own)
        return found

    def _kept(self, left: Left) -> Floats:
        """(n,) persons left, 0 if too few values are."""
        found = left.persons.astype(np.float64)
        if self.m is not None:
            for values in left.values.values():
                found[values < self.m] = 0.0
        for groups in left.groups:
            here = np.flatnonzero(groups.place >= 0)
            numbers = self._of_groups(groups)
            found[here] = np.minimum(found[here], numbers[groups.place[here]])
        return found

    def _of_groups(self, groups: GroupsLeft) -> Floats:
        """(g,) persons of each group, 0 if it misses a model of values."""
        found = groups.sizes.astype(np.float64)
        if self.m is not None:
            for values in groups.values.values():
                found[values < self.m] = 0.0
        for model in self.groups:
            names = [n for n in groups.counted.sensitive if model.attribute in (None, n)]
            for name in names if len(found) else ():
                numbers = _numbers(model, groups, name)
                found[~model.allowed(numbers)] = 0.0
        return found

    def _attributes(self, classes: EquivalenceClasses) -> tuple[str, ...]:
        every = tuple(classes.sensitive)
        names = every if self.attribute is None else (self.attribute,)
        about_values = self.m is not None or self.groups
        if not set(names) <= set(every) or (about_values and not every):
            raise SchemaError(
                f"{self.name} requires a sensitive attribute, the table has {sorted(every)}. Name one "
                "of them, or give one attribute that role"
            )
        return names

    def _unjudged(self, history: History, names: Sequence[str]) -> dict[str, str]:
        """Return what is not judged, and why."""
        found = {
            attacker.value: "not named by the policy"
            for attacker in Attacker
            if attacker not in self.attackers
        }
        window = history.earlier[-self.window :]
        without = sum(any(name not in r.counts for name in names) for r in history.earlier)
        recent = sum(any(name not in r.counts for name in names) for r in window)
        silent = sum(any(name not in r.values for name in names) for r in window)
        about_values = self.m is not None or self.groups
        subtracts = {Attacker.DIFFERENCE, Attacker.CORRECTION} & set(self.attackers)
        if about_values and without and {Attacker.IDENTITY, Attacker.MEMBERSHIP} & set(self.attackers):
            found["values left by intersection"] = f"not kept by {without} earlier releases"
        if about_values and recent and subtracts:
            found["differences: values of departures"] = f"not kept by {recent} earlier releases"
        if Attacker.CORRECTION in self.attackers and names and silent == len(window) > 0:
            found[Attacker.CORRECTION] = "no earlier release keeps the values of persons"
        elif Attacker.CORRECTION in self.attackers and names and silent:
            found["corrections"] = f"the values of persons are not kept by {silent} earlier releases"
        older = len(history.earlier) - len(window)
        if older and subtracts:
            found["differences from older releases"] = f"{older} releases before the window"
        return found


def subtracting(models: Iterable[object]) -> bool:
    """Return whether a model names an attacker who subtracts one release from another."""
    return any(isinstance(m, Republication) and m.subtracts for m in models)


def window_of(models: Iterable[object], attacker: Attacker) -> int:
    """Return the earlier releases in the window of the models that name an attacker; 0 if none does."""
    named = (m for m in models if isinstance(m, Republication) and attacker in m.attackers)
    return max((model.window for model in named), default=0)


REPUBLICATION_MODELS: Mapping[str, type[Any]] = {Republication.name: Republication}


def _numbers(model: SensitiveModel, groups: GroupsLeft, name: str) -> Floats:
    """(g,) the number that a model measures on each group.

    A group with a value that the whole new release lacks is infinitely far from it.
    """
    counts, hierarchy = groups.counted.counts(name), groups.counted.sensitive[name].hierarchy
    foreign = counts.prior[counts.values] == 0
    if isinstance(model, TCloseness) and hierarchy is not None:  # such values are not in the tree
        known = replace(
            counts,
            classes=counts.classes[~foreign],
            values=counts.values[~foreign],
            counts=counts.counts[~foreign],
            starts=np.searchsorted(counts.classes[~foreign], np.arange(len(counts.sizes))),
            prior=counts.prior[: len(hierarchy.values)],
        )
        numbers = model.per_class(known, hierarchy)
    else:
        with np.errstate(divide="ignore"):
            numbers = model.per_class(counts, hierarchy)
    if isinstance(model, TCloseness | BetaLikeness | DeltaDisclosure):
        numbers[counts.classes[foreign]] = np.inf
    return numbers


def _population(history: History) -> str:
    """Describe the population in words."""
    without = sum(release.register is None for release in history.earlier)
    if history.registers:
        return "the register of each release"
    if history.new.register is not None:
        return f"all persons of all releases, for {without} earlier releases have no register"
    return "all persons of all releases"


def _models(given: object) -> Iterator[SensitiveModel]:
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ValueError("groups must be a list of models, each a mapping with `model`")
    for entry in given:
        model = entry if isinstance(entry, SensitiveModel) else model_from_dict(entry)
        if not isinstance(model, SensitiveModel):
            raise ValueError(f"groups must be models of sensitive values, got {model.name}")
        yield model


def _require_whole(symbol: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise ValueError(f"{symbol} must be a whole number >= {least}, got {given}")
