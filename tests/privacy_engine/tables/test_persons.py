"""Classes counted by persons: compared with the definitions, written out over each row, and with rows."""

import itertools
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.measures import risk
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.persons import Person
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    PrivacyModel,
    RecursiveCLDiversity,
    TCloseness,
)

SCHEMA = DataSchema.from_dict(
    {
        "patient": {"role": "identifier"},
        "zip": {"role": "quasi_identifier"},
        "illness": {"role": "sensitive", "categories": ["a", "b", "c", "d"]},
        "person": "patient",
    }
)
MODELS: tuple[PrivacyModel, ...] = (
    KAnonymity(k=2),
    DistinctLDiversity(l=2),
    EntropyLDiversity(l=1.5),
    RecursiveCLDiversity(c=2, l=2),
    TCloseness(t=0.3),
    TCloseness(t=0.3, distance="ordered"),
    AlphaKAnonymity(alpha=0.6, k=2),
    BetaLikeness(beta=1.0),
    DeltaDisclosure(delta=1.0),
)
Row = tuple[str, str, int]
rows_of_people = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from("abcd"), st.integers(0, 4)), min_size=1, max_size=12
)


def classes_of(rows: list[Row], *, by_person: bool = True) -> EquivalenceClasses:
    table = pd.DataFrame(rows, columns=["zip", "illness", "patient"])
    released = SCHEMA.without_identifiers()
    persons = table["patient"].to_numpy() if by_person else None
    return EquivalenceClasses.of_table(table.drop(columns="patient"), released, persons)


def shares(rows: list[Row]) -> dict[str, float]:
    """q of the definition: every person weighs one, in equal parts for each of their values."""
    had = {person: {s for _, s, p in rows if p == person} for _, _, person in rows}
    return {
        s: sum(1 / len(values) for values in had.values() if s in values) / len(had)
        for s in sorted(set().union(*had.values()))
    }


def measured(model: PrivacyModel, rows: list[Row]) -> float:
    """The worst class, by the definitions."""
    whole = shares(rows)
    found = []
    for place in {z for z, _, _ in rows}:
        own = [row for row in rows if row[0] == place]
        q, persons = shares(own), {p for _, _, p in own}
        had = [frozenset(s for _, s, x in own if x == p) for p in persons]
        match model:
            case KAnonymity():
                found.append(len(persons))
            case DistinctLDiversity():
                found.append(min(len(q), len(set(had))))
            case EntropyLDiversity():
                found.append(math.exp(-sum(x * math.log(x) for x in q.values())))
            case RecursiveCLDiversity():
                ranked = sorted(q.values(), reverse=True)
                tail = sum(ranked[model.l - 1 :])
                found.append(ranked[0] / tail if tail else math.inf)
            case TCloseness(distance="equal"):
                found.append(sum(abs(q.get(s, 0) - whole[s]) for s in whole) / 2)
            case TCloseness():
                steps = [q.get(s, 0) - whole[s] for s in whole]
                gaps = itertools.accumulate(steps[:-1])
                found.append(sum(map(abs, gaps)) / max(len(whole) - 1, 1))
            case AlphaKAnonymity():
                largest = max(Counter(s for values in had for s in values).values()) / len(persons)
                found.append(largest if len(persons) >= model.k else math.inf)
            case BetaLikeness():
                found.append(max(max((q[s] - whole[s]) / whole[s], 0) for s in q))
            case DeltaDisclosure():
                gains = [abs(math.log(q[s] / whole[s])) for s in q]
                found.append(math.inf if len(q) < len(whole) else max(gains))
    return min(found) if model.at_least else max(found)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model))
@given(rows=rows_of_people)
def test_a_model_counts_persons_as_its_definition_says(model: PrivacyModel, rows: list[Row]) -> None:
    assert model.measure(classes_of(rows)) == pytest.approx(measured(model, rows), rel=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model))
@given(rows=rows_of_people)
def test_with_one_row_a_person_every_model_is_measured_as_of_rows(
    model: PrivacyModel, rows: list[Row]
) -> None:
    rows = [(place, illness, i) for i, (place, illness, _) in enumerate(rows)]
    by_person, by_row = classes_of(rows), classes_of(rows, by_person=False)
    assert model.measure(by_person) == pytest.approx(model.measure(by_row), rel=1e-6)
    assert model.violations(by_person).tolist() == model.violations(by_row).tolist()


@given(rows=rows_of_people)
def test_with_one_row_a_person_every_risk_is_that_of_rows(rows: list[Row]) -> None:
    rows = [(place, illness, i) for i, (place, illness, _) in enumerate(rows)]
    by_person, by_row = classes_of(rows), classes_of(rows, by_person=False)
    assert risk.figures(by_person) == pytest.approx(risk.figures(by_row))


@given(rows=rows_of_people)
def test_merging_classes_never_lowers_k(rows: list[Row]) -> None:
    merged = [("x" if place == "y" else place, illness, person) for place, illness, person in rows]
    assert KAnonymity(k=2).measure(classes_of(merged)) >= KAnonymity(k=2).measure(classes_of(rows))


@given(rows=rows_of_people)
def test_no_one_is_covered_more_than_once(rows: list[Row]) -> None:
    counts = classes_of(rows).counts("illness")
    assert (counts.coverage <= 1).all()
    assert np.bincount(counts.classes, weights=counts.shares) == pytest.approx(1)


def test_ten_persons_who_all_have_the_same_values_are_not_diverse() -> None:
    rows = [("x", illness, person) for person in range(10) for illness in "abc"]
    classes = classes_of(rows)
    assert DistinctLDiversity(l=2).measure(classes) == 1
    assert DistinctLDiversity(l=2).measure(classes_of(rows, by_person=False)) == 3
    assert risk.hasr(classes) == 1


def test_the_smallest_class_and_its_risk_are_of_persons() -> None:
    rows = [("x", "a", 1)] * 20 + [("y", "b", person) for person in range(5)]
    figures = risk.figures(classes_of(rows))
    assert figures["smallest_class"] == 1
    assert figures["prosecutor_max"] == 1
    assert figures["share_at_risk"] == 20 / 25


def test_a_schema_with_a_person_is_read_back() -> None:
    again = DataSchema.from_dict(SCHEMA.to_dict())
    assert (again, again.by) == (SCHEMA, "patient")
    released = DataSchema.from_json(SCHEMA.without_identifiers().to_json())
    assert (released.by, released.names) == ("patient", ("zip", "illness"))


def test_a_column_may_be_called_person() -> None:
    fields = {"person": {"role": "identifier", "column": "person"}, "zip": {"role": "quasi_identifier"}}
    schema = DataSchema.from_dict(fields)
    assert (schema.by, schema.names) == ("person", ("person", "zip"))
    assert DataSchema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("person", "words"),
    [
        ("none", "requires the reason"),
        ({"none": " "}, "not blank"),
        ({"none": "households", "column": "patient"}, "each row belongs to another person"),
        ({"column": 7}, "text"),
        (7, "mapping"),
        ({"column": "patient", "max": 3}, "unknown fields"),
        ("zip", "role must be identifier"),
    ],
)
def test_a_wrong_person_is_refused(person: object, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        DataSchema.from_dict({**SCHEMA.to_dict(), "person": person})


def test_a_record_without_a_person_is_refused() -> None:
    table = pd.DataFrame({"patient": ["p", None], "zip": ["1", "2"], "illness": ["a", "b"]})
    with pytest.raises(SchemaError, match="patient: 1 record is without a person"):
        SCHEMA.check(table)


def test_a_person_needs_a_column_or_a_reason() -> None:
    with pytest.raises(SchemaError):
        Person()
