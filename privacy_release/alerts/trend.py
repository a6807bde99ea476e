"""Alerts: figures of a release that exceed their limits, or deviate from the trend of earlier releases.

An alert is a warning and no gate: the policy decides. Its figures are those of the manifest and of the
commit, which readers of the table may see anyway. So it is never about loss or risk of a differentially
private release, nor about the bound of the loss, which only the reviewer sees.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import PrivacyEngineError
from privacy_release.alerts.budgets import low_budgets
from privacy_release.lake.log import Publication, ReleaseRun, State, current_version, newest
from privacy_release.lake.read import standing_manifest
from privacy_release.reports.text import COUNTED, FIGURES, RISKS, shown
from privacy_release.spec.sections.alerts import AlertSpec, AlertsSpec, read_alerts
from privacy_release.workarea.references import (
    AlertRef,
    ReportRef,
    StagedRelease,
    measured_symbols,
    symbols_of,
)

if TYPE_CHECKING:
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger

OnProblem = Callable[[str], None]
_STANDING = (State.CURRENT, State.SUPERSEDED)


def find_alerts(
    staged: StagedRelease,
    report: ReportRef,
    requested: AlertsSpec | Mapping[str, Any],
    *,
    table: "Callable[[], ReleaseTable] | None",
    run: ReleaseRun | None,
    ledger: "BudgetLedger | None" = None,
    on_problem: OnProblem,
) -> list[AlertRef]:
    """Return the figures of a verified release that exceed their limits. Never raises.

    Args:
        staged: Reference to the staged release.
        report: Verification report of the release.
        requested: Limits, as in a specification.
        table: Function that opens the release table. None: the table is not known.
        run: This run, whose own publication is no earlier release. None: all publications are earlier ones.
        ledger: Ledger that booked the loss of the release.
        on_problem: Callback for what could not be compared, and why.
    """
    found: list[AlertRef] = []
    limits = AlertsSpec()
    with _reported(on_problem):
        limits = requested if isinstance(requested, AlertsSpec) else read_alerts(requested)
    with _reported(on_problem):
        now, before = _figures_of(staged, report), list[dict[str, float]]()
        if unknown := [figure for figure in limits.figures if figure not in now]:
            on_problem(f"{', '.join(unknown)} of this release are not known: nothing in it measures them")
        if table is None:
            on_problem("the name of the release table is missing, so there are no earlier releases; give it")
        else:
            with _reported(on_problem):
                before = _earlier(table(), run, limits, on_problem)
        for figure, limit in limits.figures.items():
            if figure in now:
                had = [figures[figure] for figures in before if figure in figures]
                found += _of_figure(figure, now[figure], had, limit)
    booking = staged.booking
    if limits.budget is not None and booking is not None and ledger is not None:
        with _reported(on_problem):
            found += _of_budget(ledger, booking.dataset, limits.budget.left_below)
    return found


@contextmanager
def _reported(on_problem: OnProblem) -> Iterator[None]:
    """Report an error instead of raising it. For foreign errors, report only the type."""
    try:
        yield
    except PrivacyEngineError as error:
        on_problem(str(error))
    except Exception as error:  # noqa: BLE001  no release fails because of its alerts
        on_problem(f"an error of the type {type(error).__name__}, whose message may quote what it read")


def _figures_of(staged: StagedRelease, report: ReportRef) -> dict[str, float]:
    """Return the public figures of a release, by name."""
    figures = {"rows": float(staged.rows), **measured_symbols(report)}
    return figures | staged.loss_figures | staged.public_figures


def _earlier(
    table: "ReleaseTable", run: ReleaseRun | None, limits: AlertsSpec, on_problem: OnProblem
) -> list[dict[str, float]]:
    """Return the figures of the last releases that were not retracted, as far as they can be read."""
    found: list[dict[str, float]] = []
    with_manifest = bool(limits.figures.keys() - COUNTED.keys())
    for entry in islice(_standing(table, run, on_problem), limits.last):
        with _reported(lambda problem: on_problem(f"an earlier release is left out: {problem}")):
            found.append(_published_figures(table, entry, with_manifest=with_manifest))
    return found


def _standing(table: "ReleaseTable", run: ReleaseRun | None, on_problem: OnProblem) -> Iterator[Publication]:
    """Yield each earlier release that was not retracted, as last published, newest first."""
    seen = set[str]()
    version = current_version(table)
    for entry in () if version is None else newest(table, version):
        if entry.state is State.DAMAGED:
            on_problem(
                f"an earlier release is left out: its note in version {entry.version} of {table.name} "
                "is damaged"
            )
        if entry.state not in _STANDING or entry.run == run:
            continue
        if entry.release_id not in seen:
            seen.add(entry.release_id)
            yield entry


def _published_figures(table: "ReleaseTable", entry: Publication, *, with_manifest: bool) -> dict[str, float]:
    """Return the figures in commit and manifest of a release, by name."""
    loss = entry.figures.get("loss")
    figures = {"rows": float(entry.rows), **symbols_of(entry.figures.get("measured") or [])}
    if loss:
        return figures | {"epsilon": float(loss["epsilon"])}
    if with_manifest:
        published = standing_manifest(table, entry.release_id, entry.version).figures
        figures |= {figure: float(value) for figure, value in published.items()}
    return figures


def _of_figure(figure: str, value: float, before: list[float], limit: AlertSpec) -> Iterator[AlertRef]:
    """Yield alerts for the limits that a figure exceeds: absolute ones, and those relative to its median."""
    label, unit, _ = {**COUNTED, **FIGURES, **RISKS}[figure]

    def alert(bound: float, words: str) -> AlertRef:
        text = f"{label}: {shown(value, unit)}, {words}"
        return AlertRef(figure=figure, text=text, value=value, limit=bound)

    if limit.above is not None and value > limit.above:
        yield alert(limit.above, f"above {shown(limit.above, unit)}")
    if limit.below is not None and value < limit.below:
        yield alert(limit.below, f"below {shown(limit.below, unit)}")
    if not before:
        return
    middle, releases = median(before), len(before)
    last = "the last release" if releases == 1 else f"the median of the last {releases} releases"
    for share, sign, words in ((limit.rises_by, 1, "above"), (limit.falls_by, -1, "below")):
        if share is None:
            continue
        bound = middle * (1 + sign * share)
        if sign * (value - bound) > 0:
            deviation = f"more than {shown(share, 'share')} {words} {shown(middle, unit)}, {last}"
            yield replace(alert(bound, deviation), median=middle, releases=releases)


def _of_budget(ledger: "BudgetLedger", dataset: str, below: float) -> Iterator[AlertRef]:
    """Yield alerts for the limits of a data set of which too little is left."""
    for low in low_budgets(dataset, ledger.standing(dataset), below):
        yield AlertRef(figure="budget", text=str(low), value=low.left, limit=below * low.limit)
