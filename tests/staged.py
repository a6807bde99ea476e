"""A staged release that many tests begin with: made once, and copied to the work area of each."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import StagedRelease

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
