"""What Iceberg offers a release table, and what it does not: measured, so that the page can say it.

Delta stays the format of release tables. Each test holds one of the findings in docs/reference_tables.md;
when a newer PyIceberg makes one fail, the decision can be made again.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

SCHEMA = Schema(NestedField(1, "age", StringType()), NestedField(2, "release", StringType()))
NAME = "open.people"
BY_RELEASE = PartitionSpec(
    PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="release")
)
WITHOUT_STATISTICS = {"write.metadata.metrics.default": "none"}
pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")


def catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.as_uri())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    found = catalog(tmp_path)
    found.create_namespace("open")
    return found.create_table(NAME, SCHEMA, partition_spec=BY_RELEASE, properties=WITHOUT_STATISTICS)


def replace(table: Table, release: str, ages: list[str], **note: Any) -> None:
    """What a publication does: replace the rows of a release, with a note in the commit."""
    table.overwrite(
        pa.table({"age": ages, "release": [release] * len(ages)}),
        overwrite_filter=f"release == '{release}'",
        snapshot_properties={"privacy_release": json.dumps(note)},
    )


def notes(table: Table) -> list[dict[str, Any]]:
    summaries = [snapshot.summary for snapshot in table.metadata.snapshots]
    return [json.loads(summary.additional_properties["privacy_release"]) for summary in summaries if summary]


def data_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def test_of_two_writers_of_a_release_one_wins_whole(tmp_path: Path, table: Table) -> None:
    replace(table, "1", ["a"])
    first, second = catalog(tmp_path).load_table(NAME), catalog(tmp_path).load_table(NAME)
    replace(first, "1", ["b", "b"], run="first")
    with pytest.raises((CommitFailedException, ValidationException)):
        replace(second, "1", ["c"], run="second")
    assert catalog(tmp_path).load_table(NAME).scan().to_arrow()["age"].to_pylist() == ["b", "b"]


def test_a_retry_finds_its_commit_by_the_note(tmp_path: Path, table: Table) -> None:
    replace(table, "1", ["a"], run="dag/1")
    assert [note["run"] for note in notes(catalog(tmp_path).load_table(NAME))] == ["dag/1"]


def test_a_replaced_release_is_missing_from_a_version_in_between(table: Table) -> None:
    """Delta replaces in one version: none of its versions lacks the release."""
    replace(table, "1", ["a"])
    replace(table, "1", ["b"])
    rows = [table.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows for s in table.metadata.snapshots]
    assert rows == [1, 0, 1]


def test_expiring_a_version_erases_no_rows_but_forgets_the_note(tmp_path: Path, table: Table) -> None:
    """So a retraction by expiry would leave the data and lose the proof, the wrong way round."""
    replace(table, "1", ["a"], run="dag/1")
    old = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    table.delete("release == '1'")
    table.maintenance.expire_snapshots().by_ids(old).commit()
    left = catalog(tmp_path).load_table(NAME)
    assert {snapshot.snapshot_id for snapshot in left.metadata.snapshots}.isdisjoint(old)
    assert len(data_files(tmp_path)) == 1


def test_files_erased_by_hand_retract_a_release_from_all_versions_and_leave_the_others(
    tmp_path: Path, table: Table
) -> None:
    """As a retraction does it on Delta: the log stays, and the rows of one release are gone."""
    replace(table, "1", ["a"])
    (mine,) = data_files(tmp_path)
    replace(table, "2", ["b"])
    both = table.current_snapshot()
    assert both is not None
    table.delete("release == '1'")
    mine.unlink()
    with pytest.raises(FileNotFoundError):
        table.scan(row_filter="release == '1'", snapshot_id=both.snapshot_id).to_arrow()
    other = table.scan(row_filter="release == '2'", snapshot_id=both.snapshot_id).to_arrow()
    assert other["age"].to_pylist() == ["b"]


def test_the_log_holds_no_cell_only_where_statistics_are_switched_off(tmp_path: Path, table: Table) -> None:
    """By default least and greatest cells stay in manifests, which outlive a retraction."""
    replace(table, "1", ["canary-of-a-cell"])
    loose = catalog(tmp_path).create_table("open.loose", SCHEMA, partition_spec=BY_RELEASE)
    replace(loose, "1", ["canary-of-a-cell"])
    quiet, loud = (str(reported.inspect.files()["lower_bounds"].to_pylist()) for reported in (table, loose))
    assert "canary" not in quiet
    assert "canary" in loud
