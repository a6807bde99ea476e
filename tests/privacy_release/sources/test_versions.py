"""Versions of Delta tables as sources: which one is read, and that it is recorded."""

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_privacy_release.hooks.connections import table_options
from privacy_engine.errors import MissingSourceError, SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.cli.main import main
from privacy_release.lake.read import manifest_of
from privacy_release.lake.store import Lake
from privacy_release.sources.versions import DeltaVersion, IcebergVersion
from privacy_release.steps.ingest import ingest
from privacy_release.workarea.area import WorkArea
from tests import tables

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "day": {"role": "quasi_identifier", "kind": "date", "precision": "day"},
        "ward": {"role": "insensitive", "kind": "categorical"},
    }
)


def rows(first: int) -> pa.Table:
    day = pd.Timestamp("2026-11-02").date()
    return pa.table(
        {"age": range(first, first + 30), "day": [day] * 30, "ward": ["a", "b"] * 15, "name": ["n"] * 30}
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Version 0 has ages from 20 on, 1 also those from 60 on, 2 those from 80 on alone."""
    uri = str(tmp_path / "visits")
    write_deltalake(uri, rows(20), partition_by=["ward"])
    write_deltalake(uri, rows(60), mode="append")
    write_deltalake(uri, rows(80), mode="overwrite")
    return uri


def ages(uri: str) -> list[int]:
    return sorted(pq.read_table(uri).column("age").to_pylist())


def read(table: str, work: WorkArea, **which: object) -> tuple[list[int], int]:
    source = DeltaVersion(uri=table, **which)  # type: ignore[arg-type]
    found = ingest(source, SCHEMA, work, columns=list(SCHEMA.names))
    assert found.source.uri == table
    return ages(found.uri), found.source.version


def test_a_version_is_read_as_it_was_and_the_newest_is_recorded(table: str, work: WorkArea) -> None:
    assert read(table, work, version=0) == (list(range(20, 50)), 0)
    assert read(table, work, version=1) == ([*range(20, 50), *range(60, 90)], 1)
    assert read(table, work) == (list(range(80, 110)), 2)


def test_a_time_names_the_version_that_was_the_newest(table: str, work: WorkArea) -> None:
    times = {c["version"]: c["timestamp"] for c in DeltaTable(table).history()}
    at = datetime.fromtimestamp(times[1] / 1000, UTC).isoformat()
    newest = max(v for v, time in times.items() if time <= times[1])
    assert read(table, work, at=at)[1] == newest
    assert read(table, work, at="2100-01-01")[1] == 2
    with pytest.raises(MissingSourceError, match="its log begins later"):
        read(table, work, at="2020-01-01T00:00:00Z")


def test_what_is_not_there_is_reported_with_the_remedy(table: str, work: WorkArea, tmp_path: Path) -> None:
    with pytest.raises(MissingSourceError, match="its newest is 2"):
        read(table, work, version=3)
    with pytest.raises(MissingSourceError, match="must be the folder of a Delta table"):
        read(str(tmp_path / "nowhere"), work)
    with pytest.raises(SchemaError, match="set `format: delta`"):
        ingest(table, SCHEMA, work, columns=list(SCHEMA.names))
    shutil.rmtree(next(Path(table).glob("ward=a")))
    with pytest.raises(SchemaError, match="no file of the version was removed"):
        read(table, work, version=1)


def forged(folder: Path, protocol: dict[str, object], **configuration: str) -> str:
    """A Delta table of this protocol, whose column `ward` its file calls `col-1`."""
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(rows(20).rename_columns(["age", "day", "col-1", "name"]), folder / "part.parquet")
    types = {"age": "long", "day": "date", "ward": "string", "name": "string"}
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": "col-1" if name == "ward" else name,
            },
        }
        for number, (name, kind) in enumerate(types.items(), 1)
    ]
    log = [
        {"protocol": protocol},
        {
            "metaData": {
                "id": "5f4c2a3e-0000-4000-8000-000000000000",
                "format": {"provider": "parquet", "options": {}},
                "partitionColumns": [],
                "createdTime": 0,
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "configuration": configuration,
            }
        },
        {
            "add": {
                "path": "part.parquet",
                "partitionValues": {},
                "size": (folder / "part.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, log)))
    return str(folder)


OLD = {"minReaderVersion": 2, "minWriterVersion": 5}
MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "4"}


def with_features(*names: str) -> dict[str, object]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}


@pytest.mark.parametrize(
    ("protocol", "configuration", "says"),
    [
        (OLD, MAPPED, "got columnMapping: its files cannot be read correctly"),
        (OLD, {**MAPPED, "delta.columnMapping.mode": "id"}, "got columnMapping:"),
        ({"minReaderVersion": 1, "minWriterVersion": 2}, MAPPED, "got columnMapping:"),
        (with_features("columnMapping", "deletionVectors"), MAPPED, "got columnMapping, deletionVectors:"),
        (with_features("typeWidening", "timestampNtz"), {}, "got typeWidening:"),
        (with_features("neverHeardOf"), {}, "got neverHeardOf:"),
        (OLD, {}, "1 files have up to 1 columns that it does not know"),
    ],
    ids=["mapping by name", "by id", "in version 1", "two features", "one of two", "unknown", "by its files"],
)
def test_a_delta_table_that_is_not_understood_is_refused_by_its_features(
    tmp_path: Path, work: WorkArea, protocol: dict[str, object], configuration: dict[str, str], says: str
) -> None:
    source = DeltaVersion(uri=forged(tmp_path / "visits", protocol, **configuration))
    with pytest.raises(SchemaError, match=says):
        ingest(source, SCHEMA.keeping_nulls(), work, columns=list(SCHEMA.names))


def test_a_delta_column_that_came_later_is_null_in_the_files_before(tmp_path: Path, work: WorkArea) -> None:
    uri = str(tmp_path / "visits")
    write_deltalake(uri, rows(20).drop_columns("name"))
    write_deltalake(uri, rows(60), mode="append", schema_mode="merge")
    found = ingest(DeltaVersion(uri=uri), SCHEMA, work, columns=list(SCHEMA.names))
    assert found.rows == 60


def test_the_version_stands_in_the_manifest(
    home: Path, people: pd.DataFrame, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    write_deltalake(str(home / "visits"), people)
    write_deltalake(str(home / "visits"), people.iloc[:10], mode="overwrite")
    source = {"uri": "visits", "format": "delta", "version": 0}
    path = tables.write_release(home, source=source)
    assert main(["run", str(path), "--lake", lake.root, "--release-id", "r1"]) == 0
    manifest = manifest_of(lake.table("people"), "r1")
    assert manifest["source"]["version"] == 0
    assert manifest["source"]["rows"] == 200
    assert "visits" not in json.dumps(manifest["source"])
    for wrong in ({"version": 0, "timestamp": "2026-01-01"}, {"format": "parquet"}, {"timestamp": "soon"}):
        tables.write_release(home, source=source | wrong)
        assert main(["check", str(path)]) == 2


def test_the_keys_of_a_table_are_those_of_the_delta_library(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"storage_options": {"AWS_REGION": "eu", "key": "hunter2"}}
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": "aws", "extra": extra}))
    with pytest.raises(SpecError, match=r"connection store: .* got key"):
        table_options("delta", "store")
    with pytest.raises(SpecError, match="nowhere of the source does not exist"):
        table_options("delta", "nowhere")
    assert table_options("delta", None) == {}


@pytest.fixture
def iceberg(tmp_path: Path) -> Any:
    """A catalog's table with two snapshots."""
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason="the extra [iceberg] is not installed")
    catalog = sql.SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("clinic")
    table = catalog.create_table("clinic.visits", schema=rows(20).schema)
    table.append(rows(20))
    table.append(rows(60))
    table.delete("age >= 80")
    return table


def test_a_snapshot_of_iceberg_is_read_as_it_was(iceberg: Any, work: WorkArea) -> None:
    def read_it(label: str, **which: Any) -> tuple[list[int], int]:
        source = IcebergVersion(uri=iceberg.metadata_location, **which)
        found = ingest(source, SCHEMA, work, columns=list(SCHEMA.names), label=label)
        return ages(found.uri), found.source.version

    first, second, *_, last = iceberg.snapshots()
    assert read_it("a", version=first.snapshot_id) == (list(range(20, 50)), first.snapshot_id)
    assert read_it("b", version=second.snapshot_id)[0] == [*range(20, 50), *range(60, 90)]
    assert read_it("c") == ([*range(20, 50), *range(60, 80)], last.snapshot_id)
    assert read_it("d", at="2100-01-01")[1] == last.snapshot_id
    with pytest.raises(MissingSourceError, match="must have a snapshot 7"):
        read_it("e", version=7)
    with pytest.raises(MissingSourceError, match="must have a snapshot 2020"):
        read_it("f", at="2020-01-01")
    with pytest.raises(MissingSourceError, match="metadata file of an Iceberg table"):
        ingest(IcebergVersion(uri=f"{iceberg.location()}/none.metadata.json"), SCHEMA, work)


def test_without_the_extra_iceberg_says_what_to_install(
    work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(SpecError, match=r"install privacy-release\[iceberg\]"):
        ingest(IcebergVersion(uri="/nowhere"), SCHEMA, work)


PROPERTIES = ("py-io-impl", "s3.retry-strategy-impl", "write.py-location-provider.impl")


@pytest.mark.quick(  # each property and each way
    "file-py-io-impl", "catalog-s3.retry-strategy-impl", "file-write.py-location-provider.impl"
)
@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("way", ["file", "catalog"])
def test_the_properties_of_an_iceberg_table_import_nothing(
    iceberg: Any, work: WorkArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "planted_code.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Mine:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    metadata = Path(iceberg.metadata_location.removeprefix("file://"))
    fields = json.loads(metadata.read_text())
    fields["properties"] = {name: "planted_code.Mine"}
    metadata.write_text(json.dumps(fields))
    uri = iceberg.metadata_location
    if way == "catalog":
        monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda *_, **__: iceberg.catalog)
        uri = f"iceberg://any/{'.'.join(iceberg.name())}"
    with pytest.raises(SchemaError, match=f"must not name code in its properties, got {name}"):
        ingest(IcebergVersion(uri=uri), SCHEMA, work, columns=list(SCHEMA.names))
    assert not marker.exists()
    assert "planted_code" not in sys.modules


def test_files_outside_of_the_folder_of_an_iceberg_table_are_not_read(
    iceberg: Any, work: WorkArea, tmp_path: Path
) -> None:
    metadata = Path(iceberg.metadata_location.removeprefix("file://"))
    fields = json.loads(metadata.read_text())
    elsewhere = tmp_path / "elsewhere.avro"
    for snapshot in fields["snapshots"]:
        shutil.copy(snapshot["manifest-list"].removeprefix("file://"), elsewhere)
        snapshot["manifest-list"] = f"file://{elsewhere}"
    metadata.write_text(json.dumps(fields))
    with pytest.raises(SchemaError, match=r"list of manifests of .* must be in the folder of its table"):
        ingest(IcebergVersion(uri=iceberg.metadata_location), SCHEMA, work, columns=list(SCHEMA.names))


def test_a_copied_iceberg_table_does_not_read_the_files_of_the_first(
    iceberg: Any, work: WorkArea, tmp_path: Path
) -> None:
    """Its metadata still names these: the manifests are the attacker's, the data another team's."""
    folder = Path(iceberg.location().removeprefix("file://"))
    shutil.copytree(folder, tmp_path / "copy")
    uri = f"file://{tmp_path}/copy/metadata/{Path(iceberg.metadata_location).name}"
    with pytest.raises(SchemaError, match="must be in the folder of its table"):
        ingest(IcebergVersion(uri=uri), SCHEMA, work, columns=list(SCHEMA.names))


def test_files_outside_of_the_folder_of_a_delta_table_are_not_read(
    table: str, work: WorkArea, tmp_path: Path
) -> None:
    log = Path(table) / "_delta_log" / "00000000000000000000.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        if "add" in entry:
            shutil.copy(Path(table) / entry["add"]["path"], tmp_path / "elsewhere.parquet")
            entry["add"]["path"] = f"file://{tmp_path}/elsewhere.parquet"
    log.write_text("\n".join(map(json.dumps, entries)))
    with pytest.raises(SchemaError):
        ingest(DeltaVersion(uri=table, version=0), SCHEMA, work, columns=list(SCHEMA.names))
