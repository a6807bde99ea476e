"""Utility and risk over the releases of one table, from the figures in their manifests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_privacy_release.plugin.views.releases import ShownRelease, attacks_in
from airflow_privacy_release.plugin.views.words import day, number
from privacy_release.reports.charts import LineChart, Point, line_chart
from privacy_release.reports.text import COUNTED, FIGURES, RISKS, shown, signed
from privacy_release.steps.approval_question import Course, Excess

LONGEST = 60  # most releases in a trend


@dataclass(frozen=True, kw_only=True)
class Trend:
    """One figure over time.

    Attributes:
        values: Values as text, by release id, oldest first.
        meaning: Explanation in one sentence; may be empty.
    """

    name: str
    meaning: str
    chart: LineChart
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class _Figure:
    name: str
    meaning: str
    text: Callable[[float], str]
    value: Callable[[ShownRelease], float | None]


def utility(releases: Sequence[ShownRelease]) -> list[Trend]:
    """Return records and information loss over time, as far as the manifests contain them."""
    rows = _Figure(
        name=COUNTED["rows"][0],
        meaning="",
        text=lambda v: f"{v:,.0f}",
        value=lambda r: float(r.row.entry.rows),
    )
    return _drawn([rows, *(_figure(name, *about) for name, about in FIGURES.items())], releases)


def risk(releases: Sequence[ShownRelease]) -> list[Trend]:
    """Return the figures measured for the guarantees, and the risk of linking, over time."""
    symbols = [
        _Figure(name=f"{label}: {of}" if of else label, meaning="", text=number, value=_symbol(symbol))
        for symbol, (label, _, of) in COUNTED.items()
        if symbol != "rows"
    ]
    linked = [_figure(name, *about) for name, about in RISKS.items()]
    return _drawn([*symbols, *linked], releases) + _attacks(releases)


def _attacks(releases: Sequence[ShownRelease]) -> list[Trend]:
    """Return the excess risk of each attack over time, for the subject with the highest, if recorded."""
    courses: dict[str, list[tuple[Excess, float]]] = {}
    for release in releases:
        worst: dict[str, dict[str, Any]] = {}
        for outcome in attacks_in(release.manifest):
            worst[outcome["attack"]] = max(
                outcome, worst.get(outcome["attack"], outcome), key=lambda outcome: float(outcome["excess"])
            )
        for attack, outcome in worst.items():
            entry = release.row.entry
            found = Excess(
                release=entry.release_id,
                committed=entry.committed,
                excess=outcome["excess"],
                low=outcome["low"],
                high=outcome["high"],
            )
            courses.setdefault(attack, []).append((found, outcome["bound"]))
    meaning = (
        "How often an attacker is right about people in the release, beyond how often about others, for the "
        "subject with the highest value. The band is its interval, the dashed line the latest bound."
    )
    return [
        excess_trend(
            f"Excess risk: {attack.replace('_', ' ')}", meaning, [found for found, _ in course], course[-1][1]
        )
        for attack, course in courses.items()
    ]


def excess_trends(courses: Sequence[Course]) -> list[Trend]:
    """Return what the attacks on the releases gain over time; none if there is only one release."""
    return [
        excess_trend(
            f"{course['attack'].replace('_', ' ').capitalize()}: {course['subject']}",
            "",
            course["releases"],
            course["bound"],
        )
        for course in courses
        if len(course["releases"]) > 1
    ]


def excess_trend(name: str, meaning: str, course: Sequence[Excess], bound: float) -> Trend:
    """Return excess risks with their intervals and a bound; values below 0 are drawn as 0.

    Args:
        name: Name of the figure.
        meaning: Explanation in one sentence; may be empty.
        course: Excess risks, oldest first, at least one.
        bound: Bound of the last one.
    """
    top = max(bound, *(found["high"] for found in course))
    texts = [
        f"{signed(found['excess'])} ({signed(found['low'])} to {signed(found['high'])})" for found in course
    ]
    first, last = course[0], course[-1]
    return Trend(
        name=name,
        meaning=meaning,
        chart=line_chart(
            [
                Point(
                    x=i,
                    y=max(0.0, found["excess"]),
                    text=f"{found['release']}: {text}",
                    span=(max(0.0, found["low"]), max(0.0, found["high"])),
                )
                for i, (found, text) in enumerate(zip(course, texts, strict=True))
            ],
            label=f"{name}: from {signed(first['excess'])} to {signed(last['excess'])} over {len(course)} "
            f"release{'s' if len(course) > 1 else ''}, bound {bound:g}",
            ends=(_day(first), _day(last) if len(course) > 1 else ""),
            top=top,
            texts=(signed(top), "0"),
            limit=bound,
        ),
        values=tuple((found["release"], text) for found, text in zip(course, texts, strict=True)),
    )


def _day(found: Excess) -> str:
    return day(found["committed"]) if found["committed"] else "this one"


def _symbol(symbol: str) -> Callable[[ShownRelease], float | None]:
    return lambda release: release.row.symbols.get(symbol)


def _figure(name: str, label: str, unit: str, meaning: str) -> _Figure:
    def value(release: ShownRelease) -> float | None:
        found = release.manifest.figures.get(name)
        return None if found is None else float(found)

    return _Figure(name=label, meaning=meaning, text=lambda v: shown(v, unit), value=value)


def _drawn(figures: Sequence[_Figure], releases: Sequence[ShownRelease]) -> list[Trend]:
    """Return the figures that at least one release has."""
    trends = []
    for figure in figures:
        measured = [(r, v) for r in releases if (v := figure.value(r)) is not None]
        if measured:
            trends.append(_trend(figure, measured))
    return trends


def _trend(figure: _Figure, measured: Sequence[tuple[ShownRelease, float]]) -> Trend:
    values = [value for _, value in measured]
    high = max(values)
    first, last = measured[0][0].row, measured[-1][0].row
    return Trend(
        name=figure.name,
        meaning=figure.meaning,
        chart=line_chart(
            [
                Point(x=i, y=value, text=f"{release.row.entry.release_id}: {figure.text(value)}")
                for i, (release, value) in enumerate(measured)
            ],
            label=f"{figure.name}: from {figure.text(values[0])} to {figure.text(values[-1])} over "
            f"{len(values)} release{'s' if len(values) > 1 else ''}",
            ends=(day(first.entry.committed), day(last.entry.committed) if len(values) > 1 else ""),
            top=high,
            texts=(figure.text(high).partition(" (")[0] if high else "", "0"),
        ),
        values=tuple((release.row.entry.release_id, figure.text(value)) for release, value in measured),
    )
