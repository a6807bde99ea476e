"""Running a release method and staging what it made: table, schema, manifest and report, in the work area."""

import json
import math
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operators.parquet_files import parquet_bytes, read_private, write_private
from operators.references import SourceRef, StagedRef, TableRef
from operators.work_area import WorkArea
from privacy_engine.errors import IntegrityError, SpecError

if TYPE_CHECKING:
    import numpy as np

    from privacy_engine.release import Release, ReleaseMethod
    from privacy_engine.schema import DataSchema

PACKAGE = "airflow-provider-privacy-release"
_DONE = {"report": "kept", "fail": "kept", "set_aside": "set aside", "suppress": "suppressed"}


def make_release(
    table: TableRef,
    work: WorkArea,
    *,
    method: str,
    parameters: Mapping[str, Any] | None = None,
    seed: int | None = None,
    title: str | None = None,
    label: str = "staged",
    progress: Callable[[str], None] | None = None,
) -> StagedRef:
    """Run a release method and stage what it made, with manifest and report, in the work area.

    Args:
        table: what `ingest` gave.
        work: where the release is staged.
        method: registry key.
        parameters: of the method.
        seed: of its random choices; None takes fresh entropy. It is not recorded: it tells the choices.
        title: of the report.
        label: begins the names of the files.
        progress: told the name of each part of the work as it begins.

    Raises:
        SpecError: if method or parameters are wrong.
        SchemaError: if the table does not fit its schema.
        InfeasibleError: if the guarantees cannot be met.
        IntegrityError: if the table changed since it was ingested.
    """
    import numpy as np

    from operators.outlier_figures import counted_in, require_whole_table, suppressed_before

    tell = progress or (lambda _: None)
    releaser = build_method(method, parameters or {})
    tell("reading")
    frame, schema = read_private(table["uri"], table["sha256"]), read_schema(table["schema"])
    require_whole_table(releaser, schema, table)
    rng = np.random.default_rng(seed)
    tell(f"running {method}")
    began = time.perf_counter()
    release = releaser.release(frame, schema, rng)
    seconds = time.perf_counter() - began
    tell("measuring")
    utility, risk = measure(release, rng)
    utility = counted_in(utility, suppressed_before(table), len(frame), len(schema.quasi_identifiers))
    figures = utility | risk
    tell("staging")
    sha256 = write_private(work.path(f"{label}.parquet"), parquet_bytes(release.table))
    manifest = {
        **release.manifest(),
        **_outliers(release, table),
        "figures": figures,
        "source": public_source(table["source"], private=release.loss is not None),
        "sha256": sha256,
        "seeded": seed is not None,
        "software": software(),
    }
    write_private(work.path(f"{label}.manifest.json"), _json(manifest))
    write_private(work.path(f"{label}.report.html"), _report(release, utility, risk, title, table).encode())
    return StagedRef(
        uri=str(work.path(f"{label}.parquet")),
        rows=len(release.table),
        sha256=sha256,
        schema=write_schema(work, label, release.schema),
        source=table["source"],
        manifest=str(work.path(f"{label}.manifest.json")),
        report=str(work.path(f"{label}.report.html")),
        method=release.method,
        guarantees=manifest["guarantees"],
        loss=manifest["loss"],
        figures=figures,
        seconds=seconds,
    )


def build_method(method: str, parameters: Mapping[str, Any]) -> "ReleaseMethod":
    """The release method with its parameters.

    Raises:
        SpecError: naming the parameter, what it must be and what was given.
    """
    from privacy_engine.registry import load_method

    try:
        built: ReleaseMethod = load_method(method, **parameters)
    except (ValueError, TypeError) as error:
        raise SpecError(f"release: {error}; see `privacy-release list-methods`") from None
    return built


def measure(release: "Release", rng: "np.random.Generator") -> tuple[dict[str, float], dict[str, float]]:
    """Loss of information, and risk of the released records, by name; what is not finite is left out."""
    from privacy_engine import risk, utility
    from privacy_engine.classes import EquivalenceClasses

    lost = dict(release.notes)
    if release.recoding is not None:
        lost |= utility.figures(release.recoding, rng)
    at_risk = risk.figures(EquivalenceClasses.of_table(release.table, release.schema))
    return _finite(lost), _finite(at_risk)


def public_source(source: SourceRef, *, private: bool) -> dict[str, Any]:
    """What a manifest says of the source; its address stays inside, for it may name people or machines.

    Args:
        source: where the records came from.
        private: the release is differentially private: exact counts and hashes of the source would void that.
    """
    hidden = {"uri", "fingerprint", "rows", "dropped"} if private else {"uri"}
    return {name: value for name, value in source.items() if name not in hidden}


def _outliers(release: "Release", table: TableRef) -> dict[str, Any]:
    """What the manifest says of outliers; nothing where exact counts of the source would void a DP claim."""
    from operators.outlier_figures import public_outliers, suppressed_before

    if "outliers" not in table or release.loss is not None:
        return {}
    suppressed = release.manifest()["suppressed"] + suppressed_before(table)
    return {"outliers": public_outliers(table["outliers"]), "suppressed": suppressed}


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}


def read_schema(path: str) -> "DataSchema":
    """The schema that a reference points to.

    Raises:
        IntegrityError: if the file is missing or damaged.
    """
    from privacy_engine.schema import DataSchema

    return DataSchema.from_dict(_read_json(path))


def read_manifest(path: str) -> dict[str, Any]:
    """The manifest that a reference points to.

    Raises:
        IntegrityError: if the file is missing or damaged.
    """
    return _read_json(path)


def _read_json(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(Path(path).read_bytes()))
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"{Path(path).name} must be in the work area, got {type(error).__name__}; run from ingest again"
        ) from None


def software() -> dict[str, str]:
    """Name and version of this package, for the manifest."""
    try:
        return {"name": PACKAGE, "version": version(PACKAGE)}
    except PackageNotFoundError:  # run from a checkout that was not installed
        return {"name": PACKAGE, "version": "unknown"}


def write_schema(work: WorkArea, label: str, schema: "DataSchema") -> str:
    """Write a schema to the work area; its path."""
    path = work.path(f"{label}.schema.json")
    write_private(path, schema.to_json().encode())
    return str(path)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False).encode()


def _report(
    release: "Release", utility: dict[str, float], risk: dict[str, float], title: str | None, table: TableRef
) -> str:
    from operators.outlier_figures import suppressed_before
    from operators.report import render_report

    about = {"source fingerprint": table["source"]["fingerprint"]}
    if release.loss is None:
        about |= {
            f"outliers by {o['method']}": f"{o['flagged']:,} of {o['records']:,}, {_DONE[o['action']]}"
            for o in table.get("outliers", [])
        }
    return render_report(
        release,
        utility,
        risk,
        title=title or release.method,
        source_rows=table["rows"] + suppressed_before(table),
        about=about,
    )
