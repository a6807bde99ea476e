"""Figures and pages that a release can do without: one that fails is left out and named, and ends nothing.

Only what describes a release is attempted. What decides whether it may be published must fail: the
verification, the gate of attacks, the floor policy, the hashes of files.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from privacy_engine.errors import IntegrityError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A figure that could not be made.

    Attributes:
        figure: name of the figure or page, of letters that a reader may see.
        error: class of the exception. Its text may quote values, so it is written nowhere.
    """

    figure: str
    error: str

    def __str__(self) -> str:
        return f"{self.figure} is left out, because making it ended in {self.error}"

    def to_dict(self) -> dict[str, str]:
        """What a manifest says."""
        return {"figure": self.figure, "error": self.error}


@dataclass(frozen=True)
class Attempts:
    """Makes figures one by one and keeps the names of those that failed.

    >>> attempts = Attempts()
    >>> attempts.make("the mean", lambda: 6 / 2), attempts.make("the ratio", lambda: 1 / 0)
    (3.0, None)
    >>> [str(figure) for figure in attempts.left_out]
    ['the ratio is left out, because making it ended in ZeroDivisionError']

    Attributes:
        tell: receives a sentence about each figure that failed.
        left_out: figures that failed, in the order of the attempts.
    """

    tell: Callable[[str], None] = lambda _: None
    left_out: list[LeftOut] = field(default_factory=list, init=False)

    def make(self, figure: str, made: Callable[[], T]) -> T | None:
        """A figure; None where making it failed, which is noted.

        Args:
            figure: name of the figure, for people.
            made: makes it.

        Raises:
            IntegrityError: if bytes are not those that they must be, which is no matter of figures.
        """
        try:
            return made()
        except IntegrityError:
            raise
        except Exception as error:  # noqa: BLE001  no release is lost because of what describes it
            failed = LeftOut(figure=figure, error=type(error).__name__)
        self.left_out.append(failed)
        self.tell(str(failed))
        return None

    def to_dict(self) -> dict[str, list[dict[str, str]]]:
        """What a manifest says of the figures that failed; empty where none did."""
        told = [figure.to_dict() for figure in self.left_out]
        return {"left_out": told} if told else {}
