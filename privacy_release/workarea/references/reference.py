"""A reference: the result that one step passes to the next, as plain values between tasks."""

import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any, Self, TypeVar

from privacy_engine.errors import IntegrityError

T = TypeVar("T")

# Fields of a reference that are paths in the work area of its run, and those that contain further references.
# All paths in a `SourceRef` are outside of the work area.
PATHS = frozenset(
    {"uri", "schema", "manifest", "report", "columns", "model", "source_schema", "scores", "aside"}
)
NESTED = frozenset(
    {
        *("persons", "holdout", "people", "plan", "account", "outliers", "made_from", "held_out", "table"),
        *("register", "numbered", "waiting", "regions", "past"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The result that one step passes to the next. Between tasks it is plain values, see `to_ref`.

    A field may be missing in the plain values if it has its default.
    """

    @classmethod
    def from_ref(cls, ref: "Mapping[str, Any] | Self") -> Self:
        """Build a reference from plain values.

        Raises:
            IntegrityError: Naming the fields that are missing or unknown.
        """
        if isinstance(ref, cls):
            return ref
        if not isinstance(ref, Mapping):
            raise IntegrityError(f"a {cls.__name__} must be given as a mapping, got {type(ref).__name__}")
        kind = next((own for own in cls.__subclasses__() if own.needed() <= ref.keys()), cls)
        if wrong := sorted((kind.needed() - ref.keys()) | (ref.keys() - kind.known().keys())):
            raise IntegrityError(
                f"a {kind.__name__} has other fields than were given: {', '.join(map(str, wrong))}; pass on "
                "the result of the earlier task unchanged"
            )
        hints = kind.known()
        return kind(**{name: read_as(hints[name], value) for name, value in ref.items()})

    def to_ref(self) -> dict[str, Any]:
        """Return the reference as plain values that JSON can represent."""
        return {
            field.name: plain(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) != _default(field)
        }

    @classmethod
    @cache
    def known(cls) -> dict[str, Any]:
        """Return the type of each field, by name."""
        return typing.get_type_hints(cls)

    @classmethod
    def needed(cls) -> set[str]:
        """Return the names of the fields without a default."""
        return {field.name for field in fields(cls) if _default(field) is MISSING}


def _like_a_dict(name: str) -> Callable[..., Any]:
    def method(self: Reference, *given: Any) -> Any:
        text = "A reference is no dict from 0.3 on: read its attributes, and write replace(it, rows=5)"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(self.to_ref(), name)(*given)

    return method


# For one version, references can be used like the earlier dicts. Type checkers refuse it.
for _name in ("__getitem__", "__contains__", "__iter__", "get", "keys", "items", "values", "copy"):
    setattr(Reference, _name, _like_a_dict(_name))


def need(value: "T | None", name: str) -> "T":
    """Return a field of a reference that a step relies on.

    Args:
        value: Value of the field.
        name: Name of the field, for the error.

    Raises:
        IntegrityError: If the value is None.
    """
    if value is None:
        raise IntegrityError(f"a reference must have {name}, but it has none; clear the run and start again")
    return value


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def read_as(hint: Any, value: Any) -> Any:
    """Convert plain values to a type, including references in lists, dicts and optional fields."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if value in (None, "") or not _names_references(hint):
        return value
    if isinstance(hint, type) and issubclass(hint, Reference):
        return hint.from_ref(value)
    if kind is dict:
        return {name: read_as(inner[1], item) for name, item in value.items()}
    if kind is list:
        return [read_as(inner[0], item) for item in value]
    if isinstance(value, Sequence):  # for a union that may be a list
        return [read_as(hint, item) for item in value]
    return read_as(
        next(own for own in inner if _names_references(own) and typing.get_origin(own) is not list), value
    )


def _names_references(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Reference):
        return True
    return any(_names_references(own) for own in typing.get_args(hint))


def plain(value: Any) -> Any:
    """Convert references, and those in lists and dicts, to plain values. Other values are unchanged."""
    if isinstance(value, Reference):
        return value.to_ref()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def paths_inside(reference: Any) -> Iterator[tuple[str, str]]:
    """Yield field and path of each file of the work area that a reference, or a list of them, names."""
    if isinstance(reference, Mapping):
        for name, item in reference.items():
            if name in PATHS:
                yield name, str(item)
            elif name in NESTED and not isinstance(item, int):
                yield from paths_inside(item)
    elif isinstance(reference, Sequence) and not isinstance(reference, str | bytes):
        for item in reference:
            yield from paths_inside(item)
