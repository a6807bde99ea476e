"""Asking releases of an object store: the query's process has neither its address nor its keys."""

from collections.abc import Callable
from typing import Any

import psutil
import pytest

from privacy_release.lake.retract import retract
from privacy_release.query.answer import answer
from privacy_release.query.process import Files, QueryProcess
from tests.object_stores.staged import NAME, Staged, send
from tests.object_stores.stores import Bucket

pytestmark = pytest.mark.object_stores
Edition = Callable[[int], Staged]


def test_releases_of_a_store_are_answered_as_those_of_a_folder(bucket: Bucket, edition: Edition) -> None:
    lake, first, second = bucket.lake(), edition(1), edition(2)
    send(lake, first, "run 1", "w/1")
    send(lake, second, "run 2", "w=2")
    assert answer(lake, f"FROM {NAME}").rows.equals(second.rows())
    assert answer(lake, f"FROM {NAME}", release="w/1").rows.equals(first.rows())
    sql = f"SELECT release, count(*) AS n, max(edition) AS e FROM {NAME} GROUP BY ALL ORDER BY n"
    assert answer(lake, sql, every_release=True).rows.to_pylist() == [
        {"release": "w/1", "n": 101, "e": 1},
        {"release": "w=2", "n": 102, "e": 2},
    ]
    retract(lake.table(NAME), "w=2", "wrong source")
    assert answer(lake, f"SELECT DISTINCT edition FROM {NAME}").rows.to_pylist() == [{"edition": 1}]


def test_the_process_of_a_query_reaches_no_store(
    bucket: Bucket, edition: Edition, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bucket.lake()
    send(lake, edition(1), "run 1")
    run, read = QueryProcess.answer, Files.read
    asking: list[psutil.Process] = []
    seen = []

    def requested(process: QueryProcess, *arguments: Any) -> object:
        asking.append(psutil.Process(process._process.pid))
        return run(process, *arguments)

    def served(files: Files, *arguments: Any) -> bytes:
        seen.append((asking[-1].net_connections(), asking[-1].environ()))  # while it waits for the piece
        return read(files, *arguments)

    monkeypatch.setattr(QueryProcess, "answer", requested)
    monkeypatch.setattr(Files, "read", served)
    assert answer(lake, f"SELECT count(*) AS n FROM {NAME}").rows.to_pylist() == [{"n": 101}]
    assert seen
    for connections, environment in seen:
        assert not connections
        reported = str(environment)
        assert not any(value in reported for _, value in lake.storage_options if len(value) > 5)
