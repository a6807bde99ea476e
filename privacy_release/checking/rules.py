"""What a specification is checked with, and what was found."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privacy_engine.errors import Problem
    from privacy_release.explore.cost import Cost
    from privacy_release.lake.store import Lake
    from privacy_release.spec.floor import Floor
    from privacy_release.workarea.area import WorkArea


FEW = 100_000  # records of a source that is read by default


@dataclass(frozen=True, kw_only=True)
class CheckRules:
    """What specifications are checked with.

    Attributes:
        floor: Floor policy of the deployment; None: there is none.
        lake: Function that gives the default lake, None where none is configured.
        area: Function that gives a work area by its name, and removes it at the end of the block.
        elsewhere: Assets that no specification publishes.
        users: Users who can approve; None: it is not known.
        source: Whether to read the sources; None: those that are small.
        curator: Whether to write the values that domains miss to the curator's folder.
        cost: Whether to release samples of the sources, to predict what all records take.
        release_id: Release ID that `{release}` stands for in the address of a source.
    """

    floor: "Floor | None"
    lake: "Callable[[], Lake | None]"
    area: "Callable[[str], AbstractContextManager[WorkArea]]"
    elsewhere: frozenset[str] = frozenset()
    users: frozenset[str] | None = None
    source: bool | None = None
    curator: bool = False
    cost: bool = False
    release_id: str = "check"


@dataclass(frozen=True)
class Answer:
    """What is known of a specification.

    Attributes:
        problems: What is wrong.
        for_now: What keeps it from being released today, and may pass.
        unjudged: What could not be judged.
        read: Whether the source was read, or should not be.
        promise: Promise of its schedule, in words; None: it has none.
        cost: Cost of a run, or why it is not known; None: it was not asked for.
        left_out: Names of files of the source that are not read.
    """

    problems: "Sequence[Problem]" = ()
    for_now: "Sequence[Problem]" = ()
    unjudged: Sequence[str] = ()
    read: bool = True
    promise: str | None = None
    cost: "Cost | str | None" = None
    left_out: Sequence[str] = ()

    def is_wrong(self, strict: bool) -> bool:
        """Whether the specification must not run; if strict, also where something could not be judged."""
        return bool(self.problems) or (strict and bool(self.for_now or self.unjudged))
