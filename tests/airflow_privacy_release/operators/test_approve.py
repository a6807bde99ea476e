"""Approval of a release: what the form shows, whom it names, and that nothing else is published."""

import json
import re
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput

from airflow_privacy_release import ApproveReleaseOperator, PublishOperator
from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.vocabulary import bounds_of
from privacy_release.config.durations import parse_duration
from privacy_release.lake.publish import publish as publish_rows
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from privacy_release.reports.text import ALONE, limit_in_words
from privacy_release.reports.text import shown as shown_as
from privacy_release.running.run import run_release
from privacy_release.spec.files import load_schema
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps.approval import LONGEST_COMMENT, approval_of, plain_comment
from privacy_release.steps.approval_question import question
from privacy_release.steps.approval_text import body, escaped
from privacy_release.steps.ingest import ingest
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.journal import sha256_of

SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "<b>town</b> | [x](http://x.test)": {"role": "quasi_identifier", "kind": "categorical"},
    "disease": {"role": "sensitive", "kind": "categorical"},
}
POLICY = ReleasePolicy(require=(KAnonymity(k=5), DistinctLDiversity(l=2)), max_gcp=0.9)
AT = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


def staged_in(work: WorkArea, k: int = 5, label: str = "staged") -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    source = work.path("people.parquet")
    if not source.exists():
        values = [
            [f"person {i}" for i in range(120)],
            rng.integers(20, 80, 120),
            rng.choice(["a", "b"], 120),
            rng.choice(["cold", "flu", "gout"], 120),
        ]
        pd.DataFrame(dict(zip(SCHEMA, values, strict=True))).to_parquet(source, index=False)
    table = ingest(str(source), load_schema(SCHEMA), work, label=f"{label}.ingest")
    staged = make_release(table, work, method="mondrian", parameters={"k": k, "l": 2}, seed=1, label=label)
    return staged, verify_staged(staged, POLICY)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A staged release and the report on it, which no test changes."""
    with WorkArea(tmp_path_factory.mktemp("made") / "work", "test/run 1") as work:
        return staged_in(work)


def context(run_id: str = "run 1") -> Any:
    task = SimpleNamespace(dag_id="people", run_id=run_id, task_id="approve", map_index=-1, id="ti")
    return {"ti": task, "task_instance": task, "outlet_events": defaultdict(SimpleNamespace)}


def operator(made: tuple[Any, Any], **more: Any) -> ApproveReleaseOperator:
    staged, report = made
    return ApproveReleaseOperator(task_id="approve", table=staged, report=report, name="people", **more)


def answer(option: str = "Approve", comment: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {"comment": comment},
        "responded_at": AT,
        "responded_by_user": {"id": "7", "name": "Olga Officer"},
        "timedout": False,
        **more,
    }


def requested(made: tuple[Any, Any], **more: Any) -> str:
    """The question as the task keeps it while it waits."""
    lake = Lake(root=str(Path(made[0].uri).parent / "lake"))
    return json.dumps(question(made[0], made[1], lake.table("people"), "run 1", **more))


def approved(made: tuple[Any, Any], comment: str | None = None) -> Any:
    return operator(made).execute_complete(context(), answer(comment=comment), requested(made))


def publish(made: tuple[Any, Any], approval: Any) -> Any:
    staged, report = made
    made_by = PublishOperator(
        task_id="publish", table=staged, report=report, name="people", approved="rendered"
    )
    made_by.approved = approval  # as templates are rendered
    return made_by.execute(context())


def shown(made: tuple[Any, Any], lake: Lake, name: str = "people", release: str = "run 1") -> str:
    return body(question(made[0], made[1], lake.table(name), release), "the dag", "run 1")


def test_the_form_asks_for_what_was_verified_and_waits_for_two_days(
    made: Any, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
        lambda **given: requested.update(given),
    )
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator(made, assigned_users=["officer"]).execute(context())
    assert waiting.value.timeout == parse_duration("2 days")
    assert waiting.value.kwargs is not None
    kept = json.loads(waiting.value.kwargs["question"])
    assert (kept["sha256"], kept["file"]) == (made[1].sha256, Path(made[0].uri).name)
    assert {column["name"]: column["role"] for column in kept["columns"]} == {
        column: reported["role"]
        for name, reported in SCHEMA.items()
        if reported["role"] != "identifier"
        for column in (bounds_of(name)[:2] if name == "age" else [name])
    }
    assert "person " not in waiting.value.kwargs["question"]
    assert requested["options"] == ["Approve", "Send back", "Reject"]
    assert requested["defaults"] is None
    assert "/privacy/approval?dag_id=people&run_id=run+1&task_id=approve" in requested["body"]
    assert requested["assigned_users"] == [{"id": "officer", "name": "officer"}]
    assert requested["subject"] == "Publish a new release of people? (run 1)"
    assert requested["params"]["comment"]["value"] is None
    assert requested["params"]["comment"]["schema"]["type"] == ["null", "string"]
    assert made[1].sha256 in requested["body"]


@pytest.mark.parametrize("private", [False, True], ids=["anonymized", "private"])
def test_a_reviewer_who_decides_sees_how_many_records_are_alone(
    made: Any, airflow_lake: Lake, private: bool
) -> None:
    loss = {"epsilon": 1.0, "delta": 0.0, "neighbours": "replace_one"}
    staged = replace(made[0], loss=loss) if private else made[0]
    labels = {label for label, _, _ in ALONE.values()}
    figures = {
        label: value
        for label, value, _ in question(staged, made[1], airflow_lake.table("people"), "r")["figures"]
    }
    assert {label: figures[label] for label in labels} == {
        label: shown_as(made[1].unique_records[name], unit) for name, (label, unit, _) in ALONE.items()
    }
    assert labels == set(figures) or not private
    for label in labels:
        assert label in shown((staged, made[1]), airflow_lake)


def test_an_approval_says_who_when_and_why_and_stands_in_the_manifest(made: Any, airflow_lake: Lake) -> None:
    publish(made, approved(made, "  checked\nwith care "))
    manifest = manifest_of(airflow_lake.table("people"), "run 1")["approval"]
    assert manifest == {
        "by": {"id": "7", "name": "Olga Officer"},
        "at": "2026-11-20T12:30:00+00:00",
        "comment": "checked with care",
        "automatic": False,
        "report_sha256": sha256_of(made[1]),
        "question_sha256": sha256_of(json.loads(requested(made))),
    }
    assert releases(airflow_lake.table("people"))[0]["figures"]["approval"] == manifest


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (answer("Reject"), r"rejected by Olga Officer at 2026-11-20T12:30:00\+00:00: nothing was published"),
        (
            answer("Reject", responded_by_user=None, timedout=True),
            r"no one answered by 2026-11-20T12:30:00\+00:00, .* rejected: nothing was published",
        ),
        (answer("Approve", responded_by_user=None, timedout=True), "no one answered"),
        # Each of the two must be enough.
        (answer("Approve", timedout=True), "no one answered"),
        (answer("Approve", responded_by_user=None), "no one answered"),
        (
            {"error": "late", "error_type": "timeout"},
            "no one answered by .* rejected: nothing was published",
        ),
        ({"error": "gone", "error_type": "unknown"}, r"not approved \(unknown\): nothing was published"),
        (answer(chosen_options=[]), "rejected by Olga Officer"),
        (answer(chosen_options=["Approve", "Reject"]), "rejected by Olga Officer"),
    ],
    ids=[
        "rejected",
        "timed-out",
        "timed-out-with-another-default",
        "timed-out-with-a-user",
        "in-time-without-a-user",
        "timed-out-without-a-default",
        "error",
        "no-option",
        "two-options",
    ],
)
def test_whatever_is_no_approval_fails_for_good(made: Any, event: Any, message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        operator(made).execute_complete(context(), event, requested(made))


def test_what_is_sent_back_is_skipped_with_a_reason_for_the_page_and_does_not_fail(made: Any) -> None:
    pushed: dict[str, Any] = {}
    given = context()
    given["ti"].xcom_push = pushed.__setitem__
    with pytest.raises(AirflowSkipException, match="sent back for a change by Olga Officer") as skipped:
        operator(made).execute_complete(given, answer("Send back", comment="coarser"), requested(made))
    assert pushed == {"skipped": {"reason": str(skipped.value)}}


def by(user: str, option: str = "Approve") -> dict[str, Any]:
    return answer(option, responded_by_user={"id": user, "name": user}, comment=None)


@pytest.fixture
def two(made: Any, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a task keeps that asks two people."""
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **given: None)
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator(made, approvers=2, assigned_users=["a", "b"]).execute(context())
    return dict(waiting.value.kwargs or {})


def asked_again(made: Any, event: Any, kept: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator(made, approvers=2, assigned_users=["a", "b"]).execute_complete(context(), event, **kept)
    assert waiting.value.timeout is not None
    assert waiting.value.timeout <= parse_duration("2 days")
    return dict(waiting.value.kwargs or {})


def test_two_different_people_approve_the_same_bytes(
    made: Any, two: dict[str, Any], airflow_lake: Lake
) -> None:
    again = asked_again(made, by("a"), two)
    assert json.loads(again["question"]) | {"first": None} == json.loads(two["question"])
    approval = operator(made, approvers=2).execute_complete(context(), by("b"), **again)
    publish(made, approval)
    manifest = manifest_of(airflow_lake.table("people"), "run 1")["approval"]
    assert (manifest["first"]["by"]["id"], manifest["by"]["id"]) == ("a", "b")


def test_the_same_user_twice_is_one_approver(made: Any, two: dict[str, Any]) -> None:
    again = asked_again(made, by("a"), two)
    for _ in range(2):
        again = asked_again(made, by("a"), again)
    assert json.loads(again["question"])["first"]["by"]["id"] == "a"


def test_a_user_under_another_name_is_no_second_one(made: Any, two: dict[str, Any]) -> None:
    again = asked_again(made, by("a"), two)
    renamed = answer(responded_by_user={"id": "a", "name": "Ada"}, comment=None)
    asked_again(made, renamed, again)


def test_a_user_without_an_id_is_no_second_one(made: Any, two: dict[str, Any]) -> None:
    again = asked_again(made, by("a"), two)
    asked_again(made, by(""), again)


def test_the_second_of_two_may_reject(made: Any, two: dict[str, Any]) -> None:
    again = asked_again(made, by("a"), two)
    with pytest.raises(AirflowFailException, match="rejected by b"):
        operator(made, approvers=2).execute_complete(context(), by("b", "Reject"), **again)


def test_the_second_of_two_has_no_more_time_than_the_first(made: Any, two: dict[str, Any]) -> None:
    late = json.loads(two["question"]) | {"until": "2026-01-01T00:00:00+00:00"}
    with pytest.raises(AirflowFailException, match="no second person approved"):
        operator(made, approvers=2).execute_complete(context(), by("a"), json.dumps(late))
    soon = json.loads(two["question"]) | {"until": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator(made, approvers=2).execute_complete(context(), by("a"), json.dumps(soon))
    assert waiting.value.timeout is not None
    assert waiting.value.timeout <= timedelta(hours=1)


@pytest.mark.parametrize("required", [False, "False", "false"])
def test_a_run_that_needs_no_approval_goes_on_and_says_so(
    made: Any, airflow_lake: Lake, required: Any
) -> None:
    approval = operator(made, required=required).execute(context())
    assert (approval["by"], approval["automatic"]) == (None, True)
    publish(made, approval)
    assert manifest_of(airflow_lake.table("people"), "run 1")["approval"]["automatic"]


@pytest.mark.parametrize("required", ["maybe", "None", 1], ids=str)
def test_a_truth_value_that_is_none_is_refused(made: Any, required: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"approve\.required.* must be"):
        operator(made, required=required).execute(context())


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("approvers", 3, r"approve\.approvers must be 1 or 2"),
        ("timeout", "soon", r"approve\.timeout must be a whole number"),
        ("assigned_users", "['a', 1.5]", r"approve\.assigned_users must be a list of user ids"),
        ("assigned_users", "'officer'", r"approve\.assigned_users must be a list of user ids"),
    ],
)
def test_a_wrong_argument_is_named(made: Any, argument: str, value: Any, message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        operator(made, **{argument: value}).execute(context())


def test_a_report_that_did_not_pass_is_not_shown_for_approval(made: Any) -> None:
    staged, report = made
    with pytest.raises(AirflowFailException, match="does not pass"):
        operator((staged, replace(report, passed=False))).execute(context())
    with pytest.raises(AirflowFailException, match="about the staged release"):
        operator((staged, replace(report, sha256="0" * 64))).execute(context())


def test_an_approval_of_other_bytes_publishes_nothing(made: Any, airflow_lake: Lake, work: WorkArea) -> None:
    other = staged_in(work, k=20, label="other")
    assert other[1].sha256 != made[1].sha256
    with pytest.raises(
        AirflowFailException, match=r"approved bytes must be the verified bytes.*request the approval again"
    ):
        publish(other, approved(made))
    approval = replace(approval_of(made[1], "officer", AT.isoformat()), sha256="0" * 64)
    with pytest.raises(IntegrityError, match="verified bytes"):
        publish_staged(*made, airflow_lake.table("people"), "run 1", approved=approval)
    assert releases(airflow_lake.table("people")) == []


def test_an_answer_is_to_what_was_shown_whatever_was_staged_since(made: Any, work: WorkArea) -> None:
    other = staged_in(work, k=20, label="other")
    approval = operator(other).execute_complete(context(), answer(), requested(made))
    assert (approval["sha256"], approval["report_sha256"]) == (made[1].sha256, sha256_of(made[1]))


def test_an_approval_of_another_report_publishes_nothing(made: Any, airflow_lake: Lake) -> None:
    staged, report = made
    again = replace(report, findings=[finding | {"threshold": 2} for finding in report.findings])
    with pytest.raises(
        AirflowFailException, match=r"based on the current verification report.*request the approval again"
    ):
        publish((staged, again), approved(made))
    assert releases(airflow_lake.table("people")) == []


def test_the_question_and_not_the_dag_of_that_day_says_who_is_the_second_of_two(
    made: Any, two: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **given: said.update(given)
    )
    with pytest.raises(TaskAwaitingInput):
        operator(made, approvers=2, assigned_users=["mallory"]).execute_complete(context(), by("a"), **two)
    assert said["assigned_users"] == [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]


def test_an_approval_task_that_was_marked_as_successful_publishes_nothing(
    made: Any, airflow_lake: Lake
) -> None:
    with pytest.raises(AirflowFailException, match="the approval task has no result"):
        publish(made, None)
    assert releases(airflow_lake.table("people")) == []


def test_the_form_shows_every_rule_with_limit_and_measure_and_the_report(made: Any, lake: Lake) -> None:
    text = shown(made, lake)
    for finding in made[1].findings:
        limit = limit_in_words(finding)
        assert f"| {escaped(finding['rule'])} | {escaped(limit)} |" in text
    assert "(/privacy/report?dag_id=the+dag&run_id=run+1)" in text
    assert "Detail lost" in text
    assert "Prosecutor risk" in text
    assert "first release of the table" in text


def test_the_form_compares_with_the_last_release_that_is_not_retracted(
    made: Any, lake: Lake, work: WorkArea
) -> None:
    from privacy_release.lake.retract import retract

    publish_staged(*staged_in(work, k=20, label="first"), lake.table("people"), "first")
    publish_staged(*staged_in(work, k=40, label="second"), lake.table("people"), "second")
    retract(lake.table("people"), "second", "a mistake")
    text = shown(made, lake)
    assert "The last release is **first**" in text
    assert text.index("The last release is") < text.index("Guarantees, measured")  # what changed comes first
    was, now = (r.findings[0]["measured"] for r in (staged_in(work, k=20, label="first")[1], made[1]))
    assert f"| {escaped('k: size of the smallest class')} | {was:.0f} | {now:.0f} |" in text
    (same,) = re.findall(r"Unchanged: (.*)", text)
    assert same.startswith("Records, ")
    plain = text.replace("\\", "")
    assert re.search(r"\| Detail lost in quasi-identifiers \(GCP\) \| \S+ % \| \S+ % \|", plain)
    assert re.search(r"Also changed: .*Median query error", plain)
    assert "replaces" not in text
    assert "**replaces**" in shown(made, lake, release="first")


def test_markdown_and_html_in_a_name_are_shown_as_text(made: Any, lake: Lake, work: WorkArea) -> None:
    publish_staged(*staged_in(work, k=20, label="first"), lake.table("people"), "first")
    renamed = "<img src=x onerror=alert(1)> | **bold** [x](http://x.test) www.x.test"
    text = shown(made, lake, release=renamed)
    assert renamed not in text
    assert escaped(renamed) in text
    assert "<img" not in text.replace("\\<", "")


def test_the_form_of_a_private_release_shows_no_figure_of_the_source(made: Any, lake: Lake) -> None:
    staged, report = made
    found = [f for f in report.findings if not f["rule"].startswith("max_gcp")]
    report = replace(report, findings=found)
    loss = {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}
    booking: Any = SimpleNamespace(dataset="adult", over_time=None)
    source = replace(staged.source, expectations={"expected": 7, "evaluated": 7, "passed": 6})
    private = replace(staged, loss=loss, booking=booking, source=source)
    found = question(private, report, lake.table("people"), "run 1")
    assert found["expectations"] is None
    text = shown((private, report), lake)
    assert "Epsilon **0.5**" in text
    assert "budget of **adult**" in text
    assert not [label for label in ("Utility", "Risk", "penalty", "gcp |", "Suppressed") if label in text]


@pytest.mark.parametrize("private", [False, True], ids=["anonymized", "private"])
def test_no_figure_is_compared_with_that_of_a_private_release(made: Any, lake: Lake, private: bool) -> None:
    """Its figures describe its source, whatever the new release is."""
    staged, report = made
    loss = {"loss": {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}} if private else {}
    manifest = staged.read_manifest().stored | loss
    publish_rows(
        lake.table("people"), "last", Path(staged.uri), manifest, b"a report", expected_sha256=staged.sha256
    )
    difference = question(staged, report, lake.table("people"), "next")["difference"]
    assert difference is not None
    assert bool(difference["figures"]) is not private


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, ""), (5, ""), (" a\n\tb\x00 ", "a b"), ("x" * 501, "x" * (LONGEST_COMMENT - 1) + "…")],
    ids=["none", "number", "lines", "long"],
)
def test_a_comment_is_one_line_of_limited_length(given: Any, kept: str) -> None:
    assert plain_comment(given) == kept


@pytest.mark.parametrize(
    "text", ["0 days", "2", "days", "-1 days", "2 fortnights", "1.5 days", "367 days", ""]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number of minutes"):
        parse_duration(text)


def spec_with_approval(home: Path, **approval: Any) -> ReleaseSpec:
    path = home / "releases" / "people.yaml"
    path.write_text(path.read_text() + f"approval: {json.dumps(approval)}\n")
    return load_spec(path)


def test_a_run_without_airflow_needs_a_name_where_approval_is_required(
    home: Path, lake: Lake, work: WorkArea
) -> None:
    spec = spec_with_approval(home, required=True)
    with pytest.raises(SpecError, match=r"people must be approved .*--approved-by"):
        run_release(spec, lake, "r1", work)
    assert [path.name for path in work.folder.iterdir()] == [".lock"]
    run_release(spec, lake, "r1", work, approved_by="Olga Officer")
    manifest = manifest_of(lake.table("people"), "r1")["approval"]
    assert (manifest["by"], manifest["automatic"]) == ("Olga Officer", False)


def test_a_run_without_airflow_says_that_no_one_was_asked_where_that_is_allowed(
    home: Path, lake: Lake, work: WorkArea
) -> None:
    run_release(spec_with_approval(home, required=False), lake, "r1", work)
    assert manifest_of(lake.table("people"), "r1")["approval"]["automatic"]
