"""Small releases, staged without running a method, and published with a signature."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.layout import TableRules
from privacy_release.lake.store import Lake, ReleaseTable
from privacy_release.manifest.manifest import Claims
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.statement import StatementSigner
from privacy_release.reports.data import ReportData
from privacy_release.steps.approval import approval_of
from privacy_release.steps.producers.job import Description, Job, ProducedRelease
from privacy_release.steps.producers.staging import stage
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.file_sets import Part, list_bytes, list_of, new_folder, part_name
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import Published, ReportRef, SourceRef, StagedRelease, Table
from privacy_release.workarea.staged import write_schema

NAME = "people"
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "categorical"},
        "zip": {"role": "quasi_identifier", "kind": "categorical"},
        "illness": {"role": "sensitive", "kind": "categorical"},
    }
)
POLICY = ReleasePolicy.from_dict(
    {
        "require": [
            {"model": "k_anonymity", "k": 4},
            {"model": "distinct_l_diversity", "l": 2, "attribute": "illness"},
        ],
        "max_suppressed": 0.1,
    }
)
BY_RELEASE = TableRules()  # one current release a release id
SECRET = "measles-of-no-one-else"  # a cell value that no output may have


class Killed(BaseException):
    """The end of a process, between two of its steps."""


class InterruptedSigner(StatementSigner):
    """A signer whose process ends between the commit and the statement about its files."""

    def files(self, table: ReleaseTable, partition: str, version: int, statement: str) -> None:
        raise Killed


def people(classes: int = 3, shift: int = 0) -> pd.DataFrame:
    """Classes of four people with two illnesses."""
    rows = [
        (f"[{20 + 10 * c + shift}, {29 + 10 * c + shift}]", f"N{c}", SECRET if i % 2 else "flu")
        for c in range(classes)
        for i in range(4)
    ]
    return pd.DataFrame(rows, columns=list(SCHEMA.names))


def staged_release(
    frame: pd.DataFrame,
    folder: Path,
    label: str,
    files: int = 1,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> StagedRelease:
    """A release of this frame in a work area, as one file or a set of some; its manifest tells more."""
    job = Job(work=WorkArea(folder, f"test/{label}"), label=label)
    records = None if files == 1 else list_of(job.records)
    if records is None:
        sha256 = write_private(job.records, parquet_bytes(frame))
    else:
        sha256 = write_set(records, frame, files)
    source = SourceRef(uri="x", fingerprint="0" * 64, rows=len(frame), dropped=0, files=1, identifiers=[])
    shown = ReportData(
        method="by_hand", parameters={}, schema=SCHEMA, rows=len(frame), guarantees=(), class_sizes={}
    )
    made = ProducedRelease(
        claims=Claims.from_dict(
            {
                "method": "by_hand",
                "parameters": {},
                "guarantees": [],
                "loss": None,
                "rows": len(frame),
                "columns": {a.name: {"role": a.role.value, "kind": a.kind.value} for a in SCHEMA.attributes},
                **more,
            }
        ),
        schema=SCHEMA,
        figures={"suppressed": 0.0},
        sha256=sha256,
        records=records,
        description=Description(data=lambda: shown),
        seconds=0.0,
        seeded=True,
    )
    schema = write_schema(job.work, f"{label}-source", SCHEMA)
    return stage(made, Table(uri="x", rows=len(frame), sha256="", schema=schema, source=source), job)


def write_set(path: Path, frame: pd.DataFrame, files: int) -> str:
    """The records in files of about equal size, and their list; its hash."""
    folder, parts = new_folder(path), []
    for number in range(files):
        part = frame.iloc[number * len(frame) // files : (number + 1) * len(frame) // files]
        sha256 = write_private(folder / part_name(number), parquet_bytes(part))
        parts.append(Part(name=part_name(number), rows=len(part), sha256=sha256))
    return write_private(path, list_bytes(parts))


_VERIFIED: dict[tuple[str, ReleasePolicy, str | None], ReportRef] = {}


def verified(staged: StagedRelease, policy: ReleasePolicy) -> ReportRef:
    """The report on these bytes: that of an earlier test, which verified the same ones, if there is one."""
    known = (staged.sha256, policy, os.environ.get("PRIVACY_FLOOR_POLICY"))
    if known not in _VERIFIED:
        _VERIFIED[known] = verify_staged(staged, policy)
    return _VERIFIED[known]


@dataclass(frozen=True)
class Publisher:
    """Publishes in a lake with a key; None signs nothing. Releases are staged as N files."""

    lake: Lake
    folder: Path
    key: SigningKey | None
    policy: ReleasePolicy = POLICY
    rules: TableRules = BY_RELEASE
    files: int = 1
    more: Mapping[str, Any] = field(default_factory=dict)  # further entries of manifests

    def publish(
        self,
        frame: pd.DataFrame,
        release_id: str,
        name: str = NAME,
        by: str = "Olga",
        signer: StatementSigner | None = None,
        run_key: str | None = None,
    ) -> Published:
        """A release that someone approved, unless `by` is empty."""
        staged = staged_release(frame, self.folder, f"{name}-{release_id}-{run_key}", self.files, self.more)
        report = verified(staged, self.policy)
        return publish_staged(
            staged,
            report,
            self.lake.table(name),
            release_id,
            approved=approval_of(report, by or None, "2026-01-01"),
            signer=signer or (None if self.key is None else StatementSigner(key=self.key)),
            run_key=run_key,
            rules=self.rules,
        )
