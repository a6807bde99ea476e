"""Whole DAG runs from store to store, and their traces: no key is in anything that is left behind."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from deploy.local.embedded import checkout
from privacy_release.lake.read import manifest_of, read_release
from tests.dags.conftest import Home
from tests.object_stores.stores import Bucket, azurite
from tests.object_stores.test_failures import WRONG

pytestmark = pytest.mark.object_stores
SHOWN = "a-table-name-that-is-logged"
PEOPLE = pd.DataFrame(
    {
        "name": [f"person {i}" for i in range(60)],
        "age": [20.0 + i % 50 for i in range(60)],
        "town": ["north", "south"] * 30,
        "disease": ["cold", "flu", "gout"] * 20,
        "remark": ["a", "b"] * 30,
    }
)
RETRACTION = """
from airflow.sdk import DAG
from airflow_privacy_release.operators.publish import RetractOperator

with DAG(dag_id="{dag}"):
    RetractOperator(task_id="retract", name="{table}", release="r", reason="a test", lake="{lake}")
"""


@dataclass(frozen=True, kw_only=True)
class Left:
    """What runs left: how each ended, each local file, the bucket, and what must be in none of them."""

    ended: dict[str, Any]
    files: dict[str, bytes]
    bucket: Bucket
    secrets: tuple[bytes, ...]


@pytest.fixture(scope="module")
def all_left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """For each kind of store a green run, one that may not read its source, one that may not open its lake.

    All are in one process, because an Airflow takes long to start.
    """
    kinds = ["s3", "azure"] if azurite() else ["s3"]
    buckets = {kind: Bucket(store=request.getfixturevalue(kind), name="runs") for kind in kinds}
    root = tmp_path_factory.mktemp("runs")
    for folder in ("dags", "include/releases", "include/policies", "include/expectations"):
        (root / folder).mkdir(parents=True)
    (root / "dags" / "releases.py").symlink_to(checkout() / "dags" / "releases.py")
    connections: dict[str, dict[str, Any]] = {}
    for kind, bucket in buckets.items():
        bucket.store.make_bucket(bucket.name)
        bucket.put("people/a.parquet", PEOPLE.to_parquet(index=False))
        connections |= _write_home(root, kind, bucket)
    environment = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps({"conn_type": "generic", "extra": json.dumps(extra)})
        for name, extra in connections.items()
    }
    names = [f"{name}_{kind}" for kind in kinds for name in ("people", "refused", "retract")]
    child = checkout() / "tests" / "dags" / "canary_child.py"
    with (root / "output.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, str(child), str(root), *names],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=checkout(),
            env={**os.environ, **environment},
            check=True,
        )
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    ended = json.loads(files["ended.json"])
    return {
        kind: Left(
            ended={name: ended[f"{name}_{kind}"] for name in ("people", "refused", "retract")},
            files=files,
            bucket=bucket,
            secrets=(bucket.store.secret.encode(), WRONG.encode()),
        )
        for kind, bucket in buckets.items()
    }


@pytest.fixture(params=["s3", "azure"])
def left(request: pytest.FixtureRequest, all_left: dict[str, Left]) -> Left:
    if request.param not in all_left:
        pytest.skip("Azurite is not installed")
    return all_left[request.param]


def _write_home(root: Path, kind: str, bucket: Bucket) -> dict[str, dict[str, Any]]:
    """Two releases of the source in the bucket, and a DAG that retracts; the connections that they name."""
    wrong = replace(bucket.store, secret=WRONG)
    lake = bucket.address("lake")
    home = Home(folder=root / "include")
    for name, connection in (("people", f"store_{kind}"), ("refused", f"wrong_store_{kind}")):
        home.write(
            name=f"{name}_{kind}",
            source={"uri": bucket.address("people/*.parquet"), "connection": connection},
            publish={"lake": f"lake_{kind}", "table": name},
        )
    retraction = RETRACTION.format(dag=f"retract_{kind}", table=SHOWN, lake=f"wrong_lake_{kind}")
    (root / "dags" / f"retract_{kind}.py").write_text(retraction)
    return {
        f"store_{kind}": {"storage_options": bucket.store.source_options()},
        f"wrong_store_{kind}": {"storage_options": wrong.source_options()},
        f"lake_{kind}": {"path": lake, "storage_options": bucket.store.lake_options()},
        f"wrong_lake_{kind}": {"path": lake, "storage_options": wrong.lake_options()},
    }


def test_a_run_reads_from_the_store_and_publishes_to_it(left: Left) -> None:
    assert left.ended["people"]["state"] == "success", left.ended["people"]
    lake, run_id = left.bucket.lake(), left.ended["people"]["run_id"]
    assert read_release(lake.table("people"), run_id).num_rows == 60
    assert manifest_of(lake.table("people"), run_id)["method"] == "mondrian"


def test_a_run_without_rights_fails_at_the_step_that_needs_them(left: Left) -> None:
    assert left.ended["refused"]["tasks"]["ingest"] == "failed"
    assert left.ended["retract"]["tasks"]["retract"] == "failed"
    text = left.files["output.txt"].decode()
    assert f"in the lake at {left.bucket.address('lake')}: the store answered 403 Forbidden" in text
    assert re.search(
        rf"{re.escape(left.bucket.address('people'))}\S* (must be readable|could not be read)", text
    )


def test_no_key_is_in_a_log_xcom_rendered_field_manifest_or_report(left: Left) -> None:
    searched = left.files | left.bucket.objects()
    assert [name for name, data in searched.items() if any(key in data for key in left.secrets)] == []


def test_the_search_saw_the_log_the_database_and_the_proofs(left: Left) -> None:
    database = b"".join(data for name, data in left.files.items() if "airflow.db" in name)
    assert left.ended["people"]["run_id"].encode() in database
    assert SHOWN.encode() in database
    assert b"people_s3.publish" in left.files["output.txt"]
    proofs = [Path(name).suffix for name in left.bucket.objects() if "/_proof/" in name]
    assert sorted(proofs) == [".html", ".html", ".json", ".json"]  # manifest, report, dictionary twice
