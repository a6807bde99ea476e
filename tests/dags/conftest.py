"""DAG runs in this process, and a small release of invented people for them."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from deploy.local.samples import files
from deploy.local.samples.files import ADULT, SAMPLES, write_samples, write_table
from deploy.local.samples.synthetic_adult import synthetic_adult
from tests.clock import Clock
from tests.dags.officers import Officers
from tests.dags.weeks import MONDAY, Week, key_of
from tests.servers.airflow_app import AirflowApp

BUNDLE = "dags-folder"
SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "town": {"role": "quasi_identifier", "kind": "categorical"},
    "disease": {"role": "sensitive", "kind": "categorical"},
    "remark": {"role": "insensitive", "kind": "categorical", "unique": {"allow": "invented remarks"}},
}
POLICY = {
    "require": [
        {"model": "k_anonymity", "k": 5},
        {"model": "distinct_l_diversity", "l": 2, "attribute": "disease"},
    ]
}
SUITE = {
    "name": "people",
    "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}}],
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished DAG run: its state, the state of each task, and what a task returned."""

    run_id: str
    state: str
    tasks: Mapping[str, str]
    returned: Callable[[str], Any]


@pytest.fixture
def dags_folder(airflow_home: Path) -> Path:
    """The project's own DAGs."""
    return airflow_home.parent / "dags"


@pytest.fixture
def load(dags_folder: Path, airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Parse the DAGs folder as the DAG processor does, and write what was found to the metadata database.

    With the name of a DAG, its file alone is parsed, and of that file this DAG alone is written.
    """
    from airflow.dag_processing import dagbag
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.asset import AssetActive
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    make_bag, write_bag = dagbag.BundleDagBag, dagbag.sync_bag_to_db
    # `DAG.test` parses and writes the whole folder once more, which takes longer than a small run.
    monkeypatch.setattr(dagbag, "BundleDagBag", lambda **_: None)
    monkeypatch.setattr(dagbag, "sync_bag_to_db", lambda *_: None)

    def parse(dag_id: str | None = None) -> Any:
        with create_session() as session:
            # An asset of another test with the same name and another place would stand against this one's.
            session.execute(delete(AssetActive))
        DagBundlesManager().sync_bundles_to_db()
        place = dags_folder if dag_id is None else file_of(dag_id, dags_folder)
        bag = make_bag(dag_folder=place, bundle_path=dags_folder, bundle_name=BUNDLE)
        if dag_id is not None:
            bag.dags = {dag_id: bag.dags[dag_id]}
        write_bag(bag, BUNDLE, None)
        return bag

    return parse


def file_of(dag_id: str, folder: Path) -> Path:
    """The file of a DAG: those of releases are all in one, another begins with the name of its file."""
    named = (file for file in folder.glob("*.py") if dag_id.startswith(file.stem))
    return next(named, folder / "releases.py")


@contextmanager
def runs_of(partition: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs that are made meanwhile are of this partition: `DAG.test` has no argument for it."""
    from airflow.models import dagrun

    make_run = dagrun.get_or_create_dagrun

    def of_partition(**arguments: Any) -> Any:
        made = make_run(**arguments)
        made.partition_key = partition
        arguments["session"].commit()
        return made

    with monkeypatch.context() as patch:
        patch.setattr(dagrun, "get_or_create_dagrun", of_partition)
        yield


@pytest.fixture(scope="session")
def few_adults(airflow_home: Path) -> None:
    """A table of adults for one run of a method, generated: nothing is downloaded."""
    table = synthetic_adult(2_000, rng=np.random.default_rng(1))
    write_table(airflow_home.parent / SAMPLES / ADULT, table, "2,000 generated records")


@pytest.fixture(scope="session")
def samples(few_adults: None, airflow_home: Path) -> None:
    """What the shipped releases read, generated and small; more adults replace the few ones."""
    data = airflow_home.parent / SAMPLES
    write_table(data / ADULT, synthetic_adult(6_000, rng=np.random.default_rng(1)), "6,000 generated records")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CUSTOMERS", 2_000)
        patch.setattr(files, "VISITORS", 24_000)
        write_samples(data, [key_of(week) for week in range(3)])


@pytest.fixture
def run(
    load: Callable[..., Any],
    work_root: Path,
    airflow_lake: Any,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Run]:
    """Run a DAG of the DAGs folder, with parameters or for a partition, by real tasks in this process."""
    # Airflow's test loop sleeps a second whenever it passes a failure on to the tasks behind it.
    clock.in_sleep()

    def test(dag_id: str, partition: str | None = None, conf: Mapping[str, Any] | None = None) -> Run:
        with runs_of(partition, monkeypatch):
            done = load(dag_id).dags[dag_id].test(run_conf=conf)
        instances = done.get_task_instances()
        by_id = {task.task_id: task for task in instances}
        return Run(
            run_id=done.run_id,
            state=str(done.state),
            tasks={task.task_id: str(task.state) for task in instances},
            returned=lambda task_id: by_id[task_id].xcom_pull(task_ids=task_id),
        )

    return test


@pytest.fixture
def officers(
    airflow_web: AirflowApp, run: Callable[..., Run], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Officers:
    """They answer while a run waits for them."""
    for name, value in airflow_web.settings.items():
        monkeypatch.setenv(name, value)
    found = Officers(web=airflow_web)
    clock.in_sleep(found)
    return found


@pytest.fixture
def run_week(
    load: Callable[..., Any],
    work_root: Path,
    airflow_lake: Any,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Week]:
    """Run a partition of a DAG with real tasks in this process; running it again is the same run, cleared."""
    # Airflow's test loop sleeps a second whenever it passes a failure or skip on to the tasks behind it.
    clock.in_sleep()

    def run(week: int, dag_id: str = "people", **conf: Any) -> Week:
        key, date = key_of(week), MONDAY + timedelta(weeks=week)
        with runs_of(key, monkeypatch):
            done = load(dag_id).dags[dag_id].test(run_after=date, logical_date=date, run_conf=conf or None)
        tasks = {task.task_id.rpartition(".")[2]: str(task.state) for task in done.get_task_instances()}
        return Week(key=key, state=str(done.state), tasks=tasks)

    return run


@dataclass(frozen=True, kw_only=True)
class Home:
    """An include folder; `write` adds a release of invented people, of which each part can be replaced."""

    folder: Path

    def write(
        self,
        table: pd.DataFrame | None = None,
        name: str = "people",
        policy: Mapping[str, Any] = POLICY,
        suite: Mapping[str, Any] = SUITE,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
        release: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Write a release and what it needs.

        Args:
            table: the source; without one the release reads that of `people`.
            columns: fields of the schema that differ, or of further columns, by column.
            release: method and parameters.
            more: other fields of the specification.
        """
        if table is not None:
            table.to_parquet(self.folder / f"{name}.parquet", index=False)
        (self.folder / "policies" / f"{name}.yaml").write_text(yaml.safe_dump(dict(policy)))
        (self.folder / "expectations" / f"{name}.json").write_text(json.dumps(suite))
        spec = {
            "name": name,
            "source": {"uri": "people.parquet" if table is None else f"{name}.parquet"},
            "schema": {
                column: {**SCHEMA.get(column, {}), **(columns or {}).get(column, {})}
                for column in dict.fromkeys([*SCHEMA, *(columns or {})])
            },
            "expectations": f"expectations/{name}.json",
            "release": dict(release or {"method": "mondrian", "k": 5, "l": 2, "seed": 7}),
            "policy": f"policies/{name}.yaml",
            "publish": {"table": name},
            **more,
        }
        self.spec(name).write_text(yaml.safe_dump(spec, sort_keys=False))

    def spec(self, name: str) -> Path:
        """The file of a release."""
        return self.folder / "releases" / f"{name}.yaml"


@pytest.fixture(scope="session")
def invented() -> pd.DataFrame:
    """120 invented people."""
    rng = np.random.default_rng(5)
    n = 120
    return pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(n)],
            "age": rng.integers(20, 80, n).astype(float),
            "town": rng.choice(["north", "south"], n),
            "disease": rng.choice(["cold", "flu", "gout"], n),
            "remark": rng.choice(["a", "b"], n),
        }
    )


@pytest.fixture(scope="session")
def make_home() -> Callable[[Path], Home]:
    """Makes an empty include folder below a folder."""

    def make(root: Path) -> Home:
        folder = root / "include"
        for name in ("releases", "policies", "expectations"):
            (folder / name).mkdir(parents=True)
        return Home(folder=folder)

    return make


@pytest.fixture
def home(
    tmp_path: Path,
    make_home: Callable[[Path], Home],
    invented: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> Home:
    """A home with one release that runs green."""
    home = make_home(tmp_path / "home")
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(home.folder.parent))
    home.write(invented)
    return home
