"""Verdicts follow the interval of a lead, and too few runs decide nothing."""

import ast
import inspect
from types import ModuleType

import pytest

from benchmarks.intervals import Mean
from benchmarks.papers import dp_synthesis, imlap, paper_ilp
from benchmarks.peers import (
    dp_aim,
    dp_deltas,
    dp_dpsynth,
    dp_intervals,
    dp_nominal,
    dp_peers,
    dp_persons,
    dp_regimes,
)
from benchmarks.report import verdict
from benchmarks.scale.years import dp_over_time, dp_standing
from benchmarks.verdicts import LEAST_RUNS, Verdict, of_claim, of_lead, of_leads, places

AHEAD, TIED, BEHIND = Mean(0.02, 0.01, 5), Mean(0.02, 0.03, 5), Mean(-0.02, 0.01, 5)
FEW = Mean(0.02, 0.01, LEAST_RUNS - 1)


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [
        (AHEAD, Verdict.AHEAD),
        (TIED, Verdict.TIED),
        (BEHIND, Verdict.BEHIND),
        (Mean(0.01, 0.01, 5), Verdict.TIED),  # the interval touches zero
        (Mean.of([0.0] * 5), Verdict.TIED),
        (FEW, Verdict.UNDECIDED),
        (Mean.of([0.5]), Verdict.UNDECIDED),
    ],
)
def test_one_lead_is_judged_by_its_interval(lead: Mean, verdict: Verdict) -> None:
    assert of_lead(lead) is verdict


@pytest.mark.parametrize(
    ("leads", "verdict"),
    [
        ([AHEAD, TIED], Verdict.AHEAD),
        ([TIED, TIED], Verdict.TIED),
        ([AHEAD, BEHIND], Verdict.BEHIND),
        ([AHEAD, FEW], Verdict.UNDECIDED),
        ([], Verdict.TIED),
    ],
)
def test_a_comparison_is_behind_if_it_is_behind_anywhere(leads: list[Mean], verdict: Verdict) -> None:
    assert of_leads(leads) is verdict


@pytest.mark.parametrize(
    ("good", "runs", "word"),
    [(True, None, "holds"), (False, 5, "does not hold"), (True, 4, "undecided"), (False, 1, "undecided")],
)
def test_a_claim_of_too_few_runs_is_undecided(good: bool, runs: int | None, word: str) -> None:
    assert of_claim(good, runs) == word
    assert (
        verdict("A beats B", good, "1 to 2", runs=runs) == f"- **{word.capitalize()}**: A beats B (1 to 2)."
    )


def test_places_name_every_verdict_that_occurs() -> None:
    assert places({0.1: BEHIND, 2: AHEAD, 5: AHEAD}) == "ahead at 2, 5; behind at 0.1"


# Benchmarks all of whose verdicts rest on random runs.
RANDOM = (
    dp_aim,
    dp_deltas,
    dp_dpsynth,
    dp_intervals,
    dp_nominal,
    dp_over_time,
    dp_peers,
    dp_persons,
    dp_regimes,
    dp_standing,
    dp_synthesis,
    imlap,
    paper_ilp,
)


@pytest.mark.parametrize("module", RANDOM, ids=lambda module: str(module.__name__))
def test_every_verdict_on_random_runs_states_how_many_there_are(module: ModuleType) -> None:
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "verdict"
    ]
    assert calls
    silent = [call.lineno for call in calls if "runs" not in {word.arg for word in call.keywords}]
    assert silent == []
