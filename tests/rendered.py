"""The report on a release that is in memory, without a run that makes and stages it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privacy_engine.release import Release
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.data import ReportFacts, claimed_k, data_of_release
from privacy_release.reports.release import render


def render_report(
    release: Release,
    figures: Mapping[str, float],
    risk: Mapping[str, float],
    *,
    smallest_count: int | None = None,
    rows: int | None = None,
    title: str,
    attempts: Attempts | None = None,
    **more: Any,
) -> str:
    """The page as `report_of` makes it; `rows` of a release whose table has only the first records."""
    least = claimed_k(release.guarantees) if smallest_count is None else smallest_count
    attempts = attempts or Attempts()
    data = data_of_release(release, least, attempts)
    shown = data if rows is None else replace(data, rows=rows)
    facts = ReportFacts(figures=figures, risk=risk, smallest_count=least, **more)
    return render(shown, facts, title=title, attempts=attempts)
