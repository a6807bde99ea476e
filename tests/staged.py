"""A staged release that many tests begin with: made once, and copied to the work area of each."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import privacy_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import EngineRef, StagedRelease, Table
from tests import tables

LOCK = ".lock"  # of the area that is in use


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The files of a work area, and the reference to a release that is staged there.

    Attributes:
        files: Folder with a copy of the files.
        area: Folder of the work area, which the reference names.
        ref: The reference, as it is passed between tasks.
    """

    files: Path
    area: Path
    ref: dict[str, Any]

    def copy(self, work: WorkArea) -> StagedRelease:
        """Copy the files to a work area of a test; the release there, which the test may change."""
        shutil.copytree(self.files, work.folder, dirs_exist_ok=True)
        moved = json.dumps(self.ref).replace(str(self.area), str(work.folder))
        return StagedRelease.from_ref(json.loads(moved))


def kept(folder: Path, stage: Callable[[WorkArea], StagedRelease]) -> Kept:
    """Stage a release in a work area of a new folder, and keep its files."""
    with WorkArea(folder / "work", "test/run 1") as work:
        ref = stage(work).to_ref()
        files = folder / "files"
        shutil.copytree(work.folder, files, ignore=shutil.ignore_patterns(LOCK))
        return Kept(files=files, area=work.folder, ref=ref)


def ingested(home: Path, work: WorkArea, engine: EngineRef | None = None) -> Table:
    """Ingest the source of the release `people` of a folder that `tests.tables.write_home` wrote."""
    spec = load_spec(home / "releases" / "people.yaml")
    source = spec.only_source
    return privacy_release.ingest(source.uri, spec.data_schema(), work, columns=source.columns, engine=engine)


def people(folder: Path) -> Kept:
    """Stage a release of `tests.tables` that an anonymizer made, and keep its files."""

    def stage(work: WorkArea) -> StagedRelease:
        table = ingested(tables.write_home(folder / "include"), work)
        given = {"k": 5, "l": 2}
        return privacy_release.make_release(table, work, method="mondrian", parameters=given, seed=7)

    return kept(folder, stage)
