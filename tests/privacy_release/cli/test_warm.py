"""`privacy-release warm`: after it, a release compiles nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from privacy_release.cli.main import WRONG, main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
RELEASES = """
import numpy as np, pandas as pd
from privacy_engine import DataSchema, load_method
from privacy_release.steps.release import measure

rng = np.random.default_rng(1)
table = pd.DataFrame({
    "zip": rng.choice(list("abcdef"), 90),
    "age": rng.integers(0, 99, 90),
    "illness": rng.choice(list("xyz"), 90),
})
schema = DataSchema.from_dict({
    "zip": {"role": "quasi_identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
    "illness": {"role": "sensitive"},
})
for method in (load_method("mondrian", k=4), load_method("ilp_l_diversity", k=3, l=2)):
    measure(method.release(table, schema, rng), rng)
"""


def run(*arguments: str, cache: Path) -> str:
    # Machine code of any quality will do, and that of the lowest is made in half of the time.
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "NUMBA_OPT": "0"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


def kept(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.timeout(1200)  # a minute of compiling, on a machine that may be busy
def test_a_release_after_it_compiles_nothing(tmp_path: Path) -> None:
    methods = ("mondrian", "ilp_l_diversity")
    # One process: two would both compile what these methods share.
    command = ("-m", "privacy_release.cli.main", "warm", *methods, "--processes", "1")
    said = run(*command, cache=tmp_path).splitlines()
    assert [line.split()[:3] for line in said[:2]] == [["1", "of", "2"], ["2", "of", "2"]]
    assert f"kept in {tmp_path}" in said[-1]
    before = kept(tmp_path)
    run("-c", RELEASES, cache=tmp_path)
    assert before
    assert kept(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mondrain"], "METHOD must be one of mondrian"),
        (["--processes", "0"], "--processes must be >= 1, got 0"),
    ],
)
def test_a_wrong_argument_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["warm", *arguments]) == WRONG
    assert said in capsys.readouterr().err
