"""One Markdown report: sections of text and tables, with their plots beside it as SVG."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from benchmarks.verdicts import of_claim, sentence

PACKAGES = ("numpy", "pandas", "pyarrow", "numba", "scikit-learn", "anjana", "anonypy", "pycanon")
HEAD = """# Benchmarks

Made by `make bench`; every sentence of judgement is computed from the numbers.
"""
MARKERS = "osD^vPX*<>hd"


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the report.

    Attributes:
        title: its heading.
        blocks: Markdown paragraphs and tables, in order; the name of a plot stands for that plot.
        plots: name -> figure.
        source: where its records came from, if not from the table of the command.
    """

    title: str
    blocks: Sequence[str]
    plots: Mapping[str, Figure] = field(default_factory=dict)
    source: str | None = None


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; columns after the first are aligned right."""
    rule = ["---", *["---:"] * (len(headers) - 1)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (headers, rule, *rows))


def verdict(claim: str, good: bool, figures: str, *, runs: int | None = None) -> str:
    """A sentence whose judgement comes from the numbers; ``runs`` as in `verdicts.of_claim`."""
    return sentence(of_claim(good, runs), claim, figures)


def line_plot(
    series: Mapping[str, Mapping[int, float]],
    *,
    x: str,
    y: str,
    log: bool = False,
    dashed: Sequence[str] = (),
) -> Figure:
    """One line a series over a logarithmic x."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes: Axes = figure.subplots()
    colours = mpl.colormaps["tab10" if len(series) <= 10 else "tab20"]
    for number, (name, points) in enumerate(series.items()):
        style = "--" if name in dashed else "-"
        axes.plot(
            list(points),
            list(points.values()),
            style,
            color=colours(number % colours.N),
            marker=MARKERS[number % len(MARKERS)],
            label=name,
        )
    ticks = sorted({at for points in series.values() for at in points})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(at) for at in ticks], minor=False)
    axes.xaxis.set_minor_locator(NullLocator())
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    return figure


def panel_plot(
    panels: Mapping[str, Mapping[str, Mapping[float, float]]],
    *,
    x: str,
    y: str,
    dashed: Sequence[str] = (),
) -> Figure:
    """Panels side by side, the same lines in each, over a logarithmic x; each panel has its own heights."""
    figure = Figure(figsize=(3 + 4 * len(panels), 4), layout="constrained")
    for axes, (title, series) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for number, (name, points) in enumerate(series.items()):
            style = "--" if name in dashed else "-"
            marker = MARKERS[number % len(MARKERS)]
            axes.plot(list(points), list(points.values()), style, marker=marker, label=name)
        ticks = sorted({at for points in series.values() for at in points})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{at:g}" for at in ticks], minor=False, fontsize="small")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize="small")
    return figure


def bar_plot(values: Mapping[str, float], *, x: str) -> Figure:
    """One bar a name, on a logarithmic axis, the first on top."""
    figure = Figure(figsize=(7, 0.8 + 0.32 * len(values)), layout="constrained")
    axes: Axes = figure.subplots()
    bars = axes.barh(list(values), list(values.values()))
    axes.bar_label(bars, [f"{value:.2f}" for value in values.values()], padding=3, fontsize="small")
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.12)
    axes.set(xlabel=x)
    return figure


def machine() -> str:
    """What the figures were measured on; names neither the machine nor its user."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load average {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    python = f"{platform.machine()}, {sys.platform}, Python {platform.python_version()}"
    return f"{cores} cores, {python}{load}; {packages}."


def write(out: Path, section: Section, source: str) -> Path:
    """Put a section into ``benchmarks.md`` under a folder, and its plots beside it; the report's path.

    Other sections that the report has already stay as they are; they stand in the order of their numbers.
    """
    plots = out / "benchmarks"
    plots.mkdir(parents=True, exist_ok=True)
    for name, figure in section.plots.items():
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
            figure.savefig(plots / f"{name}.svg", metadata={"Date": None})
    path = out / "benchmarks.md"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = dict(part.split("\n", 1) for part in old.split("\n## ")[1:])
    blocks = [f"![{b}](benchmarks/{b}.svg)" if b in section.plots else b for b in section.blocks]
    parts[section.title] = "\n" + "\n\n".join([*blocks, f"*{section.source or source} {machine()}*"]) + "\n"
    path.write_text(
        HEAD + "".join(f"\n## {title}\n{text}" for title, text in sorted(parts.items(), key=_place)),
        encoding="utf-8",
    )
    return path


def _place(part: tuple[str, str]) -> tuple[int, str]:
    """By the number that a title begins with, then by the title."""
    number = part[0].split(".")[0]
    return (int(number) if number.isdigit() else 0), part[0]
