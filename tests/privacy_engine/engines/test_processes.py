"""Work in other processes: what dies is done again, failures quote no cell, nothing stays behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from privacy_engine.engines.local import LocalEngine
from privacy_engine.engines.processes import process_count, run_apart
from privacy_engine.errors import CapacityError, InfeasibleError
from tests.privacy_engine.engines import tables
from tests.privacy_engine.engines.compiling import compiling
from tests.privacy_engine.engines.tables import (
    Endless,
    KilledOnce,
    Modulo,
    describe,
    infeasible,
    quoting,
    threads,
    written,
)
from tests.waiting import wait_for, wait_for_end

ROOT = Path(__file__).parents[3]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return written(pa.table({"n": range(100)}), tmp_path, files=2)


@pytest.fixture
def engine(spill: Path) -> Iterator[LocalEngine]:
    """It must leave nothing: no file and no process."""
    with LocalEngine(memory=500_000_000, spill=spill, processes=2) as engine:
        yield engine
        (own,) = spill.iterdir()
        assert not [path for path in own.rglob("*") if path.is_file()]
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def test_each_fragment_is_worked_on_once_in_a_process_without_the_memory_of_its_parent(
    engine: LocalEngine, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "IN_MEMORY", ["records of another release"])
    found = sorted(engine.apply_by_fragment(paths, Modulo("n", 7), describe), key=lambda f: f["fragment"])
    assert [(f["fragment"], f["first"]) for f in found] == [(i, i) for i in range(7)]
    assert sum(f["rows"] for f in found) == 100
    assert os.getpid() not in {f["pid"] for f in found}
    assert not any(f["memory"] for f in found)


@pytest.mark.slow  # needs more fragments than one process works on
def test_a_process_ends_after_some_fragments_and_another_goes_on(spill: Path, paths: list[str]) -> None:
    with LocalEngine(memory=500_000_000, spill=spill, processes=1) as engine:
        found = list(engine.apply_by_fragment(paths, Modulo("n", 20), describe))
    assert sorted(f["fragment"] for f in found) == list(range(20))
    assert len({f["pid"] for f in found}) == 2


def test_without_records_there_is_no_fragment(engine: LocalEngine, tmp_path: Path) -> None:
    paths = written(pa.table({"n": pa.array([], pa.int64())}), tmp_path, name="empty")
    assert list(engine.apply_by_fragment(paths, Modulo("n", 3), describe)) == []


def test_a_process_that_is_killed_is_replaced_and_its_fragment_done_again(
    spill: Path, paths: list[str], tmp_path: Path
) -> None:
    with LocalEngine(memory=500_000_000, spill=spill, processes=1) as engine:
        found = list(engine.apply_by_fragment(paths, Modulo("n", 5), KilledOnce(tmp_path, fragment=2)))
    assert (tmp_path / "killed").exists()
    assert sorted((f["fragment"], f["rows"]) for f in found) == [(i, 20) for i in range(5)]


@pytest.mark.slow  # kills a process after the other
def test_a_fragment_that_kills_every_process_is_an_error(
    engine: LocalEngine, paths: list[str], tmp_path: Path
) -> None:
    work = KilledOnce(tmp_path, fragment=2, always=True)
    with pytest.raises(
        CapacityError, match=r"2 processes that worked on fragment 2 ended with SIGKILL. Memory"
    ):
        list(engine.apply_by_fragment(paths, Modulo("n", 5), work))


@pytest.mark.slow  # that of other errors, of which only the type may come, is quick
def test_our_own_errors_come_as_they_are(engine: LocalEngine, paths: list[str]) -> None:
    with pytest.raises(InfeasibleError, match=r"^50 rows cannot be 9-anonymous$") as caught:
        list(engine.apply_by_fragment(paths, Modulo("n", 2), infeasible))
    assert caught.value.__cause__ is None


def test_of_other_errors_only_the_type_comes(spill: Path, paths: list[str]) -> None:
    with (
        LocalEngine(memory=500_000_000, spill=spill, processes=1) as engine,
        pytest.raises(RuntimeError, match="failed with KeyError") as caught,
    ):
        list(engine.apply_by_fragment(paths, Modulo("n", 2), quoting))
    assert "canary" not in repr(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.slow  # only a separate process has all that its children write
def test_nothing_of_a_child_is_written_to_the_log(tmp_path: Path) -> None:
    written(pa.table({"n": range(4)}), tmp_path)
    done = subprocess.run(script(tmp_path, "quoting"), capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout + done.stderr == "error\n"


def script(folder: Path, work: str, then: str = "") -> list[str]:
    """A process that has work done on two fragments of a table."""
    code = f"""
import sys
from pathlib import Path
from privacy_engine.engines.local import LocalEngine
from tests.privacy_engine.engines.tables import *
folder = Path(sys.argv[1])
try:
    with LocalEngine(memory=500_000_000, spill=folder, processes=2) as engine:
        list(engine.apply_by_fragment([str(folder / "part-0.parquet")], Modulo("n", 3), {work}))
except Exception:
    print("error")
"""
    return [sys.executable, "-c", code, str(folder)]


@pytest.mark.slow  # work that never ends shows that its processes are ended
def test_processes_end_with_a_caller_that_wants_no_more(
    engine: LocalEngine, paths: list[str], tmp_path: Path
) -> None:
    results = engine.apply_by_fragment(paths, Modulo("n", 2), Endless(tmp_path))
    assert next(results) == {"fragment": 0}
    results.close()  # the engine's fixture looks for what is left


@pytest.mark.slow  # kills a process that has others
@pytest.mark.skipif(not hasattr(signal, "pause"), reason="work that waits needs signals")
def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    written(pa.table({"n": range(100)}), tmp_path)
    parent = subprocess.Popen(script(tmp_path, "Endless(folder)"), cwd=ROOT)
    try:
        wait_for(
            lambda: len(list(tmp_path.glob("pid-*"))) == 2 or parent.poll() is not None,
            "work on both fragments",
        )
        assert parent.poll() is None
    finally:
        parent.kill()
        parent.wait()
    children = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    wait_for_end([psutil.Process(child) for child in children if psutil.pid_exists(child)])


def squared(number: int) -> dict[str, int]:
    """The work on a part."""
    return {"square": number**2, "pid": os.getpid()}


def within(pipe: Connection) -> None:
    """What a daemon does: it has work done apart, and tells what that gave, and what it is."""
    found = dict(run_apart(squared, range(3), 2, "part"))
    pipe.send(({n: reported["square"] for n, reported in found.items()}, current_process().daemon))


@pytest.mark.slow  # a daemon is a separate process
def test_a_daemon_has_work_done_in_other_processes_as_a_worker_of_celery_is_one() -> None:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    daemon = context.Process(target=within, args=(theirs,), daemon=True)
    daemon.start()
    theirs.close()
    assert ours.recv() == ({0: 0, 1: 1, 2: 4}, True)
    daemon.join()


@pytest.mark.slow  # needs a process for each core
def test_a_child_keeps_to_its_share_of_the_cores(spill: Path, paths: list[str]) -> None:
    cores = len(os.sched_getaffinity(0))
    with LocalEngine(memory=500_000_000, spill=spill, processes=cores) as engine:
        for found in engine.apply_by_fragment(paths, Modulo("n", cores), threads):
            assert (found["numba"], found["arrow"]) == (1, 1)
            assert set(found["pools"]) <= {1}


@pytest.mark.slow  # compiles in each process
def test_a_child_that_knew_numba_before_compiles_in_its_share_of_the_cores(
    engine: LocalEngine, paths: list[str]
) -> None:
    found = list(engine.apply_by_fragment(paths, Modulo("n", 2), compiling))
    assert {f["threads"] for f in found} == {max(1, len(os.sched_getaffinity(0)) // 2)}
    assert sorted(f["next"] for f in found) == [1, 2]


def test_there_are_as_many_processes_as_wanted_or_as_cores() -> None:
    assert process_count(1) == 1
    assert 1 <= process_count(None) <= len(os.sched_getaffinity(0))
    assert process_count(10**6) < 10**6  # memory sets a limit
