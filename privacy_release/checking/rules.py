"""Rules and resources for a check of specifications, and its result."""

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


FEW = 100_000  # number of records up to which a source is read by default


@dataclass(frozen=True, kw_only=True)
class CheckRules:
    """Rules and resources for a check of specifications.

    Attributes:
        floor: Floor policy of the deployment. None: there is no floor.
        lake: Function that returns the default lake, or None if none is configured.
        area: Function that returns a context manager for a work area with a given name, which removes it at
            the end.
        elsewhere: Assets that no specification publishes.
        users: Users who may approve. None: unknown.
        source: Whether the sources are read. None: only small ones.
        curator: Whether values that domains miss are written to the curator's folder.
        cost: Whether samples of the sources are released, to predict the cost of all records.
        release_id: Value of `{release}` in the address of a source.
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
class CheckResult:
    """The result of checking a specification.

    Attributes:
        problems: Problems that must be corrected.
        for_now: Problems that prevent a release today, and may disappear.
        unjudged: Facts that could not be found.
        read: Whether the source was read, or reading it was not requested.
        promise: Guarantee of its schedule, in words. None: it has no schedule.
        cost: Cost of a run, or the reason why it is unknown. None: it was not requested.
        left_out: Names of files of the source that are not read, if it was read.
        warnings: Numbers with bins too coarse for their bounds, and a delta that raises noise.
    """

    problems: "Sequence[Problem]" = ()
    for_now: "Sequence[Problem]" = ()
    unjudged: Sequence[str] = ()
    read: bool = True
    promise: str | None = None
    cost: "Cost | str | None" = None
    left_out: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def is_wrong(self, strict: bool) -> bool:
        """Return whether the specification must not run. If strict, also if a fact could not be found."""
        return bool(self.problems) or (strict and bool(self.for_now or self.unjudged))
