"""How a table keeps its releases: which are current, what becomes of the others, how folders are called.

The rules stand in the table's properties, so that whoever clears up after a crash, retracts or publishes next
goes by the same ones. A table without them was written before there were any: it is read as ever, and a
publication by partition takes it over; a snapshot would replace all that it holds, so that is asked for by
`set_mode` first.
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
_MADE = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z|.*-[0-9a-f]{8}")  # what `folder_name` makes of other ids


@dataclass(frozen=True, kw_only=True)
class TableRules:
    """What a table holds and what becomes of the releases that it holds no more.

    Attributes:
        mode: which releases are current.
        superseded: whether they are dropped, or kept apart as a table `<name>_history`.
        grace: for how long the files of a superseded release stay for those who are reading them.
        history: the lake of that table; None where nothing is kept, or it is the one that the table names.
    """

    mode: PublishMode = PublishMode.PARTITIONS
    superseded: Superseded = Superseded.DROP
    grace: timedelta = GRACE
    history: Lake | None = None

    def __post_init__(self) -> None:
        if self.grace < timedelta(0):
            raise ValueError(f"the grace must not be negative, got {self.grace}; readers need some time")
        if (self.superseded is Superseded.HISTORY) != (self.history is not None):
            raise ValueError(
                "superseded: history must stand beside a history lake, and only then; name it or remove both"
            )

    def properties(self) -> dict[str, str]:
        """As they stand in the table; a history that was kept once is never forgotten."""
        told = {
            _MODE: self.mode.value,
            _SUPERSEDED: self.superseded.value,
            _GRACE: str(int(self.grace.total_seconds())),
        }
        return told | ({_HISTORY: self.history.root} if self.history else {})


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The rules that stand in a table.

    Attributes:
        mode: None where an earlier version wrote the table.
        history: address of the lake that has, or once had, its superseded releases.
    """

    mode: PublishMode | None
    superseded: Superseded
    grace: timedelta
    history: str | None

    def history_lake(self, lake: Lake, given: Lake | None) -> Lake | None:
        """The lake of the superseded releases; without one that is given, by the rights of the table's own.

        Raises:
            PublishError: if another one is given than the table names.
        """
        if self.history is None:
            return None
        if given is not None and given.root != self.history:
            raise PublishError(
                f"the superseded releases of the table are kept in {self.history}, got {given.root}; name "
                "that lake, for two histories would not know of each other"
            )
        return given or Lake(root=self.history, storage_options=lake.storage_options)

    def history_table(self, table: ReleaseTable, given: Lake | None) -> ReleaseTable | None:
        """The table of the superseded releases of a table; arguments and errors as of `history_lake`."""
        lake = self.history_lake(table.lake, given)
        return None if lake is None else lake.table(history_name(table.name))


def recorded(table: "DeltaTable") -> Recorded:
    """The rules that stand in a table's snapshot.

    Raises:
        PublishError: if another tool changed them.
    """
    told: Mapping[str, str] = table.metadata().configuration
    try:
        return Recorded(
            mode=PublishMode(told[_MODE]) if _MODE in told else None,
            superseded=Superseded(told.get(_SUPERSEDED, Superseded.DROP)),
            grace=timedelta(seconds=int(told.get(_GRACE, GRACE.total_seconds()))),
            history=told.get(_HISTORY),
        )
    except ValueError:
        raise PublishError(
            f"the table's properties {_MODE}, {_SUPERSEDED} and {_GRACE} must be as they were written; set "
            "them again with `privacy-release table`"
        ) from None


def own_rules(lake: Lake, table: "DeltaTable | None") -> TableRules:
    """The rules by which a table is kept; the plainest ones for one that has none, or is not there."""
    if table is None:
        return TableRules()
    has = recorded(table)
    kept = has.history_lake(lake, None) if has.superseded is Superseded.HISTORY else None
    return TableRules(
        mode=has.mode or PublishMode.PARTITIONS, superseded=has.superseded, grace=has.grace, history=kept
    )


def require_mode(name: str, table: "DeltaTable", rules: TableRules) -> bool:
    """Refuse to publish into a table that is kept in another mode; whether its rules are these already.

    Raises:
        PublishError: naming both modes and the remedy.
    """
    has = recorded(table)
    if of := table.metadata().configuration.get(HISTORY_OF):
        raise PublishError(f"table {name} is the history of table {of}; publish under another name")
    has_rows = bool(table.file_uris())
    if has.mode is None and rules.mode is PublishMode.SNAPSHOT and has_rows:
        raise PublishError(
            f"table {name} was written by an earlier version, with every release side by side; a snapshot "
            f"replaces them all. Allow it with `privacy-release table LAKE/{name} --mode snapshot`, or keep "
            "it as it is with publish.mode: partitions"
        )
    if has.mode is not None and has.mode is not rules.mode:
        raise PublishError(
            f"table {name} is kept in the mode {has.mode.value}, and this release asks for "
            f"{rules.mode.value}; correct publish.mode, publish under a new table name, or change the table "
            f"with `privacy-release table LAKE/{name} --mode {rules.mode.value}`"
        )
    if rules.history is not None and has.history not in (None, rules.history.root):
        raise PublishError(
            f"the superseded releases of table {name} are kept in {has.history}, and this release asks for "
            f"{rules.history.root}; name the same lake"
        )
    return rules.properties().items() <= table.metadata().configuration.items()


def require_history(table: "DeltaTable", name: str, of: str) -> None:
    """Refuse to keep superseded releases in a table that has releases of its own.

    Raises:
        PublishError: see above.
    """
    if table.metadata().configuration.get(HISTORY_OF) != of:
        raise PublishError(
            f"table {name} must be the history of table {of}, and is another one; name another history lake"
        )


def write_rules(lake: Lake, table: "DeltaTable", properties: Mapping[str, str]) -> None:
    """Write rules into a table, in a commit of its own.

    Raises:
        CommitFailedError: if another commit got ahead.
        PublishError: if the lake cannot be reached.
    """
    with reaching(lake, "write the table's properties"):
        table.alter.set_table_properties(dict(properties), raise_if_not_exists=False)
        table.update_incremental()


def set_mode(table: ReleaseTable, mode: PublishMode) -> PublishMode | None:
    """Let a table be kept in another mode from its next release on; the mode it had.

    Nothing is removed now: the next snapshot replaces what the table holds by then, and what an append or a
    partition finds stays beside it.

    Raises:
        PublishError: if there is no such table, it cannot be reached, or others write at the same time.
    """
    delta = existing_table(table)
    before = recorded(delta).mode
    try:
        write_rules(table.lake, delta, {_MODE: mode.value})
    except CommitFailedError:
        raise PublishError(f"table {table.name} changed meanwhile; nothing was set, try again") from None
    return before


def history_name(name: str) -> str:
    """The table of the superseded releases of a table."""
    return f"{name}_history"


def release_lock(release_id: str) -> str:
    """Delta application id by which two commits about one release conflict."""
    return json.dumps(["release", release_id])


def folder_name(release_id: str) -> str:
    """The partition value of a release, which names its folder: what a person can read, and no other has.

    An id of letters, digits, `.`, `_` and `-` stays as it is, and a run by schedule is its moment. Of others
    the moment or the plain characters are kept, with eight hexadecimal digits of the id's hash.

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
    told = "{}T{}{}{}Z".format(*found.groups()) if found else plain or "release"
    return f"{told}-{hashlib.sha256(release_id.encode()).hexdigest()[:8]}"
