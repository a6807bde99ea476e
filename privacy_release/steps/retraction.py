"""Retract releases and forget the people in them, and remove superseded releases from tables."""

from typing import TYPE_CHECKING

from privacy_engine.errors import PrivacyEngineError
from privacy_release.lake.log import open_table
from privacy_release.lake.retract import retract
from privacy_release.lake.store import as_readable_as_the_lake, table_names
from privacy_release.lake.superseded import Settled, settle
from privacy_release.steps.memberships.recording import forget

if TYPE_CHECKING:
    from privacy_release.lake.retract import Retraction
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import Lake, ReleaseTable


def retract_release(
    table: "ReleaseTable",
    release_id: str,
    reason: str,
    *,
    history: "Lake | None" = None,
    signer: "Signer | None" = None,
) -> "Retraction":
    """Retract a release from the lake, forget the people in it, and clean the table up. Safe to repeat.

    Arguments and errors are as for `privacy_release.lake.retract.retract`.
    """
    with as_readable_as_the_lake(table.lake):
        done = retract(table, release_id, reason, history=history, signer=signer)
        forget(table, release_id)
        settle(table, history=history)
    return done


def settle_tables(lake: "Lake", history: "Lake | None" = None) -> "tuple[Settled, list[str]]":
    """Move or erase superseded releases in all tables of a lake. Return the results and the failures.

    Args:
        lake: Lake with the tables.
        history: Lake of superseded releases. A table whose history is in another lake is only cleaned as far
            as possible without it.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    done, problems = Settled(), []
    for name in table_names(lake):
        try:
            if open_table(lake.table(name)) is not None:  # a first publication may have stored only its proof
                done += settle(lake.table(name), history=history)
        except PrivacyEngineError as error:
            problems.append(f"{name}: {error}")
    return done, problems
