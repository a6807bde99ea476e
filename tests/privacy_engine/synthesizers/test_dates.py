"""Dates by differentially private synthesizers: in public bins, typed, and no more exact than is stated."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from privacy_engine import DataSchema, SchemaError, load_method
from privacy_engine.engines.frames import to_arrow
from privacy_engine.engines.local import LocalEngine
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.synthesizers.measuring import coded_files
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.tables.domains import CodedTable
from tests.contract.tables import QUICK, family
from tests.dated import FIELDS, stays

BOUNDS = ["2019-01-01", "2021-12-31"]
PUBLIC = {
    "born": FIELDS["born"] | {"bin": "decade"},
    "seen": FIELDS["seen"] | {"bounds": BOUNDS, "bins": 6},
    "died": FIELDS["died"] | {"bounds": BOUNDS},
    "illness": FIELDS["illness"] | {"categories": ["flu", "cold", "gout", "none"]},
}
SCHEMA = DataSchema.from_dict(PUBLIC)


@pytest.mark.parametrize("name", family(Synthesizer))
def test_drawn_dates_are_typed_in_bounds_and_as_exact_as_stated(name: str) -> None:
    table = stays(300)[list(PUBLIC)]
    release = load_method(name, **QUICK.get(name, {})).release(table, SCHEMA, np.random.default_rng(7))
    SCHEMA.check(release.table)
    pd.testing.assert_frame_equal(release.table, SCHEMA.normalized(release.table))
    assert release.table.dtypes.astype(str).tolist()[:3] == [
        "date32[day][pyarrow]",
        "datetime64[us]",
        "date32[day][pyarrow]",
    ]
    assert SynthesizerModel.from_json(release.model.to_json()) == release.model


def test_dates_in_files_are_encoded_as_in_memory(tmp_path: Path) -> None:
    table = SCHEMA.normalized(stays(300)[list(PUBLIC)]).reset_index(drop=True)
    pq.write_table(to_arrow(table), tmp_path / "table.parquet")
    with LocalEngine(memory=10**8, spill=tmp_path) as engine:
        found = coded_files(engine, [str(tmp_path / "table.parquet")], SCHEMA)
    expected = CodedTable.encode(table, SCHEMA)
    assert found.sizes == expected.sizes == (9, 6, 12, 4)
    assert found.weights is not None
    counted = np.repeat(found.codes, found.weights, axis=1)
    assert sorted(map(tuple, counted.T.tolist())) == sorted(map(tuple, expected.codes.T.tolist()))


def test_a_date_without_bounds_has_no_public_domain() -> None:
    schema = DataSchema.from_dict(PUBLIC | {"died": FIELDS["died"]})
    with pytest.raises(SchemaError, match=r"\['died'\] have no public domain"):
        load_method("privbayes").release(stays()[list(PUBLIC)], schema, np.random.default_rng(7))


@pytest.mark.parametrize("name", family(Randomizer))
def test_random_answers_refuse_dates_by_name_and_release_others_cut(name: str) -> None:
    method = load_method(name)
    with pytest.raises(SchemaError, match=r"\['born', 'seen', 'died'\] are dates.*synthesizer"):
        method.release(stays()[list(PUBLIC)], SCHEMA, np.random.default_rng(7))
    fields = {"illness": PUBLIC["illness"], "paid": FIELDS["paid"]}
    release = method.release(stays()[list(fields)], DataSchema.from_dict(fields), np.random.default_rng(7))
    assert {day.day for day in release.table["paid"]} == {1}
