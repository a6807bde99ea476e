"""The file of replicates of a wide table, whose parts have separate classes."""

import io

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from privacy_engine.registry import load_method
from privacy_engine.tables.schema import DataSchema
from privacy_release.lake.replicates import replicates_file
from privacy_release.query.intervals import PublishedModel
from privacy_release.query.questions import question_from

SCHEMA = DataSchema.from_dict({f"a{i:02}": {"categories": ["0", "1"]} for i in range(36)})


def test_attributes_of_different_parts_are_answered_as_the_network_does() -> None:
    """Blocks of three attributes. At this epsilon noise connects no others, in any of many runs."""
    rng = np.random.default_rng(1)
    blocks = np.repeat(rng.integers(0, 2, (12, 2_000)), 3, axis=0)
    codes = blocks ^ (rng.random(blocks.shape) < 0.1)
    table = pd.DataFrame({name: row.astype(str) for name, row in zip(SCHEMA.names, codes, strict=True)})
    method = load_method("latent_class", epsilon=1e4, classes=2, fits=1, rules=0, replicates=2)
    model = method.measure(table, SCHEMA)
    assert model.replicates is not None
    assert len(model.replicates.parts) == 11
    data = replicates_file(model, SCHEMA)
    assert data is not None
    classes = pq.read_table(io.BytesIO(data)).select(["attribute", "class"]).to_pandas()
    of = [set(classes.loc[classes["attribute"] == name, "class"]) for name in ("a00", "a01", "a03")]
    assert of[0] == of[1]
    assert not of[0] & of[2]  # so that a join by class never mixes parts
    names = ["a00", "a01", "a03"]
    answers = PublishedModel.read(data).answer(question_from("share", None, tuple(names), ()), 0.95)
    expected = model.network.marginal(names)
    assert len(answers) == 8
    for group, (cell,) in answers:
        assert cell.value == pytest.approx(expected[tuple(int(str(v)) for v in group)], abs=1e-4)
        assert cell.low <= cell.value <= cell.high
