"""Where machine code is kept, and what makes it stale. Each run is a process with a copy of the package."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from privacy_engine import compiled, kernel_digest

CALLEE = """
from privacy_engine.compiled import kernel

@kernel()
def constant() -> int:
    return 1
"""
CALLER = """
from privacy_engine.compiled import kernel
from privacy_engine.room.callee import constant

@kernel()
def doubled() -> int:
    return 2 * constant()
"""
DOUBLED = """
from privacy_engine.room.caller import doubled
print(doubled(), sum(doubled.stats.cache_hits.values()))
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A package that holds the module alone, and two functions in two files of which one calls the other."""
    room = tmp_path / "privacy_engine" / "room"
    room.mkdir(parents=True)
    for module in (compiled, kernel_digest):
        shutil.copy(str(module.__file__), room.parent)
    (room.parent / "__init__.py").touch()
    (room / "callee.py").write_text(CALLEE)
    (room / "caller.py").write_text(CALLER)
    return room.parent


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter with the package in ``folder``; it keeps no byte code, whose times are coarse."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_", "PYTHON"))}
    clean |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True, cwd=folder
    )


def kept(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.nb[ic]")}


def test_functions_that_nothing_can_be_kept_for_work_and_warn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(compiled, "_folders", lambda: (tmp_path / "file" / "kernels",))
    for name in ("cache_folder", "_warn_that_nothing_is_kept"):  # as in a new process
        monkeypatch.setattr(compiled, name, cache(getattr(compiled, name).__wrapped__))

    @compiled.kernel()
    def constant() -> int:
        return 1

    @compiled.kernel()
    def doubled() -> int:
        return 2 * constant()

    with pytest.warns(RuntimeWarning, match="set NUMBA_CACHE_DIR") as warned:
        assert doubled() == 2
    assert len(warned) == 1


@pytest.mark.slow  # the same in a process, whose folders are found
def test_a_package_that_nothing_can_be_kept_for_works_and_warns_once(engine: Path, tmp_path: Path) -> None:
    """Two functions are compiled, and one warning is enough."""
    # Not by permissions, which stop no superuser: a file lies where each folder would be.
    (engine / "__pycache__").touch()
    (tmp_path / "home").touch()
    done = run(DOUBLED, engine.parent, HOME=str(tmp_path / "home"))
    assert done.stdout.split() == ["2", "0"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert "set NUMBA_CACHE_DIR" in done.stderr


@pytest.mark.slow  # compiling twice costs time only
def test_a_second_process_compiles_nothing(engine: Path) -> None:
    first = run(DOUBLED, engine.parent)
    before = kept(engine / "__pycache__")
    second = run(DOUBLED, engine.parent)
    assert (first.stdout.split(), second.stdout.split()) == (["2", "0"], ["2", "1"])
    assert before
    assert kept(engine / "__pycache__") == before
    assert second.stderr == ""


def test_a_change_of_a_callee_in_another_file_makes_its_callers_stale(engine: Path) -> None:
    assert run(DOUBLED, engine.parent).stdout.split() == ["2", "0"]
    (engine / "room" / "callee.py").write_text(CALLEE.replace("return 1", "return 7"))
    assert run(DOUBLED, engine.parent).stdout.split() == ["14", "0"]


@pytest.mark.slow  # a stale kernel for nothing costs time only
def test_what_does_not_change_the_functions_makes_nothing_stale(engine: Path) -> None:
    run(DOUBLED, engine.parent)
    (engine / "room" / "callee.py").write_text('"""About this."""\nLIMIT = 1\n' + CALLEE)
    assert run(DOUBLED, engine.parent).stdout.split() == ["2", "1"]


@pytest.mark.slow  # the other form of import of a stale callee
def test_a_package_imported_as_a_whole_stands_for_all_its_modules(engine: Path) -> None:
    caller = engine / "room" / "caller.py"
    caller.write_text(
        CALLER.replace("room.callee import constant", "room import callee\nconstant = callee.constant")
    )
    run(DOUBLED, engine.parent)
    (engine / "room" / "callee.py").write_text(CALLEE.replace("return 1", "return 7"))
    assert run(DOUBLED, engine.parent).stdout.split() == ["14", "0"]


@pytest.mark.slow  # each place for kernels needs processes
def test_the_folder_that_is_named_is_taken(engine: Path, tmp_path: Path) -> None:
    run(DOUBLED, engine.parent, NUMBA_CACHE_DIR=str(tmp_path / "named"))
    assert kept(tmp_path / "named")
    assert not kept(engine)


@pytest.mark.slow  # as above
def test_where_the_package_cannot_be_written_the_users_cache_is_taken(engine: Path, tmp_path: Path) -> None:
    (engine / "__pycache__").touch()
    home = str(tmp_path / "home")
    assert run(DOUBLED, engine.parent, HOME=home).stdout.split() == ["2", "0"]
    assert kept(tmp_path / "home")
    assert run(DOUBLED, engine.parent, HOME=home).stdout.split() == ["2", "1"]


@pytest.mark.slow  # as above
def test_code_that_came_with_the_package_is_used_where_it_cannot_be_written(
    engine: Path, tmp_path: Path
) -> None:
    run(DOUBLED, engine.parent)
    read_only = "from privacy_engine import compiled; compiled._is_writable = lambda folder: False" + DOUBLED
    done = run(read_only, engine.parent, HOME=str(tmp_path / "home"))
    assert done.stdout.split() == ["2", "1"]
    assert done.stderr == ""


@pytest.mark.slow  # a race of processes
def test_processes_that_start_together_leave_whole_files(engine: Path) -> None:
    together = f"""
import subprocess, sys
started = [subprocess.Popen([sys.executable, "-c", {DOUBLED!r}]) for _ in range(3)]
assert not any(process.wait() for process in started)
"""
    run(together, engine.parent)
    assert run(DOUBLED, engine.parent).stdout.split() == ["2", "1"]


@pytest.mark.slow  # needs a process without other kernels
def test_a_literal_is_compiled_as_any_number_is(engine: Path) -> None:
    (engine / "room" / "literals.py").write_text("""
from privacy_engine.compiled import kernel

@kernel()
def same(number):
    return number

@kernel()
def sums(number):
    total = 0
    total += same(total) + same(-1)
    return total + same(number)
""")
    code = "from privacy_engine.room.literals import same, sums; print(sums(3), len(same.signatures))"
    assert run(code, engine.parent).stdout.split() == ["2", "1"]


@pytest.mark.slow  # compiles in a process
def test_python_may_not_call_what_only_compiled_functions_call(engine: Path) -> None:
    (engine / "room" / "callee.py").write_text(CALLEE.replace("kernel()", "kernel(inner=True)"))
    refused = (
        DOUBLED
        + """
from privacy_engine.room.callee import constant
try:
    constant()
except TypeError as error:
    print(error)
"""
    )
    for hits in "01":
        lines = run(refused, engine.parent).stdout.splitlines()
        assert lines[0] == f"2 {hits}"
        assert lines[1].startswith("only compiled functions may call constant")
