"""Reading people's records from an object store, through an Airflow connection that holds the keys."""

import io
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from airflow_privacy_release.hooks.connections import source_access
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import copy_source
from privacy_release.sources.reading import check_source
from privacy_release.sources.shares import Workers
from privacy_release.steps.ingest import ingest
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.parquet import read_private
from tests.object_stores.staged import NAME, Staged, send
from tests.object_stores.stores import Bucket

pytestmark = pytest.mark.object_stores
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "zip": {"role": "quasi_identifier", "kind": "categorical", "categories": ["N1", "N2"]},
        "illness": {"role": "sensitive", "kind": "categorical"},
    }
)
PEOPLE = pd.DataFrame({"age": [30, 40, 50], "zip": ["N1", "N2", "N1"], "illness": ["flu", "cold", "flu"]})


def parquet(table: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    table.to_parquet(sink, index=False)
    return sink.getvalue()


@pytest.fixture
def access(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How a source of the bucket is reached: what an operator takes from its connection."""
    extra = {"storage_options": bucket.store.source_options()}
    monkeypatch.setenv(
        "AIRFLOW_CONN_PEOPLE_STORE", json.dumps({"conn_type": "generic", "extra": json.dumps(extra)})
    )
    return source_access(bucket.address("people"), "people_store")


class Read(NamedTuple):
    table: pd.DataFrame
    fingerprint: str


def read(uri: str, access: dict[str, Any]) -> Read:
    source = find_source(uri, **access)
    check_source(source, SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        copied = copy_source(source, SCHEMA, Path(folder) / "copy.parquet")
        return Read(read_private(Path(folder) / "copy.parquet", copied.sha256), copied.fingerprint)


def test_file_folder_and_glob_give_the_same_records(bucket: Bucket, access: dict[str, Any]) -> None:
    bucket.put("people/a.parquet", parquet(PEOPLE))
    for path in ("people/a.parquet", "people", "people/", "people/*.parquet", "peopl*/a.parquet"):
        pd.testing.assert_frame_equal(read(bucket.address(path), access).table, PEOPLE)


def test_processes_copy_the_shares_of_a_source(
    bucket: Bucket, access: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        bucket.put(f"people/{number}.parquet", parquet(PEOPLE.assign(age=number)))
    monkeypatch.setattr("privacy_release.steps.ingest.Workers", partial(Workers, many=1, share=3))
    loaded, engine = (
        read(bucket.address("people"), access),
        read_engine({"kind": "fragments", "processes": 2}),
    )
    with WorkArea(tmp_path / "work", "run 1") as work:
        table = ingest(bucket.address("people"), SCHEMA, work, engine=engine, **access)
        assert len(files_of(table.uri, table.sha256)) == 4
        pd.testing.assert_frame_equal(read_private(table.uri, table.sha256), loaded.table)
        assert table.source.fingerprint == loaded.fingerprint
        work.remove()


def test_a_table_for_an_engine_is_copied_from_the_store_alike(
    bucket: Bucket, access: dict[str, Any], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        bucket.put(f"people/{name}.parquet", parquet(PEOPLE))
    loaded = read(bucket.address("people"), access)
    with WorkArea(tmp_path / "work", "run 1") as work:
        table = ingest(bucket.address("people"), SCHEMA, work, engine=read_engine("fragments"), **access)
        bucket.put("people/b.parquet", parquet(PEOPLE)[:-50])
        with pytest.raises(SchemaError, match=r"b\.parquet must be a whole Parquet file"):
            ingest(
                bucket.address("people"), SCHEMA, work, label="x", engine=read_engine("fragments"), **access
            )
        pd.testing.assert_frame_equal(read_private(table.uri, table.sha256), loaded.table)
    assert table.source.fingerprint == loaded.fingerprint


def test_folders_named_by_a_value_are_a_column_and_hidden_files_are_no_data(
    bucket: Bucket, access: dict[str, Any]
) -> None:
    rest = parquet(PEOPLE[["age", "illness"]])
    for key in ("zip=N2/a.parquet", "zip=N1/b.parquet", "_temporary/c.parquet", ".d.parquet", "_SUCCESS"):
        bucket.put(f"people/{key}", rest)
    for path in ("people", "people/*/*.parquet"):
        assert read(bucket.address(path), access).table["zip"].tolist() == ["N1"] * 3 + ["N2"] * 3


def test_a_file_that_came_later_is_seen_by_the_same_process(bucket: Bucket, access: dict[str, Any]) -> None:
    for number, path in enumerate(["people/a.parquet", "people/b.parquet"], start=1):
        bucket.put(path, parquet(PEOPLE))
        assert len(read(bucket.address("people"), access).table) == 3 * number
        assert len(read(bucket.address("people/*.parquet"), access).table) == 3 * number


def test_a_release_table_is_no_source(
    bucket: Bucket, access: dict[str, Any], edition: Callable[[int], Staged]
) -> None:
    send(bucket.lake(), edition(1), "run 1")
    with pytest.raises(SchemaError, match="is a Delta table"):
        find_source(bucket.address(f"lake/{NAME}"), **access)


def test_a_truncated_object_is_named_with_a_remedy(bucket: Bucket, access: dict[str, Any]) -> None:
    bucket.put("people/a.parquet", parquet(PEOPLE)[:-20])
    with pytest.raises(SchemaError, match=r"a\.parquet must be a whole Parquet file.*write it again"):
        read(bucket.address("people"), access)


def test_the_reference_to_an_ingested_table_names_the_source_and_no_key(
    bucket: Bucket, access: dict[str, Any], work: WorkArea
) -> None:
    bucket.put("people/a.parquet", parquet(PEOPLE))
    table = ingest(bucket.address("people"), SCHEMA, work, **access)
    assert table.source.uri == bucket.address("people")
    assert bucket.store.secret not in json.dumps(table.to_ref())


def test_a_source_that_is_given_the_lakes_names_for_its_keys_is_reported(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"storage_options": bucket.store.lake_options()}
    monkeypatch.setenv(
        "AIRFLOW_CONN_PEOPLE_STORE", json.dumps({"conn_type": "generic", "extra": json.dumps(extra)})
    )
    with pytest.raises(SpecError, match="must have fsspec's names") as caught:
        source_access(bucket.address("people"), "people_store")
    assert bucket.store.secret not in str(caught.value)
