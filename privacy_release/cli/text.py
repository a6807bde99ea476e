"""What the command line shows: findings, figures and manifests as lines, and a bar a stage."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from privacy_release.work.settings import VARIABLES

if TYPE_CHECKING:
    from privacy_release.steps.run import Outcome, Stage, Watcher

_UNSIGNED = f"by nobody: {VARIABLES['signing_key']} names no key"


def outcome_lines(outcome: "Outcome") -> list[str]:
    """Where a release is, what was found and what it lost."""
    published = outcome.published
    note = outcome.staged["source"].get("note")
    return [
        *([f"source    {note}"] if note else []),
        f"release   {published['release']}",
        f"table     {published['lake']}/{published['table']} (version {published['version']})",
        f"rows      {published['rows']:,}",
        f"manifest  {published['manifest']}",
        f"report    {published['report']}",
        f"signed    {published.get('statement') or _UNSIGNED}",
        *finding_lines(outcome.report["findings"]),
        *figure_lines(outcome.staged["figures"]),
        *_nearness(outcome.staged["figures"]),
    ]


def _nearness(figures: Mapping[str, float]) -> list[str]:
    """How near the loss is to what no method can go below, where that is known."""
    if "gcp_bound" not in figures:
        return []
    lost, bound = figures["gcp_lca"], figures["gcp_bound"]
    return [
        f"no k-anonymous release can have a GCP (by common ancestor) below {bound:g}; this one has {lost:.4g}"
    ]


def finding_lines(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a rule."""
    return [_finding(finding) for finding in findings]


def _finding(finding: Mapping[str, Any]) -> str:
    measured = "nothing measurable" if finding["measured"] is None else f"{finding['measured']:.6g}"
    missed = f", missed by {finding['failing_classes']} classes" if finding["failing_classes"] else ""
    return f"{'passed' if finding['passed'] else 'FAILED'}    {finding['rule']}: measured {measured}{missed}"


def figure_lines(figures: Mapping[str, float]) -> list[str]:
    """One line a figure."""
    return [f"  {name:<22} {value:.6g}" for name, value in sorted(figures.items())]


def manifest_lines(manifest: Mapping[str, Any]) -> list[str]:
    """Findings and figures in words, then all of it as JSON."""
    return [
        *finding_lines(manifest.get("measured", ())),
        *figure_lines(manifest.get("figures", {})),
        json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False),
    ]


def release_line(entry: Mapping[str, Any]) -> str:
    """One publication of a table."""
    facts = f"{entry['committed']}  {entry['rows']:>9,} rows  {entry['figures'].get('method', '')}"
    problem = f"  ({entry['problem']})" if entry["problem"] else ""
    return f"{entry['version']:>4}  {entry['state']:<10}  {facts}  {entry['release_id']}{problem}"


@contextmanager
def bars() -> "Iterator[Watcher]":
    """One bar a stage, on stderr; a stage is done when the next begins."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    progress: Progress = Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
        console=Console(stderr=True),
    )
    bars: dict[Stage, Any] = {}

    def watch(stage: "Stage", text: str) -> None:
        if stage not in bars:
            for bar in bars.values():
                progress.update(bar, total=1, completed=1)
            bars[stage] = progress.add_task(stage.value, total=None, text=text)
        progress.update(bars[stage], text=text)

    with progress:
        yield watch
        for bar in bars.values():
            progress.update(bar, total=1, completed=1)
