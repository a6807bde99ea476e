import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from privacy_engine.errors import IntegrityError, PublishError, SchemaError
from privacy_engine.vocabulary import PublishMode
from privacy_release.lake.layout import TableRules, folder_name
from privacy_release.lake.log import newest, open_table, publications
from privacy_release.lake.publish import publish
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file
from tests.children.fault_points import arm, crashed
from tests.children.processes import KILL, MEET, Child, at_once

NAME = "adult"
MANIFEST = {"method": "ilp_l_diversity", "guarantees": ["k=10", "l=3"], "loss": None, "source_rows": 7}


@dataclass(frozen=True)
class Staged:
    """A staged release, its report, and the hash that verification recorded."""

    rows: pa.Table
    file: Path
    report: Path
    sha256: str


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(root=f"file://{tmp_path}/lake")


@pytest.fixture
def stage(tmp_path):
    def make(rows: pa.Table | int = 6) -> Staged:
        if isinstance(rows, int):
            rows = pa.table({"age": [f"[{i}, {i + 9}]" for i in range(rows)], "weight": range(rows, 0, -1)})
        folder = tmp_path / f"staged-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        pq.write_table(rows, folder / "staged.parquet")
        (folder / "report.html").write_text(f"<p>{rows.num_rows} rows</p>")
        return Staged(
            rows, folder / "staged.parquet", folder / "report.html", sha256_file(folder / "staged.parquet")
        )

    return make


def send(
    lake: Lake, staged: Staged, release_id="2026-W01", run_key=None, name=NAME, manifest=MANIFEST, rules=None
):
    return publish(
        lake.table(name),
        release_id,
        staged.file,
        manifest,
        staged.report,
        expected_sha256=staged.sha256,
        run_key=run_key,
        rules=rules,
    )


def everything(lake: Lake, version=None) -> pd.DataFrame:
    """The table as any Delta client sees it."""
    return DeltaTable(lake.table(NAME).address, version=version).to_pyarrow_dataset().to_table().to_pandas()


def data_files_on_disk(lake: Lake) -> set[Path]:
    return set(Path(lake.table(NAME)).rglob("*.parquet"))


def proofs_on_disk(lake: Lake) -> set[str]:
    return {path.name for path in (lake.folder / "_proof" / NAME).iterdir()}


def states(lake: Lake) -> list[tuple[str, str]]:
    return [(entry["release_id"], str(entry["state"])) for entry in releases(lake.table(NAME))]


# Publishing


def test_published_rows_are_the_staged_rows_in_staged_order(lake, stage):
    staged = stage(50)
    done = send(lake, staged)
    assert read_release(lake.table(NAME), "2026-W01").equals(staged.rows)
    assert (done.rows, done.sha256, done.already) == (50, staged.sha256, False)


@pytest.mark.slow  # only rows of several row groups could change their order
def test_order_is_kept_over_many_row_groups_in_one_file(lake, stage):
    staged = stage(pa.table({"code": pa.array(range(2_500_000, 0, -1), pa.int32())}))
    send(lake, staged)
    assert read_release(lake.table(NAME), "2026-W01").column("code").equals(staged.rows.column("code"))
    assert len(data_files_on_disk(lake)) == 1


def test_each_publish_is_one_commit(lake, stage):
    first, second = send(lake, stage(), "a"), send(lake, stage(), "b")
    assert second.version == first.version + 1 == DeltaTable(lake.table(NAME).address).version()


def test_releases_stand_beside_each_other(lake, stage):
    one, two = stage(3), stage(5)
    send(lake, one, "a")
    send(lake, two, "b")
    assert read_release(lake.table(NAME), "a").equals(one.rows)
    assert read_release(lake.table(NAME), "b").equals(two.rows)
    assert everything(lake).groupby("release").size().to_dict() == {"a": 3, "b": 5}


def test_a_later_run_replaces_its_release_and_the_old_one_stays_in_its_version(lake, stage):
    old, new = stage(3), stage(5)
    before = send(lake, old, "a", run_key="run 1")
    send(lake, new, "a", run_key="run 2")
    assert read_release(lake.table(NAME), "a").equals(new.rows)
    assert read_release(lake.table(NAME), "a", version=before.version).equals(old.rows)
    assert states(lake) == [("a", "superseded"), ("a", "current")]


def test_versions_are_true_on_a_snapshot_that_other_writers_have_overtaken(lake, stage):
    send(lake, stage(3), "a")
    overtaken = open_table(lake.table(NAME))
    send(lake, stage(4), "b")
    send(lake, stage(5), "c")
    reported = newest(lake.table(NAME), overtaken.version())
    assert [(entry.release_id, entry.version) for entry in reported] == [("a", 1)]
    found = publications(lake.table(NAME))
    assert [(entry.release_id, entry.version) for entry in found] == [("a", 1), ("b", 2), ("c", 3)]


def test_commit_carries_the_proof(lake, stage):
    staged = stage()
    done = send(lake, staged, "2026-W01", run_key="dag/run")
    commit = DeltaTable(lake.table(NAME).address).history(1)[0]["privacy_release"]
    assert commit["sha256"] == staged.sha256
    assert commit["manifest"] == done.manifest_sha256
    assert commit["report"] == hashlib.sha256(staged.report.read_bytes()).hexdigest() == done.report_sha256
    assert commit["rows"] == 6
    assert commit["figures"] == {"method": "ilp_l_diversity", "guarantees": ["k=10", "l=3"], "loss": None}
    assert (commit["release"], commit["run_key"]) == ("2026-W01", "dag/run")


def test_manifest_and_report_are_where_the_hashes_say(lake, stage):
    staged = stage()
    done = send(lake, staged)
    assert manifest_of(lake.table(NAME), "2026-W01") == MANIFEST
    for uri, digest in ((done.manifest_uri, done.manifest_sha256), (done.report_uri, done.report_sha256)):
        file = Path(uri.removeprefix("file://"))
        assert file.stem == digest == sha256_file(file)
    assert Path(done.report_uri.removeprefix("file://")).read_bytes() == staged.report.read_bytes()


def test_result_is_plain_json(lake, stage):
    done = asdict(send(lake, stage()))
    assert json.loads(json.dumps(done)) == done
    assert json.loads(json.dumps(releases(lake.table(NAME))))[0]["sha256"] == done["sha256"]


def test_a_changed_manifest_is_noticed(lake, stage):
    done = send(lake, stage())
    Path(done.manifest_uri.removeprefix("file://")).write_text('{"guarantees": ["k=1000"]}')
    with pytest.raises(IntegrityError, match="it was changed"):
        manifest_of(lake.table(NAME), "2026-W01")


def test_rows_lost_to_another_tool_are_noticed(lake, stage):
    send(lake, stage())
    DeltaTable(lake.table(NAME).address).delete("weight = 1")
    with pytest.raises(IntegrityError, match="must hold 6 rows of this release, got 5"):
        read_release(lake.table(NAME), "2026-W01")


def test_rows_added_by_another_tool_are_noticed(lake, stage):
    send(lake, stage())
    row = pa.table({"age": ["[0, 9]"], "weight": [1], "release": ["2026-W01"]})
    write_deltalake(lake.table(NAME).address, row, mode="append")
    with pytest.raises(IntegrityError, match="must hold 6 rows of this release, got 7"):
        read_release(lake.table(NAME), "2026-W01")


def test_no_writer_ever_removes_entries_of_the_log(lake, stage):
    send(lake, stage())
    options = DeltaTable(lake.table(NAME).address).metadata().configuration
    assert options["delta.enableExpiredLogCleanup"] == "false"
    assert options["delta.logRetentionDuration"] == "interval 36500 days"


def test_another_tools_commits_are_no_releases(lake, stage):
    send(lake, stage(3), "a", run_key="1")
    send(lake, stage(4), "a", run_key="2")
    DeltaTable(lake.table(NAME).address).optimize.compact()
    DeltaTable(lake.table(NAME).address).create_checkpoint()
    send(lake, stage(5), "b")
    assert states(lake) == [("a", "superseded"), ("a", "current"), ("b", "current")]


def test_a_checkpoint_keeps_proofs_and_retries(lake, stage):
    staged = stage()
    first = send(lake, staged, "a")
    table = DeltaTable(lake.table(NAME).address)
    table.create_checkpoint()
    table.cleanup_metadata()
    assert send(lake, staged, "a").version == first.version


def test_log_and_files_hold_no_minima_and_maxima_of_cells(lake, stage):
    send(lake, stage(pa.table({"name": ["CANARY-A", "CANARY-B"]})))
    for log in (Path(lake.table(NAME)) / "_delta_log").iterdir():
        assert b"CANARY" not in log.read_bytes()


# What is in the file


def test_pandas_metadata_and_field_metadata_do_not_travel(lake, stage):
    frame = pd.DataFrame({"age": [3, 4]}, index=pd.Index([17, 99], name="person"))
    rows = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata({"secret": "CANARY"})
    field = rows.schema.field("age").with_metadata({"source": "CANARY"})
    send(lake, stage(rows.cast(pa.schema([field], metadata={"secret": "CANARY", "pandas": "CANARY"}))))
    assert read_release(lake.table(NAME), "2026-W01").schema.metadata is None
    for file in Path(lake.table(NAME)).rglob("*"):
        assert not file.is_file() or b"CANARY" not in file.read_bytes()


def test_a_row_index_that_travelled_as_a_column_is_refused(lake, stage, tmp_path):
    staged = stage()
    pd.DataFrame({"age": [3, 4]}, index=[17, 99]).to_parquet(staged.file)
    changed = Staged(staged.rows, staged.file, staged.report, sha256_file(staged.file))
    with pytest.raises(SchemaError, match="__index_level_0__"):
        send(lake, changed)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (pa.array(["a", "b", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", "b", None], pa.large_string()), pa.string()),
        (pa.array([1, 255, None], pa.uint8()), pa.int16()),
        (pa.array([1, 65_535, None], pa.uint16()), pa.int32()),
        (pa.array([1, 2**32 - 1, None], pa.uint32()), pa.int64()),
        (pa.array([1, 2**63 - 1, None], pa.uint64()), pa.int64()),
        (pa.array([-5, 5, None], pa.int8()), pa.int8()),
        (pa.array([1.5, float("inf"), None]), pa.float64()),
        (pa.array([True, False, None]), pa.bool_()),
        (pa.array([1_000, 2_000, None], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1, 2, None], pa.timestamp("us", "Europe/Paris")), pa.timestamp("us", "UTC")),
        (pa.array([1, 2, None], pa.date32()), pa.date32()),
        (pa.array([1, 2, None], pa.decimal128(12, 2)), pa.decimal128(12, 2)),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_a_column_is_kept_without_loss(lake, stage, given, kept):
    send(lake, stage(pa.table({"x": given})))
    back = read_release(lake.table(NAME), "2026-W01").column("x")
    assert back.type == kept
    assert back.combine_chunks().equals(given.cast(kept))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63 + 77], pa.uint64()),
        pa.array([1_000_000_077], pa.timestamp("ns")),
    ],
    ids=["uint64 beyond int64", "nanoseconds"],
)
def test_a_column_that_would_lose_digits_is_refused_without_showing_a_cell(lake, stage, column):
    with pytest.raises(SchemaError, match="column x must fit") as caught:
        send(lake, stage(pa.table({"x": column})))
    assert "77" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "column",
    [pa.nulls(2), pa.array([[1], [2]]), pa.array([1, 2], pa.duration("s")), pa.array([{"a": 1}, None])],
    ids=lambda column: str(column.type),
)
def test_a_type_that_the_lake_cannot_hold_is_refused_by_name(lake, stage, column):
    with pytest.raises(SchemaError, match="column odd must be text"):
        send(lake, stage(pa.table({"odd": column})))


@pytest.mark.parametrize("names", [["release"], ["Release"], ["age", "Age"], ["__index_level_0__"]])
def test_reserved_and_clashing_columns_are_refused(lake, stage, names):
    with pytest.raises(SchemaError, match="rename them at the source"):
        send(lake, stage(pa.table([[1]] * len(names), names=names)))


def test_an_empty_release_is_refused(lake, stage):
    with pytest.raises(SchemaError, match="at least one row"):
        send(lake, stage(pa.table({"age": pa.array([], pa.string())})))


@pytest.mark.parametrize(
    "column", ["education-num", "capital.gain", "Hours Per Week", "âge", "a`b", 'a"b', "x;y"]
)
def test_any_column_name_survives_a_second_release(lake, stage, column):
    staged = stage(pa.table({column: [1, 2]}))
    send(lake, staged, "a")
    send(lake, staged, "b")
    assert read_release(lake.table(NAME), "b").equals(staged.rows)


# Releases with other columns


def test_a_new_column_is_added_and_older_releases_keep_their_own_columns(lake, stage):
    old, new = stage(pa.table({"age": [1, 2]})), stage(pa.table({"sex": ["f"], "age": [3]}))
    send(lake, old, "a")
    send(lake, new, "b")
    assert read_release(lake.table(NAME), "a").equals(old.rows)
    assert read_release(lake.table(NAME), "b").equals(new.rows)
    assert everything(lake).query("release == 'a'")["sex"].isna().all()


def test_a_release_may_lack_a_column_of_the_table(lake, stage):
    send(lake, stage(pa.table({"age": [1], "sex": ["f"]})), "a")
    fewer = stage(pa.table({"age": [2]}))
    send(lake, fewer, "b")
    assert read_release(lake.table(NAME), "b").equals(fewer.rows)


def test_a_column_that_changed_its_type_is_refused_and_nothing_is_cast(lake, stage):
    send(lake, stage(pa.table({"age": [1, 2], "zip": ["a", "b"]})), "a")
    before = everything(lake)
    with pytest.raises(SchemaError, match=r"age \(int64 in the table, double here\)") as caught:
        send(lake, stage(pa.table({"age": [1.25], "zip": ["CANARY"]})), "b")
    with pytest.raises(SchemaError, match=r"zip \(string in the table, int64 here\)"):
        send(lake, stage(pa.table({"age": [1], "zip": [3]})), "b")
    assert "CANARY" not in str(caught.value)
    pd.testing.assert_frame_equal(everything(lake), before)


@pytest.mark.parametrize(
    ("old", "form"),
    [
        ({"age": ["[1, 2]"]}, "text"),
        ({"age": [1.5]}, "midpoint"),
        ({"age_from": [1], "age_to": [2], "age_null": [False]}, "bounds"),
    ],
)
def test_a_table_of_many_releases_keeps_its_form_of_intervals(lake, stage, old, form):
    bounds, text = {"age_from": [3], "age_to": [4]}, {"age": ["[3, 4]"]}
    send(lake, stage(pa.table(old | {"n": [7]})), "a")
    before = everything(lake)
    with pytest.raises(SchemaError, match=rf"both 'age' and age_from, age_to.*`intervals: {form}`"):
        send(lake, stage(pa.table((text if form == "bounds" else bounds) | {"n": [8]})), "b")
    pd.testing.assert_frame_equal(everything(lake), before)
    send(lake, stage(pa.table(old | {"n": [9]})), "c")
    assert len(everything(lake)) == 2


def test_a_snapshot_may_come_in_another_form_of_intervals(lake, stage):
    rules = TableRules(mode=PublishMode.SNAPSHOT)
    send(lake, stage(pa.table({"age": ["[1, 2]"]})), "a", rules=rules)
    send(lake, stage(pa.table({"age_from": [1], "age_to": [2]})), "b", rules=rules)
    assert list(everything(lake)) == ["age_from", "age_to", "release"]


# Nothing that was not verified


def test_a_staged_file_that_changed_after_verification_is_refused(lake, stage):
    first = stage(3)
    send(lake, first, "a")
    staged = stage(4)
    pq.write_table(staged.rows.slice(1), staged.file)
    with pytest.raises(IntegrityError, match="changed between two steps"):
        send(lake, staged, "b")
    assert states(lake) == [("a", "current")]
    assert read_release(lake.table(NAME), "a").equals(first.rows)


def test_one_flipped_bit_is_refused(lake, stage):
    staged = stage()
    data = bytearray(staged.file.read_bytes())
    data[len(data) // 2] ^= 1
    staged.file.write_bytes(data)
    with pytest.raises(IntegrityError, match="must have the recorded sha256"):
        send(lake, staged)
    assert releases(lake.table(NAME)) == []


def test_a_truncated_file_is_refused_by_its_hash(lake, stage):
    staged = stage()
    os.truncate(staged.file, staged.file.stat().st_size // 2)
    with pytest.raises(IntegrityError, match="must have the recorded sha256"):
        send(lake, staged)


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused_even_if_its_hash_was_recorded(lake, stage, kept):
    staged = stage(pa.table({"name": ["CANARY"] * 9}))
    os.truncate(staged.file, int(staged.file.stat().st_size * kept))
    truncated = Staged(staged.rows, staged.file, staged.report, sha256_file(staged.file))
    with pytest.raises(IntegrityError, match="not a whole Parquet file") as caught:
        send(lake, truncated)
    assert "CANARY" not in str(caught.value)
    assert not Path(lake.table(NAME)).exists()


@pytest.mark.parametrize("missing", ["file", "report"])
def test_a_missing_input_is_refused(lake, stage, missing):
    staged = stage()
    getattr(staged, missing).unlink()
    with pytest.raises(IntegrityError, match="got FileNotFoundError"):
        send(lake, staged)
    assert releases(lake.table(NAME)) == []


def test_publishing_leaves_the_staged_file_and_the_manifest_alone(lake, stage):
    staged, manifest = stage(), dict(MANIFEST)
    send(lake, staged, manifest=manifest)
    assert sha256_file(staged.file) == staged.sha256
    assert manifest == MANIFEST


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}])
def test_a_manifest_that_is_not_json_is_refused(lake, stage, value):
    with pytest.raises((ValueError, TypeError)):
        send(lake, stage(), manifest={"figure": value})
    assert releases(lake.table(NAME)) == []


# Names


NASTY_IDS = [
    "o'brien",
    "' OR 1=1 --",
    "''; DELETE",
    "a/b",
    "../../etc",
    "..",
    ".",
    "100%",
    "a%2Fb",
    "release=x",
    "scheduled__2026-11-20T00:00:00+00:00",
    "back\\slash",
    'quo"te',
    "a  b",
    "größe",
    "日本",
    "null",
    "*",
    "{x: 1}",
    "#?&",
]


def test_any_printable_release_id_is_kept_apart_from_the_others(lake, stage):
    sizes = {release_id: size for size, release_id in enumerate(NASTY_IDS, start=1)}
    for release_id, size in sizes.items():
        send(lake, stage(size), release_id)
    for release_id, size in sizes.items():
        assert read_release(lake.table(NAME), release_id).num_rows == size
    gone, left = NASTY_IDS[::2], NASTY_IDS[1::2]
    for release_id in gone:
        assert retract(lake.table(NAME), release_id, "test").files_removed == 2  # data and report
    held = {folder_name(release_id): sizes[release_id] for release_id in left}
    assert everything(lake).groupby("release").size().to_dict() == held
    assert len(data_files_on_disk(lake)) == len(left)


@pytest.mark.parametrize(
    "bad",
    ["", " ", " padded", "padded ", "new\nline", "nul\0", "bell\a", "\ud800", "x" * 241, "日" * 30,
     "__HIVE_DEFAULT_PARTITION__"],
    ids=["empty", "blank", "left", "right", "newline", "nul", "bell", "surrogate", "long", "long encoded",
         "hive"],
)  # fmt: skip
def test_an_unfit_release_id_is_refused_by_every_function(lake, stage, bad):
    staged = stage()
    send(lake, staged, "good")
    for act in (
        lambda: send(lake, staged, bad),
        lambda: retract(lake.table(NAME), bad, "reason"),
        lambda: read_release(lake.table(NAME), bad),
    ):
        with pytest.raises(ValueError, match="the release id must"):
            act()
    assert states(lake) == [("good", "current")]


@pytest.mark.parametrize("bad", ["", "_proof", "../x", "a/b", ".hidden", "a b", "x" * 101, "a\n", "a'b"])
def test_a_table_name_that_could_leave_the_lake_is_refused(lake, stage, bad):
    with pytest.raises(ValueError, match="a table name must"):
        send(lake, stage(), name=bad)
    with pytest.raises(ValueError, match="a table name must"):
        releases(lake.table(bad))


@pytest.mark.parametrize(
    "root", ["relative/lake", "", "s3://key:CANARY@bucket/x", "https://host/x?sig=CANARY"]
)
def test_a_lake_address_that_is_relative_or_carries_a_secret_is_refused(root):
    with pytest.raises(ValueError, match="the lake's") as caught:
        Lake(root=root)
    assert "CANARY" not in str(caught.value)


def test_a_plain_path_and_a_file_address_are_the_same_lake(tmp_path, stage):
    folder = tmp_path / "a b"
    staged = stage()
    send(Lake(root=f"file://{tmp_path}/a%20b"), staged)
    assert send(Lake(root=str(folder)), staged).already


def test_storage_options_are_not_shown():
    lake = Lake(root="s3://bucket/lake", storage_options=(("AWS_SECRET_ACCESS_KEY", "CANARY"),))
    assert "CANARY" not in repr(lake)
    assert "CANARY" not in str(lake)


# Retries


def test_a_retry_of_the_same_run_finds_its_commit(lake, stage):
    staged = stage()
    first = send(lake, staged, "a", run_key="run 1")
    log_before = len(DeltaTable(lake.table(NAME).address).history())
    again = send(lake, staged, "a", run_key="run 1")
    assert again.already
    assert asdict(again) | {"already": False} == asdict(first)
    assert len(DeltaTable(lake.table(NAME).address).history()) == log_before


def test_a_retry_needs_no_staged_file_any_more(lake, stage):
    staged = stage()
    send(lake, staged, "a")
    staged.file.unlink()
    staged.report.unlink()
    assert send(lake, staged, "a").already


def test_a_retry_finds_its_own_commit_behind_later_ones(lake, stage):
    staged = stage(3)
    first = send(lake, staged, "a", run_key="run 1")
    send(lake, stage(4), "a", run_key="run 2")
    send(lake, stage(5), "b", run_key="run 1")
    again = send(lake, staged, "a", run_key="run 1")
    assert (again.already, again.version) == (True, first.version)
    assert read_release(lake.table(NAME), "a").num_rows == 4


def test_a_retry_with_other_bytes_is_refused(lake, stage):
    old = stage(3)
    send(lake, old, "a", run_key="run 1")
    with pytest.raises(PublishError, match="already published other bytes"):
        send(lake, stage(4), "a", run_key="run 1")
    assert read_release(lake.table(NAME), "a").equals(old.rows)


def test_one_run_may_publish_several_releases(lake, stage):
    send(lake, stage(3), "k=5", run_key="run 1")
    assert not send(lake, stage(4), "k=10", run_key="run 1").already


# Crashes


@pytest.fixture(params=["crash", pytest.param("kill", marks=pytest.mark.slow)])
def end_at(request, monkeypatch):
    """Publish up to a point; only the kill shows what stays of files where no clean-up runs."""
    if request.param == "crash":
        return lambda point, *given, **more: crashed(monkeypatch, point, send, *given, **more)
    return lambda point, *given, **more: Child(send, *given, at={point: KILL}, **more).killed()


CRASHES = ["before_proofs", "in_manifest", "between_proofs", "after_proofs", "before_commit", "data_on_disk",
           "after_commit"]  # fmt: skip


@pytest.mark.parametrize("point", CRASHES)
def test_a_crash_leaves_the_previous_release_and_a_retry_publishes_once(lake, stage, end_at, point):
    old, new = stage(3), stage(5)
    before = send(lake, old, "a", run_key="run 1")
    files_before, proofs_before = data_files_on_disk(lake), proofs_on_disk(lake)

    manifest = MANIFEST | {"source_rows": 5}
    end_at(point, lake, new, "a", run_key="run 2", manifest=manifest)

    committed = point == "after_commit"
    assert read_release(lake.table(NAME), "a").equals(new.rows if committed else old.rows)
    assert len(everything(lake)) == (5 if committed else 3)
    assert read_release(lake.table(NAME), "a", version=before.version).equals(old.rows)
    assert DeltaTable(lake.table(NAME).address).version() == before.version + committed
    if point == "data_on_disk":
        assert data_files_on_disk(lake) > files_before
    if point in ("in_manifest", "between_proofs"):
        assert len(proofs_on_disk(lake) - proofs_before) == 1

    done = send(lake, new, "a", run_key="run 2", manifest=manifest)
    assert done.already == committed
    assert done.version == before.version + 1 == DeltaTable(lake.table(NAME).address).version()
    assert read_release(lake.table(NAME), "a").equals(new.rows)
    assert states(lake) == [("a", "superseded"), ("a", "current")]

    clean_orphans(lake.table(NAME), older_than=timedelta(0))
    assert len(data_files_on_disk(lake)) == 2
    assert len(proofs_on_disk(lake)) == 4
    assert read_release(lake.table(NAME), "a", version=before.version).equals(old.rows)
    assert read_release(lake.table(NAME), "a").equals(new.rows)
    assert manifest_of(lake.table(NAME), "a") == manifest


@pytest.mark.parametrize("point", CRASHES)
def test_a_crash_of_the_very_first_publish_shows_no_half_release(lake, stage, end_at, point):
    staged = stage(5)
    end_at(point, lake, staged, "a", run_key="run 1")
    committed = point == "after_commit"
    assert len(releases(lake.table(NAME))) == committed
    if DeltaTable.is_deltatable(lake.table(NAME)):
        assert len(everything(lake)) == (5 if committed else 0)
    assert send(lake, staged, "a", run_key="run 1").already == committed
    assert states(lake) == [("a", "current")]
    assert read_release(lake.table(NAME), "a").equals(staged.rows)
    clean_orphans(lake.table(NAME), older_than=timedelta(0))
    assert (len(data_files_on_disk(lake)), len(proofs_on_disk(lake))) == (1, 2)


def test_orphans_of_a_publication_that_may_still_run_are_left_alone(lake, stage, monkeypatch):
    send(lake, stage(3), "a", run_key="run 1")
    crashed(monkeypatch, "data_on_disk", send, lake, stage(5), "a", run_key="run 2")
    files = data_files_on_disk(lake)
    assert clean_orphans(lake.table(NAME)) == 0
    assert data_files_on_disk(lake) == files


# Two at once


@pytest.fixture
def meanwhile(monkeypatch):
    """What another does while the work of the test is at a point; the results come in a list."""

    def at(point, work, *given, **more):
        done = []
        arm(point, lambda: done.append(work(*given, **more)), monkeypatch.setattr)
        return done

    return at


def test_two_attempts_of_one_run_at_once_make_one_commit(lake, stage, meanwhile):
    staged = stage()
    before = send(lake, stage(2), "earlier")
    first = meanwhile("before_commit", send, lake, staged, "a", run_key="run 1")
    second = send(lake, staged, "a", run_key="run 1")
    assert (first[0].already, second.already) == (False, True)
    assert (
        first[0].version
        == second.version
        == before.version + 1
        == DeltaTable(lake.table(NAME).address).version()
    )
    assert states(lake) == [("earlier", "current"), ("a", "current")]
    assert read_release(lake.table(NAME), "a").equals(staged.rows)


def test_two_attempts_of_one_run_at_once_make_one_commit_replacing_an_old_release(lake, stage, meanwhile):
    staged = stage(5)
    send(lake, stage(3), "a", run_key="run 1")
    first = meanwhile("before_commit", send, lake, staged, "a", run_key="run 2")
    assert send(lake, staged, "a", run_key="run 2").already
    assert not first[0].already
    assert states(lake) == [("a", "superseded"), ("a", "current")]
    assert read_release(lake.table(NAME), "a").equals(staged.rows)


def test_different_releases_at_once_all_land(lake, stage, meanwhile):
    send(lake, stage(2), "earlier")
    one, other = stage(3), stage(4)
    first = meanwhile("before_commit", send, lake, one, "one")
    second = send(lake, other, "other")
    assert not first[0].already
    assert not second.already
    assert second.version == first[0].version + 1
    assert read_release(lake.table(NAME), "one").equals(one.rows)
    assert read_release(lake.table(NAME), "other").equals(other.rows)


def test_of_two_runs_that_publish_one_release_at_once_the_last_one_is_whole(lake, stage, meanwhile):
    send(lake, stage(2), "a", run_key="run 0")
    last = stage(4)
    meanwhile("before_commit", send, lake, stage(3), "a", run_key="run 1")
    send(lake, last, "a", run_key="run 2")
    assert states(lake) == [("a", "superseded"), ("a", "superseded"), ("a", "current")]
    assert read_release(lake.table(NAME), "a").equals(last.rows)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("point", ["no_table", "before_create", pytest.param("both", marks=pytest.mark.slow)])
def test_two_first_publications_at_once_create_one_table(lake, stage, meanwhile, same, point):
    """Only two processes, `both`, write the first files of one folder at the same moment."""
    staged = [stage(3)] * 2 if same else [stage(3), stage(pa.table({"other": ["x"] * 4}))]
    ids = ["a", "a"] if same else ["a", "b"]
    tasks = [(lake, one, i, f"run {i}") for one, i in zip(staged, ids, strict=True)]
    if point == "both":
        at = {"before_create": MEET, "before_commit": MEET}
        results = at_once(*(Child(send, *task, at=at) for task in tasks), meetings=2)
    else:
        first = meanwhile(point, send, *tasks[0])
        results = [send(*tasks[1]), *first]
    assert sorted(result.already for result in results) == [False, same]
    assert sorted(states(lake)) == sorted({(i, "current") for i in ids})
    for one, i in zip(staged, ids, strict=True):
        assert read_release(lake.table(NAME), i).equals(one.rows)


@pytest.mark.slow
@pytest.mark.parametrize("same_run", [True, False])
def test_processes_that_commit_one_release_at_once_leave_one_of_them_whole(lake, stage, same_run):
    """Only two processes write the same file of the log at the same moment."""
    send(lake, stage(2), "a", run_key="run 0")
    staged = [stage(3)] * 2 if same_run else [stage(3), stage(4)]
    keys = ["run 1"] * 2 if same_run else ["run 1", "run 2"]
    children = [
        Child(send, lake, one, "a", key, at={"before_commit": MEET})
        for one, key in zip(staged, keys, strict=True)
    ]
    assert sorted(done.already for done in at_once(*children)) == [False, same_run]
    assert states(lake) == [("a", "superseded")] * (1 if same_run else 2) + [("a", "current")]
    assert any(read_release(lake.table(NAME), "a").equals(one.rows) for one in staged)


@pytest.mark.parametrize("point", ["in_stream", "before_commit", "after_commit"])
def test_a_reader_sees_the_old_release_or_the_new_one(lake, stage, meanwhile, point):
    old, new = stage(3), stage(5)
    send(lake, old, "a", run_key="run 1")
    with ThreadPoolExecutor(1) as reader:  # the writer's own thread may not read
        seen = meanwhile(point, lambda: reader.submit(lambda: len(everything(lake))).result())
        send(lake, new, "a", run_key="run 2")
    assert seen[0] == (5 if point == "after_commit" else 3)


# Unreachable


@pytest.mark.parametrize("where", ["/proc/none/lake", "file:///proc/none/lake", "a file"])
def test_an_unreachable_folder_is_a_publish_error_and_loses_nothing(tmp_path, stage, where):
    staged = stage()
    if where == "a file":
        (tmp_path / "plain").write_bytes(b"")
        where = f"{tmp_path}/plain/lake"
    with pytest.raises(PublishError, match="permissions of the service user"):
        send(Lake(root=where), staged)
    assert sha256_file(staged.file) == staged.sha256


def test_an_object_store_that_is_down_is_a_publish_error_without_secrets(stage):
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "CANARY",
        "AWS_SECRET_ACCESS_KEY": "CANARY",
        "max_retries": "0",
    }
    staged = stage()
    lake = Lake(root="s3://bucket/lake", storage_options=tuple(options.items()))
    for act in (
        lambda: send(lake, staged),
        lambda: releases(lake.table(NAME)),
        lambda: retract(lake.table(NAME), "a", "reason"),
    ):
        with pytest.raises(PublishError, match="s3://bucket/lake") as caught:
            act()
        assert "CANARY" not in str(caught.value)
        assert caught.value.__suppress_context__
    assert sha256_file(staged.file) == staged.sha256


def test_a_lake_that_fails_in_the_middle_keeps_the_previous_release(lake, stage):
    old, new = stage(3), stage(4)
    send(lake, old, "a", run_key="run 1")
    log = Path(lake.table(NAME)) / "_delta_log"
    taken = log / "00000000000000000002.json"
    taken.mkdir()  # the commit cannot be written
    with pytest.raises(PublishError):
        send(lake, new, "a", run_key="run 2")
    taken.rmdir()
    assert read_release(lake.table(NAME), "a").equals(old.rows)
    assert not send(lake, new, "a", run_key="run 2").already
    assert read_release(lake.table(NAME), "a").equals(new.rows)


@pytest.mark.parametrize("act", [read_release, manifest_of])
def test_a_missing_table_or_release_is_a_clear_error(lake, stage, act):
    with pytest.raises(PublishError, match="table adult must exist"):
        act(lake.table(NAME), "a")
    assert releases(lake.table(NAME)) == []
    send(lake, stage(), "a")
    with pytest.raises(PublishError, match="must have this release"):
        act(lake.table(NAME), "b")


# Retraction


def test_a_retracted_release_is_gone_from_every_version(lake, stage):
    first = send(lake, stage(3), "a", run_key="run 1")
    second = send(lake, stage(4), "a", run_key="run 2")
    done = retract(lake.table(NAME), "a", "wrong source")
    assert not done.already
    assert len(everything(lake)) == 0
    for version in (first.version, second.version):
        with pytest.raises(FileNotFoundError):
            everything(lake, version)
        with pytest.raises(PublishError, match="retracted from table adult: wrong source"):
            read_release(lake.table(NAME), "a", version=version)
    assert data_files_on_disk(lake) == set()
    assert states(lake) == [("a", "retracted")] * 2


def test_other_releases_stay_readable_in_all_their_versions(lake, stage):
    old, new, bad = stage(3), stage(4), stage(5)
    first = send(lake, old, "b", run_key="run 1")
    send(lake, bad, "a")
    send(lake, new, "b", run_key="run 2")
    retract(lake.table(NAME), "a", "wrong source")
    assert read_release(lake.table(NAME), "b").equals(new.rows)
    assert read_release(lake.table(NAME), "b", version=first.version).equals(old.rows)
    assert len(everything(lake)) == 4


def test_nothing_of_the_retracted_cells_is_left_on_disk(lake, stage):
    secret = stage(pa.table({"name": ["CANARY-1", "CANARY-2"], "pay": [1, 2]}))
    send(lake, stage(3), "b")
    send(lake, secret, "a")
    retract(lake.table(NAME), "a", "wrong source")
    for file in lake.folder.rglob("*"):
        assert not file.is_file() or b"CANARY" not in file.read_bytes()


def test_leftovers_of_a_crashed_attempt_go_with_the_retraction(lake, stage, monkeypatch):
    staged = stage(pa.table({"name": ["CANARY"] * 5}))
    crashed(monkeypatch, "data_on_disk", send, lake, staged, "a", run_key="run 1")
    send(lake, staged, "a", run_key="run 1")
    assert len(data_files_on_disk(lake)) >= 2
    retract(lake.table(NAME), "a", "wrong source")
    assert data_files_on_disk(lake) == set()


def test_report_and_manifest_go_and_a_tombstone_stays(lake, stage):
    published = send(lake, stage(), "a")
    done = retract(lake.table(NAME), "a", "wrong source")
    stone = manifest_of(lake.table(NAME), "a")
    assert stone["retracted"] is True
    assert (stone["release"], stone["reason"]) == ("a", "wrong source")
    assert stone["publications"][0]["sha256"] == published.sha256
    assert stone["publications"][0]["figures"]["method"] == "ilp_l_diversity"
    assert proofs_on_disk(lake) == {f"{done.tombstone_sha256}.json"}
    note = DeltaTable(lake.table(NAME).address).history(1)[0]["privacy_release"]
    assert (note["action"], note["reason"], note["release"]) == ("retract", "wrong source", "a")


def test_proofs_that_another_release_shares_stay(lake, stage):
    staged = stage()
    send(lake, staged, "a")
    published = send(lake, staged, "b")
    retract(lake.table(NAME), "a", "wrong source")
    assert manifest_of(lake.table(NAME), "b") == MANIFEST
    assert f"{published.report_sha256}.html" in proofs_on_disk(lake)


def test_a_second_retraction_says_so_and_changes_nothing(lake, stage):
    send(lake, stage(), "a")
    first = retract(lake.table(NAME), "a", "wrong source")
    version = DeltaTable(lake.table(NAME).address).version()
    again = retract(lake.table(NAME), "a", "another reason")
    assert (again.already, again.version, again.files_removed) == (True, first.version, 0)
    assert DeltaTable(lake.table(NAME).address).version() == version
    assert manifest_of(lake.table(NAME), "a")["reason"] == "wrong source"


def test_a_retraction_that_crashed_after_its_commit_is_finished_by_the_next(lake, stage, monkeypatch):
    staged = stage()
    published = send(lake, staged, "a")
    crashed(monkeypatch, "after_delete", retract, lake.table(NAME), "a", "wrong source")
    assert len(everything(lake)) == 0
    assert len(everything(lake, published.version)) == 6  # not erased yet
    done = retract(lake.table(NAME), "a", "wrong source")
    assert (done.already, done.files_removed) == (True, 3)
    with pytest.raises(FileNotFoundError):
        everything(lake, published.version)


def test_retracting_one_release_and_publishing_another_at_once_both_succeed(lake, stage, meanwhile):
    good = stage(4)
    send(lake, stage(3), "a")
    publication = meanwhile("before_delete", send, lake, good, "b")
    assert not retract(lake.table(NAME), "a", "wrong source").already
    assert not publication[0].already
    assert states(lake) == [("a", "retracted"), ("b", "current")]
    assert read_release(lake.table(NAME), "b").equals(good.rows)


def test_a_replacement_that_was_overtaken_by_a_retraction_comes_after_it(lake, stage, meanwhile):
    good = stage(4)
    send(lake, stage(3), "a", run_key="run 1")
    meanwhile("before_commit", retract, lake.table(NAME), "a", "wrong source")
    send(lake, good, "a", run_key="run 2")
    assert states(lake) == [("a", "retracted"), ("a", "current")]
    assert read_release(lake.table(NAME), "a").equals(good.rows)


def test_a_retraction_that_was_overtaken_by_a_replacement_takes_that_too(lake, stage, meanwhile):
    send(lake, stage(3), "a", run_key="run 1")
    meanwhile("before_delete", send, lake, stage(4), "a", run_key="run 2")
    retract(lake.table(NAME), "a", "wrong source")
    assert states(lake) == [("a", "retracted")] * 2
    assert data_files_on_disk(lake) == set()


@pytest.mark.slow
def test_processes_that_retract_and_replace_one_release_at_once_never_leave_half_of_it(lake, stage):
    """Only two processes write the same file of the log at the same moment."""
    good = stage(4)
    send(lake, stage(3), "a", run_key="run 1")
    at_once(
        Child(retract, lake.table(NAME), "a", "wrong source", at={"before_delete": MEET}),
        Child(send, lake, good, "a", "run 2", at={"before_commit": MEET}),
    )
    assert states(lake)[0] == ("a", "retracted")
    if states(lake)[1] == ("a", "current"):  # it came second
        assert read_release(lake.table(NAME), "a").equals(good.rows)
    else:
        assert data_files_on_disk(lake) == set()
    assert len(everything(lake)) in (0, 4)


def test_a_release_published_again_during_a_retraction_survives_a_store_clock_behind_ours(
    lake, stage, meanwhile
):
    good = stage(4)
    send(lake, stage(3), "a", run_key="run 1")

    def replace() -> None:
        send(lake, good, "a", run_key="run 2")
        for file in data_files_on_disk(lake):
            os.utime(file, (0, 0))

    meanwhile("after_delete", replace)
    retract(lake.table(NAME), "a", "wrong source")
    assert read_release(lake.table(NAME), "a").equals(good.rows)
    assert len(data_files_on_disk(lake)) == 1


def test_a_file_of_a_run_that_has_yet_to_commit_survives_a_store_that_counts_whole_seconds(
    lake, stage, meanwhile
):
    send(lake, stage(3), "a")
    (published,) = data_files_on_disk(lake)
    crashed_file, uncommitted = (
        published.with_name(f"part-{word}.parquet") for word in ("crashed", "uncommitted")
    )

    def leave_files() -> None:
        second = 1_800_000_000
        commit = Path(lake.table(NAME)) / "_delta_log" / "00000000000000000002.json"
        for file, modified in ((crashed_file, second - 1), (commit, second), (uncommitted, second)):
            file.touch()
            os.utime(file, (modified, modified))

    meanwhile("after_delete", leave_files)
    retract(lake.table(NAME), "a", "wrong source")
    assert data_files_on_disk(lake) == {uncommitted}


def test_a_retraction_erases_all_versions_with_a_store_clock_ahead_of_ours(lake, stage):
    send(lake, stage(3), "a", run_key="run 1")
    send(lake, stage(4), "a", run_key="run 2")
    for file in data_files_on_disk(lake):
        os.utime(file, (2**32, 2**32))
    retract(lake.table(NAME), "a", "wrong source")
    assert data_files_on_disk(lake) == set()


def test_a_retry_does_not_bring_a_retracted_release_back(lake, stage):
    staged = stage()
    send(lake, staged, "a", run_key="run 1")
    retract(lake.table(NAME), "a", "wrong source")
    with pytest.raises(PublishError, match="retry must not publish it again"):
        send(lake, staged, "a", run_key="run 1")
    assert len(everything(lake)) == 0


def test_a_new_run_may_publish_a_corrected_release(lake, stage):
    send(lake, stage(3), "a", run_key="run 1")
    retract(lake.table(NAME), "a", "wrong source")
    corrected = stage(4)
    send(lake, corrected, "a", run_key="run 2")
    assert read_release(lake.table(NAME), "a").equals(corrected.rows)
    assert states(lake) == [("a", "retracted"), ("a", "current")]
    assert manifest_of(lake.table(NAME), "a") == MANIFEST


def test_a_corrected_release_can_be_retracted_too(lake, stage):
    send(lake, stage(3), "a", run_key="run 1")
    retract(lake.table(NAME), "a", "wrong source")
    send(lake, stage(4), "a", run_key="run 2")
    done = retract(lake.table(NAME), "a", "wrong again")
    assert (done.already, done.files_removed) == (False, 3)
    assert [entry["tombstone"]["reason"] for entry in releases(lake.table(NAME))] == [
        "wrong source",
        "wrong again",
    ]
    assert data_files_on_disk(lake) == set()


def test_a_compacted_table_is_retracted_whole(lake, stage):
    secret = stage(pa.table({"name": ["CANARY-1", "CANARY-2"]}))
    send(lake, secret, "a")
    two_files = pa.table({"name": ["CANARY-3"], "release": ["a"]})
    write_deltalake(lake.table(NAME).address, two_files, mode="append")
    DeltaTable(lake.table(NAME).address).optimize.compact()
    retract(lake.table(NAME), "a", "wrong source")
    assert data_files_on_disk(lake) == set()


def test_retracting_what_was_never_published_is_refused(lake, stage):
    send(lake, stage(), "a")
    with pytest.raises(PublishError, match="never had this release"):
        retract(lake.table(NAME), "b", "reason")
    with pytest.raises(PublishError, match="table other must exist"):
        retract(lake.table("other"), "a", "reason")
    assert states(lake) == [("a", "current")]


@pytest.mark.parametrize("reason", ["", " ", "two\nlines", "x" * 1501])
def test_a_retraction_without_a_fit_reason_is_refused(lake, stage, reason):
    send(lake, stage(), "a")
    with pytest.raises(ValueError, match="the reason must"):
        retract(lake.table(NAME), "a", reason)
    assert states(lake) == [("a", "current")]


def test_clean_orphans_keeps_what_commits_refer_to(lake, stage):
    send(lake, stage(3), "a", run_key="run 1")
    send(lake, stage(4), "a", run_key="run 2")
    send(lake, stage(5), "b")
    retract(lake.table(NAME), "b", "wrong source")
    before = {path for path in lake.folder.rglob("*") if path.is_file()}
    assert clean_orphans(lake.table(NAME), older_than=timedelta(0)) == 0
    assert {path for path in lake.folder.rglob("*") if path.is_file()} == before
