"""What whoever signs publications and retractions of a table is asked, and the one chain that they make.

The statement about a commit is stored before it, and the commit's note names its hash, so that neither a
crash nor a race can part them. Each one names the hash of the one before. Two signed commits of a table
conflict, whatever they change, so that one statement has one successor: the loser signs anew. The files of a
commit are known after it; the statement about them is stored beside the first one, and a retry stores it
where a crash came between, even a retry that staged other bytes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from deltalake import Transaction

from privacy_release.lake.store import ReleaseTable
from privacy_release.manifest.manifest import Manifest

_CHAIN = "privacy_release: signed statements"  # Delta application id that all signed commits share


class Signer(Protocol):
    """Signs statements about a table of releases."""

    def about(self, manifest: Manifest, *, approved: bool) -> Self:
        """What signs the release of a manifest, which somebody approved or not."""

    def rows_digest(self, files: Sequence[Path], columns: list[str]) -> str:
        """The hash of the rows of staged files, whatever their order."""

    def statement(self, table: ReleaseTable, version: int, note: Mapping[str, Any]) -> tuple[str, int]:
        """Store the statement about the commit that follows a version; its sha256 and place in the chain."""

    def lacks_files(self, table: ReleaseTable, statement: str) -> bool:
        """Whether there is no statement yet about the data files of the commit that this one is about."""

    def files(self, table: ReleaseTable, partition: str, version: int, statement: str) -> None:
        """Store the statement about the data files of a commit, unless it is there."""


def linked(
    signer: Signer | None, table: ReleaseTable, version: int, note: Mapping[str, Any]
) -> dict[str, Any]:
    """What a note says of its statement; nothing where nobody signs."""
    if signer is None:
        return {}
    sha256, sequence = signer.statement(table, version, note)
    return {"statement": {"sha256": sha256, "sequence": sequence}}


def chained(note: Mapping[str, Any]) -> "list[Transaction]":
    """The Delta transaction that makes two signed commits conflict; none for an unsigned one."""
    if "statement" not in note:
        return []
    return [Transaction(app_id=_CHAIN, version=note["statement"]["sequence"])]
