"""Privacy loss of a differentially private release."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from privacy_engine.choice import choice
from privacy_engine.dp.zcdp import check_rho, pure_rho, zcdp_epsilon, zcdp_rho


class Neighbours(StrEnum):
    """The pairs of tables that a mechanism makes indistinguishable."""

    ADD_REMOVE = "add_remove"  # one record added or removed
    REPLACE_ONE = "replace_one"  # one record changed, the number of records is public
    REPLACE_PERSON = "replace_person"  # all rows of one person changed, the number of persons is public


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """(epsilon, delta) for one neighbour relation; ``+`` is sequential composition, rounded up.

    Without a DP claim the loss is None. A loss of epsilon 0 is the claim that the release does not depend on
    any record; it has no delta and is not booked.

    Attributes:
        epsilon, delta: Claimed upper bounds on the privacy loss, >= 0; delta 0 is pure epsilon.
        neighbours: Neighbour relation of the claim.
        rho: Rho, if the release is rho-zCDP and that implies its (epsilon, delta): then composition adds
            rho's and converts their sum, which is tighter. None if it was not accounted as zCDP.

    >>> PrivacyLoss(epsilon=0.5, neighbours="add_remove") + PrivacyLoss(epsilon=0.25, neighbours="add_remove")
    PrivacyLoss(epsilon=0.75, delta=0.0, neighbours=<Neighbours.ADD_REMOVE: 'add_remove'>, rho=None)
    """

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours
    rho: float | None = None

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be >= 0 and finite, got {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {self.delta}")
        if not self.epsilon and (self.delta or self.rho is not None):
            raise ValueError("epsilon must be > 0 if there is a delta or a rho, got 0")
        object.__setattr__(self, "neighbours", choice(Neighbours, self.neighbours, "neighbours"))
        if self.rho is not None:
            check_rho(self.rho)
            implied = zcdp_epsilon(self.rho, self.delta)
            if implied > self.epsilon:
                raise ValueError(
                    f"rho {self.rho} must imply epsilon {self.epsilon} at delta {self.delta}, but implies "
                    f"{implied}. Claim that"
                )

    @property
    def must_be_booked(self) -> bool:
        """Whether a budget must pay for it. It need not for a release that depends on no record.

        >>> PrivacyLoss(epsilon=0, neighbours="replace_one").must_be_booked
        False
        """
        return self.epsilon > 0

    @classmethod
    def of_zcdp(cls, rho: float, delta: float, neighbours: Neighbours) -> "PrivacyLoss":
        """Return the loss of a rho-zCDP release at a delta > 0.

        >>> PrivacyLoss.of_zcdp(0.5, 1e-6, "replace_one").epsilon < 5.2216
        True
        """
        # The slack of 1e-13: the same rho implies as much, up to an ulp, on another machine.
        epsilon = zcdp_epsilon(rho, delta) * (1 + 1e-13)
        return cls(epsilon=epsilon, delta=delta, neighbours=neighbours, rho=rho)

    @classmethod
    def within(cls, epsilon: float, delta: float, neighbours: Neighbours) -> "PrivacyLoss":
        """Return the loss (epsilon, delta) of a release that may spend the largest rho that implies it.

        With delta 0 it is a loss of pure epsilon.
        """
        if not epsilon > 0:
            raise ValueError(f"epsilon must be > 0 and finite, got {epsilon}")
        rho = zcdp_rho(epsilon, delta) if delta else None
        return cls(epsilon=epsilon, delta=delta, neighbours=neighbours, rho=rho)

    @property
    def exact_rho(self) -> Fraction | None:
        """The rho of the release, or that of its pure epsilon; None if unknown.

        An (epsilon, delta) without rho does not imply one: with probability delta anything may happen.
        """
        if self.rho is not None:
            return Fraction(self.rho)
        return None if self.delta else pure_rho(self.epsilon)

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Compose sequentially: for two losses without rho, epsilons and deltas add.

        If one has a rho, rho's add, where pure epsilon has epsilon^2 / 2, and the sum is converted once, at
        their delta.

        Raises:
            ValueError: If the neighbour relations differ; or one carries a rho and the other has a delta that
                is not the same, or a delta and no rho.
        """
        neighbours = _common_neighbours((self, other))
        if self.rho is not None or other.rho is not None:
            first, second = self.exact_rho, other.exact_rho
            deltas = {loss.delta for loss in (self, other) if loss.delta}
            if first is None or second is None or len(deltas) != 1:
                raise ValueError(
                    "losses add as zCDP only at the same delta, and if each has a rho or is of pure "
                    "epsilon. Convert both rho's at one delta, or compose the claims without their rho"
                )
            return PrivacyLoss.of_zcdp(rounded_up(first + second), deltas.pop(), neighbours)
        return PrivacyLoss(
            epsilon=exact_sum((self.epsilon, other.epsilon)),
            delta=exact_sum((self.delta, other.delta)),
            neighbours=neighbours,
        )

    @classmethod
    def parallel(cls, losses: Iterable["PrivacyLoss"]) -> "PrivacyLoss":
        """Compose in parallel: the loss of releases from disjoint parts of a table is the largest of theirs.

        For add_remove, which part a record belongs to may depend on its values. For replace_one the replaced
        record must stay in its part, so the parts must be public, like the days on which records arrived; a
        record whose new value moves it to another part changes two parts and both of their sizes.

        >>> PrivacyLoss.parallel(PrivacyLoss(epsilon=e, neighbours="add_remove") for e in (0.5, 0.25)).epsilon
        0.5

        Raises:
            ValueError: If there is no loss, or the neighbour relations differ.
        """
        parts = tuple(losses)
        rhos = [part.rho for part in parts if part.rho is not None]
        return cls(
            epsilon=max((part.epsilon for part in parts), default=0),
            delta=max((part.delta for part in parts), default=0),
            neighbours=_common_neighbours(parts),
            rho=max(rhos) if rhos and len(rhos) == len(parts) else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a rho only if there is one."""
        values = {"epsilon": self.epsilon, "delta": self.delta, "neighbours": self.neighbours.value}
        return values if self.rho is None else values | {"rho": self.rho}


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
            raise ValueError(f"losses for {first} and {other} do not add. Convert one first")
    return first
