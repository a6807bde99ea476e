"""The field `engine` of a release specification, and its restrictions."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from privacy_engine.registry import needs_whole_table
from privacy_release.spec.fields import Connection, Whole
from privacy_release.workarea.engines import (
    DEFAULT_CONNECTION,
    DEFAULT_ROWS,
    FRAGMENTS,
    LEAST_ROWS,
    LOCAL,
    SPARK,
    EngineSettings,
    Kind,
)


class EngineSpec(EngineSettings):
    """The settings of an engine. In a file, a kind is short for a mapping with only that kind.

    Attributes:
        mapped: Whether each fragment is a mapped task that is retried separately, for kind `fragments`.
    """

    rows: Whole = Field(default=DEFAULT_ROWS, ge=LEAST_ROWS)
    processes: Whole | None = Field(default=None, ge=1)
    mapped: bool = True
    connection: Connection = DEFAULT_CONNECTION

    @model_validator(mode="after")
    def _settings_are_of_the_kind(self) -> Self:
        if idle := sorted(self.model_fields_set - {"kind"} - _SETTINGS[self.kind]):
            raise ValueError(
                f"{', '.join(idle)} cannot be combined with kind {self.kind}, which does not use it; remove "
                "it, or choose another kind"
            )
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """The settings for `engines.read_engine`."""
        return self.model_dump(exclude={"mapped"}, exclude_unset=True) | {"kind": self.kind}


# kind -> its settings
_SETTINGS: Mapping[str, frozenset[str]] = {
    LOCAL: frozenset(),
    FRAGMENTS: frozenset({"rows", "memory", "processes", "mapped"}),
    SPARK: frozenset({"rows", "memory", "connection"}),
}


def _mapping(value: object) -> object:
    if not isinstance(value, str | Mapping | EngineSpec):
        raise ValueError("must be local, fragments or spark, or a mapping with kind")
    return {"kind": value} if isinstance(value, str) else value


EngineField = Annotated[EngineSpec, BeforeValidator(_mapping, json_schema_input_type=Kind | EngineSpec)]


def problem_of_engine(kind: str, method: str, *, history: bool, kept: bool = False) -> str | None:
    """Return why a release cannot be made with an engine, with the remedy. None if it seems possible.

    Args:
        kind: Kind of the engine.
        method: Registry key of the release method.
        history: Whether memberships are recorded, across releases of the same people.
        kept: Whether the release is made with the earlier ones.
    """
    if kind == LOCAL:
        return None
    if needs_whole_table(method):
        return (
            f"release.method {method} must see the whole table, but engine {kind} shows it one fragment at a "
            "time, each of which would keep other features; choose another method, or engine local"
        )
    if history and kind == SPARK:
        return (
            "history cannot be combined with engine spark: the people of all releases are compared on one "
            "machine; remove it, or choose engine local or fragments"
        )
    if history and not kept:
        return (
            f"history.keep: false cannot be combined with engine {kind}: fragments follow people only where "
            "releases are made with the earlier ones; remove keep (or give the task history), or choose "
            "engine local"
        )
    return None
