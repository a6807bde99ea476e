"""Columns with nearly one value a record or a person: the estimate, and what is named and what is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.uniqueness import DistinctValues

AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
TEXT = {"role": "insensitive", "kind": "categorical"}


def copied(folder: Path, fields: dict[str, Any], **columns: Any) -> Copied:
    rows = len(next(iter(columns.values())))
    pq.write_table(pa.table({"age": [30] * rows, **columns}), folder / "source.parquet", row_group_size=40)
    source, schema = find_source(str(folder / "source.parquet")), DataSchema.from_dict({"age": AGE, **fields})
    return copy_source(source, schema, folder / "copy.parquet")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=30), max_size=8))
def test_few_values_are_counted_exactly_in_whatever_parts(parts: list[list[int]]) -> None:
    found = DistinctValues(kept=400)
    for part in parts:
        found.add(np.array(part, np.uint64))
    assert found.number == len({value for part in parts for value in part})


def test_many_values_are_counted_within_one_percent() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(0, 2**64, 1_000_000, dtype=np.uint64)
    found = DistinctValues()
    for part in np.array_split(np.concatenate([values, values[:500_000]]), 12):
        found.add(part)
    # The standard error is 0.4 %: a false alarm once in a hundred draws, and the draw is fixed.
    assert found.number == pytest.approx(1_000_000, rel=0.01)


@pytest.mark.parametrize(
    ("values", "kind"),
    [([f"canary-{i}" for i in range(100)], "categorical"), (list(range(5_000, 5_100)), "numeric")],
    ids=["text", "whole numbers"],
)
def test_one_value_a_record_is_named_and_not_shown(tmp_path: Path, values: list[Any], kind: str) -> None:
    fields = {"order": {"role": "insensitive", "kind": kind}}
    with pytest.raises(SchemaError, match="order: about 100 different values in 100 records") as caught:
        copied(tmp_path, fields, order=values)
    assert "canary" not in str(caught.value)
    assert "5,0" not in str(caught.value)
    assert not (tmp_path / "copy.parquet").exists()
    fields["order"]["unique"] = {"allow": "numbers drawn for this table"}
    assert "unique" in copied(tmp_path, fields, order=values).schema["order"].to_dict()


ACCOUNTS = [None, *(10_000_000 + 7919 * i for i in range(99))]


@pytest.mark.parametrize(
    "type_", [pa.float64(), pa.float32(), pa.decimal128(19, 0), pa.decimal128(21, 2), pa.int64()], ids=str
)
def test_whole_numbers_are_judged_whatever_type_a_missing_one_gave_them(
    tmp_path: Path, type_: pa.DataType
) -> None:
    account = {"account": {"role": "insensitive", "kind": "numeric"}}
    with pytest.raises(SchemaError, match="account: about 99 different values in 99 records"):
        copied(tmp_path, account, account=pa.array(ACCOUNTS).cast(type_, safe=False))


def test_a_nan_among_whole_numbers_is_no_fraction(tmp_path: Path) -> None:
    numbers = pa.array([float("nan"), *map(float, range(99))])
    with pytest.raises(SchemaError, match="account: about"):
        copied(tmp_path, {"account": {"role": "insensitive", "kind": "numeric"}}, account=numbers)


@pytest.mark.parametrize("at", [0, 99], ids=["in the first part", "in the last part"])
@pytest.mark.parametrize("type_", [pa.float64(), pa.decimal128(19, 2)], ids=str)
def test_numbers_with_a_fraction_are_measured_values(tmp_path: Path, type_: pa.DataType, at: int) -> None:
    weights = [float(i) for i in range(100)]
    weights[at] += 0.5
    fields = {"weight": {"role": "insensitive", "kind": "numeric"}}
    assert copied(tmp_path, fields, weight=pa.array(weights).cast(type_)).rows == 100


@pytest.mark.parametrize(
    "values",
    [
        [f"v{i % 89}" for i in range(100)],
        [f"v{i}" for i in range(49)],
        [f"v{i}" for i in range(49)] + [None] * 51,
        [i / 7 for i in range(100)],
    ],
    ids=["below the share", "too few", "too few that are known", "measurements"],
)
def test_what_is_not_nearly_unique_goes_through(tmp_path: Path, values: list[Any]) -> None:
    kind = "numeric" if isinstance(values[0], float) else "categorical"
    copied(tmp_path, {"v": {"role": "insensitive", "kind": kind}}, v=values)


def test_a_value_that_nearly_always_stands_for_one_person_links_their_records(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"patient": {"role": "identifier"}, "v": TEXT, "person": "patient"}
    patient = [f"p{i % 60}" for i in range(300)]
    with pytest.raises(SchemaError, match="v: about 60 different values, nearly each of only one person"):
        copied(tmp_path, fields, patient=patient, v=[f"account {p}" for p in patient])
    accounts = [f"{p}-{i % 3}" for i, p in enumerate(patient)]
    with pytest.raises(SchemaError, match="nearly each of only one person"):
        copied(tmp_path, fields, patient=patient, v=accounts)
    latitude = {**fields, "v": {"role": "insensitive", "kind": "numeric"}}
    with pytest.raises(SchemaError, match="v: about 60 different values"):
        copied(tmp_path, latitude, patient=patient, v=[int(p[1:]) / 7 for p in patient])


def test_values_that_persons_share_link_no_one(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"patient": {"role": "identifier"}, "v": TEXT, "person": "patient"}
    patient = [f"p{i % 60}" for i in range(300)]
    copied(
        tmp_path,
        fields,
        patient=patient,
        v=[f"ward {i % 7 + int(p[1:]) % 20}" for i, p in enumerate(patient)],
    )
    copied(tmp_path, fields, patient=patient, v=[f"v{(i * 7) % 100}" for i in range(300)])
