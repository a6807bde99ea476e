"""What the scheduler knows of a release: schedule, asset, and who follows whom."""

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import ParamValidationError
from sqlalchemy import select


@pytest.mark.slow  # two whole runs
def test_a_release_follows_another_by_its_asset(
    home: Any, run: Callable[[str], Any], load: Callable[..., Any]
) -> None:
    from airflow.models.asset import AssetDagRunQueue, AssetEvent
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    home.write(name="follower", schedule={"asset": "people"})
    load()
    with create_session() as session:
        for dag in session.scalars(select(DagModel)):
            dag.is_paused = False
    assert run("people").state == "success"
    with create_session() as session:
        event = session.scalars(select(AssetEvent).order_by(AssetEvent.id.desc())).first()
        assert event.source_dag_id == "people"
        assert (event.extra["table"], event.extra["rows"], event.extra["k"]) == ("people", 120, 5)
        queued = session.scalars(select(AssetDagRunQueue.target_dag_id)).all()
    assert "follower" in queued


def test_a_release_by_partition_gets_partition_runs_and_so_does_its_follower(
    home: Any, load: Callable[..., Any]
) -> None:
    home.write(name="daily", schedule={"partitions": "0 0 * * *"})
    home.write(name="after_daily", schedule={"asset": "daily"})
    home.write(name="after_both", schedule={"assets": ["daily", "people"]})
    dags = load().dags
    assert type(dags["daily"].timetable).__name__ == "CronPartitionTimetable"
    assert type(dags["after_daily"].timetable).__name__ == "PartitionedAssetTimetable"
    assert type(dags["after_both"].timetable).__name__ == "AssetTriggeredTimetable"


@pytest.mark.parametrize("schedule", ["@weekly", "15 3 * * 1", None])
def test_a_cron_schedule_is_taken_as_it_is(home: Any, load: Callable[..., Any], schedule: str | None) -> None:
    home.write(schedule=schedule)
    assert load("people").dags["people"].schedule == schedule


def test_the_asset_of_a_release_names_its_table(home: Any, load: Callable[..., Any]) -> None:
    (asset,) = load("people").dags["people"].get_task("publish").outlets
    assert asset == Asset(name="people", uri="lake://lake_default/people", group="releases")


def test_a_parameter_of_the_method_can_be_chosen_for_one_run(home: Any, load: Callable[..., Any]) -> None:
    dag = load("people").dags["people"]
    assert dag.params["k"] == 5
    assert dag.get_task("release").parameters["k"] == "{{ params.k }}"


def test_the_form_says_what_a_parameter_means_and_takes_none_that_the_policy_refuses(
    home: Any, load: Callable[..., Any]
) -> None:
    home.write(release={"method": "mondrian", "k": 8, "suppression_limit": 0.01})
    requested = load("people").dags["people"].params.get_param("k")
    assert "Least number of persons in a class" in requested.schema["description_md"]
    assert requested.resolve(5) == 5
    with pytest.raises(ParamValidationError, match="4 is less than the minimum of 5"):
        requested.resolve(4)
    home.write(
        release={"method": "mondrian", "k": 3}
    )  # verification refuses it; the DAG is there to be fixed
    assert "minimum" not in load("people").dags["people"].params.get_param("k").schema


def test_the_steps_of_a_release_stand_in_its_graph_and_in_no_group(
    home: Any, load: Callable[..., Any]
) -> None:
    dag = load("people").dags["people"]
    assert {"ingest", "release", "verify", "publish", "cleanup"} <= set(dag.task_ids)
    assert not dag.task_group.children.keys() - set(dag.task_ids)
