import hashlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.errors import IntegrityError
from privacy_release.workarea.area import WorkArea, sha256_file, work_area_root


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def loose_umask():
    old = os.umask(0o000)
    yield
    os.umask(old)


@pytest.mark.usefixtures("loose_umask")
def test_folder_and_files_are_for_the_service_user_alone(tmp_path):
    with WorkArea(tmp_path / "areas", "dag/run 1") as area:
        file = area.path("raw.parquet")
        file.write_bytes(b"x")
        assert mode(tmp_path / "areas") == 0o700
        assert mode(area.folder) == 0o700
        assert mode(file) == 0o600
        (area.folder / "parts").mkdir()
        assert mode(area.folder / "parts") == 0o700


@pytest.mark.usefixtures("loose_umask")
def test_umask_of_the_process_comes_back_after_the_block_and_after_an_error(tmp_path):
    area = WorkArea(tmp_path, "run")
    with area, area:
        pass
    with pytest.raises(RuntimeError), area:
        raise RuntimeError
    assert os.umask(0o000) == 0o000


def test_existing_folder_with_loose_rights_is_tightened(tmp_path):
    area = WorkArea(tmp_path, "run")
    area.folder.mkdir()
    area.folder.chmod(0o777)
    area.create()
    assert mode(area.folder) == 0o700


def test_two_tasks_of_one_run_share_the_folder(tmp_path):
    WorkArea(tmp_path, "run").path("staged.parquet").write_bytes(b"x")
    assert WorkArea(tmp_path, "run").path("staged.parquet").read_bytes() == b"x"


def test_leaving_the_block_keeps_the_files_for_the_next_task(tmp_path):
    with WorkArea(tmp_path, "run") as area:
        area.path("a").write_bytes(b"x")
    assert area.path("a").exists()


@settings(max_examples=30)
@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_two_keys_never_share_a_folder(one, other):
    folders = {WorkArea(Path("/areas"), key).folder for key in (one, other)}
    assert len(folders) == len({one, other})


@given(st.text(min_size=1).filter(str.strip))
def test_any_key_gives_one_plain_folder_name_below_the_root(key):
    folder = WorkArea(Path("/areas"), key).folder
    assert folder.parent == Path("/areas")
    assert folder.name.isascii()
    assert folder.name.isprintable()
    assert len(folder.name) < 100
    assert not set(folder.name) & set("/\\. ")


def test_keys_with_equal_slugs_differ():
    assert WorkArea(Path("/areas"), "a/b").folder != WorkArea(Path("/areas"), "a b").folder


def test_remove_empties_the_run_and_leaves_the_others(tmp_path):
    area, other = WorkArea(tmp_path, "run 1"), WorkArea(tmp_path, "run 2")
    (area.create().folder / "parts").mkdir()
    (area.folder / "parts" / "part-0.parquet").write_bytes(b"x")
    other.path("a").write_bytes(b"x")
    area.remove()
    assert list(tmp_path.iterdir()) == [other.folder]


def test_remove_twice_and_before_creation_is_fine(tmp_path):
    area = WorkArea(tmp_path / "never made", "run")
    area.remove()
    area.create()
    area.remove()
    area.remove()
    assert not area.folder.exists()


def test_remove_does_not_follow_links_inside_the_area(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"x")
    area = WorkArea(tmp_path / "areas", "run").create()
    (area.folder / "link").symlink_to(tmp_path / "precious")
    area.remove()
    assert (tmp_path / "precious" / "file").exists()


def test_a_link_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    area = WorkArea(tmp_path, "run")
    area.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="service user"):
        area.create()
    with pytest.raises(IntegrityError, match="link"):
        area.remove()
    assert (tmp_path / "elsewhere").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    area = WorkArea(tmp_path, "run")
    area.folder.write_bytes(b"")
    with pytest.raises(IntegrityError, match="must be a folder"):
        area.create()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\0b"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="bare file name"):
        WorkArea(tmp_path, "run").path(name)


@pytest.mark.parametrize("key", ["", " ", "\n\t"])
def test_a_blank_key_is_refused(tmp_path, key):
    with pytest.raises(ValueError, match="must not be blank"):
        WorkArea(tmp_path, key)


def test_a_relative_root_is_refused():
    with pytest.raises(ValueError, match="absolute"):
        WorkArea(Path("areas"), "run")


def test_root_is_the_variable_then_airflow_home_then_airflows_default(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "w"))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    assert work_area_root() == tmp_path / "w"
    monkeypatch.delenv("PRIVACY_WORK_AREA")
    assert work_area_root() == tmp_path / "home" / "work_area"
    monkeypatch.delenv("AIRFLOW_HOME")
    assert work_area_root() == Path.home() / "airflow" / "work_area"


def test_a_relative_variable_is_refused(monkeypatch):
    monkeypatch.setenv("PRIVACY_WORK_AREA", "somewhere")
    with pytest.raises(ValueError, match="PRIVACY_WORK_AREA"):
        work_area_root()


def test_sha256_of_a_file_is_that_of_its_bytes(tmp_path):
    data = bytes(range(256)) * 5000
    (tmp_path / "f").write_bytes(data)
    assert sha256_file(tmp_path / "f") == hashlib.sha256(data).hexdigest()
