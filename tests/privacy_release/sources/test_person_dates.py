"""Dates of persons as a source is read: one shift a person, and columns derived over all files."""

import datetime as dt
import hashlib
import hmac
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import IntegrityError, SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources import person_dates
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.person_dates import FirstDays
from privacy_release.sources.pseudonyms import Naming, PseudonymKey
from privacy_release.sources.reading import check_source
from privacy_release.sources.records import CopyRules

KEYS = {name: PseudonymKey(name.encode() * 32) for name in ("a", "b")}
DAYS = 30
START = dt.datetime(2020, 1, 1)
BASE: dict[str, Any] = {
    "id": {"role": "identifier"},
    "at": {"role": "insensitive", "kind": "timestamp", "as_is": True},
    "to": {"role": "insensitive", "kind": "date", "as_is": True},
}


def shifting(*columns: str, **given: Any) -> dict[str, Any]:
    """The fields, of which these columns are shifted."""
    shift = {"connection": "a", "days": DAYS, "scope": "series"} | given
    return {name: reported | ({"shift": shift} if name in columns else {}) for name, reported in BASE.items()}


def stays(persons: list[str], rng: np.random.Generator) -> pa.Table:
    """Stays of persons: when they began, and the day they ended."""
    minutes = rng.integers(0, 525_600, len(persons)).tolist()
    at = [START + dt.timedelta(minutes=n) for n in minutes]
    to = [
        (a + dt.timedelta(days=int(n))).date() for a, n in zip(at, rng.integers(0, 9, len(at)), strict=True)
    ]
    return pa.table({"id": persons, "at": pa.array(at, pa.timestamp("us")), "to": to})


def copied(
    folder: Path, files: pa.Table | Mapping[str, pa.Table], fields: dict[str, Any], **given: Any
) -> tuple[pa.Table, Copied]:
    """What the work area holds of a source, and what is reported of it."""
    files = files if isinstance(files, Mapping) else {"0": files}
    source = folder / "source"
    source.mkdir(exist_ok=True)
    for old in source.iterdir():
        old.unlink()
    for name, table in files.items():
        pq.write_table(table, source / f"{name}.parquet")
    schema = DataSchema.from_dict(fields)
    naming = Naming(series="stays", release="1", key_of=KEYS.__getitem__)
    found = find_source(str(source))
    check_source(found, schema, given.get("columns"))
    made = copy_source(found, schema, folder / "copy.parquet", CopyRules(**{"naming": naming, **given}))
    kept = pq.read_table(folder / "copy.parquet")
    made.schema.check(to_frame(kept))
    return kept, made


def amounts(
    folder: Path, persons: list[str], name: str = "stays", release: str = "1", **shift: Any
) -> list[int]:
    """By how many days each person's only date is moved."""
    table = pa.table({"id": persons, "at": [START] * len(persons), "to": [START.date()] * len(persons)})
    naming = Naming(series=name, release=release, key_of=KEYS.__getitem__)
    kept, _ = copied(folder, table, shifting("at", "to", **shift), naming=naming)
    assert [(at - START).days for at in kept["at"].to_pylist()] == [
        (to - START.date()).days for to in kept["to"].to_pylist()
    ]
    return [(at - START).days for at in kept["at"].to_pylist()]


PEOPLE = [f"p{n}" for n in range(2_000)]


@pytest.mark.parametrize("by", ["person", "one identifier"])
def test_what_lies_between_the_dates_of_a_person_stays(tmp_path: Path, by: str) -> None:
    rng = np.random.default_rng(1)
    persons = [f"p{n % 40}" for n in range(400)] if by == "person" else PEOPLE[:400]
    files = {str(n): stays(persons[n::4], rng) for n in range(4)}
    fields = shifting("at", "to") | ({"person": "id"} if by == "person" else {})
    kept, made = copied(tmp_path, files, fields)
    true = pa.concat_tables([files[name] for name in sorted(files)]).to_pandas()
    found = kept.to_pandas()
    moved = found["at"] - true["at"]
    assert (pd.to_datetime(found["to"]) - pd.to_datetime(true["to"]) == moved).all()
    assert (moved % pd.Timedelta(days=1) == pd.Timedelta(0)).all()
    each = moved.dt.days.groupby(true["id"])
    assert each.min().equals(each.max())
    assert each.first().abs().between(1, DAYS).all()
    assert each.first().nunique() > 20
    assert made.shifted is not None
    assert made.shifted.columns == ["at", "to"]


def test_amounts_are_uniform_and_never_none(tmp_path: Path) -> None:
    found = pd.Series(amounts(tmp_path, PEOPLE, days=5)).value_counts()
    assert sorted(found.index) == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
    # chi square of 9 degrees of freedom: above 40 once in 100,000 keys
    assert ((found - 200) ** 2 / 200).sum() < 40


def test_amounts_are_hmac_of_the_identifier_and_no_one_makes_them_without_the_key(tmp_path: Path) -> None:
    found = amounts(tmp_path, PEOPLE[:50])
    parts = (b"shift of up to 30 days", b"series", b"stays")
    domain = b"".join(len(part).to_bytes(4, "big") + part for part in parts)

    def by(key: bytes) -> list[int]:
        drawn = [hmac.digest(key, domain + person.encode(), hashlib.sha256)[:8] for person in PEOPLE[:50]]
        numbers = [int.from_bytes(digest, "big") % 60 - 30 for digest in drawn]
        return [number + (number >= 0) for number in numbers]

    assert found == by(b"a" * 32)
    public = [b"", KEYS["a"].fingerprint.encode(), bytes.fromhex(KEYS["a"].fingerprint), b"b" * 32]
    assert all(found != by(key) for key in public)


def test_runs_and_files_share_amounts_in_a_series_alone(tmp_path: Path) -> None:
    few = PEOPLE[:400]
    one = amounts(tmp_path, few)
    assert one == amounts(tmp_path, few, release="2")
    assert one == amounts(tmp_path, few[::-1])[::-1]
    assert one == amounts(tmp_path, few, name="other", series="stays")
    others = [
        amounts(tmp_path, few, connection="b"),
        amounts(tmp_path, few, name="other"),
        amounts(tmp_path, few, scope="release"),
        amounts(tmp_path, few, scope="release", release="2"),
        amounts(tmp_path, few, days=29),
    ]
    for some, other in combinations([one, *others], 2):
        # equal by chance in one of 60: more than 30 of 400 once in a million keys
        assert sum(a == b for a, b in zip(some, other, strict=True)) < 30


def test_a_number_and_its_text_are_one_person(tmp_path: Path) -> None:
    assert amounts(tmp_path, ["1", "2", "3"]) == amounts(tmp_path, [1, 2, 3])  # type: ignore[list-item]  # on purpose


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.datetimes(dt.datetime(2019, 1, 1), dt.datetime(2021, 1, 1))),
        min_size=2,
    ),
    st.integers(1, 400),
    st.sampled_from(["second", "day", "month"]),
)
def test_bounds_are_of_true_values_and_the_schema_that_goes_on_has_room_for_the_shifted_ones(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, dt.datetime]], days: int, precision: str
) -> None:
    folder = tmp_path_factory.mktemp("shifted")
    at = [moment.replace(microsecond=0) for _, moment in rows]
    bounds = [min(at).isoformat(), (max(at) + dt.timedelta(days=32)).isoformat()]
    fields = {"role": "quasi_identifier", "kind": "timestamp", "precision": precision, "bounds": bounds}
    fields["shift"] = {"connection": "a", "days": days, "scope": "series"}
    table = pa.table({"id": [n for n, _ in rows], "at": at})
    kept, made = copied(folder, table, {"id": {"role": "identifier"}, "at": fields, "person": "id"})
    assert made.schema["at"].bounds is not None
    assert not made.schema.to_shift
    if precision == "second":
        found = kept["at"].to_pylist()
        moved: dict[int, set[dt.timedelta]] = {}
        for (person, _), true, shown in zip(rows, at, found, strict=True):
            moved.setdefault(person, set()).add(shown - true)
        assert all(len(amounts) == 1 for amounts in moved.values())


def test_a_true_value_out_of_the_bounds_is_refused_wherever_a_shift_would_put_it(tmp_path: Path) -> None:
    """A shift must neither hide a fault of the source nor make one."""
    for day, fits in (
        ("2020-03-01", True),
        ("2020-02-29", False),
        ("2020-03-31", True),
        ("2020-04-01", False),
    ):
        fields = shifting("to")
        fields["to"] |= {"bounds": ["2020-03-01", "2020-03-31"]}
        persons, moment = PEOPLE[:200], dt.date.fromisoformat(day)
        table = pa.table({"id": persons, "at": [START] * 200, "to": [moment] * 200})
        if fits:
            copied(tmp_path, table, fields)
        else:
            with pytest.raises(SchemaError, match="to: 200 values are out of the bounds") as caught:
                copied(tmp_path, table, fields)
            assert day not in str(caught.value)


def test_values_are_shifted_before_they_are_cut(tmp_path: Path) -> None:
    fields = shifting("at") | {"at": shifting("at")["at"] | {"as_is": False, "precision": "month"}}
    last = pa.table({"id": PEOPLE[:99], "at": [dt.datetime(2020, 1, 31, 12)] * 99, "to": [START.date()] * 99})
    kept, _ = copied(tmp_path, last, fields)
    assert set(kept["at"].to_pylist()) == {
        dt.datetime(2020, 1, 1),
        dt.datetime(2020, 2, 1),
        dt.datetime(2020, 3, 1),
    }


def test_neither_true_dates_nor_key_are_in_the_copy(tmp_path: Path) -> None:
    amounts(tmp_path, PEOPLE[:50])
    data = (tmp_path / "copy.parquet").read_bytes()
    assert b"a" * 32 not in data
    assert not any(person.encode() in data for person in PEOPLE[20:50])
    assert START not in pq.read_table(tmp_path / "copy.parquet")["at"].to_pylist()


def test_nulls_stay_nulls_and_a_record_of_no_one_is_refused(tmp_path: Path) -> None:
    table = pa.table({"id": ["x", "y"], "at": [START, None], "to": pa.array([None, None], pa.date32())})
    kept, _ = copied(tmp_path, table, shifting("at", "to"))
    assert [at is None for at in kept["at"].to_pylist()] == [False, True]
    assert kept["to"].null_count == 2
    table = pa.table({"id": ["x", None, None], "at": [START] * 3, "to": [START.date()] * 3})
    with pytest.raises(SchemaError, match="id: 2 records have no value by which to shift dates"):
        copied(tmp_path, table, shifting("at", "to"))


def test_an_identifier_that_repeats_still_says_that_rows_are_no_people(tmp_path: Path) -> None:
    table = stays(["x", "x", "y"], np.random.default_rng(0))
    with pytest.raises(SchemaError, match=r"id: 1 record repeats.*person: id"):
        copied(tmp_path, table, shifting("at"))
    copied(tmp_path, table, shifting("at") | {"person": {"none": "numbers are given out again each year"}})


@pytest.mark.parametrize("identifiers", [pa.array([START]), pa.array([[1]]), pa.array([True])])
def test_whose_dates_they_are_must_be_text_or_a_number(tmp_path: Path, identifiers: pa.Array) -> None:
    table = pa.table({"id": identifiers, "at": [START], "to": [START.date()]})
    with pytest.raises(SchemaError, match="id: must be text or a whole number to shift dates by"):
        copied(tmp_path, table, shifting("at"))


def test_a_release_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"shifted dates of \['at'\] need the name and the ID of the release"):
        copied(tmp_path, stays(["x"], np.random.default_rng(0)), shifting("at"), naming=None)


AGE: dict[str, Any] = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
BORN: dict[str, Any] = {"role": "identifier", "kind": "date"}
DERIVED: dict[str, Any] = {
    "id": BASE["id"],
    "born": BORN,
    "at": BASE["at"],
    "age": AGE | {"derive": {"years_between": ["born", "at"]}},
    "since": {"role": "insensitive", "kind": "numeric", "derive": {"days_since_first": "at"}},
    "person": "id",
}


def visits(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    persons = rng.integers(0, max(n // 6, 1), n)
    born = [dt.date(1950, 1, 1) + dt.timedelta(days=int(p * 97 % 20_000)) for p in persons]
    at = [START + dt.timedelta(minutes=int(m)) for m in rng.integers(0, 1_000_000, n)]
    return pa.table({"id": [f"p{p}" for p in persons], "born": born, "at": at})


@pytest.mark.parametrize("shifted", [False, True])
def test_derived_columns_are_of_true_dates_over_all_files(tmp_path: Path, shifted: bool) -> None:
    files = {str(n): visits(500, n) for n in range(3)}
    shift = {"shift": {"connection": "a", "days": 300, "scope": "release"}} if shifted else {}
    kept, made = copied(tmp_path, files, {**DERIVED, "at": BASE["at"] | shift})
    rows = pa.concat_tables([files[name] for name in sorted(files)]).to_pylist()
    first: dict[str, dt.date] = {}
    for row in rows:
        first[row["id"]] = min(first.get(row["id"], dt.date.max), row["at"].date())
    ages = [
        row["at"].year
        - row["born"].year
        - ((row["at"].month, row["at"].day) < (row["born"].month, row["born"].day))
        for row in rows
    ]
    assert kept["age"].to_pylist() == ages
    assert kept["since"].to_pylist() == [(row["at"].date() - first[row["id"]]).days for row in rows]
    assert kept.column_names == list(made.schema.names) == ["id", "at", "age", "since"]
    assert kept.schema.field("age").type == kept.schema.field("since").type == pa.int64()
    assert made.schema.derived_from == ()
    assert (kept["at"].to_pylist() == [row["at"] for row in rows]) is not shifted


def test_what_is_read_twice_is_the_source_that_is_fingerprinted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is replaced while the first days are found: no copy, and run again."""
    table = visits(50)
    add = FirstDays.add

    def replaced(self: FirstDays, *given: Any, **more: Any) -> Any:
        late = table.set_column(2, "at", pa.array([START - dt.timedelta(days=9)] * 50))
        pq.write_table(late, tmp_path / "source" / "0.parquet")  # which was read before
        return add(self, *given, **more)

    monkeypatch.setattr(FirstDays, "add", replaced)
    with pytest.raises(IntegrityError, match="must not change while they are read"):
        copied(tmp_path, {"0": table, "1": table}, DERIVED)
    assert not (tmp_path / "copy.parquet").exists()


def test_a_null_date_gives_a_null_to_which_the_rules_of_nulls_apply(tmp_path: Path) -> None:
    day = dt.date(2000, 1, 1)
    table = pa.table({"id": ["x", "x", "y"], "born": [day, None, day], "at": [START, START, None]})
    with pytest.raises(SchemaError, match="age: 2 values are null: drop them at ingest, or keep"):
        copied(tmp_path, table, DERIVED)
    kept, made = copied(tmp_path, table, DERIVED, nulls="drop")
    assert (kept["age"].to_pylist(), made.dropped) == ([20], 2)
    kept, made = copied(tmp_path, table, DERIVED, nulls="keep")
    assert (kept["age"].to_pylist(), kept["since"].to_pylist()) == ([20, None, None], [0, 0, None])
    assert made.schema["age"].nullable


def test_the_first_row_counts_even_where_it_is_left_out(tmp_path: Path) -> None:
    day = dt.date(2000, 1, 1)
    later = START + dt.timedelta(days=10)
    table = pa.table({"id": ["x", "x"], "born": [None, day], "at": [START, later]})
    kept, _ = copied(tmp_path, table, DERIVED, nulls="drop")
    assert kept["since"].to_pylist() == [10]


def test_a_record_of_no_one_is_refused_or_left_out(tmp_path: Path) -> None:
    day = dt.date(2000, 1, 1)
    table = pa.table({"id": ["x", None], "born": [day, day], "at": [START, START]})
    with pytest.raises(SchemaError, match="id: 1 record is without a person"):
        copied(tmp_path, table, DERIVED)
    kept, _ = copied(tmp_path, table, DERIVED, nulls="drop")
    assert kept["since"].to_pylist() == [0]


@pytest.mark.parametrize("nulls", ["fail", "drop", "keep"])
def test_a_date_that_cannot_be_read_is_no_null(tmp_path: Path, nulls: str) -> None:
    """With `drop` its record would otherwise be lost without a word."""
    fields = {**DERIVED, "born": BORN | {"format": "%Y-%m-%d"}}
    table = pa.table({"id": ["x", "y"], "born": ["2000-01-01", "canary"], "at": [START, START]})
    with pytest.raises(SchemaError, match="born: 1 value is not in the format") as caught:
        copied(tmp_path, table, fields, nulls=nulls)
    assert "canary" not in str(caught.value)
    assert "is null" not in str(caught.value)


def test_a_derived_value_out_of_bounds_is_a_fault_by_column_and_count(tmp_path: Path) -> None:
    table = pa.table(
        {"id": ["x", "y"], "born": [dt.date(2020, 1, 2), dt.date(1850, 1, 1)], "at": [START, START]}
    )
    with pytest.raises(SchemaError, match="age: 2 values are out of the bounds") as caught:
        copied(tmp_path, table, DERIVED)
    assert "-1" not in str(caught.value)
    assert "170" not in str(caught.value)


def test_an_age_that_is_derived_may_be_coded_and_a_shifted_date_not(tmp_path: Path) -> None:
    """The bounds are of the age as it is derived; a code would tell where a shift moved a date from."""
    born = [dt.date(1920, 1, 1), dt.date(1990, 1, 1), None]
    table = pa.table({"id": ["x", "y", "z"], "born": pa.array(born, pa.date32()), "at": [START] * 3})
    fields = {**DERIVED, "age": DERIVED["age"] | {"top_code": 90}}
    kept, made = copied(tmp_path, table, fields, nulls="keep")
    assert kept["age"].to_pylist() == [90, 30, None]
    assert kept.schema.field("age").type == pa.int64()
    assert made.schema["age"].bounds == (0, 90)
    shift = {"connection": "a", "days": 3, "scope": "series"}
    at = {"role": "quasi_identifier", "kind": "date", "bottom_code": "2019-01-01", "shift": shift}
    with pytest.raises(SchemaError, match="shift moves values away from top_code and bottom_code"):
        DataSchema.from_dict({**DERIVED, "at": at})


def test_derived_columns_are_not_read(tmp_path: Path) -> None:
    table = visits(60)
    plain, read = copied(tmp_path, table, DERIVED)[0].drop_columns("id"), ["id", "born", "at"]
    assert plain == copied(tmp_path, table, DERIVED, columns=read)[0].drop_columns("id")
    taken = table.append_column("age", pa.array([1] * 60))
    with pytest.raises(
        SchemaError, match=r"0.parquet: columns \['age'\] are derived, but the source has them"
    ):
        copied(tmp_path, taken, DERIVED)
    assert plain == copied(tmp_path, taken, DERIVED, columns=read)[0].drop_columns("id")
    with pytest.raises(SchemaError, match=r"columns \['age'\] are not in the schema"):
        copied(tmp_path, table, DERIVED, columns=[*read, "age"])


def test_dates_that_stay_behind_must_be_dates(tmp_path: Path) -> None:
    table = visits(3)
    for column, words in (
        (pa.array([1, 2, 3]), "must hold dates, times or text with a format"),
        (pa.array(["x"] * 3), "is text, so it must have a format"),
    ):
        with pytest.raises(SchemaError, match=f"born: {words}"):
            copied(tmp_path, table.set_column(1, "born", column), DERIVED)


def test_birth_dates_repeat_and_name_no_one(tmp_path: Path) -> None:
    fields = {
        "id": BASE["id"],
        "born": BORN,
        "age": AGE | {"derive": {"years_between": ["born", "2020-06-01"]}},
    }
    table = pa.table({"id": ["x", "y"], "born": [dt.date(2000, 6, 1)] * 2})
    kept, made = copied(tmp_path, table, fields)
    assert (kept.column_names, kept["age"].to_pylist()) == (["age"], [20, 20])
    assert made.schema.names == ("age",)


def test_a_column_of_the_folders_names_may_be_derived_from(tmp_path: Path) -> None:
    fields = {**DERIVED, "born": BORN | {"format": "%Y-%m-%d"}}
    for day in ("2000-01-01", "1990-01-01"):
        folder = tmp_path / "source" / f"born={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [day], "at": [START]}), folder / "0.parquet")
    naming = Naming(series="stays", release="1", key_of=KEYS.__getitem__)
    source, target = find_source(str(tmp_path / "source")), tmp_path / "copy.parquet"
    copy_source(source, DataSchema.from_dict(fields), target, CopyRules(naming=naming))
    assert sorted(pq.read_table(target)["age"].to_pylist()) == [20, 30]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.none() | st.integers(-400, 400)), max_size=9), max_size=9
    )
)
def test_first_days_are_found_whatever_parts_they_come_in(parts: list[list[tuple[int, int | None]]]) -> None:
    found, least = FirstDays(), {}
    for part in parts:
        days = np.array([np.nan if day is None else day for _, day in part], np.float64)
        found.add(np.array([person for person, _ in part], np.int64), days)
        for person, day in part:
            if day is not None:
                least[person] = min(least.get(person, day), day)
    requested = np.arange(-4, 5)
    expected = [least.get(person, np.nan) for person in requested.tolist()]
    np.testing.assert_array_equal(found.of(requested, np.ones(9, np.bool_)), expected)
    some = np.array([True, False] * 4 + [True])
    np.testing.assert_array_equal(found.of(requested[some], some), np.where(some, expected, np.nan))


def test_first_days_are_joined_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(person_dates, "_WAITING", 10)
    rng, found = np.random.default_rng(0), FirstDays()
    persons, days = rng.integers(0, 50, 5_000), rng.integers(0, 10_000, 5_000)
    for begin in range(0, 5_000, 7):
        found.add(persons[begin : begin + 7], days[begin : begin + 7].astype(np.float64))
        assert sum(len(part) for part, _ in found._waiting) <= 50
    expected = pd.Series(days).groupby(persons).min().reindex(range(50)).to_numpy()
    np.testing.assert_array_equal(found.of(np.arange(50), np.ones(50, np.bool_)), expected)
