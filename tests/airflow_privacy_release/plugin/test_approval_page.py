"""The page of an approval: who sees it, what it shows, and which answers it passes on."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.file_sets import folder_of_list, list_of, part_name
from tests.airflow_privacy_release.plugin.conftest import FOREIGN_DAG, OWN_DAG, Visit
from tests.privacy_release.proof.signed_tables import write_set
from tests.servers.pages import Page

RUN = "run_of_an_approval"
PLACE = {"dag_id": OWN_DAG, "run_id": RUN, "task_id": "approve", "map_index": -1}
MARKUP = "<b>x</b>"
FINDINGS = [
    {"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": 6.0, "passed": True},
    {"rule": "distinct_l_diversity(l=2)", "threshold": 2.0, "measured": 3.0, "passed": True},
]


def question(staged_file: Path, /, **other: Any) -> dict[str, Any]:
    """What the task keeps, about a staged file."""
    return {
        "table": "people",
        "release": f"{MARKUP} week",
        "method": "mondrian",
        "sha256": sha256_file(staged_file),
        "file": staged_file.name,
        "rows": 30,
        "counterfeits": 0,
        "columns": [
            {"name": "age", "role": "quasi_identifier", "kind": "categorical"},
            {"name": "note", "role": "insensitive", "kind": "categorical"},
        ],
        "findings": FINDINGS,
        "loss": None,
        "dataset": None,
        "figures": [["Prosecutor risk, highest", "0.2", "Chance of picking the right record."]],
        "limits": [["Other releases", "may be intersected"]],
        "difference": None,
        "approvers": 1,
        "first": None,
        "until": "2026-12-01T10:00:00+00:00",
        **other,
    }


class Approvals:
    """A run in Airflow's database whose task waits for an answer."""

    def waits(
        self, requested: dict[str, Any], *, assigned: tuple[str, ...] = (), wrapped: bool = False
    ) -> None:
        from airflow.models.dagrun import DagRun
        from airflow.models.hitl import HITLDetail
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType
        from sqlalchemy import insert, select

        kept: dict[str, Any] = {"sha256": requested["sha256"], "question": json.dumps(requested)}
        with create_session() as session:
            session.add(
                DagRun(
                    dag_id=OWN_DAG,
                    run_id=RUN,
                    run_type=DagRunType.MANUAL,
                    state=DagRunState.RUNNING,
                    triggered_by=DagRunTriggeredByType.TEST,
                )
            )
            session.flush()
            session.execute(
                insert(TaskInstance).values(
                    pool="default_pool",
                    state="awaiting_input",
                    next_method="execute_complete",
                    next_kwargs={"__type": "dict", "__var": kept} if wrapped else kept,
                    **PLACE,
                )
            )
            ti = session.scalar(select(TaskInstance).where(TaskInstance.run_id == RUN))
            assert ti is not None
            session.add(
                HITLDetail(
                    ti_id=ti.id,
                    options=["Approve", "Send back", "Reject"],
                    subject="Publish?",
                    assignees=[{"id": user, "name": user} for user in assigned],
                    created_at=datetime.now(UTC),
                )
            )

    def forget(self) -> None:
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import delete

        with create_session() as session:
            session.execute(delete(DagRun).where(DagRun.dag_id == OWN_DAG))

    def answered(self) -> tuple[Any, Any, Any]:
        """What Airflow holds of the answer: options, comment, user."""
        from airflow.models.hitl import HITLDetail
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            detail = session.scalar(
                select(HITLDetail)
                .join(TaskInstance, HITLDetail.ti_id == TaskInstance.id)
                .where(TaskInstance.run_id == RUN)
            )
            assert detail is not None
            by = (detail.responded_by or {}).get("id")
            return detail.chosen_options, (detail.params_input or {}).get("comment"), by


@pytest.fixture
def approvals(dags: None) -> Iterator[Approvals]:
    yield (made := Approvals())
    made.forget()


@pytest.fixture
def staged(work_root: Path) -> Path:
    """Thirty released records in the work area of the run, and a raw table beside them."""
    area = WorkArea(work_root, f"{OWN_DAG}/{RUN}")
    path = area.path("release.parquet")
    notes = [f"{MARKUP} row {i}." for i in range(30)]
    pq.write_table(pa.table({"age": ["[20, 30]"] * 29 + [None], "note": notes}), path)
    pq.write_table(pa.table({"age": ["CANARY"]}), area.path("raw.parquet"))
    return path


@pytest.fixture
def officer(visit: Callable[..., Visit]) -> Visit:
    return visit("officer")


def token_of(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found, "the page has no form"
    return found[1]


def send(user: Visit, token: str, **fields: str) -> Any:
    return user.client.post(
        "/privacy/approval", params=PLACE, data={"token": token} | fields, headers=user.headers,
        follow_redirects=False,
    )  # fmt: skip


def answer(user: Visit, **fields: str) -> Any:
    return send(user, token_of(user.get("/approval", PLACE).text), **fields)


def test_who_may_answer_sees_the_verdict_columns_and_twenty_records(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged))
    page = officer.get("/approval", PLACE)
    assert page.status_code == 200
    assert "30 records in 2 columns (1 of them unchanged) would be published" in page.text
    assert page.text.count("released unchanged") == 1
    assert len(re.findall(r"row \d+\.", page.text)) == 20
    assert "at most 1 in 5" in page.text
    assert "CANARY" not in page.text


def test_of_a_set_of_files_records_of_several_are_shown_unless_one_was_changed(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    path = list_of(staged)
    write_set(path, pq.read_table(staged).to_pandas(), files=6)
    approvals.waits(question(path))
    page = officer.get("/approval", PLACE).text
    shown = {int(row) // 5 for row in re.findall(r"row (\d+)\.", page)}
    assert len(re.findall(r"row \d+\.", page)) == 20
    assert shown == {0, 1, 3, 4}  # the files that they are from
    pq.write_table(pa.table({"age": ["CANARY"]}), folder_of_list(path) / part_name(3))
    page = officer.get("/approval", PLACE).text
    assert "CANARY" not in page
    assert 'value="Approve"' not in page


def test_names_and_records_are_shown_as_text(officer: Visit, approvals: Approvals, staged: Path) -> None:
    approvals.waits(question(staged))
    text = officer.get("/approval", PLACE).text
    assert "&lt;b&gt;x&lt;/b&gt; row 0." in text
    assert MARKUP not in text


def test_alerts_stand_above_the_decision(officer: Visit, approvals: Approvals, staged: Path) -> None:
    approvals.waits(question(staged))  # as a task kept it that asked before there were alerts
    assert "alert" not in Page(officer.get("/approval", PLACE).text).text
    approvals.forget()
    approvals.waits(question(staged, alerts=[f"Records released: 80, below 100 {MARKUP}"]))
    page = officer.get("/approval", PLACE).text
    text = Page(page).text
    assert "1 alert. A figure is outside of its limits. This does not stop the release." in text
    assert text.index("Records released: 80, below 100 <b>x</b>") < text.index("Your decision")
    assert MARKUP not in page


def test_the_page_says_which_attackers_were_judged(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged, over_time=[f"republication(k=5): difference 7 {MARKUP}"]))
    page = officer.get("/approval", PLACE).text
    assert "republication(k=5): difference 7 <b>x</b>." in Page(page).text
    assert MARKUP not in page


def test_the_page_says_how_many_expectations_of_the_source_held(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged, expectations={"expected": 3, "evaluated": 3, "passed": 2}))
    text = Page(officer.get("/approval", PLACE).text).text
    assert "2 of 3 expectations of the source are met." in text


def test_what_attackers_gain_is_drawn_after_what_they_gained_on_earlier_releases(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    found = {"excess": 0.02, "low": -0.1, "high": 0.11}
    before = {"release": f"{MARKUP} last", "committed": "2026-11-18T10:00:00+00:00"}
    now = {"release": "this", "committed": ""}
    about = {"attack": "inference", "bound": 0.3}
    courses = [
        about
        | {"subject": f"illness {MARKUP}", "releases": [before | found, now | found | {"excess": 0.05}]},
        about | {"subject": "age", "releases": [now | found]},  # there is nothing before it
    ]
    line = ["inference", f"illness {MARKUP}", "0.3", "0.3", "0.050 (-0.100 to 0.110)", "0.3", "0.8"]
    approvals.waits(question(staged, attacks=[line], excess=courses))
    text = officer.get("/approval", PLACE).text
    labels = [a["aria-label"] for tag, a in Page(text).tags if tag == "svg"]
    assert labels == [f"Inference: illness {MARKUP}: from 0.02 to 0.05 over 2 releases, bound 0.3"]
    assert MARKUP not in text


def test_what_changed_stands_above_the_decision_and_what_did_not_is_folded(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    difference = {
        "release": f"{MARKUP} last",
        "committed": "2026-11-18T10:00:00+00:00",
        "replaces": False,
        "new": ["note"],
        "gone": [],
        "numbers": [["rows", "28", "30"], ["k", "6", "6"], ["gcp", "8.2 %", "8.1 %"]],
        "figures": [["Prosecutor risk, highest", "0.2", "0.2"], ["Median query error", "2 %", "1.5 %"]],
    }
    figures = [["Prosecutor risk, highest", "0.2", "Chance."], ["Median query error", "1.5 %", "How far."]]
    approvals.waits(question(staged, difference=difference, figures=figures))
    page = officer.get("/approval", PLACE).text
    text = Page(page).text
    assert "Publish a new release of people?" in text
    changed, _, folded = text.partition("1 further figure changed")
    assert "Records 28 30" in changed
    assert "(GCP) 0 % keeps every value, 100 % keeps nothing. 8.2 % 8.1 %" in changed
    assert re.search(r"Median query error By how much .* 2 % 1.5 % 2 figures did not change", folded)
    assert re.search(
        r"class A class is .* 6 6 Prosecutor risk, highest Chance .* 0.2 0.2 Your decision", folded
    )
    assert re.search(r"Median query error How far. 1.5 % 1 figure as in the last release", folded)
    assert re.search(r"1 figure as in the last release .* Prosecutor risk, highest Chance. 0.2", folded)
    assert MARKUP not in page


@pytest.mark.parametrize("user", ["visitor", None], ids=["reader", "no user"])
def test_others_see_nothing_and_answer_nothing(
    visit: Callable[..., Visit], officer: Visit, approvals: Approvals, staged: Path, user: str | None
) -> None:
    approvals.waits(question(staged))
    token, other = token_of(officer.get("/approval", PLACE).text), visit(user)
    refused = 403 if user else 401
    assert other.get("/approval", PLACE).status_code == refused
    assert "row 0." not in other.get("/approval", PLACE).text
    assert send(other, token, option="Approve").status_code == refused
    assert approvals.answered() == (None, None, None)


def test_who_is_not_assigned_sees_nothing_and_answers_nothing(
    visit: Callable[..., Visit], officer: Visit, approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged), assigned=("officer",))
    steward = visit("steward")
    assert steward.get("/approval", PLACE).status_code == 403
    token = token_of(officer.get("/approval", PLACE).text)
    assert send(steward, token, option="Approve").status_code == 403
    assert answer(officer, option="Approve").status_code == 303


def test_rights_on_another_dag_open_no_approval(
    visit: Callable[..., Visit], approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged))
    steward = visit("steward")
    assert steward.get("/approval", PLACE | {"dag_id": FOREIGN_DAG}).status_code == 403
    both = f"/privacy/approval?dag_id={OWN_DAG}&dag_id={FOREIGN_DAG}&run_id={RUN}&task_id=approve"
    shown = steward.client.get(both, headers=steward.headers)
    assert "row 0." not in shown.text


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "as Airflow 3.1 keeps it"])
def test_an_approval_goes_to_airflow_with_user_and_comment_and_is_shown(
    officer: Visit, approvals: Approvals, staged: Path, wrapped: bool
) -> None:
    approvals.waits(question(staged), wrapped=wrapped)
    done = answer(officer, option="Approve", comment=f"fine {MARKUP}")
    assert done.status_code == 303
    assert approvals.answered() == (["Approve"], f"fine {MARKUP}", "officer")
    page = officer.get("/approval", PLACE).text
    assert "fine &lt;b&gt;" in page
    assert "row 0." not in page


def test_a_release_is_sent_back_with_a_comment_that_is_shown(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged))
    assert answer(officer, option="Send back").status_code == 422
    assert answer(officer, option="Send back", comment="coarser ages").status_code == 303
    assert approvals.answered() == (["Send back"], "coarser ages", "officer")
    page = officer.get("/approval", PLACE).text
    assert "coarser ages" in page
    assert "The run ended as a success" in page


@pytest.mark.parametrize(
    "missing", [{"sure": "yes"}, {"comment": "no"}, {"sure": "yes", "comment": "  "}], ids=str
)
def test_a_rejection_takes_a_reason_and_a_second_yes(
    officer: Visit, approvals: Approvals, staged: Path, missing: dict[str, str]
) -> None:
    approvals.waits(question(staged))
    refused = answer(officer, option="Reject", **missing)
    assert refused.status_code == 422
    assert 'role="alert"' in refused.text
    assert approvals.answered() == (None, None, None)
    assert answer(officer, option="Reject", sure="yes", comment="no").status_code == 303
    assert approvals.answered() == (["Reject"], "no", "officer")


def test_bytes_that_changed_are_neither_shown_nor_approved(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged))
    token = token_of(officer.get("/approval", PLACE).text)
    pq.write_table(pa.table({"age": ["CANARY"]}), staged)
    assert send(officer, token, option="Approve").status_code == 409
    page = officer.get("/approval", PLACE).text
    assert "CANARY" not in page
    assert 'value="Approve"' not in page
    assert approvals.answered() == (None, None, None)


def test_a_form_about_an_earlier_question_is_refused(
    officer: Visit, approvals: Approvals, staged: Path
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    approvals.waits(question(staged))
    token = token_of(officer.get("/approval", PLACE).text)
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == OWN_DAG))
    approvals.waits(question(staged))
    assert send(officer, token, option="Approve").status_code == 403
    assert send(officer, "x", option="Approve").status_code == 403
    assert approvals.answered() == (None, None, None)


def test_an_answer_is_given_also_where_airflow_requires_its_dag_bag(
    officer: Visit, approvals: Approvals, staged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
    from airflow.models.dagbag import DBDagBag

    from airflow_privacy_release.plugin.routes import approval

    passed = []

    def of_airflow_3_4(*, dag_bag: DBDagBag, **arguments: Any) -> Any:
        passed.append(dag_bag)
        new = "dag_bag" in signature(update_hitl_detail).parameters
        return update_hitl_detail(**arguments, **({"dag_bag": dag_bag} if new else {}))

    monkeypatch.setattr(approval, "update_hitl_detail", of_airflow_3_4)
    approvals.waits(question(staged))
    assert answer(officer, option="Approve").status_code == 303
    assert approvals.answered() == (["Approve"], None, "officer")
    assert [type(bag) for bag in passed] == [DBDagBag]


def test_an_answer_is_given_once(officer: Visit, approvals: Approvals, staged: Path) -> None:
    approvals.waits(question(staged))
    token = token_of(officer.get("/approval", PLACE).text)
    assert send(officer, token, option="Approve").status_code == 303
    assert send(officer, token, option="Reject", comment="no", sure="yes").status_code == 409
    assert approvals.answered()[0] == ["Approve"]


@pytest.mark.parametrize("file", ["raw.parquet", "../outside.parquet", "link.parquet", "gone.parquet", ""])
def test_no_other_file_is_shown_whatever_is_named(
    officer: Visit, approvals: Approvals, staged: Path, tmp_path: Path, file: str
) -> None:
    (staged.parent / "link.parquet").symlink_to(staged)
    (staged.parent.parent / "outside.parquet").write_bytes(staged.read_bytes())
    approvals.waits(question(staged, file=file))
    page = officer.get("/approval", PLACE).text
    assert "CANARY" not in page
    assert "row 0." not in page


def test_the_same_user_is_no_second_approver(
    visit: Callable[..., Visit], officer: Visit, approvals: Approvals, staged: Path
) -> None:
    first = {"by": {"id": "officer", "name": "officer"}, "at": "2026-11-20T10:00:00+00:00", "comment": "ok"}
    approvals.waits(question(staged, approvers=2, first=first))
    page = officer.get("/approval", PLACE).text
    assert "You cannot be the second approver." in page
    assert 'value="Approve"' not in page
    assert answer(officer, option="Approve").status_code == 403
    assert approvals.answered() == (None, None, None)
    assert answer(visit("steward"), option="Approve").status_code == 303
    assert approvals.answered()[2] == "steward"


def test_a_form_from_before_the_first_of_two_approved_is_refused(
    visit: Callable[..., Visit], approvals: Approvals, staged: Path
) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    approvals.waits(question(staged, approvers=2, first=None))
    steward = visit("steward")
    token = token_of(steward.get("/approval", PLACE).text)
    first = {"by": {"id": "officer", "name": "officer"}, "at": "2026-11-20T10:00:00+00:00", "comment": "ok"}
    kept = {"question": json.dumps(question(staged, approvers=2, first=first))}
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.run_id == RUN).values(next_kwargs=kept))
    assert send(steward, token, option="Approve").status_code == 403
    assert approvals.answered() == (None, None, None)
    assert answer(steward, option="Approve").status_code == 303


def test_the_page_of_the_run_leads_to_the_approval(
    visit: Callable[..., Visit], approvals: Approvals, staged: Path
) -> None:
    approvals.waits(question(staged))
    text = visit("visitor").get("/report", {"dag_id": OWN_DAG, "run_id": RUN}).text
    assert "/privacy/approval?dag_id=people" in text
