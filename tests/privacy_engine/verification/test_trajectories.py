"""Linked rows: a class is of persons with equal trajectories; counted by hand, in memory and by SQL."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.engines.checking import PERSON, PSEUDONYM, examine_files, sensitive_values, verify_files
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import SchemaError, VerificationError
from privacy_engine.measures.risk import figures
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.persons import Person
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    TCloseness,
)
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import Report, verify

SCHEMA = DataSchema.from_dict(
    {
        "patient": {"role": "insensitive"},
        "district": {"role": "quasi_identifier"},
        "month": {"role": "quasi_identifier", "kind": "numeric"},
        "illness": {"role": "sensitive", "nullable": True},
        "person": {"column": "patient", "rows": "linked"},
    }
)
MODELS = (
    KAnonymity(k=2),
    DistinctLDiversity(l=2),
    EntropyLDiversity(l=1.5),
    RecursiveCLDiversity(c=2, l=2),
    TCloseness(t=0.3),
    AlphaKAnonymity(alpha=0.6, k=2),
    BetaLikeness(beta=0.7),
    DeltaDisclosure(delta=1),
)
POLICY = ReleasePolicy(require=MODELS)
K2 = ReleasePolicy(require=(KAnonymity(k=2),))
Row = tuple[str, str | None, float | None, str | None]
rows_of_few = st.lists(
    st.tuples(
        st.sampled_from("uvwxyz"),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1.0, 2.0, None]),
        st.sampled_from(["flu", "cold", None]),
    ),
    min_size=1,
    max_size=12,
)
few = settings(
    max_examples=settings.default.max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(memory=10**9, spill=tmp_path_factory.mktemp("spill")) as opened:
        yield opened


@pytest.fixture(scope="module")
def bit_by_bit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """An engine that takes few counts at a time."""
    with LocalEngine(memory=500_000_000, spill=tmp_path_factory.mktemp("spill"), records=1) as opened:
        yield opened


def frame(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["patient", "district", "month", "illness"])
    return table.astype({"month": "float64"})


def recounted(rows: list[Row]) -> list[tuple[int, int, int, float]]:
    """Of each class the rows, persons, distinct values or fingerprints, and the largest coverage."""
    ways: dict[str, Counter[Any]] = defaultdict(Counter)
    had: dict[str, set[str | None]] = defaultdict(set)
    for patient, district, month, illness in rows:
        ways[patient][(district, month)] += 1
        had[patient].add(illness)
    classes = defaultdict(list)
    for patient, way in ways.items():
        classes[frozenset(way.items())].append(patient)
    return sorted(
        (
            sum(ways[p].total() for p in people),
            len(people),
            min(len(set().union(*(had[p] for p in people))), len({frozenset(had[p]) for p in people})),
            max(Counter(v for p in people for v in had[p]).values()) / len(people),
        )
        for people in classes.values()
    )


def reported(classes: EquivalenceClasses) -> list[tuple[int, int, int, float]]:
    counts = classes.counts("illness")
    coverage = np.maximum.reduceat(counts.coverage, counts.starts)
    every = (classes.sizes, classes.people, counts.distinct, coverage)
    return sorted(zip(*(part.tolist() for part in every), strict=True))


def written(table: pd.DataFrame, engine: LocalEngine, name: str = "rows") -> list[str]:
    path = Path(engine.spill) / f"{name}.parquet"
    strings = {"patient": pa.string(), "district": pa.string(), "month": pa.float64(), "illness": pa.string()}
    kinds = pa.schema([(n, strings.get(n, pa.string())) for n in table.columns])
    pq.write_table(pa.Table.from_pandas(table, kinds, preserve_index=False), path)
    return [str(path)]


@given(rows=rows_of_few)
def test_classes_are_of_equal_trajectories(rows: list[Row]) -> None:
    assert reported(EquivalenceClasses.of_table(frame(rows), SCHEMA)) == recounted(rows)


@few
@given(rows=rows_of_few)
def test_the_engine_reports_the_same_in_one_part_and_in_many(
    engine: LocalEngine, bit_by_bit: LocalEngine, rows: list[Row]
) -> None:
    table = frame(rows)
    expected = verify(table, SCHEMA, POLICY).to_dict()
    for one in (engine, bit_by_bit):
        found = verify_files(one, written(table, one), SCHEMA, POLICY).to_dict()
        for a, b in zip(found["findings"], expected["findings"], strict=True):
            assert a.pop("measured") == pytest.approx(b["measured"])
        assert found == expected | {
            "findings": [{n: v for n, v in b.items() if n != "measured"} for b in expected["findings"]]
        }


@few
@given(rows=rows_of_few)
def test_risk_and_what_is_left_are_of_the_trajectories(engine: LocalEngine, rows: list[Row]) -> None:
    table = frame(rows)
    classes = EquivalenceClasses.of_table(table, SCHEMA)
    examined = examine_files(engine, written(table, engine), SCHEMA, K2)
    assert {name: examined.risk[name] for name in figures(classes)} == pytest.approx(figures(classes))
    assert examined.sizes == Counter(classes.people.tolist())
    left = classes.values_left("illness")
    files = written(table, engine)
    values = sensitive_values(engine, files, SCHEMA)
    found = engine.values_left(files, ["district", "month"], values, "patient", linked=True)
    assert found.to_pydict() == {name: part.tolist() for name, part in left._asdict().items()}


@given(rows=rows_of_few, seed=st.integers(0, 99))
def test_neither_names_nor_order_count(rows: list[Row], seed: int) -> None:
    table = frame(rows)
    mixed = table.sample(frac=1, random_state=seed)
    named = mixed.assign(patient=mixed["patient"].map({p: p * 3 for p in "uvwxyz"}))
    assert verify(named, SCHEMA, POLICY) == verify(table, SCHEMA, POLICY)


# Three persons of the same two visits each, in whatever order.
ALIKE = [
    ("u", "a", 1.0, "flu"),
    ("v", "b", 2.0, "cold"),
    ("u", "b", 2.0, "flu"),
    ("v", "a", 1.0, "flu"),
    ("w", "b", 2.0, "gout"),
    ("w", "a", 1.0, "cold"),
]


def both(rows: list[Row], engine: LocalEngine, policy: ReleasePolicy) -> Report:
    """The report, which both ways give."""
    report = verify(frame(rows), SCHEMA, policy)
    assert verify_files(engine, written(frame(rows), engine), SCHEMA, policy) == report
    return report


def test_equal_visits_in_another_order_are_one_class(engine: LocalEngine) -> None:
    report = both(ALIKE, engine, ReleasePolicy(require=(KAnonymity(k=3),)))
    assert (report.passed, report.classes, report.persons) == (True, 1, 3)


def test_a_class_of_one_trajectory_too_few_fails(engine: LocalEngine) -> None:
    report = both(ALIKE, engine, ReleasePolicy(require=(KAnonymity(k=4),)))
    assert (report.passed, report.findings[0].measured) == (False, 3.0)


def test_a_row_that_moves_between_two_pseudonyms_fails(engine: LocalEngine) -> None:
    moved = [("v", *ALIKE[0][1:]), *ALIKE[1:]]
    report = both(moved, engine, K2)
    assert (report.passed, report.findings[0].measured) == (False, 1.0)


def test_a_visit_more_is_another_trajectory(engine: LocalEngine) -> None:
    report = both([*ALIKE, ALIKE[0]], engine, K2)
    assert (report.passed, report.findings[0].failing_rows) == (False, 3)


def test_classes_of_rows_alone_would_have_passed() -> None:
    apart = [("u", "a", 1.0, "flu"), ("v", "a", 1.0, "flu"), ("u", "b", 1.0, "flu"), ("w", "b", 1.0, "flu")]
    independent = DataSchema(SCHEMA.attributes[1:], Person(column="patient"))
    table = frame(apart)
    persons = table.pop("patient").to_numpy()
    assert verify(table, independent, K2, persons=persons).passed
    assert not verify(frame(apart), SCHEMA, K2).passed


@pytest.mark.parametrize(
    ("persons", "words"),
    [
        (["1", "1", "1", "1", "3", "3"], "3 pseudonyms of 2 persons in 3 pairs"),
        (["1", "2", "4", "2", "3", "3"], "3 pseudonyms of 4 persons in 4 pairs"),
        (["1", "2", "2", "1", "3", "3"], "3 pseudonyms of 3 persons in 5 pairs"),
    ],
    ids=["one person of two pseudonyms", "one pseudonym of two persons", "exchanged rows"],
)
def test_a_pseudonym_of_other_than_one_person_is_refused(
    engine: LocalEngine, persons: list[str], words: str
) -> None:
    table = frame(ALIKE)
    with pytest.raises(VerificationError, match=words):
        verify(table, SCHEMA, K2, persons=np.array(persons, dtype=object))
    pairs = pd.DataFrame({PSEUDONYM: table["patient"], PERSON: persons})
    by_person = written(pairs, engine, "pairs")
    with pytest.raises(VerificationError, match=words):
        verify_files(engine, written(table, engine), SCHEMA, K2, by_person=by_person)


def test_own_pseudonyms_pass(engine: LocalEngine) -> None:
    table = frame(ALIKE)
    persons = table["patient"].map({"u": "3", "v": "1", "w": "2"})
    assert verify(table, SCHEMA, K2, persons=persons.to_numpy()).passed
    by_person = written(pd.DataFrame({PSEUDONYM: table["patient"], PERSON: persons}), engine, "pairs")
    assert verify_files(engine, written(table, engine), SCHEMA, K2, by_person=by_person).passed


def test_a_policy_that_forbids_pseudonyms_forbids_those_that_link_rows() -> None:
    for scope, passed in (("forbid", False), ("random", True)):
        *_, found = verify(frame(ALIKE), SCHEMA, replace(K2, pseudonyms=scope)).findings
        assert (found.rule, found.passed) == (f"pseudonyms: {scope}", passed)


def test_without_the_pseudonyms_nothing_is_verified(engine: LocalEngine) -> None:
    table = frame(ALIKE).drop(columns="patient")
    with pytest.raises(VerificationError, match="patient"):
        verify(table, SCHEMA, K2)
    hidden = DataSchema(SCHEMA.attributes[1:], SCHEMA.person)
    with pytest.raises(VerificationError, match="must have the pseudonyms, patient"):
        verify(table, hidden, K2)
    with pytest.raises(VerificationError, match="must have the pseudonyms, patient"):
        verify_files(engine, written(table, engine), hidden, K2)


def test_a_planted_pseudonym_fails_where_rows_are_independent(engine: LocalEngine) -> None:
    independent = DataSchema(SCHEMA.attributes[1:], Person(column="patient"))
    table = frame(ALIKE)
    with pytest.raises(VerificationError, match=r"\['patient'\] are not in the schema"):
        verify(table, independent, K2, persons=table["patient"].to_numpy())
    with pytest.raises(VerificationError, match=r"\['patient'\] are not in the schema"):
        verify_files(engine, written(table, engine), independent, K2, by_person=written(table, engine))
    with pytest.raises(SchemaError, match="role must be identifier"):
        DataSchema(SCHEMA.attributes, Person(column="patient"))


def test_neither_a_privacy_loss_nor_a_history_is_of_trajectories() -> None:
    loss = PrivacyLoss(epsilon=1.0, neighbours="add_remove")
    with pytest.raises(VerificationError, match="must not link the rows"):
        verify(frame(ALIKE), SCHEMA, K2, loss=loss)
    across = ReleasePolicy(require=K2.require, across=(CrossReleaseKAnonymity(k=2),))
    with pytest.raises(VerificationError, match="follows one record per person"):
        verify(frame(ALIKE), SCHEMA, across, persons=frame(ALIKE)["patient"].to_numpy())


def test_the_schema_of_a_release_is_no_schema_of_a_source() -> None:
    with pytest.raises(SchemaError, match="a release has a pseudonym instead"):
        EncodedTable.encode(frame(ALIKE), SCHEMA)


def test_a_schema_with_linked_rows_reads_back() -> None:
    assert DataSchema.from_yaml(SCHEMA.to_yaml()) == SCHEMA
    assert SCHEMA.person == Person.from_dict({"column": "patient", "rows": "linked"})
    assert SCHEMA.with_pseudonym() == SCHEMA


@pytest.mark.parametrize("given", [{"none": "x", "rows": "linked"}, {"column": "a", "rows": "both"}])
def test_a_person_that_cannot_be_linked_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(SchemaError, match="rows"):
        Person.from_dict(given)
