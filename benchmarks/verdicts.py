"""Verdicts, computed from the numbers: one paired lead, several of them, or a claim that holds or not."""

from collections.abc import Collection, Mapping
from enum import StrEnum

from benchmarks.intervals import Mean

LEAST_RUNS = 5  # fewer runs decide nothing


class Verdict(StrEnum):
    """The outcome of a comparison, or of a claim."""

    AHEAD = "ahead"
    TIED = "tied"
    BEHIND = "behind"
    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"


def of_lead(lead: Mean) -> Verdict:
    """Judge a paired lead by its 95 % interval.

    >>> [str(of_lead(Mean(value, 0.01, 10))) for value in (0.02, 0.01, -0.02)]
    ['ahead', 'tied', 'behind']
    >>> str(of_lead(Mean(0.02, 0.01, 4)))
    'undecided'
    """
    if lead.runs < LEAST_RUNS:
        return Verdict.UNDECIDED
    if lead.low > 0:
        return Verdict.AHEAD
    return Verdict.BEHIND if lead.high < 0 else Verdict.TIED


def of_leads(leads: Collection[Mean]) -> Verdict:
    """Judge "at least as good everywhere".

    Returns:
        `behind` if one lead is behind, otherwise `ahead` if one is ahead, otherwise `tied`. One lead of too
        few runs makes it `undecided`.
    """
    found = {of_lead(lead) for lead in leads}
    for verdict in (Verdict.UNDECIDED, Verdict.BEHIND, Verdict.AHEAD):
        if verdict in found:
            return verdict
    return Verdict.TIED


def of_claim(good: bool, runs: int | None = None) -> Verdict:
    """Judge a claim.

    Args:
        good: Whether the numbers agree with the claim.
        runs: Number of random runs behind the numbers. None if they are not random.
    """
    if runs is not None and runs < LEAST_RUNS:
        return Verdict.UNDECIDED
    return Verdict.HOLDS if good else Verdict.FAILS


def sentence(verdict: Verdict, claim: str, figures: str) -> str:
    """One line of a report: the verdict in bold, the claim, and the figures that decide it."""
    return f"- **{verdict.capitalize()}**: {claim} ({figures})."


def places(leads: Mapping[int, Mean] | Mapping[float, Mean]) -> str:
    """List where leads are ahead, tied, behind and undecided, by their keys.

    >>> places({2: Mean(0.02, 0.01, 5), 5: Mean(0.0, 0.01, 5), 10: Mean(0.03, 0.01, 5)})
    'ahead at 2, 10; tied at 5'
    """
    found = {at: of_lead(lead) for at, lead in leads.items()}
    return "; ".join(
        f"{verdict} at {', '.join(f'{at:g}' for at, one in found.items() if one is verdict)}"
        for verdict in Verdict
        if verdict in found.values()
    )
