"""How the files of a lake are reached."""

import secrets
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler

from privacy_engine.errors import PublishError
from privacy_engine.vocabulary import PARTITION
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake, ReleaseTable, dataset_of, get, takes_table
from tests.reading import publish_people


def test_a_local_table_is_read_without_a_file_system_written_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a thread of Arrow would call Python, and abort the process at its end")

    rows = pa.table({"sex": ["f", "m", "f"], PARTITION: ["1", "1", "2"]})
    write_deltalake(str(tmp_path / "people"), rows, partition_by=[PARTITION])
    monkeypatch.setattr(DeltaStorageHandler, "from_table", refuse)
    table = DeltaTable(str(tmp_path / "people"))

    wanted = dataset_of(Lake(root=str(tmp_path)).table("people"), table, (PARTITION, "=", "1"))

    assert wanted.to_table().column("sex").to_pylist() == ["f", "m"]


def test_a_lake_on_a_store_has_one_client_for_all_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(DeltaStorageHandler):
        def __init__(self, root: str, options: dict[str, str]) -> None:
            made.append(root)

        def open_input_file(self, path: str) -> None:
            raise FileNotFoundError(path)

    monkeypatch.setattr("privacy_release.lake.store.DeltaStorageHandler", Counted)
    key = ("AWS_SECRET_ACCESS_KEY", secrets.token_hex())
    for more in ((), (), (("AWS_REGION", "eu"),)):
        lake = Lake(root="s3://releases/open", storage_options=(key, *more))
        with pytest.raises(PublishError, match="could not read a proof"):
            get(lake, "people")
    assert made == ["s3://releases/open"] * 2, "one for each set of options"


def test_a_table_with_a_name_that_leaves_the_lake_is_refused_when_it_is_named(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path))
    for name in ("../people", "_people", "a/b", "", "a" * 101):
        with pytest.raises(ValueError, match="a table name must be 1 to 100 letters"):
            lake.table(name)
    assert lake.table("people") == ReleaseTable(lake, "people")


def test_the_functions_of_0_1_still_take_lake_and_name_with_a_warning(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    publish_people(tmp_path, lake)
    table = lake.table("people")
    for function, more in ((releases, ()), (read_release, ("1",)), (manifest_of, ("1",))):
        with pytest.warns(DeprecationWarning, match="takes table=") as seen:
            old: object = function(lake, "people", *more)
        assert old == function(table, *more)
        assert [warning.filename for warning in seen] == [__file__]
    with pytest.warns(DeprecationWarning, match="retract takes table="):
        retract(lake, "people", "1", "a mistake")
    assert [entry["state"] for entry in releases(table)] == ["retracted"]


def test_a_policy_is_verified_with_lake_and_name_as_keywords(tmp_path: Path) -> None:
    seen: list[object] = []

    @takes_table
    def verified(staged: str, *, table: ReleaseTable | None = None) -> None:
        seen.append((staged, table))

    lake = Lake(root=str(tmp_path))
    with pytest.warns(DeprecationWarning, match="verified takes table="):
        verified("rows", lake=lake, name="people")
    with pytest.warns(DeprecationWarning, match="verified takes table="):
        verified("rows", lake=None, name="people")
    verified("rows", table=lake.table("people"))
    assert seen == [("rows", lake.table("people")), ("rows", None), ("rows", lake.table("people"))]
