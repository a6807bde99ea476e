"""Evidence packs that are made when releases are published, kept in the curator's folder.

A pack is signed by the key that signed its release. A service that only shows packs needs no private key: a
pack is intact if its signature is by the key that signed the release's own statement, or by one that this key
signed as its successor, as shown in the lake. Whether the key itself is to be trusted is for the reader to
check, with `privacy-release evidence check --key`.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from privacy_engine.errors import IntegrityError, SecretError
from privacy_release.config.settings import curator_folder
from privacy_release.evidence.archive import check, pack
from privacy_release.evidence.facts import publication_of
from privacy_release.evidence.pages import PDF_PACKAGES
from privacy_release.lake.log import Publication
from privacy_release.lake.store import ReleaseTable
from privacy_release.proof.chain import read_statement
from privacy_release.proof.faults import FaultError
from privacy_release.proof.keys import PublicKey, SigningKey
from privacy_release.proof.published_keys import shown_keys, trusted_keys
from privacy_release.reports.curator import curator_file, read_for_curator, write_for_curator
from privacy_release.workarea.area import WorkArea

LARGEST = 200_000_000  # largest size of a pack in bytes
_ENDING = ".zip"


class EvidenceRef(TypedDict):
    """The path of a release's evidence, and the SHA-256 of its manifest."""

    evidence: str
    manifest_sha256: str


def keep_evidence(table: ReleaseTable, release_id: str, key: SigningKey | None) -> EvidenceRef:
    """Make the evidence of a published release, replacing an earlier one, with a PDF if possible.

    The release itself is not changed. If this fails, the release stays published, and you can try again.

    Args:
        table: The release table.
        release_id: ID of the release.
        key: Key that signed the release. None: there is none.

    Raises:
        SecretError: If there is no key, or the release is not signed by this key or one that it replaces.
        PublishError, IntegrityError: As `archive.pack`.
        OSError: If the file cannot be written.
    """
    entry = publication_of(table, release_id)
    if key is None or key.public.id not in {signer.id for signer in signers_of(table, entry)}:
        raise SecretError(
            f"release {release_id} of table {table.name} is published, but its evidence must be signed "
            "by the key that signed it, or by its successor; name that key (the option `signing_key`, or the "
            "connection of the task), and try again"
        )
    data = pack(table, release_id, [key], pdf=all(map(find_spec, PDF_PACKAGES)))
    path = write_for_curator(data, _folder(table.name), _file(entry), ending=_ENDING)
    return EvidenceRef(evidence=str(path), manifest_sha256=entry.manifest_sha256)


def kept_evidence(table: ReleaseTable, entry: Publication) -> bytes | None:
    """Return the evidence of a publication, if it is intact. None if there is none on this machine.

    Raises:
        IntegrityError: If it was changed, or signed by another key than its release.
        PublishError: If the lake cannot be reached.
    """
    try:
        data = read_for_curator(_place(table.name), _file(entry), _ENDING, LARGEST)
    except OSError as error:
        raise IntegrityError(
            f"the evidence of release {entry.release_id} of table {table.name} must be a file that this "
            f"server can read, got {type(error).__name__}; make it again with `privacy-release evidence make`"
        ) from None
    if data is None:
        return None
    found = check(data, signers_of(table, entry))
    if (found.table, found.release, found.manifest_sha256) != (
        table.name,
        entry.release_id,
        entry.manifest_sha256,
    ):
        raise IntegrityError(
            f"the evidence of release {entry.release_id} of table {table.name} must be about exactly this "
            "release, but is about another; make it again with `privacy-release evidence make`"
        )
    return data


def has_evidence(name: str, entry: Publication) -> bool:
    """Return whether an evidence file for this publication exists here. Its content is not checked."""
    return (_place(name) / curator_file(_file(entry), _ENDING)).is_file()


def signers_of(table: ReleaseTable, entry: Publication) -> list[PublicKey]:
    """Return the keys that may sign evidence of a publication. Empty if the publication is not signed.

    Raises:
        IntegrityError: If its statement is missing or changed.
        PublishError: If the lake cannot be reached.
    """
    if entry.statement is None:
        return []
    try:
        shown = shown_keys(table.lake)
        signer = read_statement(table, entry.statement, shown).key_id
        return [found.key for found in trusted_keys(table.lake, [shown[signer].key]).values()]
    except FaultError as fault:
        raise IntegrityError(
            f"the statement about release {entry.release_id} of table {table.name} must be as it was signed: "
            f"{fault}; restore it from a backup"
        ) from None


def _folder(name: str) -> str:
    return f"evidence of {name}"


def _place(name: str) -> Path:
    return WorkArea(curator_folder(), _folder(name)).folder


def _file(entry: Publication) -> str:
    """Return the name of a publication's file. A release that is published again has another manifest."""
    return f"{entry.release_id} {entry.manifest_sha256}"
