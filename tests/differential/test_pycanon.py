"""pycanon beside our measures: equal on clean tables, and who is right where they differ."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.registry import load_method
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    TCloseness,
)

pytestmark = pytest.mark.slow

anonymity = pytest.importorskip("pycanon.anonymity", reason="pycanon comes with the extra `bench`")

QUASI, SENSITIVE = ["zip", "age"], "disease"


def ours(table: pd.DataFrame, quasi: list[str] = QUASI, sensitive: str = SENSITIVE) -> dict[str, float]:
    classes = EquivalenceClasses.of_columns(table, quasi, [sensitive])
    ordered = pd.api.types.is_numeric_dtype(table[sensitive])
    return {
        "k": KAnonymity(k=2).measure(classes),
        "l": DistinctLDiversity(l=2).measure(classes),
        "t": TCloseness(t=1, distance="ordered" if ordered else "equal").measure(classes),
    }


def theirs(table: pd.DataFrame, quasi: list[str] = QUASI, sensitive: str = SENSITIVE) -> dict[str, float]:
    return {
        "k": anonymity.k_anonymity(table, quasi),
        "l": anonymity.l_diversity(table, quasi, [sensitive]),
        "t": anonymity.t_closeness(table, quasi, [sensitive]),
    }


records = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 1), st.sampled_from(["flu", "gout", "mumps"])),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(records)
def test_k_l_and_t_agree_on_clean_tables(rows: list[tuple[str, int, str]]) -> None:
    table = pd.DataFrame(rows, columns=[*QUASI, SENSITIVE])
    assert ours(table) == pytest.approx(theirs(table))


@settings(deadline=None)
@given(records.filter(lambda rows: len({disease for _, _, disease in rows}) > 1))  # it divides by m - 1
def test_ordered_closeness_agrees_on_clean_tables(rows: list[tuple[str, int, str]]) -> None:
    years = {"flu": 1, "gout": 10, "mumps": 100}  # ranks count, not distances
    table = pd.DataFrame(rows, columns=[*QUASI, SENSITIVE])
    table[SENSITIVE] = table[SENSITIVE].map(years).astype("int64")
    assert ours(table)["t"] == pytest.approx(theirs(table)["t"])


@settings(deadline=None)
@given(records)
def test_alpha_and_basic_beta_agree_on_clean_tables(rows: list[tuple[str, int, str]]) -> None:
    table = pd.DataFrame(rows, columns=[*QUASI, SENSITIVE])
    classes = EquivalenceClasses.of_columns(table, QUASI, [SENSITIVE])
    alpha, k = anonymity.alpha_k_anonymity(table, QUASI, [SENSITIVE])
    if k >= 2:
        assert AlphaKAnonymity(alpha=1, k=k).measure(classes) == pytest.approx(alpha)
    beta = anonymity.basic_beta_likeness(table, QUASI, [SENSITIVE])
    assert BetaLikeness(beta=1).measure(classes) == pytest.approx(beta)


@settings(deadline=None)
@given(records)
def test_entropy_agrees_after_pycanon_rounds_down(rows: list[tuple[str, int, str]]) -> None:
    table = pd.DataFrame(rows, columns=[*QUASI, SENSITIVE])
    measured = EntropyLDiversity(l=2).measure(EquivalenceClasses.of_columns(table, QUASI, [SENSITIVE]))
    found = anonymity.entropy_l_diversity(table, QUASI, [SENSITIVE])
    assert found in (int(measured - 1e-9), int(measured + 1e-9))  # an integer may be missed by rounding


SYNTHETIC = pd.DataFrame(
    {
        "zip": ["A"] * 4 + ["B"] * 5,
        "age": [30] * 9,
        "disease": ["flu", "flu", "gout", "gout", "flu", "gout", "mumps", "mumps", "flu"],
    }
)


def test_a_synthetic_table_is_measured_alike_and_as_worked_by_hand() -> None:
    # table: flu 4/9, gout 3/9, mumps 2/9; class A: 1/2 1/2 0, total variation 2/9; class B: 2/5 1/5 2/5, 8/45
    expected = {"k": 4, "l": 2, "t": 2 / 9}
    assert ours(SYNTHETIC) == pytest.approx(expected)
    assert theirs(SYNTHETIC) == pytest.approx(expected)


def test_records_whose_quasi_identifier_is_null_are_a_class_and_pycanon_overlooks_them() -> None:
    # Only one person has no postcode: anyone who knows that finds the record. pandas' groupby drops nulls, so
    # pycanon never sees the class of one; we are right to say k = 1 and l = 1.
    table = pd.concat(
        [SYNTHETIC, pd.DataFrame({"zip": [None], "age": [30], "disease": ["flu"]})], ignore_index=True
    )
    assert (theirs(table)["k"], theirs(table)["l"]) == (4, 2)
    assert (ours(table)["k"], ours(table)["l"]) == (1, 1)


def test_the_row_index_means_nothing_and_pycanon_takes_it_for_positions() -> None:
    # Both classes of this table hold a single disease, whatever the order of its rows. pycanon reads the
    # class's index labels as positions, so a permuted index mixes the classes; we are right to say l = 1.
    table = pd.DataFrame({"zip": list("AABB"), "age": [30] * 4, "disease": ["flu", "flu", "gout", "gout"]})
    permuted = table.set_axis([0, 2, 1, 3], axis=0)
    assert theirs(table)["l"] == ours(table)["l"] == 1
    assert theirs(permuted)["l"] == 2
    assert ours(permuted) == ours(table)


@pytest.fixture(scope="module")
def adult() -> pd.DataFrame:
    folder = os.environ.get("PRIVACY_DATA")
    if not folder:
        pytest.skip("PRIVACY_DATA names no folder with adult.parquet")
    return pd.read_parquet(Path(folder) / "adult.parquet").dropna().reset_index(drop=True)


@pytest.mark.needs_data
@pytest.mark.parametrize("quasi", [["sex", "race"], ["sex", "race", "relationship", "marital-status"]])
def test_k_l_and_t_agree_on_the_complete_rows_of_adult(adult: pd.DataFrame, quasi: list[str]) -> None:
    assert len(adult) == 30162
    assert ours(adult, quasi, "occupation") == pytest.approx(theirs(adult, quasi, "occupation"))


@pytest.mark.needs_data
def test_ordered_closeness_agrees_on_the_complete_rows_of_adult(adult: pd.DataFrame) -> None:
    quasi = ["sex", "race"]
    assert ours(adult, quasi, "education-num") == pytest.approx(theirs(adult, quasi, "education-num"))


@pytest.mark.needs_data
def test_a_permuted_index_of_adult_changes_none_of_our_figures(adult: pd.DataFrame) -> None:
    permuted = adult.set_axis(np.random.default_rng(5).permutation(len(adult)), axis=0)
    assert ours(permuted, ["sex", "race"], "occupation") == ours(adult, ["sex", "race"], "occupation")


ADULT_TREES = ["marital-status", "native-country", "race", "sex", "workclass"]


@pytest.mark.needs_data
def test_pycanon_confirms_k_l_and_t_of_a_release_of_adult(adult: pd.DataFrame) -> None:
    folder = Path(os.environ["PRIVACY_DATA"]) / "hierarchies" / "adult"
    trees = {name: Hierarchy.from_csv((folder / f"{name}.csv").read_text()) for name in ADULT_TREES}
    quasi: dict[str, dict[str, object]] = {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [17, 90]},
        **{name: {"role": "quasi_identifier", "hierarchy": name} for name in trees},
    }
    schema = DataSchema.from_dict({**quasi, "occupation": {"role": "sensitive"}}, trees)
    sample = adult.loc[::6, list(schema.names)]  # 5,027 records: pycanon takes its time over many classes
    release = load_method("mondrian", k=10, l=3).release(sample, schema, np.random.default_rng(7))
    shown = [attribute.name for attribute in release.schema.quasi_identifiers]
    found = theirs(release.table, shown, "occupation")
    assert found["k"] >= 10
    assert found["l"] >= 3
    assert ours(release.table, shown, "occupation") == pytest.approx(found)
