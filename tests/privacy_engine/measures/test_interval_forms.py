"""Intervals as two typed bounds, as text and as midpoints: types, names, and equal findings."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privacy_engine.anonymizers.cell_suppression import with_flat_domains
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import SchemaError
from privacy_engine.measures.recoding import Recoding, null_forms
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_engine.vocabulary import SUPPRESSED, Intervals

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
    with pytest.raises(SchemaError, match=rf"'{taken}' .* bound of 'age'.*rename.*intervals: text"):
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


SMALL = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "nullable": True},
        "wage": {"role": "quasi_identifier", "kind": "numeric"},
        "born": {"role": "quasi_identifier", "kind": "date", "precision": "month", "nullable": True},
        "job": {"role": "quasi_identifier", "hierarchy": "jobs", "nullable": True},
        "colour": {"role": "quasi_identifier", "nullable": True},
        "disease": {"role": "sensitive", "nullable": True},
    },
    {"jobs": JOBS},
)
DAYS = [dt.date(2000, month, day) for month in (1, 2, 12) for day in (1, 28)]
ROW = st.tuples(
    st.sampled_from([None, 20, 21, 2**60, 2**60 + 1]),
    st.sampled_from([-0.1, 0.0, 0.1, 7.5]),
    st.sampled_from([None, *DAYS]),
    st.sampled_from([None, *JOBS.values]),
    st.sampled_from([None, "red", "null", "{red, null}", "*"]),
    st.sampled_from([None, "flu", "gout"]),
)
MODELS = (KAnonymity(k=2), DistinctLDiversity(l=2), TCloseness(t=0.3))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    folder = tmp_path_factory.mktemp("spill")
    with LocalEngine(memory=300_000_000, spill=folder, processes=1) as running:
        yield running


def counted(
    table: pd.DataFrame, released: DataSchema, engine: LocalEngine
) -> tuple[object, object, list[int]]:
    """k, l and t of the bytes, by the engine and by the frame read back from them."""
    file = Path(engine.spill) / "release.parquet"
    pq.write_table(to_arrow(table), file)
    policy = ReleasePolicy(require=MODELS)
    report = verify_files(engine, [str(file)], released, policy)
    again = EquivalenceClasses.of_table(to_frame(pq.read_table(file)), released)
    assert [model.measure(again) for model in MODELS] == pytest.approx([f.measured for f in report.findings])
    return (
        [(f.rule, f.measured, f.passed) for f in report.findings],
        (report.rows, report.classes),
        sorted(again.sizes.tolist()),
    )


@settings(
    max_examples=settings.default.max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(st.tuples(ROW, st.integers(-1, 2)), min_size=2, max_size=10))
def test_the_bytes_of_every_form_have_the_same_classes(
    engine: LocalEngine, rows: list[tuple[tuple[object, ...], int]]
) -> None:
    """Suppressed records (label -1) and nulls among them; a class may be of nulls alone, or of both."""
    table = pd.DataFrame([row for row, _ in rows], columns=list(SMALL.names))
    types = {
        "age": "Int64",
        "born": "date32[pyarrow]",
        "job": "string",
        "colour": "string",
        "disease": "string",
    }
    table = table.astype(types)
    encoded = EncodedTable.encode(table, SMALL)
    labels = np.array([label for _, label in rows])[encoded.rows]
    if (labels < 0).all():
        labels[:] = 0
    recoding = Recoding.of_labels(encoded, labels)
    text, bounds = (counted(*recoding.render(form), engine) for form in (Intervals.TEXT, Intervals.BOUNDS))
    assert text == bounds
    shown = recoding.render(Intervals.BOUNDS)[0]
    for name in ("age", "born"):
        unknown = shown[f"{name}_from"].isna()
        assert (unknown == shown[f"{name}_to"].isna()).all()
        assert shown.loc[unknown, f"{name}_null"].all()


@settings(
    max_examples=settings.default.max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(st.tuples(ROW, st.integers(-1, 2)), min_size=2, max_size=10))
def test_midpoints_have_the_same_classes_or_fewer(
    engine: LocalEngine, rows: list[tuple[tuple[object, ...], int]]
) -> None:
    """Two intervals may have one middle; then their records are one class, and never a smaller one."""
    schema = SMALL.select(["wage", "job", "colour", "disease"])
    table = pd.DataFrame([row for row, _ in rows], columns=list(SMALL.names))[list(schema.names)]
    encoded = EncodedTable.encode(table.astype(dict.fromkeys(["job", "colour", "disease"], "string")), schema)
    labels = np.array([max(label, 0) for _, label in rows])[encoded.rows]
    recoding = Recoding.of_labels(encoded, labels)
    shown, released = recoding.render_by_row(Intervals.BOUNDS)
    middle, reduced = recoding.render_by_row(Intervals.MIDPOINT)
    named = shown[["wage_from", "wage_to", "job", "colour"]].assign(wage=middle["wage"].loc[shown.index])
    one_middle = named.groupby(["wage_from", "wage_to"])["wage"].nunique()
    assert (one_middle == 1).all()
    merged = named[["wage", "job", "colour"]].drop_duplicates()
    of_middle, of_bounds = counted(middle, reduced, engine), counted(shown, released, engine)
    if len(merged) == len(named.drop_duplicates()):
        assert of_middle == of_bounds
    else:
        assert min(of_middle[2]) >= min(of_bounds[2])


FLAT = DataSchema.from_dict(
    {
        "wage": {"role": "quasi_identifier", "kind": "numeric"},
        "born": {"role": "quasi_identifier", "kind": "date", "precision": "month"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "nullable": True},
        "disease": {"role": "sensitive", "nullable": True},
    }
)


@settings(
    max_examples=settings.default.max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(st.tuples(ROW, st.integers(-1, 2)), min_size=2, max_size=10))
def test_suppressed_bounds_are_counted_as_the_asterisks_of_the_text(
    engine: LocalEngine, rows: list[tuple[tuple[object, ...], int]]
) -> None:
    """What may be missing at the source stays text, where a null and an asterisk are two values."""
    table = pd.DataFrame([row for row, _ in rows], columns=list(SMALL.names))[list(FLAT.names)]
    table = table.assign(born=table["born"].fillna(DAYS[0])).astype({"age": "Int64", "disease": "str"})
    encoded = with_flat_domains(EncodedTable.encode(table, FLAT))
    labels = np.array([label for _, label in rows])[encoded.rows]
    if (labels < 0).all():
        labels[:] = 0
    recoding = Recoding.of_labels(encoded, labels)
    (text, schema), (bounds, typed) = (
        recoding.render_by_row(form) for form in (Intervals.TEXT, Intervals.BOUNDS)
    )
    assert counted(text, schema, engine) == counted(bounds, typed, engine)
    bounds = bounds.loc[text.index]
    for name in ("wage", "born"):
        withheld = text[name] == "*"
        assert (bounds[f"{name}_from"].isna() == withheld).all()
        assert (bounds[f"{name}_to"].isna() == withheld).all()
    assert bounds["age"].equals(text["age"])
    reported = null_forms(encoded.schema, typed)
    assert {name for name, said in reported.items() if said == SUPPRESSED} == set(bounds.columns[:4])


@pytest.mark.parametrize("cells", ["bounds", "suppressed"])
def test_one_class_of_less_than_k_in_typed_columns_is_refused(engine: LocalEngine, cells: str) -> None:
    table = pd.DataFrame(
        {
            "wage": [1.5, 2.5, 3.5, 8.0, 8.0, 8.0],
            "born": [dt.date(2000, month, 1) for month in (1, 2, 3, 4, 4, 4)],
            "age": pd.array([30] * 6, dtype="Int64"),
            "disease": ["flu", "gout", "cold"] * 2,
        }
    )
    encoded = EncodedTable.encode(table, FLAT)
    if cells == "suppressed":
        encoded = with_flat_domains(encoded)
    labels = (encoded.rows >= 3).astype(np.int64)
    released, schema = Recoding.of_labels(encoded, labels).render(Intervals.BOUNDS)
    assert released["wage_from"].isna().sum() == (3 if cells == "suppressed" else 0)
    policy = ReleasePolicy(require=(KAnonymity(k=3), DistinctLDiversity(l=3)))
    file = Path(engine.spill) / "release.parquet"
    for lost in (None, 0, len(released) - 1):
        kept = released if lost is None else released.drop(index=lost)
        pq.write_table(to_arrow(kept), file)
        report = verify_files(engine, [str(file)], schema, policy)
        assert report.passed == (lost is None)
        assert [f.measured for f in report.findings[:2]] == ([3, 3] if lost is None else [2, 2])
