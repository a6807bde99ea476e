"""Analysts ask releases over HTTP: with the rights of the pages, a few at a time, and written down."""

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from privacy_release.lake.store import Lake
from tests.airflow_privacy_release.plugin.conftest import FOREIGN_DAG, Visit
from tests.waiting import wait_for, wait_for_end

COUNT = "SELECT count(*) AS n FROM people"
ENDLESS = "SELECT count(*) FROM people, range(10000000) a, range(10000000) b"


def ask(visit: Visit, sql: str, **more: Any) -> Any:
    return visit.client.post("/privacy/query", json={"sql": sql} | more, headers=visit.headers)


def records() -> list[dict[str, Any]]:
    """What Airflow's audit log has of queries, oldest first."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(Log).where(Log.event == "privacy_release.query").order_by(Log.id))
        return [json.loads(entry.extra or "") for entry in found]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that takes the texts of queries."""
    path = tmp_path / "queries.jsonl"
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__QUERY_LOG", str(path))
    return path


def test_a_query_is_answered_in_each_form_with_its_sources(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    version, visitor = publish_people("w/1"), visit("visitor")
    sql = "SELECT illness, count(*) AS n FROM people GROUP BY ALL"
    answer = ask(visitor, sql)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    whole = answer.json()
    assert (whole["columns"], whole["rows"]) == (["illness", "n"], [["flu", 7]])
    assert whole["sources"][0]["release"] == "w/1"
    assert whole["sources"][0]["guarantees"] == ["k_anonymity(k=5), measured 5"]
    answer = ask(visitor, sql, form="csv")
    assert answer.text == "illness,n\nflu,7\n"
    assert answer.headers["x-privacy-release-sources"] == f"people/w%2F1/{version}"
    answer = ask(visitor, sql, form="arrow")
    rows = pa.ipc.open_stream(answer.content).read_all()
    assert rows.to_pylist() == [{"illness": "flu", "n": 7}]
    assert answer.headers["cache-control"] == "no-store"


def test_without_a_login_nothing_is_asked(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    publish_people()
    before = len(records())
    assert ask(visit(None), COUNT).status_code == 401
    assert len(records()) == before


def test_a_release_that_may_not_be_read_is_not_there(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    publish_people("mine", rows=5)
    publish_people("theirs", rows=6, dag_id=FOREIGN_DAG)
    publish_people("theirs", rows=6, table="others", dag_id=FOREIGN_DAG)
    visitor, officer = visit("visitor"), visit("officer")
    assert ask(visitor, COUNT).json()["rows"] == [[5]]
    assert ask(visitor, COUNT, every_release=True).json()["rows"] == [[5]]
    assert ask(officer, COUNT, every_release=True).json()["rows"] == [[11]]
    for refused in (ask(visitor, COUNT, release="theirs"), ask(visitor, "FROM others")):
        assert refused.status_code == 400
        assert "its tables are: people" in refused.text or "must have the release" in refused.text


@pytest.mark.parametrize(
    ("question", "code", "words"),
    [
        # As every refusal of `answer` is reported.
        pytest.param({"sql": "COPY people TO 'x'"}, 400, "got COPY", marks=pytest.mark.slow),
        ({"sql": "SELECT * FROM read_csv('/etc/passwd')"}, 400, "table function read_csv"),
        pytest.param(
            {"sql": "SELECT getenv('HOME') FROM people"}, 400, "no function getenv", marks=pytest.mark.slow
        ),
        ({"sql": "SELECT x FROM people"}, 400, '"x" not found'),
        ({"sql": COUNT, "lake": "lake_of_someone"}, 404, "no such lake"),
        ({"sql": COUNT, "limit": 5}, 422, "limit"),
        ({"sql": COUNT, "form": "parquet"}, 422, "form"),
        ({"lake": "lake_default"}, 422, "sql"),
        ({"sql": "x" * 1_000_000}, 413, "at most"),
    ],
)
def test_a_wrong_question_is_reported_in_json(
    visit: Callable[..., Visit],
    publish_people: Callable[..., int],
    airflow_lake: Lake,
    question: dict[str, Any],
    code: int,
    words: str,
) -> None:
    publish_people()
    answer = visit("visitor").client.post("/privacy/query", json=question, headers=visit("visitor").headers)
    assert answer.status_code == code
    assert words in answer.json()["detail"]
    assert airflow_lake.root not in answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_of_another_site_could_send_is_no_question(
    visit: Callable[..., Visit], publish_people: Callable[..., int], kind: str
) -> None:
    publish_people()
    steward = visit("steward")
    body = json.dumps({"sql": COUNT})
    headers = {**steward.headers, "content-type": kind}
    assert steward.client.post("/privacy/query", content=body, headers=headers).status_code == 415


def test_who_asked_what_is_written_down_and_the_text_only_in_its_own_file(
    visit: Callable[..., Visit], publish_people: Callable[..., int], log: Path
) -> None:
    version = publish_people("audited")
    steward = visit("steward")
    named = "SELECT count(*) AS n FROM people WHERE illness = 'that of Jane Doe'"
    wrong = "SELECT 'Jane Doe' || nothing FROM people"
    assert ask(steward, named).status_code == 200
    assert ask(steward, wrong).status_code == 400
    answered, refused = records()[-2:]
    assert (answered["user"], answered["outcome"], answered["rows"]) == ("steward", "answered", 1)
    assert answered["sources"] == [["people", "audited", version]]
    assert answered["bytes"] == len("[[0]]")
    assert answered["cpu_seconds"] > 0
    assert answered["sha256"] == hashlib.sha256(named.encode()).hexdigest()
    assert (refused["outcome"], refused["rows"], refused["sources"]) == ("refused", 0, [])
    assert "Jane" not in json.dumps(records())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["sql"] for line in lines] == [named, wrong]
    assert [line["sha256"] for line in lines] == [answered["sha256"], refused["sha256"]]
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_query_that_cannot_be_written_down_is_not_answered(
    visit: Callable[..., Visit],
    publish_people: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish_people()
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__QUERY_LOG", str(tmp_path / "no" / "such" / "folder"))
    answer = ask(visit("steward"), COUNT)
    assert answer.status_code == 503
    assert "not answered" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("option", "value", "sql", "words"),
    [
        ("SECONDS", "0.1", ENDLESS, "must end within 0.1 seconds"),
        ("ROWS", "6", "FROM people", "at most 6 rows"),
        ("BYTES", "100", "SELECT repeat('x', 101) FROM people", "at most 100 bytes"),
        ("MEMORY", "30000000", "SELECT list(i) FROM people, range(1000000000) t(i)", "memory"),
    ],
)
def test_the_limits_are_those_of_the_configuration(
    visit: Callable[..., Visit],
    publish_people: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    value: str,
    sql: str,
    words: str,
) -> None:
    publish_people()
    monkeypatch.setenv(f"AIRFLOW__PRIVACY_RELEASE__QUERY_{option}", value)
    answer = ask(visit("visitor"), sql)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


# With a server and real connections


@pytest.fixture
def server(web: Any, visit: Callable[..., Visit]) -> Iterator[int]:
    """The same web application behind a port of this machine."""
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        served = uvicorn.Server(uvicorn.Config(web.app, log_config=None, lifespan="off"))
        thread = threading.Thread(target=served.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[1]
        served.should_exit = True
        thread.join()


def send(port: int, visit: Visit, sql: str) -> socket.socket:
    """Ask, and do not wait for the answer."""
    body = json.dumps({"sql": sql})
    head = [
        "POST /privacy/query HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in visit.headers.items()),
    ]
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())
    return connection


def received(connection: socket.socket) -> str:
    """The whole answer."""
    with connection, connection.makefile("rb") as stream:
        return stream.read().decode()


def running() -> list[psutil.Process]:
    """The processes of queries that have run for a while."""
    found = []
    for child in psutil.Process().children():
        try:
            if "privacy_release.query.child" in child.cmdline() and sum(child.cpu_times()[:2]) > 1.5:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def wait_until(count: int) -> list[psutil.Process]:
    """Wait until that number of queries run, and return their processes."""
    (found,) = wait_for(
        lambda: [found] if len(found := running()) == count else [], f"{count} queries to run"
    )
    return found


@pytest.mark.slow
def test_a_client_that_goes_away_ends_its_query(
    server: int,
    visit: Callable[..., Visit],
    publish_people: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__QUERY_SECONDS", "3000")
    publish_people()
    before = len(records())
    connection = send(server, visit("visitor"), ENDLESS)
    children = wait_until(1)
    # The event loop is free meanwhile: another page is answered.
    other = socket.create_connection(("127.0.0.1", server))
    other.sendall(b"GET /privacy/releases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert received(other).startswith("HTTP/1.1 401")
    connection.close()
    wait_for_end(children)
    wait_for(lambda: len(records()) > before, "the record of the query")
    assert records()[-1]["outcome"] == "stopped"
    assert received(send(server, visit("visitor"), COUNT)).startswith("HTTP/1.1 200")


@pytest.mark.slow
def test_a_user_asks_one_query_at_a_time_and_all_together_a_bounded_number(
    server: int,
    visit: Callable[..., Visit],
    publish_people: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__QUERY_SECONDS", "3000")
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__QUERY_AT_ONCE", "1")
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__QUERY_WAITING", "0")
    publish_people()
    with send(server, visit("visitor"), ENDLESS):
        wait_until(1)
        again = received(send(server, visit("visitor"), COUNT))
        assert again.startswith("HTTP/1.1 429")
        assert "retry-after: 5" in again
        busy = received(send(server, visit("steward"), COUNT))
        assert busy.startswith("HTTP/1.1 503")
        assert "retry-after: 5" in busy
    wait_until(0)

    def answered() -> bool:
        answer = received(send(server, visit("steward"), COUNT))
        assert answer.startswith(("HTTP/1.1 200", "HTTP/1.1 503"))
        return answer.startswith("HTTP/1.1 200")

    wait_for(answered, "the place of the query to be free")
