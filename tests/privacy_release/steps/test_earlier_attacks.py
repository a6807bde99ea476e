"""What attacks gained on earlier releases: of these very bytes, and of no private one."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_release.lake.publish import publish
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.reports.curator import write_for_curator
from privacy_release.steps.attacks.earlier import figures_of_earlier, keep_figures
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.references import TrialRef

EXACT = {"subject": "illness", "main": 0.4, "excess": 0.0213, "low": -0.0101, "high": 0.0513}
ROUNDED = {"subject": "illness", "excess": 0.02, "low": -0.02, "high": 0.06}
KEY = ("inference", "illness")


def trial() -> TrialRef:
    return TrialRef(rule="a rule", attack="inference", bound=0.3, passed=True, outcomes=[dict(EXACT)])


@pytest.fixture
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the report on the attacks on the release to decide on."""
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return str(write_for_curator("<!DOCTYPE html>", "people", "now attacks"))


@pytest.fixture
def published(lake: Lake, tmp_path: Path) -> Callable[..., str]:
    """Publish a release of the table `people`; the sha256 of its bytes."""

    def one(release_id: str, **manifest: Any) -> str:
        staged, page = tmp_path / "staged.parquet", tmp_path / "report.html"
        pq.write_table(pa.table({"age": [release_id] * 9}), staged)
        page.write_text("<!DOCTYPE html><title>Report</title>")
        fields = {"method": "mondrian", "parameters": {}, "guarantees": [], "loss": None, "rows": 9}
        fields |= {"figures": {}, "columns": {}, "measured": []} | manifest
        publish(lake.table("people"), release_id, staged, fields, page, expected_sha256=sha256_file(staged))
        return sha256_file(staged)

    return one


def gained(lake: Lake, curator: str) -> dict[str, Mapping[str, float] | None]:
    """What is reported of each release of the table."""
    return {e.release_id: e.figures.get(KEY) for e in figures_of_earlier(lake.table("people"), curator)}


def test_figures_are_those_that_are_published_else_those_that_the_curator_keeps(
    lake: Lake, curator: str, published: Callable[..., str]
) -> None:
    keep_figures([trial()], published("kept"), title="people", release_id="kept")
    published("reported", attacks=[{"attack": "inference", "bound": 0.3, "outcomes": [ROUNDED]}])
    published("neither")
    keep_figures([trial()], published("retracted"), title="people", release_id="retracted")
    retract(lake.table("people"), "retracted", "a test")
    found = gained(lake, curator)
    assert found == {
        "kept": {name: EXACT[name] for name in ("excess", "low", "high")},
        "reported": {name: ROUNDED[name] for name in ("excess", "low", "high")},
        "neither": None,
    }


def test_figures_of_other_bytes_of_a_private_release_or_in_another_folder_are_not_reported(
    lake: Lake, curator: str, published: Callable[..., str], tmp_path: Path
) -> None:
    published("other bytes")
    keep_figures([trial()], "0" * 64, title="people", release_id="other bytes")
    loss = {"epsilon": 1.0, "delta": 0.0, "neighbours": "replace_one"}
    keep_figures([trial()], published("private", loss=loss), title="people", release_id="private")
    elsewhere = published("elsewhere")
    keep_figures([trial()], elsewhere, title="another", release_id="elsewhere")
    assert gained(lake, curator) == {"other bytes": None, "private": None, "elsewhere": None}
    outside = tmp_path / "outside" / Path(curator).parent.name
    outside.parent.mkdir()
    Path(curator).parent.rename(outside)
    keep_figures([trial()], elsewhere, title="people", release_id="elsewhere")
    assert gained(lake, str(outside / "x.html"))["elsewhere"] is None
    assert gained(lake, curator)["elsewhere"] is not None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"trials": []}', '{"trials": [{"attack": "x"}]}', "link"]
)
def test_a_file_that_is_not_whole_tells_nothing(
    lake: Lake, curator: str, published: Callable[..., str], content: str
) -> None:
    sha256 = published("kept")
    keep_figures([trial()], sha256, title="people", release_id="kept")
    (file,) = Path(curator).parent.glob("*.json")
    assert json.loads(file.read_text())["sha256"] == sha256
    if content == "link":
        file.rename(file.with_name("moved"))
        file.symlink_to("moved")
    else:
        file.write_text(content)
    assert gained(lake, curator) == {"kept": None}
