"""TRR: numbers are released as y = a x + b with random a and b, categories by partial hiding.

Zhang, Tang: Privacy Preserving Naive Bayes Classification (Chinese Journal of Computers 30(8), 2007),
sections 3 and 4. A number that was transformed has no differential privacy, so a release with one claims
none; see ``local_laplace`` for numbers with a claim.
"""

from dataclasses import dataclass
from typing import ClassVar

from privacy_engine.randomizers.attributes import is_numeric, labels_of, randomized, require_never_null
from privacy_engine.randomizers.channel import Channel, check_share
from privacy_engine.randomizers.numeric import Transformation
from privacy_engine.randomizers.randomization import Mechanism
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class TRR(Randomizer):
    """Release each number as a x + b with random a and b, and other values as ERRPH does (TRR).

    Transforming randomized response. A release with a number makes no claim: see `LocalLaplace` for numbers
    with one.

    Attributes:
        a_mean: Mean of the random factor a, not 0.
        a_variance: Variance of the random factor a, >= 0.
        b_mean: Mean of the random summand b, in the unit of the attribute.
        b_variance: Variance of the random summand b, >= 0; not both variances 0.
        p_0: Probability with which a value that is no number is released as itself, in (0, 1).
    """

    a_mean: float = 1.0
    a_variance: float = 1.0
    b_mean: float = 0.0
    b_variance: float = 1.0
    p_0: float = 0.5
    key: ClassVar[str] = "trr"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("p_0", self.p_0)
        _ = self.transformation

    @property
    def transformation(self) -> Transformation:
        """Of every number.

        Raises:
            ValueError: If a parameter is out of range.
        """
        return Transformation(
            a_mean=self.a_mean, a_variance=self.a_variance, b_mean=self.b_mean, b_variance=self.b_variance
        )

    def mechanisms(self, schema: DataSchema) -> dict[str, Mechanism]:
        """The transformation of each number, a channel over the public values of each other attribute."""
        found: dict[str, Mechanism] = {}
        for attribute in randomized(schema):
            if is_numeric(attribute):
                require_never_null(attribute)
                found[attribute.name] = self.transformation
            else:
                found[attribute.name] = Channel.partial_hiding(labels_of(attribute), keep=self.p_0)
        return found
