"""`repeated_people: history`: no one is released again while nothing follows who is in the releases."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException

import privacy_release
from airflow_privacy_release import VerifyOperator
from privacy_engine.dp.ledger import Limit
from privacy_engine.errors import IntegrityError, VerificationError
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.cli.main import DONE, REFUSED, WRONG, main
from privacy_release.lake import publish as lake_publish
from privacy_release.lake.read import releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.running.run import run_release
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps import publish as steps_publish
from privacy_release.steps.memberships.recording import one_at_a_time
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.retraction import retract_release
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.references import StagedRelease
from tests import tables
from tests.meeting import Meeting

HISTORY = {"repeated_people": "history"}
RULE = "repeated_people: history"
Specified = Callable[..., ReleaseSpec]


@pytest.fixture
def specified(home: Path) -> Specified:
    """Writes the release of `home`, without a schedule, with other fields and rules; None leaves one out."""

    def write(rules: dict[str, Any] | None = HISTORY, **fields: Any) -> ReleaseSpec:
        kept = {"schedule": None, "expectations": None} | fields
        return load_spec(tables.write_release(home, tables.POLICY | (rules or {}), **kept))

    return write


def stage(spec: ReleaseSpec, work: WorkArea, k: int, label: str = "staged") -> StagedRelease:
    table = privacy_release.ingest(
        spec.only_source.uri, spec.data_schema(), work, columns=spec.only_source.columns, label=f"in-{label}"
    )
    return privacy_release.make_release(
        table, work, method="mondrian", parameters={"k": k, "l": 2}, seed=7, label=label
    )


def test_a_second_release_is_refused_before_anything_is_read(
    home: Path, specified: Specified, lake: Lake, work: WorkArea
) -> None:
    spec = specified()
    run_release(spec, lake, "1", work)
    (home / "people.parquet").unlink()
    with pytest.raises(
        VerificationError,
        match=r"repeated_people: history is not kept: table people has 1 earlier releases "
        r"that people named by name may be in; declare `history`.*retract.*policy",
    ):
        run_release(spec, lake, "2", work)
    retract_release(lake.table("people"), "1", "a mistake")
    assert main(["run", str(home / "releases" / "people.yaml"), "--lake", lake.root]) == WRONG  # no source


def test_verification_counts_the_earlier_releases_and_names_the_remedies(
    specified: Specified, lake: Lake, work: WorkArea
) -> None:
    spec = specified()
    run_release(spec, lake, "1", work)
    run_release(specified(None), lake, "2", work)
    spec, staged = specified(), stage(spec, work, 9)
    report = privacy_release.verify_staged(staged, spec.release_policy(), table=lake.table("people"))
    (finding,) = [found for found in report.findings if found["rule"] == RULE]
    assert (report.passed, finding["measured"], finding["threshold"]) == (False, 2, 0)
    with pytest.raises(
        VerificationError,
        match=r"repeated_people: history measured 2: table people has 2 earlier releases.*declare `history`",
    ):
        privacy_release.raise_if_failed(report)
    silent = ReleasePolicy.from_dict(tables.POLICY)
    assert privacy_release.verify_staged(staged, silent, table=lake.table("people")).passed


def test_the_same_bytes_again_are_no_second_release(specified: Specified, lake: Lake, work: WorkArea) -> None:
    spec = specified()
    staged = stage(spec, work, 7)
    for _ in range(2):  # a retry
        report = privacy_release.verify_staged(staged, spec.release_policy(), table=lake.table("people"))
        published = publish_staged(staged, report, lake.table("people"), "1")
    assert published.already


def test_of_two_first_releases_at_a_time_one_is_published(
    specified: Specified, lake: Lake, work: WorkArea
) -> None:
    spec = specified()
    made = {name: stage(spec, work, k, name) for name, k in (("a", 5), ("b", 6))}
    reports = {
        name: privacy_release.verify_staged(staged, spec.release_policy(), table=lake.table("people"))
        for name, staged in made.items()
    }
    publish_staged(made["a"], reports["a"], lake.table("people"), "a")
    with pytest.raises(VerificationError, match="1 releases of table people were published after this one"):
        publish_staged(made["b"], reports["b"], lake.table("people"), "b")


def test_a_table_that_names_no_one_may_be_released_again(
    home: Path, specified: Specified, lake: Lake, work: WorkArea
) -> None:
    fields = yaml.safe_load((home / "releases" / "people.yaml").read_text())
    columns = {name: a for name, a in fields["schema"].items() if a["role"] != "identifier"}
    spec = specified(schema=columns, source=fields["source"] | {"columns": list(columns)}, schedule="@daily")
    for release in ("1", "2"):
        report = run_release(spec, lake, release, work).report
    assert RULE not in {finding["rule"] for finding in report.findings}


def test_losses_add_up_in_the_ledger_instead(
    specified: Specified, lake: Lake, work: WorkArea, home: Path, ledger: BudgetLedger
) -> None:
    """A differentially private release, and random answers, of people who are in every release."""
    ledger.grant("people", Limit(epsilon=4), reason="a test", by="officer")
    fields = {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
        "name": {"role": "identifier", "kind": "categorical"},
        "illness": {
            "role": "sensitive",
            "kind": "categorical",
            "categories": ["cold", "cough", "flu", "measles"],
        },
    }
    for number, method in enumerate(
        (
            {"method": "latent_class", "epsilon": 1, "classes": 2, "fits": 1},
            {"method": "errph", "epsilon": 1},
        )
    ):
        spec = specified(
            schema=fields,
            source={"uri": "people.parquet", "columns": list(fields)},
            release=method,
            budget={"dataset": "people"},
        )
        (home / "policies" / "people.yaml").write_text(yaml.safe_dump({"max_epsilon": 1} | HISTORY))
        run_release(spec, lake, f"{number}", work, ledger=ledger)
    assert len(releases(lake.table("people"))) == 2


def test_a_floor_that_says_so_holds_for_a_policy_that_is_silent(
    specified: Specified, lake: Lake, work: WorkArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = specified(None)
    run_release(spec, lake, "1", work)
    floor = tmp_path / "floor.yaml"
    floor.write_text(yaml.safe_dump({"require": [{"model": "k_anonymity", "k": 2}]} | HISTORY))
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(floor))
    with pytest.raises(VerificationError, match=RULE):
        run_release(spec, lake, "2", work)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"schedule": "@daily"}, WRONG),
        ({"schedule": "@daily", "history": {"identifier": "name"}}, DONE),
        ({}, DONE),  # it may be the only one
    ],
    ids=["silent", "followed", "once"],
)
def test_check_refuses_a_schedule_whose_second_release_would_be_refused(
    home: Path, specified: Specified, fields: dict[str, Any], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    specified(**fields)
    assert main(["check", str(home / "releases" / "people.yaml")]) == code
    said = "history must be declared for a schedule with name" in capsys.readouterr().err
    assert said is (code == WRONG)


def test_the_command_says_that_the_second_release_is_refused(
    home: Path, specified: Specified, lake: Lake, capsys: pytest.CaptureFixture[str], work_root: Path
) -> None:
    specified()
    command = ["run", str(home / "releases" / "people.yaml"), "--lake", lake.root]
    assert main(command) == DONE
    assert main(command) == REFUSED
    assert "table people has 1 earlier releases" in capsys.readouterr().err


def test_the_operator_needs_the_name_of_the_table(specified: Specified, work: WorkArea) -> None:
    task = SimpleNamespace(dag_id="people", run_id="1", task_id="verify", map_index=-1)
    context: Any = {"ti": task, "outlet_events": {}, "partition_key": None}
    check = VerifyOperator(
        task_id="verify", table=stage(specified(), work, 7), policy=tables.POLICY | HISTORY
    )
    with pytest.raises(AirflowFailException, match="verify needs the name of the table"):
        check.execute(context)


def test_a_release_waits_while_another_one_is_between_the_look_at_the_table_and_the_record_of_its_people(
    specified: Specified, lake: Lake, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that look at once know nothing of each other: the second has to see the first, and is refused."""
    spec = specified()
    made = {name: stage(spec, work, k, name) for name, k in (("a", 5), ("b", 6))}
    reports = {
        name: privacy_release.verify_staged(staged, spec.release_policy(), table=lake.table("people"))
        for name, staged in made.items()
    }
    meeting, publish = Meeting(monkeypatch), lake_publish.publish
    others, turns = [], iter("ab")

    def publish_b() -> None:
        publish_staged(made["b"], reports["b"], lake.table("people"), "b")

    def looked_at(*given: Any, **more: Any) -> Any:
        if next(turns) == "a":
            others.append(meeting.second(publish_b))
        else:
            meeting.entered()
        return publish(*given, **more)

    monkeypatch.setattr(lake_publish, "publish", looked_at)
    publish_staged(made["a"], reports["a"], lake.table("people"), "a")
    ((seen, ended),) = others
    assert seen == "waits"
    with pytest.raises(VerificationError, match="1 releases of table people were published after this one"):
        ended.result()


def test_a_manifest_of_another_release_is_not_published(
    specified: Specified, lake: Lake, work: WorkArea
) -> None:
    spec = specified(None)
    made, other = (stage(spec, work, k, f"k{k}") for k in (5, 6))
    report = privacy_release.verify_staged(made, spec.release_policy(), table=lake.table("people"))
    foreign: Any = replace(made, manifest=other.manifest)
    with pytest.raises(IntegrityError, match="the manifest must be that of the staged release"):
        publish_staged(foreign, report, lake.table("people"), "1")
    assert not releases(lake.table("people"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("approval", {"by": "officer"}),
        ("membership", {"sha256": "0" * 64}),
        ("verification", {"report_sha256": "0" * 64, "policy_sha256": "0" * 64}),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_only_publishing_adds_is_not_published_from_a_staged_manifest(
    specified: Specified, lake: Lake, work: WorkArea, field: str, value: dict[str, str]
) -> None:
    """As if another task of the run had written, for example, an approval that was never given."""
    spec = specified(None)
    made = stage(spec, work, 5, "k5")
    report = privacy_release.verify_staged(made, spec.release_policy(), table=lake.table("people"))
    stored = json.loads(Path(made.manifest).read_text())
    write_private(Path(made.manifest), json.dumps({**stored, field: value}).encode())
    with pytest.raises(IntegrityError, match=f"must not have {field}, which only publishing adds"):
        publish_staged(made, report, lake.table("people"), "1")
    assert not releases(lake.table("people"))


def test_who_is_in_a_release_is_recorded_before_another_one_looks_at_the_table(
    specified: Specified, lake: Lake, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_MEMBERSHIP_KEY", "k" * 40)
    meeting, record, others = Meeting(monkeypatch), steps_publish.record, []

    def look() -> None:
        with one_at_a_time("people"):
            meeting.entered()

    def recorded(*given: Any) -> str:
        others.append(meeting.second(look))
        return record(*given)

    monkeypatch.setattr(steps_publish, "record", recorded)
    followed = {"identifier": "name", "keep": False}
    run_release(specified(history=followed), lake, "1", work)
    ((seen, ended),) = others
    ended.result()
    assert seen == "waits"
