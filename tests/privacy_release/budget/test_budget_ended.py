"""Private releases that end early, or meet: one booking has one answer, and no entry is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.dp.limits import Limit
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from tests.children.fault_points import arm, crashed
from tests.children.processes import KILL, MEET, Child, at_once
from tests.children.work import release_people
from tests.ledgers import new_ledger

SCHEMA = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
}
RESERVED = ["grant", "reserve"]
COMMITTED = [*RESERVED, "commit"]
# After which entries of the ledger, and after how many releases, the work ends at each point.
POINTS = {
    "before_reserve": (["grant"], 0),
    "after_reserve": (RESERVED, 0),
    "after_measure": (RESERVED, 0),
    "after_spend": (COMMITTED, 0),
    "before_proofs": (COMMITTED, 0),
    "after_commit": (COMMITTED, 1),
}


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    """Enough for one release, and not for two."""
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=0.5), reason="a test", by="officer")
    return made


@pytest.fixture
def task(tmp_path: Path, ledger: BudgetLedger, lake: Lake) -> Callable[..., tuple[Any, ...]]:
    """What makes, verifies and publishes the same records in several weeks at epsilon 0.4."""
    rng = np.random.default_rng(3)
    source = tmp_path / "people.parquet"
    frame = {
        "name": [f"p{i}" for i in range(20)],
        "age": rng.integers(20, 80, 20),
        "town": rng.choice(["north", "south"], 20),
    }
    pd.DataFrame(frame).to_parquet(source, index=False)
    return lambda *weeks: (source, SCHEMA, 0.4, ledger.url, lake, tmp_path / "work", weeks)


def events(ledger: BudgetLedger) -> list[str]:
    return [entry.event.value for entry in ledger.check("people")]


@pytest.mark.parametrize("end", ["crash", pytest.param("kill", marks=pytest.mark.slow)])
@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_ended_early_keeps_what_it_booked_and_its_retry_gives_one_answer(
    point: str,
    end: str,
    task: Callable[..., tuple[Any, ...]],
    ledger: BudgetLedger,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a kill shows what stays in the work area where no clean-up runs."""
    if end == "crash":
        crashed(monkeypatch, point, release_people, *task(1))
    else:
        Child(release_people, *task(1), at={point: KILL}).killed()
    entries, published = POINTS[point]
    assert events(ledger) == entries
    assert len(releases(lake.table("people"))) == published
    models = [e.detail["model_sha256"] for e in ledger.history("people") if e.event == "commit"]

    first, again = release_people(*task(1, 2))
    assert first["already"] is bool(published)
    assert again["sha256"] == first["sha256"]
    assert events(ledger) == COMMITTED
    assert [entry["sha256"] for entry in releases(lake.table("people"))] == [first["sha256"]] * 2
    booking = ledger.booking("people", first["key"])
    assert booking is not None
    assert booking.model_sha256 in (models or [booking.model_sha256])
    one, two = (  # the second replaces the first, whose rows stay for a while for those who are reading them
        read_release(lake.table("people"), entry["release_id"], entry["version"])
        for entry in releases(lake.table("people"))
    )
    assert one.equals(two)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_runs_that_measured_the_same_bytes_at_once_publish_one_answer(
    task: Callable[..., tuple[Any, ...]],
    ledger: BudgetLedger,
    monkeypatch: pytest.MonkeyPatch,
    processes: bool,
) -> None:
    """Only two processes commit the booking, and the two releases, at the same moment."""
    if processes:
        children = [Child(release_people, *task(week), at={"after_measure": MEET}) for week in (1, 2)]
        (one,), (two,) = at_once(*children)
    else:
        first: list[Any] = []
        arm("after_measure", lambda: first.extend(release_people(*task(1))), monkeypatch.setattr)
        (one,), (two,) = first, release_people(*task(2))
    assert one["sha256"] == two["sha256"]
    assert events(ledger) == COMMITTED
