"""The benchmark of releases that cannot be subtracted, on two hundred persons."""

import numpy as np

from benchmarks.scale.years import incremental
from benchmarks.tables import of_frame
from deploy.local.samples.synthetic_adult import synthetic_adult


def test_a_short_year_holds_and_says_what_it_costs() -> None:
    table = of_frame(synthetic_adult(1_000, rng=np.random.default_rng(1)), "made")
    section = incremental.run(
        table, cases=[(0.05, 2, 1.0)], unique=[(0.05, "unknown", 3, 1.0)], persons=200, weeks=3, sizes=()
    )
    text = "\n".join(section.blocks)
    assert "**Holds**: no value is certain by subtraction" in text
    assert "**Holds**: every person is left with k = 5 at least" in text
    row, unique = (line for line in text.split("\n") if line.startswith("| 5% "))
    assert row.count("%") == 7
    assert "**Holds**: no value is certain by subtraction from m-unique classes" in text
    assert "**Holds**: m-unique classes leave every person k persons (3)" in text
    assert unique.count("%") == 5
