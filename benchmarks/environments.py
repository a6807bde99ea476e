"""Packages that do not install beside this project, in folders and environments of the benchmarks' own.

They are made once, by uv, under the user's cache folder. That needs a package index; nothing else does.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pooch

DONE = "complete"


class UnavailableError(RuntimeError):
    """What a part of the benchmarks needs cannot be had here; says what, and the remedy."""


def environment(requirements: Path) -> Path:
    """The interpreter of a virtual environment that holds exactly a list of pinned packages.

    Raises:
        UnavailableError: if it cannot be made.
    """
    home = _place(requirements.stem, requirements.read_text(encoding="utf-8") + sys.version)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / DONE).is_file():
        print(f"Making the environment of {requirements.stem} in {home}", flush=True)
        _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(home))
        _uv("pip", "install", "--quiet", "--no-deps", "--python", str(python), "-r", str(requirements))
        (home / DONE).touch()
    return python


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
        UnavailableError: if its process fails, with its last line.
    """
    done = subprocess.run([str(python), str(script), *arguments], capture_output=True, text=True, check=False)
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
