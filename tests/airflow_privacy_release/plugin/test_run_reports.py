"""The report tab of a run: published, staged, gone; and only reports of that run's own work area."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_privacy_release.plugin.responses import REPORT_POLICY
from privacy_release.config.durations import PROGRESS
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.reports.curator import write_for_curator
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.journal import AreaFiles, Journal
from privacy_release.workarea.presence import Mark, Owner
from privacy_release.workarea.remote.keys import KEY_VARIABLE, Wrapping
from privacy_release.workarea.remote.scratch import Scratch
from privacy_release.workarea.remote.store import Store
from tests.airflow_privacy_release.plugin.conftest import DICTIONARY, FOREIGN_DAG, OWN_DAG, REPORT, Visit
from tests.airflow_privacy_release.plugin.test_access import one
from tests.airflow_privacy_release.plugin.test_pages import links_to
from tests.servers.pages import Page

RUN = "run_of_2026-11-16"
QUERY = {"dag_id": OWN_DAG, "run_id": RUN}
STAGED = {"uri": "x", "sha256": "x", "manifest": "x", "method": "mondrian"}


class Runs:
    """Runs and XComs in Airflow's database, as the scheduler and the tasks write them."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []  # task instances with XComs

    def add(self, state: str, run_id: str = RUN) -> None:
        """A run in that state."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        with create_session() as session:
            session.add(
                DagRun(
                    dag_id=OWN_DAG,
                    run_id=run_id,
                    run_type=DagRunType.MANUAL,
                    state=DagRunState(state),
                    triggered_by=DagRunTriggeredByType.TEST,
                )
            )

    def reported(
        self,
        task_id: str,
        value: Mapping[str, Any],
        map_index: int = -1,
        run_id: str = RUN,
        key: str = "return_value",
        state: str = "success",
    ) -> None:
        """What a task of the run returned, or reported by another key."""
        from airflow.models.taskinstance import TaskInstance
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import insert

        place: dict[str, Any] = {
            "dag_id": OWN_DAG,
            "run_id": run_id,
            "task_id": task_id,
            "map_index": map_index,
        }
        with create_session() as session:
            session.execute(insert(TaskInstance).values(pool="default_pool", state=state, **place))
            XComModel.set(key, dict(value), serialize=False, session=session, **place)
        self.written.append(place)


@pytest.fixture
def runs(dags: None) -> Iterator[Runs]:
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    yield (runs := Runs())
    with create_session() as session:
        for place in runs.written:
            XComModel.clear(session=session, **place)
        session.execute(delete(DagRun).where(DagRun.dag_id == OWN_DAG))


@pytest.fixture
def visitor(visit: Callable[..., Visit]) -> Visit:
    return visit("visitor")


@pytest.fixture
def area(work_root: Path) -> WorkArea:
    """The work area of the run."""
    return WorkArea(work_root, f"{OWN_DAG}/{RUN}")


def staged(area: WorkArea, name: str = "release.report.html", text: str = REPORT) -> dict[str, Any]:
    path = area.path(name)
    path.write_text(text)
    return STAGED | {"report": str(path)}


def frames(visit: Visit, query: Mapping[str, Any]) -> list[str]:
    """What is framed, with the page's script and without it."""
    answer = visit.get("/report", query)
    assert answer.status_code == 200
    found = [a for tag, a in Page(answer.text).tags if tag == "iframe"]
    scripted, plain = ([str(a[source]) for a in found if source in a] for source in ("data-source", "src"))
    assert scripted == plain
    return plain


def framed(visit: Visit, query: Mapping[str, Any]) -> Any:
    """What the frame of the tab shows."""
    (source,) = frames(visit, query)
    return visit.get(source.removeprefix("/privacy"))


def test_a_published_run_shows_the_published_report_also_when_its_work_area_is_gone(
    visitor: Visit, runs: Runs, publish_people: Callable[..., int], area: WorkArea
) -> None:
    runs.add("success")
    runs.reported("release", STAGED | {"report": str(area.folder / "release.report.html")})
    version = publish_people(dictionary=DICTIONARY)
    answer = framed(visitor, QUERY)
    assert (answer.status_code, answer.text) == (200, REPORT)
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    (link,) = links_to("dictionary", visitor.get("/report", QUERY).text)
    assert link == f"/privacy/dictionary?lake=lake_default&table=people&version={version}"
    assert "published" in Page(visitor.get("/report", QUERY).text).text


def test_before_publishing_the_staged_report_is_shown_and_said_not_to_be_published(
    visitor: Visit, runs: Runs, area: WorkArea
) -> None:
    runs.add("running")
    runs.reported("release", staged(area, text="<p>Staged.</p>"))
    answer = framed(visitor, QUERY)
    assert (answer.status_code, answer.text) == (200, "<p>Staged.</p>")
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    assert "not published" in Page(visitor.get("/report", QUERY).text).text


def test_before_publishing_no_dictionary_is_shown_also_not_one_that_lies_in_the_lake(
    visitor: Visit, runs: Runs, area: WorkArea, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    publish_people("earlier")
    assert airflow_lake.folder is not None
    sha256 = hashlib.sha256(DICTIONARY.encode()).hexdigest()
    # As a publication leaves it that ends before its commit.
    (airflow_lake.folder / "_proof" / "people" / f"{sha256}.html").write_text(DICTIONARY)
    runs.add("running")
    runs.reported("release", staged(area))
    assert links_to("dictionary", visitor.get("/report", QUERY).text) == []
    for version in (1, 2):
        answer = visitor.get("/dictionary/published", one(version))
        assert (answer.status_code, "each column" in answer.text) == (404, False)


@pytest.fixture
def remote(work_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    """The folder of a task of the run, where the work area is an address."""
    secret, address = "a secret of thirty-two bytes, or more", f"file://{tmp_path}/bucket"
    monkeypatch.setenv("PRIVACY_WORK_AREA", address)
    monkeypatch.setenv(KEY_VARIABLE, secret)
    key = f"{OWN_DAG}/{RUN}"
    run = Store(root=address, wrapping=Wrapping(secret.encode(), KEY_VARIABLE)).of(key)
    return Scratch(tmp_path / "scratch", key, run=run, mark=Mark(key=key, owner=Owner.RUN))


def test_an_encrypted_staged_report_is_shown_until_it_is_removed(
    visitor: Visit, runs: Runs, remote: Scratch
) -> None:
    runs.add("running")
    runs.reported("release", remote.send(staged(remote, text="<p>Staged.</p>")))
    remote.remove()
    assert framed(visitor, QUERY).text == "<p>Staged.</p>"
    remote.run.remove()
    assert frames(visitor, QUERY) == []


@pytest.mark.parametrize("address", ["{other}/release.report.html", "{own}/../x.report.html", "{own}/x.json"])
def test_an_address_that_is_no_report_of_the_run_is_not_shown(
    address: str, visitor: Visit, runs: Runs, remote: Scratch
) -> None:
    other = remote.run.store.of("another/run").address
    reported = remote.send(staged(remote))
    runs.add("running")
    runs.reported("release", reported | {"report": address.format(own=remote.run.address, other=other)})
    assert frames(visitor, QUERY) == []


@pytest.mark.parametrize("key", ["curator", "report"])
@pytest.mark.parametrize("user", ["visitor", "officer"])
def test_a_page_of_the_curators_folder_is_shown_to_no_one(
    key: str, user: str, visit: Callable[..., Visit], runs: Runs, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    page = write_for_curator("<p>Exact figures.</p>", OWN_DAG, RUN)
    runs.add("success")
    runs.reported("draw", {key: str(page), "choices": 6, "failed": 0})
    runs.reported("release", STAGED | {"report": str(page)})
    assert frames(visit(user), QUERY) == []
    for address in ("/report", "/report/staged", "/report/comparison"):
        answer = visit(user).get(address, QUERY | {"task_id": "release"})
        assert "Exact figures" not in answer.text


def test_the_placeholder_that_airflow_leaves_for_an_unmapped_task_is_understood(
    visitor: Visit, runs: Runs, area: WorkArea
) -> None:
    runs.add("running")
    runs.reported("release", staged(area))
    assert framed(visitor, QUERY | {"task_id": "release", "map_index": "{MAP_INDEX}"}).text == REPORT


def test_of_a_mapped_task_the_tab_of_each_instance_shows_its_own_report(
    visitor: Visit, runs: Runs, area: WorkArea
) -> None:
    runs.add("running")
    for index in range(3):
        runs.reported("release", staged(area, f"r-{index}.report.html", f"<p>Number {index}.</p>"), index)
    for index in range(3):
        answer = framed(visitor, QUERY | {"task_id": "release", "map_index": str(index)})
        assert answer.text == f"<p>Number {index}.</p>"
    assert framed(visitor, QUERY | {"show": 2}).text == "<p>Number 2.</p>"
    assert len(frames(visitor, QUERY | {"show": 99})) == 1


def test_a_task_without_a_report_shows_that_of_its_run(visitor: Visit, runs: Runs, area: WorkArea) -> None:
    runs.add("running")
    runs.reported("release", staged(area))
    assert framed(visitor, QUERY | {"task_id": "ingest", "map_index": "-1"}).text == REPORT


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("running", "has not made a release yet"),
        ("queued", "has not made a release yet"),
        ("failed", "ended without a release"),
        ("success", "ended without a release"),
    ],
)
def test_a_run_without_a_release_says_so(visitor: Visit, runs: Runs, state: str, words: str) -> None:
    runs.add(state)
    assert frames(visitor, QUERY) == []
    assert words in visitor.get("/report", QUERY).text


def test_a_failed_run_whose_work_area_was_cleaned_says_so(visitor: Visit, runs: Runs, area: WorkArea) -> None:
    runs.add("failed")
    runs.reported("release", staged(area))
    area.remove()
    assert frames(visitor, QUERY) == []
    assert "did not publish it" in visitor.get("/report", QUERY).text


def test_a_retracted_release_says_so_and_shows_no_report(
    visitor: Visit, runs: Runs, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    runs.add("success")
    publish_people()
    retract(airflow_lake.table("people"), "2026-11-16", "the source was wrong")
    assert frames(visitor, QUERY) == []
    assert "Retracted: the source was wrong" in visitor.get("/report", QUERY).text


def test_the_page_that_compares_several_releases_is_shown(
    visitor: Visit, runs: Runs, airflow_lake: Lake
) -> None:
    from privacy_release.lake.store import put

    runs.add("success")
    put(airflow_lake, f"_comparisons/{OWN_DAG}/r.html", b"<p>Compared.</p>")
    runs.reported("compare", {"report": f"{airflow_lake.root}/_comparisons/{OWN_DAG}/r.html", "releases": 2})
    assert framed(visitor, QUERY).text == "<p>Compared.</p>"


def test_a_comparison_for_the_curator_is_no_page_of_the_run(
    visitor: Visit, runs: Runs, tmp_path: Path
) -> None:
    runs.add("success")
    (tmp_path / "c.html").write_text("<p>Exact.</p>")
    runs.reported("compare", {"releases": 2, "curator": str(tmp_path / "c.html")})
    assert visitor.get("/report/comparison", QUERY).status_code == 404
    assert frames(visitor, QUERY) == []


@pytest.mark.parametrize(
    "path", ["people/secret.html", "_comparisons/others/r.html", "_comparisons/people/../others/r.html"]
)
def test_a_forged_comparison_reads_nothing_but_the_dags_own_folder(
    visitor: Visit, runs: Runs, airflow_lake: Lake, path: str
) -> None:
    from privacy_release.lake.store import put

    runs.add("success")
    put(airflow_lake, path.replace("people/../", ""), b"<p>Secret.</p>")
    runs.reported("compare", {"report": f"{airflow_lake.root}/{path}", "releases": 2})
    assert visitor.get("/report/comparison", QUERY).status_code == 404
    assert frames(visitor, QUERY) == []


@pytest.mark.parametrize(
    "forged",
    [
        "/etc/passwd",
        "{folder}/records.parquet",
        "{folder}/../../outside.report.html",
        "{folder}/sub/deep.report.html",
        "{other}/release.report.html",
        "{folder}/link.report.html",
        "{folder}/folder.report.html",
        "{folder}/\0.report.html",
        "relative.report.html",
        "",
        7,
        ["x"],
    ],
    ids=repr,
)
def test_a_forged_path_opens_no_file_but_a_report_of_the_runs_own_work_area(
    visitor: Visit, runs: Runs, area: WorkArea, work_root: Path, tmp_path: Path, forged: Any
) -> None:
    other = WorkArea(work_root, f"{OWN_DAG}/another run")
    for path in (
        area.path("records.parquet"),
        other.path("release.report.html"),
        tmp_path / "outside.report.html",
    ):
        path.write_text("secret")
    (area.folder / "sub").mkdir()
    (area.folder / "sub" / "deep.report.html").write_text("secret")
    (area.folder / "folder.report.html").mkdir()
    area.path("link.report.html").symlink_to(area.path("records.parquet"))
    if isinstance(forged, str):
        forged = forged.format(folder=area.folder, other=other.folder)
    runs.add("running")
    runs.reported("release", STAGED | {"report": forged})
    answer = visitor.get("/report/staged", QUERY | {"task_id": "release"})
    assert answer.status_code == 404
    assert "secret" not in answer.text
    assert frames(visitor, QUERY) == []


def test_a_work_area_that_is_a_link_is_not_followed(
    visitor: Visit, runs: Runs, area: WorkArea, work_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "release.report.html").write_text("secret")
    work_root.mkdir()
    area.folder.symlink_to(tmp_path / "elsewhere")
    runs.add("running")
    runs.reported("release", STAGED | {"report": str(area.folder / "release.report.html")})
    assert visitor.get("/report/staged", QUERY | {"task_id": "release"}).status_code == 404


def test_a_run_that_does_not_exist_is_not_found(visitor: Visit, runs: Runs) -> None:
    assert visitor.get("/report", QUERY).status_code == 404


def test_a_report_can_follow_the_theme_that_was_chosen_in_airflow(
    visit: Callable[..., Visit], publish_people: Callable[..., int]
) -> None:
    from tests.airflow_privacy_release.plugin.test_access import one

    version = publish_people(report="<style>@media (prefers-color-scheme: dark) { p { color: red } }</style>")
    shown = {
        t: visit("officer").get("/report/published", one(version) | {"theme": t}).text
        for t in ("dark", "light", "x")
    }
    assert "@media all {" in shown["dark"]
    assert "@media not all {" in shown["light"]
    assert "@media (prefers-color-scheme: dark) {" in shown["x"]


def shown_leftovers(visit: Visit) -> list[str]:
    answer = visit.get("/releases")
    assert answer.status_code == 200
    return re.findall(r"<li>(.*?)</li>", answer.text)


def test_the_list_of_releases_tells_of_areas_that_outlived_their_run(
    visit: Callable[..., Visit], runs: Runs, work_root: Path
) -> None:
    for dag_id, run_id in [(OWN_DAG, RUN), (FOREIGN_DAG, "r"), (OWN_DAG, "going_on"), ("forgotten", "x")]:
        with WorkArea(work_root, f"{dag_id}/{run_id}", Owner.RUN) as work:
            work.path("raw.parquet").write_bytes(b"canary")
    with WorkArea(work_root, "cli/people/r1/1"):
        pass
    runs.add("failed")
    runs.add("running", "going_on")
    reported = shown_leftovers(visit("visitor"))
    assert len(reported) == 1
    assert re.sub(r"<wbr>", "", reported[0]) == f"{OWN_DAG}, run {RUN}: unused for less than an hour"
    officers = shown_leftovers(visit("officer"))
    assert len(officers) == 3
    assert sum("Airflow does not know this run" in text for text in officers) == 2
    assert not any("canary" in text for text in officers)
    WorkArea(work_root, f"{OWN_DAG}/{RUN}").remove()
    assert shown_leftovers(visit("visitor")) == []


def test_the_page_of_a_run_shows_each_expectation_and_whether_it_stops_a_run(
    visitor: Visit, runs: Runs
) -> None:
    runs.add("failed")
    one = {
        "type": "expect_column_values_to_not_be_null",
        "severity": "critical",
        "broken": None,
        "held": True,
    }
    two = one | {"type": "expect_column_mean_to_be_between", "severity": "warning", "held": False}
    three = one | {"type": "expect_column_to_exist", "broken": "KeyError", "held": False}
    found = [expectation | {"column": f"<b>{i}"} for i, expectation in enumerate((one, two, three))]
    suite = {"suite": "people", "expected": 3, "evaluated": 3, "passed": 1, "success": False}
    runs.reported("validate", suite | {"expectations": found}, key="expectations")
    page = visitor.get("/report", QUERY).text
    text = Page(page).text
    assert "Expectations of validate : 1 of 3 passed, and the run was stopped" in text
    rows = "".join(text.split())  # long names may be broken anywhere
    for row in ("not_be_null<b>0gateyes", "mean_to_be_between<b>1warningno"):
        assert row in rows
    assert "to_exist<b>2gatecouldnotbeevaluated:KeyError" in rows
    assert "<b>0" not in page
    assert "Expectations of" not in visitor.get("/report", QUERY | {"run_id": "none"}).text


def test_the_page_of_a_run_shows_its_alerts_published_or_not(
    visitor: Visit, runs: Runs, publish_people: Callable[..., int]
) -> None:
    runs.add("success")
    alerts = [{"figure": "rows", "text": "Records released: 7, below 10 <i>"}, {"text": "k, measured: 5"}]
    runs.reported("verify", {"findings": [], "passed": True, "alerts": alerts})
    runs.reported("publish", {"alerts": alerts, "release": "r"})  # the same ones, reported again
    for _ in range(2):
        page = visitor.get("/report", QUERY).text
        assert "2 alerts. A figure is outside of its limits" in Page(page).text
        assert page.count("Records released: 7, below 10 &lt;i&gt;") == 1
        publish_people()


def test_tasks_that_run_are_shown_with_a_bar_and_others_are_not(runs: Runs, visitor: Visit) -> None:
    runs.add("running")
    runs.reported(
        "release", {"percent": 42, "text": "42 %, about 3 min left"}, 1, key=PROGRESS, state="running"
    )
    runs.reported("ingest", {"percent": 100, "text": "100 %"}, key=PROGRESS)
    answer = visitor.get("/report", QUERY)
    assert "about 3 min left" in answer.text
    bars = [a for tag, a in Page(answer.text).tags if tag == "progress"]
    assert bars == [{"value": "42", "max": "100"}]
    assert "release [1]" in answer.text
    assert "ingest" not in answer.text
    assert [a for tag, a in Page(answer.text).tags if "data-reloads" in a]


def test_a_page_without_running_tasks_does_not_load_itself_again(runs: Runs, visitor: Visit) -> None:
    runs.add("success")
    runs.reported("release", {"percent": 100, "text": "100 %"}, key=PROGRESS)
    assert not [a for _, a in Page(visitor.get("/report", QUERY).text).tags if "data-reloads" in a]


@pytest.mark.parametrize("percent", ["42", 101, -1, True, None, 4.2])
def test_what_is_no_percent_is_not_shown(percent: Any, runs: Runs, visitor: Visit) -> None:
    runs.add("running")
    runs.reported("release", {"percent": percent, "text": "x"}, key=PROGRESS, state="running")
    answer = visitor.get("/report", QUERY)
    assert answer.status_code == 200
    assert "<progress" not in answer.text


def test_what_a_task_reported_is_shown_as_text_alone(runs: Runs, visitor: Visit) -> None:
    runs.add("running")
    runs.reported(
        "release", {"percent": 1, "text": "<script>alert(1)</script>"}, key=PROGRESS, state="running"
    )
    assert "<script>alert(1)" not in visitor.get("/report", QUERY).text


def test_how_far_a_run_is_is_shown_to_no_one_who_may_not_see_the_dag(
    runs: Runs, visit: Callable[..., Visit]
) -> None:
    runs.add("running")
    runs.reported("release", {"percent": 42, "text": "42 %"}, key=PROGRESS, state="running")
    answer = visit(None).get("/report", QUERY)
    assert answer.status_code != 200
    assert "42 %" not in answer.text


NOT_VERIFIED = "Reported by the run, not verified"


def test_values_that_are_not_those_of_the_journal_are_called_unverified(
    visitor: Visit, runs: Runs, work_root: Path
) -> None:
    area = WorkArea(work_root, f"{OWN_DAG}/{RUN}")
    journal = Journal(AreaFiles(area.folder, lambda: area))
    runs.add("running")
    report = {"passed": True, "sha256": "x", "findings": []}
    journal.record("verify", -1, journal.begin("verify", -1), report)
    staged = {**STAGED, "report": str(area.path("release.report.html"))}
    area.path("release.report.html").write_text("<p>a report</p>")
    journal.record("release", -1, journal.begin("release", -1), staged)
    runs.reported("verify", report)
    runs.reported("release", staged)
    assert NOT_VERIFIED not in visitor.get("/report", QUERY).text
    runs.reported("attack", report | {"passed": False})  # no task recorded it
    assert NOT_VERIFIED in visitor.get("/report", QUERY).text


def test_a_skipped_run_says_why_and_the_reason_is_shown_as_text(visitor: Visit, runs: Runs) -> None:
    runs.add("success")
    reason = "data set people cannot pay epsilon 0.4: too little delta <b>x</b>"
    runs.reported("budget", {"reason": reason}, key="skipped", state="skipped")
    page = visitor.get("/report", QUERY).text
    text = Page(page).text
    assert f"Skipped by budget . The task reported: {reason}" in text
    assert "Nothing was released: a task skipped the rest of the run" in text
    assert "it failed or was stopped" not in text
    assert "<b>x</b>" not in page


def test_a_reason_of_a_task_that_was_not_skipped_is_not_shown(visitor: Visit, runs: Runs) -> None:
    runs.add("success")
    runs.reported("budget", {"reason": "of an earlier attempt"}, key="skipped")
    assert "of an earlier attempt" not in visitor.get("/report", QUERY).text


def ended(note: str | None = None) -> str | None:
    """The note of the run once Airflow's scheduler has called the listeners of its success."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    of_run = select(DagRun).where(DagRun.dag_id == OWN_DAG, DagRun.run_id == RUN)
    with create_session() as session:
        run = session.scalars(of_run).one()
        run.note = note
        run.notify_dagrun_state_changed(msg="success")
    with create_session() as session:
        found: str | None = session.scalars(of_run).one().note
    return found


def test_the_note_of_a_skipped_run_says_why(runs: Runs) -> None:
    runs.add("success")
    runs.reported("budget", {"reason": "too little delta"}, key="skipped", state="skipped")
    runs.reported("ingest", {"reason": "no file"}, map_index=2, key="skipped", state="skipped")
    assert ended() == "budget: too little delta\ningest [2]: no file"
    assert ended("seen by Ann") == "seen by Ann"


def test_a_run_of_which_no_task_gave_a_reason_to_skip_gets_no_note(runs: Runs) -> None:
    runs.add("success")
    runs.reported("budget", {"reason": "of an earlier attempt"}, key="skipped")
    assert ended() is None


def test_a_long_reason_fits_into_a_note(runs: Runs) -> None:
    runs.add("success")
    runs.reported("budget", {"reason": "x" * 5_000}, key="skipped", state="skipped")
    assert len(ended() or "") == 1_000
