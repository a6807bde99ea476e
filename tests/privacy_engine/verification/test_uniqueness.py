"""Records that are alone in a release, and models that count a nearly unique attribute."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.uniqueness import as_declared, counted_attributes, nearly_unique
from privacy_engine.verification.verify import CountedRecords, Report, verify, verify_tallies

FIELDS: dict[str, dict[str, Any]] = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "nullable": True},
    "town": {"role": "insensitive"},
    "note": {"role": "insensitive"},
    "ill": {"role": "sensitive"},
    "pay": {"role": "sensitive", "kind": "numeric"},
}
SCHEMA = DataSchema.from_dict(FIELDS)
POLICY = ReleasePolicy.from_dict(
    {
        "require": [
            {"model": "all_columns_k_anonymity", "k": 2},
            {"model": "distinct_l_diversity", "l": 2, "attribute": "ill"},
        ],
        "unique_records": 0.5,
        "columns": {"no_unique_columns": True},
    }
)
LOSS = PrivacyLoss(epsilon=1.0, neighbours=Neighbours.REPLACE_ONE)
records = st.lists(
    st.tuples(
        st.sampled_from([1.0, 2.0, None]),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        st.sampled_from(["flu", "gout"]),
        st.sampled_from([1.0, 2.0]),
    ),
    min_size=1,
    max_size=8,
)


def frame_of(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(FIELDS)).astype({"age": "float64"})


def found(report: Report) -> dict[str, tuple[float | None, bool]]:
    return {finding.rule: (finding.measured, finding.passed) for finding in report.findings}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalEngine, Path]]:
    """An engine that is opened once, and a file for it."""
    folder = tmp_path_factory.mktemp("files")
    with LocalEngine(memory=1 << 28, spill=folder) as engine:
        yield engine, folder / "t.parquet"


@settings(max_examples=settings.default.max_examples // 2)  # each is written to a file
@given(rows=records)
def test_records_that_are_alone_are_counted_as_by_hand_and_in_files(
    files: tuple[LocalEngine, Path], rows: list[tuple[Any, ...]]
) -> None:
    frame = frame_of(rows)
    report = verify(frame, SCHEMA, POLICY)
    others, sensitive = Counter(row[:3] for row in rows), Counter(row[3:] for row in rows)
    alone = {"not_sensitive": others, "sensitive": sensitive}
    assert report.unique_records == {
        name: pytest.approx(sum(n == 1 for n in counted.values()) / len(rows))
        for name, counted in alone.items()
    }
    least = min(others.values())
    assert found(report)["all_columns_k_anonymity(k=2)"] == (float(least), least >= 2)
    engine, file = files
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), file)
    assert verify_files(engine, [str(file)], SCHEMA, POLICY) == report


def table(**columns: list[Any]) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    whole = {"age": [30.0] * n, "town": ["a"] * n, "note": ["x"] * n, "ill": ["flu", "gout"] * (n // 2)}
    return pd.DataFrame({**whole, "pay": [1.0, 2.0] * (n // 2), **columns})


def test_a_model_that_counts_values_is_refused_of_a_nearly_unique_attribute() -> None:
    rows = table(ill=[f"patient {i}" for i in range(60)])
    rule = "distinct_l_diversity(attribute=ill, l=2) of ill, which must not be nearly unique"
    report = verify(rows, SCHEMA, POLICY)
    assert found(report)["distinct_l_diversity(attribute=ill, l=2)"] == (60, True)
    assert found(report)[rule] == (1.0, False)
    assert "patient" not in str(report)
    with pytest.raises(VerificationError, match="any class is diverse: make it an identifier"):
        report.raise_if_failed()
    by_distance = ReleasePolicy.from_dict(
        {"require": [{"model": "t_closeness", "t": 1.0, "attribute": "ill"}]}
    )
    assert verify(rows, SCHEMA, by_distance).passed


def test_models_of_every_sensitive_attribute_and_of_releases_over_time_count_values() -> None:
    for model in (
        {"model": "distinct_l_diversity", "l": 2},
        {"model": "m_invariance", "m": 2},
        {"model": "republication", "k": 2, "m": 2},
    ):
        counted = counted_attributes(ReleasePolicy.from_dict({"require": [model]}), ["ill", "pay"])
        assert [*counted] == ["ill", "pay"]
        assert all(rule.startswith(str(model["model"])) for rule in counted.values())
    of_people = ReleasePolicy.from_dict({"require": [{"model": "republication", "k": 2}]})
    assert counted_attributes(of_people, ["ill", "pay"]) == {}


def test_of_no_records_nothing_is_said_about_all_columns() -> None:
    assert found(verify(table(pay=[])[:0], SCHEMA, POLICY))["all_columns_k_anonymity(k=2)"] == (None, False)


def test_no_nearly_unique_column_is_released_whatever_its_role() -> None:
    for column in ("age", "town", "ill", "pay"):
        values = [float(i) if column in ("age", "pay") else f"v{i}" for i in range(60)]
        report = found(verify(table(**{column: values}), SCHEMA, POLICY))
        assert report[f"columns: no_unique_columns as released in {column}"] == (1.0, False)


def test_pseudonyms_are_unique_by_design_and_do_not_count() -> None:
    pseudonym = {"role": "insensitive", "pseudonym": {"scope": "release", "key": "0" * 16}}
    schema = DataSchema.from_dict({**FIELDS, "town": pseudonym})
    report = verify(table(town=[f"p{i}" for i in range(60)]), schema, POLICY)
    assert report.unique_records["not_sensitive"] == 0
    assert all(
        finding.passed for finding in report.findings if "town" in finding.rule or "all_" in finding.rule
    )


def test_a_release_with_a_privacy_loss_may_have_unique_numbers_and_says_so() -> None:
    rows = table(pay=[float(i) for i in range(60)])
    private = replace(POLICY, require=(), all_columns=())
    report = verify(rows, SCHEMA, replace(private, max_epsilon=1.0), loss=LOSS)
    assert report.passed
    assert report.unique_records["sensitive"] == 1.0
    assert report.to_dict()["unique_records"] == report.unique_records
    assert not verify(rows, SCHEMA, private).passed


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({1: 60}, 59 / 59),
        ({1: 60, 900: 1}, 1.0),  # apart from one value, such as a null or the mark of a suppressed cell
        ({1: 45, 15: 1}, 0),  # too few of them
        ({2: 30}, 0),
        ({1: 100, 50: 2}, 0),
        ({}, 0),
    ],
)
def test_a_column_is_nearly_unique_apart_from_its_most_frequent_value(
    sizes: dict[int, int], expected: float
) -> None:
    assert nearly_unique(sizes) == pytest.approx(expected)


def test_where_nothing_is_insensitive_it_is_plain_k_anonymity_also_of_persons() -> None:
    quasi = {
        name: {**f, "role": "quasi_identifier"} if f["role"] == "insensitive" else f
        for name, f in FIELDS.items()
    }
    policy = as_declared(POLICY, DataSchema.from_dict(quasi))
    assert not policy.all_columns
    assert "k_anonymity(k=2)" in found(
        verify(frame_of([(1.0, "a", "x", "flu", 1.0)] * 4), DataSchema.from_dict(quasi), POLICY)
    )
    assert as_declared(POLICY, SCHEMA) == POLICY


def test_rows_of_persons_are_not_counted_as_people() -> None:
    of_persons = DataSchema.from_dict({**FIELDS, "person": {"column": "who"}})
    rows = frame_of([(1.0, "a", "x", "flu", 1.0), (1.0, "a", "x", "gout", 2.0)] * 2)
    report = verify(rows, of_persons, POLICY, persons=pd.Series(["1", "1", "2", "2"]).to_numpy(object))
    assert found(report)["all_columns_k_anonymity(k=2)"] == (None, False)


def test_what_no_one_counted_is_refused_and_not_passed() -> None:
    for policy in (
        replace(POLICY, unique_records=None, columns=None),
        replace(POLICY, all_columns=(), columns=None),
        replace(POLICY, all_columns=(), unique_records=None),
    ):
        with pytest.raises(VerificationError, match="limits unique records"):
            verify_tallies(
                CountedRecords(
                    columns=list(FIELDS),
                    values=lambda _: (pd.Series([]), pd.Series([]).to_numpy(int)),
                ),
                SCHEMA,
                policy,
            )


def test_a_floor_adds_its_k_over_all_columns_and_the_smaller_share() -> None:
    own = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 10}], "unique_records": 0.9})
    both = own.with_floor(POLICY)
    assert [model.k for model in both.all_columns] == [2]
    assert both.unique_records == 0.5
    assert ReleasePolicy.from_dict(both.to_dict()) == both
    assert own.weaker_than(POLICY) == ["unique_records 0.9 is weaker than unique_records 0.5"]
