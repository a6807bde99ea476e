"""The commands of the documentation, run as they are printed, in a fresh copy of the checkout."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from deploy.local.embedded import checkout, inherited_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHELLS = {"console", "bash", "sh", "shell"}
# What is not run as it is printed -> what is run in its place, None for nothing; the reason stands beside.
INSTEAD = {
    r"make (?!secrets\b).*": "make --dry-run",  # the suite itself, or what separate tests run
    r"docker .*": None,  # needs Docker; tests/production holds the compose file against it
    r"curl .*|TOKEN=.*": None,  # need a server, which tests/ui and the tests of the plugin start
    r"pip (install|uninstall|list) .*": None,  # from an index, where tests/production installs the wheels
    r"PRIVACY_SCREENSHOTS=.*|python docs/make_screens.py .*": None,  # is what tests/ui does
    # the reader's own lake, into which the other pages would publish
    r"airflow connections add lake_default .* '\{\"path\".*": None,
    # a consumer's session on a separate lake, which tests/production runs from an empty environment
    r"privacy-release check s3://.*|.* > mine.yaml|privacy-release verify people.parquet .*": None,
    # an editor, in which the reader completes the draft
    r"\$EDITOR .*/loans\.yaml": "cp ../docs/tutorial/loans.yaml",
    r"\$EDITOR .*/library\.yaml": "cp ../docs/tutorial/library.yaml",
    r"privacy-release budget migrate": None,  # at the address of a server that is not there
}
# Page -> commands that prepare what only its reader has.
BEFORE = {
    "howto.md": [
        "privacy-release run include/releases/adult_occupation.yaml --release-id RELEASE",
        "python export.py adult_occupation",
    ],
    "query.md": ["privacy-release run include/releases/adult_occupation.yaml --release-id to-be-asked"],
    "scale.md": ["SECRET=of-the-cluster"],
}
EXPORT = """
import json, os, sys
import pyarrow.parquet as pq
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
table = Lake(root=os.path.abspath(".lake")).table(sys.argv[1])
pq.write_table(read_release(table, "RELEASE"), "EXPORT.parquet")
open("MANIFEST.json", "w").write(json.dumps(manifest_of(table, "RELEASE")))
"""


def pages() -> Iterator[tuple[Path, list[str]]]:
    """The pages that print commands, and these."""
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        assert all("\n$ " in f"\n{text.lstrip()}" for kind, text in blocks if kind in SHELLS), page
        commands = [command for kind, text in blocks if kind in SHELLS for command in commands_of(text)]
        if commands:
            yield page, commands


def commands_of(text: str) -> Iterator[str]:
    """The commands of a block, whatever they print left out; one goes on until its quotes are closed."""
    lines = iter(text.splitlines())
    for line in lines:
        if not line.lstrip().startswith("$ "):
            continue
        command = line.lstrip().removeprefix("$ ")
        while command.rstrip().endswith("\\") or not _is_closed(command):
            command += "\n" + next(lines)
        yield command


def _is_closed(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def as_run(command: str) -> str | None:
    """What is run of a command; None for nothing."""
    for pattern, instead in INSTEAD.items():
        if re.fullmatch(pattern, command, re.DOTALL):
            return instead and " ".join([instead, *shlex.split(command, comments=True)[1:]])
    return command


PAGES = dict(pages())


@pytest.fixture(scope="module")
def warm() -> Iterator[Path]:
    """A folder with a `privacy-release` that does not import anything; see `commands_child`."""
    with (
        tempfile.TemporaryDirectory() as name,  # the address of a socket is short
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("commands_child.py")), name],
            stdout=subprocess.PIPE,
            text=True,
            env=inherited_environment() | {"MPLCONFIGDIR": name},
        ) as server,
    ):
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield Path(name)
        server.kill()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A fresh copy of the checkout with the example release, and the environment of its reader."""
    folder = tmp_path_factory.mktemp("scene") / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checkout(),
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (checkout() / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout() / name, folder / name)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / "export.py").write_text(EXPORT)
    inherited = inherited_environment().items()
    environment = {
        n: v for n, v in inherited if n == "PRIVACY_DATA" or not n.startswith(("PRIVACY", "AIRFLOW"))
    }
    environment |= {"HOME": str(folder.parent), "MPLCONFIGDIR": str(folder.parent)}
    first = [
        *PAGES[ROOT / "README.md"],
        "python -m deploy.local.samples > samples.log",
        "airflow db migrate > migrated.log 2>&1",
        "privacy-release run include/releases/adult_occupation.yaml",
    ]
    run(first, folder, environment)
    return folder, environment


def run(commands: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run commands in one shell until one fails, which is named."""
    chosen = [line for command in commands if (line := as_run(command))]
    script = "\n".join(["set -eu", *(f"echo {shlex.quote(f'+ {line}')}\n{line}" for line in chosen)])
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_work_as_they_are_printed(
    page: Path, scene: tuple[Path, dict[str, str]], warm: Path
) -> None:
    """README.md runs the installed `privacy-release`, the others what saves it the time to start."""
    folder, environment = scene
    shell = [command for command in PAGES[ROOT / "README.md"] if command.startswith("export ")]
    path = f'export PATH="{warm}:$PATH"'
    run([*shell, path, *BEFORE.get(page.name, []), *first_printed(page)], folder, environment)


def first_printed(page: Path) -> list[str]:
    """The commands of a page without those checks of releases that a page before it has run."""
    before = {_words(c) for other in takewhile(lambda o: o != page, PAGES) for c in PAGES[other]}
    return [c for c in PAGES[page] if not (c.startswith("privacy-release check") and _words(c) in before)]


def _words(command: str) -> tuple[str, ...]:
    return tuple(shlex.split(command, comments=True))


def test_every_exception_is_needed() -> None:
    printed = [command for commands in PAGES.values() for command in commands]
    assert [p for p in INSTEAD if not any(re.fullmatch(p, c, re.DOTALL) for c in printed)] == []
    assert set(BEFORE) <= {page.name for page in PAGES}


def test_a_command_that_fails_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"\+ false"):
        run(["true", "false", "true"], tmp_path, dict(os.environ))
