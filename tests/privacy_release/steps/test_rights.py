"""Who may read what a run leaves: the lake by its folder's mode, the work area its owner alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from privacy_release.lake.store import Lake
from privacy_release.steps.retraction import retract_release
from tests.privacy_release.proof.signed_tables import NAME, Publisher, people

READ = (
    "import os, sys; os.setgroups([]); os.setgid({group}); os.setuid(65534); "
    "[open(path, 'rb').read() for path in sys.argv[1:]]"
)


@pytest.mark.quick("0o700-0o22", "0o755-0o77")  # folders that are more and less open than the process
@pytest.mark.parametrize("umask", [0o022, 0o077], ids=oct)
@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755], ids=oct)
def test_files_of_a_release_have_the_rights_of_the_lakes_folder(
    tmp_path: Path, umask: int, mode: int
) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    assert lake.folder is not None
    lake.folder.mkdir()
    lake.folder.chmod(mode)
    before = os.umask(umask)
    try:
        by = Publisher(lake=lake, folder=tmp_path / "work", key=None)
        by.publish(people(3), "w1")
        by.publish(people(4), "w2")
        retract_release(lake.table(NAME), "w1", "asked to")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    made = list(lake.folder.rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {mode}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {mode & 0o666}
    private = [path for path in (tmp_path / "work").rglob("*") if path.is_dir() and path.parent.parent.name]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "work").glob("*/*") if path.is_dir())
    assert private


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to read as another user")
@pytest.mark.parametrize("reader", ["of the group", "a stranger"])
def test_the_group_of_the_lake_reads_what_a_private_process_published(tmp_path: Path, reader: str) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    assert lake.folder is not None
    lake.folder.mkdir()
    os.chown(lake.folder, -1, 4242)
    lake.folder.chmod(0o2750)  # what is made in it belongs to its group
    before = os.umask(0o077)
    try:
        Publisher(lake=lake, folder=tmp_path / "work", key=None).publish(people(3), "w1")
    finally:
        os.umask(before)
    for folder in (tmp_path, *tmp_path.parents):  # the tests' own folders are private
        folder.chmod(folder.stat().st_mode | 0o011)
    files = [str(path) for path in lake.folder.rglob("*") if path.is_file()]
    script = READ.format(group=4242 if reader == "of the group" else 65534)
    done = subprocess.run([sys.executable, "-c", script, *files], capture_output=True, check=False)
    assert (done.returncode == 0) == (reader == "of the group"), done.stderr
    assert files
