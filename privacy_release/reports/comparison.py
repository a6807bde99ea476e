"""The report that compares releases of one table: figures in a table, and risk against loss as a plot.

It is made only from the references that the tasks exchange. No record is read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privacy_engine.errors import IntegrityError, SpecError
from privacy_release.reports.charts import Plot, Series, percent_ticks, plot
from privacy_release.reports.release import page_template
from privacy_release.workarea.references import ReportRef, StagedRelease, measured_symbols


@dataclass(frozen=True, kw_only=True)
class ComparedRelease:
    """A release in the comparison. A figure that was not measured is None.

    Attributes:
        label: Method, with the parameters that distinguish it from other releases by the same method.
        k, l, t: Numbers measured on the released bytes.
        gcp: Information loss, 0 to 1.
        risk: Highest prosecutor risk.
        mean_risk: Prosecutor risk of the average record.
        seconds: Duration of the method in seconds. The first run of a process includes compilation.
        passed: Whether the release meets the policy.
        unbeaten: Whether no other release has less loss at no more mean risk, or less risk at no more loss.
    """

    label: str
    k: float | None
    l: float | None  # noqa: E741  the field's own symbol
    t: float | None
    gcp: float | None
    discernibility: float | None
    suppressed: float | None
    risk: float | None
    mean_risk: float | None
    seconds: float | None
    rows: int
    passed: bool
    unbeaten: bool


def render_comparison(staged: Sequence[StagedRelease], reports: Sequence[ReportRef], *, title: str) -> str:
    """Return the comparison as one HTML page that loads nothing.

    Args:
        staged: References to the staged releases.
        reports: Verification reports of the releases, in the same order.
        title: Title of the page.

    Raises:
        SpecError: If there is nothing to compare.
        IntegrityError: If a report is about other bytes than its release's.
    """
    entries = compare(staged, reports)
    return page_template("comparison.html.j2").render(
        title=title,
        entries=entries,
        source_rows=_source_rows(staged[0]),
        rules=[rule_text(finding) for finding in reports[0].findings],
        plot=_plot(entries),
        has_t=any(entry.t is not None for entry in entries),
        has_l=any(entry.l is not None for entry in entries),
    )


def compare(staged: Sequence[StagedRelease], reports: Sequence[ReportRef]) -> list[ComparedRelease]:
    """Return the releases with their figures, least loss first. Raises as `render_comparison`."""
    require_comparable(staged, reports)
    labels = _labels(staged)
    places = [_place(release) for release in staged]
    entries = [
        _entry(release, report, label, unbeaten=_unbeaten(place, places))
        for release, report, label, place in zip(staged, reports, labels, places, strict=True)
    ]
    return sorted(entries, key=lambda e: (e.gcp is None, e.gcp or 0.0, e.label))


def require_comparable(staged: Sequence[StagedRelease], reports: Sequence[ReportRef]) -> None:
    """Raise if releases cannot be compared, as `render_comparison` does."""
    if not staged or len(staged) != len(reports):
        raise SpecError(
            f"a comparison needs releases and one report for each, got {len(staged)} and {len(reports)}; "
            "pass the outputs of the release tasks and of the tasks that verify them"
        )
    if other := sum(s.sha256 != r.sha256 for s, r in zip(staged, reports, strict=True)):
        raise IntegrityError(
            f"each report must be about the bytes of its release, but {other} of {len(reports)} are not; "
            "pass both in the same order, and verify releases again that were made again"
        )
    if len({s.source.fingerprint for s in staged}) > 1:
        raise SpecError(
            "releases can only be compared if they are of one table; ingest it once for all of them"
        )


def rule_text(finding: Mapping[str, Any]) -> str:
    """Return a rule of the policy as text. A model's name contains its number, a limit's name does not."""
    rule = str(finding["rule"])
    return rule if "(" in rule else f"{rule} {finding['threshold']:g}"


def _entry(release: StagedRelease, report: ReportRef, label: str, *, unbeaten: bool) -> ComparedRelease:
    figures, measured = release.figures, measured_symbols(report)
    return ComparedRelease(
        label=label,
        k=measured.get("k", figures.get("smallest_class")),
        l=measured.get("l"),
        t=measured.get("t"),
        gcp=figures.get("gcp"),
        discernibility=figures.get("discernibility"),
        suppressed=figures.get("suppressed"),
        risk=figures.get("prosecutor_max"),
        mean_risk=figures.get("prosecutor_mean"),
        seconds=release.seconds,
        rows=release.rows,
        passed=report.passed,
        unbeaten=unbeaten,
    )


def _place(release: StagedRelease) -> tuple[float, float] | None:
    """Return mean risk and loss, the coordinates of a release in the plot."""
    figures = release.figures
    if "prosecutor_mean" not in figures or "gcp" not in figures:
        return None
    return figures["prosecutor_mean"], figures["gcp"]


def _unbeaten(place: tuple[float, float] | None, places: Sequence[tuple[float, float] | None]) -> bool:
    if place is None:
        return False
    others = [other for other in places if other is not None and other != place]
    return not any(other[0] <= place[0] and other[1] <= place[1] for other in others)


def _labels(staged: Sequence[StagedRelease]) -> list[str]:
    """Return the methods, with claimed guarantees if a method occurs twice, and with a number if needed."""
    methods = Counter(release.method for release in staged)
    labels = [
        release.method if methods[release.method] == 1 else f"{release.method}{_claims(release)}"
        for release in staged
    ]
    times = Counter(labels)
    seen: Counter[str] = Counter()
    for i, label in enumerate(labels):
        if times[label] > 1:
            seen[label] += 1
            labels[i] = f"{label} #{seen[label]}"
    return labels


def _claims(release: StagedRelease) -> str:
    claimed = {
        symbol: model[symbol] for model in release.guarantees for symbol in ("k", "l", "t") if symbol in model
    }
    return "".join(f" {symbol}={number}" for symbol, number in claimed.items())


def _source_rows(release: StagedRelease) -> int:
    return release.source.rows - release.source.dropped


def _plot(entries: Sequence[ComparedRelease]) -> Plot | None:
    """Plot mean risk (right is worse) against loss (up is worse). None if there is no point."""
    points = [(e, e.mean_risk, e.gcp) for e in entries if e.mean_risk is not None and e.gcp is not None]
    if not points:
        return None
    return plot(
        [
            Series(label=e.label, kind="unbeaten" if e.unbeaten else "beaten", points=((risk, loss),))
            for e, risk, loss in points
        ],
        x=percent_ticks(0.0, max(risk for _, risk, _ in points)),
        y=percent_ticks(0.0, max(loss for _, _, loss in points)),
    )
