"""Generated tables with nominal attributes of many values, and what LatentClass keeps of them."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.peers import dp_nominal
from privacy_engine.measures.synthetic_utility import coded


@pytest.mark.parametrize(
    "form", ["500 codes and their region", "2,000 ZIP codes, declared", "200 x 200 values, near"]
)
def test_a_form_is_the_same_each_time_and_fits_its_schema(form: str) -> None:
    make, large, figure = dp_nominal.FORMS[form]
    first, again, other = (make(np.random.default_rng(seed)) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert not first.frame.equals(other.frame)
    table = coded(first.frame, first.schema)
    assert dp_nominal.pair_distance(table, table.codes, large) == 0
    rng = np.random.default_rng(3)
    shuffled = np.stack([rng.permutation(column) for column in table.codes])
    assert dp_nominal.pair_distance(table, shuffled, large) > 0.2
    released = first.frame if "region" in first.frame else first.frame.astype(int)
    assert figure(first, released) == (0 if "region" in first.frame else pytest.approx(0.9, abs=0.02))


def test_a_record_whose_region_is_another_one_is_broken() -> None:
    made = dp_nominal.codes_of_500(np.random.default_rng(1))
    released = made.frame.assign(region=((made.codes["region"] + 1) % 10).astype(str))
    assert dp_nominal.broken(made, released) == 1


@pytest.mark.slow  # releases of 30,000 records: only at their size noise is as small as in the regimes
@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize(
    ("form", "most_broken", "least_correlation"),
    [
        ("500 codes and their region", 0.02, None),
        ("20,000 ZIP codes, declared", 0.0, None),
        ("200 x 200 values, copied", None, 0.75),
    ],
)
def test_dependences_of_large_attributes_are_kept(
    form: str, most_broken: float | None, least_correlation: float | None, delta: float
) -> None:
    """Limits are ten standard deviations from the means of a dozen runs: .003 (.001) and .866 (.010).

    A declared region is missed only if a count of exceptions is 17 scales of its noise too high.
    """
    run = dp_nominal.measured(form, dp_nominal.REPORTED, epsilon=1.6, delta=delta)
    assert run.ours < run.columns
    if most_broken is not None:
        assert run.figure <= most_broken
    if least_correlation is not None:
        assert run.figure >= least_correlation
