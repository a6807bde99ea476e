"""The services of the compose file for real, but for Docker: two releases, one booked in PostgreSQL."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from urllib.error import HTTPError

import psutil
import pytest
from deltalake import DeltaTable

from deploy.local.embedded import checkout
from privacy_release.ledger.ledger import BudgetLedger
from tests.production.conftest import Installed, visits
from tests.production.topology import Topology, ledger_address, missing_programs, running

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(1800)]

SCHEMA = """
source: {uri: SOURCE}
schema:
  age:       {role: quasi_identifier, kind: numeric, bounds: [0, 99], bins: 5}
  diagnosis: {role: sensitive, kind: categorical, categories: [cold, flu, gout]}
"""
ANONYMOUS = """
name: visits
release: {method: mondrian, k: 10}
policy: policies/linkage.yaml
publish: {lake: lake_default, table: visits}
"""
PRIVATE = """
name: visits_private
release: {method: privbayes, epsilon: 0.5}
budget: {dataset: visits, ledger: ledger_default}
policy: policies/differential.yaml
publish: {lake: lake_default, table: visits_private}
"""


@pytest.fixture(scope="module")
def topology(
    installed: Installed, clean: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Topology]:
    """All services, with two releases to run."""
    if missing := missing_programs():
        pytest.skip(f"not installed: {', '.join(missing)}")
    root = tmp_path_factory.mktemp("services")
    (root / "dags").mkdir()
    (root / "dags" / "releases.py").write_text((checkout() / "dags" / "releases.py").read_text())
    (root / "include" / "releases").mkdir(parents=True)
    shutil.copytree(checkout() / "include" / "policies", root / "include" / "policies")
    visits(600).to_parquet(root / "visits.parquet", index=False)
    for name, text in {"visits": ANONYMOUS, "visits_private": PRIVATE}.items():
        spec = text + SCHEMA.replace("SOURCE", str(root / "visits.parquet"))
        (root / "include" / "releases" / f"{name}.yaml").write_text(spec)
    make = [sys.executable, checkout() / "deploy" / "make_secrets.py", root / ".env"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    with running(root, installed, clean, root / ".env") as topology:
        yield topology


def test_a_release_runs_on_a_celery_worker_from_end_to_end(topology: Topology) -> None:
    assert topology.run_dag("visits") == "success"
    released = DeltaTable(str(topology.root / "data" / "lake" / "visits")).to_pandas()
    assert len(released) == 600
    assert not list((topology.root / "data" / "work").iterdir())


def test_a_private_release_is_booked_in_the_ledger_in_postgresql(topology: Topology) -> None:
    topology.command_line("budget", "grant", "visits", "--epsilon", "1", "--reason", "a test")
    assert topology.run_dag("visits_private") == "success"
    ledger = BudgetLedger(
        ledger_address(topology), signing_key=topology.values["LEDGER_SIGNING_SECRET"].encode()
    )
    assert ledger.datasets() == ("visits",)
    assert "0.5" in topology.command_line("budget", "show")
    topology.command_line("budget", "check")
    assert len(DeltaTable(str(topology.root / "data" / "lake" / "visits_private")).to_pandas()) > 0


def test_the_pages_show_releases_to_who_has_logged_in_and_to_nobody_else(topology: Topology) -> None:
    assert "visits_private" in topology.page("/privacy/releases", topology.login)
    with pytest.raises(HTTPError, match="401"):
        topology.page("/privacy/releases", {})


def test_no_secret_is_in_a_log_or_on_a_command_line(topology: Topology) -> None:
    arguments = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    logs = [path.read_text(errors="replace") for path in topology.root.rglob("*.log")]
    assert logs
    for name, value in topology.values.items():
        assert not [text for text in arguments if value in text], f"{name} on a command line"
        assert not [text for text in logs if value in text], f"{name} in a log"
