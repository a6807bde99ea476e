"""An encrypted work area: what is stored comes back as it was, or not at all."""

import hashlib
import io
import os
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import IntegrityError, SecretError, SpecError, WorkAreaError
from privacy_release.workarea.file_sets import list_of, part_name
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.presence import Mark, Owner
from privacy_release.workarea.remote.keys import Wrapping
from privacy_release.workarea.remote.scratch import Scratch
from privacy_release.workarea.remote.sealing import CHUNK, seal, unseal
from privacy_release.workarea.remote.store import Store
from privacy_release.workarea.remote.sweep import sweep_store
from privacy_release.workarea.sweep import AreaState, SweepRules
from tests.privacy_release.proof.signed_tables import write_set

KEY, ID, NAME = bytes(range(32)), b"the key.", "run/staged.parquet"
MARK = Mark(key="people/run 1", owner=Owner.RUN)
CANARY = b"Wilhelmina Canary"
WRAPPING = Wrapping(b"s" * 32, "the connection work_default")
SEALED = CHUNK + 16
HEADER = 45


def sealed(plain: bytes, name: str = NAME, key: bytes = KEY) -> bytes:
    target = io.BytesIO()
    seal(io.BytesIO(plain), target, key, key_id=ID, name=name)
    return target.getvalue()


def opened(data: bytes, name: str = NAME, key: bytes = KEY) -> bytes:
    target = io.BytesIO()
    sha256 = unseal(io.BytesIO(data), target, key, name=name)
    assert sha256 == hashlib.sha256(target.getvalue()).hexdigest()
    return target.getvalue()


def random_bytes(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK - 7])
def test_a_file_of_any_length_comes_back_as_it_was(size: int) -> None:
    assert opened(sealed(random_bytes(size))) == random_bytes(size)


def test_a_large_file_takes_the_memory_of_a_few_chunks(tmp_path: Path) -> None:
    for name in ("plain", "sealed", "opened"):
        (tmp_path / name).touch()
    os.truncate(tmp_path / "plain", 64 * CHUNK)
    tracemalloc.start()
    try:
        with (tmp_path / "plain").open("rb") as plain, (tmp_path / "sealed").open("wb") as target:
            seal(plain, target, KEY, key_id=ID, name=NAME)
        with (tmp_path / "sealed").open("rb") as source, (tmp_path / "opened").open("wb") as target:
            unseal(source, target, KEY, name=NAME)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "opened").stat().st_size == 64 * CHUNK
    assert most < 8 * CHUNK


def test_equal_files_are_not_seen_to_be_equal() -> None:
    first, second = sealed(CANARY), sealed(CANARY)
    assert first[HEADER:] != second[HEADER:]
    assert CANARY not in first


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit of the first chunk": lambda d: d[:HEADER] + bytes([d[HEADER] ^ 1]) + d[HEADER + 1 :],
    "a bit of the salt": lambda d: d[:20] + bytes([d[20] ^ 128]) + d[21:],
    "the last bit": lambda d: d[:-1] + bytes([d[-1] ^ 1]),
    "cut after a chunk": lambda d: d[: HEADER + SEALED],
    "cut within a chunk": lambda d: d[:-5],
    "nothing but the header": lambda d: d[:HEADER],
    "two chunks in each other's place": lambda d: (
        d[:HEADER] + d[HEADER + SEALED :][:SEALED] + d[HEADER:][:SEALED] + d[HEADER + 2 * SEALED :]
    ),
    "a chunk is missing": lambda d: d[:HEADER] + d[HEADER + SEALED :],
    "a chunk twice": lambda d: d[: HEADER + SEALED] + d[HEADER:],
    "something more": lambda d: d + b"x",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_was_changed_is_refused(damage: str) -> None:
    data = DAMAGES[damage](sealed(random_bytes(2 * CHUNK + 9)))
    with pytest.raises(IntegrityError, match=r"changed, truncated or replaced by another"):
        opened(data)


@pytest.mark.parametrize(("name", "key"), [("run/other.parquet", KEY), ("other/staged.parquet", KEY)])
def test_a_file_is_refused_under_another_name_or_in_another_run(name: str, key: bytes) -> None:
    with pytest.raises(IntegrityError):
        opened(sealed(CANARY), name, key)


def test_a_file_is_refused_with_another_key() -> None:
    with pytest.raises(IntegrityError):
        opened(sealed(CANARY), key=bytes(32))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(root=f"file://{tmp_path}/bucket", wrapping=WRAPPING)


@pytest.fixture
def scratch(store: Store, tmp_path: Path) -> Iterator[Callable[[str], Scratch]]:
    """Folders of tasks, each of another worker."""
    made = []

    def make(worker: str, store: Store = store) -> Scratch:
        made.append(Scratch(tmp_path / worker, "people/run 1/task", run=store.of(MARK.key), mark=MARK))
        return made[-1]

    yield make
    for one in made:
        one.remove()


def staged(scratch: Scratch, name: str = "staged.parquet", data: bytes = CANARY) -> dict[str, object]:
    """What a task tells of a file that it wrote."""
    with scratch as work:
        path = work.path(name)
        path.write_bytes(data)
        fields = {
            "uri": str(path),
            "sha256": hashlib.sha256(data).hexdigest(),
            "rows": 1,
            "more": [(str(path),)],
        }
        return work.send(fields)


def object_of(store: Store, name: str = "staged.parquet") -> Path:
    return Path(store.path(store.of(MARK.key).folder, name))


def test_another_worker_reads_what_one_has_written(store: Store, scratch: Callable[..., Scratch]) -> None:
    reported = staged(scratch("one"))
    assert reported["uri"] == f"{store.of(MARK.key).address}/staged.parquet"
    found = scratch("two").fetch(reported)
    assert found["more"] == [(found["uri"],)]
    assert "/two/" in str(found["uri"])
    assert Path(str(found["uri"])).read_bytes() == CANARY
    assert Path(str(found["uri"])).stat().st_mode & 0o777 == 0o600
    assert scratch("two").send(found)["uri"] == reported["uri"]


def test_the_files_of_a_set_travel_with_their_list(store: Store, scratch: Callable[..., Scratch]) -> None:
    frame = pd.DataFrame({"n": range(5)})
    with scratch("one") as work:
        path = list_of(work.path("staged.parquet"))
        reported = work.send({"uri": str(path), "sha256": write_set(path, frame, files=2)})
    assert reported["uri"] == f"{store.of(MARK.key).address}/staged.files.json"
    found = scratch("two").fetch(reported)
    assert "/two/" in found["uri"]
    assert read_private(found["uri"], found["sha256"]).equals(frame)
    part = object_of(store, f"staged.files/{part_name(1)}")
    part.write_bytes(object_of(store, f"staged.files/{part_name(0)}").read_bytes())
    with pytest.raises(IntegrityError):
        scratch("three").fetch(reported)


def test_nothing_lies_in_the_store_in_clear_text(store: Store, scratch: Callable[..., Scratch]) -> None:
    staged(scratch("one"))
    files = [path for path in Path(store.path()).rglob("*") if path.is_file()]
    assert len(files) == 3  # file, key and mark
    assert not [path for path in files if CANARY in path.read_bytes()]
    keys = [path.read_bytes() for path in files if path.name.startswith(".key-")]
    run = store.of(MARK.key)
    [(_, key)] = [run._key_to_write()]
    assert not [data for data in keys if key in data]


def test_a_file_that_took_anothers_place_is_refused(store: Store, scratch: Callable[..., Scratch]) -> None:
    reported = staged(scratch("one"))
    staged(scratch("one"), "other.parquet", b"others")
    object_of(store, "other.parquet").replace(object_of(store))
    with pytest.raises(IntegrityError, match="replaced by another"):
        scratch("two").fetch(reported)


def test_an_older_file_of_the_same_name_is_refused(store: Store, scratch: Callable[..., Scratch]) -> None:
    staged(scratch("one"))
    old = object_of(store).read_bytes()
    reported = staged(scratch("one"), data=b"newer")
    object_of(store).write_bytes(old)
    with pytest.raises(IntegrityError, match="must have the recorded sha256"):
        scratch("two").fetch(reported)


def test_another_secret_opens_nothing(store: Store, scratch: Callable[..., Scratch]) -> None:
    reported = staged(scratch("one"))
    other = Store(root=store.root, wrapping=Wrapping(b"t" * 32, "the connection work_default"))
    with pytest.raises(SecretError, match="the connection work_default must hold the secret"):
        scratch("two", other).fetch(reported)


def test_a_secret_must_be_long_and_is_not_shown() -> None:
    with pytest.raises(SecretError, match="at least 32 bytes"):
        Wrapping(b"short", "the connection work_default")
    assert "ssss" not in repr(Store(root="s3://bucket", options={"key": "ssss"}, wrapping=WRAPPING))


def test_without_its_key_a_run_cannot_be_read(store: Store, scratch: Callable[..., Scratch]) -> None:
    reported = staged(scratch("one"))
    for key in object_of(store).parent.glob(".key-*"):
        key.unlink()
    with pytest.raises(IntegrityError, match="was removed with its work area"):
        scratch("two").fetch(reported)


def test_two_that_begin_a_run_at_once_read_each_others_files(
    store: Store, scratch: Callable[..., Scratch]
) -> None:
    first, second = scratch("one"), scratch("two")
    reported = staged(first)
    hidden = [path.rename(path.with_name("hidden")) for path in object_of(store).parent.glob(".key-*")]
    name = next(iter(first.run._keys)).hex()
    others = staged(second, "other.parquet")  # it saw no key
    hidden[0].rename(hidden[0].with_name(f".key-{name}"))
    assert len(list(object_of(store).parent.glob(".key-*"))) == 2
    for ref in (reported, others):
        assert Path(str(scratch("three").fetch(ref)["uri"])).read_bytes() == CANARY


@pytest.mark.parametrize("name", ["../other/staged.parquet", ".key-00", "a/../b", "", "a//b", "a/b/c"])
def test_an_address_names_a_file_of_the_run_or_nothing(
    name: str, store: Store, scratch: Callable[..., Scratch]
) -> None:
    staged(scratch("one"))
    with pytest.raises(IntegrityError, match="must end in the name of one of its files"):
        scratch("two").fetch({"uri": f"{store.of(MARK.key).address}/{name}"})


def test_an_address_of_another_run_is_left_alone(store: Store, scratch: Callable[..., Scratch]) -> None:
    other = f"{store.of('people/run 2').address}/staged.parquet"
    assert scratch("one").fetch({"uri": other}) == {"uri": other}


def test_a_file_that_is_gone_is_reported_by_its_name(scratch: Callable[..., Scratch]) -> None:
    reported = staged(scratch("one"))
    gone = {"uri": str(reported["uri"]).replace("staged", "gone")}
    with pytest.raises(IntegrityError, match=r"gone\.parquet must be in the work area"):
        scratch("two").fetch(gone)


def test_an_earlier_attempts_file_is_recalled(scratch: Callable[..., Scratch]) -> None:
    staged(scratch("one"))
    assert scratch("two").recall("staged.parquet").read_bytes() == CANARY
    assert not scratch("two").recall("never.parquet").exists()


def test_removing_leaves_no_key_and_no_file(store: Store, scratch: Callable[..., Scratch]) -> None:
    staged(scratch("one"))
    staged(scratch("one"), "label.fragments")
    store.of(MARK.key).remove()
    store.of(MARK.key).remove()
    assert not list(Path(store.path()).iterdir())


def test_the_keys_go_first_and_the_mark_last(store: Store, scratch: Callable[..., Scratch]) -> None:
    staged(scratch("one"))
    run = store.of(MARK.key)
    names = sorted((p.name for p in object_of(store).parent.iterdir()), key=run._order)
    assert names[0].startswith(".key-")
    assert names[-1] == ".mark"


@pytest.mark.parametrize(
    ("over", "idle", "state"),
    [
        (True, 0, AreaState.REMOVED),
        (True, 3600, AreaState.IN_USE),
        (False, 0, AreaState.UNFINISHED),
        (None, 0, AreaState.UNKNOWN_RUN),
    ],
)
def test_an_area_is_swept_when_its_run_is_over_and_no_one_has_used_it(
    over: bool | None, idle: int, state: AreaState, store: Store, scratch: Callable[..., Scratch]
) -> None:
    staged(scratch("one"))
    [found] = sweep_store(store, SweepRules(idle=timedelta(seconds=idle), is_over=lambda _: over))
    assert (found.name, found.state) == (MARK.key, state)
    assert bool(store.all()) == (state is not AreaState.REMOVED)


def test_what_has_no_mark_is_no_one_we_know_and_stays(store: Store) -> None:
    stranger = Path(store.path()) / "backups"
    stranger.mkdir(parents=True)
    (stranger / "file").touch()
    [found] = sweep_store(store, SweepRules(idle=timedelta(0), is_over=lambda _: True))
    assert (found.name, found.state) == ("backups", AreaState.UNMARKED)
    assert (stranger / "file").exists()


def test_a_store_that_cannot_be_reached_may_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / "bucket").write_text("a file, not a folder")
    store = Store(root=f"file://{tmp_path}/bucket", wrapping=WRAPPING)
    with pytest.raises(WorkAreaError, match=r"could not be written \(\w+\)"):
        store.of(MARK.key).mark(MARK)


def test_an_address_that_nothing_reaches_is_refused() -> None:
    with pytest.raises(SpecError, match="must be an address that fsspec reaches"):
        Store(root="nowhere://bucket", wrapping=WRAPPING).all()
