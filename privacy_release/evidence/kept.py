"""Evidence packs that are made as releases are published, in the curator's folder, and read from there.

A pack is signed where releases are, by the key that signed its release. Whoever only shows it needs no
private key: a pack is what it was if its signature is by the key that signed the release's own statement, or
by one that this key signed as its successor, as the lake shows them. Whether the key is to be trusted at all
is for the reader to check, with `privacy-release evidence check --key`.
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

LARGEST = 200_000_000  # bytes of a pack
_ENDING = ".zip"


class EvidenceRef(TypedDict):
    """Where the evidence of a release is, and the sha256 of its manifest."""

    evidence: str
    manifest_sha256: str


def keep_evidence(table: ReleaseTable, release_id: str, key: SigningKey | None) -> EvidenceRef:
    """Make the evidence of a published release, over an earlier one; with a PDF where the extra is installed.

    Nothing of the release is changed: where this fails, the release stands, and it can be done again.

    Args:
        table: The release table.
        release_id: of the release.
        key: that signed the release; None: nobody signs.

    Raises:
        SecretError: if nobody signs, or the release is not signed by this key or one that it replaces.
        PublishError, IntegrityError: as `archive.pack`.
        OSError: if the file cannot be written.
    """
    entry = publication_of(table, release_id)
    if key is None or key.public.id not in {signer.id for signer in signers_of(table, entry)}:
        raise SecretError(
            f"release {release_id} of table {table.name} stands, and its evidence must be signed by the key "
            "that signed it, or by its successor; name that key (the option `signing_key`, or the connection "
            "of the task), and try again"
        )
    data = pack(table, release_id, [key], pdf=all(map(find_spec, PDF_PACKAGES)))
    path = write_for_curator(data, _folder(table.name), _file(entry), ending=_ENDING)
    return EvidenceRef(evidence=str(path), manifest_sha256=entry.manifest_sha256)


def kept_evidence(table: ReleaseTable, entry: Publication) -> bytes | None:
    """The evidence of a publication, if it is what was signed; None where there is none on this machine.

    Raises:
        IntegrityError: if it was changed, or signed by another key than its release.
        PublishError: if the lake cannot be reached.
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
            f"the evidence of release {entry.release_id} of table {table.name} must be about this very "
            "release, and is about another; make it again with `privacy-release evidence make`"
        )
    return data


def has_evidence(name: str, entry: Publication) -> bool:
    """Whether there is a file of evidence of a publication on this machine, whatever is in it."""
    return (_place(name) / curator_file(_file(entry), _ENDING)).is_file()


def signers_of(table: ReleaseTable, entry: Publication) -> list[PublicKey]:
    """The keys by which evidence of a publication may be signed; none of one that nobody signed.

    Raises:
        IntegrityError: if its statement is missing or changed.
        PublishError: if the lake cannot be reached.
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
    """What the file of a publication is named by: a release that is published anew has another manifest."""
    return f"{entry.release_id} {entry.manifest_sha256}"
