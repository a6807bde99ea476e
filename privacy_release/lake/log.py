"""What the commit log of a release table says: which releases were published, replaced and retracted."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from privacy_engine.errors import PublishError
from privacy_release.lake.rows import PARTITION
from privacy_release.lake.store import Lake, reaching

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG_KEY = "privacy_release"
# Each lost attempt means that another writer got ahead, so the writers as a whole always make progress.
ATTEMPTS = 20
_LONGEST_ID = 240  # a folder `release=<id>` is a file name of at most 255 bytes


class State(StrEnum):
    """What became of a publication."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    RETRACTED = "retracted"


@dataclass(frozen=True, kw_only=True)
class Tombstone:
    """A retraction: its commit, its time (UTC, ISO 8601), why, and the hash of the tombstone manifest."""

    version: int
    committed: str
    reason: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Publication:
    """One publish commit of a release; a release that a later run replaced has several.

    Attributes:
        committed: time of the commit, UTC, ISO 8601.
        columns: the columns of this release, without those that other releases brought into the table.
        sha256: of the staged file that was verified.
        figures: what the manifest says in short: method, guarantees, measured figures, privacy loss,
            approval.
    """

    release_id: str
    run_key: str
    version: int
    committed: str
    state: State
    rows: int
    columns: tuple[str, ...]
    sha256: str
    manifest_sha256: str
    report_sha256: str
    figures: Mapping[str, Any]
    tombstone: Tombstone | None = None

    @property
    def proofs(self) -> frozenset[str]:
        """File names of its manifest and report in the proof folder."""
        return frozenset({f"{self.manifest_sha256}.json", f"{self.report_sha256}.html"})


def publications(lake: Lake, table: "DeltaTable") -> list[Publication]:
    """Every publication up to the table's newest version, oldest first; brings the table up to it."""
    found: list[Publication] = []
    for commit in commits(lake, table):
        note = commit.get(LOG_KEY)
        if not isinstance(note, Mapping):  # a commit of another tool: maintenance, or the table's creation
            continue
        committed = datetime.fromtimestamp(commit["timestamp"] / 1000, UTC).isoformat(timespec="milliseconds")
        stone = None
        if note["action"] == "retract":
            stone = Tombstone(
                version=commit["version"],
                committed=committed,
                reason=note["reason"],
                sha256=note["tombstone"],
            )
        found = [_after(earlier, note["release"], stone) for earlier in found]
        if stone is None:
            found.append(_publication(commit["version"], committed, note))
    return found


def commits(lake: Lake, table: "DeltaTable") -> list[dict[str, Any]]:
    """The log of a table up to its newest version, oldest first; brings the table up to it.

    The Delta library lists all commits there are, but counts their versions backwards from the one that the
    table was opened at: what it tells is true only if nobody committed in between.

    Raises:
        PublishError: if the lake cannot be reached, or the table changes all the time.
    """
    for _ in range(ATTEMPTS):
        with reaching(lake, "read the history"):
            version = table.version()
            found = table.history()
            table.update_incremental()
            if table.version() == version:
                return sorted(found, key=lambda commit: int(commit["version"]))
    raise PublishError(f"a table changed under each of {ATTEMPTS} attempts to read its history; retry")


def _after(earlier: Publication, release_id: str, stone: Tombstone | None) -> Publication:
    """A publication once a later commit replaced or retracted its release."""
    if earlier.release_id != release_id or earlier.state is State.RETRACTED:
        return earlier
    if stone is None:
        return replace(earlier, state=State.SUPERSEDED)
    return replace(earlier, state=State.RETRACTED, tombstone=stone)


def _publication(version: int, committed: str, note: Mapping[str, Any]) -> Publication:
    return Publication(
        release_id=note["release"],
        run_key=note["run_key"],
        version=version,
        committed=committed,
        state=State.CURRENT,
        rows=note["rows"],
        columns=tuple(note["columns"]),
        sha256=note["sha256"],
        manifest_sha256=note["manifest"],
        report_sha256=note["report"],
        figures=note["figures"],
    )


def open_table(lake: Lake, name: str, version: int | None = None) -> "DeltaTable | None":
    """The release table as of a version (default: the newest), or None if there is none.

    Raises:
        ValueError: if the name is no table name.
        PublishError: if the lake cannot be reached or has no such version.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    check_name(name)
    with reaching(lake, f"open table {name}"):
        try:
            return DeltaTable(lake.table(name), version=version, storage_options=lake.options)
        except TableNotFoundError:
            return None


def existing_table(lake: Lake, name: str, version: int | None = None) -> "DeltaTable":
    """As `open_table`, but a missing table is a PublishError."""
    table = open_table(lake, name, version)
    if table is None:
        raise PublishError(
            f"table {name} must exist in the lake at {lake.root}; publish a first release, "
            "or check name and address"
        )
    return table


def data_files(lake: Lake, name: str, release_id: str | None, version: int | None = None) -> set[str]:
    """Paths (below the lake's root) of the data files of one release, or of all, as of a version."""
    table = existing_table(lake, name, version)
    with reaching(lake, "list the files of a release"):
        wanted = None if release_id is None else [(PARTITION, "=", release_id)]
        uris = table.file_uris(file_pruning_predicate=wanted)
    # The library spells the table's address in its own way (az:// for abfss://), so only the tail is taken;
    # '/' and '=' inside a release id are percent-encoded there.
    return {f"{name}/{PARTITION}={uri.rsplit(f'/{PARTITION}=', 1)[1]}" for uri in uris}


def predicate(release_id: str) -> str:
    """SQL predicate that selects a release's partition; a quote is doubled, there are no other escapes."""
    return f"{PARTITION} = '" + release_id.replace("'", "''") + "'"


def proof_folder(name: str) -> str:
    """Where manifests, reports and tombstones of a table are stored, below the lake's root."""
    return f"_proof/{name}"


def log_entry(name: str, version: int) -> str:
    """Path of a commit, below the lake's root."""
    return f"{name}/_delta_log/{version:020d}.json"


def check_name(name: str) -> None:
    """Refuse a table name that could leave the lake's root or hide in it.

    Raises:
        ValueError: see above.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise ValueError(
            "a table name must be 1 to 100 letters, digits, '_' or '-' and begin with a letter or digit; "
            "rename the table"
        )


def check_text(what: str, text: str, longest: int = _LONGEST_ID) -> None:
    """Refuse blank, padded, unprintable or overlong text where it becomes part of the log or of a path.

    Args:
        what: its name for the message.
        text: a release id, run key or reason.
        longest: bytes that it may have when percent-encoded.

    Raises:
        ValueError: see above.
    """
    if not text.isprintable() or not text.strip() or text != text.strip() or text.startswith("__HIVE_"):
        raise ValueError(
            f"the {what} must be printable text without blanks around it and without a Hive marker, "
            f"got {len(text)} characters; use the partition key or the run id"
        )
    if len(quote(text, safe="")) > longest:
        raise ValueError(
            f"the {what} must have at most {longest} bytes when percent-encoded, "
            f"got {len(quote(text, safe=''))}; shorten it"
        )
