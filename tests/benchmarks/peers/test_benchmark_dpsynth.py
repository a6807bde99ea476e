"""The section on dpsynth: what it says of runs that ended, that did not, and that are not there."""

from dataclasses import replace

from benchmarks.dp_scores import Scores
from benchmarks.peers import dp_dpsynth
from benchmarks.peers.dp_deltas import APPROXIMATE
from benchmarks.peers.dpsynth_budget import COMMIT
from benchmarks.peers.dpsynth_runs import Run

ENDED = Run(
    table="Small",
    mechanism="AIM-GDP",
    epsilon=0.8,
    delta=1e-9,
    rho=0.00497,
    commit=COMMIT,
    versions={"jax": "0.11.0"},
    iterations=1_000,
    limit=600,
    distance=0.0458,
    cpu=500.5,
    peak=2e9,
)
UNFINISHED = replace(ENDED, epsilon=1.6, distance=None, cpu=None, peak=None)
OURS = {
    APPROXIMATE: {
        epsilon: [Scores(tvd={3: far + run / 1_000}, accuracy={}, cpu=4.0) for run in range(5)]
        for epsilon, far in {0.8: 0.05, 1.6: 0.04}.items()
    }
}


def test_a_run_has_its_distance_or_says_that_it_did_not_finish_or_was_not_measured() -> None:
    text = dp_dpsynth.distances("Small", OURS, [ENDED, UNFINISHED], {"bound": 0.3}, (0.8, 1.6))
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    assert "| 0.0458 | did not finish in 600 CPU s |" in lines["AIM-GDP"]
    assert "| not measured | not measured |" in lines["MST"]
    assert "0.0520 ± 0.0020" in lines[APPROXIMATE]
    assert "| 0.3000 | 0.3000 |" in lines["bound"]


def test_costs_name_what_a_peer_books_and_its_iterations() -> None:
    text = dp_dpsynth.costs_of("Small", OURS, [ENDED, UNFINISHED], {APPROXIMATE: 5e8})
    assert "| AIM-GDP | 0.8 | 0.00497 | 1,000 | 500.5 | 2.00 |" in text
    assert "| AIM-GDP | 1.6 | 0.00497 | 1,000 | more than 600 |  |" in text
    assert f"| {APPROXIMATE} | 0.8 |  |  | 4.0 | 0.50 |" in text


def test_one_run_of_a_peer_decides_nothing_and_an_unfinished_one_is_not_judged() -> None:
    (line,) = dp_dpsynth.verdicts("Small", OURS, [ENDED, UNFINISHED])
    assert line.startswith("- **Undecided**")
    assert "0.0520 ± 0.0020 / 0.0458 at 0.8)" in line
    assert dp_dpsynth.verdicts("Small", OURS, [UNFINISHED]) == []


def test_the_section_names_the_commit_and_versions_or_how_to_make_runs() -> None:
    assert dp_dpsynth.versions([ENDED, UNFINISHED]).startswith(f"dpsynth: commit {COMMIT} (jax 0.11.0). ")
    assert "python -m benchmarks.peers.dpsynth_runs" in dp_dpsynth.versions([])
