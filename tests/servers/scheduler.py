"""What Airflow's scheduler has heard, read from its log: the API does not tell."""

from pathlib import Path


def has_left_its_worker(log: Path, task_id: str, run_id: str) -> bool:
    """Whether the scheduler knows that the worker of a waiting task is done with it.

    A task that goes on before, because an answer came at once, is taken for one whose worker was lost:
    Airflow fails it ("state mismatch"), and its retry asks again.
    """
    heard = [line for line in log.read_text(errors="replace").splitlines() if "with state success" in line]
    return any(f"task_id='{task_id}'" in line and f"run_id='{run_id}'" in line for line in heard)
