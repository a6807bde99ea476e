"""Looking for outliers in an ingested table: counts are told, all else stays where the records are."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from operators.membership import follow
from operators.parquet_files import parquet_bytes, read_private, write_private
from operators.references import OutlierRef, TableRef
from operators.staged_files import read_schema
from operators.work_area import WorkArea
from privacy_engine.errors import InfeasibleError, SchemaError, SpecError

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.outliers.detector import OutlierDetector, Outliers


class Action(StrEnum):
    """What is done with the outliers."""

    REPORT = "report"  # nothing: they are counted
    SET_ASIDE = "set_aside"  # they do not go on; the release is about the others
    SUPPRESS = "suppress"  # they do not go on and count as suppressed, also against the policy
    FAIL = "fail"  # all go on, unless there are too many


REMOVING = (Action.SET_ASIDE, Action.SUPPRESS)


def detect_outliers(
    table: TableRef,
    work: WorkArea,
    *,
    method: str = "okplof",
    parameters: Mapping[str, Any] | None = None,
    action: Action | str = Action.REPORT,
    max_share: float | None = None,
    label: str = "outliers",
) -> TableRef:
    """Count the outliers of a table and do with them what was asked for.

    Args:
        table: what `ingest` gave.
        work: where scores, and the records that are taken out, are kept until teardown.
        method: registry key of the detector.
        parameters: of the detector.
        action: see `Action`.
        max_share: largest share of outliers, 0 to 1; with more the step fails. `fail` needs it.
        label: begins the names of the files.

    Returns:
        The table to go on with; its `outliers` say what was found, after what earlier searches found.

    Raises:
        SpecError: if detector, parameters, action or share are wrong, or an engine works on the table.
        SchemaError: if there are too many outliers, or the table does not suit the detector.
        InfeasibleError: if the detector cannot work with so few records, or none would be left.
        IntegrityError: if the table changed since it was ingested.
    """
    action = check_action(action, max_share)
    if "engine" in table:
        raise SpecError(
            "outliers: a detector needs the whole table in memory, which the engine "
            f"{table['engine']['kind']} is to spare; take the engine local, or leave outliers out"
        )
    detector = build_detector(method, parameters or {})
    frame = read_private(table["uri"], table["sha256"])
    found = detector.detect(frame, read_schema(table["schema"]))
    scores = work.path(f"{label}.scores.parquet")
    write_private(scores, _score_bytes(found))
    if max_share is not None and found.share > max_share:
        raise SchemaError(
            f"at most a share {max_share:g} of the records may be outliers, {method} found {found.count} of "
            f"{len(found)}; look at the source, or change the detector's parameters or max_share"
        )
    removed = found.count if action in REMOVING else 0
    told = OutlierRef(
        method=method,
        action=action.value,
        records=len(found),
        flagged=found.count,
        share=found.share,
        pruned=found.pruned_share,
        threshold=_threshold(detector),
        removed=removed,
        scores=str(scores),
    )
    passed = table.copy()
    if removed:
        passed, told["aside"] = _without(table, frame, found, work, label)
    passed["outliers"] = [*table.get("outliers", []), told]
    return passed


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


def _threshold(detector: Any) -> float | None:
    from privacy_engine.outliers.detector import USUAL_THRESHOLD

    if detector.top is not None:
        return None  # the lowest score among the top ones would be a number of one raw record
    return float(USUAL_THRESHOLD if detector.threshold is None else detector.threshold)


def _score_bytes(found: "Outliers") -> bytes:
    import pandas as pd

    return parquet_bytes(
        pd.DataFrame({"score": found.scores, "flagged": found.flags, "pruned": found.pruned})
    )


def _without(
    table: TableRef, frame: "pd.DataFrame", found: "Outliers", work: WorkArea, label: str
) -> tuple[TableRef, str]:
    """The table without the outliers, in its order, and the path of a file with the outliers."""
    if found.count == len(frame):
        raise InfeasibleError(
            f"all {found.count} records are outliers, none would be left; change the detector's parameters"
        )
    aside, kept = work.path(f"{label}.aside.parquet"), work.path(f"{label}.parquet")
    write_private(aside, parquet_bytes(frame[found.flags]))
    left = table.copy()
    left["sha256"] = write_private(kept, parquet_bytes(frame[~found.flags]))
    left["uri"], left["rows"] = str(kept), len(frame) - found.count
    if "persons" in table:
        left["persons"] = follow(table["persons"], ~found.flags, work.path(f"{label}.persons.parquet"))
    return left, str(aside)
