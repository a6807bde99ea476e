"""Every page that is written as one file fits a phone, a laptop and a large screen, and prints whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, load_method
from privacy_engine.synthesizers.bayes.privbayes import PrivBayes
from privacy_release.reports.attacks import with_attacks
from privacy_release.reports.comparison import render_comparison
from privacy_release.reports.curator import render_curator_report
from privacy_release.reports.figures import measure
from privacy_release.workarea.references import TrialRef
from tests.privacy_release.reports.test_comparison import report, staged
from tests.rendered import render_report
from tests.synthetic_tables import SCHEMA, people
from tests.ui.conftest import SIZES, opened

pytestmark = [pytest.mark.ui]

LONG = "a_column_with_a_name_that_is_longer_than_a_phone_is_wide"
SECRETS = tuple(f"secret_{i}" for i in range(9))
FOUND = [
    {"subject": name, "excess": excess, "low": excess - 0.1, "high": excess + 0.1}
    for name, excess in ((LONG, 0.05), (SECRETS[0], -0.9))
]
TRIALS = [
    TrialRef(rule="", attack="inference", bound=0.2, passed=True, published={"outcomes": FOUND}),
    TrialRef(rule="", attack="intersection", bound=0.2, passed=True, published={"outcomes": []}),
    TrialRef(rule="", attack="membership", bound=0.4, passed=True),
]
Picture = Callable[..., None]


def anonymized() -> str:
    """With more columns than are shown unfolded, and a name that no phone has room for."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 65, 400),
            LONG: rng.choice(["a", "b", "c"], 400),
            **{name: rng.choice(["flu", "cold", "an illness with a long name"], 400) for name in SECRETS},
        }
    )
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [18, 65]},
            LONG: {"role": "quasi_identifier", "kind": "categorical"},
            **{name: {"role": "sensitive", "kind": "categorical"} for name in SECRETS},
        }
    )
    diverse = [{"model": "distinct_l_diversity", "attribute": name, "l": 2} for name in SECRETS]
    release = load_method("mondrian", k=5, require=tuple(diverse)).release(frame, schema, rng)
    loss, risk = measure(release, rng)
    return render_report(release, loss, risk, title="People", source_rows=400)


def synthetic() -> tuple[str, str]:
    """The public report, and the curator's."""
    source, rng = people(400, np.random.default_rng(1)), np.random.default_rng(2)
    release = PrivBayes(epsilon=1.0).release(source, SCHEMA, rng)
    text = render_curator_report(release, source, SCHEMA, name="people", release_id="2026-W47")
    return render_report(release, {}, {}, title="People", source_rows=400), text


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    public, private = synthetic()
    releases = [staged(name, 0.1 * i, 0.05 * i) for i, name in enumerate(("mondrian", LONG, "obpa"), 1)]
    fields = {
        "anonymized": (plain := anonymized()),
        "attacked": with_attacks(plain, TRIALS),
        "synthetic": public,
        "curator": private,
        "comparison": render_comparison(releases, [report(r) for r in releases], title="Three ways"),
    }
    for name, html in fields.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["anonymized", "attacked", "synthetic", "curator", "comparison"])
def test_a_report_fits_every_screen_and_everybody_can_read_it(
    pages: Path, browser: Any, picture: Picture, accessible: Callable[[Any], None], name: str, scheme: str
) -> None:
    window = opened(browser, color_scheme=scheme, bypass_csp=True)
    page = window.new_page()
    page.goto(f"file://{pages}/{name}.html")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        accessible(page)
        picture(page, f"page-{name}-{width}-{scheme}")
    for fold in page.locator("details").all():
        fold.evaluate("fold => { fold.open = true; }")
    page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[0][0], (name, "unfolded")
    window.close()


def test_a_printed_report_is_light_and_unfolded(pages: Path, browser: Any, picture: Picture) -> None:
    window = opened(browser, color_scheme="dark")
    page = window.new_page()
    page.goto(f"file://{pages}/anonymized.html")
    rule = page.get_by_role("rowheader", name=f"distinct_l_diversity(attribute={SECRETS[-1]}, l=2)")
    assert not rule.is_visible()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.locator("code", has_text=SECRETS[-1]).first.bounding_box()["height"] > 0
    picture(page, "page-anonymized-print")
    window.close()
