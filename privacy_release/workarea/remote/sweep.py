"""Remove encrypted work areas that are no longer used.

No lock works across machines through an object store. So an area is removed once its run is over and its mark
has not been renewed for a while.
"""

from datetime import UTC, datetime, timedelta

from privacy_engine.errors import WorkAreaError
from privacy_release.workarea.remote.store import RunFiles, Store
from privacy_release.workarea.sweep import AreaState, Looked, SweepRules, state_of_marked


def sweep_store(store: Store, rules: SweepRules) -> list[Looked]:
    """Inspect all work areas below an address, and remove those that are no longer used; see `sweep`.

    Raises:
        WorkAreaError: If the store cannot be reached.
    """
    return [_swept(run, rules) for run in store.all()]


def _swept(run: RunFiles, rules: SweepRules) -> Looked:
    try:
        if (found := run.marked()) is None:
            return Looked(folder=run.folder, state=AreaState.UNMARKED)
        mark, when = found
        idle = timedelta(seconds=_seconds_since(when))
        state = state_of_marked(mark, rested=idle >= rules.idle, seen=False, rules=rules)
        if state is AreaState.ABANDONED and not rules.dry:
            run.remove()
            state = AreaState.REMOVED
    except WorkAreaError as error:
        return Looked(folder=run.folder, state=AreaState.STUCK, problem=str(error))
    return Looked(folder=run.folder, state=state, mark=mark, idle=idle)


def _seconds_since(when: datetime) -> float:
    """Return the seconds since a moment by this machine's clock, at least 0."""
    return max(0.0, (datetime.now(UTC) - when).total_seconds())
