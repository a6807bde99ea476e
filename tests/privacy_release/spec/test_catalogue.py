"""The releases of a folder `papers` count only where the deployment shows them."""

from pathlib import Path

import pytest
import yaml

from privacy_engine.errors import SpecError
from privacy_release.spec.catalogue import catalogue
from tests import tables


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An include folder with the release `people`, and `baseline` among the papers'."""
    home = tables.write_home(tmp_path / "include")
    fields = yaml.safe_load((home / "releases" / "people.yaml").read_text())
    papers = home / "releases" / "papers"
    papers.mkdir()
    (papers / "baseline.yaml").write_text(yaml.safe_dump({**fields, "name": "baseline"}))
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(tmp_path))
    return home


@pytest.mark.parametrize(
    ("chosen", "names"),
    [(None, ["people"]), ("hide", ["people"]), ("show", ["baseline", "people"])],
)
def test_releases_of_papers_count_where_they_are_shown(
    chosen: str | None, names: list[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chosen is None:
        monkeypatch.delenv("PRIVACY_PAPER_RELEASES", raising=False)
    else:
        monkeypatch.setenv("PRIVACY_PAPER_RELEASES", chosen)
    found = catalogue()
    assert found.faults == ()
    assert sorted(spec.name for spec in found.usable.values()) == names


def test_another_value_of_the_setting_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_PAPER_RELEASES", "yes")
    with pytest.raises(SpecError, match="must be `show` or `hide`"):
        catalogue()


def test_two_releases_of_one_name_are_refused_across_the_folders(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_PAPER_RELEASES", "show")
    (home / "releases" / "papers" / "people.yaml").write_bytes(
        (home / "releases" / "people.yaml").read_bytes()
    )
    found = catalogue()
    assert [spec.name for spec in found.usable.values()] == ["baseline"]
    assert "only file of its name" in found.faults[0]
