"""DAG runs that are attacked before anybody is asked: a leak stops the run, and no value leaves it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.dp.limits import Limit
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from tests.dags.conftest import POLICY
from tests.dags.officers import Officers
from tests.ledgers import new_ledger

# The disease is drawn at random, so the excess is 0 with an error of .07: five errors keep the upper end of
# its interval below the bound but for a chance of 1e-6. Recognizable people all differ from outsiders.
INFERENCE = {"model": "attack_risk", "attack": "inference", "excess": 0.5}
MEMBERSHIP = {"model": "attack_risk", "attack": "membership", "excess": 0.5}
N = 1000


@pytest.fixture(autouse=True)
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


def people(*, recognizable: bool) -> pd.DataFrame:
    """People whose disease nothing tells; of the recognizable ones a remark tells who they are."""
    rng = np.random.default_rng(6)
    return pd.DataFrame(
        {
            "name": [f"canary {i}" for i in range(N)],
            "age": rng.random(N) * 100,
            "town": rng.choice(["north", "south"], N),
            "disease": rng.choice(["cold", "flu", "gout"], N),
            "remark": [f"canary {i}" for i in range(N)] if recognizable else "a",
        }
    )


def write(home: Any, table: pd.DataFrame, rule: dict[str, Any]) -> None:
    home.write(
        table,
        policy={"require": [*POLICY["require"], rule]},
        release={"method": "mondrian", "k": 20, "l": 2, "seed": 7},
        approval={"required": True},
    )


@pytest.mark.slow  # a whole run; the order of tasks is tested without one
def test_a_release_is_attacked_before_it_is_approved(
    home: Any, run: Any, airflow_lake: Lake, officers: Officers, work_root: Path, curator: Path
) -> None:
    write(home, people(recognizable=False), INFERENCE)
    done = run("people")
    assert done.state == "success", done.tasks
    assert {"hold_out", "attack"} <= done.tasks.keys()
    report = [done.returned(task) for task in ("hold_out", "verify", "attack", "publish")]
    assert "canary" not in json.dumps(report)
    assert done.returned("publish")["rows"] == 900
    manifest = manifest_of(airflow_lake.table("people"), done.run_id)
    assert sum(f["rule"].startswith("attack_risk") for f in manifest["measured"]) == 1
    assert len(officers.seen) == 1
    assert "Attacks on this release" in officers.seen[0]["body"]
    assert len(list(curator.rglob("*.html"))) == 1
    assert not list(work_root.iterdir())


def test_a_release_that_leaks_is_never_asked_about(
    home: Any, run: Any, airflow_lake: Lake, officers: Officers, work_root: Path
) -> None:
    write(home, people(recognizable=True), MEMBERSHIP)
    done = run("people")
    assert done.state == "failed"
    assert done.tasks["verify"] == "success"
    assert done.tasks["attack"] == "failed"
    assert not officers.seen
    assert not releases(airflow_lake.table("people"))
    assert not list(work_root.iterdir())


@pytest.mark.slow  # the steps' own tests make shadows; only a run removes them
def test_a_private_release_is_attacked_by_shadows_that_are_not_booked_and_do_not_stay(
    home: Any, run: Any, airflow_lake: Lake, work_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    # More columns, by which planted records are found; the excess is 0 with an error of .07.
    rng, more = np.random.default_rng(7), [f"income_{i}" for i in range(3)]
    numeric = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 1], "bins": 4}
    home.write(
        people(recognizable=False).assign(**{column: rng.random(N) for column in more}),
        policy={
            "require": [MEMBERSHIP | {"excess": 0.7, "holdout": 0.5, "shadows": 4}],
            "max_epsilon": 1,
            "max_delta": 0,
        },
        columns={
            "town": {"categories": ["north", "south"]},
            "disease": {"categories": ["cold", "flu", "gout"]},
            "remark": {"categories": ["a"]},
            **dict.fromkeys(more, numeric),
        },
        release={"method": "latent_class", "epsilon": 1.0},
        budget={"dataset": "people", "curator_report": False},
    )
    done = run("people")
    assert done.state == "success", done.tasks
    (trial,) = done.returned("attack")["attacks"]["trials"]
    assert (trial["passed"], trial["shadows"]) == (True, 4)
    assert "outcomes" not in trial
    assert done.returned("publish")["rows"] == 500
    assert [e.event.value for e in ledger.check("people")] == ["grant", "reserve", "commit"]
    assert "shadow-" not in json.dumps([done.returned(task) for task in done.tasks])
    assert not list(work_root.iterdir())
