"""Read text as a member of a closed set, and suggest the nearest member for a misspelt one."""

import difflib
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

_LONGEST = 100  # characters of a word that is compared with others
E = TypeVar("E", bound=StrEnum)


def choice(enum: type[E], value: object, field: str) -> E:
    """Return the member of ``enum`` that has this value.

    Raises:
        ValueError: Naming the field and the allowed values.
    """
    try:
        return enum(str(value))
    except ValueError:
        words = [member.value for member in enum]
        raise ValueError(
            f"{field} must be one of {words}, got {value!r}{did_you_mean(value, words)}"
        ) from None


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Suggest the nearest known word, for the end of an error message; empty if none is near.

    >>> did_you_mean("mondrain", ["mondrian", "rfka"])
    ' (did you mean mondrian?)'
    >>> did_you_mean("zzz", ["mondrian", "rfka"])
    ''
    """
    near = difflib.get_close_matches(str(given)[:_LONGEST], list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
