"""Search an ingested table for outliers. Only counts are reported; scores stay with the records."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from privacy_engine.errors import InfeasibleError, SchemaError, SpecError
from privacy_engine.outliers.detector import USUAL_THRESHOLD
from privacy_release.spec.outliers import REMOVING, Action, build_detector, check_action
from privacy_release.steps.memberships.persons import with_records
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import OutlierRef, Table

if TYPE_CHECKING:
    from privacy_engine.outliers.detector import Outliers


def detect_outliers(
    table: Table,
    work: WorkArea,
    *,
    method: str = "okplof",
    parameters: Mapping[str, Any] | None = None,
    action: Action | str = Action.REPORT,
    max_share: float | None = None,
    label: str = "outliers",
) -> Table:
    """Count the outliers of a table and apply the requested action.

    Args:
        table: Table from `ingest`.
        work: Work area in which scores and removed records are kept until teardown.
        method: Registry key of the detector.
        parameters: Parameters of the detector.
        action: Action on outliers, see `Action`.
        max_share: Largest allowed share of outliers, 0 to 1. Required by the action `fail`.
        label: Prefix of the file names.

    Returns:
        The table for the next step. Its `outliers` list the results of this search and earlier ones.

    Raises:
        SpecError: If detector, parameters, action or share are wrong, or there are several tables.
        SchemaError: If there are too many outliers, or the table does not suit the detector.
        InfeasibleError: If the detector cannot work with so few records, or none would remain.
        IntegrityError: If the table changed since it was ingested.
    """
    action = check_action(action, max_share)
    detector, schema = build_detector(method, parameters or {}), table.read_schema()
    if schema.tables:
        raise SpecError(
            "outliers are searched in one table; search each table before they are released together"
        )
    frame = table.frame()
    found = detector.detect(frame, schema)
    scores = work.path(f"{label}.scores.parquet")
    write_private(scores, _score_bytes(found))
    if max_share is not None and found.share > max_share:
        raise SchemaError(
            f"at most a share {max_share:g} of the records may be outliers, {method} found {found.count} of "
            f"{len(found)}; check the source, or change the detector's parameters or max_share"
        )
    removed = found.count if action in REMOVING else 0
    entry = OutlierRef(
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
    passed = table
    if removed:
        passed, aside = _without(table, frame, found, work, label)
        entry = replace(entry, aside=aside)
    return replace(passed, outliers=[*table.outliers, entry])


def _threshold(detector: Any) -> float | None:
    if detector.top is not None:
        return None  # the lowest score among the top ones is a number of one raw record
    return float(USUAL_THRESHOLD if detector.threshold is None else detector.threshold)


def _score_bytes(found: "Outliers") -> bytes:
    return parquet_bytes(
        pd.DataFrame({"score": found.scores, "flagged": found.flags, "pruned": found.pruned})
    )


def _without(
    table: Table, frame: "pd.DataFrame", found: "Outliers", work: WorkArea, label: str
) -> tuple[Table, str]:
    """Return the table without the outliers, in its order, and the path of a file with the outliers."""
    if found.count == len(frame):
        raise InfeasibleError(
            f"all {found.count} records are outliers, so none would remain; change the detector's parameters"
        )
    aside, kept = work.path(f"{label}.aside.parquet"), work.path(f"{label}.parquet")
    write_private(aside, parquet_bytes(frame[found.flags]))
    left = with_records(table, frame, ~found.flags, kept, work.path(f"{label}.persons.parquet"))
    return left, str(aside)
