"""Columns derived from dates, and dates that are shifted: by Python's calendar, and in every wrong schema."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.registry import load_method
from privacy_engine.tables.dates import complete_years
from privacy_engine.tables.schema import DataSchema

DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
SHIFT = {"connection": "dates", "days": 30, "scope": "series"}
BASE: dict[str, Any] = {
    "id": {"role": "identifier"},
    "born": {"role": "identifier", "kind": "date"},
    "at": {"role": "quasi_identifier", "kind": "timestamp", "precision": "month"},
}


def number(**derive: Any) -> dict[str, Any]:
    return {"role": "quasi_identifier", "kind": "numeric", "derive": derive}


def age(born: dt.date, day: dt.date) -> int:
    """As people count it: the birthday of this year must have come."""
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


def epoch(days: list[dt.date]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(days, "datetime64[D]").astype(np.int64)


@given(st.lists(st.tuples(DAYS, DAYS), min_size=1))
def test_years_are_those_of_birthdays_whichever_day_comes_first(pairs: list[tuple[dt.date, dt.date]]) -> None:
    start, end = (list(days) for days in zip(*pairs, strict=True))
    assert complete_years(epoch(start), epoch(end)).tolist() == [age(*pair) for pair in pairs]


@pytest.mark.parametrize("born", [dt.date(2000, 2, 29), dt.date(1999, 3, 1), dt.date(2004, 2, 28)])
def test_years_are_those_of_birthdays_on_every_day_around_leap_days(born: dt.date) -> None:
    days = [born + dt.timedelta(days=n) for n in range(-3_000, 6_000)]
    found = complete_years(epoch([born] * len(days)), epoch(days))
    assert found.tolist() == [age(born, day) for day in days]
    assert dict(zip(days, found.tolist(), strict=True))[dt.date(2001, 3, 1)] == age(born, dt.date(2001, 3, 1))


def test_who_is_born_on_a_leap_day_is_older_from_the_first_of_march_on() -> None:
    born = epoch([dt.date(2000, 2, 29)] * 3)
    days = epoch([dt.date(2003, 2, 28), dt.date(2003, 3, 1), dt.date(2004, 2, 29)])
    assert complete_years(born, days).tolist() == [2, 3, 4]


@given(st.lists(st.tuples(st.none() | DAYS, st.none() | DAYS, st.sampled_from("abc")), min_size=1))
def test_all_columns_are_what_a_loop_over_the_records_finds(
    records: list[tuple[dt.date | None, dt.date | None, str]],
) -> None:
    table = pd.DataFrame(records, columns=["born", "at", "id"]).set_axis([7] * len(records), axis="index")
    late = [day and dt.datetime.combine(day, dt.time(23, 59, 59)) for day in table["at"]]
    table["born"] = table["born"].astype("date32[pyarrow]")
    table["at"] = pd.Series(late, table.index, dtype="datetime64[us]")
    fields = {
        **BASE,
        "age": number(years_between=["born", "at"]),
        "before": number(days_between=["at", "born"]),
        "at_new_year": number(years_between=["born", dt.date(2026, 1, 1)]),
        "since": number(days_since_first="at"),
        "person": "id",
    }
    made = DataSchema.from_dict(fields).derived(table)
    new_year = dt.date(2026, 1, 1)
    firsts = {p: min((at for _, at, of in records if of == p and at), default=None) for p in "abc"}
    for row, (born, at, person) in zip(made.itertuples(index=False), records, strict=True):
        both, first = born is not None and at is not None, firsts[person]
        expected = [
            age(born, at) if both else None,  # type: ignore[arg-type]  # neither is None
            (born - at).days if both else None,  # type: ignore[operator]  # neither is None
            age(born, new_year) if born else None,
            (at - first).days if at and first else None,
        ]
        found = [row.age, row.before, row.at_new_year, row.since]
        assert [None if pd.isna(value) else value for value in found] == expected


def test_the_clock_of_the_zone_tells_which_day_it_is() -> None:
    moments = pd.Series(pd.to_datetime(["2020-03-14 23:30", "2020-03-15 00:30"], utc=True))
    table = pd.DataFrame({"born": [dt.date(2000, 3, 15)] * 2, "at": moments, "id": ["a", "a"]})
    found = {}
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        at = BASE["at"] | {"zone": zone}
        schema = DataSchema.from_dict({**BASE, "at": at, "age": number(years_between=["born", "at"])})
        found[zone] = schema.derived(table)["age"].tolist()
    assert found == {"UTC": [19, 20], "Europe/Berlin": [20, 20], "America/New_York": [19, 19]}


def test_true_dates_are_what_is_derived_from_and_not_their_periods() -> None:
    at = BASE["at"] | {"precision": "decade"}
    schema = DataSchema.from_dict({**BASE, "at": at, "age": number(years_between=["born", "at"])})
    table = pd.DataFrame(
        {"id": ["a"], "born": [dt.date(2000, 6, 1)], "at": pd.to_datetime(["2019-06-01 00:00"])}
    )
    assert schema.derived(table)["age"].tolist() == [19]


@pytest.mark.parametrize(
    ("born", "words"),
    [
        (["1990-01-01", "01.02.1990"], "1 value is not in the format"),
        (["1880-01-01", None], "1 value is out"),
    ],
)
def test_dates_that_cannot_be_read_are_reported_by_column_and_count(
    born: list[str | None], words: str
) -> None:
    """Also of a column that is not released, and so is looked at for nothing else."""
    reported = BASE["born"] | {"format": "%Y-%m-%d", "bounds": ["1900-01-01", "2026-12-31"]}
    schema = DataSchema.from_dict({**BASE, "born": reported, "age": number(years_between=["born", "at"])})
    table = pd.DataFrame({"id": ["a", "b"], "born": born, "at": pd.to_datetime(["2020-01-01"] * 2)})
    with pytest.raises(SchemaError, match=f"born: {words}") as caught:
        schema.derived(table)
    assert not [cell for cell in born if cell and cell in str(caught.value)]


AGE = number(years_between=["born", "at"])
WRONG = {
    "no such column": ({"age": number(years_between=["missing", "at"])}, r"'age'.*\['missing'\].*kind date"),
    "of no date": ({"age": number(days_between=["id", "at"])}, r"'age'.*\['id'\]"),
    "of a derived one": ({"age": AGE, "next": number(days_between=["age", "at"])}, r"'next'.*\['age'\]"),
    "first of whom": ({"since": number(days_since_first="at")}, "'since'.*as `person`"),
    "of days alone": (
        {"age": number(years_between=["2020-01-01", "2026-01-01"])},
        "at least one column of the source",
    ),
    "since a day": ({"since": number(days_since_first="2020-01-01")}, "at least one column of the source"),
    "one end": ({"age": number(years_between=["born"])}, "two columns, or a column and a day"),
    "three ends": ({"age": number(days_between=["born", "at", "at"])}, "two columns"),
    "two firsts": ({"since": number(days_since_first=["at", "born"])}, "the name of a column"),
    "no name": ({"age": number(years_between=["born", 2026])}, "two columns"),
    "two spans": ({"age": number(years_between=["born", "at"], days_since_first="at")}, "with one of"),
    "no span": ({"age": number()}, "with one of"),
    "another span": ({"age": number(weeks_between=["born", "at"])}, "derive must be one of"),
    "no mapping": ({"age": AGE | {"derive": "born"}}, "must be a mapping"),
    "of text": ({"age": AGE | {"kind": "categorical"}}, "Make it numeric or ordinal"),
    "a date": ({"age": AGE | {"kind": "date"}}, "Make it numeric or ordinal"),
    "not released": ({"age": AGE | {"role": "identifier"}}, "a released number"),
    "no days": ({"at": BASE["at"] | {"shift": SHIFT | {"days": 0}}}, "'at'.*days must be a whole number"),
    "many days": ({"at": BASE["at"] | {"shift": SHIFT | {"days": 36_501}}}, "from 1 to 36,500"),
    "half a day": ({"at": BASE["at"] | {"shift": SHIFT | {"days": 1.5}}}, "days must be a whole number"),
    "truth": ({"at": BASE["at"] | {"shift": SHIFT | {"days": True}}}, "days must be a whole number"),
    "no key": (
        {"at": BASE["at"] | {"shift": {"days": 3, "scope": "series"}}},
        "must be a mapping with connec",
    ),
    "a blank key": ({"at": BASE["at"] | {"shift": SHIFT | {"connection": " "}}}, "not blank"),
    "no scope": (
        {"at": BASE["at"] | {"shift": {"connection": "c", "days": 3}}},
        "must be a mapping with conne",
    ),
    "another scope": (
        {"at": BASE["at"] | {"shift": SHIFT | {"scope": "ever"}}},
        "shift: scope must be one of",
    ),
    "more": ({"at": BASE["at"] | {"shift": SHIFT | {"hours": 3}}}, "must be a mapping with connection"),
    "of a number": ({"n": {"kind": "numeric", "shift": SHIFT}}, "make it kind: date"),
    "of what stays": ({"born": BASE["born"] | {"shift": SHIFT}}, "'born'.*released dates"),
    "two shifts": (
        {
            "at": BASE["at"] | {"shift": SHIFT},
            "to": {"role": "sensitive", "kind": "date", "precision": "day", "shift": SHIFT | {"days": 31}},
        },
        "the same everywhere",
    ),
    "out of the calendar": (
        {"at": BASE["at"] | {"shift": SHIFT, "bounds": ["2000-01-01", "9999-12-31"]}},
        "'at'.*out of the calendar",
    ),
    "of whom": ({"at": BASE["at"] | {"shift": SHIFT}, "also": {"role": "identifier"}}, "as `person`"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_a_schema_that_does_not_fit_together_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        DataSchema.from_dict({**BASE, **changes})


def test_a_shift_needs_someone_whose_dates_they_are() -> None:
    at = BASE["at"] | {"shift": SHIFT}
    with pytest.raises(SchemaError, match="0 identifiers"):
        DataSchema.from_dict({"at": at, "n": {"kind": "numeric"}})
    # dates that a column is derived from name no one
    one = DataSchema.from_dict({**BASE, "at": at, "age": AGE})
    named = DataSchema.from_dict({**BASE, "at": at, "other": {"role": "identifier"}, "person": "other"})
    assert (one.shifted_by, named.shifted_by) == ("id", "other")


def test_the_schema_of_what_was_ingested_has_wider_bounds_and_nothing_left_to_do() -> None:
    at = BASE["at"] | {"shift": SHIFT, "bounds": ["2020-02-10", "2020-04-20"]}
    schema = DataSchema.from_dict({**BASE, "at": at, "age": AGE, "person": "id"})
    done = schema.ingested()
    # from the first second of February, 30 days before, to the last one of April, 30 days after; whole months
    assert done["at"].to_dict()["bounds"] == ["2020-01-01T00:00:00", "2020-05-31T23:59:59"]
    assert not done.to_shift
    assert done.shifted_by == ""
    assert done.derived_from == ()
    assert done == done.ingested() == DataSchema.from_dict(done.to_dict())
    assert schema == DataSchema.from_json(schema.to_json()) == DataSchema.from_yaml(schema.to_yaml())


@given(
    st.lists(
        st.tuples(
            st.datetimes(dt.datetime(2020, 2, 1), dt.datetime(2020, 4, 30, 23, 59)), st.integers(-30, 30)
        )
    ),
    st.sampled_from(["second", "day", "week", "month", "decade"]),
)
def test_shifted_values_are_within_the_wider_bounds_at_every_precision(
    moved: list[tuple[dt.datetime, int]], precision: str
) -> None:
    for kind in ("date", "timestamp"):
        if (kind, precision) == ("date", "second"):
            continue
        bounds = ["2020-02-01", "2020-04-30"] if precision != "decade" else ["2020-02-01", "2030-04-30"]
        at = {
            "role": "quasi_identifier",
            "kind": kind,
            "precision": precision,
            "bounds": bounds,
            "shift": SHIFT,
        }
        schema = DataSchema.from_dict({"id": {"role": "identifier"}, "at": at})
        table = pd.DataFrame({"id": "a", "at": pd.to_datetime([m for m, _ in moved])})
        days = np.array([n for _, n in moved], np.int64)
        made = schema.ingested().normalized(schema.shifted(table, days))
        assert not schema.ingested()["at"].problems(made["at"])


def test_a_shift_moves_whole_days_and_keeps_the_time_of_the_day() -> None:
    fields = {"id": {"role": "identifier"}, "at": {"kind": "timestamp", "as_is": True, "shift": SHIFT}}
    day = {"kind": "date", "as_is": True, "shift": SHIFT, "format": "%d.%m.%Y"}
    schema = DataSchema.from_dict({**fields, "on": day})
    exact = pd.Series([dt.datetime(2020, 2, 28, 5, 6, 7, 890_123), None]).astype("datetime64[us]")
    table = pd.DataFrame({"id": ["a", "b"], "at": exact, "on": ["28.02.2020", None]})
    table = table.set_axis([4, 4], axis="index")
    made = schema.shifted(table, np.array([2, -1]))
    assert made["at"].iloc[0] == pd.Timestamp(2020, 3, 1, 5, 6, 7, 890_123)
    assert made["on"].iloc[0] == dt.date(2020, 3, 1)
    assert made[["at", "on"]].iloc[1].isna().all()
    assert table["on"].iloc[0] == "28.02.2020"


def test_dates_that_stand_for_no_date_would_tell_the_shift_at_the_calendars_end() -> None:
    schema = DataSchema.from_dict({"id": {"role": "identifier"}, "at": BASE["at"] | {"shift": SHIFT}})
    at = pd.Series(np.array(["9999-12-31", "9999-12-02", "9999-12-01", "2020-01-01"], "datetime64[s]"))
    table = pd.DataFrame({"id": list("abcd"), "at": at})
    with pytest.raises(SchemaError, match="at: 2 dates are too close to year 1 or 9999"):
        schema.shifted(table, np.ones(4, np.int64))


@pytest.mark.parametrize("method", ["mondrian", "privbayes"])
def test_no_method_takes_dates_that_are_still_to_be_shifted(method: str) -> None:
    """In memory there is no key: true dates must not be released in silence."""
    at = {"role": "quasi_identifier", "kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "bins": 4}
    town = {"role": "sensitive", "kind": "categorical", "categories": ["a", "b"]}
    fields = {"id": {"role": "identifier"}, "at": at | {"shift": SHIFT}, "town": town}
    days = pd.Series(np.datetime64("2020-01-01", "s") + np.arange(100) * 86_400)
    table = pd.DataFrame({"id": range(100), "at": days, "town": ["a", "b"] * 50})
    parameters: dict[str, Any] = {"k": 2} if method == "mondrian" else {"epsilon": 1.0}
    schema, rng = DataSchema.from_dict(fields), np.random.default_rng(0)
    with pytest.raises(SchemaError, match=r"\['at'\] are shifted when a source is read.*remove `shift`"):
        load_method(method, **parameters).release(table, schema, rng)
    assert len(load_method(method, **parameters).release(table, schema.ingested(), rng).table)


def test_a_table_without_its_derived_columns_is_refused_and_with_them_released() -> None:
    schema = DataSchema.from_dict({**BASE, "age": AGE})
    table = pd.DataFrame({"id": range(20), "born": [dt.date(1990, 1, 1)] * 20})
    table["at"] = pd.Series(np.datetime64("2020-01-01", "s") + np.arange(20) * 86_400 * 90)
    rng, method = np.random.default_rng(0), load_method("mondrian", k=5)
    with pytest.raises(SchemaError, match=r"columns \['age'\] are missing"):
        method.release(table, schema, rng)
    assert "age_from" in method.release(schema.derived(table), schema, rng).table
