"""A text from a file or a caller as a member of a closed set."""

from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=StrEnum)


def choice(enum: type[E], value: object, field: str) -> E:
    """The member of that value.

    Raises:
        ValueError: naming the field and the allowed values.
    """
    try:
        return enum(str(value))
    except ValueError:
        raise ValueError(
            f"{field} must be one of {[member.value for member in enum]}, got {value!r}"
        ) from None
