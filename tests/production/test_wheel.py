"""The package as others get it: the wheel in an empty environment, and a folder of DAGs somewhere else."""

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
from deltalake import DeltaTable

from deploy.local.embedded import checkout
from privacy_engine import EquivalenceClasses, KAnonymity
from tests.production.conftest import Installed, visits

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(900)]

DAG = """\
from airflow.sdk import DAG

from airflow_privacy_release import IngestParquetOperator, MondrianOperator, PublishOperator
from airflow_privacy_release import VerifyOperator, clean_up_after

AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
SCHEMA = {"age": AGE, "diagnosis": {"role": "sensitive", "kind": "categorical"}}
POLICY = {"require": [{"model": "k_anonymity", "k": 10}]}

with DAG("visits", schedule=None):
    raw = IngestParquetOperator(task_id="ingest", uri="SOURCE", schema=SCHEMA)
    staged = MondrianOperator(task_id="anonymize", table=raw.output, k=10)
    report = VerifyOperator(task_id="verify", table=staged.output, policy=POLICY)
    done = PublishOperator(task_id="publish", table=staged.output, report=report.output, name="visits")
    clean_up_after(done)
"""


@pytest.fixture
def user_home(tmp_path: Path, clean: dict[str, str]) -> dict[str, str]:
    """The environment of a user whose DAGs are in a folder of their own."""
    (tmp_path / "dags").mkdir()
    return clean | {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "MPLCONFIGDIR": str(tmp_path / "matplotlib"),
    }


def test_the_wheel_holds_every_file_of_the_packages(installed: Installed) -> None:
    files = {
        str(path.relative_to(checkout()))
        for package in ("operators", "privacy_engine")
        for path in (checkout() / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = set(ZipFile(installed.wheel).namelist())
    assert any(name.endswith((".css", ".j2")) for name in files)
    assert packed >= files
    assert all(name.startswith("airflow_provider_privacy_release-") for name in packed - files)


def test_airflow_lists_the_provider_with_its_connections_and_its_configuration(
    installed: Installed, user_home: dict[str, str]
) -> None:
    def airflow(*command: str) -> str:
        return installed.run("airflow", *command, environment=user_home)

    provider = "airflow-provider-privacy-release"
    told = json.loads(airflow("providers", "get", provider, "--full", "-o", "json"))
    assert told[0]["package-name"] == provider
    hooks = json.loads(airflow("providers", "hooks", "-o", "json"))
    assert {"privacy_lake", "privacy_ledger"} <= {hook["connection_type"] for hook in hooks}
    user_home["AIRFLOW__PRIVACY_RELEASE__LAKE"] = "/srv/lake"
    assert airflow("config", "get-value", "privacy_release", "lake").strip() == "/srv/lake"
    assert "privacy_release" in airflow("plugins", "-o", "json")


def test_a_dag_of_fifteen_lines_publishes_a_release(
    installed: Installed, user_home: dict[str, str], tmp_path: Path
) -> None:
    assert len(DAG.splitlines()) <= 15
    source = tmp_path / "visits.parquet"
    visits(600).to_parquet(source, index=False)
    (tmp_path / "dags" / "visits.py").write_text(DAG.replace("SOURCE", str(source)))
    installed.run("airflow", "db", "migrate", environment=user_home)
    installed.run("airflow", "dags", "test", "visits", environment=user_home)
    released = DeltaTable(str(tmp_path / "lake" / "visits")).to_pandas()
    # numeric quasi-identifiers are released as intervals
    quasi = [name for name in released.columns if name.startswith("age")]
    classes = EquivalenceClasses.of_columns(released, quasi, ["diagnosis"])
    assert len(released) == 600
    assert KAnonymity(k=10).measure(classes) >= 10
    assert not list((tmp_path / "work_area").iterdir())
