"""Bounded local differential privacy for numbers: discrete Laplace noise on a grid, clamped to the bounds.

The alternative to TRR with a claim. The mechanism is the truncated geometric one (Ghosh, Roughgarden,
Sundararajan 2009); listed values go through ERRPH's channel at the same epsilon. Fresh noise is OpenDP's;
answers that must be repeatable, which OpenDP does not support, are drawn from the channel of the same
distribution.
"""

from dataclasses import dataclass
from typing import ClassVar

from privacy_engine.dp.mechanisms import split
from privacy_engine.randomizers.attributes import is_numeric, labels_of, point_labels, randomized, step_points
from privacy_engine.randomizers.channel import LARGEST, Channel, check_epsilon
from privacy_engine.randomizers.numeric import Grid
from privacy_engine.randomizers.randomization import Mechanism
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class LocalLaplace(Randomizer):
    """Add discrete Laplace noise to numbers within their bounds, and answer at random for other values.

    Attributes:
        epsilon: Privacy loss of a person: all randomized attributes together, in equal parts; > 0.
        steps: Number of steps of the grid between the bounds of a number, 1 .. 511; each value is moved to
            the nearest point.
    """

    epsilon: float = 1.0
    steps: int = 128
    key: ClassVar[str] = "local_laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)
        if type(self.steps) is not int or not 1 <= self.steps < LARGEST:
            raise ValueError(f"steps must be a whole number in 1 .. {LARGEST - 1}, got {self.steps!r}")

    def mechanisms(self, schema: DataSchema) -> dict[str, Mechanism]:
        """Noise on the grid of each number, a channel over the public values of each other attribute."""
        attributes = randomized(schema)
        found: dict[str, Mechanism] = {}
        for attribute, part in zip(attributes, split(self.epsilon, [1] * len(attributes)), strict=True):
            if is_numeric(attribute):
                low, high, count = step_points(attribute, self.steps)
                channel = Channel.geometric(point_labels(low, high, count), part)
                found[attribute.name] = Grid(low=low, high=high, channel=channel, laplace=part)
            else:
                found[attribute.name] = Channel.of_epsilon(labels_of(attribute), part)
        return found
