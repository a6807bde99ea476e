"""The import of Great Expectations: light, and without a trace in what other code sees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# A fresh process alone shows what an import of Great Expectations loads and leaves.
imports = pytest.mark.slow
ROOT = Path(__file__).parents[3]
SUITE = {
    "name": "people",
    "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "city"}}],
}
RUN = (
    "import pandas as pd; from privacy_release.expectations.gate import run_suite; "
    f"run_suite(pd.DataFrame({{'city': ['Oslo']}}), {SUITE!r})"
)


def printed(code: str) -> object:
    """What a fresh interpreter prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@imports
def test_a_suite_loads_neither_plots_nor_statistics_nor_clients_of_object_stores() -> None:
    inside = ["altair.vegalite", "scipy.stats._stats_py", "boto3.session", "azure.storage.blob"]
    code = f"{RUN}; import json, sys; print(json.dumps([m for m in {inside!r} if m in sys.modules]))"
    assert printed(code) == []


@imports
@pytest.mark.parametrize(
    "use",
    [
        "import altair; altair.Chart.__name__ == 'Chart'",
        "from altair import Chart; Chart.__name__ == 'Chart'",
        "from scipy import stats; round(stats.norm.cdf(0), 3) == 0.5",
        "import scipy.stats.distributions as d; round(d.norm.cdf(0), 3) == 0.5",
    ],
)
def test_what_was_put_off_works_as_before_when_it_is_used(use: str) -> None:
    imported, claim = use.split("; ")
    assert printed(f"{RUN}; import json; {imported}; print(json.dumps(bool({claim})))") is True


@imports
def test_an_expectation_that_needs_statistics_is_evaluated() -> None:
    kwargs = {
        "column": "n",
        "partition_object": {"values": ["a", "b"], "weights": [0.5, 0.5]},
        "threshold": 0.1,
    }
    suite = {
        "name": "shares",
        "expectations": [
            {"type": "expect_column_kl_divergence_to_be_less_than", "kwargs": kwargs | {"threshold": limit}}
            for limit in (0.1, 0.0001)
        ],
    }
    code = (
        "import json, pandas as pd; from privacy_release.expectations.gate import run_suite; "
        f"found = run_suite(pd.DataFrame({{'n': list('aabbb')}}), {suite!r}); "
        "print(json.dumps([found['passed'], [f['broken'] for f in found['failed']]]))"
    )
    assert printed(code) == [1, [None]]


@imports
def test_the_import_leaves_the_import_system_as_it_was() -> None:
    code = (
        "import json, sys; from privacy_release.expectations.lean_import import "
        "import_great_expectations as load; before = [*map(id, sys.meta_path)]; load(); "
        "after = [id(f) for f in sys.meta_path]; "
        "print(json.dumps([set(before) <= set(after), "
        "any('lean_import' in type(f).__module__ for f in sys.meta_path)]))"
    )
    assert printed(code) == [True, False]


SLOW = """
from shared import begun, waits
begun.set()
assert waits.wait(300)  # until the other thread waits for the lock of this module
last = "whole"
"""
TWO_THREADS = """
import json, sys, threading
sys.path.insert(0, FOLDER)
from privacy_release.expectations import lean_import
lean_import.SELDOM_USED = {"slow"}
with lean_import._put_off():
    import slow
from shared import begun, waits

class Watched:
    lock = lean_import._LOADING
    def __enter__(self):
        if begun.is_set():
            waits.set()
        self.lock.acquire()
    def __exit__(self, *error):
        self.lock.release()

lean_import._LOADING = Watched()
found = []
first = threading.Thread(target=lambda: found.append(slow.last))
first.start()
assert begun.wait(300)
found.append(slow.last)
first.join()
print(json.dumps([found, type(slow).__name__]))
"""


def test_a_thread_that_uses_a_module_while_another_loads_it_waits_for_the_whole(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(
        "import threading\nbegun, waits = threading.Event(), threading.Event()"
    )
    (tmp_path / "slow.py").write_text(SLOW)
    assert printed(TWO_THREADS.replace("FOLDER", repr(str(tmp_path)))) == [["whole", "whole"], "module"]


def test_a_module_that_fails_to_load_fails_each_time(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("raise OSError")
    code = f"""
import json, sys
sys.path.insert(0, {str(tmp_path)!r})
from privacy_release.expectations import lean_import
lean_import.SELDOM_USED = {{"slow"}}
with lean_import._put_off():
    import slow
failed = 0
for _ in range(2):
    try:
        slow.last
    except OSError:
        failed += 1
print(json.dumps(failed))
"""
    assert printed(code) == 2
