"""`privacy-release warm`: after it, a release compiles nothing."""

import os
import re
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
from privacy_engine.attacks.trial import Evidence, case_of, try_attack
from privacy_engine.registry import ATTACKS, load_attack
from privacy_release.reports.curator import render_curator_report
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
for method in (load_method("bottom_up", k=4), load_method("ilp_l_diversity", k=3, l=2)):
    release = method.release(table[:60], schema, rng)
    measure(release, rng)
    evidence = Evidence(release=release.table, source=schema, people=table[:60], outsiders=table[60:])
    for attack in ATTACKS:
        try_attack(load_attack(attack), case_of(evidence, rng), rng)

public = DataSchema.from_dict({
    "zip": {"role": "quasi_identifier", "categories": list("abcdef")},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
    "illness": {"role": "sensitive", "categories": list("xyz")},
})
synthetic = load_method("latent_class", epsilon=1.0, classes=4, fits=1).release(table, public, rng)
render_curator_report(synthetic, table, public, name="people", release_id="1")
"""


def run(*arguments: str, cache: Path) -> str:
    # Machine code of any quality will do, and that of the lowest is made in half of the time.
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "NUMBA_OPT": "0", "NUMBA_DEBUG_CACHE": "1"}
    environment["PYTHONUNBUFFERED"] = "1"  # processes that share a pipe write a message at a time
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


def kept(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.timeout(1200)  # a minute of compiling, on a machine that may be busy
def test_each_function_is_compiled_once_and_none_by_a_release_after_it(tmp_path: Path) -> None:
    names = ("bottom_up", "ilp_l_diversity", "obpa", "latent_class", "attacks")
    command = ("-m", "privacy_release.cli.main", "warm", *names, "--processes", "2")
    said = run(*command, cache=tmp_path)
    assert re.findall(r"(\d) of 5", said) == ["1", "2", "3", "4", "5"]
    assert f"kept in {tmp_path}" in said
    compiled = re.findall(r"\[cache\] data saved to '([^']+)'", said)
    assert compiled
    assert len(compiled) == len(set(compiled))
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
