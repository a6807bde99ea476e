"""Drafts from tables of any size and place: what they say of a column, and what they must not show."""

import io
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from fsspec.implementations.memory import MemoryFileSystem

from docs.tutorial.make_loans import loans
from privacy_engine.engines.local import LocalEngine
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import copy_source
from privacy_release.sources.reading import check_source
from privacy_release.spec.draft import draft_spec
from privacy_release.spec.files import load_schema

NAN = float("nan")
TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial"


def lines(text: str) -> dict[str, str]:
    """Column -> what is drafted for it."""
    schema = text.partition("schema:\n")[2].partition("release:")[0]
    return {name: said for name, _, said in (line.strip().partition(": ") for line in schema.splitlines())}


def drafted(tmp_path: Path, least: int = 2, **columns: object) -> dict[str, str]:
    path = tmp_path / "t.parquet"
    table = pa.table(columns)
    pq.write_table(table, path, row_group_size=max(7, len(table) // 20))
    (tmp_path / "spill").mkdir()
    with LocalEngine(memory=500_000_000, spill=tmp_path / "spill") as engine:
        return lines(draft_spec(engine, [str(path)], "uri", "name", least=least))


def test_kinds_and_domains_are_guessed_as_a_person_would_begin(tmp_path: Path) -> None:
    n = 60
    found = drafted(
        tmp_path,
        id=range(n),
        age=[20 + i % 30 for i in range(n)],
        score=[i % 7 / 4 for i in range(n)],
        floor=[float(i % 4) for i in range(n)],
        member=[i % 3 == 0 for i in range(n)],
        city=["b" if i % 2 else "a" for i in range(n)],
        same=[5] * n,
    )
    assert found == {
        "id": "{role: identifier, kind: numeric}  # 60 values in 60 records: not released unchanged; "
        "to release it, give it another role",
        "age": "{role: TODO, kind: numeric, bounds: [20, 50]}",
        "score": "{role: TODO, kind: numeric, bounds: [0.0, 2.0]}",
        "floor": "{role: TODO, kind: ordinal, bounds: [0, 3]}",
        "member": "{role: TODO, kind: categorical, categories: ['False', 'True']}",
        "city": "{role: TODO, kind: categorical, categories: [a, b]}",
        "same": "{role: TODO, kind: ordinal}",
    }


def test_a_column_that_may_name_persons_with_many_rows_is_pointed_out(tmp_path: Path) -> None:
    n = 600
    found = drafted(
        tmp_path,
        patient=[f"p{i % 120}" for i in range(n)],
        number=[1_000 + i % 90 for i in range(n)],
        floor=[i % 4 for i in range(n)],
        weight=[i % 120 / 7 for i in range(n)],
        once=[f"v{i}" for i in range(n)],
    )
    fields = {name for name, said in found.items() if "`person: " in said}
    assert fields == {"patient", "number"}
    assert "120 values in 600 records" in found["patient"]


def test_places_and_ages_with_many_records_each_are_not_pointed_out_as_persons(tmp_path: Path) -> None:
    n = 6_471
    found = drafted(
        tmp_path,
        district=[f"D{i % 77}" for i in range(n)],
        place=[f"town {'abcdefghijk'[i % 11]}{'abcdefg'[i % 7]}" for i in range(n)],
        code=[1 + i % 77 for i in range(n)],
        born=[1930 + i % 77 for i in range(n)],
        postcode=[f"{10_100 + i % 77}" for i in range(n)],
        patient=[f"{i % 77:08x}" for i in range(n)],
        account=[5_000_000 + i % 77 for i in range(n)],
        balance=[i % 700 - 9 for i in range(n)],
    )
    assert {name for name, said in found.items() if "`person: " in said} == {"patient", "account"}


def test_nulls_nan_and_infinities_are_no_numbers(tmp_path: Path) -> None:
    found = drafted(
        tmp_path,
        some=pa.array([None, NAN, 1.0, 2.0, 9.0] * 4),
        none=pa.array([NAN, None] * 10),
        endless=pa.array([float("inf"), 1.0] * 10),
        nothing=pa.nulls(20),
    )
    assert found == {
        "some": "{role: TODO, kind: ordinal, bounds: [1, 9]}  # 8 nulls",
        "none": "{role: TODO, kind: numeric}  # 20 nulls",
        "endless": "{role: TODO, kind: ordinal}",
        "nothing": "{role: TODO, kind: TODO}  # 20 nulls; null is of no kind: cast it in the source, or do "
        "not read it",
    }


@pytest.mark.parametrize("some", [True, False])
def test_what_to_do_with_nulls_is_asked_where_there_are_some(tmp_path: Path, some: bool) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, 2, None if some else 3] * 9}), path)
    (tmp_path / "spill").mkdir()
    with LocalEngine(memory=500_000_000, spill=tmp_path / "spill") as engine:
        text = draft_spec(engine, [str(path)], "uri", "name", least=2)
    (line,) = [line for line in text.splitlines() if line.startswith("  nulls:")]
    assert line.startswith("  nulls: fail")
    assert ("or keep" in line) == some


def test_large_numbers_that_are_one_as_floats_have_no_bounds(tmp_path: Path) -> None:
    assert drafted(tmp_path, big=pa.array([2**63, 2**63 + 1] * 20, pa.uint64()))["big"].count("bounds") == 0


def test_only_categories_of_many_records_are_named(tmp_path: Path) -> None:
    found = drafted(
        tmp_path,
        least=6,
        rare=["x"] * 195 + ["canary"] * 4 + ["lone"],
        every=[f"canary {i}" for i in range(200)],
        many=[f"value {i % 51}" for i in range(200)],
        shy=[f"canary {i % 45}" for i in range(200)],
    )
    assert found == {
        "rare": "{role: TODO, kind: categorical, categories: [x]}"
        "  # 2 rarer categories are not shown: add or merge them",
        "every": "{role: identifier, kind: categorical}"
        "  # 200 values in 200 records: not released unchanged; to release it, give it another role",
        "many": "{role: TODO, kind: categorical}  # 51 categories, not shown: give a hierarchy, see "
        "`hierarchy infer`; 51 values in 200 records: if it identifies whose record a row is, it is an "
        "identifier, and add `person: many` below",
        "shy": "{role: TODO, kind: categorical}  # 45 categories, not shown: give a hierarchy, see "
        "`hierarchy infer`",
    }


DAYS = [date(1931 + i % 70, 1 + i % 12, 1 + i % 28) for i in range(120)]
TIMES = [datetime(2019 + i % 2, 1 + i % 12, 1 + i % 28, i % 24, i % 60) for i in range(120)]
DATED: dict[str, Any] = {
    "born": pa.array(DAYS),
    "wide": pa.array(DAYS, pa.date64()),
    "seen": pa.array(TIMES, pa.timestamp("ms", "UTC")),
    "midnight": pa.array(DAYS).cast(pa.timestamp("us")),
    "german": [f"{day:%d.%m.%Y}" for day in DAYS],
    "either": ["01/02/1999", "03/04/2001"] * 60,
    "moment": pa.array([f"{at:%Y-%m-%dT%H:%M:%S}Z" for at in TIMES]).dictionary_encode(),
    "some": pa.array([*DAYS[:60], *[None] * 60]),
    "none": pa.array([None] * 120, pa.date32()),
}


def test_dates_are_drafted_as_such_and_no_more_exact_than_a_month(tmp_path: Path) -> None:
    found = drafted(tmp_path, **DATED, code=["2020-13-01", *["2020-01-01"] * 119])
    note = "}  # more exact dates identify people"
    assert found == {
        "born": "{role: TODO, kind: date, precision: month, bounds: [1930-01-01, 2009-12-31]" + note,
        "wide": "{role: TODO, kind: date, precision: month, bounds: [1930-01-01, 2009-12-31]" + note,
        "seen": "{role: TODO, kind: timestamp, precision: month, bounds: [2010-01-01, 2029-12-31]" + note,
        "midnight": "{role: TODO, kind: date, precision: month, bounds: [1930-01-01, 2009-12-31]" + note,
        "german": "{role: TODO, kind: date, format: '%d.%m.%Y', precision: month, bounds: [1930-01-01, "
        "2009-12-31]" + note,
        "either": "{role: TODO, kind: date, format: '%d/%m/%Y', precision: month, bounds: [1990-01-01, "
        "2009-12-31]" + note + "; all values fit %m/%d/%Y, too",
        "moment": "{role: TODO, kind: timestamp, format: '%Y-%m-%dT%H:%M:%S%z', precision: month, bounds: "
        "[2010-01-01, 2029-12-31]" + note,
        "some": "{role: TODO, kind: date, precision: month, bounds: [1930-01-01, 1999-12-31]}  # 60 nulls; "
        "more exact dates identify people",
        "none": "{role: TODO, kind: date, precision: month}  # 120 nulls; more exact dates identify people",
        "code": "{role: TODO, kind: categorical, categories: ['2020-01-01']}"
        "  # 1 rarer categories are not shown: add or merge them",
    }


def test_midnights_of_another_clock_are_noted_in_the_draft(tmp_path: Path) -> None:
    born = [datetime(day.year, day.month, day.day, 22 + number % 2) for number, day in enumerate(DAYS)]
    found = drafted(tmp_path, born=born, seen=TIMES, day=DAYS, at=[datetime(2020, 1, 1, 12)] * 120)
    noted = {name for name, line in found.items() if "midnights of another clock" in line}
    assert noted == {"born", "at"}
    assert not [line for line in found.values() if "22" in line]


def test_dates_with_empty_texts_are_drafted_with_a_note_of_them(tmp_path: Path) -> None:
    days = [day.isoformat() if number % 4 else " " for number, day in enumerate(DAYS)]
    found = drafted(tmp_path, some=days, none=[""] * 120)
    assert found["some"].startswith("{role: TODO, kind: date, format: '%Y-%m-%d', precision: month")
    assert "30 empty texts: make them null in the source or in a transform" in found["some"]
    assert "kind: categorical" in found["none"]


@pytest.mark.quick("sensitive")  # the other roles
@pytest.mark.parametrize("role", ["quasi_identifier", "sensitive", "insensitive"])
def test_what_is_drafted_of_dates_is_taken_at_ingest(tmp_path: Path, role: str) -> None:
    columns = {name: column for name, column in DATED.items() if name not in ("some", "none")}
    lines_of = drafted(tmp_path, **columns)
    fields = {name: yaml.safe_load(said.replace("TODO", role)) for name, said in lines_of.items()}
    schema = load_schema(fields)
    source = find_source(str(tmp_path / "t.parquet"))
    check_source(source, schema)
    assert copy_source(source, schema, tmp_path / "copy.parquet").rows == 120


def test_numbers_of_oracle_are_drafted_as_numbers_and_dates(tmp_path: Path) -> None:
    dates = [20150003 + 100 * (1 + number % 12) for number in range(120)]
    found = drafted(
        tmp_path,
        price=pa.array([1, 2, 90] * 40).cast(pa.decimal128(21, 2)),
        born=pa.array([1930 + number % 70 for number in range(120)]).cast(pa.decimal128(22, 0)),
        day=pa.array(dates, pa.int64()),
        entry=pa.array(dates).cast(pa.decimal128(19, 0)).cast(pa.decimal128(8, 0)),
        amount=pa.array([number * 100 for number in dates], pa.int64()),
    )
    assert "kind: ordinal, bounds: [0, 90]" in found["price"]
    assert found["born"].startswith("{role: TODO, kind: numeric, bounds: [1930, 2000]}")
    assert found["day"].startswith("{role: TODO, kind: date, format: '%Y%m%d', precision: month")
    assert found["entry"] == found["day"]
    assert "kind: date" not in found["amount"]


def test_a_type_that_no_kind_takes_is_named_and_not_drafted(tmp_path: Path) -> None:
    found = drafted(tmp_path, at=pa.array([1, 2] * 9, pa.time64("us")))
    assert found["at"] == (
        "{role: TODO, kind: TODO}  # time64[us] is of no kind: cast it in the source, or do not read it"
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PRIVACY_WORK_AREA", raising=False)
    return tmp_path


def test_the_file_of_the_tutorial_is_its_draft_with_decisions(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loans().to_csv(home / "loans.csv", index=False)
    draft = yaml.safe_load(infer(capsys, home / "loans.csv"))
    finished = yaml.safe_load((TUTORIAL / "loans.yaml").read_text())
    assert set(draft) <= set(finished)
    assert set(finished) - set(draft) == {"description", "approval"}
    roles = {name: fields.pop("role") for name, fields in draft["schema"].items()}
    assert {name: fields.pop("role") == roles[name] for name, fields in finished["schema"].items()} == {
        name: name == "card" for name in roles
    }
    changed = {name for name, fields in draft["schema"].items() if fields != finished["schema"][name]}
    assert changed == {"postcode", "loans"}
    assert finished["release"].items() >= draft["release"].items()
    assert finished["source"].keys() == draft["source"].keys()
    assert (finished["publish"], finished["name"]) == (draft["publish"], draft["name"])


def infer(capsys: pytest.CaptureFixture[str], table: object) -> str:
    assert main(["schema", "infer", str(table)]) == DONE
    return capsys.readouterr().out


def test_a_folders_name_is_a_column_and_nothing_is_left_behind(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for country, start in (("DE", 0), ("FR", 20)):
        folder = home / "people" / f"country={country}"
        folder.mkdir(parents=True)
        pd.DataFrame({"age": range(start, start + 20)}).to_parquet(folder / "part.parquet")
    found = lines(infer(capsys, home / "people"))
    assert found["age"].startswith("{role: TODO, kind: numeric}  # every record has its own value")
    assert found["country"] == "{role: TODO, kind: categorical, categories: [DE, FR]}"
    assert not [path for path in (home / "home").rglob("*") if path.is_file()]


def test_files_may_have_their_columns_in_another_order(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "people").mkdir()
    frame = pd.DataFrame({"a": [1, 2] * 10, "b": ["x", "y"] * 10})
    frame.to_parquet(home / "people" / "1.parquet")
    frame[["b", "a"]].to_parquet(home / "people" / "2.parquet")
    found = lines(infer(capsys, home / "people"))
    assert found == {
        "a": "{role: TODO, kind: ordinal, bounds: [1, 2]}",
        "b": "{role: TODO, kind: categorical, categories: [x, y]}",
    }


def test_a_table_may_be_elsewhere(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.BytesIO()
    pd.DataFrame({"a": [1, 2] * 10}).to_parquet(stream)
    MemoryFileSystem().pipe("/drafts/people.parquet", stream.getvalue())
    try:
        text = infer(capsys, "memory://drafts/people.parquet")
    finally:
        MemoryFileSystem().rm("/drafts", recursive=True)
    assert lines(text) == {"a": "{role: TODO, kind: ordinal, bounds: [1, 2]}"}


def test_a_table_without_records_has_columns(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = home / "people" / "country=DE"
    folder.mkdir(parents=True)
    pd.DataFrame({"age": pd.Series([], dtype="int64")}).to_parquet(folder / "part.parquet")
    assert list(lines(infer(capsys, home / "people"))) == ["age", "country"]


@pytest.mark.parametrize("damage", ["truncated", "types"])
def test_files_that_are_not_whole_or_not_alike_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    (home / "people").mkdir()
    pd.DataFrame({"a": ["canary"] * 20}).to_parquet(home / "people" / "1.parquet")
    second = home / "people" / "2.parquet"
    pd.DataFrame({"a": ["canary"] if damage == "truncated" else [1]}).to_parquet(second)
    if damage == "truncated":
        second.write_bytes(second.read_bytes()[:-9])
    assert main(["schema", "infer", str(home / "people")]) == WRONG
    said = capsys.readouterr()
    assert "2.parquet" in said.err
    assert "canary" not in said.err + said.out
    assert not [path for path in (home / "home").rglob("*") if path.is_file()]


def test_text_with_direct_identifiers_is_drafted_as_one_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n = 100
    columns = {
        "contact": ["mail canary@example.org"] * n,
        "city": ["north", "south"] * (n // 2),
        "last_name": ["Canarysmith", "Canaryjones"] * (n // 2),
        "age": [30, 40] * (n // 2),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert main(["schema", "infer", str(tmp_path / "t.parquet")]) == DONE
    text = capsys.readouterr().out
    found = lines(text)
    assert found["contact"].startswith("{role: identifier, kind: categorical}  # email in 100 records: not ")
    assert found["last_name"].startswith("{role: identifier, kind: categorical}  # name in 100 records: not ")
    assert found["city"] == "{role: TODO, kind: categorical, categories: [north, south]}"
    assert "anary" not in text


def test_wide_bounds_are_drafted_with_a_note_on_scales(tmp_path: Path) -> None:
    wide = pa.array(np.geomspace(1, 9e7, 40).tolist())
    line = drafted(tmp_path, pay=wide, age=pa.array([20.5, 50.5] * 20))
    assert "bounds: [0.0, 90000000.0]" in line["pay"]
    assert "scale: quantiles" in line["pay"]
    assert "scale" not in line["age"]
