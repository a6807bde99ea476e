"""What the public report tells of a randomized release: it follows from its parameters and its bytes."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privacy_engine.randomizers.accounts import accounts
from privacy_release.reports.text import CHANNELS

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.randomizers.accounts import Account
    from privacy_engine.randomizers.randomization import Randomization
    from privacy_engine.release import Release

NONE = "none"


@dataclass(frozen=True, kw_only=True)
class AccountLine:
    """One attribute, in words."""

    name: str
    mechanism: str
    values: str
    epsilon: str
    breach: str
    width: str


@dataclass(frozen=True, kw_only=True)
class RandomizedPart:
    """The section on random answers.

    Attributes:
        person: epsilon of one person, or `none`.
        largest: epsilon of the attribute that tells most, of those that have one; ``factor`` is e^largest.
        randomness: ``system``, ``memoised`` or ``seeded``.
        secret: fingerprint of the secret of memoised answers.
        as_is: attributes that were released as they are.
    """

    lines: tuple[AccountLine, ...]
    person: str
    largest: str
    factor: str
    randomness: str
    secret: str | None
    as_is: tuple[str, ...]
    transformed: bool


def randomized_part(release: "Release") -> RandomizedPart | None:
    """The section of a release; None where it was not randomized."""
    randomization: Randomization | None = getattr(release, "randomization", None)
    return None if randomization is None else part_of(randomization, release.table)


def part_of(randomization: "Randomization", released: "pd.DataFrame") -> RandomizedPart:
    """The section of a table that was randomized so."""
    found = accounts(randomization, released)
    person = randomization.person_epsilon
    largest = max((account.epsilon for account in found if account.epsilon is not None), default=0.0)
    return RandomizedPart(
        lines=tuple(map(_line, found)),
        person=NONE if person is None else f"{person:.4g}",
        largest=f"{largest:.4g}",
        factor=f"{math.exp(min(largest, 700)):,.3g}",
        randomness=randomization.randomness.value,
        secret=randomization.secret,
        as_is=randomization.released_as_is,
        transformed=any(account.mechanism == "transformation" for account in found),
    )


def _line(account: "Account") -> AccountLine:
    return AccountLine(
        name=account.attribute,
        mechanism=CHANNELS[account.mechanism],
        values="" if account.values is None else f"{account.values:,}",
        epsilon=_number(account.epsilon),
        breach="" if account.breach is None else f"{account.breach:.3f}",
        width="" if account.width is None else f"{account.width:.4g}",
    )


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}"
