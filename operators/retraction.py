"""Taking a release back, and with it what is kept inside about the people in it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operators.lake import Lake
    from operators.lake_retract import Retraction


def retract_release(lake: "Lake", name: str, release_id: str, reason: str) -> "Retraction":
    """Retract a release from the lake, then forget who was in it; safe to repeat.

    Arguments and errors as of `operators.lake_retract.retract`.
    """
    from operators.lake import retract
    from operators.membership import forget

    done = retract(lake, name, release_id, reason)
    forget(lake, name, release_id)
    return done
