"""The shipped release `clinic_weekly` on the deliveries of twelve weeks."""

import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from deploy.local.embedded import checkout
from deploy.local.samples.clinic import patients_of_week
from deploy.local.samples.files import WEEKS, write_table
from privacy_release.lake.read import manifest_of
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea


@pytest.mark.slow  # twelve releases by whole runs: what adds up over weeks shows only here
def test_twelve_weeks_keep_the_policy_and_hold_few_persons_back(
    tmp_path: Path, lake: Lake, curator: Path
) -> None:
    shutil.copytree(checkout() / "include", tmp_path / "include")
    spec = load_spec(tmp_path / "include" / "releases" / "clinic_weekly.yaml")
    for week in range(WEEKS):
        key = f"{date(2026, 1, 5) + timedelta(weeks=week)}T00:00:00"
        file = tmp_path / "data" / "samples" / "clinic" / f"{key}.parquet"
        write_table(file, patients_of_week(key), "generated")
        with WorkArea(tmp_path / "work", f"week {week}") as work:
            outcome = run_release(spec, lake, key, work)
        assert outcome.report.passed
        notes = [f["note"] for f in outcome.report.findings if f["rule"].startswith("republication")]
        assert [note.split("; ")[1] for note in notes] == ["not judged: population (not named by the policy)"]
        manifest = manifest_of(lake.table("clinic_weekly"), key)["history"]
        assert manifest["releases"] == week
        assert manifest["withheld"] <= 80
        assert manifest["held_back"] <= 200
        assert manifest["outdated"] <= 40 * (week + 1)
