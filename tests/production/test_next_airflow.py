"""The pages of the plugin in the Airflow that comes next, from pre-releases where the index has them.

Slow: it installs that version with all that it needs, in a separate environment; all other tests of the
pages have the locked version. Only this finds an interface of Airflow that the pages call and that changed.
"""

import subprocess
from pathlib import Path

import pytest

from deploy.local.embedded import checkout
from tests.production.conftest import UV, built, copy_kernels, environment_of, uv

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(2400)]
NEXT = "apache-airflow>=3.4.0b1,<3.5"
TESTS = "tests/airflow_privacy_release/plugin"


def require_published(python: Path) -> None:
    """Skip the test where the index has no version of it."""
    requested = [
        UV,
        "pip",
        "install",
        "--python",
        python,
        "--dry-run",
        "--no-deps",
        "--prerelease",
        "allow",
        NEXT,
    ]
    done = subprocess.run([str(part) for part in requested], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no version of {NEXT} can be had from the package index")


def test_the_pages_pass_their_tests_in_the_airflow_that_comes_next(
    tmp_path: Path, clean: dict[str, str]
) -> None:
    programs = environment_of(tmp_path, "development.lock")
    require_published(programs / "python")
    wheels = built(tmp_path / "wheels")
    # What Airflow allows of the locked versions stays.
    uv("pip", "install", "--python", programs / "python", "--prerelease", "allow", *wheels, NEXT)
    copy_kernels(tmp_path / "venv")
    options = ("-q", "--tb=short", "-p", "no:cacheprovider", "-m", "not (slow or ui or production)")
    done = subprocess.run(
        [programs / "python", "-m", "pytest", *options, TESTS],
        cwd=checkout(),
        env=clean | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
