"""Releases with shifted dates and derived columns, from a file to the lake: what is reported and refused."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import privacy_release
from privacy_engine.dp.ledger import Limit
from privacy_engine.dp.loss import Neighbours
from privacy_engine.errors import SchemaError, SecretError, SpecError
from privacy_engine.registry import load_method
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.vocabulary import bounds_of
from privacy_release.budget.budget import Budget
from privacy_release.cli.arguments import released_schema
from privacy_release.cli.main import main
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.sources.pseudonyms import Naming, PseudonymKey
from privacy_release.spec.check import check_files
from privacy_release.spec.model import load_spec
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.ledgers import new_ledger
from tests.tables import SPENDING

KEY = "key-of-shifted-dates-that-no-one-must-see"
SHIFT = {"connection": "dates", "days": 60, "scope": "series"}
FIELDS: dict[str, Any] = {
    "patient": {"role": "identifier", "kind": "categorical"},
    "born": {"role": "identifier", "kind": "date"},
    "seen": {
        "role": "quasi_identifier",
        "kind": "timestamp",
        "precision": "day",
        "bounds": ["2020-01-01", "2020-12-31"],
        "shift": SHIFT,
    },
    "paid": {
        "role": "insensitive",
        "kind": "date",
        "as_is": True,
        "shift": SHIFT,
        "unique": {"allow": "a test"},
    },
    "age": {
        "role": "quasi_identifier",
        "kind": "numeric",
        "bounds": [0, 120],
        "derive": {"years_between": ["born", "seen"]},
    },
    "since": {"role": "insensitive", "kind": "numeric", "derive": {"days_since_first": "seen"}},
    "illness": {"role": "sensitive", "kind": "categorical", "categories": ["cold", "flu", "gout"]},
}
READ = ["patient", "born", "seen", "paid", "illness"]


def seen(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    patients = rng.integers(0, n // 4, n)
    day = np.datetime64("2020-01-01", "s") + rng.integers(0, 365, n) * np.timedelta64(1, "D")
    born = np.datetime64("1950-01-01", "s") + patients * 97 % 20_000 * np.timedelta64(1, "D")
    return pd.DataFrame(
        {
            "patient": [f"canary-{p}" for p in patients],
            "born": pd.Series(born),
            "seen": pd.Series(day + rng.integers(0, 86_400, n) * np.timedelta64(1, "s")).astype(
                "datetime64[us]"
            ),
            "paid": pd.Series(day + np.timedelta64(30, "D")),
            "illness": rng.choice(["cold", "flu", "gout"], n),
        }
    )


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_PSEUDONYM_KEY", KEY)


def specified(home: Path, fields: dict[str, Any] | None = None, **more: Any) -> Path:
    table = seen()
    table.to_parquet(home / "seen.parquet", index=False)
    suite = {
        "name": "seen",
        "expectations": [
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "age", "min_value": 10, "max_value": 80},
                "severity": "critical",
            },
            {
                "type": "expect_column_values_to_not_be_null",
                "kwargs": {"column": "since"},
                "severity": "critical",
            },
        ],
    }
    (home / "expectations" / "people.json").write_text(json.dumps(suite))
    kept = {"source": {"uri": "seen.parquet", "columns": READ}, "schema": fields or FIELDS}
    return tables.write_release(home, tables.policy(), **kept | {"person": "patient"} | more)


@pytest.mark.quick("local")  # the shift does not know the engine
@pytest.mark.parametrize("engine", ["local", "fragments"])
def test_a_release_goes_to_the_lake_and_tells_what_was_done(
    home: Path, lake: Lake, tmp_path: Path, engine: str
) -> None:
    more = {"engine": {"kind": "fragments", "rows": 1_000, "processes": 1}} if engine == "fragments" else {}
    spec = load_spec(specified(home, **more))
    with WorkArea(tmp_path / "work", "1") as work:
        run_release(spec, lake, "1", work)
    found = read_release(lake.table("people"), "1")
    assert found.column_names == [*bounds_of("seen")[:2], "paid", *bounds_of("age")[:2], "since", "illness"]
    source = manifest_of(lake.table("people"), "1")["source"]
    assert source["derived"] == {
        "age": {"years_between": ["born", "seen"]},
        "since": {"days_since_first": "seen"},
    }
    assert source["shifted"] == {
        "columns": ["seen", "paid"],
        "days": 60,
        "scope": "series",
        "series": "people",
        "key": PseudonymKey(KEY.encode()).fingerprint,
        "promise": "a disguise, no guarantee",
    }
    everything = [p for p in tmp_path.rglob("*") if p.is_file() and p != home / "seen.parquet"]
    kept = b"".join(path.read_bytes() for path in everything)
    assert KEY.encode() not in kept
    assert b"canary" not in kept
    report = next(p for p in everything if p.name.endswith("report.html")).read_text()
    assert "Shifted dates: seen, paid" in report
    assert "at most 60 in either direction" in report
    # the first day of each person is of 365, 60 more on each side
    assert {day.year for day in found["paid"].to_pylist()} >= {2020, 2021}
    assert min(found["paid"].to_pylist()) < dt.date(2020, 1, 31)


@pytest.mark.slow  # four releases; the shift by itself is tested with the sources
def test_releases_of_a_series_show_the_same_dates(home: Path, lake: Lake, tmp_path: Path) -> None:
    shown: dict[str, list[list[dt.date]]] = {}
    for scope in ("series", "release"):
        shift = SHIFT | {"scope": scope}
        fields = {
            **FIELDS,
            "seen": FIELDS["seen"] | {"shift": shift},
            "paid": FIELDS["paid"] | {"shift": shift},
        }
        for number in ("1", "2"):
            with WorkArea(tmp_path / "work", scope + number) as work:
                run_release(load_spec(specified(home, fields)), lake, scope + number, work)
            days = read_release(lake.table("people"), scope + number)["paid"].to_pylist()
            shown.setdefault(scope, []).append(sorted(days))
    assert shown["series"][0] == shown["series"][1]
    assert shown["release"][0] != shown["release"][1]


@pytest.mark.parametrize(
    ("column", "words"),
    [("age", r"1 of 2 expectations failed.*\(age\)"), ("seen", r"expectations failed.*\(seen\)")],
)
def test_expectations_see_derived_columns_and_shifted_dates(
    home: Path, lake: Lake, work: WorkArea, column: str, words: str
) -> None:
    path = specified(home)
    suite = json.loads((home / "expectations" / "people.json").read_text())
    ends = {"age": (10, 30), "seen": ("2020-01-01", "2020-12-31T23:59:59")}[column]
    suite["expectations"][0]["kwargs"] = {"column": column, "min_value": ends[0], "max_value": ends[1]}
    (home / "expectations" / "people.json").write_text(json.dumps(suite))
    with pytest.raises(SchemaError, match=words):
        run_release(load_spec(path), lake, "1", work)


def test_no_release_without_the_key(
    home: Path, lake: Lake, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIVACY_PSEUDONYM_KEY")
    with pytest.raises(SecretError, match="PRIVACY_PSEUDONYM_KEY"):
        run_release(load_spec(specified(home)), lake, "1", work)
    assert not list(work.folder.rglob("*.parquet"))


def test_a_policy_that_forbids_pseudonyms_says_nothing_of_shifts(
    home: Path, lake: Lake, work: WorkArea
) -> None:
    """A shift links no two records: it makes what is released less exact."""
    path = specified(home)
    (home / "policies" / "people.yaml").write_text(yaml.safe_dump(tables.policy(pseudonyms="forbid")))
    spec = load_spec(path)
    check_files(spec, None)
    assert run_release(spec, lake, "1", work).report.passed


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no such column": ({"age": {"derive": {"years_between": ["birth", "seen"]}}}, r"'age'.*\['birth'\]"),
    "of a text": ({"age": {"derive": {"days_between": ["illness", "seen"]}}}, r"'age'.*\['illness'\]"),
    "two spans": (
        {"age": {"derive": {"years_between": ["born", "seen"], "days_since_first": "seen"}}},
        r"schema\.age\.derive: must have exactly one of",
    ),
    "no span": ({"age": {"derive": {}}}, r"schema\.age\.derive: must have exactly one of"),
    "another span": (
        {"age": {"derive": {"weeks_between": ["born", "seen"]}}},
        "weeks_between: is not a known",
    ),
    "one end": ({"age": {"derive": {"years_between": ["born"]}}}, "years_between"),
    "no days": ({"seen": {"shift": SHIFT | {"days": 0}}}, r"seen\.shift\.days"),
    "true": ({"seen": {"shift": SHIFT | {"days": True}}}, r"seen\.shift\.days: .*not true or false"),
    "too many": ({"seen": {"shift": SHIFT | {"days": 40_000}}}, r"seen\.shift\.days"),
    "no scope": ({"seen": {"shift": {"connection": "c", "days": 3}}}, r"seen\.shift\.scope: is missing"),
    "no key": ({"seen": {"shift": {"scope": "series", "days": 3}}}, r"seen\.shift\.connection: is missing"),
    "two shifts": ({"seen": {"shift": SHIFT | {"days": 3}}}, "the same everywhere"),
    "stays behind": ({"born": {"shift": SHIFT}}, "'born'.*released dates"),
    "a text": ({"age": {"kind": "categorical", "bounds": None}}, "Make it numeric or ordinal"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_a_specification_that_does_not_fit_together_is_refused(
    home: Path, changes: dict[str, dict[str, Any]], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {name: reported | changes.get(name, {}) for name, reported in FIELDS.items()}
    path = specified(home, fields)
    with pytest.raises(SpecError, match=words):
        load_spec(path).data_schema()
    assert main(["check", str(path)]) != 0
    assert str(path) in capsys.readouterr().err


def test_source_columns_are_those_that_are_read(home: Path) -> None:
    assert load_spec(specified(home)).data_schema().read.names == tuple(READ)
    with pytest.raises(SpecError, match=r"source.columns \['age'\] must not be derived, they are not read"):
        load_spec(specified(home, source={"uri": "seen.parquet", "columns": [*READ, "age"]}))
    with pytest.raises(SpecError, match=r"columns \['born'\] of schema must be in source.columns"):
        load_spec(
            specified(home, source={"uri": "seen.parquet", "columns": [c for c in READ if c != "born"]})
        )


def test_a_day_of_yaml_stays_a_day(
    home: Path, lake: Lake, work: WorkArea, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {**FIELDS, "age": FIELDS["age"] | {"derive": {"years_between": ["born", dt.date(2026, 1, 1)]}}}
    path = specified(home, fields)
    spec = load_spec(path)
    assert spec.schema_fields["age"]["derive"] == {"years_between": ["born", "2026-01-01"]}
    assert main(["check", str(path)]) == 0
    assert "right" in capsys.readouterr().out
    run_release(spec, lake, "1", work)
    manifest = manifest_of(lake.table("people"), "1")["source"]["derived"]
    assert manifest["age"] == {"years_between": ["born", "2026-01-01"]}


def test_the_schema_of_a_released_table_is_the_one_after_ingest(home: Path) -> None:
    schema = released_schema(specified(home))
    assert schema.names == ("seen", "paid", "age", "since", "illness")
    assert schema["seen"].to_dict()["bounds"] == ["2019-11-02T00:00:00", "2021-03-01T23:59:59"]


def test_a_private_release_takes_shifted_dates_in_domains_that_the_schema_tells(
    work: WorkArea, tmp_path: Path
) -> None:
    """A shift is a function of one person's identifier: it changes nothing of what others' rows may tell."""
    fields = {
        "patient": FIELDS["patient"],
        "born": FIELDS["born"],
        "seen": FIELDS["seen"] | {"bin": "month"},
        "age": FIELDS["age"] | {"bins": 6},
        "since": FIELDS["since"] | {"bounds": [0, 365], "bins": 5},
        "illness": FIELDS["illness"],
        "person": "patient",
    }
    seen().drop(columns="paid").to_parquet(tmp_path / "seen.parquet", index=False)
    schema = DataSchema.from_dict(fields)
    table = privacy_release.ingest(
        str(tmp_path / "seen.parquet"), schema, work, naming=Naming(series="s", release="1")
    )
    ledger = new_ledger(tmp_path / "ledger.db")
    persons = Limit(epsilon=1.0, neighbours=Neighbours.REPLACE_PERSON)
    ledger.grant("seen", persons, reason="a test", by="officer")
    staged = make_release(
        table,
        work,
        method="privbayes",
        parameters={"epsilon": 0.5, "max_rows": 4},
        policy=SPENDING,
        budget=Budget(dataset="seen", run="run 1", ledger=ledger),
    )
    assert verify_staged(staged, ReleasePolicy(max_epsilon=0.5), ledger).passed
    manifest = json.loads(Path(staged.manifest).read_text())
    assert manifest["source"]["shifted"]["days"] == 60
    assert "rows" not in manifest["source"]
    assert "Shifted dates" not in Path(staged.report).read_text()


def test_random_answers_take_what_is_derived_of_dates_and_no_dates(work: WorkArea, tmp_path: Path) -> None:
    fields = {
        "patient": FIELDS["patient"],
        "born": FIELDS["born"],
        "paid": FIELDS["paid"],
        "age": FIELDS["age"] | {"bins": 6, "derive": {"years_between": ["born", "2026-01-01"]}},
        "illness": FIELDS["illness"],
    }
    true = seen().drop_duplicates("patient").drop(columns="seen")
    true.to_parquet(tmp_path / "t.parquet", index=False)
    naming, schema = Naming(series="s", release="1"), DataSchema.from_dict(fields)
    table = privacy_release.ingest(str(tmp_path / "t.parquet"), schema, work, naming=naming)
    found, kept = pd.read_parquet(table.uri), table.read_schema()
    rng, method = np.random.default_rng(0), load_method("errph", p_0=0.2)
    release = method.release(found, kept, rng)
    # an insensitive date is released as it was ingested: moved
    assert set(release.table) == {"paid", "age", "illness"}
    assert sorted(release.table["paid"]) == sorted(found["paid"])
    assert set(release.table["paid"]) != set(true["paid"].dt.date)
    with pytest.raises(SchemaError, match=r"\['paid'\] are shifted when a source is read"):
        method.release(schema.derived(true), schema, rng)
    fields["paid"] = {"role": "sensitive", "kind": "date", "precision": "month", "shift": SHIFT}
    with pytest.raises(SchemaError, match=r"\['paid'\] are dates, but random answers only support numbers"):
        method.release(found, DataSchema.from_dict(fields).ingested().without_identifiers(), rng)
