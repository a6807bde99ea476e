"""A retraction erases the rows of a release in every version of the table, and its proofs."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from privacy_engine.vocabulary import PublishMode
from privacy_release.lake.layout import TableRules
from privacy_release.lake.publish import CommittedRelease, publish
from privacy_release.lake.read import releases
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file

NAME = "people"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "staged").mkdir()
    return tmp_path / "staged"


def send(
    lake: Lake, folder: Path, release: str, run: str, ages: list[str], rules: TableRules | None = None
) -> CommittedRelease:
    file, report = folder / f"{run}.parquet", folder / f"{run}.html"
    pq.write_table(pa.table({"age": ages}), file)
    report.write_text(f"<p>{run}</p>")
    fields = {"run": run}
    return publish(
        lake.table(NAME),
        release,
        file,
        fields,
        report,
        expected_sha256=sha256_file(file),
        run_key=run,
        rules=rules,
    )


def ages_of(lake: Lake, version: int) -> set[str]:
    """What any Delta client reads of a version; of erased files nothing."""
    table = DeltaTable(lake.table(NAME).address, version=version)
    paths = [Path(uri.removeprefix("file://")) for uri in table.file_uris()]
    return {age for path in paths if path.exists() for age in pq.read_table(path)["age"].to_pylist()}


@pytest.mark.parametrize("mode", [PublishMode.SNAPSHOT, PublishMode.APPEND, None])
def test_no_version_of_the_table_has_rows_of_a_retracted_release(
    lake: Lake, folder: Path, mode: PublishMode | None
) -> None:
    """Neither those that a later run replaced, nor those that another release replaced, nor the last."""
    rules = None if mode is None else TableRules(mode=mode)
    first = send(lake, folder, "a", "run 1", ["[10, 19]"], rules)
    send(lake, folder, "b", "run 2", ["[20, 29]"], rules)
    last = send(lake, folder, "a", "run 3", ["[30, 39]"], rules)
    assert "[10, 19]" in ages_of(lake, first.version)
    done = retract(lake.table(NAME), "a", "a mistake")
    seen = set().union(*(ages_of(lake, version) for version in range(done.version + 1)))
    assert seen == {"[20, 29]"}
    for published in (first, last):
        assert not Path(published.manifest_uri).exists()
        assert not Path(published.report_uri).exists()
    assert {entry["release_id"]: str(entry["state"]) for entry in releases(lake.table(NAME))}[
        "a"
    ] == "retracted"
    assert retract(lake.table(NAME), "a", "again").already
