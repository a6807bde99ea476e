"""`make demo`: runs an example release as an Airflow DAG run in this process, and shows the result.

All files stay in the checkout: Airflow's state in `.airflow/`, the lake in `.lake/`.
"""

import argparse
import atexit
import gc
import os
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.local.embedded import checkout, embedded_environment, inherited_environment
from deploy.local.samples.files import SAMPLES, origin_of, weeks_around, write_samples

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

    from privacy_release.workarea.references import Published, StagedRelease

RELEASE = "adult_occupation"
BUNDLE = "dags-folder"  # the name that Airflow gives to its DAGs folder


class DemoError(RuntimeError):
    """The demonstration could not be completed; the message says why."""


@dataclass
class Progress:
    """Prints a line for each task that ends, and keeps the message of the first that fails."""

    began: float = field(default_factory=time.perf_counter)
    failure: str = ""

    def say(self, task: Any, result: str) -> None:
        """Print a line about a task that ended."""
        name = task.task_id.rpartition(".")[2]
        index = f" {task.map_index}" if task.map_index is not None and task.map_index >= 0 else ""
        print(f"  {name + index:<12} {result:<8} {time.perf_counter() - self.began:6.1f} s", flush=True)


def listen(progress: Progress) -> None:
    """Make the task runner of this process report to `progress`."""
    from airflow.listeners import hookimpl
    from airflow.sdk.listener import get_listener_manager

    class Listener:
        @hookimpl
        def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
            progress.say(task_instance, "done")

        @hookimpl
        def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
            progress.say(task_instance, "failed")
            progress.failure = progress.failure or f"{task_instance.task_id}: {error}"

    get_listener_manager().add_listener(Listener())  # type: ignore[no-untyped-call]  # Airflow


def serve_newest_version() -> None:
    """Make the API that Airflow serves to the tasks of this process speak only its newest version.

    On a server, it also speaks the earlier versions, for workers of an older Airflow. Building those takes
    longer than most tasks.
    """
    from airflow.api_fastapi.execution_api import versions
    from airflow.api_fastapi.execution_api.routes import execution_api_router as router
    from airflow.sdk.api.datamodels._generated import API_VERSION
    from cadwyn import HeadVersion, Version, VersionBundle
    from cadwyn.route_generation import _DELETED_ROUTE_TAG

    if versions.bundle.versions[0].value == API_VERSION:
        router.routes[:] = [r for r in router.routes if _DELETED_ROUTE_TAG not in getattr(r, "tags", ())]
        versions.bundle = VersionBundle(HeadVersion(), Version(API_VERSION))


def load_dag(root: Path, name: str) -> "DAG":
    """Return a DAG of the project, loaded in the way that Airflow loads it.

    Raises:
        DemoError: If the DAG cannot be loaded.
    """
    from airflow.dag_processing.dagbag import BundleDagBag

    dags = root / "dags"
    bag = BundleDagBag(dag_folder=dags, bundle_path=dags, bundle_name=BUNDLE)
    if name not in bag.dags:
        problems = "; ".join(bag.import_errors.values()) or f"there are {sorted(bag.dags)}"
        raise DemoError(f"the DAG {name} could not be loaded: {problems}")
    return bag.dags[name]


def run(root: Path, name: str) -> "DagRun":
    """Make or update the metadata database, and run the DAG with real tasks in this process.

    Raises:
        DemoError: If the run failed, with the reason.
    """
    from airflow.utils import db

    from privacy_release.workarea.area import work_area_root
    from privacy_release.workarea.sweep import SweepRules, idle_limit, sweep

    sweep(work_area_root(), SweepRules(idle=idle_limit()))  # files of a demonstration that was killed
    db.initdb()
    dag = load_dag(root, name)
    progress = Progress()
    listen(progress)
    serve_newest_version()
    print(f"Running the DAG {name}", flush=True)
    done: DagRun = dag.test()
    if done.state != "success":
        raise DemoError(progress.failure or f"the run ended as {done.state}")
    return done


def results(done: "DagRun", name: str) -> tuple["StagedRelease", "Published"]:
    """Return the results of the run's tasks."""
    from privacy_release.workarea.references import Published, StagedRelease

    by_id = {task.task_id: task for task in done.get_task_instances()}
    publish = by_id["publish"]
    return (
        StagedRelease.from_ref(publish.xcom_pull(task_ids="release")),
        Published.from_ref(publish.xcom_pull(task_ids="publish")),
    )


def measured(published: "Published") -> dict[str, float]:
    """Measure rows, k, l and t of the published rows, read from the lake."""
    from privacy_engine.tables.classes import EquivalenceClasses
    from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
    from privacy_release.lake.read import manifest_of, read_release
    from privacy_release.lake.store import Lake

    place = Lake(root=published.lake).table(published.table), published.release
    columns = manifest_of(*place)["columns"]
    roles = {
        role: [name for name, c in columns.items() if c["role"] == role]
        for role in ("quasi_identifier", "sensitive")
    }
    rows = read_release(*place).to_pandas()
    classes = EquivalenceClasses.of_columns(rows, roles["quasi_identifier"], roles["sensitive"])
    found = {"rows": len(rows), "k": KAnonymity(k=2).measure(classes)}
    if roles["sensitive"]:
        found |= {"l": DistinctLDiversity(l=2).measure(classes), "t": TCloseness(t=1.0).measure(classes)}
    return found


def show(staged: "StagedRelease", published: "Published", seconds: float) -> None:
    """Print the locations of the results, and the figures."""
    source, figures, found = staged.source, staged.figures, measured(published)
    lines = {
        "input": origin_of(Path(source.uri)) or source.uri,
        "used": f"{source.rows - source.dropped:,} of {source.rows:,} records; "
        f"{source.dropped:,} have a null and were left out",
        "release": f"{published.lake}/{published.table}",
        "partition": f"release={published.release} (version {published.version} of the table)",
        "manifest": published.manifest,
        "report": published.report,
        "method": staged.method,
        "rows": f"{found.pop('rows'):,}",
        **{f"{name} measured": f"{value:.6g}" for name, value in found.items()},
        "GCP": f"{figures['gcp']:.4f}" if "gcp" in figures else "-",
        "discernibility": f"{figures['discernibility']:,.0f}" if "discernibility" in figures else "-",
        "seconds": f"{seconds:.1f}",
    }
    print()
    for name, value in lines.items():
        print(f"{name:<15} {value}")


def main() -> int:
    """Parse the command line, run, and report an error in one line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.demo", description=__doc__)
    parser.add_argument("--root", type=Path, help="folder that holds dags/; this checkout by default")
    parser.add_argument(
        "--release", default=RELEASE, help="a file of include/releases (default: %(default)s)"
    )
    parser.add_argument("--verbose", action="store_true", help="show Airflow's own log")
    arguments = parser.parse_args()
    began = time.perf_counter()
    gc.disable()  # Airflow and its imports make a million objects, which every collection would visit
    try:
        root = (arguments.root or checkout()).resolve()
        settings = inherited_environment() | embedded_environment(root)
        settings["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "INFO" if arguments.verbose else "CRITICAL"
        (root / ".airflow").mkdir(mode=0o700, exist_ok=True)
        write_samples(root / SAMPLES, weeks_around(datetime.now(UTC)))
        # Airflow reads its settings when it is first imported, which is after this line.
        os.environ.clear()
        os.environ.update(settings)
        done = run(root, arguments.release)
        staged, published = results(done, arguments.release)
        show(staged, published, time.perf_counter() - began)
    except (DemoError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _exit(code: int) -> None:
    """End the process without cleaning up each of Airflow's modules, which takes as long as several tasks."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _exit(main())
