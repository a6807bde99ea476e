"""The wheels, in empty environments outside of the repository, with the packages of the production image."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deploy.local.embedded import checkout, inherited_environment
from privacy_engine.compiled import cache_folder
from tests.made import locked
from tests.waiting import DEADLINE

# What uv says where an index, or the way to it, is missing; anything else is an error of ours.
UNREACHABLE = ("error sending request", "dns error", "failed to fetch", "connection refused", "timed out")
UV = Path(sys.executable).with_name("uv")
# OpenDP's native code is loaded when noise is drawn, not before.
NOISE = """
import numpy as np
from privacy_engine.dp.mechanisms import laplace_counts
print("noise on", laplace_counts(np.arange(10), epsilon=0.5).size, "counts")
"""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """An environment that has nothing but what a production machine has."""

    bin: Path
    wheels: tuple[Path, ...]

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.bin / "python")

    def run(self, *command: str, environment: Mapping[str, str], stdin: str = "") -> str:
        """Run a command of the environment, away from the checkout; what it wrote to standard output."""
        return self.both(*command, environment=environment, stdin=stdin)[0]

    def both(self, *command: str, environment: Mapping[str, str], stdin: str = "") -> tuple[str, str]:
        """The same; what it wrote to standard output, and to standard error."""
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            env=dict(environment) | {"PATH": f"{self.bin}:{os.environ['PATH']}"},
            cwd=environment["AIRFLOW_HOME" if "AIRFLOW_HOME" in environment else "HOME"],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout, done.stderr


def uv(*arguments: object) -> None:
    """Run uv with the index and the cache of this machine; skip the test where no index can be reached."""
    patient = os.environ | {
        "UV_HTTP_TIMEOUT": str(DEADLINE)
    }  # by default it gives up a busy index after 30 s
    command = [UV, "--quiet", *map(str, arguments)]
    done = subprocess.run(command, env=patient, capture_output=True, text=True, check=False)
    said = done.stderr.lower()
    # Continuous integration has just installed from that index: there it is an error.
    if done.returncode and "CI" not in os.environ and any(words in said for words in UNREACHABLE):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def installed(shared: Path) -> Installed:
    """Both wheels, installed once for all processes in an environment with the packages of the image.

    Byte code that is missing is left to the first use of each module: to make all of it takes longer.
    """
    root = shared / "production"
    with locked(shared, "production"):
        if not (root / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir()
            install(root, "production.lock")
            (root / "complete").touch()
    return Installed(bin=root / "venv" / "bin", wheels=wheels_in(root / "wheels"))


def install(root: Path, lock: str, python: str = sys.executable) -> Installed:
    """The wheels in an environment of their own below a folder, with what a lock file names."""
    wheels, programs = built(root / "wheels"), environment_of(root, lock, python)
    uv("pip", "install", "--python", programs / "python", "--no-deps", *wheels)
    uv("pip", "check", "--python", programs / "python")
    copy_kernels(root / "venv")
    return Installed(bin=programs, wheels=wheels)


def copy_kernels(venv: Path) -> None:
    """Copy the machine code of the checkout to an environment's engine, which has the same sources.

    Code of another version of Python or of the compiler is never loaded, see `privacy_engine.compiled`.
    """
    (engine,) = venv.glob("lib/python*/site-packages/privacy_engine")
    kept = engine / "__pycache__" / "kernels"
    kept.mkdir(parents=True, exist_ok=True)
    folder = cache_folder()
    for file in folder.glob("*.nb[ci]") if folder else ():
        with suppress(FileNotFoundError):  # another process may have just replaced it
            shutil.copy(file, kept)


def environment_of(root: Path, lock: str, python: str = sys.executable) -> Path:
    """A separate environment below a folder, with what a lock file names; where its programs are."""
    venv = root / "venv"
    uv("venv", "--python", python, venv)
    programs = venv / "bin"
    packages = ("--require-hashes", "-r", checkout() / "locks" / lock)
    uv("pip", "install", "--python", programs / "python", *packages)
    link_byte_code(venv)
    return programs


def link_byte_code(venv: Path) -> None:
    """Link the byte code of this process's packages to those of an environment that are the same files.

    uv links what it installs to its cache, so both environments share the files of a package. Byte code
    holds for the date and the size of its source. Without it, each environment compiles Airflow again.
    """
    (packages,) = venv.glob("lib/python*/site-packages")
    ours = Path(sysconfig.get_path("purelib"))
    if packages.parent.name != ours.parent.name:  # byte code is that of a version of Python
        return
    for folder in ours.rglob("__pycache__"):
        place = packages / folder.relative_to(ours)
        for code in folder.glob(f"*.{sys.implementation.cache_tag}.pyc"):
            module = code.name.partition(".")[0] + ".py"
            other = place.parent / module
            if other.exists() and other.samefile(folder.parent / module):
                place.mkdir(exist_ok=True)
                if not (place / code.name).exists():
                    os.link(code, place / code.name)


def newest_python() -> str:
    """The newest interpreter of this machine that the packages support, else the one that runs the tests.

    pyenv's are looked for in its folder: on PATH it has a program for each version, and most refuse to start.
    """
    for version in ("3.14", "3.13", "3.12"):
        known = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for candidate in (shutil.which(f"python{version}"), *known):
            if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
                return str(candidate)
    return sys.executable


@pytest.fixture(scope="session")
def without_airflow(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of engine and release process alone, with what it asks for."""
    root = tmp_path_factory.mktemp("engine")
    venv = root / "venv"
    (wheel,) = (wheel for wheel in built(root / "wheels") if wheel.name.startswith("privacy_release-"))
    uv("venv", "--python", sys.executable, venv)
    into = ("pip", "install", "--python", venv / "bin" / "python")
    uv(*into, wheel, "-c", checkout() / "locks/runtime.lock")
    uv("pip", "check", "--python", venv / "bin" / "python")
    link_byte_code(venv)
    copy_kernels(venv)
    return Installed(bin=venv / "bin", wheels=(wheel,))


def built(folder: Path) -> tuple[Path, ...]:
    """The wheels of this checkout: the engine's, and the provider's."""
    for project in (checkout(), checkout() / "operators"):
        uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o", folder, project)
    return wheels_in(folder)


def wheels_in(folder: Path) -> tuple[Path, ...]:
    """The engine's wheel, and the provider's."""
    return tuple(sorted(folder.glob("*.whl"), reverse=True))


@pytest.fixture(scope="session")
def clean() -> dict[str, str]:
    """This process's environment without anything that points to the repository or to its Airflow."""
    return {
        name: value
        for name, value in inherited_environment().items()
        if not name.startswith(("PRIVACY_", "AIRFLOW", "PYTHON", "VIRTUAL_ENV", "MPLCONFIGDIR"))
    }


def visits(rows: int) -> pd.DataFrame:
    """Invented visits to a clinic."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {"age": rng.integers(0, 100, rows), "diagnosis": rng.choice(["cold", "flu", "gout"], rows)}
    )
