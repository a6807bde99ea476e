"""An S3 and an Azure of the tests' own, and in each a bucket a test."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from privacy_release.workarea.area import WorkArea
from tests.object_stores.staged import Staged, stage
from tests.object_stores.stores import Bucket, Store, azure_server, azurite, s3_server
from tests.object_stores.wire import Wire, wire_to


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    for module in ("moto", "flask_cors", "s3fs"):
        pytest.importorskip(module)
    with s3_server(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    pytest.importorskip("adlfs")
    program = azurite()
    if program is None:
        pytest.skip("Azurite is not installed (Node.js, then: npm ci --prefix tests/object_stores/azurite)")
    with azure_server(tmp_path_factory.mktemp("azure"), program) as store:
        yield store


@pytest.fixture(params=["s3", "azure"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each test runs on both kinds of store."""
    found: Store = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def bucket(store: Store) -> Bucket:
    """An empty bucket."""
    name = f"test-{secrets.token_hex(8)}"
    store.make_bucket(name)
    return Bucket(store=store, name=name)


@pytest.fixture
def wire(store: Store) -> Iterator[Wire]:
    """A way to the store on which requests can be seen and lost."""
    with wire_to(store.endpoint) as wire:
        yield wire


@pytest.fixture
def edition(tmp_path: Path) -> Callable[[int], Staged]:
    """A staged release with a number."""
    return lambda number: stage(tmp_path / "staged", number)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[WorkArea]:
    """The private folder of a run."""
    with WorkArea(tmp_path / "work", "test/run 1") as area:
        yield area
