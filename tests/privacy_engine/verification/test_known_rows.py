"""What several known rows of one person give away: counted by dictionaries, in memory and by SQL."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.engines.checking import examine_files, sensitive_values, verify_files
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.normal import normal
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import Finding, verify

SCHEMA = DataSchema.from_dict(
    {
        "district": {"role": "quasi_identifier"},
        "illness": {"role": "sensitive", "nullable": True},
        "person": "patient",
    }
)
POLICY = ReleasePolicy.from_dict({"require": [{"model": "row_intersection", "l": 2}]})
# Two classes of two values each; ann is in both, which have nothing in common but what she has.
TABLE = pd.DataFrame(
    {"district": ["a", "a", "b", "b", "b"], "illness": ["flu", "cold", "flu", "gout", "cold"]}
)
PERSONS = np.array(["ann", "bob", "ann", "cid", "dan"], dtype=object)
ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.sampled_from(["flu", "\uff26lu ", "cold", None])),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(memory=10**9, spill=tmp_path_factory.mktemp("spill")) as opened:
        yield opened


def counted(rows: list[tuple[str, int, str | None]]) -> list[tuple[int, int, int]]:
    """Values left, persons and rows."""
    values, had, places = defaultdict(set), defaultdict(set), defaultdict(set)
    for place, person, value in rows:
        form = None if value is None else normal(value)
        values[place].add(form)
        had[person].add(form)
        places[person].add(place)
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for person in had:
        if len(had[person]) == 1:
            left = len(set.intersection(*(values[place] for place in places[person])))
            found[left][0] += 1
            found[left][1] += sum(mine == person for _, mine, _ in rows)
    return sorted((left, persons, records) for left, (persons, records) in found.items())


@given(rows=ROWS)
def test_values_left_are_those_of_all_classes_of_a_person(rows: list[tuple[str, int, str | None]]) -> None:
    table = pd.DataFrame(rows, columns=["district", "patient", "illness"])
    classes = EquivalenceClasses.of_table(table, SCHEMA, table["patient"].to_numpy())
    left = classes.values_left("illness")
    assert list(zip(*(part.tolist() for part in left), strict=True)) == counted(rows)


@given(rows=ROWS)
def test_the_engine_counts_the_same(engine: LocalEngine, rows: list[tuple[str, int, str | None]]) -> None:
    table = pa.table(
        dict(zip(("district", "patient", "illness"), map(list, zip(*rows, strict=True)), strict=True))
    )
    table = table.set_column(2, "illness", table["illness"].cast(pa.string()))
    pq.write_table(table, Path(engine.spill) / "rows.parquet")
    files = [str(Path(engine.spill) / "rows.parquet")]
    values = sensitive_values(engine, files, SCHEMA)
    found = engine.values_left(files, ["district"], values, "patient")
    assert [tuple(row.values()) for row in found.to_pylist()] == counted(rows)


def finding(table: pd.DataFrame, persons: np.ndarray, policy: ReleasePolicy = POLICY) -> Finding:
    (found,) = verify(table, SCHEMA, policy, persons=persons).findings
    return found


def test_an_intersection_of_one_value_is_refused_though_each_class_has_two(tmp_path: Path) -> None:
    alone = TABLE[:4]
    (diverse, found) = verify(
        alone,
        SCHEMA,
        ReleasePolicy.from_dict(
            {"require": [{"model": "distinct_l_diversity", "l": 2}, {"model": "row_intersection", "l": 2}]}
        ),
        persons=PERSONS[:4],
    ).findings
    assert diverse.passed
    assert (found.passed, found.measured) == (False, 1.0)
    assert (found.failing_persons, found.failing_rows) == (1, 2)
    report = verify(alone, SCHEMA, POLICY, persons=PERSONS[:4])
    with pytest.raises(Exception, match=r"measured 1, missed by 1 person with together 2 rows") as error:
        report.raise_if_failed()
    assert "ann" not in str(error.value)
    assert "flu" not in str(error.value)


def test_one_more_value_in_common_passes() -> None:
    assert finding(TABLE, PERSONS).passed


def test_a_person_with_two_values_is_not_looked_for() -> None:
    other = TABLE.assign(illness=["flu", "cold", "gout", "flu", "gout"])
    assert finding(TABLE, PERSONS).measured == finding(other, PERSONS).measured == 2.0
    assert finding(other.assign(illness=["flu", "cold", "flu", "flu", "gout"]), PERSONS).measured == 1.0


def test_the_attribute_with_the_fewest_values_left_counts() -> None:
    schema = DataSchema.from_dict({**SCHEMA.to_dict(), "drug": {"role": "sensitive"}})
    report = verify(TABLE.assign(drug="one"), schema, POLICY, persons=PERSONS)
    assert [(f.passed, f.measured) for f in report.findings if "row_" in f.rule] == [(False, 1.0)]


def test_without_a_person_it_is_distinct_l_diversity() -> None:
    schema = DataSchema(SCHEMA.attributes)
    (found,) = verify(TABLE.assign(illness="flu"), schema, POLICY).findings
    assert (found.rule, found.passed, found.failing_classes) == ("row_intersection(l=2)", False, 2)
    assert verify(TABLE, schema, POLICY).passed


def test_of_no_rows_nothing_is_said() -> None:
    assert not finding(TABLE[:0], PERSONS[:0]).passed


def test_files_give_the_same_report_and_figures(engine: LocalEngine, tmp_path: Path) -> None:
    released, own = tmp_path / "released.parquet", tmp_path / "own.parquet"
    TABLE[:4].to_parquet(released, index=False)
    TABLE[:4].assign(patient=[1, 2, 1, 3]).to_parquet(own, index=False)
    report = verify_files(engine, [str(released)], SCHEMA, POLICY, by_person=[str(own)])
    assert report == verify(TABLE[:4], SCHEMA, POLICY, persons=PERSONS[:4])
    examined = examine_files(engine, [str(released)], SCHEMA, POLICY, by_person=[str(own)])
    assert (examined.risk["values_left"], examined.risk["persons_below_l"]) == (1.0, 1.0)


def test_an_attribute_that_is_not_sensitive_is_refused() -> None:
    policy = ReleasePolicy.from_dict(
        {"require": [{"model": "row_intersection", "l": 2, "attribute": "district"}]}
    )
    with pytest.raises(SchemaError, match="row_intersection requires a sensitive attribute"):
        finding(TABLE, PERSONS, policy)


def test_the_policy_is_read_written_and_compared_with_a_floor() -> None:
    assert ReleasePolicy.from_dict(POLICY.to_dict()) == POLICY
    strict = ReleasePolicy.from_dict({"require": [{"model": "row_intersection", "l": 3}]})
    assert POLICY.weaker_than(strict) == ["row_intersection(l=2) is weaker than row_intersection(l=3)"]
    assert len(POLICY.with_floor(strict).known_rows) == 2
    with pytest.raises(SpecError, match="l must be >= 2"):
        ReleasePolicy.from_dict({"require": [{"model": "row_intersection", "l": 1}]})
