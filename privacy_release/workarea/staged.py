"""The files that are staged with the records of a release, manifest, schema and report, and their readers."""

import json
import math
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from privacy_engine.errors import IntegrityError
from privacy_engine.tables.schema import DataSchema
from privacy_release.manifest.manifest import Manifest
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.references import SourceRef, StagedRelease, Table

PACKAGE = "privacy-release"
_DONE = {"report": "kept", "fail": "kept", "set_aside": "set aside", "suppress": "suppressed"}


def public_source(source: SourceRef, *, private: bool) -> dict[str, Any]:
    """Return the section of a manifest about the source, without its address, which may name people.

    Args:
        source: Origin of the records.
        private: Whether the release is differentially private or randomized, so that exact counts and
            hashes of the source would void its guarantee.
    """
    exact = (
        {"fingerprint", "rows", "dropped", "text", "version", "left_out", "unchecked"} if private else set()
    )
    hidden = {"uri", "expectations", "guessed"} | exact
    public = {name: value for name, value in source.to_ref().items() if name not in hidden}
    if source.left_out and not private:  # file names may name people
        public["left_out"] = len(source.left_out)
    if private and source.transforms:
        public["transforms"] = [{"name": t.name, "code": t.code} for t in source.transforms]
    if source.tables:
        public["tables"] = {name: public_source(own, private=private) for name, own in source.tables.items()}
    return public


def left_out_of(source: SourceRef) -> list[str]:
    """Return the names of the files of a source, or of all its tables, that were not read."""
    return [name for own in tables_of(source) for name in own.left_out]


def tables_of(source: SourceRef) -> list[SourceRef]:
    """Return the origins of several tables, or the only one."""
    return list((source.tables or {"": source}).values())


def facts_of(table: Table) -> dict[str, str]:
    """Return facts about the source for a report of a release that hides no exact count of it."""
    left_out = left_out_of(table.source)
    files = {"hidden or empty files left out": f"{len(left_out):,}"} if left_out else {}
    if unchecked := sum(own.unchecked for own in tables_of(table.source)):
        files["files without page checksums"] = f"{unchecked:,} of {table.source.files:,}"
    return {"source fingerprint": table.source.fingerprint, **files} | {
        f"outliers by {o.method}": f"{o.flagged:,} of {o.records:,}, {_DONE[o.action]}"
        for o in table.outliers
    }


def codes_of(table: Table) -> dict[str, str]:
    """Return descriptions of values that were coded when the table was read, for the report."""
    described = {a.name: a.codes_in_words() for a in read_schema(table.schema).attributes}
    return {f"codes of {name}": codes for name, codes in described.items() if codes}


def finite(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the finite figures, the only ones that JSON can represent."""
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}


def read_schema(path: str) -> "DataSchema":
    """Read the schema of a reference.

    Raises:
        IntegrityError: If the file is missing or damaged.
    """
    return DataSchema.from_dict(_read_json(path))


def read_manifest(path: str) -> Manifest:
    """Read the manifest of a reference.

    Raises:
        IntegrityError: If the file is missing or damaged.
    """
    return Manifest.from_dict(_read_json(path))


def manifest_of(staged: StagedRelease) -> Manifest:
    """Read the manifest of a staged release, which claims the release's privacy loss.

    Raises:
        IntegrityError: If the file is missing or damaged, or claims another loss.
    """
    manifest = read_manifest(staged.manifest)
    require_one_claim(staged, manifest)
    return manifest


def require_one_claim(staged: StagedRelease, manifest: Manifest) -> None:
    """Raise if the manifest claims another loss than the release that is verified and published with it.

    Raises:
        IntegrityError: See above.
    """
    if (manifest.loss and manifest.loss.stored) != staged.loss:
        raise IntegrityError(
            "the manifest must claim the privacy loss of the staged release; run the release again"
        )


def read_columns(path: str) -> dict[str, Any]:
    """Read the origins of the released columns, see `privacy_release.reports.columns`.

    Raises:
        IntegrityError: If the file is missing or damaged.
    """
    return _read_json(path)


def write_schema(work: WorkArea, label: str, schema: "DataSchema") -> str:
    """Write a schema to the work area, and return its path."""
    path = work.path(f"{label}.schema.json")
    write_private(path, schema.to_json().encode())
    return str(path)


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return a value as JSON, equal for equal values."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False).encode()


def software() -> dict[str, str]:
    """Return name and version of this package, for the manifest."""
    try:
        return {"name": PACKAGE, "version": version(PACKAGE)}
    except PackageNotFoundError:  # run from a checkout that is not installed
        return {"name": PACKAGE, "version": "unknown"}


def _read_json(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(Path(path).read_bytes()))
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"{Path(path).name} must be in the work area, got {type(error).__name__}; run from ingest again"
        ) from None
