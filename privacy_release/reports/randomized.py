"""The section of the public report about a randomized release, from its parameters and its bytes."""

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
    """The description of one attribute in words."""

    name: str
    mechanism: str
    values: str
    epsilon: str
    breach: str
    width: str


@dataclass(frozen=True, kw_only=True)
class RandomizedPart:
    """The section about random answers.

    Attributes:
        person: Epsilon of one person, or `none`.
        largest: Largest epsilon of an attribute that has one.
        factor: The number e to the power of `largest`.
        randomness: ``system``, ``memoised`` or ``seeded``.
        secret: Fingerprint of the secret of memoised answers.
        as_is: Attributes that were released unchanged.
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
    """Return the section about a release. None if it was not randomized."""
    randomization: Randomization | None = getattr(release, "randomization", None)
    return None if randomization is None else part_of(randomization, release.table)


def part_of(randomization: "Randomization", released: "pd.DataFrame") -> RandomizedPart:
    """Return the section about a randomized table."""
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
