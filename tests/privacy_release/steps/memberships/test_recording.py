"""What is kept about the people of a release, and the releases that a publication must have seen."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import IntegrityError, VerificationError
from privacy_release.lake.log import ReleaseRun
from privacy_release.lake.publish import publish
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.steps.memberships.files import file_of
from privacy_release.steps.memberships.recording import forget, owners_of, refuse_unseen
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.people import write_people
from privacy_release.workarea.references import PeopleRef, PersonsRef, ReportRef, SourceRef, StagedRelease


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The file of a release, three rows."""
    data = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": ["old"] * 3}), data)
    return data


def test_the_people_of_a_release_that_was_published_again_stay_known(
    lake: Lake, curator: Path, data: Path
) -> None:
    table, sha256 = lake.table("people"), sha256_file(data)
    kept = file_of("people", "1", sha256)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(b"who is in which class")
    publish(table, "1", data, {}, b"a report", expected_sha256=sha256, run_key="a run")
    retract(table, "1", "a mistake")
    publish(table, "1", data, {}, b"a report", expected_sha256=sha256, run_key="another run")
    assert forget(table, "1") == 0  # as a retraction of the first publication does that was interrupted
    assert kept.is_file()
    retract(table, "1", "a mistake after all")
    assert forget(table, "1") == 1
    assert not kept.exists()


def test_other_bytes_of_the_same_release_are_a_release_that_was_not_seen(
    lake: Lake, curator: Path, data: Path
) -> None:
    table, sha256 = lake.table("people"), sha256_file(data)
    publish(table, "1", data, {}, b"a report", expected_sha256=sha256, run_key="another run")
    report = ReportRef(passed=True, sha256=sha256, rows=3, classes=1, findings=[], policy={}, compared=[])
    refuse_unseen(table, ReleaseRun("1", "a run"), report)
    with pytest.raises(VerificationError, match="1 releases of table people were published after this one"):
        refuse_unseen(table, ReleaseRun("1", "a run"), replace(report, sha256="0" * 64))


def test_persons_of_other_records_than_the_staged_ones_are_refused(tmp_path: Path) -> None:
    source = SourceRef(uri="people", files=1, fingerprint="0", rows=3, dropped=0, identifiers=["name"])
    staged = StagedRelease(
        uri="r.parquet",
        rows=3,
        sha256="2",
        schema="r.json",
        source=source,
        persons=PersonsRef(uri="p.parquet", sha256="3", key="k", form="read", owners="read"),
        manifest="m.json",
        report="r.html",
        method="mondrian",
        guarantees=[],
        loss=None,
        figures={},
        seconds=1.0,
    )

    def people(count: int, of: str) -> PeopleRef:
        return write_people(np.arange(count), tmp_path / f"{count}-{of}.parquet", of)

    found = owners_of(replace(staged, people=people(3, "2")))
    assert found is not None
    assert found.tolist() == [0, 1, 2]
    for other in (None, people(3, "1")):
        with pytest.raises(IntegrityError, match="must be stored with them"):
            owners_of(replace(staged, people=other))
    with pytest.raises(IntegrityError, match="one person per released record"):
        owners_of(replace(staged, people=people(2, "2")))
