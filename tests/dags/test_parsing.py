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
# What the plugin must not load in the processes of Airflow that serve no page.
OF_PAGES = [
    "fastapi",
    "deltalake",
    "pandas",
    "pyarrow",
    "numpy",
    "airflow_privacy_release.plugin.app",
    "privacy_release.lake.publish",
]
# Where classes must derive from Great Expectations' own; imported inside functions only.
NOT_PARSED = {"gx_expectations"}
PROBE = """
import importlib, importlib.util, json, sys
for heavy, names in json.loads(sys.argv[1]):
    for name in names:
        if name.endswith(".py"):
            spec = importlib.util.spec_from_file_location("parsed_dag_file", name)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        else:
            importlib.import_module(name)
    print(json.dumps(sorted(set(heavy) & set(sys.modules))))
"""


def loaded_by(*steps: tuple[list[str], list[str]]) -> list[list[str]]:
    """What a fresh interpreter has loaded of some packages after each step.

    Args:
        steps: Packages to look for, and modules and files to import first; all in one interpreter.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(steps)],
        capture_output=True,
        text=True,
        check=True,
        cwd=checkout(),
    )
    return [json.loads(line) for line in done.stdout.splitlines()[-len(steps) :]]


def test_the_plugin_all_dag_files_and_every_operator_load_nothing_heavy(airflow_home: Path) -> None:
    files = sorted(str(path) for path in (checkout() / "dags").glob("*.py"))
    assert len(files) >= 3
    modules = sorted(
        f"airflow_privacy_release.operators.{path.stem}"
        for path in (checkout() / "operators/airflow_privacy_release/operators").glob("*.py")
        if path.stem not in NOT_PARSED
    )
    by_plugin, by_dags, by_itself = loaded_by(
        (OF_PAGES, ["airflow_privacy_release.plugin.plugin"]),
        (HEAVY, [*files, *modules]),
        (HEAVY, ["pandas"]),
    )
    assert by_plugin == []
    assert by_dags == []
    assert "pandas" in by_itself  # the probe sees it


@pytest.mark.slow  # it imports for seconds; with a lighter package, the test above does the same
def test_the_probe_sees_what_is_loaded(airflow_home: Path) -> None:
    (found,) = loaded_by((HEAVY, ["great_expectations"]))
    assert "great_expectations" in found
