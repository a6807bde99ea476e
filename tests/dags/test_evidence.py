"""DAG runs that make evidence: a failure of it leaves the release as it is, and trying again makes it."""

from pathlib import Path
from typing import Any

import pytest

from privacy_release.evidence.kept import kept_evidence
from privacy_release.lake.log import publications
from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake
from privacy_release.proof.keys import write_new_key
from privacy_release.workarea.area import WorkArea
from tests.dags.conftest import Home

PUBLISH = {"table": "people", "evidence": True}


@pytest.fixture
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_new_key(tmp_path / "key.pem")
    monkeypatch.setenv("PRIVACY_SIGNING_KEY", str(tmp_path / "key.pem"))
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


def evidence_of(lake: Lake) -> bytes | None:
    return kept_evidence(lake.table("people"), publications(lake.table("people"))[-1])


@pytest.mark.slow  # a whole run; evidence has tests below
def test_a_run_makes_the_evidence_of_its_release(
    home: Home, run: Any, airflow_lake: Lake, curator: Path
) -> None:
    home.write(publish=PUBLISH)
    done = run("people")
    assert done.state == "success", done.tasks
    assert done.returned("evidence")["evidence"].startswith(str(curator))
    assert evidence_of(airflow_lake) is not None


@pytest.mark.slow  # two whole runs
def test_a_run_that_dies_between_publication_and_evidence_leaves_a_release_whose_evidence_can_be_made(
    home: Home, run: Any, airflow_lake: Lake, curator: Path, work_root: Path
) -> None:
    from airflow_privacy_release import EvidenceOperator

    curator.mkdir()
    folder = WorkArea(curator, "evidence of people").folder
    folder.symlink_to(work_root)  # a link in its place is refused, at once and without a retry
    home.write(publish=PUBLISH)
    done = run("people")
    assert done.state == "failed"
    assert {name: done.tasks[name] for name in ("publish", "evidence", "cleanup")} == {
        "publish": "success",
        "evidence": "failed",
        "cleanup": "success",
    }
    assert not list(work_root.iterdir())
    assert read_release(airflow_lake.table("people"), done.run_id).num_rows > 0
    folder.unlink()
    assert evidence_of(airflow_lake) is None
    again = EvidenceOperator(task_id="again", table=done.returned("publish"))
    again.execute({})
    assert evidence_of(airflow_lake) is not None
