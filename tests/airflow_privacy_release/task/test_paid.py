"""A DAG that pays from a budget is known by any of its tasks, also where they are mapped."""

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, task

from airflow_privacy_release import IngestParquetOperator, ReleaseOperator
from airflow_privacy_release.task.paid import is_paid
from tests.airflow_privacy_release.operators.test_operators import SCHEMA

SET = {"method": "privbayes", "policy": {"max_epsilon": 1}}


def plainly(table: Any) -> None:
    ReleaseOperator(task_id="release", table=table, budget="people", **SET)


def mapped_over_a_parameter(table: Any) -> None:
    release = ReleaseOperator.partial(task_id="release", table=table, budget="people", **SET)
    release.expand(parameters=[{"epsilon": 0.5}, {"epsilon": 1}])


def mapped_over_budgets(table: Any) -> None:
    ReleaseOperator.partial(task_id="release", table=table, **SET).expand(budget=["people", "visits"])


def mapped_over_mappings(table: Any) -> None:
    ReleaseOperator.partial(task_id="release", table=table, **SET).expand_kwargs([{"budget": "people"}])


def mapped_over_what_a_task_returns(table: Any) -> None:
    @task
    def listed() -> list[dict[str, str]]:
        return [{"budget": "people"}]

    ReleaseOperator.partial(task_id="release", table=table, **SET).expand_kwargs(listed())


def without_a_budget(table: Any) -> None:
    @task
    def printed(number: int) -> None:
        del number

    printed.expand(number=[1, 2])
    printed.override(task_id="again").expand_kwargs([{"number": 1}])
    release = ReleaseOperator.partial(task_id="release", table=table, method="mondrian")
    release.expand(parameters=[{"k": 5}, {"k": 10}])


def first_task(release: Callable[[Any], None]) -> BaseOperator:
    with DAG("people", schedule=None):
        raw = IngestParquetOperator(task_id="ingest", uri="people.parquet", schema=SCHEMA)
        release(raw.output)
    return raw


@pytest.mark.parametrize(
    "release",
    [
        plainly,
        mapped_over_a_parameter,
        mapped_over_budgets,
        mapped_over_mappings,
        mapped_over_what_a_task_returns,
    ],
)
def test_a_budget_of_any_task_keeps_counts_out_of_all_of_them(release: Callable[[Any], None]) -> None:
    assert is_paid(first_task(release))


def test_a_dag_without_a_budget_shows_its_counts() -> None:
    assert not is_paid(first_task(without_a_budget))
