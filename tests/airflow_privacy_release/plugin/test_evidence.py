"""The evidence of a release on its page: who is offered and given it, and that a changed one is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privacy_release.evidence.archive import check
from privacy_release.evidence.kept import keep_evidence
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.statement import StatementSigner
from tests.airflow_privacy_release.plugin.conftest import OWN_DAG, Visit
from tests.reading import publish_people

KEY = SigningKey.new()
ONE = {"lake": "lake_default", "table": "people", "version": 1}


@pytest.fixture
def officer(visit: Callable[..., Visit]) -> Visit:
    return visit("officer")


@pytest.fixture
def kept(airflow_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The evidence of a release that a run of the DAG published."""
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    signer = StatementSigner(key=KEY)
    made = publish_people(tmp_path / "source", airflow_lake, run_key=f"{OWN_DAG}/run", signer=signer)
    assert made.version == ONE["version"]
    return Path(keep_evidence(airflow_lake.table("people"), "1", KEY)["evidence"])


def test_who_decides_on_releases_is_offered_the_evidence_and_gets_what_was_signed_and_readers_do_not(
    visit: Callable[..., Visit], kept: Path
) -> None:
    for user in ("officer", "steward"):
        assert "/evidence?" in visit(user).get("/release", ONE).text
        answer = visit(user).get("/evidence", ONE)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/zip"
        assert answer.headers["content-disposition"] == 'attachment; filename="people-1-evidence.zip"'
        assert check(answer.content, [KEY.public]).release == "1"
    assert_closed_to(visit("visitor"), 403)


def assert_closed_to(visit: Visit, status: int) -> None:
    assert "/evidence?" not in visit.get("/release", ONE).text
    answer = visit.get("/evidence", ONE)
    assert answer.status_code == status
    assert b"PK" not in answer.content


@pytest.mark.slow  # without a login, `test_access` has every address
def test_without_a_login_it_is_neither_offered_nor_given(visit: Callable[..., Visit], kept: Path) -> None:
    assert_closed_to(visit(None), 401)


def test_a_changed_pack_is_refused_and_a_missing_or_retracted_one_is_not_offered(
    officer: Visit, airflow_lake: Lake, kept: Path
) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-50])
    answer = officer.get("/evidence", ONE)
    assert answer.status_code >= 400
    assert b"PK" not in answer.content
    assert "must be a complete evidence archive" in answer.text
    kept.unlink()
    assert "/evidence?" not in officer.get("/release", ONE).text
    assert officer.get("/evidence", ONE).status_code == 404
    kept.write_bytes(whole)
    retract(airflow_lake.table("people"), "1", "a test")
    assert officer.get("/evidence", ONE).status_code == 404
    assert "/evidence?" not in officer.get("/release", ONE).text


def test_the_page_of_a_release_without_evidence_is_as_before(
    officer: Visit, publish_people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "nowhere"))
    version = publish_people()
    query = {"lake": "lake_default", "table": "people", "version": version}
    assert officer.get("/release", query).status_code == 200
    assert officer.get("/evidence", query).status_code == 404
