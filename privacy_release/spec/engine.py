"""The field `engine` of a release specification: what works on the table, and what goes with it."""

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
    """The settings of an engine; in a file a kind alone stands for a mapping with it.

    Attributes:
        mapped: of kind `fragments`: each fragment is a mapped task of its own, retried by itself.
    """

    rows: Whole = Field(default=DEFAULT_ROWS, ge=LEAST_ROWS)
    processes: Whole | None = Field(default=None, ge=1)
    mapped: bool = True
    connection: Connection = DEFAULT_CONNECTION

    @model_validator(mode="after")
    def _settings_are_of_the_kind(self) -> Self:
        if idle := sorted(self.model_fields_set - {"kind"} - _SETTINGS[self.kind]):
            raise ValueError(
                f"{', '.join(idle)} must not stand beside kind {self.kind}, which has no use for it; remove "
                "it, or take another kind"
            )
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """What `engines.read_engine` reads."""
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


def problem_of_engine(kind: str, method: str, *, history: bool) -> str | None:
    """Why a release cannot be made with an engine, and what to do; None where it can, as far as names tell.

    Args:
        kind: of the engine.
        method: registry key of the release method.
        history: whether it is followed who is in which class, over releases of the same people.
    """
    if kind == LOCAL:
        return None
    if needs_whole_table(method):
        return (
            f"release.method {method} must see the whole table, and engine {kind} shows it a fragment at a "
            "time, of which each would keep other features; take another method, or engine local"
        )
    if history:
        return (
            f"history must not stand beside engine {kind}: it follows each record into its class, and "
            "fragments do not tell where a record was; remove it, or take engine local"
        )
    return None
