"""Privacy loss of a differentially private release."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from privacy_engine.choice import choice


class Neighbours(StrEnum):
    """Which two tables a mechanism makes indistinguishable."""

    ADD_REMOVE = "add_remove"  # one record more or fewer
    REPLACE_ONE = "replace_one"  # one record changed, the number of records is public


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """(epsilon, delta) for one neighbour relation; ``+`` is sequential composition.

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
        if self.neighbours is not other.neighbours:
            raise ValueError(
                f"losses for {self.neighbours} and {other.neighbours} do not add: convert one first"
            )
        return PrivacyLoss(
            epsilon=self.epsilon + other.epsilon, delta=self.delta + other.delta, neighbours=self.neighbours
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"epsilon": self.epsilon, "delta": self.delta, "neighbours": self.neighbours.value}
