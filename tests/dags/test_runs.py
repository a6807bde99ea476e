"""Every DAG in `dags/` runs green, on generated records in the form of Adult."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from airflow_privacy_release.task.run import release_id
from deploy.local.embedded import checkout
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours
from privacy_engine.registry import is_randomizer, method_class, method_names
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_release.lake.read import manifest_of, read_release, read_tables, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.default import default_ledger
from privacy_release.spec.model import PAPERS, ReleaseSpec, load_spec
from privacy_release.spec.sections.source import RELEASE
from tests.dags.officers import Officers
from tests.dags.weeks import key_of

FILES = sorted((checkout() / "include" / "releases").rglob("*.yaml"))
# By method, policy or table alone they differ from others: no faster test finds that these three do not fit.
ALIKE = {
    "adult_attacked",
    "adult_bottom_up",
    "adult_obpa",
    "adult_occupation",
    "adult_rfka",
    "visits_safe_harbor",
}
SINGLE = [
    pytest.param(
        file, id=file.stem, marks=pytest.mark.slow if file.stem in ALIKE or file.parent.name == PAPERS else ()
    )
    for file in FILES
    if file.stem != "clinic_tables"  # several tables have a test to themselves
]
# Between the least and the largest epsilon of the example, another one runs the same code.
TWO_EPSILONS = ("compare_synthesizers.py", "EPSILONS = (0.5, 2.0, 8.0)", "EPSILONS = (0.5, 8.0)")


@pytest.fixture
def dags_folder(request: pytest.FixtureRequest, dags_folder: Path) -> Path:
    """The project's own DAGs, or one of them in which a test replaces a line."""
    if not hasattr(request, "param"):
        return dags_folder
    name, line, replacement = request.param
    text = (dags_folder / name).read_text()
    assert text.count(f"{line}\n") == 1
    folder = dags_folder.with_name("replaced")
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text.replace(line, replacement))
    return folder


@pytest.fixture(autouse=True)
def tables(request: pytest.FixtureRequest) -> None:
    """What the releases read. The quick tests read adults only, and only one of them runs a method."""
    request.getfixturevalue("samples" if request.node.get_closest_marker("slow") else "few_adults")


@pytest.fixture(autouse=True)
def paper_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The releases of the papers' methods have DAGs, as in the checkout."""
    monkeypatch.setenv("PRIVACY_PAPER_RELEASES", "show")


@pytest.fixture(scope="module")
def specs() -> list[ReleaseSpec]:
    """The shipped releases."""
    return [load_spec(file) for file in FILES]


@pytest.fixture(autouse=True)
def ledger(specs: list[ReleaseSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default ledger, with a budget for each data set that a shipped release spends on."""
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    ledger = default_ledger()
    for spec in filter(lambda spec: spec.budget, specs):
        neighbours = Neighbours.REPLACE_PERSON if spec.person else Neighbours.REPLACE_ONE
        limit = Limit(epsilon=100.0, delta=1e-6, neighbours=neighbours)
        ledger.grant(spec.budget.dataset, limit, reason="a test", by="officer")


@pytest.fixture(autouse=True)
def secrets(specs: list[ReleaseSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret of each shipped release whose answers repeat, and the key of who took part."""
    login = json.dumps({"conn_type": "generic", "password": token_hex(32)})
    for secret in ("membership_default", *filter(None, (spec.release.secret for spec in specs))):
        monkeypatch.setenv(f"AIRFLOW_CONN_{secret.upper()}", login)


@pytest.mark.quick("adult_mondrian_daily")  # a whole run each
@pytest.mark.parametrize("file", SINGLE)
def test_the_dag_of_a_release_runs_green(
    file: Path, request: pytest.FixtureRequest, airflow_lake: Lake, work_root: Path
) -> None:
    """If no one must approve, the officers, who need Airflow's web application, are not made."""
    spec = load_spec(file)
    run: Callable[..., Any] = request.getfixturevalue("run")
    if spec.approval and spec.approval.required:
        officers: Officers = request.getfixturevalue("officers")
    partition = key_of(0) if RELEASE in spec.sources[0].uri else None
    done = run(spec.name, partition)
    assert done.state == "success", done.tasks
    if spec.approval and spec.approval.required:
        assert len(officers.seen) == 1
    assert set(done.tasks.values()) == {"success"}
    published = done.returned("publish")
    rows = read_release(airflow_lake.table(spec.publish.table), partition or done.run_id)
    assert rows.num_rows == published["rows"] == done.returned("verify")["rows"]
    assert not list(work_root.iterdir())


@pytest.mark.slow  # a whole run
def test_the_tables_of_a_clinic_are_validated_side_by_side_and_appear_at_once(
    run: Callable[[str], Any], load: Callable[..., Any], airflow_lake: Lake, work_root: Path
) -> None:
    tasks = load("clinic_tables").dags["clinic_tables"].task_dict
    validated = {f"validate_{name}" for name in ("patients", "visits")}
    assert tasks["ingest"].downstream_task_ids >= validated
    assert tasks["release"].upstream_task_ids >= validated
    done = run("clinic_tables")
    assert done.state == "success", done.tasks
    assert set(done.tasks.values()) == {"success"}
    (published,) = releases(airflow_lake.table("clinic_tables"))
    assert published["release_id"] == done.run_id
    tables = read_tables(airflow_lake.table("clinic_tables"), done.run_id)
    persons = {name: set(own["PATIENT"].to_pylist()) for name, own in tables.items()}
    assert persons["visits"] <= persons["patients"]
    assert "GENDER" in tables["visits"].column_names
    report = done.returned("verify")
    assert report["persons"] == len(persons["patients"])
    assert report["findings"][0]["measured"] >= 5
    assert sum(table.num_rows for table in tables.values()) == done.returned("publish")["rows"]
    assert not list(work_root.iterdir())


@pytest.mark.slow  # whole runs; `test_readme` runs a DAG by hand
def test_the_hand_composed_dag_publishes_one_of_three(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    done = run("compose_by_hand")
    assert done.state == "success", done.tasks
    (published,) = releases(airflow_lake.table("adult_salary"))
    assert published["release_id"] == done.run_id
    assert read_release(airflow_lake.table("adult_salary"), done.run_id).num_rows == published["rows"]
    assert not list(work_root.iterdir())


@pytest.mark.slow  # a whole run; its operator and its tasks are tested without one
def test_a_structure_file_is_published_without_a_source(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    done = run("structure_by_hand")
    assert done.state == "success", done.tasks
    rows = read_release(airflow_lake.table("loans_structure"), done.run_id)
    assert rows.num_rows == 500
    assert rows.column_names == ["age_from", "age_to", "district", "amount", "approved"]
    assert not list(work_root.iterdir())


@pytest.mark.slow  # all anonymizers on this table; quick tests compare two of them
def test_the_comparison_publishes_a_page_on_all_anonymizers_and_no_release(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    done = run("compare_anonymizers")
    assert done.state == "success", done.tasks
    returned = done.returned("compare")
    page = Path(returned["report"]).read_text()
    anonymizers = [name for name in method_names() if issubclass(method_class(name), Anonymizer)]
    assert returned["releases"] == len(anonymizers)
    assert all(f'<th scope="row">{name}</th>' in page for name in anonymizers)
    assert page.count("<circle") == len(anonymizers)
    assert [path.name for path in airflow_lake.folder.iterdir()] == ["_comparisons"]
    assert not list(work_root.iterdir())


@pytest.mark.slow  # all randomizers on this table
def test_the_comparison_publishes_a_page_on_all_randomizers_and_no_answer(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    done = run("compare_randomizers")
    assert done.state == "success", done.tasks
    result = done.returned("compare")
    page = Path(result["report"]).read_text()
    learners = done.returned("compare_learners")
    assert {"ppnb", "dtpd", "majority"} <= set(learners)
    randomizers = [name for name in method_names() if is_randomizer(name)]
    assert result["releases"] == len(randomizers)
    assert all(f'<th scope="row">{name}</th>' in page for name in randomizers)
    assert [path.name for path in airflow_lake.folder.iterdir()] == ["_comparisons"]
    assert not list(work_root.iterdir())


def test_every_method_has_a_dag_with_its_own_operator() -> None:
    lines = [line for file in (checkout() / "dags").glob("*.py") for line in file.read_text().splitlines()]
    used = {word for line in lines if line.startswith("    ") for word in re.findall(r"\w+Operator\b", line)}
    operators = {f"{method_class(name).__name__}Operator" for name in method_names()}
    assert operators - used == set()


@pytest.mark.slow  # the whole grid of the example; `test_explore_runs` draws a small one
def test_the_exploration_draws_every_choice_for_the_curator_and_publishes_nothing(
    run: Callable[[str], Any],
    airflow_lake: Lake,
    work_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    done = run("explore_adult_occupation")
    assert done.state == "success", done.tasks
    returned = done.returned("draw")
    assert (returned["choices"], returned["failed"]) == (12, 0)
    page = Path(returned["curator"])
    assert page.is_relative_to(tmp_path / "curator")
    assert page.read_text().count('class="choice"') == 12
    assert not airflow_lake.folder.exists()
    assert not list(work_root.iterdir())


@pytest.mark.slow  # all synthesizers at two epsilons; quick tests compare two of them
@pytest.mark.parametrize("dags_folder", [TWO_EPSILONS], indirect=True, ids=["two epsilons"])
def test_the_comparison_of_synthesizers_books_every_table_and_publishes_a_page_alone(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    ledger, dataset = default_ledger(), "simulated_customers"
    short = run("compare_synthesizers")  # nothing is granted yet
    assert (short.state, short.tasks["budget"], short.tasks["ingest"]) == (
        "failed",
        "failed",
        "upstream_failed",
    )
    ledger.grant(dataset, Limit(epsilon=34.0), reason="a test", by="officer")
    done = run("compare_synthesizers")
    assert done.state == "success", done.tasks
    returned = done.returned("compare")
    page = Path(returned["report"]).read_text()
    synthesizers = [name for name in method_names() if issubclass(method_class(name), Synthesizer)]
    assert returned["releases"] == 2 * len(synthesizers)
    assert all(page.count(f'<th scope="row">{name}</th>') == 2 for name in synthesizers)
    assert "booked for all of simulated_customers</span> epsilon 34<" in page
    assert [entry.event.value for entry in ledger.check(dataset)].count("commit") == returned["releases"]
    assert [path.name for path in airflow_lake.folder.iterdir()] == ["_comparisons"]
    assert not list(work_root.iterdir())


def test_the_comparison_of_synthesizers_asks_for_the_sum_of_its_epsilons(load: Callable[..., Any]) -> None:
    dag = load("compare_synthesizers").dags["compare_synthesizers"]
    assert dag.task_dict["budget"].epsilon == 42
    assert "epsilon 42 here" in dag.doc_md


@pytest.mark.slow  # a whole run
def test_outliers_are_set_aside_before_the_others_are_anonymized_and_reported_by_count(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    done = run("outliers_then_obpa")
    assert done.state == "success", done.tasks
    returned = done.returned("count_records")
    assert returned["set_aside"] == returned["outliers"] == 50
    assert returned["records"] - returned["set_aside"] == returned["released"]
    table = "adult_without_outliers"
    assert read_release(airflow_lake.table(table), done.run_id).num_rows == returned["released"]
    (found,) = manifest_of(airflow_lake.table(table), done.run_id)["outliers"]
    assert (found["method"], found["flagged"], "scores" in found) == ("okplof", 50, False)
    assert not list(work_root.iterdir())


@pytest.mark.slow  # two whole runs
def test_a_classifier_is_trained_on_transformed_numbers(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    released = run("bank_customers_transformed")
    assert released.state == "success", released.tasks
    learned = released.returned("learn")
    assert learned["releases"] == [released.run_id]
    done = run("train_on_transformed")
    assert done.state == "success", done.tasks
    trained = done.returned("train")
    assert trained["releases"] == [released.run_id]
    assert trained["epsilon"] is None
    assert {"age", "deposit"} <= set(trained["breach_width"])
    models = [json.loads(Path(model["model"]).read_text()) for model in (trained, learned)]
    assert models[0] == models[1]
    assert models[0]["shrinkage"] is False
    assert not list(work_root.iterdir())


@pytest.mark.slow  # a whole run; `test_order` runs such a step in a DAG
def test_own_steps_in_sql_and_python_stand_in_the_manifest(
    run: Callable[[str], Any], airflow_lake: Lake, work_root: Path
) -> None:
    done = run("own_steps")
    assert done.state == "success", done.tasks
    steps = manifest_of(airflow_lake.table("adult_decades"), done.run_id)["source"]["transforms"]
    assert [step["name"] for step in steps] == ["sql", "without_pensioners"]
    rows = read_release(airflow_lake.table("adult_decades"), done.run_id).num_rows
    assert steps[0]["before"] > steps[0]["rows"] == steps[1]["before"] > steps[1]["rows"] == rows
    assert not list(work_root.iterdir())


def test_there_is_a_dag_for_every_release_and_no_import_error(load: Callable[..., Any]) -> None:
    bag = load()
    assert bag.import_errors == {}
    assert set(bag.dags) == {file.stem for file in FILES} | {
        "compose_by_hand",
        "compare_anonymizers",
        "compare_randomizers",
        "compare_synthesizers",
        "explore_adult_occupation",
        "outliers_then_obpa",
        "own_steps",
        "structure_by_hand",
        "sweep_work_areas",
        "train_on_randomized",
        "train_on_transformed",
    }
    assert all(dag.doc_md and dag.tags for dag in bag.dags.values())


def test_a_partitioned_run_is_named_by_its_partition() -> None:
    class Task:
        run_id = "scheduled__2026-11-18"

    assert release_id({"ti": Task(), "partition_key": "2026-11-18T00:00:00"}) == "2026-11-18T00:00:00"
    assert release_id({"ti": Task(), "partition_key": None}) == "scheduled__2026-11-18"
