"""Taking a release back, and with it what is kept inside about the people in it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privacy_release.lake.retract import Retraction
    from privacy_release.lake.store import Lake


def retract_release(
    lake: "Lake", name: str, release_id: str, reason: str, *, history: "Lake | None" = None
) -> "Retraction":
    """Retract a release from the lake, then forget who was in it; safe to repeat.

    Arguments and errors as of `privacy_release.lake.retract.retract`.
    """
    from privacy_release.lake.retract import retract
    from privacy_release.steps.history import forget

    done = retract(lake, name, release_id, reason, history=history)
    forget(lake, name, release_id)
    return done
