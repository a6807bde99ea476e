"""Taking a release back, and with it what is kept inside about the people in it; clearing tables up."""

from typing import TYPE_CHECKING

from privacy_engine.errors import PrivacyEngineError
from privacy_release.lake.log import open_table
from privacy_release.lake.retract import retract
from privacy_release.lake.store import as_readable_as_the_lake, table_names
from privacy_release.lake.superseded import Settled, settle
from privacy_release.steps.history import forget

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
    """Retract a release from the lake, forget who was in it, and clear the table up; safe to repeat.

    Arguments and errors as of `privacy_release.lake.retract.retract`.
    """
    with as_readable_as_the_lake(table.lake):
        done = retract(table, release_id, reason, history=history, signer=signer)
        forget(table, release_id)
        settle(table, history=history)
    return done


def settle_tables(lake: "Lake", history: "Lake | None" = None) -> "tuple[Settled, list[str]]":
    """Move or erase what was superseded in all tables of a lake; what was done, and where it could not be.

    Args:
        lake: where.
        history: the lake of the superseded releases; for tables whose history is in another one, what the
            rights to their own lake reach.

    Raises:
        PublishError: if the lake cannot be reached.
    """
    done, problems = Settled(), []
    for name in table_names(lake):
        try:
            if (
                open_table(lake.table(name)) is not None
            ):  # a first publication may have stored its proof alone
                done += settle(lake.table(name), history=history)
        except PrivacyEngineError as error:
            problems.append(f"{name}: {error}")
    return done, problems
