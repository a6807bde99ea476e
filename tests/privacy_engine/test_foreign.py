"""Memory or disk that ran out, and native code that broke down, are said as such; all of it for real."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pytest

from privacy_engine.errors import CapacityError, EngineError
from privacy_engine.foreign import translated

ROOT = Path(__file__).parents[2]
# What has to run in a separate process: it may take 250 MB more than it has, and tells what was raised.
LIMITED = """
import json, resource, sys
import duckdb, numpy as np, pyarrow as pa, pyarrow.parquet as pq
from pathlib import Path
from privacy_engine.foreign import translated
from privacy_engine.engines.parquet import batches
from privacy_release.sources.addresses import find_source
from privacy_release.sources.records import tables_of
from privacy_release.sources.reading import check_source
pa.set_cpu_count(1)
file = Path(sys.argv[1])
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 250_000_000,) * 2)
try:
    {work}
except Exception as error:
    ours = translated(error, "the work") or error
    print(json.dumps([type(error).__name__, type(ours).__name__, str(ours)]))
"""
WORK = {
    "python": 'bytes(10**9)',
    "numpy": "np.ones(10**9)",
    "arrow": "pa.allocate_buffer(10**9)",
    "a large page, by the engine": "list(batches([str(file)]))",
    "a large page, from a source": 'with file.open("rb") as s: list(tables_of(s, file.name, ["text"]))',
}  # fmt: skip


def raised(work: str, file: Path) -> list[str]:
    """What a process raised that had too little memory: its type, the type of ours, and its message."""
    script = LIMITED.replace("{work}", work)
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file with a page of 300 MB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("large") / "people.parquet"
    # Plain, so that one value fills the page.
    rows = pa.table({"text": ["x" * 300_000_000]})
    pq.write_table(rows, path, compression="zstd", use_dictionary=False, write_statistics=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_too_little_memory_is_said_as_such_with_a_remedy(work: str, large: Path) -> None:
    _, ours, message = raised(work, large)
    assert ours == "CapacityError"
    assert "must fit into memory" in message
    assert "engine fragments" in message
    assert "xxxx" not in message


def test_an_arrow_array_that_grows_too_large_is_a_matter_of_memory() -> None:
    import pyarrow as pa

    with pytest.raises(pa.ArrowException) as caught:
        pa.array([memoryview(bytes(2**31))], pa.binary())  # more than an array can address
    assert isinstance(translated(caught.value, "people.parquet"), CapacityError)


def test_duckdb_at_its_limit_is_a_matter_of_memory() -> None:
    import duckdb

    with (
        duckdb.connect(config={"memory_limit": "10MB", "temp_directory": ""}) as database,
        pytest.raises(duckdb.Error) as caught,
    ):
        database.sql("SELECT range, count(*) FROM range(5000000) GROUP BY range").fetchall()
    assert isinstance(translated(caught.value, "counting"), CapacityError)


@pytest.mark.slow
def test_a_process_of_a_pool_that_the_system_killed_is_a_matter_of_memory() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(BrokenProcessPool) as caught:
            pool.submit(signal.raise_signal, signal.SIGKILL).result()
        assert isinstance(translated(caught.value, "the command"), CapacityError)


def test_a_breakdown_of_native_code_is_reported_by_its_type_and_place_alone(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    rows = pa.table({"age": [1]})
    # An address that the Delta library breaks down over when it writes.
    table = DeltaTable.create(tmp_path / "canary[1", rows.schema)
    with pytest.raises(BaseException, match="object store") as caught:
        write_deltalake(table, rows, mode="append")
    assert not isinstance(caught.value, Exception)
    ours = translated(caught.value, "writing the table")
    assert isinstance(ours, EngineError)
    assert "writing the table ended in a breakdown (panic) of a native library" in str(ours)
    assert "got pyo3_runtime.PanicException at writer/writer.py:" in str(ours)
    assert "canary" not in str(ours)
    assert "object store" not in str(ours)


@pytest.mark.parametrize("error", [KeyError("a"), OSError(13, "a"), KeyboardInterrupt(), CapacityError("a")])
def test_other_errors_are_left_to_others(error: BaseException) -> None:
    assert translated(error, "the work") is None
