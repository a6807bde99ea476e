"""A text from a file or a caller as a member of a closed set, and what somebody may have meant."""

import difflib
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

_LONGEST = 100  # characters of a word that is compared with others
E = TypeVar("E", bound=StrEnum)


def choice(enum: type[E], value: object, field: str) -> E:
    """The member of that value.

    Raises:
        ValueError: naming the field and the allowed values.
    """
    try:
        return enum(str(value))
    except ValueError:
        words = [member.value for member in enum]
        raise ValueError(
            f"{field} must be one of {words}, got {value!r}{did_you_mean(value, words)}"
        ) from None


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """A hint for the end of an error: the nearest of the right words; empty where none is near.

    >>> did_you_mean("mondrain", ["mondrian", "rfka"])
    ' (did you mean mondrian?)'
    >>> did_you_mean("zzz", ["mondrian", "rfka"])
    ''
    """
    near = difflib.get_close_matches(str(given)[:_LONGEST], list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
