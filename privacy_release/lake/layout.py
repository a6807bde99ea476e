"""The rules of a table: which releases are current, what happens to superseded ones, how folders are named.

The rules are stored in the table's properties, so that the next clean-up after a crash, retraction or
publication follows the same rules. A table without rules was written before they existed. It is read as
before, and a publication by partition adopts it. A snapshot would replace its whole content, so that must be
allowed with `set_mode` first.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from deltalake.exceptions import CommitFailedError

from privacy_engine.errors import PublishError
from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.lake.log import existing_table
from privacy_release.lake.store import Lake, ReleaseTable, reaching

if TYPE_CHECKING:
    from deltalake import DeltaTable

GRACE = timedelta(hours=1)
_MODE, _SUPERSEDED, _GRACE, _HISTORY = (
    f"privacy_release.{name}" for name in ("mode", "superseded", "grace_seconds", "history")
)
HISTORY_OF = "privacy_release.history_of"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEDULED = re.compile(r"scheduled__(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)\+00:00")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:\+00:00|Z)")
_MADE = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z|.*-[0-9a-f]{8}")  # results of `folder_name` for other IDs


@dataclass(frozen=True, kw_only=True)
class TableRules:
    """The rules on which releases a table keeps, and what happens to superseded ones.

    Attributes:
        mode: Rule on which releases are current.
        superseded: Whether superseded releases are dropped, or kept in a table `<name>_history`.
        grace: How long the files of a superseded release are kept for queries that are still running.
        history: Lake of the history table. None if there is no history, or the table already names its lake.
    """

    mode: PublishMode = PublishMode.PARTITIONS
    superseded: Superseded = Superseded.DROP
    grace: timedelta = GRACE
    history: Lake | None = None

    def __post_init__(self) -> None:
        if self.grace < timedelta(0):
            raise ValueError(f"the grace must not be negative, got {self.grace}; queries need time to finish")
        if (self.superseded is Superseded.HISTORY) != (self.history is not None):
            raise ValueError(
                "superseded: history requires a history lake, and the other way round; set both or none"
            )

    def properties(self) -> dict[str, str]:
        """Return the rules as table properties. A history lake is never removed from them."""
        properties = {
            _MODE: self.mode.value,
            _SUPERSEDED: self.superseded.value,
            _GRACE: str(int(self.grace.total_seconds())),
        }
        return properties | ({_HISTORY: self.history.root} if self.history else {})


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The rules stored in a table.

    Attributes:
        mode: Stored mode. None if an earlier version wrote the table.
        history: Address of the lake that has, or once had, its superseded releases.
    """

    mode: PublishMode | None
    superseded: Superseded
    grace: timedelta
    history: str | None

    def history_lake(self, lake: Lake, given: Lake | None) -> Lake | None:
        """Return the history lake. If none is given, it uses the credentials of the table's own lake.

        Raises:
            PublishError: If the given lake is not the one that the table names.
        """
        if self.history is None:
            return None
        if given is not None and given.root != self.history:
            raise PublishError(
                f"the superseded releases of the table are kept in {self.history}, got {given.root}; use "
                "that lake, because two histories would be incomplete"
            )
        return given or Lake(root=self.history, storage_options=lake.storage_options)

    def history_table(self, table: ReleaseTable, given: Lake | None) -> ReleaseTable | None:
        """Return the history table of a table. Arguments and errors are as for `history_lake`."""
        lake = self.history_lake(table.lake, given)
        return None if lake is None else lake.table(history_name(table.name))


def recorded(table: "DeltaTable") -> Recorded:
    """Read the rules in a table's snapshot.

    Raises:
        PublishError: If another tool changed them.
    """
    properties: Mapping[str, str] = table.metadata().configuration
    try:
        return Recorded(
            mode=PublishMode(properties[_MODE]) if _MODE in properties else None,
            superseded=Superseded(properties.get(_SUPERSEDED, Superseded.DROP)),
            grace=timedelta(seconds=int(properties.get(_GRACE, GRACE.total_seconds()))),
            history=properties.get(_HISTORY),
        )
    except ValueError:
        raise PublishError(
            f"the table's properties {_MODE}, {_SUPERSEDED} and {_GRACE} must be as they were written; set "
            "them again with `privacy-release table`"
        ) from None


def own_rules(lake: Lake, table: "DeltaTable | None") -> TableRules:
    """Return the rules of a table. The defaults if it has no rules, or does not exist."""
    if table is None:
        return TableRules()
    has = recorded(table)
    kept = has.history_lake(lake, None) if has.superseded is Superseded.HISTORY else None
    return TableRules(
        mode=has.mode or PublishMode.PARTITIONS, superseded=has.superseded, grace=has.grace, history=kept
    )


def require_mode(name: str, table: "DeltaTable", rules: TableRules) -> bool:
    """Raise if a table is kept in another mode. Return whether it already has these rules.

    Raises:
        PublishError: Naming both modes and the remedy.
    """
    has = recorded(table)
    if of := table.metadata().configuration.get(HISTORY_OF):
        raise PublishError(f"table {name} is the history of table {of}; publish under another name")
    has_rows = bool(table.file_uris())
    if has.mode is None and rules.mode is PublishMode.SNAPSHOT and has_rows:
        raise PublishError(
            f"table {name} was written by an earlier version, which kept all releases; a snapshot "
            f"replaces them all. Allow it with `privacy-release table LAKE/{name} --mode snapshot`, or keep "
            "them with publish.mode: partitions"
        )
    if has.mode is not None and has.mode is not rules.mode:
        raise PublishError(
            f"table {name} is kept in the mode {has.mode.value}, but this release requires "
            f"{rules.mode.value}; correct publish.mode, publish under a new table name, or change the table "
            f"with `privacy-release table LAKE/{name} --mode {rules.mode.value}`"
        )
    if rules.history is not None and has.history not in (None, rules.history.root):
        raise PublishError(
            f"the superseded releases of table {name} are kept in {has.history}, but this release names "
            f"{rules.history.root}; name the same lake"
        )
    return rules.properties().items() <= table.metadata().configuration.items()


def require_history(table: "DeltaTable", name: str, of: str) -> None:
    """Raise if superseded releases would be kept in a table that is not their history.

    Raises:
        PublishError: See above.
    """
    if table.metadata().configuration.get(HISTORY_OF) != of:
        raise PublishError(
            f"table {name} must be the history of table {of}, but it is another one; use another history lake"
        )


def write_rules(lake: Lake, table: "DeltaTable", properties: Mapping[str, str]) -> None:
    """Write rules into a table, in a separate commit.

    Raises:
        CommitFailedError: If another commit came first.
        PublishError: If the lake cannot be reached.
    """
    with reaching(lake, "write the table's properties"):
        table.alter.set_table_properties(dict(properties), raise_if_not_exists=False)
        table.update_incremental()


def set_mode(table: ReleaseTable, mode: PublishMode) -> PublishMode | None:
    """Change the mode of a table from its next release on, and return the previous mode.

    Nothing is removed now. The next snapshot replaces the table's content at that time; an append or a
    partition keeps it.

    Raises:
        PublishError: If there is no such table, it cannot be reached, or others write at the same time.
    """
    delta = existing_table(table)
    before = recorded(delta).mode
    try:
        write_rules(table.lake, delta, {_MODE: mode.value})
    except CommitFailedError:
        raise PublishError(
            f"table {table.name} changed in the meantime; nothing was set, try again"
        ) from None
    return before


def history_name(name: str) -> str:
    """Return the name of the history table of a table."""
    return f"{name}_history"


def release_lock(release_id: str) -> str:
    """Return the Delta application ID that makes two commits about one release conflict."""
    return json.dumps(["release", release_id])


def folder_name(release_id: str) -> str:
    """Return the partition value of a release, which names its folder: readable and unique.

    An ID of letters, digits, `.`, `_` and `-` is unchanged, and a scheduled run is named by its time. For
    other IDs, the time or the plain characters are kept, with eight hexadecimal digits of the ID's hash.

    >>> folder_name("2026-W01"), folder_name("scheduled__2026-01-01T00:00:00+00:00")
    ('2026-W01', '2026-01-01T000000Z')
    >>> folder_name("manual__2026-01-01T00:00:00.5+00:00_x")
    '2026-01-01T000000Z-d557b416'
    """
    if _PLAIN.fullmatch(release_id) and not _MADE.fullmatch(release_id):
        return release_id
    if found := _SCHEDULED.fullmatch(release_id):
        return "{}T{}{}{}Z".format(*found.groups())
    found = _MOMENT.search(release_id)
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", release_id)[:60].strip("-._")
    readable = "{}T{}{}{}Z".format(*found.groups()) if found else plain or "release"
    return f"{readable}-{hashlib.sha256(release_id.encode()).hexdigest()[:8]}"
