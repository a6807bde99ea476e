"""One Airflow for the whole session, in a temporary folder: it reads its settings when first imported."""

import atexit
import gc
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from deploy.local.embedded import checkout, embedded_environment, inherited_environment
from privacy_release.lake.store import Lake
from tests.collector import no_collector
from tests.servers.java import java_options

# The same examples on every run, and none judged by the clock: a busy machine must not fail a test.
STEADY = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", STEADY)
settings.register_profile("brief", STEADY, max_examples=20)  # where the same tests run once more
settings.load_profile("steady")

# A worker ends without taking its modules apart, for which the others would wait. What is registered first is
# called last: what libraries do at the end is done before.
WORKER = "PYTEST_XDIST_WORKER" in os.environ
if WORKER:
    atexit.register(os._exit, 0)

# Programs that tests start, and kill, in processes of their own: they import each other as scripts do.
collect_ignore_glob = ["tests/*_child.py"]

if not os.environ.get("PRIVACY_DATA"):  # an empty one names no folder
    os.environ.pop("PRIVACY_DATA", None)
ROOT = Path(tempfile.mkdtemp(prefix="privacy-release-tests-"))
(ROOT / "dags").symlink_to(checkout() / "dags")
shutil.copytree(checkout() / "include", ROOT / "include")  # releases read files next to this folder
os.environ |= embedded_environment(ROOT)
for name in set(os.environ) - set(inherited_environment()) - set(embedded_environment(ROOT)):
    del os.environ[name]
# What a test changes in a DAG must be in the database at its next parse, not only half a minute later.
os.environ["AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL"] = "0"
# Idle threads of compiled loops sleep: on small tables they would spin for longer than they work.
os.environ["OMP_WAIT_POLICY"] = "passive"
# Those of linear algebra always spin, so it has none: in libraries that are loaded later, and already.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
threadpool_limits(1, user_api="blas")
os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())


# Marks of long tests: first those of whole Airflows, which wait for their servers most.
LONG = ("production", "ui", "spark", "object_stores", "slow")


def pytest_runtest_setup() -> None:
    """Airflow sets up logging when it is first imported: not for long into the output of that very test."""
    for handler in [*logging.root.handlers]:
        if isinstance(handler, logging.StreamHandler) and getattr(handler.stream, "closed", False):
            logging.root.removeHandler(handler)


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(config: pytest.Config, report: Any) -> None:
    """Send the outcome of a test that passed without its marks and output, of which nothing is shown."""
    if isinstance(report, pytest.TestReport) and report.passed and "P" not in config.option.reportchars:
        report.keywords, report.sections = {}, []


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: what is imported stays, and walking through it takes a third.

    Tests import more. Walking through that as often as by default takes a tenth of their time.
    """
    with no_collector():
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.set_threshold(5_000, 10, 50)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples only in modules that have one: the others need not be imported."""
    collectors = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text():
        # Pytest's collector of examples derives from Module.
        return [found for found in collectors if type(found) is pytest.Module]
    return collectors


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases that a mark `quick` does not name as slow, then order the files.

    Files with the most long tests come first, so that no worker still runs one when the others are done.
    """
    _mark_slow_cases(items, every="[" not in "".join(config.args))
    long = {item.path: dict.fromkeys(LONG, 0) for item in items}
    for item in items:
        for name in {mark.name for mark in item.iter_markers()} & set(LONG):
            long[item.path][name] += 1
    items.sort(key=lambda item: [-many for many in long[item.path].values()])


def _mark_slow_cases(items: list[pytest.Item], *, every: bool) -> None:
    """every: all cases of each test were collected, so that a name without a case is an error."""
    unknown: dict[str, set[str]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and (quick := item.get_closest_marker("quick")) is not None:
            test = item.nodeid.partition("[")[0]
            case = item.callspec.id
            found = {name for name in quick.args if name == case or name in case.split("-")}
            unknown[test] = unknown.get(test, set(quick.args)) - found
            if not found:
                item.add_marker(pytest.mark.slow)
    if every and (wrong := [f"{test}: {', '.join(names)}" for test, names in unknown.items() if names]):
        raise pytest.UsageError("`quick` names no case of " + "; ".join(wrong))


def pytest_unconfigure() -> None:
    """Remove the session's Airflow."""
    shutil.rmtree(ROOT, ignore_errors=True)
    if WORKER:  # pytest then collects garbage five times, which takes seconds and for which the others wait
        gc.freeze()
    else:  # compiled modules would say that they leak what the interpreter cannot collect at its end
        gc.unfreeze()


@pytest.fixture(scope="session")
def airflow_home() -> Iterator[Path]:
    """The session's Airflow home, with a migrated metadata database."""
    from airflow.utils import db

    home = ROOT / ".airflow"
    home.mkdir(exist_ok=True)
    db.initdb()
    return home


@pytest.fixture(scope="session")
def airflow_web(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Airflow's web application, and those who use it; see `tests.servers.airflow_app`."""
    from tests.servers.airflow_app import airflow_app

    with airflow_app(tmp_path_factory.mktemp("login")) as app:
        yield app


@pytest.fixture
def work_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the work areas of this test's runs are."""
    root = tmp_path / "work"
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(root))
    return root


@pytest.fixture
def airflow_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """An empty lake, which the connection `lake_default` names."""
    root = str(tmp_path / "lake")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "fs", "extra": {"path": root}}))
    return Lake(root=root)
