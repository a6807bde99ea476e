"""Every anonymizer on tables that share persons: classes over all of them, counted by hand and by SQL."""

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.measures.utility import class_losses, figures_of_tables
from privacy_engine.registry import is_anonymizer, load_method, method_names, reads_records
from privacy_engine.release import Release
from privacy_engine.tables.linked import rows_by_table, schema_of_tables, stacked
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, EntropyLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_engine.vocabulary import Intervals
from tests.contract.tables import QUICK
from tests.several_tables import CARRYING, PATIENTS, SCHEMA, VISITS, clinic, one, recounted

ANONYMIZERS = [name for name in method_names() if is_anonymizer(name)]
POLICY = ReleasePolicy(require=(KAnonymity(k=4), DistinctLDiversity(l=2)))
OWN = {"patients": ["age", "district"], "visits": ["month", "ward"]}


@cache
def released(method: str, *, carry: bool = False, intervals: Intervals = Intervals.BOUNDS) -> Release:
    """The release of `clinic`, made once, for reading only."""
    releaser = load_method(method, k=4, l=2, intervals=intervals, **QUICK.get(method, {}))
    return releaser.release(one(clinic()), CARRYING if carry else SCHEMA, np.random.default_rng(3))


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("method", ANONYMIZERS)
def test_every_class_is_of_k_persons_over_all_tables(method: str) -> None:
    release = released(method)
    found = recounted(release.table, OWN, {"visits": "illness"})
    report = verify(release.table, release.schema, POLICY, persons=release.persons)
    assert report.passed
    assert report.classes == len(found) == release.manifest()["classes"]
    assert report.findings[0].measured == min(reported["k"] for reported in found) >= 4
    assert (
        report.findings[1].measured
        == min(reported["visits"] for reported in found if "visits" in reported)
        >= 2
    )
    counted = {name: rows["rows"] for name, rows in release.manifest()["tables"].items()}
    assert counted == release.table["table_name"].value_counts().to_dict()


@pytest.mark.parametrize("method", ["mondrian", "bottom_up"])
def test_the_classes_can_be_counted_in_sql(method: str, tmp_path: Path) -> None:
    release = released(method, carry=True)
    release.table.to_parquet(tmp_path / "released.parquet")
    counted = duckdb.sql(
        f"""
        WITH rows AS (SELECT * FROM '{tmp_path}/released.parquet'),
        ways AS (
            SELECT patient, list_sort(list((
                    table_name, age_from, age_to, district, month_from, month_to, ward
                ))) AS way,
                list_sort(list_distinct(list(coalesce(illness, '-')) FILTER (table_name = 'visits'))) AS had
            FROM rows GROUP BY patient
        )
        SELECT count(*), count(DISTINCT had), len(list_distinct(flatten(list(had)))) FROM ways GROUP BY way
        """
    ).fetchall()
    found = recounted(
        release.table, {**OWN, "visits": ["month", "ward", "age", "district"]}, {"visits": "illness"}
    )
    assert Counter(k for k, *_ in counted) == Counter(reported["k"] for reported in found)
    values = Counter(min(sets, values) for _, sets, values in counted if values)
    assert values == Counter(reported["visits"] for reported in found if "visits" in reported)
    assert min(k for k, *_ in counted) >= 4


@pytest.mark.parametrize("method", ANONYMIZERS)
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_each_released_row_is_one_of_its_person_and_covers_it(method: str) -> None:
    source = one(clinic())
    release = released(method)
    assert release.rows is not None
    assert release.persons is not None
    origin, table = source.iloc[release.rows].reset_index(drop=True), release.table
    assert (origin["table_name"] == table["table_name"]).all()
    assert (origin["patient"] == release.persons).all()
    assert origin.groupby(table["patient"])["patient"].nunique().eq(1).all()
    assert table.groupby(origin["patient"])["patient"].nunique().eq(1).all()
    for name, of in (("age", "patients"), ("month", "visits")):
        own, true = table[table["table_name"] == of], origin[origin["table_name"] == of]
        assert (own[f"{name}_from"] <= true[name]).all()
        assert (own[f"{name}_to"] >= true[name]).all()
        other = table[table["table_name"] != of]
        assert other[[f"{name}_from", f"{name}_to"]].isna().all(axis=None)
    assert (table["note"].fillna(-1) == origin["note"].fillna(-1)).all()
    lost = sum(own["suppressed"] for own in release.manifest()["tables"].values())
    assert len(table) + lost == len(source)
    assert not table["patient"].isin(source["patient"]).any()


@pytest.mark.parametrize("intervals", [Intervals.TEXT, Intervals.BOUNDS])
def test_what_is_carried_is_what_the_person_has_there(intervals: Intervals) -> None:
    table = released("bottom_up", carry=True, intervals=intervals).table.astype(object)
    columns = [n for n in table if n.startswith(("age", "district"))]
    patients = table[table["table_name"] == "patients"].set_index("patient")
    seen = 0
    for row in table[table["table_name"] == "visits"].to_dict("records"):
        reported = [row[n] for n in columns]
        if row["patient"] in patients.index:
            seen += 1
            assert list(map(str, reported)) == [str(patients.loc[row["patient"], n]) for n in columns]
        else:
            assert all(map(pd.isna, reported))
    assert seen > 50


def test_nothing_is_carried_from_a_table_with_several_rows_a_person() -> None:
    schema = schema_of_tables({"patients": PATIENTS, "visits": VISITS}, "patient", {"patients": ["ward"]})
    with pytest.raises(SchemaError, match="'ward' is carried from table 'visits', which must have one row"):
        load_method("mondrian", k=4).release(one(clinic()), schema, np.random.default_rng(3))


@pytest.mark.parametrize(
    "model", [TCloseness(t=0.35), EntropyLDiversity(l=3), DistinctLDiversity(l=4)], ids=lambda m: m.name
)
def test_a_model_is_about_the_rows_of_one_table(model: Any) -> None:
    """Half of the persons have no visit: a null of theirs would make half of each distribution one value."""
    tables = clinic(120)
    few = tables["visits"][tables["visits"]["patient"].str[-1].isin(list("13579"))]
    few = few[few.groupby("patient").cumcount() < 2].assign(illness=lambda t: t["illness"].fillna("a"))
    tables["visits"] = few.reset_index(drop=True)
    release = load_method("bottom_up", k=4, require=(model,)).release(
        one(tables), SCHEMA, np.random.default_rng(3)
    )
    alone = release.table[release.table["table_name"] == "visits"]
    assert len(alone)
    own = DataSchema(
        tuple(a for a in release.schema.attributes if a.name in ("patient", "month", "ward", "illness")),
        release.schema.person and type(release.schema.person)(column="patient", rows="linked"),
    )
    # of one table by itself, the classes are at most as fine: those of all tables split them
    whole = verify(release.table, release.schema, ReleasePolicy(require=(model,)))
    assert whole.passed
    assert whole.findings[0].measured is not None
    part = verify(alone[list(own.names)], own, ReleasePolicy(require=(model,))).findings[0].measured
    assert part is not None
    assert part <= whole.findings[0].measured if not model.at_least else part >= whole.findings[0].measured


def test_what_a_table_does_not_have_lowers_no_loss() -> None:
    release = released("bottom_up")
    lost = cells = 0.0
    for recoding in release.recodings.values():
        per_class = class_losses(recoding)
        kept = recoding.labels[recoding.labels >= 0]
        lost += sum(float(per_class[label].sum()) for label in kept)
        lost += recoding.suppressed * per_class.shape[1]
        cells += len(recoding.encoded) * per_class.shape[1]
    figures = figures_of_tables(list(release.recodings.values()))
    assert figures["gcp"] == pytest.approx(lost / cells)
    source = clinic()
    assert cells == 2 * sum(map(len, source.values()))
    assert figures["suppressed_records"] == len(one(source)) - len(release.table)


def test_order_and_names_of_the_source_change_nothing() -> None:
    first = released("mondrian").table
    source = one(clinic()).assign(patient=lambda t: "other " + t["patient"].str[::-1])
    method = load_method("mondrian", k=4, l=2)
    again = method.release(source.sample(frac=1, random_state=5), SCHEMA, np.random.default_rng(3)).table
    pd.testing.assert_frame_equal(
        first.drop(columns=["note", "insurer"]), again.drop(columns=["note", "insurer"])
    )


def test_persons_of_one_table_alone_are_trajectories_too() -> None:
    """Four have visits and no row as patients, and are no class with those who have one."""
    tables = clinic(24)
    strangers = pd.DataFrame(
        {"patient": list("wxyz"), "month": 3, "ward": "a", "illness": list("abcd"), "note": range(4)}
    )
    tables["visits"] = pd.concat([tables["visits"], strangers], ignore_index=True)
    release = load_method("bottom_up", k=4, l=2).release(one(tables), SCHEMA, np.random.default_rng(3))
    ways: dict[str, Counter[str]] = defaultdict(Counter)
    for row in release.table.to_dict("records"):
        ways[row["patient"]][row["table_name"]] += 1
    alone = [way for way in ways.values() if "patients" not in way]
    assert len(alone) >= 4
    assert min(Counter(map(str, ways.values())).values()) >= 4


def test_a_demand_that_no_grouping_meets_is_refused() -> None:
    tables = clinic(30)
    tables["visits"]["illness"] = "a"
    with pytest.raises(InfeasibleError, match="distinct"):
        load_method("mondrian", k=4, l=2).release(one(tables), SCHEMA, np.random.default_rng(3))


@pytest.mark.parametrize("method", [n for n in method_names() if n not in ANONYMIZERS and reads_records(n)])
def test_methods_without_classes_refuse_several_tables(method: str) -> None:
    with pytest.raises(SchemaError, match="patient"):
        load_method(method).release(one(clinic()), SCHEMA, np.random.default_rng(3))


def test_whole_numbers_stay_whole_beside_tables_without_them() -> None:
    table = released("mondrian").table
    assert str(table["note"].dtype) == "Int64"
    large = 2**60 + 1
    rows = stacked({"a": pd.DataFrame({"n": [large]}), "b": pd.DataFrame({"m": [True]})})
    assert rows["n"].tolist() == [large, pd.NA]
    assert rows["m"].tolist() == [pd.NA, True]


def test_rows_that_do_not_fit_are_refused_by_table_column_and_count() -> None:
    tables = clinic()
    tables["visits"].loc[:2, "month"] = 99
    with pytest.raises(SchemaError, match="table visits: month: 3 values are out of the bounds"):
        load_method("mondrian", k=4).release(one(tables), SCHEMA, np.random.default_rng(3))
    foreign = one(clinic())
    foreign.loc[[0, 1], "table_name"] = "secret"
    with pytest.raises(SchemaError, match="2 rows are of none of the tables") as error:
        load_method("mondrian", k=4).release(foreign, SCHEMA, np.random.default_rng(3))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("visits", "message"),
    [
        ({"patient": {"role": "identifier"}, "s": {"role": "sensitive"}}, "at least one quasi-identifier"),
        ({"q": {"role": "quasi_identifier"}}, "must have the person 'patient'"),
        (
            {"patient": {"role": "identifier"}, "age": {"role": "quasi_identifier"}},
            "the same meaning as in the other",
        ),
        ({"patient": {"role": "identifier"}, "table_name": {"role": "quasi_identifier"}}, "Rename it"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_refused(visits: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema_of_tables({"patients": PATIENTS, "visits": DataSchema.from_dict(visits)}, "patient")


def test_a_sensitive_attribute_of_two_tables_is_refused() -> None:
    with pytest.raises(SchemaError, match="'illness' is sensitive in two tables"):
        schema_of_tables({"visits": VISITS, "stays": VISITS}, "patient")


@pytest.mark.parametrize(
    ("carried", "message"),
    [
        ({"visits": ["illness"]}, "already has it"),
        ({"visits": ["insurer"]}, "must be a quasi-identifier of one other"),
        ({"visits": ["nothing"]}, "must be a quasi-identifier of one other"),
        ({"visits": ["age", "age"]}, "must be distinct"),
        ({"stays": ["age"]}, "not among the tables"),
    ],
)
def test_columns_that_cannot_be_carried_are_refused(carried: dict[str, list[str]], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema_of_tables({"patients": PATIENTS, "visits": VISITS}, "patient", carried)


def test_a_schema_of_several_tables_is_read_back() -> None:
    assert DataSchema.from_json(CARRYING.to_json()) == CARRYING
    reported = CARRYING.with_pseudonym().tables[1]
    assert reported.columns == ("month", "ward", "illness", "note", "age", "district")
    assert [own.name for own in rows_by_table(one(clinic()), CARRYING)] == ["patients", "visits"]
