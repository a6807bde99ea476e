"""Field types of a specification that accept only certain texts and numbers."""

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from privacy_engine.vocabulary import RARE_PREFIXES

PRESETS = frozenset(
    {"@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"}
)
_CRON_FIELDS, _LONGEST_CRON = 5, 200
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def _cron(value: str) -> str:
    if value not in PRESETS and not _has_times(value):
        raise ValueError(
            f"must be five cron fields that some day meets, one of {sorted(PRESETS)}, "
            "or a mapping with asset, assets or partitions"
        )
    return value


def _has_times(cron: str) -> bool:
    """Return whether there is a next time. One DAG that waits for a 31st of February stops the scheduler."""
    from croniter import croniter  # type: ignore[import-untyped]  # it has no types

    if len(cron) > _LONGEST_CRON or len(cron.split()) != _CRON_FIELDS:
        return False
    try:
        croniter(cron, _SOME_DAY).get_next(datetime)
    except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError):  # it documents none of them
        return False
    return True


def _connection(value: str) -> str:
    """Check part of an asset's address. One that Airflow refuses would fail the DAGs of all releases."""
    if not re.fullmatch(r"[A-Za-z0-9_.#!():/\\-]{1,200}", value):
        raise ValueError(
            "must be a connection id: 1 to 200 letters and digits without accents, and the marks _-.:/#!(); "
            "correct it"
        )
    return value


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number, and not true or false; correct it")
    return value


def plain_bound(value: object) -> float | str:
    """Return a number, or a date as ISO text."""
    if isinstance(value, date):  # YAML gives dates; a datetime is one, too
        return value.isoformat()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and re.fullmatch(_ISO_DATE, value):
        return value
    raise ValueError("must be a valid number, or for dates an ISO date such as 2020-12-31; correct it")


def _rare(value: object) -> object:
    if isinstance(value, str) and value not in RARE_PREFIXES:
        raise ValueError(
            f"must be a list of texts, in quotes, or one of the lists {sorted(RARE_PREFIXES)}; correct it"
        )
    return value


def _iso_day(value: object) -> object:
    return value.isoformat() if type(value) is date else value  # YAML gives dates


def _time(value: object) -> object:
    time = value.isoformat() if isinstance(value, date) else value  # YAML gives dates
    try:
        datetime.fromisoformat(str(time))
    except ValueError:
        raise ValueError("must be a time such as 2026-11-02T06:00:00Z; correct it") from None
    return time


_ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?)?"

Time = Annotated[str, BeforeValidator(_time, json_schema_input_type=str)]
Cron = Annotated[str, AfterValidator(_cron)]
Whole = Annotated[int, BeforeValidator(_no_truth_value)]
Number = Annotated[float, BeforeValidator(_no_truth_value)]
Bound = Annotated[float | str, BeforeValidator(plain_bound, json_schema_input_type=float | str)]
# The same as in the engine, which is not imported where files are parsed.
Period = Literal["second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade"]
Meaning = Literal[
    "age", "date", "postcode", "place", "region", "name", "contact", "number", "biometric", "other"
]
Rare = Annotated[str | tuple[str, ...], BeforeValidator(_rare)]
# A column of dates, or a fixed day.
Moment = Annotated[str, Field(min_length=1), BeforeValidator(_iso_day, json_schema_input_type=str)]
Label = Annotated[str, Field(min_length=1, max_length=100)]  # limits of Airflow's database
Connection = Annotated[str, AfterValidator(_connection)]

_KEYWORDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def in_keywords(schema: Any) -> Any:
    """Write the limits of numbers with JSON Schema's keywords: pydantic writes `ge` for an optional one.

    >>> in_keywords({"anyOf": [{"type": "integer", "ge": 1}, {"type": "null"}]})
    {'anyOf': [{'type': 'integer', 'minimum': 1}, {'type': 'null'}]}
    """
    if isinstance(schema, list):
        return [in_keywords(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    names = _KEYWORDS if schema.get("type") in ("integer", "number") else {}
    return {names.get(name, name): in_keywords(value) for name, value in schema.items()}
