"""Trial of an attack on a release: main attack, control, naive baseline, and a planted leak that it must see.

Giomi, M., Boenisch, F., Wehmeyer, C., Tasnadi, B.: A Unified Framework for Quantifying Privacy Risk in
Synthetic Data. PoPETs 2023 (Anonymeter). An attack guesses about people who are in the release (main), and in
the same way about people of the same population who are not (control). What it gets right about the latter is
what the release reveals about the population. The excess risk is what it gets right beyond that, as a share
of what was left to get right: ``(main - control) / (1 - control)``, section 4.3. The baseline guesses without
the release. If it is right more often than the control, it replaces the control, because an attack that is no
better has failed.

Deviations: the interval of the excess is that of the ratio of the two failure rates, by the method of
variance estimates recovery (Donner and Zou 2012) from two Wilson intervals, because the paper's propagation
of errors is wrong near 0 and 1. And **each attack is also run on a copy of the release into which the true
records of the targets are put**: if it does not see this leak, it is blind on these tables, and its result
means nothing.

**An attack never certifies.** It shows a leak, or that this attacker found none; a better attacker may.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import NormalDist
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd

from privacy_engine.attacks.cells import Bools, Cells, Ints, Space, read
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.models import PrivacyModel

TARGETS = 2_000  # people that are attacked, and most outsiders


class Verdict(StrEnum):
    """The result of an attack on a release."""

    LEAK = "leak"  # more than chance explains
    QUIET = "quiet"  # this attacker learns no more about people in the release than about others
    BLIND = "blind"  # the attack does not even see a planted leak, so nothing is known


@dataclass(frozen=True, kw_only=True)
class Rate:
    """The success rate of guesses.

    >>> Rate(right=0, tries=100).interval(0.95)[1] < 0.04
    True
    """

    right: float
    tries: float

    @classmethod
    def of(cls, right: Bools) -> "Rate":
        """Count guesses, each of which is right or not."""
        return cls(right=float(right.sum()), tries=len(right))

    @property
    def value(self) -> float:
        """Share of right guesses; nan without guesses."""
        return self.right / self.tries if self.tries else float("nan")

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return Wilson's interval (1927), two-sided; 0 to 1 without guesses."""
        if not self.tries:
            return 0.0, 1.0
        z2 = NormalDist().inv_cdf(0.5 + confidence / 2) ** 2
        n, p = self.tries, min(1.0, self.value)
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
        return max(0.0, middle - half), min(1.0, middle + half)

    def __add__(self, other: "Rate") -> "Rate":
        return Rate(right=self.right + other.right, tries=self.tries + other.tries)


@dataclass(frozen=True, kw_only=True)
class Tries:
    """Results of an attack on people in the release, on people outside, and without the release."""

    main: Rate
    control: Rate
    baseline: Rate

    @property
    def beside(self) -> Rate:
        """The rate that the main attack is compared with: the control, or the baseline if that is higher."""
        return self.baseline if self.baseline.value > self.control.value else self.control

    @property
    def excess(self) -> float:
        """``(main - control) / (1 - control)``; nan without guesses."""
        left = 1 - self.beside.value
        return 0.0 if left <= 0 else (self.main.value - self.beside.value) / left

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval of the excess, each end in -inf .. 1: 1 - R, R the ratio of the failure rates.

        With the failure rates p of the main attack and q of the control, and their Wilson limits,
        ``log R - sqrt(log(p/p_low)^2 + log(q_high/q)^2)`` is the lower end of log R, the upper one likewise
        (Donner and Zou 2012, equation 9). A rate of 0 counts as half a failure.
        """
        if not (self.main.tries and self.control.tries):
            return -math.inf, 1.0
        (p_low, p, p_high), (q_low, q, q_high) = (_failing(r, confidence) for r in (self.main, self.beside))
        ratio = math.log(p / q)
        least = ratio - math.hypot(math.log(p / p_low), math.log(q_high / q))
        most = ratio + math.hypot(math.log(p_high / p), math.log(q / q_low))
        top = 1.0 if self.main.right >= self.main.tries else 1 - math.exp(least)
        return 1 - math.exp(most), top


def _failing(rate: Rate, confidence: float) -> tuple[float, float, float]:
    """Return the failure rate between its limits, none of them 0."""
    low, high = rate.interval(confidence)
    p = max(1 - rate.value, 0.5 / rate.tries)
    return min(p, max(1 - high, 0.1 / rate.tries)), p, max(p, 1 - low)


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """A release that the same method made from some of the outsiders; see `privacy_engine.attacks.shadow`.

    Attributes:
        release: Released records, which are never published.
        inside: Whether each outsider's record was used.
    """

    release: pd.DataFrame
    inside: Ints


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything known about a release to run attacks on it; as private as the source.

    Attributes:
        release: Released records as they would be published.
        source: Schema of the source.
        people: True records that the release was made from, (n,).
        outsiders: Records of the same population that were not used.
        memberships: Classes of the people in the release, and in the earlier releases of the same table.
        answers: Releases of random answers of the same people, each in the order of `people`.
        register: Public records with quasi-identifiers, including those of `people`.
        shadows: Releases of the outsiders by the same method, from `shadow.shadows_of`.
        rules: Rules that the release was made to meet, known to the attacker.
    """

    release: pd.DataFrame
    source: DataSchema
    people: pd.DataFrame
    outsiders: pd.DataFrame
    memberships: tuple[Membership, ...] = ()
    answers: tuple[pd.DataFrame, ...] = ()
    register: pd.DataFrame | None = None
    shadows: tuple[Shadow, ...] = ()
    rules: tuple[PrivacyModel, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """Evidence read as cells, and the people who are attacked.

    Attributes:
        released: Released records, read as cells.
        people: True records that the release was made from.
        targets: Indexes of the people who are attacked, shape (t,).
        outsiders: People who are not in the release, in random order.
        register: Records of the public register; empty if there is none.
        listed_by: Indexes of the attributes in the register.
        leak: Whether a leak is planted.
    """

    space: Space
    source: DataSchema
    released: Cells
    people: Cells
    targets: Ints
    outsiders: Cells
    register: Cells
    listed_by: Ints
    evidence: Evidence
    leak: bool = False

    @property
    def attacked(self) -> Cells:
        """The records of the targets."""
        return self.people.take(self.targets)

    @property
    def control(self) -> Cells:
        """People who are not in the release, at most as many as the targets."""
        return self.outsiders.take(np.arange(min(len(self.outsiders), len(self.targets))))

    def planted(self, rng: np.random.Generator) -> "Case":
        """Return the case with the targets' true records replacing half of the release, or all of it."""
        some = self.released.sample(len(self.targets), rng)
        return replace(self, released=some.joined(self.attacked), leak=True)


def case_of(evidence: Evidence, rng: np.random.Generator, targets: int = TARGETS) -> Case:
    """Read evidence, and draw the targets.

    Raises:
        SchemaError: If the release has no attribute of the source.
    """
    people, outsiders = evidence.people, evidence.outsiders
    register = people.iloc[:0]
    if evidence.register is not None:  # attributes that it lacks are null, and are not used
        given, rows = evidence.register, range(len(evidence.register))
        columns = {
            name: given[name].set_axis(rows) if name in given else register[name].reindex(rows)
            for name in people.columns
        }
        register = pd.DataFrame(columns)
    space, (released, inside, outside, listed) = read(
        evidence.release, (people, outsiders, register), evidence.source
    )
    return Case(
        space=space,
        source=evidence.source,
        released=released,
        people=inside,
        targets=rng.permutation(len(inside))[:targets].astype(np.int64),
        outsiders=outside.take(rng.permutation(len(outside))),
        register=listed,
        listed_by=space.places([] if evidence.register is None else list(evidence.register.columns)),
        evidence=evidence,
    )


class Attack(Protocol):
    """A frozen, keyword-only dataclass of parameters with a single method."""

    name: ClassVar[str]

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run the attack by subject, such as a sensitive attribute; empty if there is no such subject."""


@dataclass(frozen=True, kw_only=True)
class AttackOutcome:
    """The result of one attack on one subject.

    Attributes:
        attack, subject: Name of the attack, and what it tried to learn.
        found, planted: Results on the release, and on the copy with the planted leak.
        confidence: Confidence of its intervals, such that those of all subjects of the attack hold together.
    """

    attack: str
    subject: str
    found: Tries
    planted: Tries
    confidence: float

    @property
    def excess(self) -> float:
        """Excess risk."""
        return self.found.excess

    @property
    def low(self) -> float:
        """Lower end of the interval of the excess."""
        return self.found.interval(self.confidence)[0]

    @property
    def high(self) -> float:
        """Upper end of the interval of the excess."""
        return self.found.interval(self.confidence)[1]

    @property
    def sees(self) -> bool:
        """Whether the attack sees the planted leak."""
        return self.planted.interval(self.confidence)[0] > 0

    @property
    def verdict(self) -> Verdict:
        """The conclusion from the result."""
        if not self.sees:
            return Verdict.BLIND
        return Verdict.LEAK if self.low > 0 else Verdict.QUIET

    def within(self, excess: float) -> bool:
        """Return whether the whole interval is below a limit, if the attack sees a larger planted leak."""
        return self.high <= excess < self.planted.interval(self.confidence)[0]


@dataclass(frozen=True, kw_only=True)
class Results:
    """The outcomes of an attack on all its subjects; empty if the release has no such subject."""

    attack: str
    outcomes: tuple[AttackOutcome, ...] = field(default=())

    @property
    def worst(self) -> AttackOutcome | None:
        """The outcome whose interval has the highest upper end."""
        return max(self.outcomes, key=lambda outcome: outcome.high, default=None)


def try_attack(attack: Attack, case: Case, rng: np.random.Generator, confidence: float = 0.95) -> Results:
    """Try an attack on a release, and on a copy with a planted leak.

    Args:
        attack: Attack to run.
        case: Release, the attacked people and what the attacker knows.
        rng: Source of randomness.
        confidence: Confidence of all intervals of the attack together (Bonferroni), 0 < confidence < 1.
    """
    found = attack.tries(case, rng)
    planted = attack.tries(case.planted(rng), rng) if found else {}
    each = 1 - (1 - confidence) / max(len(found), 1)
    return Results(
        attack=attack.name,
        outcomes=tuple(
            AttackOutcome(attack=attack.name, subject=s, found=f, planted=planted[s], confidence=each)
            for s, f in found.items()
        ),
    )
