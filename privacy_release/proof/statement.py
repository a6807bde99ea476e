"""The statement about a publication or retraction: an in-toto Statement (v1) in a DSSE envelope.

It binds what can be known before the commit, above all the hash of the rows, and the commit names it. A
second one binds the files that the commit has made. docs/proof.md says what each field means.
"""

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self, TypeGuard

from privacy_engine.errors import IntegrityError
from privacy_release.config.settings import setting
from privacy_release.lake.commits import newest_first
from privacy_release.lake.log import data_files, statement_files
from privacy_release.lake.store import Lake, ReleaseTable, chunks, put, read_all
from privacy_release.manifest.manifest import Manifest
from privacy_release.proof.envelope import opened_unproven, sealed
from privacy_release.proof.faults import FaultError
from privacy_release.proof.keys import SigningKey, signing_key_in
from privacy_release.proof.published_keys import show_key
from privacy_release.proof.rows import rows_digest
from privacy_release.workarea.engines import DEFAULT_MEMORY, read_memory

STATEMENT = "https://in-toto.io/Statement/v1"
COMMIT = "urn:privacy-release:commit:v1"
FILES = "urn:privacy-release:files:v1"
# Of the note of a commit: what is about the statement itself, or about other commits.
_NOT_SIGNED = ("statement", "index")
# Entries that name no file among the proofs, whatever they look like.
_NO_PROOFS = frozenset({*_NOT_SIGNED, "release", "run_key", "sha256", "rows_digest", "figures"})
_CODE = (
    "privacy-release",
    "airflow-privacy-release",
    "apache-airflow",
    "deltalake",
    "duckdb",
    "numpy",
    "opendp",
    "pandas",
    "pyarrow",
    "pyspark",
    "scikit-learn",
)


@dataclass(frozen=True, kw_only=True)
class StatementSigner:
    """Signs the publications and retractions of tables, see `privacy_release.lake.signing.Signer`.

    Attributes:
        key: that signs.
        facts: of a publication, what the statement repeats of its manifest, which a retraction erases.
        memory: bytes that hashing rows may take.
    """

    key: SigningKey
    facts: Mapping[str, Any] = field(default_factory=dict)
    memory: int = read_memory(DEFAULT_MEMORY)

    def about(self, manifest: Manifest, *, approved: bool) -> Self:
        """What signs the release of a manifest.

        Args:
            manifest: of which the statement repeats what must outlive it.
            approved: whether somebody approved the release; then it counts for nothing without that approval.
        """
        booking, software = manifest.booking, manifest.software
        facts = {
            "demands": {"approval": approved},
            "software": software and software.to_dict(),
            "floor_policy": manifest.floor_policy,
            "ledger_entry": {"dataset": booking.dataset, "entry_hash": booking.entry_hash} if booking else {},
        }
        return replace(self, facts=facts)

    def rows_digest(self, files: Sequence[Path], columns: list[str]) -> str:
        """The hash of the rows of staged files, see `privacy_release.proof.rows`."""
        return rows_digest(files, columns, files[0].parent, self.memory)[0]

    def statement(self, table: ReleaseTable, version: int, note: Mapping[str, Any]) -> tuple[str, int]:
        """Store the statement about the commit that follows a version; its sha256 and place in the chain.

        Raises:
            IntegrityError: if the statement before it is missing or was changed.
            SecretError: if the lake shows that the key does not hold today.
            PublishError: if the lake cannot be reached.
        """
        show_key(table.lake, self.key)
        previous, sequence = _last(table, version)
        payload = {
            "_type": STATEMENT,
            "subject": list(_subjects(note)),
            "predicateType": COMMIT,
            "predicate": {
                "table": table.name,
                "sequence": sequence + 1,
                "previous": previous,
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "note": signed_part(note),
                "code": _code(),
                **self.facts,
            },
        }
        data = sealed(payload, [self.key])
        sha256 = hashlib.sha256(data).hexdigest()
        put(table.lake, table.proof(statement_files(sha256)[0]), data)
        return sha256, sequence + 1

    def lacks_files(self, table: ReleaseTable, statement: str) -> bool:
        """Whether there is no statement yet about the data files of the commit that this one is about.

        Raises:
            PublishError: if the lake cannot be reached.
        """
        return read_all(table.lake, [table.proof(statement_files(statement)[1])]) == [None]

    def files(self, table: ReleaseTable, partition: str, version: int, statement: str) -> None:
        """Store the statement about the data files of a commit, unless it is there.

        Raises:
            PublishError: if the lake cannot be reached.
        """
        if not self.lacks_files(table, statement):
            return
        path = table.proof(statement_files(statement)[1])
        payload = {
            "_type": STATEMENT,
            "subject": [
                {"name": file, "digest": {"sha256": stored_sha256(table.lake, file)}}
                for file in sorted(data_files(table, [partition], version))
            ],
            "predicateType": FILES,
            "predicate": {
                "table": table.name,
                "partition": partition,
                "version": version,
                "statement": statement,
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        }
        put(table.lake, path, sealed(payload, [self.key]))


def signer_of_settings() -> StatementSigner | None:
    """What signs with the key in the file that the option `signing_key` names; None where it names none.

    Raises:
        SecretError: if there is no such key.
    """
    chosen = setting("signing_key")
    if chosen is None:
        return None
    return StatementSigner(key=signing_key_in(Path(chosen).expanduser()))


def signed_part(note: Mapping[str, Any]) -> dict[str, Any]:
    """What of a commit's note a statement binds: whatever the note says of the commit itself."""
    return {key: value for key, value in note.items() if key not in _NOT_SIGNED}


def statement_of(note: object) -> str | None:
    """The sha256 of the statement that a commit's note names; None where it names none."""
    marked = note.get("statement") if isinstance(note, Mapping) else None
    sha256 = marked.get("sha256") if isinstance(marked, Mapping) else None
    return sha256 if is_sha256(sha256) else None


def stored_sha256(lake: Lake, path: str) -> str:
    """The hash of a file as it lies in the lake.

    Raises:
        PublishError: if it is not there, or the lake cannot be reached.
    """
    digest = hashlib.sha256()
    for chunk in chunks(lake, path):
        digest.update(chunk)
    return digest.hexdigest()


def _last(table: ReleaseTable, version: int) -> tuple[str | None, int]:
    """Hash and place of the last statement of a table up to a version; None and 0 where there is none."""
    for commit in newest_first(table, version):
        sha256 = statement_of(commit.note)
        if sha256 is None:
            continue
        (data,) = read_all(table.lake, [table.proof(statement_files(sha256)[0])])
        try:
            if data is not None and hashlib.sha256(data).hexdigest() == sha256:
                return sha256, int(opened_unproven(data)["predicate"]["sequence"])
        except (FaultError, KeyError, TypeError, ValueError):
            pass
        raise IntegrityError(
            f"the signed statement {sha256} of table {table.name}, version {commit.version}, must be as it "
            "was stored, or no other can follow it: restore it from a backup, or publish under a new name"
        )
    return None, 0


def _subjects(note: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a statement is about: the rows, the staged records, and the proofs."""
    if "rows_digest" in note:
        yield {"name": "rows", "digest": {"privacyReleaseRowsV1": note["rows_digest"]}}
        yield {"name": "staged", "digest": {"sha256": note["sha256"]}}
    for name, sha256 in proofs_of(note):
        yield {"name": name, "digest": {"sha256": sha256}}


def proofs_of(note: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Name and sha256 of the proofs that a note names: manifest, report, and whatever others there are."""
    for key, value in note.items():
        if key in _NO_PROOFS:
            continue
        if isinstance(value, Mapping):
            yield from proofs_of(value, f"{place}{key}/")
        elif is_sha256(value):
            yield f"{place}{key}", value


def is_sha256(value: object) -> TypeGuard[str]:
    """Whether it is 64 hexadecimal digits."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _code() -> dict[str, str]:
    """The versions of what made and publishes the release."""
    found = {"python": platform.python_version()}
    for name in _CODE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
