"""One step of a release: its inputs, its outputs, and its effects outside of the work area."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Slot(StrEnum):
    """The kinds of results that steps pass on. A step takes the newest of a kind, so steps can be added."""

    REGISTER = "register"
    TABLE = "table"
    CUT = "cut"
    FRAGMENTS = "fragments"
    STAGED = "staged"
    REPORT = "report"
    APPROVAL = "approval"
    PUBLISHED = "published"
    EVIDENCE = "evidence"


class Effect(StrEnum):
    """What a step does outside of its work area. A rehearsal may only have the first of these effects."""

    READS_SOURCE = "reads the source"
    BOOKS = "books a privacy loss"
    WAITS = "waits for a person"
    COMMITS = "commits to the lake"
    WRITES_TO_CURATOR = "writes to the curator's folder"


class Retry(StrEnum):
    """The reason why a failed step may be tried again. All other failures are final."""

    NEVER = "never"
    ENGINE = "a worker or a session of the engine may die"
    OUTSIDE = "the lake or the ledger may be out of reach for a while"


@dataclass(frozen=True, kw_only=True)
class Step:
    """The declaration of a step.

    Attributes:
        name: Name of the step, which is also its task ID.
        work: Function that executes the step in one process, `module:function`. None if it has several tasks.
        takes: Kinds of earlier results that the step needs.
        gives: Kind of result that the step passes on. None if it passes on nothing.
        after: Names of steps that it waits for without taking a result.
        settings: Plain values from the specification that the step's function reads.
        part: Name of one of several tables, if the step is for a single table.
        for_each: Kind of result that the step has one task per item of.
        effects: Effects of the step outside of the work area.
        retry: Reason why the step may be tried again.
        share: Share of a run's time, 0 to 1, for the progress of a run in one process.
    """

    name: str
    work: str | None = None
    takes: tuple[Slot, ...] = ()
    gives: Slot | None = None
    after: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    part: str | None = None
    for_each: Slot | None = None
    effects: frozenset[Effect] = frozenset()
    retry: Retry = Retry.NEVER
    share: float = 0.0

    @property
    def kind(self) -> str:
        """The name without the name of the table.

        >>> Step(name="validate_visits", part="visits").kind
        'validate'
        """
        return self.name if self.part is None else self.name.removesuffix(f"_{self.part}")

    @property
    def counts_source(self) -> bool:
        """Whether the step counts source records. From `release` on, figures describe what is published.

        >>> release = Step(name="release", takes=(Slot.TABLE,), gives=Slot.STAGED)
        >>> Step(name="ingest", gives=Slot.TABLE).counts_source, release.counts_source
        (True, False)
        """
        prepares = Slot.TABLE in (self.gives, *self.takes)
        return prepares and Slot.STAGED not in (self.gives, *self.takes)
