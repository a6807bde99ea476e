"""Figures and pages that cannot be made are omitted and named; checks of a release still raise."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, load_method
from privacy_engine.errors import IntegrityError
from privacy_engine.release import Release
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.release import report_or_claims
from tests.rendered import render_report
from tests.servers.pages import Page, require_closed_page

SECRET = "canary-value"


def fails() -> str:
    """Fail like a figure that cannot read a value."""
    raise ValueError(SECRET)


@pytest.fixture
def release() -> Release:
    """A release with lists in a column, which no figure can compare and no schema allows."""
    rng = np.random.default_rng(2)
    source = pd.DataFrame({"age": rng.integers(18, 66, 40), "note": "plain"})
    schema = DataSchema.from_dict(
        {"age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [18, 65]}, "note": {}}
    )
    made = load_method("mondrian", k=5).release(source, schema, rng)
    return replace(made, table=made.table.assign(note=[[SECRET]] * len(made.table)))


def test_a_failed_figure_is_reported_without_the_text_of_its_error() -> None:
    said: list[str] = []
    attempts = Attempts(said.append)
    assert attempts.make("the mean", lambda: 3) == 3
    assert attempts.to_dict() == {}
    assert attempts.make("the network", fails) is None
    assert attempts.to_dict() == {"left_out": [{"figure": "the network", "error": "ValueError"}]}
    assert said == ["the network is left out, because making it ended in ValueError"]


@pytest.mark.parametrize("error", [IntegrityError("other bytes"), KeyboardInterrupt()])
def test_changed_bytes_and_a_stopped_task_still_raise(error: BaseException) -> None:
    def stopped() -> None:
        raise error

    with pytest.raises(type(error)):
        Attempts().make("the network", stopped)


def test_a_report_names_its_missing_figure(release: Release) -> None:
    attempts = Attempts()
    html = render_report(release, {}, {}, title="People", source_rows=40, attempts=attempts)
    require_closed_page(html)
    left_out = "columns that go together is left out, because making it ended in TypeError"
    assert [str(figure) for figure in attempts.left_out] == [left_out]
    assert left_out in Page(html).text
    assert "Class sizes" in Page(html).text
    assert "This page is not complete." in Page(html).text
    assert SECRET not in html


def test_a_complete_report_has_no_warning(release: Release) -> None:
    html = render_report(
        replace(release, table=release.table.assign(note="plain")), {}, {}, title="People", source_rows=40
    )
    assert "not complete" not in html


@pytest.mark.parametrize(
    ("report", "says"), [(fails, "the report is left out"), (lambda: "<p>whole</p>", "whole")]
)
def test_a_report_that_cannot_be_made_says_what_is_claimed(
    report: Callable[[], str], says: str, release: Release
) -> None:
    html = report_or_claims(report, Claims.from_dict(release.manifest()), title="People", attempts=Attempts())
    assert says in Page(html).text
    assert SECRET not in html
    if report is fails:
        require_closed_page(html)
        assert "k-anonymity" in Page(html).text
        assert "<!-- attacks -->" in html
