"""A mapping of a manifest by typed fields, and how stored values are read into them."""

import typing
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self

from privacy_engine.errors import IntegrityError

_WORDS: Mapping[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list",
    Mapping: "a mapping",
}
_PLAIN: Mapping[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (int, float)}


@dataclass(frozen=True, kw_only=True)
class ManifestSection:
    """A mapping of a manifest, read by typed fields.

    A field with a default may be absent or null, and then has that default.

    Attributes:
        stored: Mapping that the section was read from, with the fields that are not known, too.
    """

    stored: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], place: str = "") -> Self:
        """Read a stored mapping.

        Args:
            stored: Plain values, as JSON gives them.
            place: Name of the section within the manifest, for errors.

        Raises:
            IntegrityError: if a field is missing or has another type; it names the field, and no value.
        """
        if not isinstance(stored, Mapping):
            raise _wrong(place, "a mapping", stored)
        read = {}
        for name, hint in cls.known().items():
            inner = f"{place}.{name}" if place else name
            if stored.get(name) is not None:
                read[name] = _read(hint, stored[name], inner)
            elif name in cls.required():
                raise _wrong(inner, _words(hint), None)
        return cls(stored=stored, **read)

    def to_dict(self) -> dict[str, Any]:
        """What was stored, unknown fields included, in the stored order."""
        return deepcopy(dict(self.stored))

    @classmethod
    @cache
    def known(cls) -> Mapping[str, Any]:
        """The type of each field by its name."""
        hints = typing.get_type_hints(cls)
        return {own.name: hints[own.name] for own in fields(cls) if own.name != "stored"}

    @classmethod
    @cache
    def required(cls) -> frozenset[str]:
        """The names of the fields without a default."""
        return frozenset(
            own.name for own in fields(cls) if own.default is MISSING and own.default_factory is MISSING
        ) - {"stored"}


def _read(hint: Any, value: Any, place: str) -> Any:
    """A stored value as a type says; a number stays what it is, whole or not."""
    kind, inner = _parts(hint)
    if kind is UnionType:
        options = [option for option in inner if option is not NoneType]
        if len(options) > 1:  # a text or a mapping
            options = [option for option in options if (option is str) is isinstance(value, str)]
        return _read(options[0], value, place)
    if hint is Any:
        return value
    if isinstance(hint, type) and issubclass(hint, ManifestSection):
        return hint.from_dict(value, place)
    if kind is Mapping and isinstance(value, Mapping):
        return {name: _read(inner[1], item, f"{place}.{name}") for name, item in value.items()}
    if kind is tuple and isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_read(inner[0], item, f"{place}[{number}]") for number, item in enumerate(value))
    if isinstance(value, _PLAIN.get(hint, ())) and (hint is bool) is isinstance(value, bool):
        return value
    raise _wrong(place, _words(hint), value)


@cache  # a manifest has hundreds of values of a few types
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A generic type and its arguments."""
    return typing.get_origin(hint), typing.get_args(hint)


def _words(hint: Any) -> str:
    """A type in words."""
    if typing.get_origin(hint) is UnionType:
        return " or ".join(_words(option) for option in typing.get_args(hint) if option is not NoneType)
    return _WORDS.get(typing.get_origin(hint) or hint, "a mapping")


def _wrong(place: str, wanted: str, value: Any) -> IntegrityError:
    found = "nothing" if value is None else type(value).__name__
    what = f"`{place}` of the manifest" if place else "the manifest"
    return IntegrityError(
        f"{what} must be {wanted}, got {found}: another program wrote or changed it; restore the manifest "
        "from a backup, or make and publish the release again"
    )
