"""Output of the command line: findings, figures and manifests as lines, and progress bars."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from privacy_engine.progress import reporting_to
from privacy_engine.verification.attack_risk import AttackRisk
from privacy_engine.verification.republication.notes import notes_on_earlier
from privacy_engine.vocabulary import counted
from privacy_release.config.durations import Pace, how_far
from privacy_release.config.settings import VARIABLES
from privacy_release.manifest.manifest import Manifest

if TYPE_CHECKING:
    from privacy_release.running.context import Watcher
    from privacy_release.running.run import Outcome

_UNSIGNED = f"by no one: {VARIABLES['signing_key']} names no key"


def outcome_lines(outcome: "Outcome") -> list[str]:
    """Return lines about a release: its location, findings and loss."""
    published = outcome.published
    return [
        f"release   {published.release}",
        f"table     {published.lake}/{published.table} (version {published.version})",
        f"rows      {published.rows:,}",
        f"manifest  {published.manifest}",
        f"report    {published.report}",
        f"signed    {published.statement or _UNSIGNED}",
        *finding_lines(outcome.report.findings),
        *earlier_lines(outcome.report.findings, followed=outcome.staged.follows_people),
        *([f"evidence  {outcome.evidence['evidence']}"] if outcome.evidence else []),
        *(f"warning   {text}" for text in outcome.warnings),
        *figure_lines(outcome.staged.figures),
        *_nearness(outcome.staged.figures),
    ]


def _nearness(figures: Mapping[str, float]) -> list[str]:
    """Return how close the loss is to the lower bound for any method, if that is known."""
    if not {"gcp_bound", "gcp_lca"} <= figures.keys():
        return []
    lost, bound = figures["gcp_lca"], figures["gcp_bound"]
    return [
        f"no k-anonymous release can have a GCP (by common ancestor) below {bound:g}; this one has {lost:.4g}"
    ]


def finding_lines(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line per rule."""
    return [_finding(finding) for finding in findings]


def earlier_lines(findings: Sequence[Mapping[str, Any]], *, followed: bool) -> list[str]:
    """Return one line for each note on the earlier releases, see `notes_on_earlier`."""
    return [f"over time {note}" for note in notes_on_earlier(findings, followed=followed)]


def _finding(finding: Mapping[str, Any]) -> str:
    if finding["rule"].startswith(f"{AttackRisk.name}(") and finding["passed"]:
        return f"passed    {finding['rule']}: kept; its figures are in the report on the attacks"
    measured = "nothing measurable" if finding["measured"] is None else f"{finding['measured']:.6g}"
    classes = finding["failing_classes"]
    missed = f", missed by {counted(classes, 'class', 'classes')}" if classes else ""
    return f"{'passed' if finding['passed'] else 'FAILED'}    {finding['rule']}: measured {measured}{missed}"


def figure_lines(figures: Mapping[str, float]) -> list[str]:
    """Return one line per figure."""
    return [f"  {name:<22} {value:.6g}" for name, value in sorted(figures.items())]


def manifest_lines(stored: Mapping[str, Any]) -> list[str]:
    """Return findings and figures of a stored manifest in words, then all of it as JSON.

    Raises:
        IntegrityError: If a field has another type than this version expects.
    """
    manifest = Manifest.from_dict(stored)
    return [
        *finding_lines(manifest.findings),
        *earlier_lines(manifest.findings, followed=manifest.history is not None),
        *figure_lines(manifest.figures),
        json.dumps(stored, indent=2, sort_keys=True, ensure_ascii=False),
    ]


def release_line(entry: Mapping[str, Any]) -> str:
    """Describe one publication of a table in a line."""
    rows = f"{entry['rows']:>9,} {'row ' if entry['rows'] == 1 else 'rows'}"
    facts = f"{entry['committed']}  {rows}  {entry['figures'].get('method', '')}"
    problem = f"  ({entry['problem']})" if entry["problem"] else ""
    return f"{entry['version']:>4}  {entry['state']:<10}  {facts}  {entry['release_id']}{problem}"


def lines() -> Pace:
    """Report the progress of long work on stderr."""
    return Pace(lambda share, left: print(how_far(share, left), file=sys.stderr, flush=True))


@contextmanager
def bars() -> "Iterator[Watcher]":
    """Show a bar for each step and one for all, with percent and remaining time, on stderr; lines for a log.

    A step ends when the next one begins.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    progress: Progress = Progress(
        TextColumn("{task.description:<15}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
        console=console,
    )
    bars: dict[str, Any] = {}
    whole = progress.add_task("all", total=1.0, text="", visible=console.is_terminal)

    def watch(kind: str, text: str) -> None:
        if kind not in bars:
            for bar in bars.values():
                progress.update(bar, total=1, completed=1)
            bars[kind] = progress.add_task(kind, total=None, text=text)
        progress.update(bars[kind], text=text)

    began = time.monotonic()

    def hear(share: float) -> None:
        left = (time.monotonic() - began) * (1.0 - share) / share
        progress.update(whole, completed=share, text=how_far(share, left))

    with progress, reporting_to(hear if console.is_terminal else lines()):
        yield watch
        for bar in bars.values():
            progress.update(bar, total=1, completed=1)
