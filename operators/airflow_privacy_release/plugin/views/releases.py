"""The releases of the lakes, for the pages that list them."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from airflow_privacy_release.plugin.auth import Rights
from airflow_privacy_release.plugin.connections import Places
from privacy_engine.errors import IntegrityError, PrivacyEngineError
from privacy_release.lake.log import (
    Publication,
    State,
    existing_version,
    newest_such,
    publications,
)
from privacy_release.lake.store import Lake, get, table_names
from privacy_release.manifest.manifest import Manifest
from privacy_release.workarea.references import symbols_of

SHOWN_STATES: Mapping[State, str] = {
    State.CURRENT: "published",
    State.SUPERSEDED: "superseded",
    State.RETRACTED: "retracted",
    State.DAMAGED: "damaged",
}


DICTIONARY_PAGE = "dictionary.html"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One publication of a release.

    Attributes:
        lake: Connection id of the lake.
        entry: Entry of the table's log.
    """

    lake: str
    table: str
    entry: Publication

    @property
    def dag_id(self) -> str | None:
        """The DAG whose run published the release; None if the run key names no run."""
        dag_id, _, run_id = self.entry.run_key.partition("/")
        return dag_id if run_id else None

    @property
    def run_id(self) -> str | None:
        """The run that published the release."""
        return self.entry.run_key.partition("/")[2] or None

    @property
    def status(self) -> str:
        """The status of the release, in the pages' words."""
        return SHOWN_STATES[self.entry.state]

    @property
    def has_dictionary(self) -> bool:
        """Whether the release has a data dictionary, which is erased by a retraction."""
        return self.entry.tombstone is None and DICTIONARY_PAGE in self.entry.further

    @property
    def method(self) -> str:
        """Registry key of the release method; empty if its publisher did not record it."""
        return str(self.entry.figures.get("method") or "")

    @property
    def symbols(self) -> dict[str, float]:
        """The measured k, l and t, and the epsilon that was spent."""
        found = symbols_of(self.entry.figures.get("measured") or [])
        loss = self.entry.figures.get("loss")
        return found | ({"epsilon": float(loss["epsilon"])} if loss else {})

    @property
    def approval(self) -> "Approval | None":
        """The approval of the release; None if none was required."""
        return approval_of(self.entry.figures)

    @property
    def approved_by(self) -> str | None:
        """The approver's name; None if no approval was required."""
        return None if self.approval is None else self.approval.by


@dataclass(frozen=True, kw_only=True)
class Approval:
    """Who approved a release, when (ISO 8601; may be empty), and their comment."""

    by: str
    at: str
    comment: str


def approval_of(figures: Mapping[str, Any]) -> Approval | None:
    """Return the approval in a commit; None if no approval was required."""
    approval = figures.get("approval")
    if not approval or approval.get("automatic"):
        return None
    by = approval.get("by")
    if isinstance(by, Mapping):  # Airflow's own form of a user
        by = by.get("name") or by.get("id")
    return Approval(
        by=str(by or "unknown"),
        at=str(approval.get("at") or ""),
        comment=str(approval.get("comment") or ""),
    )


def all_listed(places: Places, rights: Rights) -> tuple[list[Listed], list[str]]:
    """Return all publications that the user may see, newest first, and what could not be read."""
    rows: list[Listed] = []
    problems = list(places.problems)
    for name, lake in places.lakes.items():
        for table in _tables(lake, problems):
            with _noting(problems):
                rows += of_table(name, lake, table, rights)
    return sorted(rows, key=lambda row: row.entry.committed, reverse=True), problems


def _tables(lake: Lake, problems: list[str]) -> list[str]:
    """Return the tables of a lake. If it cannot be read, note why and return none."""
    found: list[str] = []
    with _noting(problems):
        found += table_names(lake)
    return found


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Note why a table or lake could not be read and continue, so that it does not hide the others."""
    try:
        yield
    except PrivacyEngineError as error:
        problems.append(str(error))


def of_table(name: str, lake: Lake, table: str, rights: Rights) -> list[Listed]:
    """Return the publications of a table that the user may see, oldest first; none without such a table."""
    rows = [Listed(lake=name, table=table, entry=entry) for entry in publications(lake.table(table))]
    return [row for row in rows if rights.reads_release(row.dag_id, name)]


def one(name: str, lake: Lake, table: str, version: int) -> Listed | None:
    """Return the publication of a table's version, whether or not the user may see it.

    Raises:
        PublishError: If there is no such table.
        ValueError: If its name is not well-formed.
    """
    entry = newest_such(
        lake.table(table), existing_version(lake.table(table)), lambda entry: entry.version == version
    )
    return None if entry is None else Listed(lake=name, table=table, entry=entry)


def standing(rows: Sequence[Listed]) -> list[Listed]:
    """Return the last publication of each release that is not retracted, oldest first.

    This includes releases that the table no longer holds: their proofs remain valid.
    """
    last = {row.entry.release_id: row for row in rows if row.entry.state in (State.CURRENT, State.SUPERSEDED)}
    return sorted(last.values(), key=lambda row: row.entry.version)


def same_release(lake: Lake, row: Listed) -> list[Listed]:
    """Return all publications of the same release. They are retracted together.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    entries = publications(lake.table(row.table))
    return [replace(row, entry=e) for e in entries if e.release_id == row.entry.release_id]


def manifest_of(lake: Lake, row: Listed) -> dict[str, Any]:
    """Return the manifest of a publication, or the tombstone of a retracted one.

    Raises:
        IntegrityError: If the stored manifest is not the one that the commit names.
        PublishError: If it cannot be read.
    """
    stone = row.entry.tombstone
    if stone is None:
        row.entry.require_readable(row.table)
    digest = row.entry.manifest_sha256 if stone is None else stone.sha256
    found: dict[str, Any] = json.loads(_proof(lake, row.table, digest, "json"))
    return found


@dataclass(frozen=True, kw_only=True)
class ShownRelease:
    """A publication with its manifest."""

    row: Listed
    manifest: Manifest


def with_manifest(lake: Lake, row: Listed) -> ShownRelease:
    """Return a publication with its manifest; a retracted one has only what its commit contains.

    Raises:
        IntegrityError, PublishError: As for `manifest_of`.
    """
    gone = row.entry.tombstone is not None
    return ShownRelease(
        row=row, manifest=Manifest.from_dict(row.entry.figures if gone else manifest_of(lake, row))
    )


def attacks_in(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the attacks in a manifest, by attack and subject; most manifests have none.

    >>> about = {"attack": "inference", "bound": 0.1, "outcomes": [{"subject": "illness", "excess": 0.02}]}
    >>> attacks_in(Manifest.from_dict({"attacks": [about]}))
    [{'attack': 'inference', 'bound': 0.1, 'subject': 'illness', 'excess': 0.02}]
    """
    return [
        {"attack": attack.attack, "bound": attack.bound, **outcome.stored}
        for attack in manifest.attacks
        for outcome in attack.outcomes
    ]


def report_of(lake: Lake, row: Listed) -> bytes:
    """Return the report of a publication that is not retracted.

    Raises:
        IntegrityError: If the stored report is not the one that the commit names.
        PublishError: If it cannot be read.
    """
    row.entry.require_readable(row.table)
    return _proof(lake, row.table, row.entry.report_sha256, "html")


def dictionary_of(lake: Lake, row: Listed) -> bytes | None:
    """Return the data dictionary of a publication that is not retracted, as a page; None if it has none.

    Raises:
        IntegrityError, PublishError: As for `report_of`.
    """
    row.entry.require_readable(row.table)
    digest = row.entry.further.get(DICTIONARY_PAGE)
    return None if digest is None else _proof(lake, row.table, digest, "html")


def _proof(lake: Lake, table: str, digest: str, kind: str) -> bytes:
    data = get(lake, lake.table(table).proof(f"{digest}.{kind}"))
    if hashlib.sha256(data).hexdigest() != digest:
        raise IntegrityError(
            f"the stored proof of table {table} does not have the sha256 {digest}: it was changed"
        )
    return data


def of_run(places: Places, dag_id: str, run_id: str) -> tuple[list[Listed], list[str]]:
    """Return what a run published, newest first, whether or not the user may see it; and read errors."""
    key = f"{dag_id}/{run_id}"
    found: list[Listed] = []
    problems = list(places.problems)
    for name, lake in places.lakes.items():
        for table in _tables(lake, problems):
            with _noting(problems):
                entries = publications(lake.table(table))
                found += [
                    Listed(lake=name, table=table, entry=entry) for entry in entries if entry.run_key == key
                ]
    return sorted(found, key=lambda row: row.entry.committed, reverse=True), problems


def distinct(rows: Iterable[Listed], attribute: str) -> Sequence[str]:
    """Return the values of an attribute, as the choices of a filter."""
    return sorted({str(getattr(row, attribute)) for row in rows})
