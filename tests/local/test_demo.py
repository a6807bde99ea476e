"""The demonstration runs as one command in a separate folder, and says what it did."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deploy.local.embedded import checkout, inherited_environment
from deploy.local.samples.synthetic_adult import synthetic_adult


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a checkout, with 6,000 generated records as the public data."""
    root = tmp_path_factory.mktemp("demo")
    (root / "dags").symlink_to(checkout() / "dags")
    shutil.copytree(checkout() / "include", root / "include")
    (root / "public").mkdir()
    synthetic_adult(6_000, rng=np.random.default_rng(1)).to_parquet(
        root / "public" / "adult.parquet", index=False
    )
    return root


def demo(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deploy.local.demo", "--root", str(root), *arguments],
        env=inherited_environment() | {"PRIVACY_DATA": str(root / "public")},
        cwd=checkout(),
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.slow
def test_the_demonstration_shows_where_the_release_is_and_its_figures(root: Path) -> None:
    done = demo(root)
    assert done.returncode == 0, done.stderr
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line)
    assert "6,000 records" in shown["input"]
    for name in ("manifest", "report"):
        assert Path(shown[name]).is_file()
    assert Path(shown["release"]).is_dir()
    for figure in ("rows", "k", "l", "t", "GCP", "discernibility", "seconds"):
        assert figure in shown
    assert int(shown["k"].split()[-1]) >= 10
    assert int(shown["l"].split()[-1]) >= 3
    written = {path.name for path in root.iterdir()}
    assert written == {"dags", "include", "public", "data", ".airflow", ".lake"}


@pytest.mark.slow
def test_a_failed_demonstration_says_why_and_does_not_end_with_zero(root: Path) -> None:
    done = demo(root, "--release", "no_such_release")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the DAG no_such_release could not be loaded")
    assert "adult_occupation" in done.stderr
