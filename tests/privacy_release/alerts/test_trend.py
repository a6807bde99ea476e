"""Alerts: what is compared with what, that nothing hidden is, and that whatever fails stops no release."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.dp.limits import Limit
from privacy_engine.errors import SpecError
from privacy_release.alerts.trend import find_alerts
from privacy_release.lake.log import publications
from privacy_release.lake.publish import publish
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake, ReleaseTable
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.reports.figures import BOUND
from privacy_release.reports.text import COUNTED, FIGURES, RISKS
from privacy_release.spec.sections.alerts import AlertsSpec, read_alerts
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.references import AlertRef, SourceRef, StagedRelease

RUN = ("now", "people/now")
Publish = Callable[..., None]
Alerts = Callable[..., list[AlertRef]]


def staged_release(**given: Any) -> StagedRelease:
    """A staged release with these fields."""
    return StagedRelease(
        uri="area/r.parquet",
        sha256="0",
        schema="area/r.json",
        source=SourceRef(uri="s3://people", files=1, fingerprint="0", rows=9, dropped=0, identifiers=[]),
        manifest="area/m.json",
        report="area/r.html",
        method="mondrian",
        guarantees=[],
        seconds=1.0,
        **given,
    )


@pytest.fixture
def published(lake: Lake, tmp_path: Path) -> Publish:
    """Publish a release of the table `people` with some figures."""

    def one(
        release_id: str,
        *,
        rows: int = 100,
        run: str = "earlier",
        loss: Mapping[str, Any] | None = None,
        **figures: Any,
    ) -> None:
        staged, page = tmp_path / "staged.parquet", tmp_path / "report.html"
        pq.write_table(pa.table({"age": ["[20, 30]"] * rows}), staged)
        page.write_text("<!DOCTYPE html><title>Report</title>")
        fields = {"method": "mondrian", "parameters": {}, "guarantees": [], "loss": loss, "rows": rows}
        measured = [{"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": 10.0, "passed": True}]
        publish(
            lake.table("people"),
            release_id,
            staged,
            fields | {"figures": figures, "columns": {}, "measured": measured},
            page,
            expected_sha256=sha256_file(staged),
            run_key=f"people/{run}",
        )

    return one


@pytest.fixture
def problems() -> list[str]:
    """What could not be compared."""
    return []


@pytest.fixture
def alerts(lake: Lake, problems: list[str]) -> Alerts:
    """The alerts about a release of 100 records that keeps k = 10."""

    def found(
        requested: Mapping[str, Any], /, *, rows: int = 100, k: float = 10, **figures: Any
    ) -> list[AlertRef]:
        measured = [{"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": k, "passed": True}]
        staged = staged_release(rows=rows, loss=None, figures=figures, booking=None)
        report: Any = SimpleNamespace(findings=measured)
        return find_alerts(
            staged, report, requested, table=lambda: lake.table("people"), run=RUN, on_problem=problems.append
        )

    return found


def test_the_first_release_warns_on_its_own_limits_alone(alerts: Alerts, problems: list[str]) -> None:
    fields = {"gcp_lca": {"above": 0.2, "rises_by": 0.01}, "rows": {"falls_by": 0.01, "below": 101}}
    assert [a.text for a in alerts(fields, gcp_lca=0.25)] == [
        "Records released: 100, below 101",
        "Detail lost (GCP), by common ancestor: 25 %, above 20 %",
    ]
    assert problems == []


def test_a_figure_is_compared_with_the_median_of_the_last_releases(
    alerts: Alerts, published: Publish
) -> None:
    for i, (rows, lost) in enumerate([(5000, 0.9), (100, 0.1), (120, 0.2), (140, 0.12)]):
        published(f"r{i}", rows=rows, gcp_lca=lost)
    fields = {"last": 3, "rows": {"falls_by": 0.25}, "gcp_lca": {"rises_by": 0.5}}
    assert alerts(fields, rows=90, gcp_lca=0.18) == []  # a quarter below 120, and half above 0.12: the limits
    fewer, lossier = alerts(fields, rows=89, gcp_lca=0.19)
    assert fewer.text == "Records released: 89, more than 25 % below 120, the median of the last 3 releases"
    assert (fewer.value, fewer.limit, fewer.median, fewer.releases) == (89, 90, 120, 3)
    assert lossier.text.endswith(": 19 %, more than 50 % above 12 %, the median of the last 3 releases")
    assert [a.median for a in alerts(fields | {"last": 4}, rows=10, gcp_lca=0.1)] == [130]


def test_more_records_and_a_smaller_class_are_reported_too(alerts: Alerts, published: Publish) -> None:
    published("r1", rows=100)
    more, smaller = alerts({"rows": {"rises_by": 0.5}, "k": {"falls_by": 0.2, "below": 5}}, rows=151, k=7)
    assert more.text == "Records released: 151, more than 50 % above 100, the last release"
    assert smaller.text == "k, measured: 7, more than 20 % below 10, the last release"


def test_retracted_releases_do_not_count_and_superseded_ones_do(
    lake: Lake, alerts: Alerts, published: Publish
) -> None:
    published("r1", rows=400)
    published("r2", rows=10)
    retract(lake.table("people"), "r2", "a test")
    published("r3", rows=300)
    published("r3", rows=200, run="again")  # it replaces the one before
    assert {str(entry.state) for entry in publications(lake.table("people"))} == {
        "current",
        "superseded",
        "retracted",
    }
    (reported,) = alerts({"rows": {"below": 1, "falls_by": 0.5}})
    assert (reported.median, reported.releases) == (300, 2)


def test_what_a_run_published_itself_is_no_earlier_release(alerts: Alerts, published: Publish) -> None:
    published("r1", rows=200)
    published(RUN[0], rows=100, run="now")
    (reported,) = alerts({"rows": {"falls_by": 0.2}})
    assert (reported.median, reported.releases) == (200, 1)


def test_an_earlier_manifest_that_cannot_be_read_is_left_out_and_reported(
    lake: Lake, alerts: Alerts, published: Publish, problems: list[str]
) -> None:
    published("r1", gcp_lca=0.1)
    published("r2", gcp_lca=0.2)
    published("r3", gcp_lca="no number")
    changed, gone = (entry.manifest_sha256 for entry in publications(lake.table("people"))[1::-1])
    (changed_file,) = Path(lake.root).rglob(f"{changed}.json")
    changed_file.write_text('{"figures": {"gcp_lca": 0.0001}}')
    (reported,) = alerts({"gcp_lca": {"rises_by": 0.5}}, gcp_lca=0.16)
    assert (reported.median, reported.releases) == (0.1, 1)
    number, hash_of = problems
    assert number.startswith(
        "an earlier release is left out: `figures.gcp_lca` of the manifest must be a number"
    )
    assert "no number" not in number
    assert hash_of.startswith("an earlier release is left out: the stored manifest of table people must have")
    (gone_file,) = Path(lake.root).rglob(f"{gone}.json")
    gone_file.unlink()
    assert alerts({"gcp_lca": {"rises_by": 0.5}}, gcp_lca=0.16) == []
    assert len(problems) == 5


def test_records_are_compared_without_reading_a_manifest(
    lake: Lake, alerts: Alerts, published: Publish, problems: list[str]
) -> None:
    published("r1", rows=200)
    for file in Path(lake.root).rglob(f"{publications(lake.table('people'))[0].manifest_sha256}.json"):
        file.unlink()
    assert [a.figure for a in alerts({"rows": {"falls_by": 0.1}})] == ["rows"]
    assert problems == []


def test_a_lake_out_of_reach_leaves_the_limits_that_need_no_history(problems: list[str]) -> None:
    def unreachable() -> ReleaseTable:
        raise OSError("secret address")

    staged = staged_release(rows=5, loss=None, figures={}, booking=None)
    report: Any = SimpleNamespace(findings=[])
    found = find_alerts(
        staged,
        report,
        {"rows": {"below": 10, "falls_by": 0.1}},
        table=unreachable,
        run=RUN,
        on_problem=problems.append,
    )
    assert [a.text for a in found] == ["Records released: 5, below 10"]
    assert problems == ["an error of the type OSError, whose message may quote what it read"]


def test_what_is_wrong_with_the_limits_is_reported_and_raises_nothing(
    alerts: Alerts, problems: list[str]
) -> None:
    assert alerts({"gcp_lcaa": {"above": 0.2}}) == []
    (reported,) = problems
    assert "gcp_lcaa: is not a known field" in reported
    assert "did you mean gcp_lca" in reported
    problems.clear()
    assert alerts({"t": {"above": 0.2}}) == []
    assert problems == ["t of this release are not known: nothing in it measures them"]


def test_no_figure_of_the_source_is_reported_of_a_differentially_private_release(
    lake: Lake, published: Publish, problems: list[str]
) -> None:
    loss = {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}
    published("r1", gcp_lca=0.1)
    published("r2", loss=loss, gcp_lca=0.1)
    hidden = 0.123456
    figures = {"gcp_lca": hidden, "suppressed_records": 77.0}
    staged = staged_release(rows=100, loss=loss, figures=figures, booking=None)
    fields = {"gcp_lca": {"above": 0.01}, "suppressed_records": {"above": 1}, "epsilon": {"above": 0.4}}
    report: Any = SimpleNamespace(findings=[])
    found = find_alerts(
        staged, report, fields, table=lambda: lake.table("people"), run=RUN, on_problem=problems.append
    )
    assert [a.text for a in found] == ["Epsilon spent: 0.5, above 0.4"]
    assert problems == [
        "gcp_lca, suppressed_records of this release are not known: nothing in it measures them"
    ]


def test_alerts_know_the_figures_of_manifest_and_commit_and_no_other() -> None:
    known = set(AlertsSpec.model_fields) - {"last", "budget"}
    assert known == ({*COUNTED, *FIGURES, *RISKS}) - {BOUND}


def test_little_left_of_a_budget_is_reported(ledger: BudgetLedger, lake: Lake, problems: list[str]) -> None:
    from privacy_engine.dp.loss import Neighbours, PrivacyLoss

    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    spent = PrivacyLoss(epsilon=0.75, delta=0.0, neighbours=Neighbours.REPLACE_ONE)
    ledger.reserve("people", "a" * 64, spent)
    booking: Any = SimpleNamespace(dataset="people")
    staged = staged_release(rows=1, loss=None, figures={}, booking=booking)
    report: Any = SimpleNamespace(findings=[])
    for share, left in ((0.25, []), (0.26, [0.25])):
        found = find_alerts(
            staged,
            report,
            {"budget": {"left_below": share}},
            table=lambda: lake.table("people"),
            run=RUN,
            ledger=ledger,
            on_problem=problems.append,
        )
        assert [a.value for a in found] == left
    assert found[0].text.startswith("people: 0.25 of epsilon 1 is left (in total)")
    assert problems == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"prosecutor_maxx": {"above": 0.1}}, "did you mean prosecutor_max"),
        ({"gcp_lca": {"above": 1.5}}, "gcp_lca.above: "),
        ({"gcp_lca": {"above": 20}}, "must be less than 1, got 20"),
        ({"rows": {"falls_by": 1}}, "rows.falls_by: "),
        ({"rows": {"falls_by": -0.2}}, "must be greater than 0, got -0.2"),
        ({"rows": {}}, "must have one of above, below, rises_by, falls_by"),
        ({"rows": {"above": 5, "below": 9}}, "below must not be larger than above"),
        ({"rows": {"above": True}}, "must be a number, and not true or false"),
        ({"budget": {"left_below": 20}}, "must be less than or equal to 1, got 20"),
        ({"last": 0}, "last: "),
    ],
)
def test_wrong_limits_are_named_by_figure_and_remedy(fields: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_alerts(fields)
    assert expected in str(refused.value)
