"""Waiting for a state: the only deadline of the tests.

It ends a test that waits in vain and says nothing about speed: a busy machine reaches the state in time too.
"""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

T = TypeVar("T")
DEADLINE = 600  # seconds; shorter than what pytest allows a test, so that the failure says what was awaited
# Airflow's own deadlines, which are 5 to 50 s: on a busy machine it gives up tasks, DAGs and its own parts.
AIRFLOW_DEADLINES = dict.fromkeys(
    (
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT",
        "AIRFLOW__DAG_PROCESSOR__HEALTH_CHECK_THRESHOLD",
        "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD",
    ),
    str(DEADLINE),
) | {"AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60"}  # of one request, which is then made again


def wait_for(
    condition: Callable[[], T],
    what: str,
    *,
    detail: Callable[[], object] = lambda: "",
    every: float = 0.05,
) -> T:
    """Evaluate a condition until it holds, and return its value.

    Args:
        condition: It holds once its value is true. An exception from it ends the wait, for states in which
            waiting is in vain.
        what: The state, for the failure.
        detail: More for the failure, such as the end of a log.
        every: Seconds between two evaluations.
    """
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"Waited {DEADLINE} s for {what}. {detail()}")
        time.sleep(every)
    return value


def wait_for_end(processes: Iterable[psutil.Process]) -> None:
    """Wait until all of these processes have ended, children of this process or not."""
    wait_for(lambda: not psutil.wait_procs(processes, timeout=0)[1], f"the end of {processes}")
