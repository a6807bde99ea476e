"""What leaves a task: what ran out or broke down is retried and says so; nothing quotes a cell."""

import os
import traceback
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import DeltaTable, write_deltalake

from airflow_privacy_release.task.errors import guarded
from privacy_engine.errors import CapacityError, EngineError, SchemaError
from tests.airflow_privacy_release.operators.test_operators import context

VAST = 1 << 62  # bytes that no machine has


class HungryOperator(BaseOperator):
    """Asks for more than there is, in the way that it is given."""

    def __init__(self, *, way: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.way = way

    @guarded
    def execute(self, context: Any) -> None:
        canary = "the secret cell"
        if self.way == "python":
            bytearray(VAST)
        elif self.way == "numpy":
            np.ones(VAST // 8)
        elif self.way == "arrow":
            pa.allocate_buffer(VAST)
        elif self.way == "duckdb":
            with duckdb.connect(config={"memory_limit": "10MB", "temp_directory": ""}) as database:
                database.sql("SELECT range, count(*) FROM range(5000000) GROUP BY range").fetchall()
        elif self.way == "disk":
            with Path("/dev/full").open("wb", buffering=0) as full:
                full.write(canary.encode())


def test_idle_threads_of_compiled_loops_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY")
    HungryOperator(task_id="content", way="").execute(context())
    assert os.environ["OMP_WAIT_POLICY"] == "passive"


@pytest.mark.parametrize("way", ["python", "numpy", "arrow", "duckdb"])
def test_too_little_memory_is_retried_and_says_what_to_do(way: str) -> None:
    with pytest.raises(CapacityError) as caught:
        HungryOperator(task_id="hungry", way=way).execute(context())
    assert not isinstance(caught.value, AirflowFailException)
    assert "HungryOperator must fit into memory, got " in str(caught.value)
    assert "engine fragments" in str(caught.value)
    assert caught.value.__context__ is None


def test_a_full_disk_is_retried_and_says_what_to_do() -> None:
    with pytest.raises(CapacityError, match="No space left on device; make space there") as caught:
        HungryOperator(task_id="hungry", way="disk").execute(context())
    assert "secret" not in "".join(traceback.format_exception(caught.value))


class QuotingOperator(BaseOperator):
    """Fails with an error of another library, or with one of Airflow that it caused."""

    def __init__(self, *, error: Exception, cause: Exception | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error
        self.cause = cause

    @guarded
    def execute(self, context: Any) -> None:
        raise self.error from self.cause


QUOTING = "the secret cell"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError(QUOTING), None),
        (KeyError(QUOTING), None),
        (OSError(QUOTING), None),
        (AirflowException("a step failed"), ValueError(QUOTING)),
        (SchemaError("age must be a number"), ValueError(QUOTING)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_and_no_cause_of_one_quotes_a_cell(error: Exception, cause: Exception | None) -> None:
    with pytest.raises(AirflowException) as caught:
        QuotingOperator(task_id="quoting", error=error, cause=cause).execute(context())
    assert "secret" not in "".join(traceback.format_exception(caught.value))


class BrokenOperator(BaseOperator):
    """Lets native code break down."""

    def __init__(self, *, folder: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder

    @guarded
    def execute(self, context: Any) -> None:
        rows = pa.table({"age": [1]})
        # An address that the Delta library breaks down over when it writes.
        table = DeltaTable.create(self.folder / "lake[1", rows.schema)
        write_deltalake(table, rows, mode="append")


def test_a_breakdown_of_native_code_is_retried_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"BrokenOperator ended in a breakdown \(panic\)") as caught:
        BrokenOperator(task_id="broken", folder=tmp_path).execute(context())
    assert "object store url" not in "".join(traceback.format_exception(caught.value))


class InterruptedOperator(BaseOperator):
    """Is stopped."""

    @guarded
    def execute(self, context: Any) -> None:
        raise KeyboardInterrupt


def test_what_ends_a_process_is_let_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        InterruptedOperator(task_id="interrupted").execute(context())
