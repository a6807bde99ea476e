"""The benchmarks of OBPA's outlier step and of claims on TRR and DTPD: verdicts follow the numbers."""

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.intervals import Mean
from benchmarks.papers import obpa, obpa_outliers, ppnb_claims
from benchmarks.papers.ppnb import PPNB, TREE
from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_engine.measures.utility import suppressed_cells

AHEAD, BEHIND = Mean(0.2, 0.1, 5), Mean(-0.2, 0.1, 5)


@pytest.mark.parametrize(
    ("saved", "paid", "words"),
    [
        ([AHEAD, AHEAD], [BEHIND, BEHIND], ["Holds", "Does not hold"]),
        ([AHEAD, Mean(0.05, 0.1, 5)], [AHEAD, AHEAD], ["Does not hold", "Holds"]),
        ([AHEAD, Mean(0.2, 0.1, 4)], [BEHIND, Mean(-0.2, 0.1, 4)], ["Undecided", "Undecided"]),
    ],
)
def test_outliers_set_aside_are_judged_by_intervals(
    saved: list[Mean], paid: list[Mean], words: list[str]
) -> None:
    shares = (0.01, 0.05)
    lines = obpa_outliers.verdicts(
        "OBPA", dict(zip(shares, saved, strict=True)), dict(zip(shares, paid, strict=True)), random=True
    )
    assert [line.split("**")[1] for line in lines] == words


def test_cells_of_records_add_up_to_the_suppressed_cells_of_the_release() -> None:
    frame = synthetic_adult(200, rng=np.random.default_rng(1))
    encoded = obpa.paper_records(frame, 200)
    recoding = obpa_outliers.recode(encoded, obpa.OBPA, 8, 1)
    cells = obpa_outliers.cells_of_records(recoding)
    assert cells.shape == (len(encoded),)
    assert cells.sum() == suppressed_cells(recoding)


@pytest.mark.slow  # it makes releases
def test_each_share_of_outliers_has_a_line() -> None:
    frame = synthetic_adult(300, rng=np.random.default_rng(1))
    section = obpa_outliers.run(
        tables.of_frame(frame, "generated"), frame=frame, ks=(8,), shares=(0.05,), seeds=(1,)
    )
    text = "\n".join(section.blocks)
    for name in obpa_outliers.RANDOM:
        assert f"| {name}, k = 8, 5% set aside | " in text


def test_the_error_of_the_variance_grows_with_the_variance_of_a_and_not_with_its_mean() -> None:
    """By equation 3, and seen: 40 estimates decide both."""
    by_variance = {v: ppnb_claims.variance_errors(1.0, v, 40) for v in (0.5, 10.0)}
    by_mean = {a: ppnb_claims.variance_errors(a, 1.0, 40) for a in (1.0, 8.0)}
    assert ppnb_claims.growth_verdict("variance of A", by_variance).startswith("- **Holds**")
    assert ppnb_claims.growth_verdict("mean of A", by_mean).startswith("- **Does not hold**")
    few = {v: errors[:4] for v, errors in by_variance.items()}
    assert ppnb_claims.growth_verdict("variance of A", few).startswith("- **Undecided**")


@pytest.mark.parametrize(("tree", "word"), [(0.72, "Ahead"), (0.7, "Tied"), (0.68, "Behind")])
def test_dtpd_at_small_p_is_judged_against_ppnb(tree: float, word: str) -> None:
    ours = [0.7] * 5
    found = {PPNB: dict.fromkeys(ppnb_claims.SMALL, ours), TREE: dict.fromkeys(ppnb_claims.SMALL, [tree] * 5)}
    assert ppnb_claims.small_verdict("Adult", found).startswith(f"- **{word}**")


def test_breach_widths_are_those_of_table_2() -> None:
    assert ppnb_claims.width_blocks()[1].startswith("- **Holds**")
