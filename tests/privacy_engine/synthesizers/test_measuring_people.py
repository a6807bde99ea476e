"""Tables of many rows a person that are measured without being loaded: as in memory, person by person."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import DataSchema, SchemaError, load_method
from privacy_engine.engines import local
from privacy_engine.engines.coded_counts import whole_runs
from privacy_engine.engines.frames import to_arrow
from privacy_engine.engines.local import LocalEngine
from privacy_engine.engines.parquet import batches
from privacy_engine.errors import CapacityError, IntegrityError
from tests.privacy_engine.synthesizers.test_measuring import CITIES, SCHEMA, loaded, people, written

VISITS = DataSchema.from_dict(SCHEMA.to_dict() | {"person": "name"}, {"cities": CITIES})
SMALL = DataSchema.from_dict(
    {"who": {"role": "identifier"}, "ward": {"categories": list("abcde")}, "sex": {"categories": ["f", "m"]}}
    | {"person": "who"}
)
BOUNDS = [{"max_rows": 1}, {"max_rows": 5}, {"weight": "person"}]
bounds = pytest.mark.parametrize("bound", BOUNDS, ids=str)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(memory=10**9, spill=tmp_path_factory.mktemp("spill")) as opened:
        yield opened


def visits(rows: int, persons: int, seed: int = 2) -> pd.DataFrame:
    """One person has a fifth of all rows."""
    rng = np.random.default_rng(seed)
    who = np.where(rng.random(rows) < 0.2, 0, rng.integers(0, persons, rows))
    return pd.DataFrame(
        {
            "who": who * 7919 - 50_000,
            "ward": rng.choice(list("abcde"), rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


@bounds
def test_persons_of_every_type_of_column_are_those_of_the_table_in_memory(
    engine: LocalEngine, tmp_path: Path, bound: dict
) -> None:
    table = people(900).assign(name=[f"canary {i * i % 97}" for i in range(900)])
    paths, method = (
        written(tmp_path, to_arrow(table), files=4, group=50),
        load_method("latent_class", **bound),
    )
    whole, parts = method.coded(loaded(paths), VISITS), method.coded_files(engine, paths, VISITS)
    assert (parts.codes == whole.codes).all()
    assert (parts.weights == whole.weights).all()
    assert parts.codes.dtype == whole.codes.dtype
    assert (parts.persons, parts.each) == (whole.persons, whole.each) == (table["name"].nunique(), whole.each)


@bounds
def test_who_is_in_many_parts_of_the_counts_contributes_once(
    engine: LocalEngine, tmp_path: Path, bound: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        local, "batches", lambda files: (t.slice(i, 7) for t in batches(files) for i in range(0, len(t), 7))
    )
    paths, method = written(tmp_path, to_arrow(visits(3000, 120))), load_method("latent_class", **bound)
    whole, parts = method.coded(loaded(paths), SMALL), method.coded_files(engine, paths, SMALL)
    assert (parts.codes == whole.codes).all()
    assert (parts.weights == whole.weights).all()
    if "weight" in bound:
        assert int(parts.weights.sum()) == parts.persons * 840


def test_persons_of_many_batches_of_records(engine: LocalEngine, tmp_path: Path) -> None:
    """More persons than one part of the counts has rows."""
    table = visits(300_000, 150_000)
    paths, method = (
        written(tmp_path, to_arrow(table), 2, 100_000),
        load_method("latent_class", weight="person"),
    )
    whole, parts = method.coded(loaded(paths), SMALL), method.coded_files(engine, paths, SMALL)
    assert (parts.weights == whole.weights).all()
    assert parts.persons == table["who"].nunique()


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=40),
    st.lists(st.integers(1, 9), min_size=40, max_size=40),
)
def test_runs_of_equal_values_are_made_whole(values: list[int], lengths: list[int]) -> None:
    values, tables, start = sorted(values), [], 0
    for length in lengths:
        if start < len(values):
            tables.append(pa.table({"x": values[start : start + length]}))
        start += length
    parts = [part.column("x").to_pylist() for part in whole_runs(tables, "x")]
    assert [value for part in parts for value in part] == values
    assert all(parts)
    assert sum(len(set(part)) for part in parts) == len(set(values))


def test_a_person_in_two_parts_is_found(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        local, "whole_runs", lambda parts, _: (t.slice(i, 50) for t in parts for i in range(0, len(t), 50))
    )
    paths = written(tmp_path, to_arrow(visits(1000, 60)))
    with pytest.raises(IntegrityError, match="60 persons, each in one part, got"):
        load_method("latent_class", max_rows=3).coded_files(engine, paths, SMALL)


def test_records_of_no_one_are_refused_by_their_number(engine: LocalEngine, tmp_path: Path) -> None:
    table = people(300).assign(name=[None if i % 100 == 7 else f"canary {i % 9}" for i in range(300)])
    table.loc[5, "age"] = 16
    with pytest.raises(SchemaError) as error:
        load_method("latent_class", max_rows=3).coded_files(
            engine, written(tmp_path, to_arrow(table)), VISITS
        )
    with pytest.raises(SchemaError) as known:
        load_method("latent_class", max_rows=3).coded(table, VISITS)
    assert "name: 3 records are without a person" in str(error.value)
    assert str(error.value) == str(known.value)
    assert "canary" not in str(error.value)


def test_what_fits_into_memory_is_reported_by_persons_and_not_by_rows(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    wide = DataSchema.from_dict(
        {"who": {"role": "identifier"}, "person": "who"}
        | {f"x{i}": {"kind": "numeric", "bounds": [0, 60_000], "bins": 60_000} for i in range(2)}
    )
    rng = np.random.default_rng(0)
    for rows in (4_000, 40_000):
        table = pd.DataFrame({"who": np.arange(rows) % 4_000, "x0": rng.random(rows), "x1": rng.random(rows)})
        paths = written(tmp_path, to_arrow(table), files=1, group=rows)
        with LocalEngine(memory=60_000_000, spill=tmp_path / "spill") as engine:
            with pytest.raises(CapacityError, match="3360000 records of 2 attributes"):
                load_method("latent_class", weight="person").coded_files(engine, paths, wide)
            assert load_method("latent_class", max_rows=3).coded_files(engine, paths, wide).persons == 4_000
