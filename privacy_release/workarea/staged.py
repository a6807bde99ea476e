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
from privacy_release.workarea.references import StagedRelease

PACKAGE = "privacy-release"


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
