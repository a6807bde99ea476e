"""The engine under the oldest versions of the packages that pyproject.toml allows.

Slow: it installs them, and compiles a part of the engine with the oldest compiler; all other tests have the
locked versions.
"""

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from deploy.local.embedded import checkout
from tests.production.conftest import environment_of, uv

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(2400)]
COMPILER = ("numba", "llvmlite")
# What keeps machine code, and two methods, whose functions are written as all others are: to compile all of
# the engine once more takes longer than any other test.
COMPILED = ("tests/privacy_engine/test_compiled.py", "tests/contract/test_release_methods.py")
CHOSEN = "test_compiled or mondrian or privbayes"
# Every method once, and what calls other packages: their types, files, fits, noise and generated code. All
# else computes on arrays of numpy, which no older package changes.
TESTS = (
    "tests/contract/test_release_methods.py",
    "tests/contract/test_nulls.py",
    "tests/contract/test_dates.py",
    "tests/privacy_engine/test_foreign.py",
    "tests/privacy_engine/anonymizers/test_trajectories.py",
    "tests/privacy_engine/attacks/test_attacks.py",
    "tests/privacy_engine/attacks/test_shadow.py",
    "tests/privacy_engine/dp/test_mechanisms.py",
    "tests/privacy_engine/engines",
    "tests/privacy_engine/recoding/features",
    "tests/privacy_engine/learning",
    "tests/privacy_engine/measures/test_copula.py",
    "tests/privacy_engine/measures/test_population.py",
    "tests/privacy_engine/measures/test_synthetic_utility.py",
    "tests/privacy_engine/outliers",
    "tests/privacy_engine/randomizers",
    "tests/privacy_engine/synthesizers/bayes/test_bayesian_network.py",
    "tests/privacy_engine/synthesizers/test_measuring.py",
    "tests/privacy_engine/tables",
)


def test_the_engine_passes_its_tests_with_the_oldest_packages(tmp_path: Path, clean: dict[str, str]) -> None:
    oldest = environment_of(tmp_path, "lowest.lock")

    def passes(*tests: str, **environment: str) -> None:
        options = ("-q", "--tb=short", "-p", "no:cacheprovider")
        options += ("--hypothesis-profile", "brief", "-m", "not (slow or spark or needs_data)")
        done = subprocess.run(
            [oldest / "python", "-m", "pytest", *options, *tests],
            cwd=checkout(),
            env=clean | {"TMPDIR": str(tmp_path)} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]

    # In a separate folder: it would replace the machine code of the checkout, for all other tests. An old
    # version may fail to translate a function; to optimize its code takes longer than the tests save by it.
    passes(*COMPILED, "-k", CHOSEN, NUMBA_OPT="0", NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    locked = [f"{name}=={version(name)}" for name in COMPILER]
    uv("pip", "install", "--python", oldest / "python", "--no-deps", *locked)
    passes(*TESTS)
