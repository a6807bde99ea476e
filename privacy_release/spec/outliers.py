"""What may be done with outliers, and the detector that finds them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from privacy_engine.outliers.detector import OutlierDetector


class Action(StrEnum):
    """What is done with the outliers."""

    REPORT = "report"  # nothing: they are counted
    SET_ASIDE = "set_aside"  # they do not go on; the release is about the others
    SUPPRESS = "suppress"  # they do not go on and count as suppressed, also against the policy
    FAIL = "fail"  # all go on, unless there are too many


REMOVING = (Action.SET_ASIDE, Action.SUPPRESS)


def check_action(action: Action | str, max_share: float | None) -> Action:
    """The action, if it fits the share.

    Raises:
        SpecError: naming what must hold and what to do.
    """
    if action not in list(Action):
        raise SpecError(f"outliers: action must be one of {[a.value for a in Action]}, got {action!r}")
    number = isinstance(max_share, int | float) and not isinstance(max_share, bool)
    if max_share is not None and not (number and 0 <= max_share <= 1):
        raise SpecError(f"outliers: max_share must be a number from 0 to 1, got {max_share!r}")
    if action == Action.FAIL and max_share is None:
        raise SpecError("outliers: the action fail needs max_share, the largest share of outliers; add it")
    if action == Action.REPORT and max_share is not None:
        raise SpecError("outliers: the action report never fails; take fail, or leave max_share out")
    return Action(action)


def build_detector(method: str, parameters: Mapping[str, Any]) -> "OutlierDetector":
    """The detector with its parameters.

    Raises:
        SpecError: naming the parameter, what it must be and what was given.
    """
    from privacy_engine.registry import load_detector

    try:
        built: OutlierDetector = load_detector(method, **parameters)
    except (ValueError, TypeError) as error:
        raise SpecError(f"outliers: {error}") from None
    return built
