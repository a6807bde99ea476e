"""Which task of a release follows which, and what history the tasks are given, without a run."""

from collections.abc import Callable
from typing import Any

from tests.dags.conftest import POLICY

INFERENCE = {"model": "attack_risk", "attack": "inference", "excess": 0.5}
DOMAINS = {
    "town": {"categories": ["north", "south"]},
    "disease": {"categories": ["cold", "flu", "gout"]},
    "remark": {"categories": ["a"]},
}


def before(dag: Any) -> dict[str, set[str]]:
    """The tasks that each task waits for."""
    return {task.task_id: task.upstream_task_ids for task in dag.tasks}


def test_nothing_is_published_before_it_is_verified_attacked_and_approved(
    home: Any, load: Callable[..., Any]
) -> None:
    home.write(
        policy={"require": [*POLICY["require"], INFERENCE]},
        transform={"sql": "SELECT * FROM records"},
        outliers={"method": "okplof", "action": "report"},
        approval={"required": True},
        publish={"table": "people", "evidence": True},
    )
    dag = load("people").dags["people"]
    assert before(dag) == {
        "ingest": set(),
        "validate": {"ingest"},
        "transform": {"validate"},
        "detect_outliers": {"transform"},
        "hold_out": {"detect_outliers"},
        "release": {"hold_out"},
        "verify": {"release"},
        "attack": {"hold_out", "release", "verify"},
        "approve": {"attack", "release"},
        "publish": {"approve", "attack", "release"},
        "evidence": {"publish"},
        "cleanup": {"evidence", "publish"},
        "done": {"evidence", "publish"},
    }
    assert [task.task_id for task in dag.tasks if task.is_teardown] == ["cleanup"]


def test_a_private_release_asks_for_its_budget_before_it_reads_its_source(
    home: Any, load: Callable[..., Any]
) -> None:
    home.write(
        columns=DOMAINS,
        policy={"max_epsilon": 1},
        release={"method": "latent_class", "epsilon": 1.0},
        budget={"dataset": "people"},
    )
    assert before(load("people").dags["people"]) == {
        "budget": set(),
        "ingest": {"budget"},
        "validate": {"ingest"},
        "release": {"validate"},
        "verify": {"release"},
        "publish": {"release", "verify"},
        "curator_report": {"release", "validate"},
        "cleanup": {"curator_report", "publish"},
        "done": {"curator_report", "publish"},
    }


def test_a_release_with_a_history_is_read_and_made_with_it(home: Any, load: Callable[..., Any]) -> None:
    home.write(
        policy={"require": POLICY["require"][:1], "repeated_people": "history"},
        release={"method": "mondrian", "k": 10, "l": 2, "seed": 7},
        history={"identifier": "name", "key": "history_key", "m": {"disease": 2}},
    )
    dag = load("people").dags["people"]
    made, read = dag.get_task("release").history, dag.get_task("ingest")
    assert (made["m"], made["policy"]) == ({"disease": 2}, dag.get_task("verify").policy)
    assert (read.person, read.membership_key) == ("name", "history_key")
