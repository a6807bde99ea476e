"""Reading release tables: the list of releases, the rows of one, its manifest."""

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, PublishError
from privacy_release.lake.log import (
    Publication,
    check_text,
    existing_table,
    open_table,
    proof_folder,
    publications,
)
from privacy_release.lake.rows import PARTITION
from privacy_release.lake.store import Lake, get, reaching

if TYPE_CHECKING:
    import pyarrow as pa


def releases(lake: Lake, name: str) -> list[dict[str, Any]]:
    """Every publication in a table, oldest first: `Publication` as dictionaries; empty without a table."""
    table = open_table(lake, name)
    return (
        []
        if table is None
        else [asdict(entry) | {"state": entry.state.value} for entry in publications(lake, table)]
    )


def read_release(lake: Lake, name: str, release_id: str, version: int | None = None) -> "pa.Table":
    """Rows of a release, in published order (a stream has none), with its own columns.

    Args:
        lake: where.
        name: the release table.
        release_id: partition key or run id.
        version: read it as of an older table version, e.g. what a later run replaced.

    Raises:
        PublishError: if there is no such release (yet, or any more), or the lake cannot be reached.
        IntegrityError: if the table does not hold the recorded number of rows.
    """
    import pyarrow.dataset as ds

    check_text("release id", release_id)
    entry = _entry(lake, name, release_id, version)
    if entry.tombstone is not None:
        raise PublishError(
            f"the release was retracted from table {name}: {entry.tombstone.reason}; use another one"
        )
    table = existing_table(lake, name, version)
    with reaching(lake, f"read table {name}"):
        files = table.to_pyarrow_dataset(file_pruning_predicate=[(PARTITION, "=", release_id)])
        rows = files.to_table(columns=list(entry.columns), filter=ds.field(PARTITION) == release_id)
    if rows.num_rows != entry.rows:
        raise IntegrityError(
            f"table {name} must hold {entry.rows} rows of this release, got {rows.num_rows}: "
            "another tool changed it; publish the release again"
        )
    return rows


def manifest_of(lake: Lake, name: str, release_id: str, version: int | None = None) -> dict[str, Any]:
    """The manifest of a release; of a retracted one the tombstone manifest, which has `"retracted": true`.

    Raises:
        PublishError: if there is no such release, or the lake cannot be reached.
        IntegrityError: if the stored manifest is not the one that the commit names.
    """
    entry = _entry(lake, name, release_id, version)
    digest = entry.manifest_sha256 if entry.tombstone is None else entry.tombstone.sha256
    data = get(lake, f"{proof_folder(name)}/{digest}.json")
    if hashlib.sha256(data).hexdigest() != digest:
        raise IntegrityError(
            f"the stored manifest of table {name} must have the sha256 {digest}; it was changed"
        )
    manifest: dict[str, Any] = json.loads(data)
    return manifest


def _entry(lake: Lake, name: str, release_id: str, version: int | None) -> Publication:
    """The publication of a release that a version shows; whether it is retracted is always told as of now."""
    entries = publications(lake, existing_table(lake, name))
    found = [
        entry
        for entry in entries
        if entry.release_id == release_id and (version is None or entry.version <= version)
    ]
    if not found:
        raise PublishError(
            f"table {name} must have this release in this version; see the list of its releases"
        )
    return found[-1]
