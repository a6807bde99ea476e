"""Fragments of few records: the process of the caller works on them itself, as other processes would."""

import os
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import InfeasibleError
from privacy_engine.progress import advance, reporting_to
from tests.privacy_engine.engines.tables import Modulo, describe, infeasible, quoting, written


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return written(pa.table({"n": range(100)}), tmp_path, files=2)


def engine(spill: Path, here: int) -> LocalEngine:
    return LocalEngine(memory=500_000_000, spill=spill, processes=1, here=here)


def halfway(fragment: int, records: pa.Table) -> dict[str, int]:
    advance(0.5)
    return {"fragment": fragment}


@pytest.mark.slow  # starts a process
def test_few_records_are_worked_on_here_and_more_by_another_process(tmp_path: Path, paths: list[str]) -> None:
    with engine(tmp_path, here=2**20) as running:
        few = list(running.apply_by_fragment(paths, Modulo("n", 3), describe))
        assert not list(tmp_path.rglob("*fragment*/*"))
    with engine(tmp_path, here=500) as running:
        many = list(running.apply_by_fragment(paths, Modulo("n", 3), describe))
    assert {found["pid"] for found in few} == {os.getpid()}
    assert os.getpid() not in {found["pid"] for found in many}
    assert [{**found, "pid": 0} for found in few] == [
        {**found, "pid": 0} for found in sorted(many, key=lambda own: int(own["fragment"]))
    ]


def test_an_error_brings_no_frame_and_no_value(tmp_path: Path, paths: list[str]) -> None:
    with engine(tmp_path, here=2**20) as running:
        with pytest.raises(InfeasibleError, match=r"^50 rows cannot be 9-anonymous$") as ours:
            list(running.apply_by_fragment(paths, Modulo("n", 2), infeasible))
        with pytest.raises(RuntimeError, match="failed with KeyError") as other:
            list(running.apply_by_fragment(paths, Modulo("n", 2), quoting))
    for caught in (ours.value, other.value):
        assert caught.__cause__ is caught.__context__ is None
        message = "".join(traceback.format_exception(caught))
        assert "canary" not in message
        assert not {frame.name for frame in traceback.extract_tb(caught.__traceback__)} & {
            "infeasible",
            "quoting",
        }


def test_work_on_a_fragment_tells_no_progress(tmp_path: Path, paths: list[str]) -> None:
    shares: list[float] = []
    with engine(tmp_path, here=2**20) as running, reporting_to(shares.append):
        for _ in running.apply_by_fragment(paths, Modulo("n", 2), halfway):
            assert shares == []
    assert shares == [1.0]
