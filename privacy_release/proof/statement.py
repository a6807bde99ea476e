"""The statement about a publication or retraction: an in-toto Statement (v1) in a DSSE envelope.

It binds what is known before the commit, above all the hash of the rows, and the commit names it. A second
statement binds the files that the commit has made. docs/reference_proof.md describes each field.
"""

import hashlib
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
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
from privacy_release.proof.rows import hashing_database, rows_digest
from privacy_release.workarea.engines import DEFAULT_MEMORY, read_memory

STATEMENT = "https://in-toto.io/Statement/v1"
COMMIT = "urn:privacy-release:commit:v1"
FILES = "urn:privacy-release:files:v1"
# Parts of a commit's note about the statement itself, or about other commits.
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
        key: Key that signs.
        facts: Facts from the manifest of a publication that must outlive its retraction.
        memory: Largest memory for hashing rows, in bytes.
    """

    key: SigningKey
    facts: Mapping[str, Any] = field(default_factory=dict)
    memory: int = read_memory(DEFAULT_MEMORY)

    def about(self, manifest: Manifest, *, approved: bool) -> Self:
        """Return the signer for the release of a manifest.

        Args:
            manifest: Manifest with the facts that the statement repeats, because they must outlive it.
            approved: Whether the release was approved. Then it is only valid with that approval.
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
        """Return the hash of the rows of staged files, see `privacy_release.proof.rows`."""
        with (
            tempfile.TemporaryDirectory(dir=files[0].parent, prefix="digest-") as spill,
            hashing_database(Path(spill), self.memory) as database,
        ):
            return rows_digest(files, columns, database)[0]

    def statement(self, table: ReleaseTable, version: int, note: Mapping[str, Any]) -> tuple[str, int]:
        """Store the statement about the commit after a version. Return its SHA-256 and place in the chain.

        Raises:
            IntegrityError: If the statement before it is missing or was changed.
            SecretError: If the lake says that the key is not valid today.
            PublishError: If the lake cannot be reached.
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
        """Return whether the data files of the commit in a statement are not signed yet.

        Raises:
            PublishError: If the lake cannot be reached.
        """
        return read_all(table.lake, [table.proof(statement_files(statement)[1])]) == [None]

    def files(self, table: ReleaseTable, partition: str, version: int, statement: str) -> None:
        """Store the statement about the data files of a commit, unless it exists.

        Raises:
            PublishError: If the lake cannot be reached.
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
    """Return the signer with the key file in the option `signing_key`. None if the option is not set.

    Raises:
        SecretError: If there is no such key.
    """
    chosen = setting("signing_key")
    if chosen is None:
        return None
    return StatementSigner(key=signing_key_in(Path(chosen).expanduser()))


def signed_part(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a commit's note that a statement binds: all except facts about the commit itself."""
    return {key: value for key, value in note.items() if key not in _NOT_SIGNED}


def statement_of(note: object) -> str | None:
    """Return the SHA-256 of the statement in a commit's note. None if there is none."""
    marked = note.get("statement") if isinstance(note, Mapping) else None
    sha256 = marked.get("sha256") if isinstance(marked, Mapping) else None
    return sha256 if is_sha256(sha256) else None


def stored_sha256(lake: Lake, path: str) -> str:
    """Return the hash of a file in the lake.

    Raises:
        PublishError: If it does not exist, or the lake cannot be reached.
    """
    digest = hashlib.sha256()
    for chunk in chunks(lake, path):
        digest.update(chunk)
    return digest.hexdigest()


def _last(table: ReleaseTable, version: int) -> tuple[str | None, int]:
    """Return hash and position of the last statement up to a version. None and 0 if there is none."""
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
    """Yield the subjects of a statement: the rows, the staged records, and the proofs."""
    if "rows_digest" in note:
        yield {"name": "rows", "digest": {"privacyReleaseRowsV1": note["rows_digest"]}}
        yield {"name": "staged", "digest": {"sha256": note["sha256"]}}
    for name, sha256 in proofs_of(note):
        yield {"name": name, "digest": {"sha256": sha256}}


def proofs_of(note: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of the proofs in a note: manifest, report, and all others."""
    for key, value in note.items():
        if key in _NO_PROOFS:
            continue
        if isinstance(value, Mapping):
            yield from proofs_of(value, f"{place}{key}/")
        elif is_sha256(value):
            yield f"{place}{key}", value


def is_sha256(value: object) -> TypeGuard[str]:
    """Return whether a value is 64 hexadecimal digits."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


@cache
def _code() -> Mapping[str, str]:
    """Return the versions of the code that made and publishes the release: ten files to parse."""
    found = {"python": platform.python_version()}
    for name in _CODE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
