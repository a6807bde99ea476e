"""One step of a release: what it takes and gives, what it does outside of its work area, and who does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Slot(StrEnum):
    """What steps hand on. A step takes the newest of its kind, so that any step may come in between."""

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
    """What a step does outside of its work area. A rehearsal has none but the first of these."""

    READS_SOURCE = "reads the source"
    BOOKS = "books a privacy loss"
    WAITS = "waits for a person"
    COMMITS = "commits to the lake"
    WRITES_TO_CURATOR = "writes to the curator's folder"


class Retry(StrEnum):
    """Why a step may be tried again: each other failure is final."""

    NEVER = "never"
    ENGINE = "a worker or a session of the engine may die"
    OUTSIDE = "the lake or the ledger may be out of reach for a while"


@dataclass(frozen=True, kw_only=True)
class Step:
    """The declaration of a step.

    Attributes:
        name: Name, which is its task's id.
        work: Function that does it in one process, `module:function`; None: a step of several tasks only.
        takes: What it needs of the steps before.
        gives: What it hands on.
        after: Steps that it waits for and takes nothing of.
        settings: What the specification says of it, as plain values; its work finds them here.
        part: The one of several tables that it is for.
        for_each: What there is a task for each of.
        effects: What it does outside of the work area.
        retry: Why it may be tried again.
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
        """The name without that of the part.

        >>> Step(name="validate_visits", part="visits").kind
        'validate'
        """
        return self.name if self.part is None else self.name.removesuffix(f"_{self.part}")

    @property
    def counts_source(self) -> bool:
        """Whether it counts records of the source: from the release on, figures are of what is published.

        >>> release = Step(name="release", takes=(Slot.TABLE,), gives=Slot.STAGED)
        >>> Step(name="ingest", gives=Slot.TABLE).counts_source, release.counts_source
        (True, False)
        """
        prepares = Slot.TABLE in (self.gives, *self.takes)
        return prepares and Slot.STAGED not in (self.gives, *self.takes)
