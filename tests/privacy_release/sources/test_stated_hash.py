"""A source whose bytes were damaged: page checksums where a writer made them, and a hash that is stated."""

import hashlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.footers import has_page_checksums
from privacy_release.spec.files import load_tables
from privacy_release.spec.model import load_spec
from privacy_release.steps.ingest import TableSource, ingest, ingest_tables
from privacy_release.steps.producers.report import facts_of
from privacy_release.steps.producers.staging import public_source
from privacy_release.workarea.area import WorkArea

SCHEMA = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}})


def write(path: Path, *, checked: bool = False) -> str:
    """Write forty ages; the sha256 of the file."""
    ages = pa.table({"age": np.arange(20, 60)})
    pq.write_table(ages, path, compression="none", write_page_checksum=checked, use_dictionary=False)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("checked", [False, True])
def test_page_checksums_are_seen_in_whatever_form_the_pages_have(
    checked: bool, dictionary: bool, version: str, tmp_path: Path
) -> None:
    table = pa.table({"name": ["ann", "bob"] * 1_000, "age": np.arange(2_000)})
    options = {"use_dictionary": dictionary, "data_page_version": version, "write_page_checksum": checked}
    pq.write_table(table, tmp_path / "people.parquet", **options)
    with (tmp_path / "people.parquet").open("rb") as stream:
        assert has_page_checksums(stream) == checked
        assert stream.tell() == 0


def test_what_is_no_page_has_no_checksum() -> None:
    assert not any(
        has_page_checksums(BytesIO(data)) for data in (b"", b"PAR1", b"PAR1\x15\x80\x80", bytes(64))
    )


def test_files_without_page_checksums_are_reported_by_their_number(tmp_path: Path, work: WorkArea) -> None:
    folder = tmp_path / "people"
    folder.mkdir()
    write(folder / "a.parquet", checked=True)
    write(folder / "b.parquet")
    table = ingest(str(folder), SCHEMA, work)
    assert table.source.unchecked == 1
    assert facts_of(table)["files without page checksums"] == "1 of 2"
    assert public_source(table.source, private=False)["unchecked"] == 1
    assert "unchecked" not in public_source(table.source, private=True)
    (folder / "b.parquet").unlink()
    assert ingest(str(folder), SCHEMA, work, label="whole").source.unchecked == 0


def test_a_byte_that_was_flipped_is_noticed_by_the_stated_hash(tmp_path: Path, work: WorkArea) -> None:
    path = tmp_path / "people.parquet"
    sha256 = write(path)
    whole = ingest(str(path), SCHEMA, work, sha256=sha256)
    data = bytearray(path.read_bytes())
    data[data.index((40).to_bytes(8, "little"))] = 41
    path.write_bytes(data)
    assert ingest(str(path), SCHEMA, work, label="damaged").rows == whole.rows
    with pytest.raises(
        IntegrityError, match=r"source\.sha256 must be that of the files read, but it is not"
    ) as e:
        ingest(str(path), SCHEMA, work, label="refused", sha256=sha256)
    assert hashlib.sha256(data).hexdigest() not in str(e.value)
    assert not list(work.folder.glob("refused*"))


def test_of_several_files_the_fingerprint_is_stated(tmp_path: Path, work: WorkArea) -> None:
    folder = tmp_path / "people"
    folder.mkdir()
    for name in ("a", "b"):
        write(folder / f"{name}.parquet")
    fingerprint = ingest(str(folder), SCHEMA, work).source.fingerprint
    assert ingest(str(folder), SCHEMA, work, label="again", sha256=fingerprint).rows == 80
    with pytest.raises(IntegrityError, match="sha256"):
        ingest(str(folder), SCHEMA, work, label="other", sha256="0" * 64)


def test_each_of_several_tables_has_its_own_hash(tmp_path: Path, work: WorkArea) -> None:
    person, fields = {"role": "identifier"}, {}
    for name in ("drug", "illness"):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"id": ["1", "2"], name: ["x", "y"]}), path)
        fields[name] = {"uri": str(path), "schema": {"id": person, name: {"role": "quasi_identifier"}}}

    def read(sha256: str) -> None:
        sources = {n: TableSource(uri=reported["uri"], sha256=sha256) for n, reported in fields.items()}
        ingest_tables(sources, load_tables(fields, "id"), work)

    with pytest.raises(IntegrityError, match="sha256"):
        read("0" * 64)


@pytest.mark.parametrize(
    "source",
    [
        {"uri": "people/{release}.parquet"},
        {"uri": "people", "format": "delta"},
        {"sql": "SELECT 1", "connection": "hospital"},
    ],
    ids=["placeholder", "delta", "query"],
)
def test_a_hash_of_what_is_another_file_each_time_is_refused(source: dict[str, str], home: Path) -> None:
    path = home / "releases" / "people.yaml"
    fields = yaml.safe_load(path.read_text()) | {"source": source | {"sha256": "0" * 64}}
    path.write_text(yaml.safe_dump(fields))
    with pytest.raises(SpecError, match=r"source\.sha256 requires Parquet files at one address"):
        load_spec(path)
