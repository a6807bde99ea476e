"""Publishing to an object store and taking back: what stands there after each step."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import pytest

from privacy_engine.errors import IntegrityError
from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.lake.layout import TableRules
from privacy_release.lake.log import data_files
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.store import get, put, table_names
from privacy_release.lake.superseded import settle
from privacy_release.proof.check import check_table
from privacy_release.proof.faults import Fault
from privacy_release.proof.keys import SigningKey
from tests.object_stores.children import published
from tests.object_stores.staged import NAME, RELEASE, Staged, seen, send
from tests.object_stores.stores import Bucket
from tests.object_stores.wire import Wire
from tests.privacy_release.proof import signed_tables

pytestmark = pytest.mark.object_stores
Edition = Callable[[int], Staged]


def data(bucket: Bucket) -> set[str]:
    return {key for key in bucket.objects() if key.endswith(".parquet")}


def proofs(bucket: Bucket) -> set[str]:
    return {key for key in bucket.objects() if key.startswith("lake/_proof/")}


def test_a_release_is_read_as_it_was_staged_and_its_proofs_stand_beside_it(
    bucket: Bucket, edition: Edition
) -> None:
    lake, staged = bucket.lake(), edition(1)
    done = send(lake, staged, "run 1")
    assert read_release(lake.table(NAME), RELEASE).equals(staged.rows())
    assert seen(lake) == 1
    assert manifest_of(lake.table(NAME), RELEASE) == staged.manifest
    objects = bucket.objects()
    assert set(objects) == {
        f"lake/_proof/{NAME}/{done.manifest_sha256}.json",
        f"lake/_proof/{NAME}/{done.report_sha256}.html",
        f"lake/{NAME}/_delta_log/00000000000000000000.json",
        f"lake/{NAME}/_delta_log/00000000000000000001.json",
        *data(bucket),
    }
    assert objects[f"lake/_proof/{NAME}/{done.report_sha256}.html"] == staged.report.read_bytes()
    assert done.report_uri == bucket.address(f"lake/_proof/{NAME}/{done.report_sha256}.html")
    assert table_names(lake) == [NAME]


@pytest.mark.parametrize("files", [1, 3])
def test_a_signed_release_is_checked_by_what_stands_in_the_store(
    bucket: Bucket, tmp_path: Path, files: int
) -> None:
    lake, key = bucket.lake(), SigningKey.new()
    signed_tables.Publisher(lake, tmp_path, key, files=files).publish(signed_tables.people(3), "w1")
    name = signed_tables.NAME
    assert read_release(lake.table(name), "w1").num_rows == 12
    assert check_table(lake.table(name), [key.public]).right
    paths = data_files(lake.table(name), ["w1"])
    assert len(paths) == files
    path = min(paths)
    changed = bytearray(get(lake, path))
    changed[len(changed) // 2] ^= 1
    put(lake, path, bytes(changed))
    assert [reason.fault for reason in check_table(lake.table(name), [key.public]).reasons] == [Fault.FILES]


def test_a_changed_release_is_a_new_version_and_the_old_one_stays_readable(
    bucket: Bucket, edition: Edition
) -> None:
    lake, old, new = bucket.lake(), edition(1), edition(2)
    first = send(lake, old, "run 1")
    second = send(lake, new, "run 2")
    assert second.version == first.version + 1
    assert seen(lake) == 2
    assert read_release(lake.table(NAME), RELEASE, version=first.version).equals(old.rows())
    assert [entry["state"] for entry in releases(lake.table(NAME))] == ["superseded", "current"]


def test_a_stream_replaces_a_release_and_one_of_other_bytes_leaves_it(
    bucket: Bucket, edition: Edition
) -> None:
    lake, old, new, bad = bucket.lake(), edition(1), edition(2), edition(3)
    send(lake, old, "run 1")
    send(lake, new, "run 2")
    assert seen(lake) == 2
    with pytest.raises(IntegrityError):
        send(lake, replace(bad, sha256=new.sha256), "run 3")
    assert seen(lake) == 2
    assert [entry["state"] for entry in releases(lake.table(NAME))] == ["superseded", "current"]


def test_publishing_the_same_run_again_changes_no_object(bucket: Bucket, edition: Edition) -> None:
    lake, staged = bucket.lake(), edition(1)
    first = send(lake, staged, "run 1")
    before = bucket.objects()
    again = send(lake, staged, "run 1")
    assert (again.already, again.version) == (True, first.version)
    assert bucket.objects() == before


def test_a_retracted_release_leaves_its_tombstone_and_the_other_releases(
    bucket: Bucket, edition: Edition
) -> None:
    lake, kept = bucket.lake(), edition(1)
    send(lake, kept, "run 1", "2026-W46")
    before = bucket.objects()
    gone = send(lake, edition(2), "run 2")
    send(lake, edition(3), "run 3")
    done = retract(lake.table(NAME), RELEASE, "wrong source")
    assert done.files_removed == 6  # data, manifest and report of both publications
    assert seen(lake) == 1
    assert data(bucket) == {key for key in before if key.endswith(".parquet")}
    stone = f"lake/_proof/{NAME}/{done.tombstone_sha256}.json"
    assert proofs(bucket) == {stone, *(key for key in before if key.startswith("lake/_proof/"))}
    assert manifest_of(lake.table(NAME), RELEASE)["reason"] == "wrong source"
    with pytest.raises(FileNotFoundError):
        seen(lake, gone.version)
    assert retract(lake.table(NAME), RELEASE, "again").files_removed == 0


def test_a_snapshot_replaces_the_last_one_which_moves_to_a_history_and_can_be_retracted_there(
    bucket: Bucket, edition: Edition
) -> None:
    lake, apart = bucket.lake(), bucket.lake("apart")
    staged = [edition(number) for number in (1, 2, 3)]
    rules = TableRules(
        mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=apart, grace=timedelta(0)
    )
    for one in staged:
        send(lake, one, "run", f"scheduled__2026-11-0{one.edition}T00:00:00+00:00", rules)
        settle(lake.table(NAME))
    assert seen(lake) == 3
    assert {key.split("/")[2] for key in data(bucket) if key.startswith(f"lake/{NAME}/")} == {
        "release=2026-11-03T000000Z"
    }
    history, first = f"{NAME}_history", "scheduled__2026-11-01T00:00:00+00:00"
    assert read_release(apart.table(history), first).equals(staged[0].rows())
    assert len(releases(apart.table(history))) == 2
    retract(lake.table(NAME), first, "wrong source")
    assert [entry["state"] for entry in releases(apart.table(history))] == ["retracted", "current"]
    assert len([key for key in data(bucket) if key.startswith(f"apart/{history}/")]) == 1


def test_any_release_id_is_found_again_in_the_keys_of_objects(bucket: Bucket, edition: Edition) -> None:
    lake = bucket.lake()
    ids = ["scheduled__2026-11-20T00:00:00+00:00", "a/b", "100% größe", "a%2Fb", ".."]
    for number, release_id in enumerate(ids):
        send(lake, edition(number), "run", release_id)
    for number, release_id in enumerate(ids):
        assert read_release(lake.table(NAME), release_id).num_rows == 100 + number, quote(release_id)
    for release_id in ids:
        assert retract(lake.table(NAME), release_id, "test").files_removed == 3
    assert data(bucket) == set()


def test_a_report_that_is_sent_in_parts_arrives_whole(bucket: Bucket) -> None:
    report = bytes(range(256)) * 50_000
    put(bucket.lake(), "_proof/large.html", report)
    assert get(bucket.lake(), "_proof/large.html") == report


def test_what_no_commit_refers_to_is_cleaned_and_nothing_else(bucket: Bucket, edition: Edition) -> None:
    lake = bucket.lake()
    send(lake, edition(1), "run 1")
    before = bucket.objects()
    (file,) = data(bucket)
    bucket.put(f"{file.rpartition('/')[0]}/part-crashed.parquet", b"PAR1")
    bucket.put(f"lake/_proof/{NAME}/crashed.html", b"<p>")
    assert clean_orphans(lake.table(NAME)) == 0  # their publication may still run
    assert clean_orphans(lake.table(NAME), older_than=timedelta(0)) == 2
    assert bucket.objects() == before


def test_a_commit_is_a_write_that_the_store_refuses_where_one_stands(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    published(bucket.through(wire.endpoint).lake(), edition(1), "run 1")
    commits = [request for request in wire.sent if request.writes == "commit"]
    assert len(commits) == 2  # the empty table, and the publication
    for request in commits:
        assert {name.lower(): value for name, value in request.headers.items()}["if-none-match"] == "*"


def test_a_publication_writes_its_proofs_and_its_data_before_its_commit(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    send(bucket.lake(), edition(1), "run 1")
    published(bucket.through(wire.endpoint).lake(), edition(2), "run 2")
    assert [kind for kind, _ in groupby(wire.writes())] == ["proof", "data", "commit"]
