"""Nulls in quasi-identifiers: every anonymizer, recounted by hand and read back cell by cell."""

import itertools
import os
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import (
    DataSchema,
    EquivalenceClasses,
    InfeasibleError,
    KAnonymity,
    Release,
    ReleasePolicy,
    SchemaError,
    TCloseness,
    load_method,
    verify,
)
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.frames import to_arrow
from privacy_engine.engines.local import LocalEngine
from privacy_engine.measures import utility
from privacy_engine.measures.distributions import tallies
from privacy_engine.measures.recoding import Recoding
from privacy_engine.tables.columns import NULL
from privacy_engine.tables.encoding import EncodedTable, OrderedDomain
from privacy_engine.vocabulary import Intervals
from tests.contract.released_cells import a_set, interval, is_null, node
from tests.contract.tables import CITIES, family, quick

GRADES = ("low", "mid", "high or null")
FIELDS = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100], "nullable": True},
    "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": list(GRADES), "nullable": True},
    "city": {"role": "quasi_identifier", "hierarchy": "cities", "nullable": True},
    "colour": {"role": "quasi_identifier", "categories": ["red", "green", "null"], "nullable": True},
    "disease": {"role": "sensitive", "nullable": True},
}
SCHEMA = DataSchema.from_dict(FIELDS, {"cities": CITIES})
QUASI = [a.name for a in SCHEMA.quasi_identifiers]
POLICY = ReleasePolicy(require=(KAnonymity(k=4),))
methods = pytest.mark.parametrize("name", family(Anonymizer))


def people(n: int = 120, seed: int = 3, share: float = 0.2) -> pd.DataFrame:
    """Records, a share of whose cells is null."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(np.float64),
            "grade": rng.choice(GRADES, n),
            "city": rng.choice(CITIES.values, n),
            "colour": rng.choice(["red", "green", "null"], n),
            "disease": rng.choice(["flu", "cold", "gout"], n),
        }
    )
    return table.mask(rng.random(table.shape) < share)


def covers(attribute: str, cell: object, value: object) -> bool:
    """Whether a released cell says that the value may be this one."""
    read = {"age": interval, "grade": interval, "city": lambda c: node(c, CITIES), "colour": a_set}
    found = read[attribute](cell)
    if is_null(value):
        return found.null
    if attribute == "age":
        return bool(found.values) and float(found.values[0]) <= value <= float(found.values[1])
    if attribute == "grade":
        ends = [GRADES.index(str(v).strip('"')) for v in found.values]
        return bool(ends) and ends[0] <= GRADES.index(value) <= ends[1]
    return value in found.values


def loss(attribute: str, cell: object) -> float:
    """NCP of a released cell by its text only; a null is a separate value next to the root."""
    if is_null(cell):
        return 0.0
    if attribute == "city":
        under = len(node(cell, CITIES).values)
        return 1.0 if cell == "*" else (under > 1) * under / (len(CITIES.values) + 1)
    found = a_set(cell) if attribute == "colour" else interval(cell)
    if attribute == "colour":
        return float(len(found.values) + found.null > 1)
    if found.null:
        return 1.0
    if attribute == "age":
        return (float(found.values[1]) - float(found.values[0])) / 100
    low, high = (GRADES.index(str(v).strip('"')) for v in found.values)
    return (high - low) / 2


def classes_of(release: Release) -> dict[tuple[object, ...], list[object]]:
    """The sensitive values of the records that are equal in all else, nulls as None."""
    rows = release.table.astype(object).where(release.table.notna(), None)
    found = defaultdict(list)
    names = [a.name for a in release.schema.quasi_identifiers]
    for row in rows.to_dict("records"):
        found[tuple(row[name] for name in names)].append(row["disease"])
    return found


def released(name: str, table: pd.DataFrame, *, intervals: str = "text", **parameters: object) -> Release:
    """A release whose cells the readers of text can read."""
    method = quick(name, k=4, intervals=intervals, **parameters)
    return method.release(table, SCHEMA, np.random.default_rng(7))


@cache
def once(name: str, seed: int, share: float) -> Release:
    """The release of `people` of that seed and share of nulls, for reading only."""
    return released(name, people(seed=seed, share=share))


def assert_truthful(release: Release, table: pd.DataFrame) -> None:
    shown = [name for name in QUASI if name in release.table.columns]
    for position, row in enumerate(release.rows):
        for name in shown:
            assert covers(name, release.table[name].iloc[position], table[name].iloc[row]), name


@methods
def test_every_cell_covers_its_value_nulls_included(name: str) -> None:
    for seed, share in ((5, 0.02), (2, 0.3), (3, 0.9)):
        assert_truthful(once(name, seed, share), people(seed=seed, share=share))


@methods
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_k_l_and_t_hold_by_a_recount_of_the_released_rows(name: str, share: float) -> None:
    table = people(160, share=share)
    t = TCloseness(t=0.35, attribute="disease")
    release = released(name, table, l=2, require=(t,))
    classes = classes_of(release)
    whole = Counter(itertools.chain.from_iterable(classes.values()))
    total = whole.total()
    assert total == len(table)
    for values in classes.values():
        counts = Counter(values)
        assert len(values) >= 4
        assert len(counts) >= 2
        away = sum(abs(counts[v] / len(values) - whole[v] / total) for v in whole) / 2
        assert away <= 0.35 + 1e-9
    assert verify(release.table, release.schema, ReleasePolicy(require=release.guarantees)).passed


@methods
# With two nulls in a hundred, some must be among values.
@pytest.mark.parametrize(("seed", "share"), [(5, 0.02), (2, 0.3)])
def test_the_loss_is_that_of_the_released_cells(name: str, seed: int, share: float) -> None:
    release = once(name, seed, share)
    expected = [
        release.table[a].map(lambda cell, a=a: loss(a, cell)).mean() if a in release.table else 1.0
        for a in QUASI
    ]
    assert utility.ncp(release.recoding) == pytest.approx(expected)


@methods
def test_what_measures_take_a_cell_to_cover_is_what_it_says(name: str) -> None:
    """Entropy, the error of queries and the distributions all ask `Cover`; each class, each code."""
    recoding = once(name, 2, 0.3).recoding
    rows = recoding.render_by_row(Intervals.TEXT)[0]
    label_of = dict(zip(recoding.encoded.rows, recoding.labels, strict=True))
    first = rows.assign(label=[label_of[row] for row in rows.index]).drop_duplicates("label")
    for j, cover in enumerate(utility.covers(recoding)):
        domain, column = recoding.encoded.domains[j], QUASI[j]
        if column not in rows:
            continue
        labels = domain.labels if isinstance(domain, OrderedDomain) else domain.values
        for code, text in enumerate(labels):
            value = None if text == NULL else float(text) if column == "age" else text
            reported = cover.total(np.eye(len(labels))[code])
            for cell, label in zip(first[column], first["label"], strict=True):
                assert reported[label] == covers(column, cell, value)


def test_distributions_count_nulls_beside_the_values() -> None:
    table = people(300)
    recoding = released("mondrian", table).recoding
    for tally in tallies(recoding, SCHEMA.quasi_identifiers):
        assert tally.groups[-1] == "null"
        assert tally.before[-1] == table[tally.attribute].isna().sum()
        assert sum(tally.before) == 300
        assert sum(tally.after) == pytest.approx(300)
        assert 0 < tally.after[-1] < 300


def test_queries_about_nulls_alone_are_answered_where_nothing_is_lost() -> None:
    table = pd.concat([people(20, share=0.3)] * 6, ignore_index=True)
    release = load_method("mondrian", k=5).release(table, SCHEMA, np.random.default_rng(0))
    assert utility.gcp(release.recoding) == 0
    assert utility.query_error(release.recoding, np.random.default_rng(1)) == 0


@pytest.mark.quick("4", "1")
@methods
@pytest.mark.parametrize("nothing", [QUASI, ["age"], ["colour", "city"]], ids=len)
def test_columns_of_nulls_alone_stay_null_and_cost_nothing(name: str, nothing: list[str]) -> None:
    table = people(40)
    table[nothing] = table[nothing].mask(np.ones((40, len(nothing)), dtype=bool))
    release = released(name, table)
    for column in nothing:
        assert column not in release.table or release.table[column].isna().all()
    assert_truthful(release, table)


@pytest.mark.parametrize("name", ["mondrian", "bottom_up"])
@pytest.mark.parametrize("k", [2, 5])
def test_nulls_that_stand_together_are_kept_apart_from_values(name: str, k: int) -> None:
    table = people(share=0.0).assign(grade="low", city="Bern", colour="red")
    table.loc[::2, "age"] = np.nan
    release = load_method(name, k=k).release(table, SCHEMA, np.random.default_rng(0))
    assert release.table["age_from"].isna().sum() == release.table["age_null"].sum() == 60


@pytest.mark.parametrize("name", ["mondrian", "bottom_up", "obpa"])
@given(data=st.data())
def test_small_tables_are_recounted(name: str, data: st.DataObject) -> None:
    cell = {
        "age": st.sampled_from([None, 20.0, 21.0, 80.0]),
        "grade": st.sampled_from([None, *GRADES]),
        "city": st.sampled_from([None, *CITIES.values]),
        "colour": st.sampled_from([None, "red", "null"]),
        "disease": st.sampled_from([None, "flu", "cold"]),
    }
    rows = data.draw(st.lists(st.fixed_dictionaries(cell), min_size=4, max_size=14))
    table = pd.DataFrame(rows).astype({"age": "float64"})
    release = released(name, table)
    assert min(map(len, classes_of(release).values())) >= 4
    assert_truthful(release, table)
    expected = [release.table[a].map(lambda cell, a=a: loss(a, cell)).mean() for a in QUASI]
    assert utility.ncp(release.recoding) == pytest.approx(expected)
    again = EquivalenceClasses.of_table(release.table, release.schema)
    assert sorted(again.sizes) == sorted(map(len, classes_of(release).values()))


def test_one_class_tells_of_nulls_in_every_form() -> None:
    table = pd.DataFrame(
        {
            "age": [20.0, 30.0, None],
            "grade": ["low", "high or null", None],
            "city": ["Bern", "Bern", None],
            "colour": ["null", "red", None],
            "disease": ["flu", None, "flu"],
        }
    )
    recoding = Recoding(EncodedTable.encode(table, SCHEMA), np.zeros(3, np.int64))
    row = recoding.render(Intervals.TEXT)[0].iloc[0]
    assert row["age"] == "[20, 30] or null"
    assert row["grade"] == '[low, "high or null"] or null'
    assert row["city"] == "*"
    assert row["colour"] == '{"null", red, null}'
    bounds = recoding.render(Intervals.BOUNDS)[0].iloc[0]
    assert bounds[["age_from", "age_to", "age_null"]].tolist() == [20, 30, True]
    assert bounds[QUASI[1:]].tolist() == row[QUASI[1:]].tolist()


@pytest.mark.parametrize("share", [0.015, 0.3])
def test_two_number_columns_tell_of_nulls_beside_them(share: float) -> None:
    table = people(200, share=share)
    release = released("mondrian", table, intervals="bounds")
    bounds = release.table
    assert list(bounds.columns)[:3] == ["age_from", "age_to", "age_null"]
    assert verify(bounds, release.schema, POLICY).passed
    for position, row in enumerate(release.rows):
        age, cell = table["age"].iloc[row], bounds.iloc[position]
        assert cell["age_null"] if is_null(age) else cell["age_from"] <= age <= cell["age_to"]
    only = bounds["age_from"].isna()
    assert only.any() == (share == 0.3)  # three nulls are fewer than k: they are beside values
    assert bounds.loc[~only, "age_null"].any() == (share != 0.3)
    assert bounds.loc[only, "age_null"].all()
    known = table["age"].iloc[release.rows].to_numpy()
    reported = pd.DataFrame({"null": bounds["age_null"], "own": np.isnan(known), **bounds[QUASI[1:]]})
    reported[["lo", "hi"]] = bounds[["age_from", "age_to"]]
    by_class = reported.groupby([*QUASI[1:], "lo", "hi", "null"], dropna=False)["own"].any()
    assert (by_class == by_class.index.get_level_values("null")).all()


def test_midpoints_that_cannot_tell_of_nulls_are_refused_with_the_remedy() -> None:
    with pytest.raises(SchemaError, match=r"\['age'\] may be null, but a midpoint .* text or bounds"):
        released("mondrian", people(), intervals="midpoint")


def test_the_manifest_says_how_each_column_tells_of_nulls() -> None:
    columns = released("mondrian", people()).manifest()["columns"]
    assert "'or null'" in columns["age"]["nulls"]
    assert "'or null'" in columns["grade"]["nulls"]
    assert "the label * also covers null" in columns["city"]["nulls"]
    assert "set" in columns["colour"]["nulls"]
    assert "nulls" not in columns["disease"]
    bounds = released("mondrian", people(), intervals="bounds").manifest()["columns"]
    assert "age_null is true" in bounds["age_from"]["nulls"]


def test_nullable_columns_without_nulls_lose_as_much_as_before() -> None:
    table = people(share=0.0)[["age", "grade"]]
    strict = DataSchema.from_dict({n: f | {"nullable": False} for n, f in FIELDS.items()}, {"cities": CITIES})
    method = load_method("mondrian", k=4)
    kept = method.release(table, SCHEMA.select(["age", "grade"]), np.random.default_rng(7))
    before = method.release(table, strict.select(["age", "grade"]), np.random.default_rng(7))
    assert utility.gcp(kept.recoding) == utility.gcp(before.recoding)
    assert len(kept.table) == len(before.table)


@pytest.mark.parametrize("name", ["obpa", "dsaed"])
def test_cells_that_are_suppressed_are_a_null_a_value_or_an_asterisk(name: str) -> None:
    table = people(seed=9)
    release = released(name, table, model="suppression")
    assert verify(release.table, release.schema, POLICY).passed
    release.schema.check(release.table)
    for position, row in enumerate(release.rows):
        for column in QUASI:
            cell, value = release.table[column].iloc[position], table[column].iloc[row]
            number = column == "age" and cell != "*" and not is_null(cell)
            same = is_null(cell) if is_null(value) else (float(cell) if number else cell) == value
            assert cell == "*" or same
    assert "the label * also covers null" in release.manifest()["columns"]["age"]["nulls"]


@pytest.mark.parametrize("name", ["mondrian", "bottom_up", "obpa", "kacluk"])
def test_persons_are_counted_in_classes_with_nulls(name: str) -> None:
    fields = {"who": {"role": "identifier"}, **FIELDS, "person": "who"}
    table = people(200).assign(who=np.random.default_rng(1).integers(0, 60, 200))
    method = quick(name, k=4, intervals="text")
    release = method.release(
        table, DataSchema.from_dict(fields, {"cities": CITIES}), np.random.default_rng(7)
    )
    assert_truthful(release, table)
    release.schema.without_identifiers().check(release.table)
    reported = release.table.assign(who=table["who"].iloc[release.rows].to_numpy())
    assert reported.groupby(QUASI, dropna=False)["who"].nunique().min() >= 4


def test_fewer_records_than_k_are_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="3 rows cannot be 4-anonymous"):
        released("mondrian", people(3, share=1.0))


@pytest.mark.parametrize("intervals", ["text", "bounds"])
def test_duckdb_counts_released_nulls_as_frames_do(intervals: str, tmp_path: Path) -> None:
    release = released("mondrian", people(400), l=2, intervals=intervals)
    path = tmp_path / "release.parquet"
    pq.write_table(to_arrow(release.table), path)
    smallest = min(map(len, classes_of(release).values()))
    with LocalEngine(memory=500_000_000, spill=tmp_path, processes=1) as engine:
        for k in (2, 4, 40):
            policy = ReleasePolicy(require=(KAnonymity(k=k), TCloseness(t=0.3, attribute="disease")))
            counted = verify_files(engine, [os.fspath(path)], release.schema, policy)
            assert counted == verify(release.table, release.schema, policy)
            assert counted.findings[0].measured == smallest
