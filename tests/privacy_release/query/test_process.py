"""The process of a query: it ends with its time, memory or answer, or with who asked, and knows no secret."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import CapacityError
from privacy_release.lake.publish import publish
from privacy_release.lake.store import Lake
from privacy_release.query.answer import answer
from privacy_release.query.process import Limits, QueryProcess, QueryStoppedError, Stop
from privacy_release.query.rules import QueryError
from privacy_release.workarea.area import sha256_file
from tests.privacy_release.query.heavy_statements import FAMILIES, heavy_statements
from tests.waiting import wait_for, wait_for_end

ENDLESS = "SELECT count(*) FROM people, range(10000000) a, range(10000000) b"
TIGHT = Limits(seconds=0.3, size=5_000_000, memory=500_000_000)
MEGABYTE = 2**20


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with one small release, which was queried once."""
    folder = tmp_path_factory.mktemp("people")
    lake, staged, report = Lake(root=str(folder / "lake")), folder / "staged.parquet", folder / "report.html"
    pq.write_table(pa.table({"age": [30] * 4, "illness": ["flu", "cold"] * 2}), staged)
    report.write_text("<p>fine</p>")
    manifest = {"method": "mondrian", "measured": [], "loss": None}
    publish(lake.table("people"), "r1", staged, manifest, report, expected_sha256=sha256_file(staged))
    answer(lake, "FROM people")  # what a first query imports is no memory of a later one
    return lake


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[QueryProcess]:
    """The processes that are started while a test runs."""
    started: list[QueryProcess] = []
    enter = QueryProcess.__enter__

    def note(process: QueryProcess) -> QueryProcess:
        started.append(process)
        return enter(process)

    monkeypatch.setattr(QueryProcess, "__enter__", note)
    return started


def is_gone(process: QueryProcess) -> bool:
    """Whether it has been waited for, so that not even its number is left."""
    return process._process.returncode is not None and not psutil.pid_exists(process._process.pid)


def peak() -> int:
    """The most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# A process starts with the memory of the one that starts it on its account, so that one must be small.
PEAK = """
import resource, sys
from privacy_release.lake.store import Lake
from privacy_release.query.answer import answer
from privacy_release.query.process import Limits
from privacy_release.query.rules import QueryError

root, sql, *memory = sys.argv[1:]
limits = Limits(seconds=200, **{"memory": int(given) for given in memory})
try:
    answer(Lake(root=root), sql, limits=limits)
except QueryError as error:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, error)
"""


def peak_of_refused(lake: Lake, sql: str, *memory: int) -> int:
    """The most bytes that the process of a query has in memory, which is refused for that."""
    command = [sys.executable, "-c", PEAK, lake.root, sql, *map(str, memory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    most, _, error = done.partition(" ")
    assert "memory" in error or "while it read values" in error, done
    return int(most)


STATEMENTS = heavy_statements(120)


@pytest.mark.slow
@pytest.mark.parametrize("family", [family.__name__.strip("_") for family in FAMILIES])
def test_no_heavy_statement_outlives_its_deadline(
    people: Lake, processes: list[QueryProcess], family: str
) -> None:
    """120 of them, by family: no list of a few finds the statement that cannot be stopped."""
    before = peak()
    for sql in [sql for name, sql in STATEMENTS if name == family]:
        with suppress(QueryError):  # some are quick enough, or refused before they run
            answer(people, sql, limits=TIGHT)
        for process in processes:
            assert is_gone(process)
        processes.clear()
    assert peak() - before < 100 * MEGABYTE


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(i) FROM people, range(1000000000) t(i)",
        # Other ways to take it; the limits themselves are compared below.
        pytest.param("SELECT max(length(repeat('x', 4000000000))) FROM people", marks=pytest.mark.slow),
        pytest.param("SELECT len(list_sort(range(900000000, 0, -1))) FROM people", marks=pytest.mark.slow),
    ],
)
def test_query_that_takes_all_memory_is_refused_and_costs_the_caller_none(
    people: Lake, processes: list[QueryProcess], sql: str
) -> None:
    before = peak()
    with pytest.raises(QueryError, match=r"memory|while it read values"):
        answer(people, sql, limits=Limits(memory=200_000_000, seconds=200))
    assert all(map(is_gone, processes))
    assert peak() - before < 50 * MEGABYTE


@pytest.mark.slow  # a process that takes its memory
def test_a_query_ends_below_its_limit_and_below_a_gigabyte_by_default(people: Lake) -> None:
    sql = "SELECT list(i) FROM people, range(1000000000) t(i)"
    assert 200_000_000 < peak_of_refused(people, sql, 200_000_000) < 500 * MEGABYTE
    assert 500 * MEGABYTE < peak_of_refused(people, sql) < 1_000_000_000


@pytest.mark.quick("arrow")  # a process each; the limit is counted before the form is made
@pytest.mark.parametrize(
    ("form", "sql"),
    [
        ("arrow", "SELECT repeat('x', 100000) FROM people, range(4)"),
        ("csv", "SELECT repeat('x', 100000) FROM people, range(4)"),
        ("json", "SELECT list(true) FROM people, range(40000)"),
    ],
)
def test_answer_of_too_many_bytes_is_refused_before_it_is_held(
    people: Lake, processes: list[QueryProcess], sql: str, form: str
) -> None:
    before = peak()
    with pytest.raises(QueryError, match=r"at most 100,000 bytes"):
        answer(people, sql, form=form, limits=Limits(size=100_000, seconds=200))
    assert all(map(is_gone, processes))
    assert peak() - before < 50 * MEGABYTE


def test_answer_as_large_as_it_may_be_is_given(people: Lake) -> None:
    given = answer(people, "SELECT repeat('x', 9) AS x FROM people", form="csv", limits=Limits(size=42))
    assert given.data == b"x\n" + 4 * b"xxxxxxxxx\n"
    assert (given.count, given.columns) == (4, ("x",))
    with pytest.raises(QueryError, match="at most 41 bytes"):
        answer(people, "SELECT repeat('x', 9) AS x FROM people", form="csv", limits=Limits(size=41))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1 FROM people" + " " * 100_000, "at most 100,000 characters, got 100,020"),
        (f"SELECT {'(' * 101}1{')' * 101} FROM people", "100 deep at most, got 101"),
        (f"SELECT {'[(' * 60}1{')]' * 60} FROM people", "100 deep at most, got 120"),
        ("SELECT '\ud800' FROM people", "UTF-8"),
    ],
)
def test_query_that_a_parser_should_not_see_is_refused_without_a_process(
    people: Lake, processes: list[QueryProcess], sql: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        answer(people, sql)
    assert not processes


def test_brackets_in_text_and_names_are_no_depth(people: Lake) -> None:
    brackets = "(" * 500
    sql = f"SELECT '{brackets}''{brackets}' AS \"{brackets}\" -- {brackets}\nFROM people LIMIT 1"
    assert answer(people, sql, form="csv").data.decode().splitlines()[1] == f"{brackets}'{brackets}"


def test_process_has_no_variable_file_or_limit_that_it_does_not_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PRIVACY_SECRET", "of the service")
    limits = Limits(memory=300_000_000, seconds=5)
    with (tmp_path / "records").open("w") as opened, QueryProcess(limits, Stop()) as process:
        os.set_inheritable(opened.fileno(), True)
        process.tables_of("FROM people", "csv")
        child = psutil.Process(process._process.pid)
        assert not {"PRIVACY_SECRET", "HOME", "AIRFLOW_HOME", "PATH"} & set(child.environ())
        assert not child.open_files()
        assert not child.net_connections()
        assert child.cwd() == "/"
        assert os.getsid(child.pid) == child.pid
        assert child.rlimit(psutil.RLIMIT_DATA) == (600_000_000,) * 2
        assert child.rlimit(psutil.RLIMIT_AS) == (1_800_000_000,) * 2
        assert child.rlimit(psutil.RLIMIT_FSIZE) == child.rlimit(psutil.RLIMIT_CORE) == (0, 0)
        assert 0 < child.rlimit(psutil.RLIMIT_CPU)[1] < 60
    assert is_gone(process)


@pytest.fixture
def once_it_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[QueryProcess], object]], None]:
    """What another thread does as soon as a process has got its query."""
    send = QueryProcess._send

    def set_up(act: Callable[[QueryProcess], object]) -> None:
        def sent(process: QueryProcess, **words: object) -> None:
            send(process, **words)
            if "tables" in words:
                other = threading.Thread(target=act, args=(process,))
                other.start()
                other.join()

        monkeypatch.setattr(QueryProcess, "_send", sent)

    return set_up


def test_query_is_ended_by_another_thread(
    people: Lake, processes: list[QueryProcess], once_it_runs: Callable[..., None]
) -> None:
    stop = Stop()
    once_it_runs(lambda process: stop.set())
    with pytest.raises(QueryStoppedError):
        answer(people, ENDLESS, limits=Limits(seconds=300), stop=stop)
    assert all(map(is_gone, processes))


def test_query_that_was_stopped_before_it_began_does_not_begin(
    people: Lake, processes: list[QueryProcess]
) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(QueryStoppedError):
        answer(people, "FROM people", stop=stop)
    assert not processes


def test_process_that_dies_is_reported_as_the_querys_end(
    people: Lake, processes: list[QueryProcess], once_it_runs: Callable[..., None]
) -> None:
    once_it_runs(lambda process: os.kill(process._process.pid, signal.SIGSEGV))
    with pytest.raises(QueryError, match="process ended"):
        answer(people, ENDLESS, limits=Limits(seconds=300))
    assert all(map(is_gone, processes))


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/program"])
def test_machine_on_which_no_process_starts_is_reported(
    people: Lake, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(CapacityError, match="process of a query must start"):
        answer(people, "FROM people")


@pytest.fixture
def asker(people: Lake) -> Iterator[subprocess.Popen[bytes]]:
    """A process that asks a query without end."""
    code = (
        "from privacy_release.lake.store import Lake\n"
        "from privacy_release.query.answer import Limits, answer\n"
        f"answer(Lake(root={people.root!r}), {ENDLESS!r}, limits=Limits(seconds=3000))"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root) as process:
        yield process
        process.kill()


@pytest.mark.slow  # only a process that is killed leaves a query to itself
def test_querys_process_ends_with_the_one_that_asked(asker: subprocess.Popen[bytes]) -> None:
    def child_of(parent: psutil.Process) -> list[psutil.Process]:
        assert asker.poll() is None
        return parent.children()

    children = wait_for(lambda: child_of(psutil.Process(asker.pid)), "the process of the query")
    # More than its start and parsing take.
    wait_for(lambda: sum(children[0].cpu_times()[:2]) > 2, "a query at work")
    asker.kill()
    wait_for_end(children)
