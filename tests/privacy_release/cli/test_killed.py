"""Commands are killed at many moments: whatever they had read is gone after the next start."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from privacy_release.cli.main import DONE
from tests import tables
from tests.canaries import files_below, files_with
from tests.waiting import wait_for

CHILD = Path(__file__).with_name("killed_child.py")
ROOT = Path(__file__).parents[3]
CANARY = "person-"  # as every identifier begins
SEED = 20261122
POLITE = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where commands read and write."""

    root: Path
    environment: Mapping[str, str]

    @property
    def output(self) -> str:
        return (self.root / "output.txt").read_text()

    def files(self) -> list[Path]:
        """All files of the folder of work areas and of the temporary folder."""
        return files_below(self.root / "work", self.root / "tmp")

    def with_canaries(self) -> list[Path]:
        """Those that hold a planted value, compressed or not."""
        return files_with(self.files(), CANARY.encode())


@dataclass(frozen=True, kw_only=True)
class Shell(Places):
    """Runs commands one after the other, and ends them on command."""

    child: subprocess.Popen[str]

    def run(self, *argv: str, **how: int) -> tuple[int, dict[str, int]]:
        """Exit code of a command, and how many functions of each kind it called in its work area."""
        order = {
            "argv": argv,
            "environment": dict(self.environment),
            "output": str(self.root / "output.txt"),
            **how,
        }
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        print(json.dumps(order), file=self.child.stdin, flush=True)
        ended = json.loads(self.child.stdout.readline())
        return ended["code"], ended["calls"]


@pytest.fixture
def places(tmp_path: Path, home: Path, people: pd.DataFrame) -> Places:
    """A source with planted values, and empty folders."""
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
    people.assign(illness=CANARY + people["illness"]).to_parquet(home / "people.parquet")
    environment = {
        "PRIVACY_WORK_AREA": str(tmp_path / "work"),
        "PRIVACY_LAKE": str(tmp_path / "lake"),
        "PRIVACY_RELEASE_HOME": str(home.parent),
        "TMPDIR": str(tmp_path / "tmp"),
        "MPLCONFIGDIR": str(tmp_path / "matplotlib"),
    }
    return Places(root=tmp_path, environment=environment)


@pytest.fixture
def shell(places: Places) -> Iterator[Shell]:
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(places.root / "calls")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as child:
        yield Shell(root=places.root, environment=places.environment, child=child)
        child.kill()


def moments(calls: Mapping[str, int]) -> list[dict[str, int]]:
    """Twenty kills and four polite signals, at calls of functions: most of Python, some native."""
    rng = np.random.default_rng(SEED)
    found = []
    for i in range(24):
        number = POLITE[i // 6 % 3] if i % 6 == 5 else signal.SIGKILL
        event = "c_call" if i % 4 == 3 else "call"
        found.append({"signal": int(number), event: int(rng.integers(1, calls[event]))})
    return found


@pytest.mark.slow
def test_no_record_stays_behind_after_kills_at_any_moment(shell: Shell, home: Path) -> None:
    """Only kills all over a run find a moment at which a file stays that the next start does not know."""
    spec = str(home / "releases" / "people.yaml")
    assert shell.run("run", spec)[0] == DONE, shell.output  # compiles what is not in the cache: many calls
    code, calls = shell.run("run", spec)
    assert code == DONE, shell.output
    assert shell.files() == []
    left, codes = 0, []
    for moment in moments(calls):
        codes.append(shell.run("run", spec, **moment)[0])
        left += bool(shell.with_canaries())

    assert left >= 8, "the kills must hit commands at work"
    assert codes.count(-signal.SIGKILL) >= 16
    assert set(codes) <= {DONE, -signal.SIGKILL, *(128 + number for number in POLITE)}, shell.output
    assert shell.run("list-methods")[0] == DONE
    assert shell.with_canaries() == []
    assert shell.files() == []
    assert shell.run("run", spec)[0] == DONE


@pytest.mark.slow
def test_fragments_on_disk_of_a_killed_command_go_with_the_next_start(places: Places, home: Path) -> None:
    """Only a killed command with processes leaves fragments on disk."""
    fragments = {"kind": "fragments", "rows": 1_000, "processes": 1}
    file = tables.rewrite(home / "releases" / "people.yaml", engine=fragments)
    many = pd.concat([pd.read_parquet(home / "people.parquet")] * 20, ignore_index=True)
    many.assign(name=[f"{CANARY}{i}" for i in range(len(many))]).to_parquet(home / "people.parquet")
    command = [sys.executable, "-m", "privacy_release.cli.main"]
    environment = os.environ | dict(places.environment)
    with (
        (places.root / "output.txt").open("wb") as output,
        subprocess.Popen(
            [*command, "run", str(file)], env=environment, cwd=ROOT, stdout=output, stderr=output
        ) as child,
    ):
        fragment = "*/engine-*/fragments-*/*"

        def begun() -> bool:
            assert child.poll() is None, places.output
            return any((places.root / "work").glob(fragment))

        wait_for(begun, "a fragment on disk")
        workers = psutil.Process(child.pid).children(recursive=True)
        child.kill()
    psutil.wait_procs(workers)
    assert places.with_canaries()
    subprocess.run([*command, "list-methods"], env=environment, cwd=ROOT, check=True, capture_output=True)
    assert places.files() == []
