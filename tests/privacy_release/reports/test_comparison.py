"""The page that compares releases: what it tells, what it refuses, and that it loads nothing."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from privacy_engine.errors import IntegrityError, SpecError
from privacy_release.reports.comparison import ComparedRelease, compare, render_comparison
from privacy_release.workarea.references import ReportRef, StagedRelease

SOURCE = {
    "uri": "/raw/people",
    "fingerprint": "f1",
    "rows": 1000,
    "dropped": 10,
    "files": 1,
    "identifiers": [],
}


def staged(method: str, gcp: float | None, risk: float | None, **more: Any) -> StagedRelease:
    """A reference with a loss and a mean risk."""
    given = {"gcp": gcp, "prosecutor_mean": risk, "prosecutor_max": 0.2, "suppressed": 0.0}
    reference = {
        "uri": "",
        "schema": "",
        "manifest": "",
        "report": "",
        "loss": None,
        "method": method,
        "rows": 990,
        "sha256": f"{method}-{gcp}-{risk}",
        "source": SOURCE,
        "guarantees": [{"model": "k_anonymity", "k": 5}],
        "figures": {name: value for name, value in given.items() if value is not None},
        "seconds": 1.25,
        **more,
    }
    return StagedRelease.from_ref(reference)


def report(release: StagedRelease, **more: Any) -> ReportRef:
    finding = {"rule": "k_anonymity(k=5)", "measured": 7.0, "threshold": 5, "passed": True}
    found = {"passed": True, "sha256": release.sha256, "findings": [finding], **more}
    return ReportRef.from_ref({"rows": 990, "classes": 99, "policy": {}} | found)


def entries(*releases: StagedRelease) -> dict[str, ComparedRelease]:
    return {entry.label: entry for entry in compare(releases, [report(r) for r in releases])}


def page(*releases: StagedRelease, title: str = "Three ways") -> str:
    return render_comparison(releases, [report(r) for r in releases], title=title)


A, B, C = staged("a", 0.10, 0.05), staged("b", 0.05, 0.10), staged("c", 0.12, 0.10)


def test_releases_stand_in_the_order_of_their_loss() -> None:
    assert list(entries(A, B, C)) == ["b", "a", "c"]


def test_a_release_that_another_beats_in_both_is_distinguished_from_the_others() -> None:
    assert {label: e.unbeaten for label, e in entries(A, B, C).items()} == {"a": True, "b": True, "c": False}


def test_equals_do_not_beat_each_other() -> None:
    same = staged("d", 0.10, 0.05)
    assert all(e.unbeaten for e in entries(A, same).values())


def test_k_is_the_one_measured_by_the_verification() -> None:
    assert entries(A)["a"].k == 7


def test_releases_by_one_method_are_distinguished_by_their_claims() -> None:
    twenty = staged("a", 0.2, 0.01, guarantees=[{"model": "k_anonymity", "k": 20}])
    assert set(entries(A, twenty, B)) == {"a k=5", "a k=20", "b"}
    assert set(entries(A, staged("a", 0.3, 0.3))) == {"a k=5 #1", "a k=5 #2"}


def test_a_figure_that_was_not_measured_is_no_zero() -> None:
    text = page(A, staged("model", None, None))
    assert "not measured" in text
    assert text.count("<circle") == 1


def test_a_table_of_figures_without_a_plot_is_a_page_too() -> None:
    text = page(staged("model", None, None))
    assert "<svg" not in text
    assert '<th scope="row">model</th>' in text


def test_a_release_that_misses_its_policy_is_shown_as_such() -> None:
    text = render_comparison([A], [report(A, passed=False)], title="One")
    assert "not kept" in text


@pytest.mark.parametrize(
    ("releases", "reports"), [([], []), ([A], []), ([A, B], [report(A)])], ids=["none", "no report", "one"]
)
def test_every_release_needs_a_report(releases: list[StagedRelease], reports: list[ReportRef]) -> None:
    with pytest.raises(SpecError, match="a comparison needs releases and one report for each"):
        render_comparison(releases, reports, title="x")


def test_a_report_on_other_bytes_is_refused() -> None:
    with pytest.raises(IntegrityError, match="1 of 2 are not"):
        compare([A, B], [report(A), report(B, sha256="other")])


def test_releases_of_several_tables_are_refused() -> None:
    with pytest.raises(SpecError, match="if they are of one table"):
        entries(A, staged("b", 0.1, 0.1, source=SOURCE | {"fingerprint": "f2"}))


def test_what_is_filled_in_is_escaped() -> None:
    text = page(staged("<b>a</b>", 0.1, 0.1), title="<script>alert(1)</script>")
    assert "<script" not in text
    assert "&lt;b&gt;a&lt;/b&gt;" in text


def test_the_page_may_load_nothing_and_tells_no_address_of_the_source() -> None:
    text = page(A, B, C)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert not re.search(r"(src|href)=|url\(|@import|https?:", text)
    assert SOURCE["uri"] not in text


def test_the_plot_is_well_formed_and_all_of_it_inside_the_frame() -> None:
    text = page(A, B, C)
    plot = ET.fromstring(text[text.index("<svg") : text.index("</svg>") + len("</svg>")])
    _, _, width, height = map(float, plot.attrib["viewBox"].split())
    circles = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in plot.iter("circle")]
    assert len(circles) == 3
    assert all(0 <= x <= width and 0 <= y <= height for x, y in circles)
    (ax, ay), (bx, by) = circles[1], circles[0]  # less loss is lower, more risk is further right
    assert bx > ax
    assert by > ay
    names = [t.text for t in plot.iter("text") if t.attrib.get("class", "").startswith("name ")]
    assert names == ["b", "a", "c"]


def test_limits_of_the_policy_are_reported_with_their_numbers() -> None:
    limit = {"rule": "max_suppressed", "measured": 0.0, "threshold": 0.02, "passed": True}
    text = render_comparison([A], [report(A, findings=[limit])], title="One")
    assert "<code>max_suppressed 0.02</code>" in text
