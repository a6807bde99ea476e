"""A step that a test adds to the plan of a release: it counts the records that are prepared."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from privacy_release.plan import plan
from privacy_release.plan.step import Slot, Step
from privacy_release.running.context import Handed
from privacy_release.spec.model import ReleaseSpec
from privacy_release.workarea.references import Table


def count_rows(run: Handed, step: Step) -> Table:
    """Note how many records there are, in a file with the name of the release, and hand the table on."""
    file = Path(step.settings["folder"]) / run.release_id.replace("/", "_")
    file.write_text(str(run.table.rows))
    return run.table


def add_count_rows(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have plans prepare the table with the step `count_rows`, which writes into a folder that is made."""
    folder.mkdir()
    preparing = plan._preparing

    def with_count(spec: ReleaseSpec) -> Iterator[Step]:
        yield from preparing(spec)
        yield Step(
            name="count_rows",
            work=f"{__name__}:count_rows",
            takes=(Slot.TABLE,),
            gives=Slot.TABLE,
            settings={"folder": str(folder)},
        )

    monkeypatch.setattr(plan, "_preparing", with_count)
