"""DSAED: clusters are cut by themselves, in the order of the table."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, EncodedTable, load_method
from privacy_engine.anonymizers.dsaed import cut_clusters
from privacy_engine.measures.utility import suppressed_cells

SCHEMA = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric"}})


@pytest.mark.parametrize(
    ("clusters", "k", "labels"),
    [
        ([0, 1, 0, 1, 0, 1, 0], 2, [0, 2, 0, 2, 1, 2, 1]),
        ([0, 0, -1, -1, 1], 2, [1, 1, 0, 0, 0]),  # a cluster of one is cut with the noise
        ([0, 0, -1], 2, [0, 0, -1]),  # a single noisy record waits for its assignment
        ([0, 1, 2, -1], 2, [0, 0, 1, 1]),  # no cluster is large enough
    ],
)
def test_clusters_are_cut_in_the_order_of_their_records(
    clusters: list[int], k: int, labels: list[int]
) -> None:
    assert cut_clusters(np.array(clusters), k).tolist() == labels


def test_dense_places_are_not_mixed() -> None:
    frame = pd.DataFrame({"age": [*range(10, 20), *range(70, 80), 45]})
    encoded = EncodedTable.encode(frame, SCHEMA)
    recoding = load_method("dsaed", k=4, min_samples=2).anonymize(encoded, np.random.default_rng(1))
    ages = encoded.table["age"].to_numpy()
    assert not set(recoding.labels[ages < 20]) & set(recoding.labels[ages >= 70])
    assert recoding.sizes.min() >= 4
    assert recoding.suppressed == 0


def test_obpa_loses_less() -> None:
    rng = np.random.default_rng(2)
    schema = DataSchema.from_dict({name: {"role": "quasi_identifier"} for name in "abc"})
    frame = pd.DataFrame({name: rng.choice(list("xyzuvw"), 600) for name in "abc"})
    encoded = EncodedTable.encode(frame, schema)
    obpa, dsaed = (
        suppressed_cells(
            load_method(name, k=8, model="suppression").anonymize(encoded, np.random.default_rng(1))
        )
        for name in ("obpa", "dsaed")
    )
    assert obpa < dsaed


@pytest.mark.parametrize("bad", [{"min_samples": 0}, {"eps_quantile": 1.5}, {"model": "none"}])
def test_a_bad_parameter_is_refused_at_construction(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
        load_method("dsaed", **bad)
