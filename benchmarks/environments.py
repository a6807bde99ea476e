"""Packages that do not install beside this project, in folders and environments of the benchmarks' own.

They are made once, by uv, under the user's cache folder. That needs a package index; nothing else does.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pooch

DONE = "complete"


class UnavailableError(RuntimeError):
    """What a part of the benchmarks needs cannot be had here; says what, and the remedy."""


class OutOfTimeError(RuntimeError):
    """A process did not finish within its CPU seconds."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A package that no index has, at one commit of its repository.

    Attributes:
        name: Name of the package.
        repository: Address of the repository.
        commit: Full hash of the commit.
        variable: Environment variable that may name a clone, which is then read instead of the address.
    """

    name: str
    repository: str
    commit: str
    variable: str

    @property
    def requirement(self) -> str:
        """The package as an installer reads it.

        Raises:
            UnavailableError: If the environment variable names no folder.
        """
        address, clone = self.repository, os.environ.get(self.variable)
        if clone:
            if not Path(clone).is_dir():
                raise UnavailableError(
                    f"{self.variable} must name a clone of {self.repository}, but {clone} is not a folder. "
                    "Clone it there, or unset the variable to read the repository itself"
                )
            address = Path(clone).resolve().as_uri()
        return f"{self.name} @ git+{address}@{self.commit}"


def environment(requirements: Path, *, python: str = sys.executable, source: Source | None = None) -> Path:
    """The interpreter of a virtual environment that holds exactly a list of pinned packages.

    Args:
        requirements: File that lists the packages.
        python: Interpreter of the environment, as a path or as a version that uv finds.
        source: Package that is installed from its repository, in addition.

    Raises:
        UnavailableError: If it cannot be made.
    """
    version = sys.version if python == sys.executable else python
    pins = requirements.read_text(encoding="utf-8") + version + (source.commit if source else "")
    home = _place(requirements.stem, pins)
    made = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / DONE).is_file():
        package = source.requirement if source else None  # first: it may be refused
        print(f"Making the environment of {requirements.stem} in {home}", flush=True)
        _uv("venv", "--quiet", "--clear", "--python", python, str(home))
        install = ("pip", "install", "--quiet", "--no-deps", "--python", str(made))
        _uv(*install, "-r", str(requirements))
        if source and package:
            try:
                _uv(*install, package)
            except UnavailableError as error:
                raise UnavailableError(
                    f"{package} could not be installed: {error}. Set {source.variable} to a clone that has "
                    "this commit"
                ) from error
        (home / DONE).touch()
    return made


def package_folder(pinned: str) -> Path:
    """A folder with one package, without what it depends on: for the data that it ships.

    Args:
        pinned: as ``name==version``.

    Raises:
        UnavailableError: if it cannot be fetched.
    """
    home = _place(pinned.split("==")[0], pinned)
    if not (home / DONE).is_file():
        print(f"Fetching {pinned} into {home}", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        _uv("pip", "install", "--quiet", "--no-deps", "--target", str(home), pinned)
        (home / DONE).touch()
    return home


def answer_of(python: Path, script: Path, *arguments: str) -> str:
    """What a script prints in another interpreter.

    Raises:
        OutOfTimeError: If the system ends its process for using more CPU seconds than the script allows.
        UnavailableError: If its process fails otherwise, with its last line.
    """
    done = subprocess.run([str(python), str(script), *arguments], capture_output=True, text=True, check=False)
    if done.returncode == -getattr(signal, "SIGXCPU", 0) < 0:
        raise OutOfTimeError(f"{script.name} {' '.join(arguments[:1])} used all of its CPU seconds")
    if done.returncode:
        raise UnavailableError(f"its process failed: {last_line(done.stderr)}")
    return done.stdout


def last_line(text: str) -> str:
    r"""Return the last line of what a process said.

    >>> last_line("first\nlast\n"), last_line("")
    ('last', 'no message')
    """
    return (text.strip().splitlines() or ["no message"])[-1]


def _place(name: str, contents: str) -> Path:
    """Another folder for other contents, so that a changed pin is never served by an old environment."""
    digest = hashlib.sha256(contents.encode()).hexdigest()[:12]
    return Path(pooch.os_cache("privacy-release")) / "benchmarks" / f"{name}-{digest}"


def _uv(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uv", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnavailableError(
            f"`uv {' '.join(arguments[:2])}` failed ({last_line(done.stderr).strip()}); "
            "it needs a package index once, then the cache folder serves"
        )
