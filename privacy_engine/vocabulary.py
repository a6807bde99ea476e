"""The words that describe columns and dates, in schemas as in policies; this module does not load pandas."""

import itertools
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, Protocol

from privacy_engine.errors import SchemaError

PARTITION = "release"  # column of a release table: ID of the release that a record belongs to
COUNTERFEITS = "counterfeits"  # released column: number of counterfeits in the class of the record
LONGEST_NAME = 255  # limit of data catalogs on the characters of a column name
_ROW_INDEX = "__index_level_"  # prefix of the columns that pandas writes for a row index

# Three-digit ZIP codes of at most 20,000 people by the census of 2000: HHS, Office for Civil Rights, Guidance
# Regarding Methods for De-identification of Protected Health Information (2012), "When can ZIP codes be
# included in de-identified information?".
RARE_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "us_zip3_census_2000": (
        *("036", "059", "063", "102", "203", "556", "692", "790", "821", "823", "830", "831", "878", "879"),
        *("884", "890", "893"),
    )
}


class Role(StrEnum):
    """What an attribute means for the people in the table."""

    IDENTIFIER = "identifier"  # names one person: never released
    QUASI_IDENTIFIER = "quasi_identifier"  # known to others, names a person in combination
    SENSITIVE = "sensitive"  # what must not be learned of a person
    INSENSITIVE = "insensitive"  # released unchanged


class Kind(StrEnum):
    """Which comparisons the values of an attribute allow."""

    CATEGORICAL = "categorical"
    ORDINAL = "ordinal"
    NUMERIC = "numeric"
    DATE = "date"
    TIMESTAMP = "timestamp"


class Meaning(StrEnum):
    """What the values of a column are about, for policies that treat columns by that."""

    AGE = "age"  # of a person, in years
    DATE = "date"  # about a person, or a part of one, such as a year; implied by kind date and timestamp
    POSTCODE = "postcode"  # or its first characters
    PLACE = "place"  # smaller than a state: address, city, county, precinct, coordinates, geocodes
    REGION = "region"  # a state, or larger
    NAME = "name"  # of the person, relatives, employers, members of the household
    CONTACT = "contact"  # telephone, fax, email, web or IP address
    NUMBER = "number"  # or code that identifies one person, record, plan, account, licence or device
    BIOMETRIC = "biometric"  # or a picture of the face
    OTHER = "other"  # none of these


class Departures(StrEnum):
    """Whether an observer who has all releases also knows who left the table between them."""

    KNOWN = "known"  # a person who is not in a release is no candidate in it
    UNKNOWN = "unknown"  # a person who left remains a candidate if the released values allow it


class PublishMode(StrEnum):
    """Which releases a release table holds."""

    SNAPSHOT = "snapshot"  # one: each replaces the one before
    PARTITIONS = "partitions"  # one a partition key, each about other records
    APPEND = "append"  # all of them, for people whose earlier releases are known


class Superseded(StrEnum):
    """What happens to a release that is replaced in its table."""

    DROP = "drop"  # its rows are erased; the record of what was proven about it is kept
    HISTORY = "history"  # its rows move to a separate table


class ReleaseKind(StrEnum):
    """Origin of released records."""

    ANONYMIZED = "anonymized"  # records of people, whose quasi-identifiers are recoded
    SYNTHETIC = "synthetic"  # drawn from a differentially private model
    RANDOMIZED = "randomized"  # a random answer for each person
    STRUCTURE = "structure"  # invented from the schema, without reading a record


class Intervals(StrEnum):
    """How the interval of an ordered attribute is written."""

    TEXT = "text"  # one column: "[17, 25]", or "17" where both ends are equal; with nulls "[17, 25] or null"
    BOUNDS = "bounds"  # two typed columns: age_from, age_to; where it may be null, a truth value: age_null
    MIDPOINT = "midpoint"  # one number column; the only form whose cells do not cover the values


# Meaning of a null in both bounds, for a method that releases a value unchanged or not at all.
SUPPRESSED = "null: the value was suppressed, because the records of its class do not share it"


class CalendarUnit(StrEnum):
    """A unit of the calendar."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    DECADE = "decade"


def counted(count: int, one: str, more: str = "") -> str:
    """Format a count with its noun, or with its noun and verb if both are given.

    >>> counted(1, "row"), counted(1000, "row"), counted(1, "entry", "entries")
    ('1 row', '1,000 rows', '1 entry')
    >>> counted(1, "value is null", "values are null"), counted(0, "value is null", "values are null")
    ('1 value is null', '0 values are null')
    """
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def bounds_of(name: str) -> tuple[str, str, str]:
    """Return the names of the released columns of an interval: its two bounds, and whether it covers a null.

    >>> bounds_of("age")
    ('age_from', 'age_to', 'age_null')
    """
    return f"{name}_from", f"{name}_to", f"{name}_null"


def released_as(name: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the released columns of a quasi-identifier: its own, or the columns of its interval.

    >>> released_as("age", ["age_from", "age_to", "job"])
    ('age_from', 'age_to')
    """
    return (name,) if name in names else tuple(end for end in bounds_of(name) if end in names)


def taken_bounds(spanned: Iterable[str], names: Collection[str]) -> str | None:
    """Explain why the bounds of quasi-identifiers clash with other released columns; None if they do not.

    Tools that read a release do not distinguish names that differ only in case.

    Args:
        spanned: Quasi-identifiers that are released as intervals.
        names: Names of all columns of the schema.

    >>> taken_bounds(["age"], ["age", "job"])
    >>> taken_bounds(["age"], ["age", "Age_To"]).partition(":")[0]
    "column 'Age_To' has the name of a bound of 'age'"
    """
    known = {name.casefold(): name for name in names}
    taken = [
        f"column {known[end.casefold()]!r} has the name of a bound of {name!r}"
        for name in spanned
        for end in bounds_of(name)
        if end.casefold() in known
    ]
    if not taken:
        return None
    return (
        f"{', '.join(taken)}: intervals are released as {', '.join(bounds_of('<name>'))}, so these names "
        "must be free; rename the column at the source, or release `intervals: text`"
    )


class DescribedColumn(Protocol):
    """Description of a column's values in a schema or a file; None where it says nothing."""

    @property
    def categories(self) -> object:
        """The values."""

    @property
    def bounds(self) -> object:
        """The smallest and the largest value."""

    @property
    def hierarchy(self) -> object:
        """A tree over the values."""


def has_public_domain(column: DescribedColumn) -> bool:
    """Whether the domain of a column comes from the schema and not from the data."""
    return any(given is not None for given in (column.categories, column.bounds, column.hierarchy))


def domains_missing(names: Iterable[str]) -> str:
    """Explain why a differentially private method refuses columns without a public domain, and what to do.

    >>> domains_missing(["age"]).partition(",")[0]
    "attributes ['age'] have no public domain"
    """
    return (
        f"attributes {list(names)} have no public domain, and a differentially private method never takes "
        "one from the data: give each categories, bounds (and bins) or a hierarchy in the schema"
    )


def unfit_names(names: Iterable[str], reserved: Collection[str] = (PARTITION,)) -> str | None:
    """Explain why a release table cannot have columns of these names; None if it can.

    Tools that read a release do not distinguish names that differ only in case, and catalogs limit a name to
    `LONGEST_NAME` characters.

    Args:
        names: Names of the columns of the release.
        reserved: Lower-case names with another meaning in a release.

    >>> unfit_names(["age", "{{ ds }}"])
    >>> unfit_names(["age", "Age"]).partition(";")[0]
    "columns 'age', 'Age' must differ in more than case"
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    found = [
        f"columns {', '.join(map(repr, same))} must differ in more than case"
        for same in alike.values()
        if len(same) > 1
    ]
    for name in itertools.chain.from_iterable(alike.values()):
        if name.casefold() in reserved or name.startswith(_ROW_INDEX):
            known = ", ".join((*reserved, f"{_ROW_INDEX}*"))
            found.append(f"column {name!r} must not have a reserved name ({known})")
        elif not name.strip() or any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
            found.append(f"column {name!r} must have a name without control characters that is not blank")
        elif len(name) > LONGEST_NAME:
            start = f"{name[:30]}\u2026"
            found.append(
                f"column {start!r} must have a name of at most {LONGEST_NAME} characters, got {len(name):,}"
            )
    if not found:
        return None
    return f"{'; '.join(found)}; rename them at the source, or in a query or transform"


def other_types(kept: Mapping[str, str], made: Mapping[str, str]) -> str | None:
    """Explain why columns of these types cannot be added to a release table; None if they can.

    Args:
        kept: Types of the release table by column.
        made: Types of the release by column. A column that the table does not have may have any type.

    >>> other_types({"cost": "int64"}, {"cost": "double", "age": "int64"}).partition(";")[0]
    'columns must keep their type from release to release, got cost (int64 in the table, double here)'
    """
    other = [
        f"{name} ({kept[name]} in the table, {kind} here)"
        for name, kind in made.items()
        if name in kept and kept[name] != kind
    ]
    if not other:
        return None
    return (
        f"columns must keep their type from release to release, got {', '.join(other)}; cast them at the "
        "source, in a query or transform, or publish under a new table name"
    )


def rare_prefixes(rare: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the list of prefixes with this name, or the list itself."""
    return RARE_PREFIXES[rare] if isinstance(rare, str) else rare


def read_rare(given: Any, field: str) -> str | tuple[str, ...]:
    """Read a list of prefixes, or the name of one.

    Raises:
        SchemaError: Naming the field.
    """
    if isinstance(given, str) and given in RARE_PREFIXES:
        return given
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
        raise SchemaError(
            f"{field} must be a list of texts, in quotes, or one of the lists {sorted(RARE_PREFIXES)}"
        )
    return tuple(given)


class AttackName(StrEnum):
    """Attacks on a release that a policy can require."""

    SINGLING_OUT = "singling_out"
    LINKAGE = "linkage"
    INFERENCE = "inference"
    MEMBERSHIP = "membership"
    INTERSECTION = "intersection"
    DIFFERENCE = "difference"
    MINIMALITY = "minimality"
    AVERAGING = "averaging"


# Attacks that need the earlier releases of the table and the persons in them.
OVER_TIME = frozenset({AttackName.INTERSECTION, AttackName.DIFFERENCE})
