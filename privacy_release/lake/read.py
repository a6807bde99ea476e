"""Read release tables: the list of releases, the rows of one, its manifest."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from privacy_engine.errors import IntegrityError, PublishError
from privacy_engine.tables.persons import TABLE
from privacy_engine.vocabulary import PARTITION
from privacy_release.lake.log import (
    Publication,
    check_text,
    current_version,
    existing_table,
    existing_version,
    newest,
    newest_such,
)
from privacy_release.lake.store import ReleaseTable, dataset_of, get, reaching, takes_table
from privacy_release.manifest.manifest import Manifest

if TYPE_CHECKING:
    import pyarrow as pa


@takes_table
def releases(table: ReleaseTable) -> list[dict[str, Any]]:
    """Return all publications in a table as dictionaries, oldest first. Empty if there is no table."""
    return list(newest_releases(table))[::-1]


def newest_releases(table: ReleaseTable) -> Iterator[dict[str, Any]]:
    """Like `releases`, newest first. Only as much of the history as you consume is read."""
    version = current_version(table)
    for entry in () if version is None else newest(table, version):
        stone = entry.tombstone and asdict(entry.tombstone)
        yield vars(entry) | {"state": entry.state.value, "tombstone": stone}


@takes_table
def read_release(table: ReleaseTable, release_id: str, version: int | None = None) -> "pa.Table":
    """Return the rows of a release with its own columns, in published order (a stream has no order).

    Args:
        table: The release table.
        release_id: Partition key or run ID of the release.
        version: Table version to read, for example one before a later run replaced the release.

    Raises:
        PublishError: If there is no such release at that version, or the lake cannot be reached.
        IntegrityError: If the table does not have the recorded number of rows, or its note is damaged.
    """
    check_text("release id", release_id)
    delta = existing_table(table)
    entry = _entry(table, delta.version(), release_id, version)
    _require_standing(entry, table.name)
    if version is not None:
        delta = existing_table(table, version)
    if entry.superseded_by is not None and entry.superseded_by <= delta.version():
        raise PublishError(
            f"the release was superseded in version {entry.superseded_by} of table {table.name} by a newer "
            f"release; its rows are in {table.name}_history if the table has one"
        )
    with reaching(table.lake, f"read table {table.name}"):
        files = dataset_of(table, delta, (PARTITION, "=", entry.partition))
        rows = files.to_table(columns=list(entry.columns), filter=ds.field(PARTITION) == entry.partition)
    if rows.num_rows != entry.rows:
        raise IntegrityError(
            f"table {table.name} must hold {entry.rows} rows of this release, got {rows.num_rows}: "
            "another tool changed it; publish the release again"
        )
    return rows


@takes_table
def read_tables(table: ReleaseTable, release_id: str, version: int | None = None) -> "dict[str, pa.Table]":
    """Return each table of a release of several tables, with its own columns, at one version.

    Arguments and errors are as for `read_release`.

    Raises:
        PublishError: Also if the release is of one table.
    """
    version = existing_version(table) if version is None else version
    rows = read_release(table, release_id, version)
    person = standing_manifest(table, release_id, version).person
    if person is None or not person.tables:
        raise PublishError(f"the release in {table.name} is of one table; use read_release")
    return {
        table: rows.filter(pc.equal(rows[TABLE], table)).select([person.column, *own.columns])
        for table, own in person.tables.items()
    }


@takes_table
def manifest_of(table: ReleaseTable, release_id: str, version: int | None = None) -> dict[str, Any]:
    """Return the manifest of a release, or its tombstone manifest, with `"retracted": true`.

    Raises:
        PublishError: If there is no such release, or the lake cannot be reached.
        IntegrityError: If the stored manifest is not the one that the commit names, or its note is damaged.
    """
    entry = _entry(table, existing_version(table), release_id, version)
    if entry.tombstone is None:
        entry.require_readable(table.name)
    digest = entry.manifest_sha256 if entry.tombstone is None else entry.tombstone.sha256
    return _stored_json(table, digest, "manifest")


def standing_manifest(table: ReleaseTable, release_id: str, version: int | None = None) -> Manifest:
    """Return the manifest of a release that is not retracted, parsed.

    Raises:
        PublishError: If there is no such release, it was retracted, or the lake cannot be reached.
        IntegrityError: As `manifest_of`, or if a field has another type than this version expects.
    """
    entry = _entry(table, existing_version(table), release_id, version)
    _require_standing(entry, table.name)
    return Manifest.from_dict(_stored_json(table, entry.manifest_sha256, "manifest"))


def dictionary_of(table: ReleaseTable, release_id: str, version: int | None = None) -> dict[str, Any] | None:
    """Return the data dictionary of a release. None if it was published without one.

    Raises:
        PublishError: If there is no such release, it was retracted, or the lake cannot be reached.
        IntegrityError: If the stored dictionary is not the one that the commit names, or its note is damaged.
    """
    entry = _entry(table, existing_version(table), release_id, version)
    _require_standing(entry, table.name)
    digest = entry.further.get("dictionary.json")
    return None if digest is None else _stored_json(table, digest, "dictionary")


def proof_of(table: ReleaseTable, release_id: str, what: str) -> bytes | None:
    """Return a further proof of a release by its name, such as `replicates.parquet`. None if it has none.

    Raises:
        PublishError: If there is no such release, it was retracted, or the lake cannot be reached.
        IntegrityError: If the stored file is not the one that the commit names, or its note is damaged.
    """
    entry = _entry(table, existing_version(table), release_id, None)
    _require_standing(entry, table.name)
    digest = entry.further.get(what)
    return None if digest is None else _stored(table, f"{digest}.{what.rpartition('.')[2]}", what)


def pages_of(table: ReleaseTable, release_id: str, version: int | None = None) -> dict[str, str]:
    """Return the addresses of a release's pages, by name: `report`, and `dictionary` if there is one.

    A retracted release has none.

    Raises:
        PublishError: If there is no such release, or the lake cannot be reached.
    """
    entry = _entry(table, existing_version(table), release_id, version)
    if entry.tombstone is not None or entry.problem is not None:
        return {}
    pages = {"report": entry.report_sha256, "dictionary": entry.further.get("dictionary.html")}
    folder = f"{table.lake.root}/{table.proofs}"
    return {page: f"{folder}/{digest}.html" for page, digest in pages.items() if digest is not None}


def _stored_json(table: ReleaseTable, digest: str, what: str) -> dict[str, Any]:
    """Read a proof that is stored under the hash of its bytes."""
    stored: dict[str, Any] = json.loads(_stored(table, f"{digest}.json", what))
    return stored


def _stored(table: ReleaseTable, file: str, what: str) -> bytes:
    data, digest = get(table.lake, table.proof(file)), file.partition(".")[0]
    if hashlib.sha256(data).hexdigest() != digest:
        raise IntegrityError(
            f"the stored {what} of table {table.name} must have the sha256 {digest}; it was changed"
        )
    return data


def _require_standing(entry: Publication, name: str) -> None:
    """Raise if a release was retracted, or its note is damaged."""
    if entry.tombstone is not None:
        raise PublishError(
            f"the release was retracted from table {name}: {entry.tombstone.reason}; use another release"
        )
    entry.require_readable(name)


def _entry(table: ReleaseTable, now: int, release_id: str, version: int | None) -> Publication:
    """Return the publication of a release at a version. It may be retracted as of version `now`."""
    found = newest_such(
        table,
        now,
        lambda entry: entry.release_id == release_id and (version is None or entry.version <= version),
    )
    if found is None:
        raise PublishError(
            f"table {table.name} must have this release in this version; see the list of its releases"
        )
    return found
