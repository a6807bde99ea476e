"""Runs of DAGs in a separate process, and a search for planted values through all that they leave.

Left out of the search are the sources, and the data files of releases, which hold what was released.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from deploy.local.embedded import checkout
from privacy_engine.dp.limits import Limit
from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake, ReleaseTable
from privacy_release.ledger.ledger import BudgetLedger
from tests.canaries import holds

CHILD = Path(__file__).with_name("canary_child.py")
FAILED = "Task failed with exception"


@dataclass(frozen=True, kw_only=True)
class Left:
    """What the runs left: how each ended, and every file by its path below the root."""

    root: Path
    ended: dict[str, Any]
    files: dict[str, bytes]

    @property
    def lake(self) -> Lake:
        return Lake(root=str(self.root / ".lake"))

    @property
    def ledger(self) -> BudgetLedger:
        return ledger_below(self.root)

    @property
    def output(self) -> str:
        return self.files["output.txt"].decode()

    def release(self, name: str) -> tuple[ReleaseTable, str]:
        """The table and the id of what a run published."""
        return self.lake.table(name), self.ended[name]["run_id"]

    def rows(self, name: str) -> pd.DataFrame:
        """What a green run published."""
        assert self.ended[name]["state"] == "success", self.ended[name]
        return read_release(*self.release(name)).to_pandas()

    def leaks(self, *canaries: bytes) -> list[str]:
        """The files that hold one of the planted values, in whatever case."""
        return [name for name, data in self.files.items() if holds(data, *canaries)]

    def require_failed_at(self, name: str, step: str) -> None:
        """A run must have failed at that step, and have cleaned up."""
        assert self.ended[name]["state"] == "failed"
        assert self.ended[name]["tasks"][step] == "failed", self.ended[name]
        assert self.ended[name]["tasks"]["cleanup"] == "success"

    def require_empty_work_area(self) -> None:
        assert list((self.root / ".airflow" / "work_area").iterdir()) == []

    def require_whole_search(self, *, failures: int) -> None:
        """The search must have seen the logs, Airflow's database, and the proofs and the log of the lake."""
        assert self.output.count(FAILED) == failures
        database = b"".join(data for name, data in self.files.items() if "airflow.db" in name)
        assert b"rendered_task_instance_fields" in database
        for run in self.ended.values():
            assert run["run_id"].encode() in database
        proofs = {Path(name).suffix for name in self.files if name.startswith(".lake/_proof")}
        assert proofs == {".html", ".json"}
        assert any("_delta_log" in name for name in self.files)


def new_root(root: Path) -> Path:
    """A folder for runs, with the project's DAG files."""
    (root / "dags").symlink_to(checkout() / "dags")
    return root


def ledger_below(root: Path) -> BudgetLedger:
    """The ledger of the runs below a root."""
    return BudgetLedger(str(root / ".airflow" / "ledger.db"))


def granted(root: Path, epsilon: float) -> None:
    """Give the data set `people` a budget, in a ledger for the runs below the root."""
    (root / ".airflow").mkdir()
    ledger = ledger_below(root)
    ledger.migrate()
    ledger.grant("people", Limit(epsilon=epsilon), reason="a test", by="officer")


def started(
    root: Path, names: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A process that runs DAGs one after the other, and writes all it says to `output.txt`."""
    with (root / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, str(CHILD), str(root), *names],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=checkout(),
            env=os.environ | dict(environment or {}),
        )


def left_by(root: Path, names: Sequence[str], environment: Mapping[str, str] | None = None) -> Left:
    """Run DAGs to their ends; what they left."""
    with started(root, names, environment) as running:
        try:
            code = running.wait(timeout=800)
        finally:
            running.kill()
    assert code == 0, (root / "output.txt").read_text()[-4000:]
    return found_below(root)


def found_below(root: Path) -> Left:
    """All that runs left below a root."""
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".parquet" and not path.is_relative_to(root / "include")
    }
    return Left(root=root, ended=json.loads(files["ended.json"]), files=files)
