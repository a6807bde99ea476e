"""Whether a ledger still has the entries that paid for the releases of a table.

A ledger is whole by its own chain also where it was replaced by an old copy of itself: the newest entries are
gone, and what they spent could be spent again. The table knows better: each manifest names its entry.
"""

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from privacy_release.budget.budget import Budget
from privacy_release.lake.log import State, current_version, newest
from privacy_release.lake.read import standing_manifest

if TYPE_CHECKING:
    from privacy_release.lake.store import ReleaseTable

NEWEST = 5  # releases of a table whose entries are looked for: an old copy lacks the newest ones first


def lacks_entries(budget: Budget, table: "ReleaseTable") -> bool:
    """Whether a ledger lacks an entry that paid for one of the newest current releases of a table.

    Args:
        budget: whose data set; releases that others paid for are left out.
        table: The release table.

    Raises:
        LedgerError: if the ledger cannot be reached.
        PublishError: if the lake cannot be reached.
        IntegrityError: if a manifest is not the one that its commit names.
    """
    recorded = recorded_entries(table, NEWEST).get(budget.dataset, set())
    return bool(budget.ledger.lacking(budget.dataset, recorded))


def recorded_entries(table: "ReleaseTable", most: int | None = None) -> dict[str, set[str]]:
    """The hashes of the ledger entries that paid for the current releases of a table, by data set.

    Args:
        table: The release table.
        most: Number of the newest releases that are looked at; None: all.

    Raises:
        PublishError: if the lake cannot be reached.
        IntegrityError: if a manifest is not the one that its commit names.
    """
    found: dict[str, set[str]] = defaultdict(set)
    version = current_version(table)
    if version is None:
        return found
    current = (entry for entry in newest(table, version) if entry.state is State.CURRENT)
    for entry in islice(current, most):
        booking = standing_manifest(table, entry.release_id, entry.version).booking
        if booking:
            found[booking.dataset].add(booking.entry_hash)
    return found
