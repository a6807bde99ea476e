"""Releases of tables with dates: from a Parquet file to the lake, as text periods and as typed columns."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.dp.ledger import Limit
from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget.budget import Budget
from privacy_release.budget.claims import _values_in_domains
from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from tests import tables
from tests.dated import FIELDS, covers, stays
from tests.ledgers import new_ledger
from tests.tables import SPENDING

ENGINES = {
    "local": None,
    "fragments": read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1}),
}
POLICY = ReleasePolicy(require=(KAnonymity(k=5), DistinctLDiversity(l=2)))
SUITE = {
    "name": "stays",
    "expectations": [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "born", "min_value": "1930-01-01", "max_value": "2010-12-31"},
            "severity": "critical",
        },
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "seen", "min_value": "2019-01-01", "max_value": "2021-01-01T00:00:00"},
            "severity": "critical",
        },
    ],
}


def write_stays(path: Path, n: int = 400) -> None:
    stays(n).reset_index(drop=True).to_parquet(path, index=False)


def specified(home: Path, suite: dict[str, Any] | None = None, **release: Any) -> Path:
    """A release of stays, of whom each row is of another person."""
    write_stays(home / "stays.parquet")
    (home / "expectations" / "stays.json").write_text(json.dumps(suite or SUITE))
    return tables.write_release(
        home,
        source={"uri": "stays.parquet"},
        schema=FIELDS,
        expectations="expectations/stays.json",
        release={"method": "mondrian", "k": 5, "l": 2, "seed": 7} | release,
    )


@pytest.mark.quick("fragments")  # the other engine reads dates in all other tests
@pytest.mark.parametrize("engine", ["local", "fragments"])
def test_a_release_of_periods_goes_from_a_file_to_the_lake(
    home: Path, lake: Lake, work: WorkArea, engine: str
) -> None:
    path = specified(home)
    if engine == "fragments":
        tables.rewrite(path, engine={"kind": "fragments", "rows": 1_000, "processes": 1})
    run_release(load_spec(path), lake, "1", work)
    found = read_release(lake.table("people"), "1").to_pylist()
    assert len(found) == 400
    every = stays(400)["admitted"].dt.to_pydatetime()
    assert all(any(covers(row["admitted"], moment) for moment in every) for row in found)
    assert {(row["died"].month % 3, row["died"].day) for row in found} == {(1, 1)}
    assert {row["paid"].day for row in found} == {1}


def test_a_release_of_two_typed_columns_goes_to_the_lake(home: Path, lake: Lake, work: WorkArea) -> None:
    run_release(load_spec(specified(home, intervals="bounds")), lake, "1", work)
    found = read_release(lake.table("people"), "1")
    kinds = {name: found.schema.field(name).type for name in found.schema.names}
    assert kinds["born_from"] == kinds["born_to"] == pa.date32()
    assert pa.types.is_timestamp(kinds["seen_from"])
    assert all(row["born_from"] <= row["born_to"] for row in found.to_pylist())
    born = sorted(moment.date() for moment in stays(400)["born"].dt.to_pydatetime())
    assert min(found["born_from"].to_pylist()) == born[0]
    assert max(found["born_to"].to_pylist()) == born[-1]


def test_expectations_about_dates_and_times_are_a_gate(home: Path, lake: Lake, work: WorkArea) -> None:
    for column, end in (("born", "1999-12-31"), ("seen", "2020-01-01T00:00:00")):
        kwargs = {"column": column, "min_value": "1900-01-01", "max_value": end}
        expectation = {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": "critical"}
        spec = load_spec(specified(home, {"name": "stays", "expectations": [expectation]}))
        with pytest.raises(SchemaError, match=rf"1 of 1 expectations failed.*\({column}\); correct"):
            run_release(spec, lake, "1", work)


@pytest.mark.quick("fragments")  # both compare two ways
@pytest.mark.parametrize("intervals", ["text", "bounds"])
@pytest.mark.parametrize("engine", ENGINES)
def test_both_ways_of_verifying_report_the_same(
    work: WorkArea, tmp_path: Path, engine: str, intervals: str
) -> None:
    write_stays(tmp_path / "stays.parquet", 1_500)
    table = privacy_release.ingest(
        str(tmp_path / "stays.parquet"), DataSchema.from_dict(FIELDS), work, engine=ENGINES[engine]
    )
    parameters = {"k": 5, "l": 2, "intervals": intervals}
    staged = make_release(table, work, method="mondrian", parameters=parameters, seed=7)
    whole = replace(staged, engine=None)
    apart = replace(staged, engine=ENGINES["fragments"])
    found = verify_staged(apart, POLICY)
    assert found == verify_staged(whole, POLICY)
    assert found.passed


def test_the_report_shows_dates_by_periods_and_no_day_of_anybody(work: WorkArea, tmp_path: Path) -> None:
    write_stays(tmp_path / "stays.parquet", 1_000)
    table = privacy_release.ingest(str(tmp_path / "stays.parquet"), DataSchema.from_dict(FIELDS), work)
    staged = make_release(table, work, method="mondrian", parameters={"k": 5}, seed=7)
    report = Path(staged.report).read_text()
    assert "1930s" in report
    assert "2000s" in report
    assert not np.isin(stays(1_000)["born"].dt.strftime("%Y-%m-%d"), report).any()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"role": "insensitive", "kind": "date"}, "precision: month, or as_is: true"),
        ({"role": "sensitive", "kind": "timestamp"}, "must state the precision"),
        ({"kind": "date", "calendar": ["week", "month"]}, "must not have week below month"),
        ({"kind": "date", "calendar": ["year", "month"]}, "finest first"),
        ({"kind": "date", "calendar": ["fortnight"]}, "must be .second."),
        ({"kind": "date", "calendar": []}, "calendar"),
        ({"kind": "date", "precision": "hour"}, "A date has no time of day"),
        (
            {"kind": "date", "precision": "year", "calendar": ["month", "decade"]},
            "a period finer than the precision",
        ),
        ({"kind": "timestamp", "zone": "Mars/Base"}, "zone must be one of the time zone database"),
        ({"kind": "date", "format": "%Y-%m-%Q"}, "unknown or repeated directive"),
        ({"kind": "date", "format": "%d.%m."}, "format does not determine the day"),
        ({"kind": "date", "bounds": ["2020-01-01", "soon"]}, "an ISO date such as"),
        ({"kind": "date", "bounds": ["2020-02-30", "2020-03-01"]}, "two ISO dates"),
        ({"kind": "date", "bounds": ["2021-01-01", "2020-01-01"]}, "the lower first"),
        ({"kind": "date", "bounds": ["2020-01-01", "2020-01-31"], "precision": "month"}, "an earlier month"),
        ({"kind": "date", "categories": ["2020-01-01"]}, "Give it a calendar"),
        ({"kind": "date", "hierarchy": "hierarchies/zip.csv"}, "give calendar"),
        ({"kind": "date", "bin": "month"}, "bin requires bounds"),
        ({"kind": "date", "as_is": True}, "as_is applies only to insensitive"),
        ({"kind": "date", "as_is": "perhaps"}, "as_is: must be"),
        (
            {"role": "sensitive", "kind": "date", "calendar": ["month"]},
            "calendar applies only to quasi-identifiers",
        ),
        ({"role": "insensitive", "kind": "date", "as_is": True, "precision": "month"}, "or as_is"),
        ({"kind": "numeric", "precision": "month"}, "make it kind: date"),
        ({"kind": "categorical", "format": "%Y"}, "make it kind: date"),
    ],
)
def test_a_date_that_is_not_said_well_is_refused_with_its_name(
    home: Path, fields: dict[str, Any], words: str
) -> None:
    path = tables.rewrite(specified(home), at=["schema"], born={"role": "quasi_identifier"} | fields)
    with pytest.raises(SpecError, match=f"born.*{words}"):
        load_spec(path).data_schema()


def test_bounds_are_read_from_yaml_dates_and_from_text(home: Path) -> None:
    bounds = [dt.date(1930, 1, 1), dt.date(2010, 12, 31)]
    path = tables.rewrite(specified(home), at=["schema", "born"], bounds=bounds)
    read = load_spec(path).data_schema()
    assert read.select(FIELDS) == DataSchema.from_dict(FIELDS)


def test_a_private_release_of_dates_keeps_its_claim_and_its_domains(work: WorkArea, tmp_path: Path) -> None:
    bounds = {"bounds": ["2019-01-01", "2021-12-31"]}
    fields = {
        "born": FIELDS["born"] | {"bin": "decade"},
        "died": FIELDS["died"] | bounds,
        "paid": FIELDS["paid"] | bounds | {"bins": 6},
        "illness": FIELDS["illness"] | {"categories": ["flu", "cold", "gout", "none"]},
    }
    stays(300).reset_index(drop=True)[list(fields)].to_parquet(tmp_path / "stays.parquet", index=False)
    table = privacy_release.ingest(str(tmp_path / "stays.parquet"), DataSchema.from_dict(fields), work)
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("stays", Limit(epsilon=1.0), reason="a test", by="officer")
    staged = make_release(
        table,
        work,
        method="privbayes",
        parameters={"epsilon": 0.5},
        policy=SPENDING,
        budget=Budget(dataset="stays", run="run 1", ledger=ledger),
    )
    report = verify_staged(staged, ReleasePolicy(max_epsilon=0.5), ledger)
    assert report.passed
    released = pq.read_table(staged.uri)
    assert [released.schema.field(name).type for name in ("born", "died", "paid")] == [pa.date32()] * 3
    assert {(day.month % 3, day.day) for day in released["died"].to_pylist()} <= {(1, 1)}

    exact = to_frame(released)  # a released day that is more exact than the schema allows
    exact.loc[0, "died"] = dt.date(2019, 1, 2)
    findings = _values_in_domains([exact], DataSchema.from_dict(fields))
    assert [finding.measured for finding in findings] == [0, 1, 0, 0]
