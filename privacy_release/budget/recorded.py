"""Check whether a ledger still has the entries that paid for the releases of a table.

The chain of a ledger is intact even if the ledger was replaced by an old copy of itself: the newest entries
are missing, and what they spent could be spent again. The table shows this: each manifest names its entry.
"""

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from privacy_release.budget.budget import Budget
from privacy_release.lake.log import State, current_version, newest
from privacy_release.lake.read import standing_manifest

if TYPE_CHECKING:
    from privacy_release.lake.store import ReleaseTable

NEWEST = 5  # number of releases whose entries are checked: an old copy lacks the newest ones first


def lacks_entries(budget: Budget, table: "ReleaseTable") -> bool:
    """Return whether a ledger lacks an entry that paid for one of the newest current releases of a table.

    Args:
        budget: Budget of the data set. Releases that other data sets paid for are ignored.
        table: The release table.

    Raises:
        LedgerError: If the ledger cannot be reached.
        PublishError: If the lake cannot be reached.
        IntegrityError: If a manifest is not the one that its commit names.
    """
    recorded = recorded_entries(table, NEWEST).get(budget.dataset, set())
    return bool(budget.ledger.lacking(budget.dataset, recorded))


def recorded_entries(table: "ReleaseTable", most: int | None = None) -> dict[str, set[str]]:
    """Return the hashes of the ledger entries that paid for current releases of a table, by data set.

    Args:
        table: The release table.
        most: Number of the newest releases to read. None: all.

    Raises:
        PublishError: If the lake cannot be reached.
        IntegrityError: If a manifest is not the one that its commit names.
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
