"""Only who may edit the DAG retracts, by the form made for them, and it is written down who did."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from privacy_release.lake.read import releases
from privacy_release.lake.store import Lake
from tests.airflow_privacy_release.plugin.conftest import FOREIGN_DAG, Visit
from tests.airflow_privacy_release.plugin.test_access import one


def token_of(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found, "the page has no form"
    return found[1]


def form(visit: Visit, version: int, **other: Any) -> dict[str, Any]:
    """The filled-in form of a user."""
    token = token_of(visit.get("/retract", one(version)).text)
    return one(version) | {"token": token, "reason": "the source was wrong", "sure": "yes"} | other


def states(lake: Lake) -> list[str]:
    return [entry["state"] for entry in releases(lake.table("people"))]


@pytest.fixture
def steward(visit: Callable[..., Visit]) -> Visit:
    return visit("steward")


def test_who_may_edit_the_dag_retracts_its_release_for_good(
    steward: Visit, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    version = publish_people()
    answer = steward.post("/retract", form(steward, version))
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/privacy/release?lake=lake_default&table=people&version={version}"
    assert states(airflow_lake) == ["retracted"]
    assert releases(airflow_lake.table("people"))[0]["tombstone"]["reason"] == "the source was wrong"
    assert steward.get("/retract", one(version)).status_code == 409
    assert airflow_lake.folder is not None
    assert not list(airflow_lake.folder.rglob("*.parquet"))


def test_airflows_audit_log_names_who_retracted_what_and_why(
    steward: Visit, publish_people: Callable[..., int]
) -> None:
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    steward.post("/retract", form(steward, publish_people("audited")))
    with create_session() as session:
        found = session.scalars(
            select(Log).where(Log.event == "privacy_release.retract").order_by(Log.id.desc())
        ).first()
        assert found is not None
        assert (found.owner, found.dag_id, found.run_id) == ("steward", "people", "run_of_audited")
        assert json.loads(found.extra or "") == {
            "lake": "lake_default",
            "table": "people",
            "release": "audited",
            "reason": "the source was wrong",
        }


def test_who_may_only_read_sees_no_button_and_is_refused(
    visit: Callable[..., Visit], publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    version, visitor = publish_people(), visit("visitor")
    assert "Retract ..." not in visitor.get("/release", one(version)).text
    assert "Retract ..." in visit("steward").get("/release", one(version)).text
    assert visitor.get("/retract", one(version)).status_code == 403
    stolen = form(visit("steward"), version)
    assert visitor.post("/retract", stolen).status_code == 403
    assert states(airflow_lake) == ["current"]


@pytest.mark.parametrize("dag_id", [FOREIGN_DAG, None, "forgotten"], ids=str)
def test_a_release_of_another_dag_or_of_none_is_not_the_stewards_to_retract(
    visit: Callable[..., Visit], publish_people: Callable[..., int], airflow_lake: Lake, dag_id: str | None
) -> None:
    version = publish_people(dag_id=dag_id)
    officer = visit("officer")
    assert visit("steward").post("/retract", form(officer, version)).status_code == 403
    assert states(airflow_lake) == ["current"]
    assert officer.post("/retract", form(officer, version)).status_code == 303
    assert states(airflow_lake) == ["retracted"]


def test_a_release_that_another_dag_has_replaced_is_not_the_stewards_to_retract(
    steward: Visit, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    own = publish_people("week", rows=5)
    publish_people("week", rows=6, dag_id=FOREIGN_DAG)
    assert "Retract ..." not in steward.get("/release", one(own)).text
    assert steward.get("/retract", one(own)).status_code == 403
    assert states(airflow_lake) == ["superseded", "current"]


@pytest.mark.parametrize("token", ["", "x", "ImEi.aaaa.bbbb"])
def test_a_form_without_a_token_of_ours_is_refused(
    steward: Visit, publish_people: Callable[..., int], airflow_lake: Lake, token: str
) -> None:
    version = publish_people()
    assert steward.post("/retract", form(steward, version, token=token)).status_code in (403, 422)
    fields = form(steward, version)
    del fields["token"]
    assert steward.post("/retract", fields).status_code == 422
    assert states(airflow_lake) == ["current"]


def test_a_token_made_for_another_user_is_refused(
    visit: Callable[..., Visit], publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    version = publish_people()
    token = form(visit("officer"), version)["token"]
    answer = visit("steward").post("/retract", form(visit("steward"), version, token=token))
    assert answer.status_code == 403
    assert states(airflow_lake) == ["current"]


def test_a_token_made_for_another_release_is_refused(
    steward: Visit, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    one_version, other = publish_people("one"), publish_people("other")
    token = form(steward, one_version)["token"]
    assert steward.post("/retract", form(steward, other, token=token)).status_code == 403
    assert states(airflow_lake) == ["current", "current"]


def test_an_old_token_is_refused(
    steward: Visit,
    publish_people: Callable[..., int],
    airflow_lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow_privacy_release.plugin import auth

    fields = form(steward, publish_people())
    monkeypatch.setattr(auth, "_SECONDS", -1)
    assert steward.post("/retract", fields).status_code == 403
    assert states(airflow_lake) == ["current"]


@pytest.mark.parametrize(
    "missing",
    [{"reason": ""}, {"reason": "  \n "}, {"sure": ""}, {"reason": "x" * 401}, {"reason": "a\x00b"}],
    ids=["no reason", "blank", "not sure", "long", "unprintable"],
)
def test_without_a_reason_and_a_confirmation_nothing_is_retracted(
    steward: Visit, publish_people: Callable[..., int], airflow_lake: Lake, missing: dict[str, str]
) -> None:
    answer = steward.post("/retract", form(steward, publish_people(), **missing))
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert states(airflow_lake) == ["current"]


def test_a_get_request_never_retracts(
    steward: Visit, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    assert steward.get("/retract", form(steward, publish_people())).status_code == 200
    assert states(airflow_lake) == ["current"]
