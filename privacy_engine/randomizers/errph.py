"""ERRPH: each value is released as itself with probability p_0, else as value j with probability p_j.

Zhang, Tang: Privacy Preserving Naive Bayes Classification (Chinese Journal of Computers 30(8), 2007),
section 3. The paper predates local differential privacy; here each release states it: ln(1 + p_0 / min p_j)
for an attribute, computed from the very probabilities that are sampled, and the sum over attributes for a
person.

Beyond the paper: numbers are released as the midpoints of public bins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from privacy_engine.dp.mechanisms import split
from privacy_engine.errors import SchemaError
from privacy_engine.randomizers.attributes import bin_points, is_numeric, labels_of, point_labels, randomized
from privacy_engine.randomizers.channel import SLACK, Channel, check_epsilon, check_share
from privacy_engine.randomizers.numeric import Grid
from privacy_engine.randomizers.randomization import Mechanism
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.tables.schema import DataSchema

DEFAULT_P_0 = 0.5  # the paper recommends 0.35 to 0.6


@dataclass(frozen=True, kw_only=True)
class ERRPH(Randomizer):
    """Release each value as itself with probability p_0, else as another value of its domain (ERRPH).

    Extended randomized response with partial hiding. Numbers are released as the midpoints of public bins;
    epsilon is computed from the probabilities.

    Attributes:
        p_0: Probability with which each value is released as itself, in (0, 1); 0.5 where nothing is given.
        epsilon: Privacy loss of a person, instead of p_0: all randomized attributes together, in equal
            parts; > 0.
        probabilities: Probabilities p_j of the labels that replace a value, as attribute to label to p_j,
            for attributes whose p_j are not equal; with p_0 a sum of 1.
    """

    p_0: float | None = None
    epsilon: float | None = None
    probabilities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    key: ClassVar[str] = "errph"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p_0 is not None and self.epsilon is not None:
            raise ValueError("give p_0 or epsilon, not both: each follows from the other")
        if self.p_0 is not None:
            check_share("p_0", self.p_0)
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        if self.epsilon is not None and self.probabilities:
            raise ValueError("probabilities must come with p_0, not with epsilon: they say what epsilon is")
        for name, given in self.probabilities.items():
            total = self.keep + sum(given.values())
            if not all(p > 0 for p in given.values()) or abs(total - 1) > SLACK:
                raise ValueError(
                    f"probabilities of {name!r} must be > 0 and with p_0 sum to 1, got a sum of {total:.9g}"
                )

    @property
    def keep(self) -> float:
        """The effective p_0."""
        return DEFAULT_P_0 if self.p_0 is None else float(self.p_0)

    def mechanisms(self, schema: DataSchema) -> dict[str, Mechanism]:
        """A channel over the public values of each attribute, or over its public bins."""
        attributes = randomized(schema)
        if unknown := sorted(set(self.probabilities) - {a.name for a in attributes}):
            raise SchemaError(f"probabilities are given for {unknown}, which the schema does not randomize")
        parts = (
            [None] * len(attributes) if self.epsilon is None else split(self.epsilon, [1] * len(attributes))
        )
        found: dict[str, Mechanism] = {}
        for attribute, part in zip(attributes, parts, strict=True):
            if is_numeric(attribute):
                low, high, count = bin_points(attribute)
                channel = self._channel(attribute.name, point_labels(low, high, count), part)
                found[attribute.name] = Grid(low=low, high=high, channel=channel)
            else:
                found[attribute.name] = self._channel(attribute.name, labels_of(attribute), part)
        return found

    def _channel(self, name: str, labels: tuple[str, ...], epsilon: float | None) -> Channel:
        if epsilon is not None:
            return Channel.of_epsilon(labels, epsilon)
        given = self.probabilities.get(name)
        if given is None:
            return Channel.partial_hiding(labels, keep=self.keep)
        if set(given) != set(labels):
            missed = len(set(given) ^ set(labels))
            raise SchemaError(f"probabilities of {name!r} must name its public values: {missed} differ")
        return Channel.partial_hiding(labels, keep=self.keep, spread=[given[label] for label in labels])
