"""The package as others get it: the wheel in an empty environment, and a folder of DAGs somewhere else."""

import json
import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest
from deltalake import DeltaTable

from deploy.local.embedded import checkout
from privacy_engine import EquivalenceClasses, KAnonymity
from tests.production.conftest import Installed, visits

pytestmark = [pytest.mark.slow, pytest.mark.production]

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


@pytest.fixture(scope="module")
def migrated(installed: Installed, clean: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's database as `airflow db migrate` makes it, to be copied by each test."""
    home = tmp_path_factory.mktemp("migrated")
    installed.run("airflow", "db", "migrate", environment=clean | settings(home))
    return home / "airflow.db"


@pytest.fixture
def user_home(tmp_path: Path, clean: dict[str, str], migrated: Path) -> dict[str, str]:
    """The environment of a user whose DAGs are in a separate folder, with Airflow's database."""
    (tmp_path / "dags").mkdir()
    shutil.copy(migrated, tmp_path)
    return clean | settings(tmp_path)


# In one process: to load Airflow takes longer than what these commands do.
COMMANDS = """\
import io, json, sys
from contextlib import redirect_stdout
from airflow.__main__ import main
wrote = []
for command in json.loads(sys.argv[1]):
    sys.argv = ["airflow", *command.split()]
    with redirect_stdout(io.StringIO()) as output:
        main()
    wrote.append(output.getvalue())
print(json.dumps(wrote))
"""


def airflow(installed: Installed, environment: dict[str, str], *commands: str) -> tuple[tuple[str, ...], str]:
    """Run commands of Airflow; what each wrote to standard output, and all of them to standard error."""
    # Without the working directory among the places of modules, as in a program.
    wrote, errors = installed.both(
        "python", "-P", "-c", COMMANDS, json.dumps(commands), environment=environment
    )
    return tuple(json.loads(wrote.splitlines()[-1])), errors


def settings(home: Path) -> dict[str, str]:
    """Return the variables of a user whose Airflow is in a folder."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "MPLCONFIGDIR": str(home / "matplotlib"),
    }


def test_the_wheels_hold_every_file_of_their_packages_and_nothing_else(installed: Installed) -> None:
    root = checkout()
    brought = {
        f"airflow_privacy_release/{path.relative_to(root)}"
        for folder in ("policies", "hierarchies")
        for path in (root / "include" / folder).rglob("*")
        if path.is_file()
    }
    for wheel, packages, more in zip(
        installed.wheels,
        (("privacy_engine", "privacy_release"), ("operators/airflow_privacy_release",)),
        (set(), brought),
        strict=True,
    ):
        files = {
            str(path.relative_to(root)).removeprefix("operators/")
            for package in packages
            for path in (root / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
        assert any(name.endswith((".css", ".j2")) for name in files)
        assert any(name.endswith("py.typed") for name in files)
        assert packed == files | more


def test_airflow_lists_the_provider_with_its_connections_and_its_configuration(
    installed: Installed, user_home: dict[str, str]
) -> None:
    user_home["AIRFLOW__PRIVACY_RELEASE__LAKE"] = "/srv/lake"
    provider = "airflow-privacy-release"
    (found, hooks, lake, plugins), _ = airflow(
        installed,
        user_home,
        f"providers get {provider} --full -o json",
        "providers hooks -o json",
        "config get-value privacy_release lake",
        "plugins -o json",
    )
    assert json.loads(found)[0]["package-name"] == provider
    connections = {hook["connection_type"] for hook in json.loads(hooks)}
    assert {"privacy_lake", "privacy_ledger"} <= connections
    assert lake.strip() == "/srv/lake"
    assert "privacy_release" in plugins


def test_a_dag_of_fifteen_lines_publishes_a_release(
    installed: Installed, user_home: dict[str, str], tmp_path: Path
) -> None:
    assert len(DAG.splitlines()) <= 15
    source = tmp_path / "visits.parquet"
    visits(600).to_parquet(source, index=False)
    (tmp_path / "dags" / "visits.py").write_text(DAG.replace("SOURCE", str(source)))
    installed.run("airflow", "dags", "test", "visits", environment=user_home)
    released = DeltaTable(str(tmp_path / "lake" / "visits")).to_pandas()
    # numeric quasi-identifiers are released as intervals
    quasi = [name for name in released.columns if name.startswith("age")]
    classes = EquivalenceClasses.of_columns(released, quasi, ["diagnosis"])
    assert len(released) == 600
    assert KAnonymity(k=10).measure(classes) >= 10
    assert not list((tmp_path / "work_area").iterdir())


# A package of the user's own, named as many Airflow projects name theirs.
MY_OPERATOR = """\
from airflow.sdk import BaseOperator


class CountOperator(BaseOperator):
    def execute(self, context):
        return 1
"""
MY_DAG = """\
from airflow.sdk import DAG

from airflow_privacy_release import MondrianOperator
from operators.my_team import CountOperator

with DAG("mine", schedule=None):
    CountOperator(task_id="count") >> MondrianOperator(task_id="anonymize", table={}, k=5)
"""


@pytest.mark.parametrize("place", ["dags", "plugins", "before", "after"])
def test_a_package_operators_of_the_users_own_and_ours_do_not_meet(
    installed: Installed, user_home: dict[str, str], tmp_path: Path, place: str
) -> None:
    folder = tmp_path / ("mine" if place in ("before", "after") else place)
    (folder / "operators").mkdir(parents=True)
    (folder / "operators" / "__init__.py").touch()
    (folder / "operators" / "my_team.py").write_text(MY_OPERATOR)
    (tmp_path / "dags" / "mine.py").write_text(MY_DAG)
    packages = installed.run(
        "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", environment=user_home
    ).strip()
    if place in ("before", "after"):
        both = [str(folder), packages]
        user_home["PYTHONPATH"] = ":".join(both if place == "before" else reversed(both))
    (_, listed, providers), said = airflow(
        installed, user_home, "dags reserialize", "dags list -o json", "providers list -o json"
    )
    assert [dag["dag_id"] for dag in json.loads(listed.splitlines()[-1])] == ["mine"]
    assert "airflow-privacy-release" in providers
    for line in said.splitlines():
        assert "privacy" not in line or not any(word in line.lower() for word in ("error", "warning")), line


def test_two_lines_turn_a_folder_of_release_files_into_dags(
    installed: Installed, user_home: dict[str, str], tmp_path: Path
) -> None:
    source = tmp_path / "visits.parquet"
    visits(600).to_parquet(source, index=False)
    releases = tmp_path / "include" / "releases"
    releases.mkdir(parents=True)
    (releases / "visits.yaml").write_text(
        f"""\
name: visits
source: {{uri: "{source}"}}
schema:
  age: {{role: quasi_identifier, kind: numeric, bounds: [0, 120]}}
  diagnosis: {{role: sensitive, kind: categorical}}
release: {{method: mondrian, k: 10}}
policy: policies/linkage.yaml  # one that the package brings
publish: {{lake: lake_default, table: visits}}
"""
    )
    (tmp_path / "dags" / "releases.py").write_text(
        "from airflow_privacy_release import release_dags\nglobals().update(release_dags())\n"
    )
    user_home["PRIVACY_RELEASE_HOME"] = str(tmp_path)
    (_, listed), _ = airflow(installed, user_home, "dags reserialize", "dags list -o json")
    assert [dag["dag_id"] for dag in json.loads(listed.splitlines()[-1])] == ["visits"]


def test_the_example_dag_publishes(installed: Installed, user_home: dict[str, str], tmp_path: Path) -> None:
    code = "import airflow_privacy_release.example_dags as e; print(e.__path__[0])"
    examples = installed.run("python", "-c", code, environment=user_home).strip()
    user_home["AIRFLOW__CORE__DAGS_FOLDER"] = examples
    installed.run("airflow", "dags", "test", "example_privacy_release_anonymize", environment=user_home)
    assert len(DeltaTable(str(tmp_path / "lake" / "example_visits")).to_pandas()) == 1_000


CHECK = """\
import sys
import numpy as np, pandas as pd
from privacy_engine import DataSchema, KAnonymity, ReleasePolicy, load_method, verify
schema = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}})
table = pd.DataFrame({"age": np.arange(100)})
release = load_method("mondrian", k=10).release(table, schema, np.random.default_rng(1))
verify(release.table, release.schema, ReleasePolicy(require=(KAnonymity(k=10),))).raise_if_failed()
assert "airflow" not in sys.modules
"""


@pytest.fixture
def publisher(clean: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a user who publishes without Airflow."""
    return clean | {"HOME": str(tmp_path), "MPLCONFIGDIR": str(tmp_path / "matplotlib")}


def test_the_engine_works_without_airflow(without_airflow: Installed, publisher: dict[str, str]) -> None:
    code = "import importlib.util as u; print(u.find_spec('airflow'))"
    assert without_airflow.run("python", "-c", code, environment=publisher).strip() == "None"
    without_airflow.run("python", "-c", CHECK, environment=publisher)


def test_a_consumer_with_the_wheel_a_lake_and_the_public_keys_reads_checks_and_verifies_each_person_once(
    without_airflow: Installed, publisher: dict[str, str], clean: dict[str, str], tmp_path: Path
) -> None:
    visits(600).to_parquet(tmp_path / "visits.parquet", index=False)
    (tmp_path / "policy.yaml").write_text("require: [{model: k_anonymity, k: 10}]")
    (tmp_path / "visits.yaml").write_text(
        f"""\
name: visits
source: {{uri: "{tmp_path / "visits.parquet"}"}}
schema:
  age: {{role: quasi_identifier, kind: numeric, bounds: [0, 120]}}
  diagnosis: {{role: sensitive, kind: categorical}}
release: {{method: mondrian, k: 10}}
policy: policy.yaml
publish: {{lake: lake_default, table: people}}
"""
    )
    lake = tmp_path / "lake"

    def publish(*command: str) -> str:
        return without_airflow.run("privacy-release", *command, environment=publisher)

    publish("key", "new", "signing.pem")
    keys = publish("key", "public", "signing.pem")
    publisher["PRIVACY_SIGNING_KEY"] = str(tmp_path / "signing.pem")
    for release in ("w1", "w2"):
        publish("run", "visits.yaml", "--lake", str(lake), "--release-id", release, "--approved-by", "Olga")

    consumer = tmp_path / "consumer"
    consumer.mkdir()
    (consumer / "keys.pem").write_text(keys)
    (consumer / "mine.yaml").write_text("require: [{model: k_anonymity, k: 10}]")
    here = clean | {"HOME": str(consumer)}
    checked = without_airflow.run(
        "privacy-release", "check", f"{lake}/people", "--key", "keys.pem", environment=here
    )
    assert checked.startswith("yes ")
    assert "release w2: 600 rows" in checked
    assert "approved  by Olga" in checked
    page = (checkout() / "docs" / "proof.md").read_text(encoding="utf-8")
    (session,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    reported = without_airflow.both("python", "-c", f"lake = {str(lake)!r}\n{session}", environment=here)[1]
    assert "people, release w2 of 20" in reported
    assert "guarantee: k-anonymity (k=10)" in reported
    verify = ["verify", "people.parquet", "--schema", "schema.yaml", "--policy", "mine.yaml"]
    verified = without_airflow.run("privacy-release", *verify, environment=here)
    assert verified.startswith("600 rows in ")
    assert "passed    k_anonymity(k=10)" in verified
    # Who knows nothing of us counts each person once, too.
    assert len(DeltaTable(str(lake / "people")).to_pandas()) == 600
