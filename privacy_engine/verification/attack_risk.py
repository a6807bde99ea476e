"""The most that an attack may gain on a release: a policy rule, checked by running the attack.

The attack itself is not a model of classes: it needs the true records, and people who were left out of the
release as a control group. So the rule cannot be measured from the released table only; then the report says
that the attack was not tried, see `privacy_engine.attacks`. **A release on which an attack gains nothing may
have no privacy at all**, so a policy must require a model as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from privacy_engine.choice import choice
from privacy_engine.vocabulary import AttackName

NOT_TRIED = (
    "an attack is tried while a release is made, with the true records and people who were left out of it. "
    "Run the release, or remove attack_risk from the policy"
)

# One shadow release does not show what is usual for a record outside of it. More than these cost too much.
FEWEST_SHADOWS, MOST_SHADOWS = 4, 32
_SHADOWS = (0, *range(FEWEST_SHADOWS, MOST_SHADOWS + 1, 2))


@dataclass(frozen=True, kw_only=True)
class AttackRisk:
    """An upper limit on the excess risk of an attack, at a confidence.

    The rule holds if the upper end of the interval is at most `excess`, and if the attack sees a planted leak
    larger than that. A small table cannot prove a small limit.

    Attributes:
        attack: Name of the attack.
        excess: Largest allowed ``(main - control) / (1 - control)``, 0 < excess < 1.
        confidence: Confidence of the interval, 0.5 <= confidence < 1.
        holdout: Share of the people who are left out of the release as the control group; above 0 and at most
            0.5. The largest of several rules counts.
        publish_figures: If true, the manifest contains the excess and its interval, rounded to hundredths.
            They are statistics of the true records, so they are never published for a differentially private
            or randomized release. If omitted, the manifest states that the limit was met, without figures.
        shadows: Number of shadow releases that the attack `membership` learns from, an even number from 4 to
            32. Each is a run of the method on a quarter of the people who were held out, of whom there must
            be 80. Omitted or 0: none.

    >>> AttackRisk(attack="inference", excess=1.5)
    Traceback (most recent call last):
    ValueError: excess must be above 0 and below 1, got 1.5
    """

    attack: AttackName
    excess: float
    confidence: float = 0.95
    holdout: float = 0.1
    publish_figures: Literal[True] | None = None
    shadows: int | None = None
    name: ClassVar[str] = "attack_risk"
    at_least: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "attack", choice(AttackName, self.attack, "attack"))
        if self.attack is AttackName.AVERAGING:
            raise ValueError(
                "attack must not be averaging in a policy: it needs the answers of each person in several "
                "releases, which no release contains. Memoised answers prevent it"
            )
        for field, low, high, allowed in (
            ("excess", math.ulp(0.0), math.nextafter(1, 0), "above 0 and below 1"),
            ("confidence", 0.5, math.nextafter(1, 0), "at least 0.5 and below 1"),
            ("holdout", math.ulp(0.0), 0.5, "above 0 and at most 0.5"),
        ):
            given: object = getattr(self, field)  # of any type if it comes from a file
            number = isinstance(given, int | float) and not isinstance(given, bool)
            if not (number and low <= given <= high):  # type: ignore[operator]  # it is a number
                raise ValueError(f"{field} must be {allowed}, got {given!r}")
        if self.publish_figures is not None and self.publish_figures is not True:
            raise ValueError(f"publish_figures must be true, or omitted, got {self.publish_figures!r}")
        self._check_shadows()

    def _check_shadows(self) -> None:
        """Raise for invalid numbers, and treat 0 like an omitted value."""
        given: object = self.shadows  # of any type if it comes from a file
        if given is None:
            return
        if isinstance(given, bool) or not isinstance(given, int) or given not in _SHADOWS:
            raise ValueError(
                f"shadows must be an even number of {FEWEST_SHADOWS} to {MOST_SHADOWS}, or 0, got {given!r}"
            )
        if given and self.attack is not AttackName.MEMBERSHIP:
            raise ValueError(
                f"shadows applies only to the attack membership, which learns from them, got "
                f"{self.attack}; Remove shadows"
            )
        object.__setattr__(self, "shadows", given or None)

    @property
    def threshold(self) -> float:
        """The largest excess risk."""
        return float(self.excess)


ATTACK_MODELS: dict[str, type[Any]] = {AttackRisk.name: AttackRisk}
