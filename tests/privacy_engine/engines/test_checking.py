"""Judging files by counts: the very report and risks that the records give, and what must fail does."""

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.engines.checking import examine_files, sensitive_values, verify_files
from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import SchemaError, VerificationError
from privacy_engine.measures.risk import figures
from privacy_engine.tables.classes import Classes, CountedClasses, EquivalenceClasses, SensitiveValues
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.persons import Person
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification import known_rows
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    Distance,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    TCloseness,
)
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.tally import tallied
from privacy_engine.verification.verify import CountedRecords, Report, verify, verify_tallies
from tests.privacy_engine.engines.tables import written
from tests.servers.memory import needs_proc, run_alone

NAN = float("nan")
TREE = Hierarchy((("flu", "lung", "*"), ("cold", "lung", "*"), ("gout", "joint", "*"), ("cyst", "skin", "*")))
SCHEMA = DataSchema.from_dict(
    {
        "zip": {"role": "quasi_identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric"},
        "ill": {"role": "sensitive", "hierarchy": "tree", "nullable": True},
        "pay": {"role": "sensitive", "kind": "numeric", "nullable": True},
        "mood": {"role": "sensitive", "kind": "ordinal", "categories": ["low", "high"]},
        "note": {"kind": "numeric"},
    },
    {"tree": TREE},
)
TYPES = {
    "zip": pa.string(),
    "age": pa.float64(),
    "ill": pa.string(),
    "pay": pa.float64(),
    "mood": pa.string(),
    "note": pa.int64(),
}
POLICY = ReleasePolicy(
    require=(
        KAnonymity(k=3),
        DistinctLDiversity(l=2),
        DistinctLDiversity(l=2, attribute="mood"),
        EntropyLDiversity(l=1.5),
        RecursiveCLDiversity(c=2, l=2),
        TCloseness(t=0.3),
        TCloseness(t=0.3, distance=Distance.ORDERED, attribute="pay"),
        TCloseness(t=0.3, distance=Distance.ORDERED, attribute="mood"),
        TCloseness(t=0.3, distance=Distance.HIERARCHICAL, attribute="ill"),
        AlphaKAnonymity(alpha=0.6, k=2),
        BetaLikeness(beta=0.7),
        BetaLikeness(beta=0.7, enhanced=True),
        DeltaDisclosure(delta=1),
    )
)
records = st.lists(
    st.tuples(
        st.sampled_from(["a", "A", "*", None]),
        st.sampled_from([0.0, -0.0, 1.0, NAN, None]),
        st.sampled_from(["flu", "cold", "gout", None]),
        st.sampled_from([10.0, 9.0, 0.0, -0.0, NAN, None]),
        st.sampled_from(["high", "low", "odd", "even"]),  # two that are no category
        st.just(1),
    ),
    max_size=40,
)
few = settings(
    max_examples=settings.default.max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def bit_by_bit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """An engine that takes few records at a time."""
    spill = tmp_path_factory.mktemp("spill")
    with LocalEngine(memory=500_000_000, spill=spill, records=2) as engine:
        yield engine


def table_of(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(TYPES)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, TYPES.values(), strict=True)]
    return pa.table(arrays, names=list(TYPES))


@few
@given(records, st.integers(1, 3), st.integers(1, 9), st.booleans())
def test_the_report_of_the_files_is_the_report_of_the_records(
    local: LocalEngine,
    bit_by_bit: LocalEngine,
    tmp_path: Path,
    rows: list[tuple[object, ...]],
    files: int,
    group: int,
    parts: bool,
) -> None:
    table = table_of(rows)
    paths = written(table, tmp_path, files=files, rows=group)
    frame = to_frame(table)
    engine = bit_by_bit if parts else local
    assert verify_files(engine, paths, SCHEMA, POLICY) == verify(frame, SCHEMA, POLICY)
    examined = examine_files(engine, paths, SCHEMA, POLICY)
    classes = EquivalenceClasses.of_table(frame, SCHEMA)
    assert examined.report == verify(frame, SCHEMA, POLICY)
    assert examined.risk == figures(classes)
    assert examined.sizes == Counter(classes.sizes.tolist())


@few
@given(records, st.data(), st.integers(1, 3), st.booleans())
def test_persons_in_files_are_counted_as_those_in_memory(
    local: LocalEngine,
    bit_by_bit: LocalEngine,
    tmp_path: Path,
    rows: list[tuple[object, ...]],
    data: st.DataObject,
    files: int,
    parts: bool,
) -> None:
    persons = np.array(
        data.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows))), np.int64
    )
    table = table_of(rows)
    (tmp_path / "counted").mkdir(exist_ok=True)
    paths = written(table, tmp_path, files=files, rows=3)
    counted = written(
        table.append_column("who", pa.array(persons)), tmp_path / "counted", files=files, rows=2
    )
    schema, frame = replace(SCHEMA, person=Person(column="who")), to_frame(table)
    engine = bit_by_bit if parts else local
    report = verify(frame, schema, POLICY, persons=persons)
    assert verify_files(engine, paths, schema, POLICY, by_person=counted) == report
    examined = examine_files(engine, paths, schema, POLICY, by_person=counted)
    classes = EquivalenceClasses.of_table(frame, schema, persons)
    assert examined.report == report
    left = {name: classes.values_left(name) for name in classes.sensitive}
    assert examined.risk == pytest.approx(figures(classes) | known_rows.figures(left, POLICY.require))
    assert examined.sizes == Counter(classes.people.tolist())


def test_files_are_not_counted_by_rows_where_persons_are_named(local: LocalEngine, tmp_path: Path) -> None:
    schema = replace(SCHEMA, person=Person(column="who"))
    paths = written(table_of([("a", 1.0, "flu", 1.0, "low", 1)]), tmp_path)
    for judge in (verify_files, examine_files):
        with pytest.raises(VerificationError, match="rows are not people"):
            judge(local, paths, schema, POLICY)


def split(classes: EquivalenceClasses, parts: int) -> list[CountedClasses]:
    """Every n-th class, with the values of the whole table."""
    values = {}
    for name, column in classes.sensitive.items():
        counts = np.bincount(column.codes, minlength=column.size)
        values[name] = SensitiveValues(
            pd.Series(range(column.size)),
            np.arange(column.size, dtype=np.int32),
            column.size,
            counts,
            column.hierarchy,
        )
    out = []
    for part in range(parts):
        chosen = np.flatnonzero(np.arange(len(classes)) % parts == part)
        entries = {}
        for name in classes.sensitive:
            counted = classes.counts(name)
            own = np.isin(counted.classes, chosen)[::-1]  # entries may come in any order
            entries[name] = (
                np.searchsorted(chosen, counted.classes[::-1][own]),
                counted.values[::-1][own],
                counted.counts[::-1][own],
            )
        out.append(CountedClasses.of_entries(classes.sizes[chosen], entries, values))
    return out


def judged(parts: Iterable[Classes], frame: pd.DataFrame) -> Report:
    """The report of classes that come part by part."""
    tally = tallied(parts, POLICY, SCHEMA, by_person=False, of_table=False)
    return verify_tallies(CountedRecords(columns=list(frame.columns), tallies=[tally]), SCHEMA, POLICY)


@few
@given(records, st.integers(1, 5))
def test_judging_part_by_part_is_judging_at_once(rows: list[tuple[object, ...]], parts: int) -> None:
    frame = to_frame(table_of(rows))
    whole = EquivalenceClasses.of_table(frame, SCHEMA)
    report = judged(split(whole, parts), frame)
    assert report == replace(verify(frame, SCHEMA, POLICY), unique_records={})


def test_no_part_at_all_is_an_empty_table() -> None:
    frame = to_frame(table_of([]))
    assert judged([], frame) == verify(frame, SCHEMA, POLICY)
    assert not judged([], frame).passed
    assert verify_tallies(CountedRecords(columns=list(frame.columns)), SCHEMA, POLICY) == judged([], frame)


def test_parts_are_let_go_one_by_one() -> None:
    """A part that is still held while the next is made would make two of them in memory."""
    frame = to_frame(table_of([("a", 1.0, "flu", 1.0, "low", 1), ("b", 1.0, "flu", 1.0, "low", 1)]))
    held: list[weakref.ref[Classes]] = []

    def parts() -> Iterator[Classes]:
        for _ in range(3):
            assert not [ref for ref in held[:-1] if ref() is not None]
            part = EquivalenceClasses.of_table(frame, SCHEMA)
            held.append(weakref.ref(part))
            yield part
            del part

    assert judged(parts(), frame).rows == 6


def test_eight_rows_are_judged_as_by_hand(local: LocalEngine, tmp_path: Path) -> None:
    schema = DataSchema.from_dict({"q": {"role": "quasi_identifier"}, "s": {"role": "sensitive"}})
    policy = ReleasePolicy(require=(KAnonymity(k=3), DistinctLDiversity(l=2), TCloseness(t=0.2)))
    for number, values in enumerate(itertools.product("ab", "xy", "xy", repeat=2)):
        if number % 7:
            continue
        q = ["a", "a", "a", values[0], values[3], "b", "b", "b"]
        s = ["x", "x", values[1], values[2], values[4], values[5], "x", "y"]
        paths = written(pa.table({"q": q, "s": s}), tmp_path, files=3, rows=2, name=f"t{number}")
        classes = [Counter(v for c, v in zip(q, s, strict=True) if c == name) for name in "ab"]
        whole = Counter(s)
        far = [sum(abs(c[v] / c.total() - whole[v] / 8) for v in "xy") / 2 for c in classes]
        found = verify_files(local, paths, schema, policy).findings
        assert found[0].measured == min(c.total() for c in classes)
        assert found[1].measured == min(len(+c) for c in classes)
        assert found[2].measured == pytest.approx(max(far), abs=1e-12)
        assert found[1].failing_rows == sum(c.total() for c in classes if len(+c) < 2)


@pytest.mark.slow  # many records; few records in parts are counted above
def test_a_class_of_one_record_too_few_fails_among_two_hundred_thousand(
    local: LocalEngine, tmp_path: Path
) -> None:
    schema = DataSchema.from_dict({"zip": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}})
    policy = ReleasePolicy(require=(KAnonymity(k=1000), DistinctLDiversity(l=5)))
    order = np.random.default_rng(1).permutation(200_000)
    frame = pd.DataFrame({"zip": (order % 200).astype(str), "ill": (order // 200 % 5).astype(str)})
    whole = verify_files(local, written(to_arrow(frame), tmp_path, files=3), schema, policy)
    assert whole.passed
    lacking = frame.drop(index=[np.flatnonzero(frame["zip"] == "77")[0]])
    paths = written(to_arrow(lacking), tmp_path, files=3, rows=5_000)
    with LocalEngine(memory=500_000_000, spill=tmp_path, records=400) as in_parts:
        for engine in (local, in_parts):
            report = verify_files(engine, paths, schema, policy)
            assert not report.passed
            measured = [(f.measured, f.failing_classes, f.failing_rows) for f in report.findings]
            assert measured == [(999.0, 1, 999), (5.0, 0, 0)]


def test_limits_on_loss_and_figures_are_held_as_for_records(local: LocalEngine, tmp_path: Path) -> None:
    table = table_of([("a", 1.0, "flu", 1.0, "low", 1)] * 4)
    policy = ReleasePolicy(require=(KAnonymity(k=4),), max_gcp=0.5, max_suppressed=0.1, max_epsilon=1.0)
    loss = PrivacyLoss(epsilon=2, delta=0, neighbours="add_remove")
    fields = {"gcp": 0.4}
    report = verify_files(local, written(table, tmp_path), SCHEMA, policy, loss=loss, figures=fields)
    assert report == verify(to_frame(table), SCHEMA, policy, loss=loss, figures=fields)
    assert [f.passed for f in report.findings] == [True, False, True, False]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.append_column("name", t["zip"]), r"identifiers \['name'\] are in the release"),
        (lambda t: t.drop_columns("zip"), r"columns \['zip'\] are missing"),
        (lambda t: t.append_column("shoe", t["zip"]), r"columns \['shoe'\] are not in the schema"),
        (lambda t: t.append_column("zip", t["zip"]), "distinct"),
    ],
    ids=["identifier", "missing", "unknown", "repeated"],
)
def test_columns_other_than_the_schemas_are_refused(
    local: LocalEngine, tmp_path: Path, spoil: Callable[[pa.Table], pa.Table], message: str
) -> None:
    schema = DataSchema.from_dict({"name": {"role": "identifier"}, **SCHEMA.to_dict()})
    paths = written(spoil(table_of([("a", 1.0, "flu", 1.0, "low", 1)])), tmp_path)
    with pytest.raises(VerificationError, match=message):
        verify_files(local, paths, schema, POLICY)
    with pytest.raises(VerificationError, match=message):
        examine_files(local, paths, schema, POLICY)


def test_a_model_across_releases_is_refused_without_its_findings(local: LocalEngine, tmp_path: Path) -> None:
    policy = ReleasePolicy(require=(KAnonymity(k=2),), across=(CrossReleaseKAnonymity(k=2),))
    with pytest.raises(VerificationError, match="Pass the findings"):
        verify_files(local, written(table_of([]), tmp_path), SCHEMA, policy)


@pytest.mark.parametrize("rows", [0, 3])
def test_a_model_that_cannot_be_measured_is_refused(local: LocalEngine, tmp_path: Path, rows: int) -> None:
    paths = written(pa.table({"zip": pa.array(["a"] * rows, pa.string())}), tmp_path)
    schema = DataSchema.from_dict({"zip": {"role": "quasi_identifier"}})
    for model in (DistinctLDiversity(l=2), TCloseness(t=0.1, attribute="zip")):
        with pytest.raises(SchemaError, match="sensitive attribute"):
            verify_files(local, paths, schema, ReleasePolicy(require=(model,)))


@pytest.mark.parametrize("null", [pa.null(), pa.string(), pa.float64(), pa.bool_()], ids=str)
def test_a_column_of_nulls_is_of_one_value(local: LocalEngine, tmp_path: Path, null: pa.DataType) -> None:
    schema = DataSchema.from_dict(
        {"q": {"role": "quasi_identifier"}, "s": {"role": "sensitive", "nullable": True}}
    )
    table = pa.table({"q": pa.nulls(4, null), "s": pa.nulls(4, null)})
    policy = ReleasePolicy(require=(KAnonymity(k=4), DistinctLDiversity(l=2), TCloseness(t=0)))
    report = verify_files(local, written(table, tmp_path), schema, policy)
    assert report == verify(to_frame(table), schema, policy)
    assert [f.measured for f in report.findings] == [4.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2**62, 2**62 + 1, None], pa.int64()),
        ([0, 2**64 - 1, 2**64 - 2], pa.uint64()),
        ([1.5, 0.1, None, NAN], pa.float32()),
        ([True, False, None], pa.bool_()),
        (["x", "y", None], pa.dictionary(pa.int8(), pa.string())),
        (["x", "y", None], pa.large_string()),
        (["1", "1.0", "01"], pa.string()),
    ],
    ids=str,
)
def test_sensitive_values_of_any_type_are_counted_as_they_are(
    local: LocalEngine, tmp_path: Path, values: list[object], kind: pa.DataType
) -> None:
    schema = DataSchema.from_dict(
        {"q": {"role": "quasi_identifier"}, "s": {"role": "sensitive", "kind": "ordinal", "nullable": True}}
    )
    table = pa.table(
        {"q": pa.array(values * 3, kind), "s": pa.array([*values, *values[::-1], *values], kind)}
    )
    policy = ReleasePolicy(
        require=(KAnonymity(k=3), TCloseness(t=0.1, distance="ordered"), DistinctLDiversity(l=2))
    )
    assert verify_files(local, written(table, tmp_path), schema, policy) == verify(
        to_frame(table), schema, policy
    )


def test_values_of_the_whole_table_are_coded_as_its_column(local: LocalEngine, tmp_path: Path) -> None:
    table = table_of(
        [
            ("a", 1.0, "gout", 2.0, "odd", 1),
            ("b", 1.0, None, None, "low", 1),
            ("b", 1.0, "flu", NAN, "low", 1),
        ]
    )
    found = sensitive_values(local, written(table, tmp_path, files=3), SCHEMA)
    whole = EquivalenceClasses.of_table(to_frame(table), SCHEMA)
    for name, column in whole.sensitive.items():
        assert (found[name].size, found[name].hierarchy) == (column.size, column.hierarchy)
        assert found[name].counts.tolist() == np.bincount(column.codes, minlength=column.size).tolist()
        assert found[name].prior == pytest.approx(found[name].counts / 3)


MEASURED = """
import sys
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.local import LocalEngine
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.tables.schema import DataSchema
from tests.servers.memory import peak

folder, rng, rows = Path(sys.argv[1]), np.random.default_rng(1), 100_000
path = str(folder / "large.parquet")
kind = pa.schema({"zip": pa.string(), "age": pa.int64(), "pay": pa.float64(), "ill": pa.string()})
with pq.ParquetWriter(path, kind) as writer:
    for _ in range(10):
        columns = [rng.integers(0, 10**5, rows).astype(str), rng.integers(0, 90, rows), rng.random(rows)]
        writer.write_table(pa.table([*columns, rng.integers(0, 30, rows).astype(str)], schema=kind))
schema = DataSchema.from_dict(
    {
        "zip": {"role": "quasi_identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric"},
        "pay": {"role": "quasi_identifier", "kind": "numeric"},
        "ill": {"role": "sensitive"},
    }
)
policy = ReleasePolicy(require=(KAnonymity(k=2), DistinctLDiversity(l=2), TCloseness(t=0.9)))
with LocalEngine(memory=200_000_000, spill=folder) as engine:
    report = verify_files(engine, [path], schema, policy)
assert (report.rows, report.classes, report.findings[0].failing_classes) == (1_000_000,) * 3
print(peak())
"""


@pytest.mark.slow  # only a process of a million rows shows that its memory is bounded
@needs_proc
def test_millions_of_classes_are_judged_within_the_memory_that_is_given(tmp_path: Path) -> None:
    # In memory the table and its classes are about 500 MB; the interpreter is 150 MB by itself.
    assert run_alone(MEASURED, tmp_path) < 400
    assert [path.name for path in tmp_path.iterdir()] == ["large.parquet"]
