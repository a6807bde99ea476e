"""Looking for outliers in an ingested table: counts are told, all else stays where the records are.

And what outliers that were taken out mean for a release: its manifest, its figures, what it may claim.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from privacy_engine.errors import InfeasibleError, SchemaError, SpecError
from privacy_engine.outliers.detector import USUAL_THRESHOLD
from privacy_release.spec.outliers import REMOVING, Action, build_detector, check_action
from privacy_release.steps.history import with_records
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.references import OutlierRef, Table
from privacy_release.workarea.staged import read_schema

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
        SpecError: if detector, parameters, action or share are wrong, or the table is of several.
        SchemaError: if there are too many outliers, or the table does not suit the detector.
        InfeasibleError: if the detector cannot work with so few records, or none would be left.
        IntegrityError: if the table changed since it was ingested.
    """
    action = check_action(action, max_share)
    detector, schema = build_detector(method, parameters or {}), read_schema(table.schema)
    if schema.tables:
        raise SpecError("outliers are of one table: look for them before several are released together")
    frame = read_private(table.uri, table.sha256)
    found = detector.detect(frame, schema)
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
    passed = table
    if removed:
        passed, aside = _without(table, frame, found, work, label)
        told = replace(told, aside=aside)
    return replace(passed, outliers=[*table.outliers, told])


def _threshold(detector: Any) -> float | None:
    if detector.top is not None:
        return None  # the lowest score among the top ones would be a number of one raw record
    return float(USUAL_THRESHOLD if detector.threshold is None else detector.threshold)


def _score_bytes(found: "Outliers") -> bytes:
    return parquet_bytes(
        pd.DataFrame({"score": found.scores, "flagged": found.flags, "pruned": found.pruned})
    )


def _without(
    table: Table, frame: "pd.DataFrame", found: "Outliers", work: WorkArea, label: str
) -> tuple[Table, str]:
    """The table without the outliers, in its order, and the path of a file with the outliers."""
    if found.count == len(frame):
        raise InfeasibleError(
            f"all {found.count} records are outliers, none would be left; change the detector's parameters"
        )
    aside, kept = work.path(f"{label}.aside.parquet"), work.path(f"{label}.parquet")
    write_private(aside, parquet_bytes(frame[found.flags]))
    left = with_records(table, frame, ~found.flags, kept, work.path(f"{label}.persons.parquet"))
    return left, str(aside)


# Shares of the records' quasi-identifier cells, of which a suppressed record has lost all.
_LOSSES = ("gcp", "gcp_lca", "gcp_own")
_PRIVATE = ("scores", "aside")


def suppressed_before(table: Table) -> int:
    """Records that count as suppressed although the release method never saw them."""
    return sum(o.removed for o in table.outliers if o.action == Action.SUPPRESS)


def public_outliers(outliers: Sequence[OutlierRef]) -> list[dict[str, Any]]:
    """What a manifest says of outliers: counts, not where the scores were."""
    return [{name: value for name, value in o.to_ref().items() if name not in _PRIVATE} for o in outliers]


def counted_in(figures: Mapping[str, float], suppressed: int, rows: int, attributes: int) -> dict[str, float]:
    """Figures of a release over all records, with those that were suppressed before the method ran.

    A suppressed record has lost everything, see `privacy_engine.measures.utility`. Figures that cannot be
    carried over from the other records (entropy, query error) are left out.

    Args:
        figures: over the records that the method was given.
        suppressed: number of records suppressed before.
        rows: number of records that the method was given.
        attributes: number of quasi-identifiers.
    """
    if not suppressed or "suppressed_records" not in figures:
        return dict(figures)
    n, before = rows + suppressed, figures["suppressed_records"]
    told = {
        name: value for name, value in figures.items() if name not in ("non_uniform_entropy", "query_error")
    }
    told |= {name: (figures[name] * rows + suppressed) / n for name in _LOSSES if name in figures}
    told["suppressed_records"] = before + suppressed
    told["suppressed"] = told["suppressed_records"] / n
    if "suppressed_cells" in figures:
        told["suppressed_cells"] = figures["suppressed_cells"] + suppressed * attributes
    if "discernibility" in figures:  # the sum of the squared class sizes, and n for each suppressed record
        told["discernibility"] = figures["discernibility"] - before * rows + told["suppressed_records"] * n
    if "distorted" in figures:
        told["distorted"] = figures["distorted"] * rows / n
    return told
