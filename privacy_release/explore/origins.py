"""Whose records are explored, and what pays for it: light, because a DAG file decides it."""

from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_engine.registry import Family
from privacy_release.explore.choices import Grid, family_of
from privacy_release.workarea.references import Origin

if TYPE_CHECKING:
    from privacy_release.spec.model import ReleaseSpec


def origin_of(spec: "ReleaseSpec", grid: Grid, *, public: bool, book: bool) -> Origin:
    """Whose records the choices of a grid are measured on.

    Args:
        spec: of the release.
        grid: whose methods decide what may be read.
        public: whether a table that everybody may know takes the place of the source.
        book: whether private methods may see the source, and the ledger books it.

    Raises:
        SpecError: if the release is not explored, or not so.
    """
    if spec.linked:
        raise SpecError(
            f"{spec.name} links the rows of persons or has several tables, and is not explored; explore a "
            "copy of the file without `rows: linked`, or of one table"
        )
    if public and book:
        raise SpecError("a public table costs nothing, so there is nothing to book; leave public or book out")
    if family_of(spec, grid) is not Family.SYNTHESIZER:
        if public or book:
            raise SpecError("public and book are for differentially private methods; leave them out")
        return "source"
    return "public" if public else "booked" if book else "simulated"


def budget_named(spec: "ReleaseSpec", rows: int | None) -> tuple[str, str]:
    """Data set and ledger that pay for exploring the source.

    Raises:
        SpecError: if the specification has no budget, or a part of the source is asked for.
    """
    if spec.budget is None:
        raise SpecError("to book needs a budget in the specification; add it, or leave book out")
    if rows is not None:
        raise SpecError(
            "what is booked explores the whole source, as each release spends on all of it; drop the sample"
        )
    return spec.budget.dataset, spec.budget.ledger
