"""DAG runs that ask a person: what was approved is published, what was not leaves nothing behind."""

import base64
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from privacy_engine.dp.limits import Limit
from privacy_release.cli.main import main
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from privacy_release.proof.keys import SigningKey
from tests.canaries import files_below, files_with
from tests.clock import Clock
from tests.dags.officers import Officers
from tests.dags.test_dp_canaries import PRIVATE
from tests.ledgers import new_ledger
from tests.privacy_release.proof.test_tampering import (
    Table,
    put_the_older_one_back,
    remove_the_approval_everywhere,
)


def work_is_gone(work_root: Path) -> bool:
    return not list(work_root.iterdir())


def test_an_approved_release_is_published_with_who_when_and_why(
    home: Any, load: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    """A required approval cannot be switched off: a run has no such parameter, and sets it in vain."""
    home.write(approval={"required": True, "assigned_to": ["officer"]})
    officers.users, officers.comment = ("visitor", "stranger", "officer"), "looks fine"
    assert "approval" not in load("people").dags["people"].params
    done = run("people", conf={"approval": False})
    assert done.state == "success", done.tasks
    assert officers.statuses == [("visitor", 403), ("stranger", 403), ("officer", 200)]
    manifest = manifest_of(airflow_lake.table("people"), done.run_id)["approval"]
    assert manifest["by"] == {"id": "officer", "name": "officer"}
    assert (manifest["comment"], manifest["automatic"]) == ("looks fine", False)
    assert manifest["at"].startswith("20")
    assert work_is_gone(work_root)


@pytest.fixture
def signing_key(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SigningKey]:
    """A key in the connection `signing_default`, as `airflow connections add` stores it.

    Airflow encrypts passwords where it has a key for that, as each Airflow in production must.
    """
    from airflow.models import Connection
    from airflow.models.crypto import get_fernet
    from airflow.utils.session import create_session
    from cryptography.fernet import Fernet
    from sqlalchemy import delete

    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
    get_fernet.cache_clear()
    key = SigningKey.new()
    password = key.pem().decode()
    with create_session() as session:
        session.add(Connection(conn_id="signing_default", conn_type="generic", password=password))
    yield key
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.conn_id == "signing_default"))
    get_fernet.cache_clear()


def forms_of(key: SigningKey) -> list[bytes]:
    """What a reader of a file could make the key from: its line in PEM form, and its 32 bytes, three ways."""
    line = key.pem().splitlines()[1]
    secret = base64.b64decode(line)[-32:]
    return [line, secret, secret.hex().encode(), base64.b64encode(secret)]


@pytest.mark.slow
def test_a_run_signs_what_a_person_approved_and_its_key_is_in_nothing_that_it_leaves(
    home: Any,
    run: Any,
    officers: Officers,
    airflow_lake: Lake,
    airflow_home: Path,
    work_root: Path,
    tmp_path: Path,
    signing_key: SigningKey,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    home.write(approval={}, **PRIVATE)
    runs = [run("people") for _ in range(2)]
    assert [done.state for done in runs] == ["success", "success"], runs[-1].tasks
    output = capfd.readouterr()

    keys = tmp_path / "keys.pem"
    keys.write_text(signing_key.public.pem())

    def check(root: str) -> tuple[int, str]:
        return main(["check", f"{root}/people", "--key", str(keys)]), capfd.readouterr().out

    code, reported = check(airflow_lake.root)
    assert (code, reported[:3]) == (0, "yes"), reported
    assert f"release {runs[1].run_id}: 120 rows" in reported
    assert "  approved  by officer, 20" in reported
    (booked,) = re.findall("booked    for the data set people, ledger entry ([0-9a-f]{64})", reported)
    assert booked in {entry.hash for entry in ledger.check("people")}

    older, newer = (entry["version"] for entry in releases(airflow_lake.table("people")))
    for number, (tamper, words) in enumerate(
        (
            (partial(remove_the_approval_everywhere, version=newer), "signature: "),
            (partial(put_the_older_one_back, older=older, newer=newer), "something older was restored"),
        )
    ):
        copy = tmp_path / f"tampered {number}"
        shutil.copytree(airflow_lake.root, copy)
        tamper(Table(copy))
        code, reported = check(str(copy))
        assert (code, reported[:2]) == (1, "NO")
        assert words in reported

    (tmp_path / "output.txt").write_text(output.out + output.err)
    seen = [*files_below(airflow_home), *files_below(tmp_path)]
    assert files_with(seen, *forms_of(signing_key)) == []
    database = [file for file in seen if file.name.startswith("airflow.db")]
    for place, words in ((database, runs[1].run_id), (database, "rendered_task_instance_fields")):
        assert files_with(place, words.encode())  # the search saw what it should
    statement = releases(airflow_lake.table("people"))[1]["statement"]
    assert files_with([tmp_path / "output.txt"], statement.encode())  # what the log of `publish` tells


@pytest.mark.slow  # a whole run; `operators/test_approve` reads the form
def test_the_form_is_about_the_staged_bytes_and_may_be_sent_without_a_comment(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    done = run("people")
    (question,) = officers.seen
    assert releases(airflow_lake.table("people"))[0]["sha256"] in question["body"]
    assert question["defaults"] is None
    assert question["params"]["comment"]["schema"]["type"] == ["null", "string"]
    assert manifest_of(airflow_lake.table("people"), done.run_id)["approval"]["comment"] == ""


@pytest.mark.slow  # a whole run; a rejected release below is not published either
def test_nothing_is_published_while_the_run_waits(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    published: list[int] = []
    officers.before = lambda: published.append(len(releases(airflow_lake.table("people"))))
    run("people")
    assert published == [0]
    assert len(releases(airflow_lake.table("people"))) == 1


@pytest.mark.slow  # a whole run; `operators/test_approve` rejects, and other runs that fail stop and clean up
def test_a_rejected_release_is_not_published_and_nothing_stays(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    officers.option = "Reject"
    done = run("people")
    assert done.state == "failed"
    assert done.tasks["approve"] == "failed"
    assert done.tasks["publish"] == "upstream_failed"
    assert done.tasks["cleanup"] == "success"
    assert releases(airflow_lake.table("people")) == []
    assert work_is_gone(work_root)


@pytest.mark.slow  # a whole run; `operators/test_approve` skips it
def test_a_release_that_is_sent_back_ends_without_a_failure_and_nothing_stays(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    officers.option, officers.comment = "Send back", "coarser ages"
    done = run("people")
    assert done.state == "success"
    assert done.tasks["approve"] == "skipped"
    assert done.tasks["publish"] == "skipped"
    assert releases(airflow_lake.table("people")) == []
    assert work_is_gone(work_root)


@pytest.mark.slow  # a whole run; `operators/test_approve` has two approvers
def test_a_second_person_is_asked_and_the_first_is_not_taken_twice(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={"approvers": 2})
    answering = iter(["officer", "officer", "stranger"])

    def next_one() -> None:
        officers.users = (next(answering),)

    officers.before = next_one
    done = run("people")
    assert done.state == "success", done.tasks
    assert [user for user, _ in officers.statuses] == ["officer", "officer", "stranger"]
    manifest = manifest_of(airflow_lake.table("people"), done.run_id)["approval"]
    assert (manifest["first"]["by"]["id"], manifest["by"]["id"]) == ("officer", "stranger")


@pytest.mark.slow  # a whole run; `operators/test_approve` has each answer that is no approval
def test_no_answer_in_time_counts_as_rejected(
    home: Any,
    run: Any,
    officers: Officers,
    airflow_lake: Lake,
    work_root: Path,
    clock: Clock,
) -> None:
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update
    from structlog import get_logger

    def sweep(seconds: float) -> None:
        """What the scheduler does every few seconds, once the two days are over."""
        waiting = TaskInstance.state == "awaiting_input"
        with create_session() as session:
            late = update(TaskInstance).where(waiting)
            session.execute(late.values(trigger_timeout=datetime.now(UTC) - timedelta(seconds=1)))
        scheduler = SchedulerJobRunner.__new__(SchedulerJobRunner)
        scheduler._log = get_logger()
        scheduler.check_awaiting_input_timeouts()

    home.write(approval={})
    clock.in_sleep(sweep)
    done = run("people")
    assert done.state == "failed"
    assert done.tasks["approve"] == "failed"
    assert done.tasks["publish"] == "upstream_failed"
    assert releases(airflow_lake.table("people")) == []
    assert work_is_gone(work_root)


@pytest.mark.slow  # two whole runs; the parameter below decides
def test_a_run_may_ask_for_an_approval_that_is_not_required(
    home: Any, load: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={"required": False})
    quiet = run("people")
    assert officers.seen == []
    assert manifest_of(airflow_lake.table("people"), quiet.run_id)["approval"]["automatic"]
    requested = load("people").dags["people"].test(run_conf={"approval": True})
    assert str(requested.state) == "success"
    assert len(officers.seen) == 1
    assert not manifest_of(airflow_lake.table("people"), requested.run_id)["approval"]["automatic"]


def test_the_parameter_of_a_run_decides_where_an_approval_is_not_required(home: Any, load: Any) -> None:
    home.write(approval={"required": False})
    dag = load("people").dags["people"]
    assert dag.params["approval"] is False
    assert dag.get_task("approve").required == "{{ params.approval }}"
