"""What fragments cost: the loss of a table in a few fragments is near that of the whole."""

from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_engine import DataSchema, Hierarchy, load_method
from privacy_engine.engines.engine import Engine
from privacy_engine.fragments.figures import FragmentFigures
from privacy_engine.measures import utility
from tests.privacy_engine.fragments.tables import planned, released

HIERARCHIES = Path(__file__).parents[3] / "include" / "hierarchies" / "adult"
FIELDS = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [17, 90]},
    "education-num": {"role": "quasi_identifier", "kind": "ordinal", "bounds": [1, 16]},
    **{
        name: {"role": "quasi_identifier", "hierarchy": name}
        for name in ("workclass", "marital-status", "race", "sex", "native-country")
    },
    "occupation": {"role": "sensitive"},
}


@pytest.fixture(scope="module")
def adult() -> tuple[pd.DataFrame, DataSchema]:
    trees = {f.stem: Hierarchy.from_csv(f.read_text()) for f in sorted(HIERARCHIES.glob("*.csv"))}
    table = synthetic_adult(30_000, rng=np.random.default_rng(1))[list(FIELDS)]
    return table.dropna().reset_index(drop=True), DataSchema.from_dict(FIELDS, trees)


# Slow: few records do not have the clusters that the loss of the other two depends on.
# ILP-based: clusters of sensitive values are found in each fragment again. With four seeds of the plan it
# loses 4.3 to 5.9 % more than the whole; with `merge_weights="cluster"` 3.0 to 5.2 %.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("mondrian", 1.05),
        pytest.param("ilp_l_diversity", 1.065, marks=pytest.mark.slow),
        pytest.param("bottom_up", 1.05, marks=pytest.mark.slow),
    ],
)
def test_six_fragments_of_adult_lose_little_more_than_the_whole(
    name: str, most: float, adult: tuple[pd.DataFrame, DataSchema], engine: Engine, tmp_path: Path
) -> None:
    table, schema = adult
    method = load_method(name, k=10, l=3)
    # how many clusters of sensitive values are found, and so what is lost, is a matter of the seed
    seeds = (3,) if name == "mondrian" else (3, 4, 5)
    whole = [method.release(table, schema, np.random.default_rng(seed)).recoding for seed in seeds]
    together = released(planned(engine, tmp_path, table, method, schema, 6_500), table, method)
    figures = FragmentFigures.total(part.figures for part in together.parts)
    assert 5 <= together.plan.fragments <= 8
    assert figures.utility()["gcp"] <= most * fmean(map(utility.gcp, whole))
