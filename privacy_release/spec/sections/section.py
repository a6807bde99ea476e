"""Base of the sections of a release file, and types of fields that several sections have."""

from collections.abc import Iterable
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from privacy_engine.choice import did_you_mean
from privacy_release.config.durations import parse_duration
from privacy_release.config.problems import shortened
from privacy_release.spec.files import file_within, include_folder

_LONGEST_WORD = 40  # characters of a word that an error quotes
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"  # valid as DAG ID, table name and folder name


def _existing_file(value: str, info: ValidationInfo) -> str:
    return str(file_within((info.context or {}).get("home") or include_folder(), value))


def _category(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(
            "must be text or a number; put quotes around words such as yes, no, on, off and around dates"
        )
    whole = isinstance(value, float) and value.is_integer()  # the text that a column of doubles gets
    return str(int(value) if whole else value)


def one_of(known: Iterable[str], value: str) -> str:
    """Return the value, if it is a known word."""
    words = list(known)
    if value not in words:
        hint = did_you_mean(value, words)
        raise ValueError(f"must be one of {words}, got {shortened(value, _LONGEST_WORD)!r}{hint}")
    return value


def _duration(value: str) -> str:
    parse_duration(value)
    return value


Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
IncludeFile = Annotated[str, Field(min_length=1), AfterValidator(_existing_file)]
Category = Annotated[str, BeforeValidator(_category)]
Duration = Annotated[str, AfterValidator(_duration)]


def check_plain(parameters: object) -> None:
    """Refuse dates among parameters: no method accepts them, and Airflow cannot store a DAG with them."""
    inside = [parameters]
    while inside:
        here = inside.pop()
        if isinstance(here, date):
            raise ValueError("a parameter must be text or a number; put quotes around dates")
        if isinstance(here, dict | list):
            inside += here.values() if isinstance(here, dict) else here


class Section(BaseModel):
    """A mapping that allows only known fields: a misspelt one must not be ignored silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=False, validate_by_alias=True)
