"""The benchmark of OBPA on a few hundred records: it runs, and its judgements follow the numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.papers import obpa
from deploy.local.samples.synthetic_adult import synthetic_adult


@pytest.mark.slow  # it runs every method
def test_every_method_has_a_line_in_both_models() -> None:
    frame = synthetic_adult(400, rng=np.random.default_rng(1))
    section = obpa.run(
        tables.of_frame(frame, "generated"), frame=frame, ks=(16,), table_3_ks=(4,), gcp_ks=(5,), seeds=(1,)
    )
    text = "\n".join(section.blocks)
    for name in obpa.METHODS:
        assert re.search(rf"^\| {re.escape(name)} \| [\d,]+ \| ", text, re.MULTILINE), name
    for name in obpa.GCP_METHODS:
        assert re.search(rf"^\| {re.escape(name)} \| 0\.\d+ \|$", text, re.MULTILINE), name
    assert set(section.plots) == {"obpa_cells"}


RESULT = obpa.Result(cells=50_000, of={"age": 100.0}, cpu=1.0)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (50_000, ["Holds", "Holds", "Holds"]),
        (60_000, ["Holds", "Does not hold", "Does not hold"]),
        (80_000, ["Does not hold"] * 3),
    ],
)
def test_judgements_of_suppressed_cells_follow_the_numbers(cells: float, words: list[str]) -> None:
    measured = {
        obpa.OBPA: {16: replace(RESULT, cells=cells)},
        obpa.PLAIN: {16: RESULT},
        obpa.DSAED: {16: replace(RESULT, cells=55_000)},
    }
    assert [re.findall(r"\*\*(.*)\*\*", line)[0] for line in obpa.verdicts(measured)[:3]] == words
    measured[obpa.OBPA] = {16: replace(RESULT, cells=cells, runs=2)}  # of two seeds
    assert all("**Undecided**" in line for line in obpa.verdicts(measured)[:3])


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (100.0, 99.0, "Holds"),
        (100.0, 100.0, "Does not hold"),
        (0.0, 1.0, "Does not hold"),
        (400.0, 400.0, "Does not hold"),  # wholly suppressed: nothing shows it, and the line says so
    ],
)
def test_the_judgement_of_a_weight_follows_the_numbers(before: float, after: float, word: str) -> None:
    equal, doubled = ({16: replace(RESULT, of={"age": cells})} for cells in (before, after))
    line = obpa.weight_verdict("age", "doubling it", equal, doubled, 400)
    assert f"**{word}**" in line
    assert ("suppressed whole at k = 16" in line) == (before == 400)
