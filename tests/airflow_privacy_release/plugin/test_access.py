"""No one sees anything without a login, and users see what Airflow lets them see."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_privacy_release.plugin.auth import Rights
from tests.airflow_privacy_release.plugin.conftest import FOREIGN_DAG, Visit
from tests.servers.pages import Page

ADDRESSES = (
    *("/", "/releases", "/budget", "/release?lake=lake_default&table=people&version=1"),
    *("/trend?table=people", "/compare", "/retract?lake=lake_default&table=people&version=1"),
    *("/report?dag_id=people&run_id=r", "/report/release?lake=lake_default&table=people&version=1"),
    *(
        "/report/published?lake=lake_default&table=people&version=1",
        "/report/comparison?dag_id=people&run_id=r",
    ),
    *(
        "/dictionary?lake=lake_default&table=people&version=1",
        "/dictionary/published?lake=x&table=y&version=1",
    ),
    *("/report/staged?dag_id=people&run_id=r&task_id=release", "/static/pages.css", "/static/pages.js"),
    *("/static/theme.js", "/static/report.css", "/static/releases.svg", "/static/none"),
    *("/docs", "/redoc", "/openapi.json", "/anything/else", "/release", "/static/../plugin.py"),
)


def one(version: int, lake: str = "lake_default", table: str = "people") -> dict[str, Any]:
    return {"lake": lake, "table": table, "version": version}


@pytest.mark.parametrize("address", ADDRESSES)
def test_without_a_login_every_address_answers_401(
    visit: Callable[..., Visit], publish_people: Callable[..., int], address: str
) -> None:
    publish_people()
    answer = visit(None).get(address)
    assert answer.status_code == 401
    assert "mondrian" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("address", ["/retract", "/releases", "/query", "/anything"])
def test_without_a_login_no_method_is_answered(
    visit: Callable[..., Visit], method: str, address: str
) -> None:
    answer = visit(None).client.request(method, f"/privacy{address}")
    assert answer.status_code in (401, 405)
    assert answer.status_code == 401 or address == "/releases"


def test_every_route_of_the_application_asks_for_the_login() -> None:
    from fastapi.routing import APIRoute

    from airflow_privacy_release.plugin.app import create_app

    routes = create_app().routes
    assert routes
    for route in routes:
        assert isinstance(route, APIRoute)  # nothing is mounted past the login
        requested = [d.call.__qualname__ for d in route.dependant.dependencies if d.call is not None]
        assert "requires_authenticated.<locals>.inner" in requested


def test_the_exploration_pages_of_the_web_framework_do_not_exist(visit: Callable[..., Visit]) -> None:
    assert {visit("officer").get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")} == {404}


def test_a_release_of_a_dag_that_may_not_be_read_is_refused_and_not_listed(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    own, foreign = publish_people("mine"), publish_people("theirs", dag_id=FOREIGN_DAG)
    visitor = visit("visitor")
    listed = Page(visitor.get("/releases").text).text
    assert "mine" in listed
    assert "theirs" not in listed
    paths = ("/release", "/report/release", "/report/published", "/retract")
    for path in (*paths, "/dictionary", "/dictionary/published"):
        assert visitor.get(path, one(foreign)).status_code == 403
    assert visitor.get("/release", one(own)).status_code == 200
    assert "theirs" in visit("officer").get("/releases").text


def test_a_release_that_no_known_dag_published_is_for_those_who_may_read_the_lakes_connection(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    versions = publish_people("by hand", dag_id=None), publish_people("by the past", dag_id="forgotten")
    for version in versions:
        assert visit("steward").get("/release", one(version)).status_code == 403
        assert visit("officer").get("/release", one(version)).status_code == 200


def test_a_trend_shows_only_releases_of_dags_that_may_be_read(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    publish_people("theirs", dag_id=FOREIGN_DAG)
    assert visit("visitor").get("/trend", {"table": "people"}).status_code == 404
    publish_people("mine")
    page = visit("visitor").get("/trend", {"table": "people"}).text
    assert "mine" in page
    assert "theirs" not in page


def test_comparing_needs_the_right_to_read_both(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    picks = [
        ("pick", f'["lake_default", "people", {version}]')
        for version in (publish_people("mine"), publish_people("theirs", dag_id=FOREIGN_DAG))
    ]
    assert visit("visitor").get("/compare", picks).status_code == 403
    assert visit("officer").get("/compare", picks).status_code == 200


@pytest.mark.parametrize("path", ["/report", "/report/staged", "/report/comparison"])
def test_the_report_of_a_run_needs_the_right_to_read_runs_of_its_dag(
    visit: Callable[..., Visit], path: str
) -> None:
    query = {"dag_id": FOREIGN_DAG, "run_id": "r", "task_id": "t"}
    assert visit("visitor").get(path, query).status_code == 403
    assert visit("visitor").get(path, query | {"dag_id": "people"}).status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        one(99),
        one(1, table="nothing"),
        one(1, table="../people"),
        one(1, table="a" * 200),
        one(1, lake="lake_of_someone"),
    ],
    ids=["version", "table", "path", "length", "lake"],
)
def test_what_does_not_exist_is_not_found(
    visit: Callable[..., Visit], publish_people: Callable[..., int], query: dict[str, Any]
) -> None:
    publish_people()
    assert visit("officer").get("/release", query).status_code == 404


class ReaderOfConnections(Rights):
    """A user who may read every connection, edit none, and see no DAG."""

    def _connection(self, name: str, method: str) -> bool:
        return method == "GET"

    def _dag(self, dag_id: str, method: str, entity: object) -> bool:
        return False

    def is_known(self, dag_id: str) -> bool:
        return dag_id == "people"


def test_an_answer_about_reading_is_none_about_editing() -> None:
    user: Any = SimpleNamespace()
    rights = ReaderOfConnections(user)
    assert rights.reads_connection("ledger_default")
    assert not rights.edits_connection("ledger_default")
    assert rights.reads_connection("ledger_default")


def test_a_data_set_of_a_dag_is_its_readers_and_not_those_of_the_ledger() -> None:
    user: Any = SimpleNamespace()
    rights = ReaderOfConnections(user)
    assert not rights.reads_dataset(["people"], "ledger_default")
    assert rights.reads_dataset(["deleted"], "ledger_default")
    assert rights.reads_release("deleted", "lake_default")
    assert not rights.reads_release("people", "lake_default")
