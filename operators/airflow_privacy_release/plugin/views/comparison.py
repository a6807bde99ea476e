"""Two releases side by side, figure by figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_privacy_release.plugin.views.releases import ShownRelease
from airflow_privacy_release.plugin.views.words import moment, number
from privacy_release.reports.text import FIGURES, RISKS, figure, limit_in_words, measured_in_words, shown


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A figure of both releases; `change` is in words if both are numbers that differ."""

    name: str
    left: str
    right: str
    change: str = ""

    @property
    def differs(self) -> bool:
        """Return whether the two texts differ."""
        return self.left != self.right


@dataclass(frozen=True, kw_only=True)
class Group:
    """Figures of one kind."""

    title: str
    pairs: tuple[Pair, ...]


def compare(left: ShownRelease, right: ShownRelease) -> list[Group]:
    """Compare everything in the two manifests, in groups; groups without a figure are omitted."""
    groups = [
        ("Release", _about(left), _about(right)),
        ("Measured against the policy", _measured(left), _measured(right)),
        ("Utility", _figures(left, FIGURES), _figures(right, FIGURES)),
        ("Risk", _figures(left, RISKS), _figures(right, RISKS)),
        ("Parameters of the method", _parameters(left), _parameters(right)),
        ("Columns", _columns(left), _columns(right)),
    ]
    return [Group(title=title, pairs=_pairs(a, b)) for title, a, b in groups if a or b]


# Figure name -> its value, and the value as text.
_Values = Mapping[str, tuple[Any, str]]


def _pairs(left: _Values, right: _Values) -> tuple[Pair, ...]:
    missing = (None, "-")
    return tuple(
        Pair(
            name=name,
            left=left.get(name, missing)[1],
            right=right.get(name, missing)[1],
            change=_change(left.get(name, missing), right.get(name, missing)),
        )
        for name in dict.fromkeys([*left, *right])
    )


def _change(left: tuple[Any, str], right: tuple[Any, str]) -> str:
    """Return the difference of two numbers as text, empty if their texts are equal.

    >>> _change((200, "200"), (150, "150")), _change((0.0, "0"), (2.0, "2")), _change(("a", "a"), ("b", "b"))
    ('-50 (-25 %)', '+2', '')
    >>> _change((0.0712, "7.12 %"), (0.0711, "7.11 %")), _change((0.07121, "7.12 %"), (0.07119, "7.12 %"))
    ('-0.01 percentage points', '')
    """
    (before, was), (after, now) = left, right
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (before, after))
    if not numbers or was == now:
        return ""
    more = after - before
    sign = "+" if more > 0 else "-"
    if "%" in now or "%" in was:
        return f"{sign}{figure(float(f'{100 * abs(more):.2g}'))} percentage points"
    share = f"{100 * abs(more / before):.2g}" if before else "0"
    return f"{sign}{number(float(f'{abs(more):.4g}'))}" + (
        f" ({sign}{number(float(share))} %)" if float(share) >= 0.1 else ""
    )


def _about(release: ShownRelease) -> _Values:
    row, loss = release.row, release.manifest.loss
    figures: dict[str, tuple[Any, str]] = {
        "Published": (None, moment(row.entry.committed)),
        "Method": (None, row.method or "-"),
        "Records": (row.entry.rows, f"{row.entry.rows:,}"),
        "Approved by": (None, row.approved_by or "-"),
        "Status": (None, row.status),
    }
    if loss is not None:
        figures |= {
            "Epsilon": (loss.epsilon, figure(loss.epsilon)),
            "Delta": (loss.delta, figure(loss.delta)),
        }
    return figures


def _measured(release: ShownRelease) -> _Values:
    """Return what was measured by rule, with the policy's limit; a rule's parameters are part of its name."""
    figures = {}
    for finding in release.manifest.measured:
        value, limit = finding.measured, finding.threshold
        text = measured_in_words(vars(finding))
        figures[finding.rule] = (
            value,
            f"{text} (limit {limit_in_words(vars(finding))})" if limit is not None else text,
        )
    return figures


def _figures(release: ShownRelease, known: Mapping[str, tuple[str, str, str]]) -> _Values:
    figures = release.manifest.figures
    return {
        label: (figures[name], shown(figures[name], unit))
        for name, (label, unit, _) in known.items()
        if name in figures
    }


def _parameters(release: ShownRelease) -> _Values:
    return {name: (value, str(value)) for name, value in sorted(release.manifest.parameters.items())}


def _columns(release: ShownRelease) -> _Values:
    return {
        name: (None, f"{column.role.replace('_', '-')}, {column.kind}")
        for name, column in release.manifest.columns.items()
    }
