"""Sessions that the tests of a module share: to start one takes longer than most tests."""

import secrets
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.engines.spark import SparkEngine
from privacy_release.workarea.remote.keys import Wrapping
from privacy_release.workarea.remote.parts import dealt_out
from privacy_release.workarea.remote.store import Store
from privacy_release.workarea.spark_session import SparkCluster
from tests.servers.spark_cluster import CONF, Standalone, connect_server, require_spark, standalone_cluster
from tests.spark.work import CANARY

MEMORY = 1 << 30


@pytest.fixture(scope="module")
def local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """The engine on two cores of this machine; few entries a part, so that there are several."""
    require_spark()
    spill = tmp_path_factory.mktemp("local")
    with SparkCluster(master="local[2]", conf=CONF).session(spill, MEMORY) as session:
        yield SparkEngine(session, entries=100)


@pytest.fixture(scope="module")
def dealt_spark(local_spark: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """The same session, which gets the records in encrypted parts of fifty."""
    wrapping = Wrapping(secrets.token_bytes(32), "a test")
    store = Store(root=f"file://{tmp_path_factory.mktemp('store')}", wrapping=wrapping)
    with dealt_out(store.of("people/run"), rows=50) as parts:
        yield SparkEngine(local_spark._session, entries=100, parts=parts)


@pytest.fixture(scope="module", params=["files", "parts"])
def spark(request: pytest.FixtureRequest, local_spark: SparkEngine, dealt_spark: SparkEngine) -> SparkEngine:
    """Executors that read the files, and executors that open parts of them."""
    return local_spark if request.param == "files" else dealt_spark


@pytest.fixture(scope="module")
def connected_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """The engine as a client of a Spark Connect server."""
    require_spark()
    spill = tmp_path_factory.mktemp("connect")
    with (
        connect_server(spill) as address,
        SparkCluster(master=address).session(spill, MEMORY) as session,
    ):
        yield SparkEngine(session)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers, which know a secret."""
    require_spark()
    with standalone_cluster(
        tmp_path_factory.mktemp("cluster"), workers=2, secret=secrets.token_hex(16)
    ) as running:
        yield running


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A table in three files, one of them empty, in a folder whose name looks like a pattern and a scheme."""
    folder = tmp_path_factory.mktemp("files") / "run: 1+[x] %20{é}"
    folder.mkdir()
    table = awkward(np.random.default_rng(7), 300)
    parts = [table.slice(0, 120), table.slice(120, 0), table.slice(120)]
    paths = [folder / f"part {i}.parquet" for i in range(len(parts))]
    for part, path in zip(parts, paths, strict=True):
        pq.write_table(part, path, store_schema=False, row_group_size=50)
    return [str(path) for path in paths]


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """300 records in one file: a number each, and a city."""
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    numbers = np.arange(300)
    cities = np.array([CANARY, "Köln"])[numbers % 2]
    pq.write_table(pa.table({"number": numbers, "city": cities}), path, store_schema=False)
    return [str(path)]


def awkward(rng: np.random.Generator, n: int) -> pa.Table:
    """Nulls, NaN and both zeros; names that differ in case alone, or hold a dot, a quote or a space."""

    def some(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in rng.integers(0, len(values), n)], kind)

    days = [None, 0, -700_000]  # the last is in the year 53
    return pa.table(
        {
            "number": pa.array(range(n), pa.int64()),
            "Age": some([None, 1, 2, 255], pa.uint8()),
            "age": some([None, float("nan"), 0.0, -0.0, 1.5], pa.float64()),
            "zip.code `x`": some([None, "", "1 0", "NULL", "nan"], pa.string()),
            "city": some([None, CANARY, "Köln"], pa.string()),
            "flag": some([None, True, False], pa.bool_()),
            "day": some(days, pa.date32()),
            "moment": some([None, 0, 1_700_000_000_123], pa.timestamp("ms")),
            "zoned": some([None, 0, 1_700_000_000_123_456], pa.timestamp("us", "UTC")),
            "short": some([float("nan"), None, 0.0, -0.0, 2.5], pa.float32()),
            "large": some([None, 2**64 - 1, 0], pa.uint64()),
            "price": some([None, "1.10", "1.1"], pa.string()).cast(pa.decimal128(9, 2)),
            "empty": pa.nulls(n),
            "illness": some([None, "flu", "cold", "ache", "rash"], pa.string()),
            "salary": some([float("nan"), None, 10.0, 20.0, -0.0, 0.0], pa.float64()),
            "grade": some([None, *range(12)], pa.int16()),
        }
    )
