"""The paper's tables on a few hundred records: that they run, and that judgements follow the numbers."""

import os

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers import okplof
from benchmarks.timing import Timing
from deploy.local.samples.adult import sample_table
from deploy.local.samples.synthetic_adult import synthetic_adult


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    made = synthetic_adult(600, rng=np.random.default_rng(1))
    return made.loc[:, [*okplof.NUMBERS, okplof.CATEGORY]].dropna().reset_index(drop=True)


@pytest.mark.slow  # it runs every detector
def test_every_detector_has_a_line_beside_the_papers(frame: pd.DataFrame) -> None:
    section = okplof.measure(frame, (100, 70), (1, 2), repeats=1, rows=2000)
    text = "\n".join(section.blocks)
    for name in okplof.detectors(100):
        assert text.count(f"| {name} | ") >= 3, name  # twice detection, once time
    for ours, peers in okplof.CLAIMED.items():
        assert all(f"{ours}, finds at least as much as {plain}, and is faster" in text for plain in peers)
    assert "| *OKPLOF (paper)* | 0.9 |  |" in text
    assert "| *OKPLOF (paper)* | 60.18 % |  |" in text
    assert "OKPLOF rates 2,000 records" in text
    assert set(section.plots) <= set(section.blocks)


def test_two_outliers_an_attribute_are_put_where_it_says(frame: pd.DataFrame) -> None:
    mixed, put = okplof.with_outliers(frame, (1.0, 2.0), np.random.default_rng(2))
    assert len(mixed) == len(frame) + 10
    assert len(put) == 10
    strange = mixed[okplof.CATEGORY].isin(set(frame[okplof.CATEGORY])).to_numpy() ^ True
    assert strange[put].sum() == strange.sum() == 2
    for name in okplof.NUMBERS:
        beyond = (mixed[name] > frame[name].max()).to_numpy()
        assert beyond[put].sum() == beyond.sum() == 2


@pytest.mark.parametrize(
    ("share", "draws", "word"), [(0.9, 5, "Holds"), (0.8, 5, "Does not hold"), (0.9, 4, "Undecided")]
)
def test_the_verdict_on_detection_follows_the_numbers(share: float, draws: int, word: str) -> None:
    found = {okplof.OKPLOF_20: {100: okplof.Found(detected=(share,) * draws, pruned=0.6)}}
    assert f"**{word}**: {okplof.OKPLOF_20} finds" in okplof.detection_verdicts(found, (100,))[0]


@pytest.mark.parametrize(("peer", "word"), [(3.1, "Holds"), (2.9, "Does not hold")])
def test_the_verdict_on_time_follows_the_numbers(peer: float, word: str) -> None:
    seconds = dict.fromkeys(okplof.detectors(100), 1.0)
    for name in (okplof.SKLEARN, okplof.SKLEARN_DISTINCT):
        seconds |= {f"{name}, {okplof.NEIGHBOURS} neighbours": peer, f"{name}, k neighbours": 9.0}
    times = {100: {name: Timing((s,), (s,)) for name, s in seconds.items()}}
    text = okplof.time_verdicts(times, (100,))[0]
    assert f"**{word}**: {okplof.OKPLOF_20}, is 3 times as fast as {okplof.SKLEARN}" in text


@pytest.mark.parametrize(
    ("ours", "seconds", "word"),
    [(0.8, 0.9, "Holds"), (0.7, 0.9, "Does not hold"), (0.8, 1.0, "Does not hold")],
)
def test_the_verdict_on_the_papers_claim_needs_both_halves(ours: float, seconds: float, word: str) -> None:
    found = {
        okplof.OKPLOF_20: {100: okplof.Found(detected=(ours,) * 5, pruned=0.6)},
        okplof.LOF_20: {100: okplof.Found(detected=(0.8,) * 5, pruned=0.0)},
    }
    times = {100: {okplof.OKPLOF_20: Timing((9.0,), (seconds,)), okplof.LOF_20: Timing((1.0,), (1.0,))}}
    line = okplof.claim_verdict(found, times, (100,), okplof.OKPLOF_20, okplof.LOF_20)
    assert f"**{word}**" in line  # CPU seconds count, not the wall's


@pytest.mark.parametrize(("share", "word"), [(0.61, "Holds"), (0.6, "Does not hold")])
def test_the_verdict_on_pruning_follows_the_numbers(share: float, word: str) -> None:
    one = {100: okplof.Found(detected=(1.0,) * 5, pruned=share)}
    text = okplof.pruning_verdicts({okplof.OKPLOF_20: one, okplof.OKPLOF_K: one}, (100,))[0]
    assert f"**{word}**: {okplof.OKPLOF_20} prunes" in text


@pytest.mark.slow  # it reads the public data set
@pytest.mark.needs_data
@pytest.mark.skipif("PRIVACY_DATA" not in os.environ, reason="PRIVACY_DATA does not name the data folder")
def test_on_adult_the_default_finds_as_much_as_lof_where_outliers_are_near() -> None:
    adult = sample_table()[0].dropna()[[*okplof.NUMBERS, okplof.CATEGORY]].reset_index(drop=True)
    for seed in range(1, 4):
        mixed, put = okplof.with_outliers(adult, okplof.NEAR, np.random.default_rng(seed))
        by = {
            name: d.detect(mixed, okplof.schema()).flags[put].mean()
            for name, d in okplof.detectors(100).items()
        }
        assert by[okplof.OKPLOF_20] >= by[okplof.LOF_20] >= by[okplof.SURVIVORS_20]


@pytest.mark.slow  # it reads the public data set
@pytest.mark.needs_data
@pytest.mark.skipif("PRIVACY_DATA" not in os.environ, reason="PRIVACY_DATA does not name the data folder")
@pytest.mark.parametrize("k", okplof.KS)
def test_on_adult_the_default_finds_at_least_the_papers_share(k: int) -> None:
    adult = sample_table()[0].dropna()[[*okplof.NUMBERS, okplof.CATEGORY]].reset_index(drop=True)
    shares = []
    for seed in range(1, 6):
        mixed, put = okplof.with_outliers(adult, okplof.EXTREME, np.random.default_rng(seed))
        found = okplof.detectors(k)[okplof.OKPLOF_20].detect(mixed, okplof.schema())
        assert found.count == okplof.REPORTED
        shares.append(found.flags[put].mean())
    assert np.mean(shares) >= okplof.PAPER[k].okplof
