"""The engine under the oldest versions of the packages that pyproject.toml allows."""

import subprocess
from pathlib import Path

import pytest

from deploy.local.embedded import checkout
from tests.production.conftest import environment_of

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(3600)]
TESTS = ("tests/privacy_engine", "tests/contract")
# Minutes in compiled code, which no older package changes; the contract suite runs the methods that search.
SEARCHES = "larger_suppression_limit"
ROOMS_OF_SEARCHES = ("grouping", "quotas", "nearness")


def test_the_engine_passes_its_tests_with_the_oldest_packages(tmp_path: Path, clean: dict[str, str]) -> None:
    oldest = environment_of(tmp_path, "lowest.lock")
    options = ("-q", "--tb=short", "-p", "no:cacheprovider", "-k", f"not {SEARCHES}")
    options += ("--hypothesis-profile", "brief", "-m", "not (slow or spark or needs_data)")
    options += tuple(f"--ignore=tests/privacy_engine/{room}" for room in ROOMS_OF_SEARCHES)
    done = subprocess.run(
        [oldest / "python", "-m", "pytest", *options, *TESTS],
        cwd=checkout(),
        env=clean | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
