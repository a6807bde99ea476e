"""Decide which records are explored, and what pays for it. Cheap to import, because a DAG file needs it."""

from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_engine.registry import Family
from privacy_release.explore.choices import Grid, family_of
from privacy_release.workarea.references import Origin

if TYPE_CHECKING:
    from privacy_release.spec.model import ReleaseSpec


def origin_of(spec: "ReleaseSpec", grid: Grid, *, public: bool, book: bool) -> Origin:
    """Return the origin of the records that the choices of a grid are measured on.

    Args:
        spec: Specification of the release.
        grid: Grid, whose methods decide what may be read.
        public: Whether a public table replaces the source.
        book: Whether private methods may read the source, and the ledger books it.

    Raises:
        SpecError: If the release cannot be explored, or not in this way.
    """
    if spec.linked:
        raise SpecError(
            f"{spec.name} links the rows of persons or has several tables, and cannot be explored; explore a "
            "copy of the file without `rows: linked`, or of one table"
        )
    if public and book:
        raise SpecError("a public table costs nothing, so there is nothing to book; remove public or book")
    if family_of(spec, grid) is not Family.SYNTHESIZER:
        if public or book:
            raise SpecError("public and book are for differentially private methods; remove them")
        return "source"
    return "public" if public else "booked" if book else "simulated"


def budget_named(spec: "ReleaseSpec", rows: int | None) -> tuple[str, str]:
    """Return the data set and the ledger that pay for exploring the source.

    Raises:
        SpecError: If the specification has no budget, or only a part of the source is requested.
    """
    if spec.budget is None:
        raise SpecError("book needs a budget in the specification; add it, or remove book")
    if rows is not None:
        raise SpecError(
            "booking requires the whole source, because each release spends on all of it; remove the sample"
        )
    return spec.budget.dataset, spec.budget.ledger
