"""Privacy loss of a differentially private release."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from privacy_engine.choice import choice


class Neighbours(StrEnum):
    """Which two tables a mechanism makes indistinguishable."""

    ADD_REMOVE = "add_remove"  # one record more or fewer
    REPLACE_ONE = "replace_one"  # one record changed, the number of records is public
    REPLACE_PERSON = "replace_person"  # all rows of one person changed, the number of persons is public


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """(epsilon, delta) for one neighbour relation; ``+`` is sequential composition, rounded up.

    Where there is no DP claim the loss is None, never zero.

    >>> PrivacyLoss(epsilon=0.5, neighbours="add_remove") + PrivacyLoss(epsilon=0.25, neighbours="add_remove")
    PrivacyLoss(epsilon=0.75, delta=0.0, neighbours=<Neighbours.ADD_REMOVE: 'add_remove'>)
    """

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be > 0 and finite, got {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {self.delta}")
        object.__setattr__(self, "neighbours", choice(Neighbours, self.neighbours, "neighbours"))

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        neighbours = _common_neighbours((self, other))
        return PrivacyLoss(
            epsilon=exact_sum((self.epsilon, other.epsilon)),
            delta=exact_sum((self.delta, other.delta)),
            neighbours=neighbours,
        )

    @classmethod
    def parallel(cls, losses: Iterable["PrivacyLoss"]) -> "PrivacyLoss":
        """Parallel composition: the loss of releases from disjoint parts of a table is the largest of theirs.

        For add_remove, which part a record belongs to may depend on its values. For replace_one the replaced
        record must stay in its part, so the parts must be public, like the days on which records arrived; a
        record whose new value moves it to another part changes two parts and both of their sizes.

        >>> PrivacyLoss.parallel(PrivacyLoss(epsilon=e, neighbours="add_remove") for e in (0.5, 0.25)).epsilon
        0.5

        Raises:
            ValueError: if there is no loss, or the neighbour relations differ.
        """
        parts = tuple(losses)
        return cls(
            epsilon=max((part.epsilon for part in parts), default=0),
            delta=max((part.delta for part in parts), default=0),
            neighbours=_common_neighbours(parts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"epsilon": self.epsilon, "delta": self.delta, "neighbours": self.neighbours.value}


def exact_sum(numbers: Iterable[float]) -> float:
    """The least float that is not below the exact sum.

    >>> 0.1 + 0.7, exact_sum([0.1, 0.7])
    (0.7999999999999999, 0.8)
    """
    return rounded_up(sum(map(Fraction, numbers), Fraction(0)))


def rounded_up(exact: Fraction) -> float:
    """The least float that is not below an exact number."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def rounded_down(exact: Fraction) -> float:
    """The largest float that is not above an exact number."""
    near = float(exact)
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


def _common_neighbours(losses: tuple[PrivacyLoss, ...]) -> Neighbours:
    if not losses:
        raise ValueError("there must be at least one loss to compose")
    first, *others = (loss.neighbours for loss in losses)
    for other in others:
        if other is not first:
            raise ValueError(f"losses for {first} and {other} do not add: convert one first")
    return first
