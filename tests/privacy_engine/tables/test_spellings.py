"""Spellings of one sensitive value count once: for the methods, for the judge, in memory and in files."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.dp.contributions import person_numbers
from privacy_engine.engines.checking import sensitive_values, verify_files
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.randomizers.randomizer import individuals_of
from privacy_engine.registry import load_method
from privacy_engine.tables.classes import EquivalenceClasses, SensitiveValues
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_engine.vocabulary import COUNTERFEITS

SPELLINGS = {
    "decomposed": ("Ménière", unicodedata.normalize("NFD", "Ménière")),
    "case": ("HIV", "hiv"),
    "blank": ("HIV", "HIV "),
    "no width": ("HIV", "H\u200bIV"),
    "full width": ("HIV", "\uff28\uff29\uff36"),
    "hyphen": ("COVID-19", "COVID\u201119"),
}
AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
ILL = {"role": "sensitive", "kind": "categorical"}
MODELS: list[dict[str, Any]] = [
    {"model": "distinct_l_diversity", "l": 2},
    {"model": "entropy_l_diversity", "l": 1.5},
    {"model": "recursive_cl_diversity", "c": 3, "l": 2},
    {"model": "alpha_k_anonymity", "alpha": 0.6, "k": 2},
]
K3 = {"model": "k_anonymity", "k": 3}
POLICY = ReleasePolicy.from_dict({"require": MODELS})


def schema_of(person: bool = False, **more: Any) -> DataSchema:
    fields = {"age": AGE, "ill": {**ILL, **more}}
    return DataSchema.from_dict(fields | ({"who": {"role": "identifier"}, "person": "who"} if person else {}))


def ill(*values: str, rows: int = 24) -> pd.DataFrame:
    return pd.DataFrame({"age": np.repeat([30, 40], rows // 2), "ill": [*values] * (rows // len(values))})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(memory=10**9, spill=tmp_path_factory.mktemp("spill")) as opened:
        yield opened


@pytest.mark.parametrize("pair", SPELLINGS.values(), ids=SPELLINGS)
def test_a_method_makes_no_diversity_of_two_spellings(pair: tuple[str, str]) -> None:
    with pytest.raises(InfeasibleError):
        load_method("mondrian", k=2, l=2).release(ill(*pair), schema_of(), np.random.default_rng(0))


@pytest.mark.parametrize("pair", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("by_person", [False, True], ids=["records", "persons"])
def test_the_judge_finds_none_in_memory_nor_in_files(
    engine: LocalEngine, tmp_path: Path, pair: tuple[str, str], by_person: bool
) -> None:
    table, schema = ill(*pair), schema_of(by_person)
    who = np.arange(24).astype(str).astype(object) if by_person else None
    report = verify(table, schema, POLICY, persons=who)
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pandas(table.assign(who=np.arange(24))), tmp_path / "b.parquet")
    persons = [str(tmp_path / "b.parquet")] if by_person else None
    assert [f.passed for f in report.findings] == [False] * 4
    assert report.findings[0].measured == 1
    assert verify_files(engine, [str(tmp_path / "a.parquet")], schema, POLICY, by_person=persons) == report


@pytest.mark.parametrize(
    "public",
    [
        {"categories": ["HIV", "hiv"]},
        {"kind": "ordinal", "categories": ["hiv", "HIV"]},
        {"hierarchy": [["HIV", "any"], ["hiv", "any"]]},
    ],
    ids=["categories", "ordinal", "hierarchy"],
)
def test_listed_spellings_count_once_too(public: dict[str, Any]) -> None:
    table, schema = ill("HIV", "hiv"), schema_of(**public)
    assert not verify(table, schema, POLICY).passed
    with pytest.raises(InfeasibleError):
        load_method("mondrian", k=2, l=2).release(table, schema, np.random.default_rng(0))


def test_released_values_stay_as_they_are_written() -> None:
    table = ill("HIV", "hiv", "flu", "Flu ")
    release = load_method("mondrian", k=2, l=2).release(table, schema_of(), np.random.default_rng(0))
    assert release.table["ill"].value_counts().to_dict() == table["ill"].value_counts().to_dict()
    assert verify(release.table, release.schema, POLICY).passed


def test_a_schema_may_keep_spellings_apart_with_a_reason() -> None:
    table, schema = ill("A", "a"), schema_of(exact={"allow": "upper and lower case are two blood groups"})
    release = load_method("mondrian", k=2, l=2).release(table, schema, np.random.default_rng(0))
    assert verify(release.table, release.schema, POLICY).passed
    assert DataSchema.from_dict(schema.to_dict()) == schema
    assert "blood" in release.schema.to_json()


@pytest.mark.parametrize("reason", [True, {"allow": " "}, {}], ids=str)
def test_exact_needs_a_reason(reason: object) -> None:
    with pytest.raises(SchemaError, match=r"exact must be|allow requires a reason"):
        schema_of(exact=reason)


def test_exact_stands_where_values_or_persons_are_counted() -> None:
    with pytest.raises(SchemaError, match="exact applies only to sensitive attributes and identifiers"):
        DataSchema.from_dict({"age": {**AGE, "exact": {"allow": "ages"}}})


def test_parts_and_wholes_have_the_same_codes(engine: LocalEngine, tmp_path: Path) -> None:
    table, schema = ill("flu", "HIV", "hiv", "H\u200bIV"), schema_of()
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "a.parquet")
    found = sensitive_values(engine, [str(tmp_path / "a.parquet")], schema)["ill"]
    assert (found.size, sorted(found.counts.tolist())) == (2, [6, 18])
    part = EncodedTable.encode(table.iloc[:5], schema, {"ill": found})
    assert part.whole_counts["ill"].tolist() == [18, 6]  # in the order of the texts
    assert np.bincount(part.sensitive[0]).tolist() == [3, 2]


def test_a_person_with_two_spellings_of_a_value_has_one(engine: LocalEngine, tmp_path: Path) -> None:
    table = pd.DataFrame({"ill": ["HIV", "hiv", "flu", "flu"], "who": [1, 1, 1, 2]})
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "a.parquet")
    found = sensitive_values(engine, [str(tmp_path / "a.parquet")], schema_of(), person="who")["ill"]
    assert sorted(np.asarray(found.weights).tolist()) == [0.5, 1.5]


def test_a_null_is_no_spelling_of_an_empty_text() -> None:
    column = pd.DataFrame({"s": ["", None, " "]})
    found = EquivalenceClasses.of_columns(column, [], ["s"]).sensitive["s"]
    assert (found.codes.tolist(), found.size) == ([0, 1, 0], 2)
    assert SensitiveValues.of(column["s"], np.array([1, 1, 1]), None).counts.tolist() == [2, 1]


WHO = np.array(["P1", "p1 ", "\uff301", "P2", "p2", "P\u200b2"] * 4, dtype=object)


def test_three_spellings_of_a_person_are_one_for_k() -> None:
    table, schema = ill("flu", "cold").assign(age=30), schema_of(person=True)
    found = verify(table, schema, ReleasePolicy.from_dict({"require": [K3]}), persons=WHO)
    assert (found.persons, found.findings[0].measured, found.passed) == (2, 2, False)
    with pytest.raises(InfeasibleError):
        load_method("mondrian", k=3).release(table.assign(who=WHO), schema, np.random.default_rng(0))


def test_spellings_of_a_person_are_several_where_the_schema_says_so() -> None:
    table, schema = ill("flu", "cold").assign(age=30, who=WHO), schema_of(person=True)
    exact = DataSchema.from_dict({**schema.to_dict(), "who": {"role": "identifier", "exact": {"allow": "a"}}})
    assert schema.person_codes(WHO).max() == 1
    assert exact.person_codes(WHO).max() == 5
    assert EncodedTable.encode(table, exact).persons is not None


def test_an_individual_answers_once_in_all_spellings() -> None:
    table = pd.DataFrame({"who": ["P1", "p1 "]})
    with pytest.raises(SchemaError, match="who: 1 values occur more than once"):
        individuals_of(table, DataSchema.from_dict({"who": {"role": "identifier"}}), "who")
    exact = DataSchema.from_dict({"who": {"role": "identifier", "exact": {"allow": "case counts"}}})
    assert individuals_of(table, exact, "who") == [b"P1", b"p1 "]


def test_a_made_up_value_is_reported_by_the_number_of_all_spellings() -> None:
    """Two persons have HIV, in two spellings, so one made-up record of a cold can be none of the rarest."""
    table = pd.DataFrame({"age": [30] * 5, "ill": ["HIV", "hiv", "flu", "flu", "cold"]})
    persons = np.array(["a", "b", "c", "d", None], dtype=object)
    schema = DataSchema.from_dict(
        {"age": AGE, "ill": ILL, COUNTERFEITS: {"role": "insensitive", "kind": "numeric"}}
    )
    made = Membership.of_table(persons, table.assign(**{COUNTERFEITS: 1}), schema)
    assert made.recognisable["ill"].all()


def test_all_spellings_of_a_person_are_bounded_together() -> None:
    assert len(set(person_numbers(pd.Series(WHO)).tolist())) == 2
    assert len(set(person_numbers(pd.Series(WHO), exact=True).tolist())) == 6
