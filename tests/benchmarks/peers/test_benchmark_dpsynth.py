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
OURS = dp_dpsynth.Ours(
    table="Small",
    runs={
        APPROXIMATE: {
            epsilon: [Scores(tvd={3: far + run / 1_000}, accuracy={}, cpu=4.0) for run in range(5)]
            for epsilon, far in {0.8: 0.05, 1.6: 0.04}.items()
        }
    },
    peaks={APPROXIMATE: 5e8},
    bounds={"bound": 0.3},
)


def test_a_run_has_its_distance_or_says_that_it_did_not_finish_or_was_not_measured() -> None:
    text = dp_dpsynth.distances(OURS, [ENDED, UNFINISHED])
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    assert "| 0.0458 | did not finish in 600 CPU s |" in lines["AIM-GDP"]
    assert "| not measured | not measured |" in lines["MST"]
    assert "0.0520 ± 0.0020" in lines[APPROXIMATE]
    assert "| 0.3000 | 0.3000 |" in lines["bound"]


def test_costs_name_what_a_peer_books_and_its_iterations() -> None:
    text = dp_dpsynth.costs_of(OURS, [UNFINISHED, ENDED])
    assert "| AIM-GDP | 0.8 | 0.00497 | 1,000 | 500.5 | 2.00 |" in text
    assert "| AIM-GDP | 1.6 | 0.00497 | 1,000 | more than 600 |  |" in text
    assert text.index("AIM-GDP | 0.8") < text.index("AIM-GDP | 1.6")
    assert f"| {APPROXIMATE} | 0.8 |  |  | 4.0 | 0.50 |" in text


def test_one_run_of_a_peer_decides_nothing_and_an_unfinished_one_is_not_judged() -> None:
    (line,) = dp_dpsynth.verdicts(OURS, [ENDED, UNFINISHED])
    assert line.startswith("- **Undecided**")
    assert "0.0520 ± 0.0020 / 0.0458 at 0.8)" in line
    assert dp_dpsynth.verdicts(OURS, [UNFINISHED]) == []


def test_the_section_names_the_commit_and_versions_or_how_to_make_runs() -> None:
    assert dp_dpsynth.versions([ENDED, UNFINISHED]).startswith(f"dpsynth: commit {COMMIT} (jax 0.11.0). ")
    assert "python -m benchmarks.peers.dpsynth_runs" in dp_dpsynth.versions([])


def test_a_table_is_shown_with_its_own_runs_only() -> None:
    section = dp_dpsynth.describe([OURS], [ENDED, replace(ENDED, table="Other", distance=0.9)], runs=5)
    text = "\n".join(section.blocks)
    assert "0.0458" in text
    assert "0.9000" not in text
    assert "2.17 (AIM-GDP), 2.17 (SWIFT), 2.89 (MST)" in text
    assert "= 1.27" in text  # what plain AIM spends
