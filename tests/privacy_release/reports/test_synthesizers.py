"""The page that compares synthesizers: what it tells, to whom, and that it loads nothing."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from privacy_engine.attacks.synthetic import Share
from privacy_engine.measures.synthetic_learning import Score
from privacy_release.reports.synthesizers import Compared, render_synthesizers
from privacy_release.workarea.references import ReportRef

RULES = [{"rule": "max_epsilon", "threshold": 2.0}, {"rule": "ledger: booked", "threshold": 0}]
RULE = ReportRef(passed=True, sha256="", rows=5_000, classes=0, findings=RULES, policy={})


def table(method: str, epsilon: float, tvd: float, accuracy: float | None = 0.7, **more: Any) -> Compared:
    scores = {} if accuracy is None else {"class": Score(real=0.8, synthetic=accuracy, majority=0.5)}
    given = {"scores": scores, "closeness": Share(value=0.4, error=0.01), "passed": True} | more
    return Compared(method=method, epsilon=epsilon, tvd=(tvd / 4, tvd / 2, tvd), **given)


A, B, C = table("a", 0.5, 0.3), table("a", 2.0, 0.1, 0.79), table("b", 0.5, 0.2)


def page(*entries: Compared, title: str = "Two ways", public: bool = False) -> str:
    return render_synthesizers(
        entries,
        [RULE],
        title=title,
        rows=5_000,
        redrawn=(0.01, 0.02, 0.03),
        spent={"people": 3.0},
        public=public,
    )


def plots(text: str) -> list[ET.Element]:
    return [ET.fromstring(part) for part in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def test_the_smallest_epsilon_comes_first_and_of_these_the_least_loss() -> None:
    rows = re.findall(r'<th scope="row">(.*?)</th><td class="number">(.*?)</td>', page(A, B, C))
    assert rows == [("b", "0.5"), ("a", "0.5"), ("a", "2"), ("the source itself", "")]


def test_what_all_tables_cost_together_and_the_limits_of_the_policy_are_reported() -> None:
    text = page(A, B, C)
    assert "booked for all of people</span> epsilon 3<" in text
    assert "<code>max_epsilon 2</code>" in text
    assert "ledger" not in text.partition("<main>")[0]


def test_a_page_on_people_says_that_it_is_for_the_curator_alone() -> None:
    assert "Only for the curator" in page(A)
    assert "Only for the curator" not in page(A, public=True)
    assert "declared public" in page(A, public=True)


def test_each_method_is_a_line_from_left_to_right_inside_the_frame() -> None:
    for plot in plots(page(A, B, C)):
        _, _, width, height = map(float, plot.attrib["viewBox"].split())
        circles = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in plot.iter("circle")]
        assert len(circles) == 3
        assert all(0 <= x <= width and 0 <= y <= height for x, y in circles)
        assert [t.text for t in plot.iter("text") if t.attrib.get("class", "").startswith("name")] == [
            "b",
            "a",
        ]
    loss, use = plots(page(A, B))
    (ax, ay), (bx, by) = ((float(c.attrib["cx"]), float(c.attrib["cy"])) for c in loss.iter("circle"))
    assert bx > ax  # more epsilon is further right
    assert by > ay  # less loss is lower
    heights = [float(c.attrib["cy"]) for c in use.iter("circle")]
    assert heights[1] < heights[0]  # more accuracy is higher


@pytest.mark.parametrize(
    "entries", [(A,), (table("a", 1.0, 0.0, None, closeness=None),)], ids=["one", "none"]
)
def test_one_epsilon_and_figures_that_were_not_measured_are_a_page_too(entries: tuple[Compared, ...]) -> None:
    text = page(*entries)
    assert len(plots(text)) == (2 if entries[0].scores else 1)
    assert ("not measured" in text) is (entries[0].closeness is None)


def test_a_small_table_that_nothing_is_learned_from_stands_beside_others() -> None:
    text = page(A, table("few", 0.5, 0.2, None))
    assert "not measured" in text
    loss, use = plots(text)
    assert len(list(loss.iter("circle"))) == 2
    assert len(list(use.iter("circle"))) == 1


def test_a_table_that_misses_its_policy_is_shown_as_such() -> None:
    assert "not kept" in page(table("a", 4.0, 0.1, passed=False))


def test_the_page_may_load_nothing_and_what_is_filled_in_is_escaped() -> None:
    text = page(table("<b>a</b>", 0.5, 0.1), title="<script>alert(1)</script>")
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert not re.search(r"(src|href)=|url\(|@import|https?:|<script|<b>", text)
