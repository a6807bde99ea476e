"""The image that docker-compose.yaml runs, really built: releases in it, of the command line and of Airflow.

Airflow's services run in it as there: with their commands, settings, secrets and mounts, and without rights.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import psutil
import pytest
from deltalake import DeltaTable

from deploy.local.embedded import checkout
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from tests.production.conftest import NOISE, built, visits
from tests.production.contained import Contained, unless_it_ended, writable
from tests.production.image import USER, Image, missing
from tests.production.topology import Topology, ledger_address, missing_programs, started_with

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(2400)]

SPEC = """
name: NAME
source: {uri: /data/source/visits.parquet}
schema:
  age:       {role: quasi_identifier, kind: numeric, bounds: [0, 99], bins: 10}
  diagnosis: {role: sensitive, kind: categorical, categories: [cold, flu, gout]}
"""
ANONYMOUS = """
release: {method: NAME, k: 10}
policy: policies/linkage.yaml
publish: {lake: lake_default, table: NAME}
"""
PRIVATE = """
release: {method: NAME, epsilon: 0.5}
budget: {dataset: visits, ledger: ledger_default}
policy: policies/differential.yaml
publish: {lake: lake_default, table: NAME}
"""
# A method with few compiled functions, for the image compiles them, and one with none.
SPECS = {"greedy_hamdist": SPEC + ANONYMOUS, "errph": SPEC + PRIVATE}
PLACES = {
    "PRIVACY_RELEASE_HOME": "/opt/airflow",
    "PRIVACY_LAKE": "/data/lake",
    "PRIVACY_WORK_AREA": "/data/work",
    "PRIVACY_CURATOR": "/data/curator",
    "PRIVACY_LEDGER": "postgresql://ledger@postgres:5432/privacy",
}
# What was compiled and not found among what the image brings.
COUNTED = """
import sys
from numba.core.event import install_recorder
from privacy_release.cli.main import main
with install_recorder("numba:compile") as record:
    code = main(sys.argv[1:])
print("compiled", len(record.buffer))
raise SystemExit(code)
"""
# The same for a task, whose process reads this with its DAG. It compiles one function: so it is seen to tell.
TELLING = """
import numba
from numba.core.event import Listener, register

class Compiled(Listener):
    def on_start(self, event):
        print("numba compiles", flush=True)

    def on_end(self, event):
        pass

register("numba:compile", Compiled())
numba.njit(lambda number: number)(1)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Built of this checkout's wheels; gigabytes, which go at the end."""
    if lacking := missing():
        pytest.skip(f"not here: {', '.join(lacking)}")
    folder = tmp_path_factory.mktemp("image")
    image = Image(folder / "buildah")
    image.folder.mkdir()
    try:
        image.build(built(folder / "wheels"), tuple(SPECS))
        yield image
    finally:
        image.remove()


@pytest.fixture(scope="module")
def topology(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    """All services of Airflow in the image, with the releases."""
    if lacking := missing_programs():
        pytest.skip(f"not installed: {', '.join(lacking)}")
    root = tmp_path_factory.mktemp("services")
    write_releases(root)
    (root / "dags").mkdir()
    (root / "dags" / "releases.py").write_text((checkout() / "dags" / "releases.py").read_text() + TELLING)
    parts = Contained(logs=root, environment=os.environ, image=image)
    parts.make_volumes()
    with started_with(parts, {}, changed={}) as topology:
        yield topology


def write_releases(root: Path) -> None:
    """What releases need, in folders that are mounted read-only, and that are not the image's user's."""
    (root / "include" / "releases").mkdir(parents=True)
    shutil.copytree(checkout() / "include" / "policies", root / "include" / "policies")
    (root / "data").mkdir()
    visits(600).to_parquet(root / "data" / "visits.parquet", index=False)
    for name, text in SPECS.items():
        (root / "include" / "releases" / f"{name}.yaml").write_text(text.replace("NAME", name))


@pytest.fixture
def volumes(tmp_path: Path) -> dict[Path, str]:
    """Those of a worker, without its secrets."""
    write_releases(tmp_path)
    found = {tmp_path / "include": "/opt/airflow/include:ro", tmp_path / "data": "/data/source:ro"}
    for name in ("lake", "work", "curator"):
        (tmp_path / name).mkdir(mode=0o700)
        shutil.chown(tmp_path / name, USER, USER)
        found[tmp_path / name] = f"/data/{name}"
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    return found | {tmp_path / "tmp": "/tmp"}


def test_the_image_makes_releases_as_its_own_user_on_a_read_only_root_and_compiles_nothing(
    image: Image, volumes: dict[Path, str], tmp_path: Path
) -> None:
    command = ("run", "include/releases/greedy_hamdist.yaml", "--release-id", "r1")
    done = image.run("python", "-c", COUNTED, *command, volumes=volumes, environment=PLACES)
    assert "compiled 0" in done, done
    lake = Lake(root=str(tmp_path / "lake"))
    assert [release["release_id"] for release in releases(lake.table("greedy_hamdist"))] == ["r1"]
    assert manifest_of(lake.table("greedy_hamdist"), "r1")["parameters"]["k"] == 10
    assert {path.stat().st_uid for path in (tmp_path / "lake").rglob("*")} == {USER}
    assert list((tmp_path / "work").glob("*/*")) == []


def test_a_process_of_the_image_can_write_to_its_volumes_alone(
    image: Image, volumes: dict[Path, str]
) -> None:
    script = (
        "id -u; grep CapEff /proc/self/status; "
        "for place in /opt/airflow /opt/venv /usr /etc /data/source /opt/airflow/include /data/lake; do "
        "touch $place/x 2>/dev/null && echo wrote $place; done; true"
    )
    done = image.run("sh", "-c", script, volumes=volumes).split()
    assert done == [str(USER), "CapEff:", "0" * 16, "wrote", "/data/lake"]


def test_opendp_draws_noise_in_the_image(image: Image, volumes: dict[Path, str]) -> None:
    assert "noise on 10 counts" in image.run("python", "-c", NOISE, volumes=volumes)


def test_where_tells_the_places_of_a_container(image: Image, volumes: dict[Path, str]) -> None:
    done = image.run("privacy-release", "where", volumes=volumes, environment=PLACES)
    assert "/data/lake\n" in done
    assert "$PRIVACY_LAKE; is there" in done


def test_a_release_runs_on_a_celery_worker_from_end_to_end_and_compiles_nothing(topology: Topology) -> None:
    assert topology.run_dag("greedy_hamdist") == "success"
    released = DeltaTable(str(topology.root / "lake" / "greedy_hamdist")).to_pandas()
    assert len(released) == 600
    assert released.groupby(["age_from", "age_to"]).size().min() >= 10
    assert {path.stat().st_uid for path in (topology.root / "lake").rglob("*")} == {USER}
    assert not list((topology.root / "work").iterdir())
    logs = [path.read_text() for path in (topology.root / "logs").glob("dag_id=greedy_hamdist/*/*/*.log")]
    assert len(logs) >= 4
    assert {log.count("numba compiles") for log in logs} == {1}


def test_a_private_release_is_booked_in_the_ledger_in_postgresql(topology: Topology) -> None:
    topology.command_line("budget", "grant", "visits", "--epsilon", "1", "--reason", "a test")
    assert topology.run_dag("errph") == "success"
    key = topology.values["ledger_signing_secret"].encode()
    ledger = BudgetLedger(ledger_address(topology), signing_key=key)
    assert ledger.datasets() == ("visits",)
    ledger.check("visits")
    assert "0.5" in topology.command_line("budget", "show")
    topology.command_line("budget", "check")
    assert len(DeltaTable(str(topology.root / "lake" / "errph")).to_pandas()) > 0


def test_the_pages_show_releases_to_who_has_logged_in_and_to_no_one_else(topology: Topology) -> None:
    assert "errph" in topology.page("/privacy/releases", topology.token)
    assert "visits" in topology.page("/privacy/budget", topology.token)
    with pytest.raises(HTTPError, match="401"):
        topology.page("/privacy/releases", None)


def test_no_service_has_a_right_or_can_write_but_to_its_volumes(topology: Topology) -> None:
    parts = topology.parts
    assert isinstance(parts, Contained)
    for name in topology.started:
        places = [place for place in parts.mounts(name).values() if not place.endswith(":ro")]
        checked = 0
        for process in parts.processes(name):
            with unless_it_ended(process):
                status = Path(f"/proc/{process.pid}/status").read_text()
                reached = writable(process)
                assert "CapEff:\t0000000000000000\n" in status, name
                assert "CapBnd:\t0000000000000000\n" in status, name
                assert "NoNewPrivs:\t1\n" in status, name
                assert reached == {*places, "/tmp"}, name
                checked += 1
        assert checked, name


def test_no_secret_is_in_an_environment_on_a_command_line_or_in_a_log(topology: Topology) -> None:
    assert isinstance(topology.parts, Contained)
    texts = {
        f"command {process.pid}": " ".join(process.info["cmdline"] or ())
        for process in psutil.process_iter(["cmdline"])
    }
    for name in topology.started:
        for process in topology.parts.processes(name):
            with unless_it_ended(process):
                environment = Path(f"/proc/{process.pid}/environ").read_text()
                texts[f"environment of {name}"] = texts.get(f"environment of {name}", "") + environment
    # API server and worker write the titles of their processes over their environments.
    for name in ("scheduler", "dag-processor", "triggerer"):
        assert "AIRFLOW__CORE__EXECUTOR" in texts[f"environment of {name}"]
    logs = {str(path): path.read_text(errors="replace") for path in topology.root.rglob("*.log")}
    assert logs
    for name, value in topology.values.items():
        assert not [place for place, text in (texts | logs).items() if value in text], name
