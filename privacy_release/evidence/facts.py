"""The facts in an evidence pack about a published release: plain values, only from the lake."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from privacy_release.evidence.criteria import answers, hides_counts
from privacy_release.lake.log import publications
from privacy_release.lake.read import dictionary_of, read_release, standing_manifest
from privacy_release.lake.store import ReleaseTable
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.dictionary import guarantee_in_short, guarantee_sentences
from privacy_release.reports.text import RISKS, shown

if TYPE_CHECKING:
    from privacy_release.lake.log import Publication

BANDS = (2, 5, 10, 20, 50)  # class sizes at which a new band begins
_ALWAYS = ("method", "parameters", "guarantees", "loss", "policy", "measured", "software", "sha256", "rows")
_OPTIONAL = (
    "over_time",
    "history",
    "approval",
    "floor_policy",
    "booking",
    "suppressed",
    "person",
    "holdout",
    "attacks",
)


def publication_of(table: ReleaseTable, release_id: str) -> "Publication":
    """Return the publication of a release that is not retracted.

    Raises:
        PublishError: If there is no such release, or it was retracted.
        IntegrityError: If its note is damaged.
    """
    dictionary_of(table, release_id)  # raises with the reason
    return [entry for entry in publications(table) if entry.release_id == release_id][-1]


def facts_of(table: ReleaseTable, entry: "Publication") -> dict[str, Any]:
    """Return the facts about a publication of `publication_of`, as JSON.

    Raises:
        PublishError, IntegrityError: As `publication_of`.
    """
    from privacy_engine.registry import DETECTORS, METHODS

    release_id = entry.release_id
    manifest = standing_manifest(table, release_id)
    stored = manifest.to_dict()
    home = {**METHODS, **DETECTORS}.get(manifest.method)
    facts: dict[str, Any] = {
        "table": table.name,
        "release": release_id,
        "version": entry.version,
        "published": entry.committed,
        "manifest_sha256": entry.manifest_sha256,
        "report_sha256": entry.report_sha256,
        "statement_sha256": entry.statement,
        **{field: stored[field] for field in _ALWAYS},
        **{field: stored[field] for field in _OPTIONAL if field in stored},
        "columns": stored["columns"],
        "guarantee": guarantee_in_short(manifest),
        "sentences": guarantee_sentences(manifest),
        "reference": None if home is None else home.home.partition(":")[0],
        "risks": [
            {"name": label, "value": shown(manifest.figures[key], unit), "meaning": meaning}
            for key, (label, unit, meaning) in RISKS.items()
            if key in manifest.figures
        ],
        "answers": [asdict(answer) for answer in answers(manifest)],
    }
    if not hides_counts(manifest) and not manifest.tables:
        facts["classes"] = class_sizes(table, release_id, manifest)
    return facts


def class_sizes(table: ReleaseTable, release_id: str, manifest: Manifest) -> list[dict[str, Any]]:
    """Return the number of records in classes, by bands of size, for the released rows, which are public."""
    known = [name for name, column in manifest.columns.items() if column.role == "quasi_identifier"]
    rows = read_release(table, release_id)
    if not known or not rows.num_rows:
        return []
    sizes = rows.group_by(known).aggregate([([], "count_all")])["count_all"].to_numpy()
    ends = [*(b - 1 for b in BANDS), None]
    bands = []
    for low, high in zip((1, *BANDS), ends, strict=True):
        inside = sizes[(sizes >= low) & (sizes <= (high or sizes.max()))]
        bands.append({"from": low, "to": high, "classes": len(inside), "records": int(inside.sum())})
    return bands
