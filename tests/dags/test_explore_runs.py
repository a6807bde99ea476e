"""Choices explored as mapped tasks: figures as of the command line, and no trace but the curator's page."""

import json
import re
import stat
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from airflow_privacy_release.compat import AirflowFailException
from airflow_privacy_release.operators.compare import MeasureChoiceOperator, SampleRecordsOperator
from privacy_engine.dp.limits import Limit
from privacy_engine.errors import SpecError
from privacy_release.cli.main import DONE, main
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.model import load_spec
from privacy_release.steps.ingest import ingest
from privacy_release.workarea.remote.keys import KEY_VARIABLE
from tests.canaries import CANARIES, planted_everywhere
from tests.dags.conftest import Run
from tests.ledgers import new_ledger
from tests.servers.pages import Page, require_closed_page

GRID = {"methods": ["mondrian", "bottom_up"], "k": [2, 5, 900]}
FEW = {"methods": ["mondrian"], "k": [5, 900]}
IMPOSSIBLE = {"mondrian:k=900,l=2", "bottom_up:k=900,l=2"}
PRIVATE: dict[str, Any] = {
    "columns": {
        "town": {"categories": ["north", "south"]},
        "disease": {"categories": ["cold", "flu", "gout"]},
        "remark": {"categories": ["a", "b"]},
    },
    "release": {"method": "latent_class", "epsilon": 1.0},
    "policy": {"max_epsilon": 4.0},
}
EPSILONS = {"methods": ["latent_class"], "epsilon": [1, 4]}


@pytest.fixture
def explorations(tmp_path: Path) -> Callable[..., None]:
    """Write the DAG file of an exploration."""
    folder = tmp_path / "dags"
    folder.mkdir()

    def write(**given: Any) -> None:
        arguments = {"file": "releases/people.yaml", **given}
        (folder / "explore.py").write_text(
            "from airflow_privacy_release import explore_dag\n"
            f"people = explore_dag(**{arguments!r}, dag_id='explore')\n"
        )

    return write


@pytest.fixture
def dags_folder(tmp_path: Path) -> Path:
    """In place of the project's DAGs."""
    return tmp_path / "dags"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    return new_ledger(tmp_path / "ledger.db")


def untimed(page: Path) -> str:
    """A page without the seconds that a method took."""
    return re.sub(r'<td class="number">\d+\.\d</td></tr>', "", page.read_text())


def xcoms(dag_id: str, run_id: str) -> str:
    """All that the tasks of a run reported, as it is stored, and their fields as Airflow shows them."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        message = [
            (row.task_id, row.value)
            for row in session.scalars(
                select(XComModel).where(XComModel.dag_id == dag_id, XComModel.run_id == run_id)
            )
        ]
        shown = [
            row.rendered_fields
            for row in session.scalars(
                select(Rendered).where(Rendered.dag_id == dag_id, Rendered.run_id == run_id)
            )
        ]
    assert {task for task, _ in message} >= {"choices", "records", "measure", "draw"}
    assert shown
    return json.dumps([message, shown], default=str)


@pytest.mark.slow  # a run beside the command line
def test_mapped_tasks_measure_what_the_command_line_measures(
    home: Any, run: Any, explorations: Any, work_root: Path, tmp_path: Path
) -> None:
    explorations(grid=GRID, seed=3, sample=80)
    done: Run = run("explore")
    assert done.state == "success", done.tasks
    returned = done.returned("draw")
    assert (returned["choices"], returned["failed"]) == (6, 2)
    spec = home.spec("people")
    command = ["explore", str(spec), "--methods", "mondrian,bottom_up", "--k", "2,5,900"]
    assert main([*command, "--seed", "3", "--sample", "80", "--jobs", "1"]) == DONE
    mine = Path(returned["curator"])
    (other,) = set((tmp_path / "curator").rglob("*.html")) - {mine}
    assert untimed(mine) == untimed(other)
    assert untimed(mine) != mine.read_text()
    require_closed_page(mine.read_text())
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600
    assert all(f"{name}" in Page(mine.read_text()).text for name in IMPOSSIBLE)
    assert not [path for path in work_root.rglob("*") if path.is_file()]


@pytest.mark.slow  # two whole runs
def test_another_seed_gives_other_figures(home: Any, run: Any, explorations: Any) -> None:
    pages = []
    for seed in (3, 4):
        explorations(grid=FEW, seed=seed, sample=80)
        pages.append(untimed(Path(run("explore").returned("draw")["curator"])))
    assert pages[0] != pages[1]


def test_no_value_and_no_figure_leaves_the_work_area_and_the_curators_folder(
    home: Any, run: Any, explorations: Any, invented: pd.DataFrame, work_root: Path, capfd: Any
) -> None:
    home.write(planted_everywhere(invented), columns={"remark": {"unique": {"allow": "invented"}}})
    explorations(grid=FEW)
    done: Run = run("explore")
    assert done.state == "success", done.tasks
    said = "".join(capfd.readouterr())
    returned = xcoms("explore", done.run_id)
    for text in (said, returned):
        assert "mondrian:k=5,l=2" in text
        assert not [c for c in CANARIES if c.decode() in text.lower()]
        assert not [name for name in ("gcp", "prosecutor", "accuracy", "query_error") if name in text]
    assert not [path for path in work_root.rglob("*") if path.is_file()]


@pytest.mark.slow  # a task that dies
def test_a_choice_whose_task_dies_does_not_lose_the_others(
    home: Any, run: Any, explorations: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorations(grid=FEW)
    execute = MeasureChoiceOperator.execute

    @wraps(execute)
    def dies(self: Any, context: Any) -> Any:
        if self.choice["name"] == "mondrian:k=5,l=2":
            raise AirflowFailException("as if no retry had helped")
        return execute(self, context)

    monkeypatch.setattr(MeasureChoiceOperator, "execute", dies)
    done: Run = run("explore")
    assert done.tasks["draw"] == "success", done.tasks
    assert done.returned("draw")["failed"] == 2
    page = Page(Path(done.returned("draw")["curator"]).read_text())
    assert "ended without a measurement" in page.text


@pytest.mark.slow  # whole runs that fail
@pytest.mark.parametrize("fault", ["missing_source", "unknown_target"])
def test_without_records_the_run_fails_and_leaves_nothing(
    fault: str, home: Any, run: Any, explorations: Any, work_root: Path, tmp_path: Path
) -> None:
    explorations(grid=FEW, **({"target": "age"} if fault == "unknown_target" else {}))
    if fault == "missing_source":
        (home.folder / "people.parquet").unlink()
    done: Run = run("explore")
    assert done.state == "failed"
    assert done.tasks["ingest" if fault == "missing_source" else "records"] == "failed"
    assert done.tasks["cleanup"] == "success"
    assert not (tmp_path / "curator").exists()
    assert not [path for path in work_root.rglob("*") if path.is_file()]


def test_a_source_that_may_be_missing_skips_the_page_and_fails_nothing(
    home: Any, run: Any, explorations: Any, tmp_path: Path
) -> None:
    home.write(source={"uri": "nowhere.parquet", "when_missing": "skip"})
    explorations(grid=FEW)
    done: Run = run("explore")
    assert (done.state, done.tasks["ingest"], done.tasks["draw"]) == ("success", "skipped", "skipped")
    assert not (tmp_path / "curator").exists()


@pytest.mark.slow  # a run with a work area for each task
def test_workers_that_share_no_folder_share_the_choices_too(
    home: Any, run: Any, explorations: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    explorations(grid=FEW)
    here = untimed(Path(run("explore").returned("draw")["curator"]))
    monkeypatch.setenv("PRIVACY_WORK_AREA", f"file://{tmp_path}/bucket")
    monkeypatch.setenv("PRIVACY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv(KEY_VARIABLE, "a secret of thirty-two bytes, or more")
    done: Run = run("explore")
    assert done.state == "success", done.tasks
    assert untimed(Path(done.returned("draw")["curator"])) == here
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_source_of_a_private_method_is_not_read(home: Any, load: Any, explorations: Any) -> None:
    home.write(**PRIVATE)
    explorations(grid=EPSILONS, sample=300)
    assert "ingest" not in load("explore").dags["explore"].task_ids


@pytest.mark.slow  # a whole run; the test above and `privacy_release/explore` have both claims without one
def test_a_private_method_sees_simulated_records_and_the_source_is_not_read(
    home: Any, run: Any, explorations: Any
) -> None:
    home.write(**PRIVATE)
    (home.folder / "people.parquet").unlink()  # so that no one can have read it
    explorations(grid=EPSILONS, sample=300)
    done: Run = run("explore")
    assert done.state == "success", done.tasks
    assert "ingest" not in done.tasks
    assert done.returned("records")["origin"] == "simulated"
    assert done.returned("draw")["failed"] == 0
    assert "simulated records" in Page(Path(done.returned("draw")["curator"]).read_text()).text


@pytest.mark.slow  # a whole run
def test_a_public_table_takes_the_place_of_the_source(
    home: Any, run: Any, explorations: Any, invented: pd.DataFrame, tmp_path: Path
) -> None:
    home.write(**PRIVATE)
    (home.folder / "people.parquet").unlink()
    invented.sample(frac=1, random_state=2).to_parquet(tmp_path / "public.parquet", index=False)
    explorations(grid=EPSILONS, public=str(tmp_path / "public.parquet"))
    done: Run = run("explore")
    assert done.state == "success", done.tasks
    assert done.returned("records")["origin"] == "public"
    assert "a public table in place of the source" in Path(done.returned("draw")["curator"]).read_text()


@pytest.mark.slow  # two whole runs
def test_what_is_explored_on_the_source_is_booked_once(
    home: Any, run: Any, explorations: Any, ledger: BudgetLedger
) -> None:
    home.write(**PRIVATE, budget={"dataset": "people"})
    explorations(grid=EPSILONS, book=True)
    short: Run = run("explore")  # nothing is granted yet
    assert (short.state, short.tasks["choices"], short.tasks["ingest"]) == (
        *("failed", "failed"),
        "upstream_failed",
    )
    ledger.grant("people", Limit(epsilon=10.0), reason="a test", by="officer")
    for _ in range(2):  # again on the same bytes costs nothing
        done: Run = run("explore")
        assert done.state == "success", done.tasks
        assert done.returned("records")["origin"] == "booked"
        assert done.returned("draw")["failed"] == 0
        spent = [entry for entry in ledger.check("people") if entry.event.value == "commit"]
        assert len(spent) == 2


def test_a_private_method_is_not_run_on_people_unless_something_pays(
    home: Any, run: Any, explorations: Any, ledger: BudgetLedger, work: Any
) -> None:
    from privacy_release.explore.cells import measured
    from privacy_release.explore.choices import Choice
    from privacy_release.explore.records import records_of_table

    home.write(**PRIVATE, budget={"dataset": "people"})
    spec = load_spec(home.spec("people"))
    table = ingest(str(home.folder / "people.parquet"), spec.data_schema(), work)
    choice = Choice(name="latent_class:epsilon=1", method="latent_class", parameters={"epsilon": 1.0})
    for origin, expected in (("source", "nothing books it"), ("booked", "budget")):
        records = records_of_table(table, spec.release_policy(), work, origin=origin)  # type: ignore[arg-type]
        found = measured(choice, records, work)
        assert expected in str(found["failed"])
        assert found["figures"] == {}


@pytest.mark.parametrize("paid", [True, False], ids=["booked", "anonymized"])
def test_the_log_tells_the_number_of_records_unless_a_budget_pays(
    home: Any, work: Any, work_root: Path, capsys: pytest.CaptureFixture[str], paid: bool
) -> None:
    home.write(**PRIVATE if paid else {}, budget={"dataset": "people"} if paid else None)
    spec = load_spec(home.spec("people"))
    table = ingest(str(home.folder / "people.parquet"), spec.data_schema(), work)
    task = SampleRecordsOperator(
        task_id="records",
        spec="releases/people.yaml",
        choices=[{"method": "latent_class" if paid else "mondrian"}],
        table=table.to_ref(),
        book=paid,
    )
    at = SimpleNamespace(dag_id="explore", run_id="r1", task_id="records", map_index=-1)
    found = task.execute({"ti": at})
    (logged,) = [line for line in capsys.readouterr().out.splitlines() if "records" in line]
    assert found["origin"] in logged
    assert ("rows" in logged) is not paid


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"book": True}, "differentially private"),
        ({"public": "public.parquet"}, "differentially private"),
        ({"grid": {"m": [2]}}, "a grid is made of"),
        ({"grid": {"methods": ["mondrian", "latent_class"]}}, "not both"),
    ],
)
def test_what_cannot_be_explored_is_reported_when_the_dag_is_parsed(
    home: Any, given: dict[str, Any], expected: str
) -> None:
    from airflow_privacy_release import explore_dag

    with pytest.raises(SpecError, match=expected):
        explore_dag("releases/people.yaml", **given)
