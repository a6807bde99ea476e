"""Optional figures and pages of a release: one that fails is omitted and named.

Use this only for the description of a release. Steps that decide whether it may be published must raise: the
verification, the attacks, the floor policy, the hashes of files.
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
        figure: Name of the figure or page, for readers.
        error: Class of the exception. Its text may quote values, so it is not written anywhere.
    """

    figure: str
    error: str

    def __str__(self) -> str:
        return f"{self.figure} is left out, because making it ended in {self.error}"

    def to_dict(self) -> dict[str, str]:
        """Entry of the manifest."""
        return {"figure": self.figure, "error": self.error}


@dataclass(frozen=True)
class Attempts:
    """Make figures one by one and record those that failed.

    >>> attempts = Attempts()
    >>> attempts.make("the mean", lambda: 6 / 2), attempts.make("the ratio", lambda: 1 / 0)
    (3.0, None)
    >>> [str(figure) for figure in attempts.left_out]
    ['the ratio is left out, because making it ended in ZeroDivisionError']

    Attributes:
        on_failure: Receives a sentence about each figure that failed.
        left_out: Figures that failed, in the order of the attempts.
    """

    on_failure: Callable[[str], None] = lambda _: None
    left_out: list[LeftOut] = field(default_factory=list, init=False)

    def make(self, figure: str, made: Callable[[], T]) -> T | None:
        """Make a figure. Return None and record the failure if that raises an error.

        Args:
            figure: Name of the figure, for readers.
            made: Function that makes it.

        Raises:
            IntegrityError: If the bytes of a file changed: a release must not go on then.
        """
        try:
            return made()
        except IntegrityError:
            raise
        except Exception as error:  # noqa: BLE001  a description must not end a release
            failed = LeftOut(figure=figure, error=type(error).__name__)
        self.left_out.append(failed)
        self.on_failure(str(failed))
        return None

    def to_dict(self) -> dict[str, list[dict[str, str]]]:
        """Part of the manifest about the figures that failed; empty if none did."""
        entries = [figure.to_dict() for figure in self.left_out]
        return {"left_out": entries} if entries else {}
