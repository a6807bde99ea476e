"""What outliers that were taken out mean for a release: its manifest, its figures, and what it may claim."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from operators.outlier_step import REMOVING, Action
from operators.references import OutlierRef, TableRef
from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.schema import DataSchema

# Shares of the records' quasi-identifier cells, of which a suppressed record has lost all.
_LOSSES = ("gcp", "gcp_lca", "gcp_own")
_PRIVATE = ("scores", "aside")


def require_whole_table(method: "ReleaseMethod", schema: "DataSchema", table: TableRef) -> None:
    """Refuse a differentially private method on a table that some records were taken out of.

    Which records are outliers depends on all the others: one record more or less can change many, and the
    method's epsilon does not count that. Dropping records with a null changes their number, which counts as
    public, where another record has the null.

    Raises:
        SpecError: if the method claims a privacy loss and an earlier step took records out.
    """
    if method.privacy_loss(schema) is None:
        return
    took = [o["action"] for o in table.get("outliers", []) if o["action"] in REMOVING]
    if took:
        raise SpecError(
            f"outliers: the action {took[0]} must not precede a differentially private method: its loss does "
            "not cover the choice of the outliers; take the action report or fail"
        )
    if table["source"]["dropped"]:
        raise SpecError(
            "source: records with nulls must not be dropped before a differentially private method: its loss "
            "is for a public number of records; declare the columns nullable, or leave them out"
        )


def suppressed_before(table: TableRef) -> int:
    """Records that count as suppressed although the release method never saw them."""
    return sum(o["removed"] for o in table.get("outliers", []) if o["action"] == Action.SUPPRESS)


def public_outliers(outliers: Sequence[OutlierRef]) -> list[dict[str, Any]]:
    """What a manifest says of outliers: counts, not where the scores were."""
    return [{name: value for name, value in o.items() if name not in _PRIVATE} for o in outliers]


def counted_in(figures: Mapping[str, float], suppressed: int, rows: int, attributes: int) -> dict[str, float]:
    """Figures of a release over all records, with those that were suppressed before the method ran.

    A suppressed record has lost everything, see `privacy_engine.utility`. Figures that cannot be carried
    over from the other records (entropy, query error) are left out.

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
