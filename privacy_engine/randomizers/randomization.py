"""How a release was randomized: the content of the manifest, and what is required to learn from it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privacy_engine.dp.loss import Neighbours, PrivacyLoss, exact_sum
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.numeric import Grid, Transformation, numeric_from_dict
from privacy_engine.randomizers.randomness import Randomness

Mechanism = Channel | Grid | Transformation


@dataclass(frozen=True, kw_only=True)
class Randomization:
    """The mechanism of each attribute, and its cost.

    Attributes:
        mechanisms: Mechanism of each randomized attribute.
        released_as_is: Attributes that were not randomized.
        randomness: Source of the random bits.
        secret: Fingerprint of the secret of memoised answers.
    """

    mechanisms: Mapping[str, Mechanism]
    released_as_is: tuple[str, ...] = ()
    randomness: Randomness = Randomness.SYSTEM
    secret: str | None = None

    @property
    def attribute_epsilons(self) -> dict[str, float | None]:
        """Local differential privacy of each randomized attribute; None for an attribute without it."""
        return {name: attribute_epsilon(mechanism) for name, mechanism in self.mechanisms.items()}

    @property
    def person_epsilon(self) -> float | None:
        """Of all randomized attributes of one person together: their sum, rounded up; None if one has none.

        Attributes that are released unchanged (`released_as_is`) are not covered.
        """
        parts = list(self.attribute_epsilons.values())
        known = [epsilon for epsilon in parts if epsilon is not None]
        return exact_sum(known) if len(known) == len(parts) else None

    @property
    def loss(self) -> PrivacyLoss | None:
        """The claim for a person's whole record, one record replaced, the number of records public.

        Local differential privacy is stronger than this claim: it also protects against the party that
        collects the answers. None if an attribute has no finite epsilon, one is released unchanged, or the
        bits can be repeated from a seed. Memoised answers keep the claim against anyone without the secret.
        """
        epsilon = self.person_epsilon
        if epsilon is None or self.released_as_is or self.randomness is Randomness.SEEDED:
            return None
        return PrivacyLoss(epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE)

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest's content, for ``from_dict``."""
        return {
            "randomness": self.randomness.value,
            "private_randomness": self.randomness is not Randomness.SEEDED,
            "secret": self.secret,
            "epsilon": {"person": self.person_epsilon, "attributes": self.attribute_epsilons},
            "released_as_is": list(self.released_as_is),
            "attributes": {name: _mechanism_to_dict(m) for name, m in self.mechanisms.items()},
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Randomization":
        """Read what ``to_dict`` writes.

        Raises:
            ValueError: If something is missing or wrong.
        """
        try:
            return cls(
                mechanisms={str(n): _mechanism_from_dict(m) for n, m in fields["attributes"].items()},
                released_as_is=tuple(map(str, fields["released_as_is"])),
                randomness=Randomness(fields["randomness"]),
                secret=fields["secret"],
            )
        except (KeyError, TypeError, AttributeError):
            raise ValueError(
                "a randomization must have attributes, released_as_is, randomness, secret"
            ) from None

    @classmethod
    def of_manifest(cls, manifest: Mapping[str, Any]) -> "Randomization":
        """That of a release from its manifest.

        Raises:
            ValueError: If the release was not randomized.
        """
        if "randomization" not in manifest:
            raise ValueError("the manifest must be that of a randomized release: it has no `randomization`")
        return cls.from_dict(manifest["randomization"])


def attribute_epsilon(mechanism: Mechanism) -> float | None:
    """Local differential privacy of a mechanism, computed from its probabilities; None where unbounded."""
    if isinstance(mechanism, Transformation):
        return None
    channel = mechanism.channel if isinstance(mechanism, Grid) else mechanism
    drawn = mechanism.laplace if isinstance(mechanism, Grid) else None
    epsilon = max(channel.epsilon, drawn or 0.0)
    return epsilon if math.isfinite(epsilon) else None


def _mechanism_to_dict(mechanism: Mechanism) -> dict[str, Any]:
    name = {"mechanism": "channel"} if isinstance(mechanism, Channel) else {}
    return name | mechanism.to_dict()


def _mechanism_from_dict(fields: Mapping[str, Any]) -> Mechanism:
    if fields["mechanism"] == "channel":
        return Channel.from_dict(fields)
    mechanism = numeric_from_dict(fields)
    if not isinstance(mechanism, Grid | Transformation):
        raise ValueError("a randomized attribute must have a mechanism")
    return mechanism
