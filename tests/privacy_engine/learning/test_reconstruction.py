"""The tables that analysts read."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.learning.reconstruction import reconstructed_distributions, reconstructed_moments
from privacy_engine.randomizers.errph import ERRPH
from privacy_engine.randomizers.local_laplace import LocalLaplace
from privacy_engine.randomizers.trr import TRR
from tests.privacy_engine.learning.tables import SCHEMA, people


@pytest.mark.parametrize("method", [ERRPH(p_0=0.4), TRR(), LocalLaplace(epsilon=6.0)], ids=lambda m: m.key)
def test_reconstructions_lie_within_their_stated_errors(method) -> None:
    # Within 7.5 standard errors, whose own estimate may be off by 5 %: false alarm < 1e-11 a figure.
    source = people(30_000)
    release = method.release(source, SCHEMA, np.random.default_rng())
    shares = reconstructed_distributions(release.table, release.manifest()).set_index(["attribute", "value"])
    for name in ("city", "kind"):
        true = source[name].value_counts(normalize=True)
        found = shares.loc[name].loc[true.index]
        assert found["share"].sum() == pytest.approx(1)
        assert (abs(found["share"] - true) < 7.5 * found["randomization_error"]).all()
    wage = reconstructed_moments(release.table, release.manifest()).set_index("attribute").loc["wage"]
    binned = (100 / 16) ** 2 / 12 if method.key == "errph" else 0.1  # moved to the nearest point
    assert abs(wage["mean"] - source["wage"].mean()) < 7.5 * wage["mean_error"]
    assert abs(wage["variance"] - source["wage"].var()) < 7.5 * wage["variance_error"] + binned
    assert wage["breach_width_95"] == pytest.approx(3.92 * wage["variance"] ** 0.5, rel=1e-3)


def test_a_null_is_a_value_of_the_distribution() -> None:
    fields = SCHEMA.to_dict()
    schema = SCHEMA.from_dict({"kind": {**fields["kind"], "nullable": True}})
    source = people(2000)[["kind"]]
    source.loc[:499, "kind"] = None
    release = ERRPH(p_0=0.9).release(source, schema, np.random.default_rng())
    found = reconstructed_distributions(release.table, release.manifest())
    assert found["value"].isna().tolist() == [False, False, True]
    assert found["share"].iloc[2] == pytest.approx(0.25, abs=0.07)  # 7 standard errors


def test_a_release_that_was_not_randomized_is_refused() -> None:
    with pytest.raises(ValueError, match="randomized release"):
        reconstructed_distributions(pd.DataFrame(), {})
