"""Merge, repair, refine: over the whole table and in blocks the same promises are kept."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.anonymizers.local_recoding import LocalRecoding, inside_blocks
from privacy_engine.measures.recoding import Recoding
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.agglomeration import agglomerate
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, PrivacyModel, TCloseness, holds

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "zip": {"role": "quasi_identifier", "categories": list("abcdefgh")},
        "disease": {"role": "sensitive"},
    }
)


@pytest.fixture(scope="module")
def encoded() -> EncodedTable:
    rng = np.random.default_rng(5)
    n = 600
    columns = {
        "age": rng.integers(0, 101, n),
        "zip": rng.choice(list("abcdefgh"), n),
        "disease": rng.choice(list("xyz"), n, p=[0.6, 0.3, 0.1]),
    }
    return EncodedTable.encode(pd.DataFrame(columns), SCHEMA)


def recoded(encoded: EncodedTable, models: tuple[PrivacyModel, ...], *, block_size: int | None) -> np.ndarray:
    geometry = encoded.geometry()
    recode = LocalRecoding(geometry=geometry, models=models, k=5, block_size=block_size)
    return recode.labels(
        encoded,
        lambda part, rng, search: agglomerate(part.codes, geometry, 5, rng, search=search),
        np.random.default_rng(1),
    )


@pytest.mark.parametrize("block_size", [None, 100])
@pytest.mark.parametrize("model", [DistinctLDiversity(l=3), TCloseness(t=0.2)], ids=lambda m: m.name)
def test_every_class_keeps_k_and_the_model(
    encoded: EncodedTable, model: PrivacyModel, block_size: int | None
) -> None:
    labels = recoded(encoded, (model,), block_size=block_size)
    classes = encoded.classes_of(labels)
    assert holds(KAnonymity(k=5), classes)
    assert holds(model, classes)
    assert (labels >= 0).all()


def test_blocks_cost_little_loss(encoded: EncodedTable) -> None:
    whole, parts = (
        gcp(Recoding.of_labels(encoded, recoded(encoded, (), block_size=size))) for size in (None, 100)
    )
    assert parts < 1.5 * whole


def test_blocks_do_not_depend_on_the_number_of_threads(encoded: EncodedTable) -> None:
    import numba

    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = recoded(encoded, (DistinctLDiversity(l=2),), block_size=100)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(alone, recoded(encoded, (DistinctLDiversity(l=2),), block_size=100))


def test_no_class_crosses_a_block() -> None:
    block = np.array([1, 0, 1, 0, 1, 1])
    labels = inside_blocks(block, np.random.default_rng(0), lambda rows, _: np.arange(len(rows)) // 2)
    assert labels.tolist() == [1, 0, 1, 0, 2, 2]


def test_suppressed_records_of_a_block_stay_suppressed() -> None:
    labels = inside_blocks(
        np.array([0, 0, 1, 1]), np.random.default_rng(0), lambda rows, _: np.array([-1, 0])
    )
    assert labels.tolist() == [-1, 0, -1, 1]
