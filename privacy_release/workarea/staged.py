"""The forms in which schemas and figures are written next to the records of a release."""

import json
import math
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from privacy_engine.tables.schema import DataSchema
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import write_private

PACKAGE = "privacy-release"


def finite(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the finite figures, the only ones that JSON can represent."""
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}


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
