"""The interface of a signer of publications and retractions, and the chain of statements in a table.

The statement about a commit is stored before it, and the commit's note names its hash, so that neither a
crash nor a race can separate them. Each statement names the hash of the one before. Two signed commits of a
table always conflict, so each statement has one successor: the losing writer signs again. The files of a
commit are known only after it. The statement about them is stored next to the first one, and after a crash a
retry stores it, even a retry that staged other bytes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from deltalake import Transaction

from privacy_release.lake.store import ReleaseTable
from privacy_release.manifest.manifest import Manifest

_CHAIN = "privacy_release: signed statements"  # Delta application id that all signed commits share


class Signer(Protocol):
    """A signer of statements about a table of releases."""

    def about(self, manifest: Manifest, *, approved: bool) -> Self:
        """Return the signer for a release with this manifest, which was approved or not."""

    def rows_digest(self, files: Sequence[Path], columns: list[str]) -> str:
        """Return the hash of the rows of staged files, independent of their order."""

    def statement(self, table: ReleaseTable, version: int, note: Mapping[str, Any]) -> tuple[str, int]:
        """Store the statement about the commit after a version. Return its SHA-256 and place in the chain."""

    def lacks_files(self, table: ReleaseTable, statement: str) -> bool:
        """Return whether the data files of the commit in a statement are not signed yet."""

    def files(self, table: ReleaseTable, partition: str, version: int, statement: str) -> None:
        """Store the statement about the data files of a commit, unless it exists."""


def linked(
    signer: Signer | None, table: ReleaseTable, version: int, note: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the part of a note about its statement. Empty without a signer."""
    if signer is None:
        return {}
    sha256, sequence = signer.statement(table, version, note)
    return {"statement": {"sha256": sha256, "sequence": sequence}}


def chained(note: Mapping[str, Any]) -> "list[Transaction]":
    """Return the Delta transaction that makes two signed commits conflict. Empty for an unsigned commit."""
    if "statement" not in note:
        return []
    return [Transaction(app_id=_CHAIN, version=note["statement"]["sequence"])]
