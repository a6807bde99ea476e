"""The curator's report: private on the disk, plain about not being for publication, right in its figures."""

import re
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import IntegrityError
from privacy_engine.measures.synthetic_assessment import assess
from privacy_engine.measures.synthetic_utility import marginal_tvd
from privacy_engine.release import Release
from privacy_engine.synthesizers.bayes.privbayes import PrivBayes
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_release.config.settings import curator_folder
from privacy_release.reports.curator import render_curator_report, write_curator_report
from tests.servers.pages import Page, require_closed_page
from tests.synthetic_tables import SCHEMA, people

ROWS = 400


@pytest.fixture(scope="module")
def source() -> pd.DataFrame:
    return people(ROWS, np.random.default_rng(1))


@pytest.fixture(scope="module")
def release(source: pd.DataFrame) -> Release:
    return PrivBayes(epsilon=1.0).release(source, SCHEMA, np.random.default_rng(2))


@pytest.fixture(scope="module")
def html(release: Release, source: pd.DataFrame) -> str:
    return render_curator_report(release, source, SCHEMA, name="people", release_id="2026-W47")


def copier(release: Release, source: pd.DataFrame) -> Release:
    """A release that claims what the real one does, of the records of the source."""
    return replace(release, table=source.drop(columns="name").sample(frac=1, random_state=3))


def test_the_page_loads_nothing_and_every_plot_is_named(html: str) -> None:
    require_closed_page(html)


def test_the_page_says_that_it_must_not_be_published(html: str) -> None:
    page = Page(html)
    alarms = [a for _, a in page.tags if a.get("role") == "alert"]
    assert len(alarms) == 1
    assert "do not publish, send or quote" in page.text
    assert page.text.startswith("NOT FOR PUBLICATION")


def test_the_file_and_its_folder_are_the_service_users_alone(
    release: Release, source: pd.DataFrame, tmp_path: Path
) -> None:
    path = write_curator_report(
        release, source, SCHEMA, name="people", release_id="a/../b c", folder=tmp_path / "curator"
    )
    assert path.is_relative_to(tmp_path / "curator")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "curator").stat().st_mode) == 0o700


def test_the_file_is_named_after_release_and_id_and_written_over(
    release: Release, source: pd.DataFrame, tmp_path: Path
) -> None:
    paths = [
        write_curator_report(release, source, SCHEMA, name="people", release_id=i, folder=tmp_path)
        for i in ("2026-W47", "2026-W47", "2026_W47")
    ]
    assert paths[0] == paths[1] != paths[2]
    assert paths[0].parent.name.startswith("people-")
    assert paths[0].name.startswith("2026-W47-")
    assert sorted(paths[0].parent.iterdir()) == sorted(set(paths))


def test_the_folder_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PRIVACY_CURATOR", raising=False)
    assert curator_folder() == tmp_path / "home" / "curator"
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "mine"))
    assert curator_folder() == tmp_path / "mine"
    monkeypatch.setenv("PRIVACY_CURATOR", "mine")
    with pytest.raises(ValueError, match="absolute"):
        curator_folder()


def test_a_link_in_place_of_the_folder_is_not_followed(
    release: Release, source: pd.DataFrame, tmp_path: Path
) -> None:
    path = write_curator_report(release, source, SCHEMA, name="people", release_id="1", folder=tmp_path)
    path.unlink()
    path.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    path.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError):
        write_curator_report(release, source, SCHEMA, name="people", release_id="1", folder=tmp_path)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_figures_are_those_of_the_engine(html: str, release: Release, source: pd.DataFrame) -> None:
    text = Page(html).text
    for ways in (1, 2, 3):
        measured = marginal_tvd(source, release.table, SCHEMA, ways)
        assert f"Distance, {ways}-way {measured.mean:.4f}" in text
        for names, tvd in measured.worst(5):
            assert f"{', '.join(names)} {tvd:.4f}" in text


def test_identifiers_are_not_in_the_page(html: str, source: pd.DataFrame) -> None:
    assert not set(source["name"]) & set(re.findall(r"\w+", html))


def test_without_a_holdout_it_says_what_is_not_measured(html: str) -> None:
    text = Page(html).text
    assert "Not measured: distance to the closest record against a holdout, and membership inference" in text
    assert "Closeness to the source" in text
    assert "Membership inference:" not in text


def test_with_a_holdout_all_attacks_are_reported_and_a_copier_is_found_out(
    release: Release, source: pd.DataFrame
) -> None:
    outside = people(ROWS, np.random.default_rng(4))
    html = render_curator_report(
        copier(release, source), source, SCHEMA, name="people", release_id="1", holdout=outside
    )
    text = Page(html).text
    assert "Not measured" not in text
    assert len(re.findall(r"(Closeness to the source|closest record|inference): \S+ remembers", text)) == 3


def test_a_redraw_of_the_source_is_no_nearer_than_chance(source: pd.DataFrame) -> None:
    """What the report calls chance is about what a new draw from the population is off by, and no more."""
    fresh = people(ROWS, np.random.default_rng(5))
    found = assess(source, fresh, SCHEMA, np.random.default_rng(6))
    for measured, redrawn in zip(found.marginals, found.redrawn, strict=True):
        assert 0.5 < measured.mean / redrawn < 2


def test_a_table_of_a_few_records_and_one_attribute_is_reported_as_far_as_it_goes() -> None:
    schema = DataSchema((Attribute(name="a", categories=("x", "y")),))
    table = pd.DataFrame({"a": list("xxyyx")})
    made = PrivBayes(epsilon=1.0).release(table, schema, np.random.default_rng(7))
    html = render_curator_report(made, table, schema, name="tiny", release_id="1")
    require_closed_page(html)
    assert "Distance, 1-way" in Page(html).text


def test_a_hostile_name_stays_text(release: Release, source: pd.DataFrame) -> None:
    html = render_curator_report(release, source, SCHEMA, name="<script>x</script>", release_id="<b>")
    require_closed_page(html)
    assert "<script>x</script>" in Page(html).text


def test_two_reports_on_one_release_are_equal(html: str, release: Release, source: pd.DataFrame) -> None:
    assert render_curator_report(release, source, SCHEMA, name="people", release_id="2026-W47") == html
