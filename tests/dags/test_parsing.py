"""Airflow parses every DAG file again and again: that must not load what only tasks need."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.embedded import checkout

HEAVY = [
    "pandas",
    "pyarrow",
    "sklearn",
    "scipy",
    "numba",
    "great_expectations",
    "deltalake",
    "duckdb",
    "matplotlib",
]
# Where classes must derive from Great Expectations' own; imported inside functions only.
NOT_PARSED = {"gx_expectations"}
PROBE = """
import importlib, importlib.util, json, sys
for name in sys.argv[2:]:
    if name.endswith(".py"):
        spec = importlib.util.spec_from_file_location("parsed_dag_file", name)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    else:
        importlib.import_module(name)
print(json.dumps(sorted(set(json.loads(sys.argv[1])) & set(sys.modules))))
"""


def loaded_by(*names: str) -> list[str]:
    """Heavy packages that a fresh interpreter has loaded after importing these modules and files."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(HEAVY), *names],
        capture_output=True,
        text=True,
        check=True,
        cwd=checkout(),
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_parsing_all_dag_files_and_importing_every_operator_loads_nothing_heavy(airflow_home: Path) -> None:
    files = sorted(str(path) for path in (checkout() / "dags").glob("*.py"))
    assert len(files) >= 3
    modules = sorted(
        f"airflow_privacy_release.operators.{path.stem}"
        for path in (checkout() / "operators/airflow_privacy_release/operators").glob("*.py")
        if path.stem not in NOT_PARSED
    )
    assert loaded_by(*files, *modules) == []


@pytest.mark.parametrize("name", ["pandas", pytest.param("great_expectations", marks=pytest.mark.slow)])
def test_the_probe_sees_what_is_loaded(name: str, airflow_home: Path) -> None:
    assert name in loaded_by(name)
