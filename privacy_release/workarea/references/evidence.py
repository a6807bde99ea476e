"""The results about a release: its verification, the attacks on it, and warnings about its figures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privacy_release.workarea.references.reference import Reference
from privacy_release.workarea.references.table import Table

_SYMBOLS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "k_anonymity": ("k", int),
    "distinct_l_diversity": ("l", int),
    "t_closeness": ("t", float),
}


@dataclass(frozen=True, kw_only=True)
class AlertRef(Reference):
    """A warning about a public figure of a release, or about its privacy budget.

    Attributes:
        figure: Name of the figure, as in the manifest; or `budget`.
        text: Warning in words.
        value: Value of the figure. For a budget, the epsilon that is left.
        limit: Limit that it exceeded, in the figure's unit.
        median: Median of the earlier releases, if the limit is relative to it.
        releases: Number of earlier releases behind the median.
    """

    figure: str
    text: str
    value: float
    limit: float
    median: float | None = None
    releases: int | None = None


@dataclass(frozen=True, kw_only=True)
class TrialRef(Reference):
    """The result of a rule about an attack.

    Attributes:
        rule: Rule as text.
        bound: Largest allowed excess risk.
        shadows: Number of shadow releases that the attack learned from, if it used any.
        outcomes: Figures by attacked subject, for the reviewer. None for a differentially private release.
        published: Figures in the manifest, if the rule publishes them. None for a private release.
    """

    rule: str
    attack: str
    bound: float
    passed: bool
    shadows: int | None = None
    outcomes: list[dict[str, Any]] | None = None
    published: dict[str, Any] | None = None

    @property
    def publishes_figures(self) -> bool:
        """Whether the manifest contains figures of the attack."""
        return self.published is not None

    @property
    def published_outcomes(self) -> list[dict[str, Any]]:
        """The figures in the manifest, by attacked subject. Empty if it contains none."""
        return self.published["outcomes"] if self.published else []

    @property
    def shown_outcomes(self) -> list[dict[str, Any]]:
        """The figures for the reviewer, by attacked subject. Empty if they are the curator's only."""
        return self.outcomes or []


@dataclass(frozen=True, kw_only=True)
class AttackRef(Reference):
    """The results of the attacks that a policy bounds. `curator` is the path of the private report.

    `sha256` is the SHA-256 of the attacked bytes.
    """

    sha256: str
    trials: list[TrialRef]
    curator: str


@dataclass(frozen=True, kw_only=True)
class ReportRef(Reference):
    """The result of the verification. `sha256` is the SHA-256 of the verified bytes.

    Attributes:
        policy: Policy that had to hold, the release's policy combined with the floor policy.
        floor_policy: SHA-256 of the floor policy, if the deployment sets one.
        persons: Number of persons in the records, if persons may have several.
        unique_records: Shares of unique records, by the columns that are not sensitive and by the sensitive
            ones.
        compared: Versions of the release table that it was compared with, if the policy requires that.
        alerts: Warnings about figures, if the specification defines alerts. They do not affect the verdict.
        attacks: Attacks that were tried since, if the policy bounds attacks.
        register: Register of the population whose persons are kept with the release, if there is one.
    """

    passed: bool
    sha256: str
    rows: int
    classes: int
    findings: list[dict[str, Any]]
    policy: dict[str, Any]
    floor_policy: dict[str, str] | None = None
    persons: int | None = None
    unique_records: dict[str, float] | None = None
    compared: list[int] | None = None
    alerts: list[AlertRef] = field(default_factory=list)
    attacks: AttackRef | None = None
    register: Table | None = None

    @property
    def was_compared(self) -> bool:
        """Whether the release was compared with the earlier ones of its table, or is the first."""
        return self.compared is not None

    def unseen(self, versions: Iterable[int]) -> set[int]:
        """Return the versions that the release was not compared with. Empty if no comparison is required."""
        return set() if self.compared is None else set(versions) - set(self.compared)

    @property
    def trials(self) -> list[TrialRef]:
        """The results of the attacks that were tried. Empty if none was."""
        return [] if self.attacks is None else self.attacks.trials


def measured_symbols(report: ReportRef) -> dict[str, float]:
    """Return the measured k, l and t of a report, as far as the policy requires them."""
    return symbols_of(report.findings)


def symbols_of(findings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the measured k, l and t from the findings, which a commit records."""
    measured = {}
    for finding in findings:
        symbol, number = _SYMBOLS.get(finding["rule"].partition("(")[0], ("", float))
        if symbol and finding["measured"] is not None:
            measured[symbol] = number(finding["measured"])
    return measured
