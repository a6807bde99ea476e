"""Intervals as two typed bounds, as text and as midpoints: types, names, and equal findings."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privacy_engine.errors import SchemaError
from privacy_engine.judge.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.judge.policy import ReleasePolicy
from privacy_engine.judge.verification import verify
from privacy_engine.measures.recoding import Intervals, Recoding
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema

JOBS = Hierarchy((("clerk", "office", "*"), ("coder", "office", "*"), ("cook", "cook", "*")))
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric"},
        "born": {"role": "quasi_identifier", "kind": "date"},
        "job": {"role": "quasi_identifier", "hierarchy": "jobs"},
        "colour": {"role": "quasi_identifier"},
        "disease": {"role": "sensitive"},
    },
    {"jobs": JOBS},
)
LABELS = np.array([0, 0, 1, 1, 1])


def recoding(ages: object = None, *, nullable: bool = False) -> Recoding:
    fields = SCHEMA.to_dict()
    fields["age"] |= {"nullable": nullable}
    table = pd.DataFrame(
        {
            "name": list("abcde"),
            "age": [30, 41, 22, 20, 21] if ages is None else ages,
            "born": [dt.date(2000, 1, day) for day in (5, 2, 9, 9, 9)],
            "job": ["clerk", "coder", "cook", "cook", "cook"],
            "colour": ["red", "blue", "red", "red", "red"],
            "disease": ["flu", "gout", "flu", "gout", "gout"],
        }
    )
    encoded = EncodedTable.encode(table, DataSchema.from_dict(fields, {"jobs": JOBS}))
    return Recoding(encoded, LABELS[encoded.rows])


@pytest.mark.parametrize("nullable", [False, True])
def test_bounds_have_the_type_of_the_source_to_the_last_digit(nullable: bool) -> None:
    exact = [2**60 + 1, 2**60 + 3, 7, 5, 6]
    whole, _ = recoding(pd.array(exact, dtype="Int64"), nullable=nullable).render(Intervals.BOUNDS)
    kinds = pa.Schema.from_pandas(whole)
    assert kinds.field("age_from").type == kinds.field("age_to").type == pa.int64()
    assert kinds.field("born_from").type == pa.date32()
    ends = {(int(a), int(b)) for a, b in zip(whole["age_from"], whole["age_to"], strict=True)}
    assert ends == {(2**60 + 1, 2**60 + 3), (5, 7)}
    kind = pa.decimal128(30, 2)
    money = [Decimal("12345678901234567890.01"), Decimal("12345678901234567890.03"), *map(Decimal, "756")]
    column = pd.array(money, dtype=pd.ArrowDtype(kind))
    shown, _ = recoding(column, nullable=nullable).render(Intervals.BOUNDS)
    assert pa.Schema.from_pandas(shown).field("age_to").type == kind
    assert {str(end) for end in shown["age_to"]} == {"12345678901234567890.03", "7.00"}


def test_the_type_of_bounds_does_not_depend_on_the_classes() -> None:
    column = pd.array([None, None, 22, 20, 21], dtype="Int64")
    table, _ = recoding(column, nullable=True).render(Intervals.BOUNDS)
    assert str(table["age_from"].dtype) == "Int64"
    assert table["age_from"].isna().tolist() == table["age_null"].tolist()
    assert int(table["age_null"].sum()) == 2


@pytest.mark.parametrize("taken", ["age_from", "age_to", "age_null"])
def test_a_column_that_has_the_name_of_a_bound_is_refused_by_name(taken: str) -> None:
    fields = {
        "age": {"role": "quasi_identifier", "kind": "numeric", "nullable": taken == "age_null"},
        taken: {},
    }
    schema = DataSchema.from_dict(fields)
    table = pd.DataFrame({"age": [1.0, 2.0], taken: ["a", "b"]})
    recoded = Recoding(EncodedTable.encode(table, schema), np.zeros(2, dtype=np.int64))
    with pytest.raises(SchemaError, match=rf"\['{taken}'\] must be free.*intervals: text"):
        recoded.render(Intervals.BOUNDS)
    assert list(recoded.render(Intervals.TEXT)[0].columns) == ["age", taken]


def test_one_recoding_has_the_same_findings_in_its_three_forms() -> None:
    policy = ReleasePolicy(require=(KAnonymity(k=2), DistinctLDiversity(l=2), TCloseness(t=0.05)))
    found = []
    for intervals in Intervals:
        table, released = recoding().render(intervals)
        found.append([(f.rule, f.measured, f.passed) for f in verify(table, released, policy).findings])
        quasi = [a.name for a in released.quasi_identifiers]
        groups = table.groupby(quasi, dropna=False)["disease"]
        assert sorted(groups.size()) == [2, 3]
        assert groups.nunique().min() == 2
    assert found[0] == found[1] == found[2]
    assert [passed for _, _, passed in found[0]] == [True, True, False]
