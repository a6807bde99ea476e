"""What an attack may gain on a release: a rule of a policy, held by whoever tries the attack.

The attack itself is no model of classes: it needs the true records, and people who were left out of the
release for it. So a judge who has the released table alone cannot measure the rule, and says that it was not
tried; see `privacy_engine.attacks`. **A release that an attack gains nothing on may have no privacy at all**:
a policy asks for a model beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from privacy_engine.choice import choice
from privacy_engine.vocabulary import AttackName

NOT_TRIED = (
    "an attack is tried while a release is made, with the true records and people who were left out of it; "
    "run the release, or take attack_risk out of the policy"
)

# Of two, no other one tells what is usual for a record that is not in it; more cost more than they teach.
FEWEST_SHADOWS, MOST_SHADOWS = 4, 32
_SHADOWS = (0, *range(FEWEST_SHADOWS, MOST_SHADOWS + 1, 2))


@dataclass(frozen=True, kw_only=True)
class AttackRisk:
    """The excess risk of an attack is at most so high, at a confidence.

    It holds where the upper end of the interval is at most `excess`, and the attack sees a planted leak of
    more than that; a small table cannot show a small bound.

    Attributes:
        attack: which one.
        excess: largest ``(main - control) / (1 - control)``, 0 < excess < 1.
        confidence: of the interval, 0.5 <= confidence < 1.
        holdout: share of the people who are left out of the release, to be attacked as the control; above 0
            and at most 0.5. Of several rules the largest counts.
        publish_figures: true: the manifest tells the excess and its interval, rounded to hundredths. They are
            statistics of the true records, so they are never told of a differentially private or randomized
            release, whatever this says. Left out: that the bound was kept is told, and no figure.
        shadows: of membership: how many shadow releases it learns from, an even number of 4 to 32. Each is a
            run of the method on a quarter of the people who were held out, of whom there must be 80. Left
            out or 0: none.

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
                "releases, which no release tells; memoised answers keep it out"
            )
        for field, low, high, told in (
            ("excess", math.ulp(0.0), math.nextafter(1, 0), "above 0 and below 1"),
            ("confidence", 0.5, math.nextafter(1, 0), "at least 0.5 and below 1"),
            ("holdout", math.ulp(0.0), 0.5, "above 0 and at most 0.5"),
        ):
            given: object = getattr(self, field)  # of any type, where it comes from a file
            number = isinstance(given, int | float) and not isinstance(given, bool)
            if not (number and low <= given <= high):  # type: ignore[operator]  # it is a number
                raise ValueError(f"{field} must be {told}, got {given!r}")
        if self.publish_figures is not None and self.publish_figures is not True:
            raise ValueError(f"publish_figures must be true, or left out, got {self.publish_figures!r}")
        self._check_shadows()

    def _check_shadows(self) -> None:
        """Refuse wrong numbers, and take 0 and what is left out for one rule."""
        given: object = self.shadows  # of any type, where it comes from a file
        if given is None:
            return
        if isinstance(given, bool) or not isinstance(given, int) or given not in _SHADOWS:
            raise ValueError(
                f"shadows must be an even number of {FEWEST_SHADOWS} to {MOST_SHADOWS}, or 0, got {given!r}"
            )
        if given and self.attack is not AttackName.MEMBERSHIP:
            raise ValueError(
                f"shadows must stand beside attack membership, which alone learns from them, got "
                f"{self.attack}; leave them out"
            )
        object.__setattr__(self, "shadows", given or None)

    @property
    def threshold(self) -> float:
        """The largest excess risk."""
        return float(self.excess)


ATTACK_MODELS: dict[str, type[Any]] = {AttackRisk.name: AttackRisk}
