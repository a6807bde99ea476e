"""Errors about data under a privacy budget: column and rule for everyone, exact counts for the curator."""

from collections.abc import Iterator
from contextlib import contextmanager

from privacy_engine.counts import NUMBER, without_counts
from privacy_engine.errors import (
    CapacityError,
    EngineError,
    InfeasibleError,
    IntegrityError,
    MissingSourceError,
    PrivacyEngineError,
    SchemaError,
)
from privacy_release.reports.curator import write_for_curator

# Errors that are raised with records of the source at hand. Those of a file, the ledger or a server are about
# none, and a verification measures the staged release.
_OF_DATA = (SchemaError, InfeasibleError, IntegrityError, CapacityError, EngineError)
ENDING = ".counts.txt"


def hide_counts(error: PrivacyEngineError, name: str, release_id: str) -> PrivacyEngineError:
    """Return an error of the same kind without counts; the whole text goes to the curator's folder.

    Args:
        error: Error of a step, whose text names columns, rules and counts.
        name: Name of the release or DAG, which has a folder of its curator.
        release_id: ID of the release or run.

    Returns:
        The error itself if it is not about data or has no count.
    """
    whole = str(error)
    text = without_counts(whole)
    if text == whole or not isinstance(error, _OF_DATA) or isinstance(error, MissingSourceError):
        return error
    try:
        kept = f"in {write_for_curator(whole, name, release_id, ending=ENDING)}"
    except (PrivacyEngineError, ValueError, OSError):
        kept = "lost, because the curator's folder cannot be written"
    kind = next(kind for kind in _OF_DATA if isinstance(error, kind))
    return kind(
        f"{text} (a budget pays for this release, so the counts, {NUMBER}, are not shown; they are {kept})"
    )


@contextmanager
def counts_hidden(name: str, release_id: str, *, is_paid: bool) -> Iterator[None]:
    """Raise errors of the block without counts if a budget pays for the release, see `hide_counts`."""
    try:
        yield
    except PrivacyEngineError as error:
        if not is_paid:
            raise
        # A traceback would show the original text as well.
        raise hide_counts(error, name, release_id) from None
