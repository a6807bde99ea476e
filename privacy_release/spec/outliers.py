"""The actions on outliers, and the detector that finds them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from privacy_engine.outliers.detector import OutlierDetector


class Action(StrEnum):
    """What to do with outliers."""

    REPORT = "report"  # only count them
    SET_ASIDE = "set_aside"  # remove them; the release is about the others
    SUPPRESS = "suppress"  # remove them and count them as suppressed, also for the policy
    FAIL = "fail"  # keep all, unless there are too many


REMOVING = (Action.SET_ASIDE, Action.SUPPRESS)


def check_action(action: Action | str, max_share: float | None) -> Action:
    """Return the action, if it fits the share.

    Raises:
        SpecError: Naming the requirement and the remedy.
    """
    if action not in list(Action):
        raise SpecError(f"outliers: action must be one of {[a.value for a in Action]}, got {action!r}")
    number = isinstance(max_share, int | float) and not isinstance(max_share, bool)
    if max_share is not None and not (number and 0 <= max_share <= 1):
        raise SpecError(f"outliers: max_share must be a number from 0 to 1, got {max_share!r}")
    if action == Action.FAIL and max_share is None:
        raise SpecError("outliers: the action fail needs max_share, the largest share of outliers; add it")
    if action == Action.REPORT and max_share is not None:
        raise SpecError("outliers: the action report never fails; use fail, or remove max_share")
    return Action(action)


def build_detector(method: str, parameters: Mapping[str, Any]) -> "OutlierDetector":
    """Return the detector with its parameters.

    Raises:
        SpecError: Naming the parameter, its valid values and the given one.
    """
    from privacy_engine.registry import load_detector

    try:
        built: OutlierDetector = load_detector(method, **parameters)
    except (ValueError, TypeError) as error:
        raise SpecError(f"outliers: {error}") from None
    return built
