"""A process is killed, or two run at once: no entry of the ledger is lost, and one booking has one answer."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deploy.local.embedded import checkout
from privacy_engine.dp.limits import Limit
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger

pytestmark = pytest.mark.slow

CHILD = checkout() / "tests/children/budget_child.py"
SCHEMA = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
}
RESERVED = ["grant", "reserve"]
COMMITTED = [*RESERVED, "commit"]
# After which entries of the ledger, and after how many releases, the process dies at each point.
POINTS = {
    "before_reserve": (["grant"], 0),
    "after_reserve": (RESERVED, 0),
    "after_measure": (RESERVED, 0),
    "after_commit": (COMMITTED, 0),
    "before_publish": (COMMITTED, 0),
    "after_publish": (COMMITTED, 1),
}
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    """Enough for one release, and not for two."""
    made = BudgetLedger(str(tmp_path / "ledger.db"))
    made.migrate()
    made.grant("people", Limit(epsilon=0.5), reason="a test", by="officer")
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(root=str(tmp_path / "lake"))


@pytest.fixture
def start(tmp_path: Path, ledger: BudgetLedger, lake: Lake) -> Start:
    """Start a child that makes, verifies and publishes the same records of several weeks at epsilon 0.4."""
    rng = np.random.default_rng(3)
    source = tmp_path / "people.parquet"
    frame = {
        "name": [f"p{i}" for i in range(200)],
        "age": rng.integers(20, 80, 200),
        "town": rng.choice(["north", "south"], 200),
    }
    pd.DataFrame(frame).to_parquet(source, index=False)

    def child(*points: str, weeks: tuple[int, ...] = (1,)) -> "subprocess.Popen[str]":
        task: dict[str, Any] = {
            "points": points,
            "runs": [(f"people/run {week}", f"week {week}") for week in weeks],
            "schema": SCHEMA,
            "epsilon": 0.4,
            "source": str(source),
            "ledger": str(tmp_path / "ledger.db"),
            "lake": lake.root,
            "work": str(tmp_path / "work"),
        }
        return subprocess.Popen(
            [sys.executable, str(CHILD), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout(),
            env={"PYTHONPATH": str(checkout()), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )

    return child


def results(child: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    return list(json.loads(output.splitlines()[-1]))


def events(ledger: BudgetLedger) -> list[str]:
    return [entry.event.value for entry in ledger.check("people")]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_keeps_what_it_booked_and_its_retry_gives_one_answer(
    point: str, start: Start, ledger: BudgetLedger, lake: Lake
) -> None:
    killed = start(point)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    entries, published = POINTS[point]
    assert events(ledger) == entries
    assert len(releases(lake, "people")) == published
    models = [e.detail["model_sha256"] for e in ledger.history("people") if e.event == "commit"]

    first, again = results(start(weeks=(1, 2)))
    assert first["already"] is bool(published)
    assert again["sha256"] == first["sha256"]
    assert events(ledger) == COMMITTED
    assert [entry["sha256"] for entry in releases(lake, "people")] == [first["sha256"]] * 2
    booking = ledger.booking("people", first["key"])
    assert booking is not None
    assert booking.model_sha256 in (models or [booking.model_sha256])
    one, two = (  # the second replaces the first, whose rows stay for a while for those who are reading them
        read_release(lake, "people", entry["release_id"], entry["version"])
        for entry in releases(lake, "people")
    )
    assert one.equals(two)


def test_two_runs_that_measured_the_same_bytes_at_once_publish_one_answer(
    start: Start, ledger: BudgetLedger, lake: Lake
) -> None:
    children = [start("meet_after_measure", weeks=(week,)) for week in (1, 2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    # `communicate` closes the child's input, which says go.
    (one,), (two,) = (results(child) for child in children)
    assert one["sha256"] == two["sha256"]
    assert events(ledger) == COMMITTED
