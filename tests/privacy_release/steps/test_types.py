"""Types of a release are foretold from schema and source, and compared with its table before the work."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.lake.store import Lake
from privacy_release.spec.files import load_policy
from privacy_release.steps.types import kept_types, made_types, require_kept_types
from privacy_release.work.area import WorkArea
from privacy_release.work.references import TableRef

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "cost": {"role": "insensitive", "kind": "numeric"},
        "ill": {"role": "sensitive"},
    }
)
POLICY = load_policy({"require": [{"model": "k_anonymity", "k": 5}]})
KINDS = (pa.int64(), pa.int16(), pa.uint32(), pa.float64(), pa.float32(), pa.decimal128(9, 2))


def ingested(folder: Path, work: WorkArea, kind: pa.DataType, *, gap: bool = False) -> TableRef:
    """People with a column `cost` of a type, and one null in it."""
    rng = np.random.default_rng(1)
    cost = pa.array(rng.integers(0, 30, 40).tolist()).cast(kind)
    if gap:
        cost = pa.array([None, *cost.to_pylist()[1:]], kind)
    people = {
        "age": pa.array(rng.integers(18, 80, 40).tolist()).cast(kind),
        "cost": cost,
        "ill": rng.choice(["flu", "cold"], 40),
    }
    pq.write_table(pa.table(people), folder / "people.parquet")
    return privacy_release.ingest(str(folder / "people.parquet"), SCHEMA, work, nulls="keep")


def stage(table: TableRef, work: WorkArea, **parameters: Any) -> Any:
    given = {"k": 5, **parameters}
    return privacy_release.make_release(table, work, method="mondrian", parameters=given, seed=1)


@pytest.mark.parametrize("intervals", ["bounds", "text"])
@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_anonymized_release_has_the_types_that_were_foretold(
    kind: pa.DataType, gap: bool, intervals: str, tmp_path: Path, work: WorkArea, lake: Lake
) -> None:
    table = ingested(tmp_path, work, kind, gap=gap)
    staged = stage(table, work, intervals=intervals)
    privacy_release.publish_staged(staged, privacy_release.verify_staged(staged, POLICY), lake, "people", "1")
    foretold, kept = made_types(table, "mondrian", {"intervals": intervals}), kept_types(lake, "people")
    assert foretold.keys() == ({"age_from", "age_to", "cost"} if intervals == "bounds" else {"cost"})
    assert foretold == {name: kept[name] for name in foretold}
    require_kept_types(table, "mondrian", {"intervals": intervals}, lake, "people")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_drawn_records_have_the_types_that_were_foretold(
    kind: pa.DataType, tmp_path: Path, work: WorkArea
) -> None:
    from privacy_engine import load_method
    from privacy_engine.engines.frames import to_arrow, to_frame

    table = ingested(tmp_path, work, kind)
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
            "cost": {"role": "insensitive", "kind": "numeric", "bounds": [0, 30]},
            "ill": {"role": "sensitive", "categories": ["flu", "cold"]},
        }
    )
    method = load_method("latent_class", epsilon=1.0, classes=2, fits=1)
    made = method.release(to_frame(pq.read_table(table["uri"])), schema, np.random.default_rng(1))
    types = {field.name: str(field.type) for field in to_arrow(made.table).schema}
    foretold = made_types(table, "latent_class", {})
    assert foretold == {name: types[name] for name in ("age", "cost")}


def test_another_type_is_refused_before_the_release_and_none_where_there_is_no_table(
    tmp_path: Path, work: WorkArea, lake: Lake
) -> None:
    staged = stage(table := ingested(tmp_path, work, pa.int64()), work)
    require_kept_types(table, "mondrian", {}, lake, "people")
    privacy_release.publish_staged(staged, privacy_release.verify_staged(staged, POLICY), lake, "people", "1")
    other = ingested(tmp_path, work, pa.float64(), gap=True)
    told = r"got age_from \(int64 in the table, double here\), .*cost \(int64 in the table, double here\)"
    with pytest.raises(SchemaError, match=told):
        require_kept_types(other, "mondrian", {}, lake, "people")
    require_kept_types(other, "mondrian", {}, lake, "another")
    assert made_types(other, "trr", {}) == {}
