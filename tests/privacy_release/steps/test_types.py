"""Types of a release are predicted from schema and source, and compared with its table before the work."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine import load_method, method_names
from privacy_engine.engines.frames import to_arrow
from privacy_engine.errors import SchemaError
from privacy_engine.registry import is_anonymizer
from privacy_engine.tables.schema import DataSchema
from privacy_release.lake.store import Lake
from privacy_release.sources.reading import Nulls
from privacy_release.spec.files import load_policy
from privacy_release.steps.types import check_kept_types, kept_types, made_types
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import Table
from tests.contract.tables import QUICK

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "cost": {"role": "insensitive", "kind": "numeric"},
        "ill": {"role": "sensitive"},
    }
)
PUBLIC = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "cost": {"role": "insensitive", "kind": "numeric", "bounds": [0, 30]},
        "ill": {"role": "sensitive", "categories": ["flu", "cold", "gout", "none"]},
    }
)
POLICY = load_policy({"require": [{"model": "k_anonymity", "k": 5}]})
KINDS = (pa.int64(), pa.int16(), pa.uint32(), pa.float64(), pa.float32(), pa.decimal128(9, 2))


def ingested(
    folder: Path,
    work: WorkArea,
    kind: pa.DataType,
    *,
    gap: bool = False,
    schema: DataSchema = SCHEMA,
    nulls: Nulls = "keep",
) -> Table:
    """Ingest people whose `age` and `cost` have a type; with a gap, one cost is null."""
    rng = np.random.default_rng(1)
    number = {pa.decimal128(9, 2): Decimal, pa.float64(): float, pa.float32(): float}.get(kind, int)
    age, cost = (list(map(number, rng.integers(*ends, 40).tolist())) for ends in ((18, 80), (0, 30)))
    people = {
        "age": pa.array(age, kind),
        "cost": pa.array([None, *cost[1:]] if gap else cost, kind),
        "ill": rng.choice(["flu", "cold", "gout", "none"], 40),
    }
    pq.write_table(pa.table(people), folder / "people.parquet")
    return privacy_release.ingest(str(folder / "people.parquet"), schema, work, nulls=nulls)


def stage(table: Table, work: WorkArea, **parameters: Any) -> Any:
    given = {"k": 5, **parameters}
    return privacy_release.make_release(table, work, method="mondrian", parameters=given, seed=1)


@pytest.mark.quick(  # each of two types, with and without a gap, in each form
    "int64-False-bounds", "int64-True-text", "decimal128(9, 2)-True-bounds", "decimal128(9, 2)-False-text"
)
@pytest.mark.parametrize("intervals", ["bounds", "text"])
@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_anonymized_release_has_the_types_that_were_predicted(
    kind: pa.DataType, gap: bool, intervals: str, tmp_path: Path, work: WorkArea, lake: Lake
) -> None:
    table = ingested(tmp_path, work, kind, gap=gap)
    staged = stage(table, work, intervals=intervals)
    privacy_release.publish_staged(
        staged, privacy_release.verify_staged(staged, POLICY), lake.table("people"), "1"
    )
    predicted, kept = (
        made_types(table, "mondrian", {"intervals": intervals}),
        kept_types(lake.table("people")),
    )
    assert predicted.keys() == ({"age_from", "age_to", "cost"} if intervals == "bounds" else {"cost"})
    assert predicted == {name: kept[name] for name in predicted}
    check_kept_types(table, "mondrian", {"intervals": intervals}, lake.table("people"))


@pytest.mark.quick("double")  # a gap and whole numbers are compared below
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()], ids=str)
@pytest.mark.parametrize("name", [name for name in method_names() if is_anonymizer(name)])
def test_every_anonymizer_keeps_the_predicted_types(
    name: str, kind: pa.DataType, tmp_path: Path, work: WorkArea
) -> None:
    table = ingested(tmp_path, work, kind, gap=True)
    parameters = {"k": 5, **QUICK.get(name, {})}
    staged = privacy_release.make_release(table, work, method=name, parameters=parameters, seed=1)
    types = {field.name: str(field.type) for field in pq.read_schema(staged.uri)}
    predicted = made_types(table, name, parameters)
    assert predicted.keys() == {"age_from", "age_to", "cost"}
    assert predicted == {column: types[column] for column in predicted}


@pytest.mark.quick("int16", "decimal128(9, 2)", "double")  # a type of each kind
@pytest.mark.parametrize("nulls", ["keep", "fail"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_drawn_records_have_the_types_that_were_predicted(
    kind: pa.DataType, nulls: Nulls, tmp_path: Path, work: WorkArea
) -> None:
    table = ingested(tmp_path, work, kind, schema=PUBLIC, nulls=nulls)
    schema = table.read_schema()
    method = load_method("latent_class", epsilon=1.0, classes=2, fits=1)
    made = method.release(table.typed_frame(schema), schema, np.random.default_rng(1))
    types = {field.name: str(field.type) for field in to_arrow(made.table).schema}
    predicted = made_types(table, "latent_class", {})
    assert predicted == {name: types[name] for name in ("age", "cost")}


def test_another_type_is_refused_before_the_release_and_none_where_there_is_no_table(
    tmp_path: Path, work: WorkArea, lake: Lake
) -> None:
    staged = stage(table := ingested(tmp_path, work, pa.int64()), work)
    check_kept_types(table, "mondrian", {}, lake.table("people"))
    privacy_release.publish_staged(
        staged, privacy_release.verify_staged(staged, POLICY), lake.table("people"), "1"
    )
    other = ingested(tmp_path, work, pa.float64(), gap=True)
    text = r"got age_from \(int64 in the table, double here\), .*cost \(int64 in the table, double here\)"
    with pytest.raises(SchemaError, match=text):
        check_kept_types(other, "mondrian", {}, lake.table("people"))
    check_kept_types(other, "mondrian", {}, lake.table("another"))
    assert made_types(other, "trr", {}) == {}
