"""What a release guarantees to each person together with the earlier releases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from privacy_engine.choice import choice
from privacy_engine.verification.models import KAnonymity
from privacy_engine.vocabulary import Departures


@dataclass(frozen=True, kw_only=True)
class RepublicationGuarantee:
    """A guarantee over all releases of a table, and options to keep it.

    Attributes:
        k: Least number of persons whom no one with all releases can distinguish, >= 2.
        m: Sensitive attribute -> least number of values of a class, which must be the same in all releases of
            a person; anyone who would need another set of values is withheld.
        departures: Whether someone with all releases knows who left, see `CrossReleaseKAnonymity`.
        reserve: Size of a class that is published for the first time, in multiples of k, >= 1.
        counterfeits: Largest share of the records that may be added as counterfeits. Above 0 the release has
            the column `counterfeits`, with the number in each record's class.
        unique: Whether no two records of a class may have the same value of the one attribute of `m`. Classes
            are then made by `unique`, whatever the method, and any number of counterfeits may be added if
            they are allowed.
        hold_back: Most releases that an arrival waits for similar ones; None: no one subtracts releases.

    Raises:
        ValueError: If a value is not allowed.
    """

    k: int
    m: Mapping[str, int] = field(default_factory=dict)
    departures: Departures = Departures.KNOWN
    reserve: float = 1.0
    counterfeits: float = 0.0
    unique: bool = False
    hold_back: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.departures, Departures):
            raise ValueError(f"departures must be one of Departures, got {self.departures!r}")
        KAnonymity(k=self.k)
        if self.reserve < 1:
            raise ValueError(f"reserve must be >= 1, got {self.reserve}")
        if not 0 <= self.counterfeits <= 1:
            raise ValueError(f"counterfeits must be in [0, 1], got {self.counterfeits}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `from_dict` and the manifest, without options that are not used."""
        plain: dict[str, Any] = {
            "k": self.k,
            "m": dict(self.m),
            "departures": self.departures,
            "reserve": self.reserve,
        }
        options = {
            "hold_back": self.hold_back,
            "unique": self.unique or None,
            "counterfeits": self.counterfeits or None,
        }
        return plain | {name: value for name, value in options.items() if value is not None}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Read the output of `to_dict`."""
        return cls(**{**given, "departures": choice(Departures, given["departures"], "departures")})
