"""Whole numbers beyond 2**53 and decimals, from Parquet to verified bytes: no digit is lost on the way."""

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine

ROWS = 2_400
FIRST = 2**60
SCHEMA = DataSchema.from_dict(
    {
        "account": {"role": "quasi_identifier", "kind": "numeric"},
        "place": {"role": "insensitive", "kind": "numeric", "unique": {"allow": "to find records again"}},
        "paid": {"role": "quasi_identifier", "kind": "numeric"},
        "code": {"role": "sensitive", "kind": "numeric"},
    }
)


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    cents = [Decimal(f"1.{i:020d}") for i in rng.integers(0, 500, ROWS)]
    return pa.table(
        {
            "account": pa.array(FIRST + rng.integers(0, 1_000, ROWS), pa.int64()),
            "place": pa.array(range(ROWS), pa.int64()),
            "paid": pa.array(cents, pa.decimal128(30, 20)),
            "code": pa.array([2**63 + i for i in rng.integers(0, 5, ROWS).tolist()], pa.uint64()),
        }
    )


def covers(row: dict[str, Any], name: str, value: object) -> bool:
    if name in row:
        ends = re.fullmatch(r"\[(\S+), (\S+)\]", row[name])
        low, high = (ends[1], ends[2]) if ends else (row[name], row[name])
    else:
        low, high = row[f"{name}_from"], row[f"{name}_to"]
    return Decimal(str(low)) <= Decimal(str(value)) <= Decimal(str(high))


@pytest.mark.parametrize(
    ("kind", "intervals"), [("local", "text"), ("local", "bounds"), ("fragments", "bounds")]
)
def test_released_numbers_cover_the_source_to_the_last_digit(
    kind: str, intervals: str, work: WorkArea, tmp_path: Any
) -> None:
    source = table()
    pq.write_table(source, tmp_path / "source.parquet")
    fields = {"kind": kind, "rows": 1_000, "memory": "1GB", "processes": 1}
    engine = None if kind == "local" else read_engine(fields)
    ingested = privacy_release.ingest(str(tmp_path / "source.parquet"), SCHEMA, work, engine=engine)
    assert pq.read_table(ingested.uri).equals(source)
    staged = privacy_release.make_release(
        ingested, work, method="mondrian", parameters={"k": 5, "l": 3, "intervals": intervals}, seed=1
    )
    released = pq.read_table(staged.uri).to_pylist()
    whole = source.to_pylist()
    assert all(
        covers(row, name, whole[row["place"]][name]) for row in released for name in ("account", "paid")
    )
    assert all(row["code"] == whole[row["place"]]["code"] for row in released)
    if intervals == "bounds":
        types = pq.read_schema(staged.uri)
        assert types.field("account_to").type == pa.int64()
        assert types.field("paid_from").type == pa.decimal128(30, 20)
        assert min(row["account_from"] for row in released) >= FIRST
        assert max(row["account_to"] for row in released) < FIRST + 1_000
    policy = ReleasePolicy(require=(KAnonymity(k=5), DistinctLDiversity(l=3)))
    assert privacy_release.verify_staged(staged, policy).passed
