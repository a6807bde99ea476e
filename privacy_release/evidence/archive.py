"""The archive: its content, its signature, and the check of both.

It is a ZIP file whose index, `index.dsse.json`, is an in-toto statement in a DSSE envelope
(`privacy_release.proof.envelope`): it names every other file with its SHA-256, and the release. Equal
releases, opinions and keys give equal bytes. Everything in it comes from what is published, and it contains
no record.
"""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privacy_engine.errors import IntegrityError, SpecError
from privacy_release.evidence.facts import facts_of, publication_of
from privacy_release.evidence.pages import html_of, pdf_of
from privacy_release.lake.log import Publication, statement_files
from privacy_release.lake.store import ReleaseTable, read_all
from privacy_release.proof.envelope import opened, sealed
from privacy_release.proof.faults import FaultError
from privacy_release.proof.keys import PublicKey, SigningKey, by_id
from privacy_release.proof.statement import STATEMENT

INDEX = "index.dsse.json"
EVIDENCE = "urn:privacy-release:evidence:v1"
LARGEST = 200_000_000  # largest size in bytes of a file in an archive
MOST = 100  # largest number of files
_LONGEST = 100_000  # largest number of characters in an opinion
_MOMENT = (1980, 1, 1, 0, 0, 0)  # time of every file, so that equal contents are equal bytes

TEMPLATE = """\
I have read the evidence in this archive. [Name, and qualification to judge.]

What an anticipated recipient knows and may reasonably find elsewhere: [ ]

The risk that this recipient identifies a person with the release {release} of {table} is, in my judgement,
[very small / not very small], because: [ ]

What would change this opinion: [another release of the same people; a source that becomes public; ...]

[Place, date, signature]
"""
README = """\
Evidence of release {release} of table {table}
==============================================

evidence.html, evidence.pdf   for people: policy, findings, risks, three standards, the opinion
evidence.json                 the same for programs
opinion.txt                   the expert's opinion, or a form for it
release/                      manifest, report, data dictionary and signed statement, as published
{index}               the signed list of these files, with the sha256 of each

Check it:    privacy-release evidence check THIS_FILE --key PUBLIC_KEYS [--table LAKE/TABLE]
Your words:  write them into opinion.txt and make the archive again, with --opinion opinion.txt. An archive
             with a changed file is refused.
"""


@dataclass(frozen=True, kw_only=True)
class Pack:
    """The content of an archive that was checked against its signature.

    Attributes:
        table, release: Table and ID of the release.
        manifest_sha256: SHA-256 of its manifest.
        keys: IDs of the keys that signed.
        files: Names of the files.
        opinion: Whether it has an expert's opinion.
    """

    table: str
    release: str
    manifest_sha256: str
    keys: frozenset[str]
    files: tuple[str, ...]
    opinion: bool


def pack(
    table: ReleaseTable,
    release_id: str,
    keys: Sequence[SigningKey],
    *,
    opinion: str | None = None,
    pdf: bool = True,
) -> bytes:
    """Return the archive of a release.

    Args:
        table: The release table.
        release_id: ID of the release.
        keys: Keys that sign.
        opinion: Opinion of the expert as plain text. None: the form for it.
        pdf: Whether to include a PDF.

    Raises:
        PublishError: If there is no such release, or it was retracted.
        IntegrityError: If what is published differs from the table's log.
        SpecError: If the opinion is empty or too long, there is no key, or a PDF cannot be made.
    """
    if not keys:
        raise SpecError(
            "an evidence pack must be signed: give --sign FILE, a key of `privacy-release key new`"
        )
    if opinion is not None and not 0 < len(opinion.strip()) <= _LONGEST:
        raise SpecError(f"the opinion must have 1 to {_LONGEST:,} characters, got {len(opinion.strip()):,}")
    entry = publication_of(table, release_id)
    facts = facts_of(table, entry) | {"opinion": opinion is not None}
    text = opinion or TEMPLATE.format(table=table.name, release=release_id)
    files = {
        "README.txt": README.format(table=table.name, release=release_id, index=INDEX).encode(),
        "evidence.json": _json(facts),
        "evidence.html": html_of(facts, text),
        "opinion.txt": text.encode(),
        **_published(table, entry),
    }
    if pdf:
        files["evidence.pdf"] = pdf_of(facts, text)
    statement = {
        "_type": STATEMENT,
        "subject": [
            {"name": path, "digest": {"sha256": hashlib.sha256(files[path]).hexdigest()}}
            for path in sorted(files)
        ],
        "predicateType": EVIDENCE,
        "predicate": {
            "table": table.name,
            "release": release_id,
            "manifest_sha256": entry.manifest_sha256,
            "opinion": opinion is not None,
        },
    }
    return _zipped({**files, INDEX: sealed(statement, keys)})


def check(data: bytes, keys: Iterable[PublicKey]) -> Pack:
    """Check an archive against the keys, and return its content.

    Args:
        data: Bytes of the archive.
        keys: Public keys that are trusted.

    Raises:
        IntegrityError: If it is no archive, no trusted key signed it, or a file is changed, missing or added.
    """
    files = _unzipped(data)
    index = files.pop(INDEX, None)
    if index is None:
        raise IntegrityError(f"the archive must have the signed index {INDEX}; request the complete one")
    try:
        statement, signed = opened(index, by_id(keys))
        subjects = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
        about = statement["predicate"]
        kind = statement["predicateType"]
    except FaultError as error:
        raise IntegrityError(f"the index of the archive cannot be trusted: {error}") from None
    except (KeyError, TypeError):
        raise IntegrityError("the index of the archive must be a statement about its files") from None
    if kind != EVIDENCE:
        raise IntegrityError(f"the index of the archive must be of the kind {EVIDENCE}, not of another")
    found = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    reasons = [
        *(f"{path} is missing" for path in sorted(subjects.keys() - found.keys())),
        *(f"{path} was added" for path in sorted(found.keys() - subjects.keys())),
        *(f"{p} was changed" for p in sorted(found.keys() & subjects.keys()) if found[p] != subjects[p]),
    ]
    if reasons:
        raise IntegrityError(f"the archive is not what was signed: {', '.join(reasons)}; request it again")
    return Pack(
        table=about["table"],
        release=about["release"],
        manifest_sha256=about["manifest_sha256"],
        keys=signed,
        files=tuple(sorted(found)),
        opinion=bool(about["opinion"]),
    )


def require_of_release(found: Pack, table: ReleaseTable) -> None:
    """Raise if an archive is not about the lake's current release of its ID.

    Raises:
        IntegrityError: If it is about another table, or the release was published again since.
        PublishError: If there is no such release, or it was retracted.
    """
    if found.table != table.name:
        raise IntegrityError(f"the archive is of table {found.table}, not of {table.name}")
    if publication_of(table, found.release).manifest_sha256 != found.manifest_sha256:
        raise IntegrityError(
            f"release {found.release} of table {table.name} was published again; make its evidence again"
        )


def _published(table: ReleaseTable, entry: Publication) -> dict[str, bytes]:
    """Return the proofs of a release from its table, by their names in the archive."""
    wanted = {
        f"release/{path}": f"{digest}.{path.rpartition('.')[2]}" for path, digest in entry.further.items()
    }
    wanted = {to: at for to, at in wanted.items() if to.endswith((".json", ".html"))}
    wanted["release/manifest.json"] = f"{entry.manifest_sha256}.json"
    wanted["release/report.html"] = f"{entry.report_sha256}.html"
    if entry.statement is not None:
        statement, of_files = statement_files(entry.statement)
        wanted |= {"release/statement.dsse.json": statement, "release/files.dsse.json": of_files}
    contents = read_all(table.lake, [table.proof(file) for file in wanted.values()])
    found = dict(zip(wanted, contents, strict=True))
    if found.get("release/files.dsse.json", b"") is None:
        del found["release/files.dsse.json"]  # it is made after the commit, whose process died
    wrong = [
        path
        for path, content in found.items()
        if content is None or (_digest(wanted[path]) not in ("", hashlib.sha256(content).hexdigest()))
    ]
    if wrong:
        raise IntegrityError(
            f"table {table.name} must have {', '.join(sorted(wrong))} of this release as the log names "
            "it; restore it from a backup"
        )
    return {path: content for path, content in found.items() if content is not None}


def _digest(file: str) -> str:
    """Return the SHA-256 in the name of a proof. Empty for one that is named by another's."""
    return "" if ".dsse" in file or "files" in file else file.partition(".")[0]


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def _zipped(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _MOMENT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[path], zipfile.ZIP_DEFLATED)
    return target.getvalue()


def _unzipped(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive, with limits on number and size."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            if len(entries) > MOST or len(set(names)) < len(names):
                raise IntegrityError(f"the archive must have at most {MOST} files, each name once")
            if any(entry.file_size > LARGEST for entry in entries):
                raise IntegrityError(f"a file of the archive must have at most {LARGEST:,} bytes")
            return {entry.filename: archive.read(entry) for entry in entries}
    # All errors of zipfile for a truncated or foreign file, including an unknown compression.
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error):
        raise IntegrityError("the file must be a complete evidence archive; request it again") from None
