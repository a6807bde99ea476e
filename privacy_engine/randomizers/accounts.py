"""What each attribute of a randomized release gives away, by every measure that it has."""

from dataclasses import dataclass

import pandas as pd

from privacy_engine.randomizers.breach import breach_width, largest_breach
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.numeric import Grid, Transformation, moments
from privacy_engine.randomizers.randomization import Mechanism, Randomization, attribute_epsilon
from privacy_engine.tables.columns import floats

CONFIDENCE = 0.95  # confidence of the reported breach width


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account of one attribute.

    Attributes:
        attribute: Name of the attribute.
        mechanism: ``hiding``, ``channel`` (another one), ``laplace`` or ``transformation``.
        values: Number of public values or grid points; None for a transformed number.
        epsilon: Local differential privacy; None if there is none.
        breach: Largest breach coefficient; None if it is not defined.
        width: Breach width at 95 %, in the attribute's unit; None for anything but a number.
    """

    attribute: str
    mechanism: str
    values: int | None
    epsilon: float | None
    breach: float | None
    width: float | None


def accounts(randomization: Randomization, released: pd.DataFrame) -> tuple[Account, ...]:
    """The accounts of all randomized attributes, computed from the release: they reveal nothing beyond it."""
    return tuple(
        Account(
            attribute=name,
            mechanism=_kind(mechanism),
            values=None if isinstance(mechanism, Transformation) else len(_channel(mechanism)),
            epsilon=attribute_epsilon(mechanism),
            breach=largest_breach(mechanism),
            width=None if isinstance(mechanism, Channel) else _width(mechanism, released[name]),
        )
        for name, mechanism in randomization.mechanisms.items()
    )


def _kind(mechanism: Mechanism) -> str:
    if isinstance(mechanism, Transformation):
        return "transformation"
    if isinstance(mechanism, Grid) and mechanism.laplace is not None:
        return "laplace"
    return "channel" if _channel(mechanism).hiding is None else "hiding"


def _channel(mechanism: Channel | Grid) -> Channel:
    return mechanism.channel if isinstance(mechanism, Grid) else mechanism


def _width(mechanism: Grid | Transformation, column: "pd.Series") -> float | None:
    if len(column) < 2:
        return None
    return breach_width(moments(mechanism, floats(column)).variance ** 0.5, CONFIDENCE)
