"""What databases and their drivers raise, as errors that show no row, address or password."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from privacy_engine.errors import PrivacyEngineError, SchemaError, SourceError, SpecError

# Classes and codes of SQLSTATE (PostgreSQL, appendix A) that mean something to whoever wrote the query.
_STATES: Mapping[str, str] = MappingProxyType(
    {
        "42P01": "the query names a table that is not there, or not for this user: correct it",
        "42703": "the query names a column that is not there: correct it",
        "42501": "the user of the connection may not read what the query names: grant SELECT on it",
        "42": "the query is not valid SQL there: correct it",
        "0A": "the query would do more than read: write a SELECT",
        "25006": "the query would write, and a source is only read: write a SELECT",
        "22": "a value cannot be read or cast as the query says: mend the cast, or the rows",
    }
)


def told_of(error: Exception, connection: str, *, dropped: bool) -> PrivacyEngineError:
    """The error for people: only the kind of what was raised, its SQLSTATE, and what to do.

    Args:
        error: what was raised.
        connection: its name.
        dropped: whether an error of no known kind means that the database was or went away.
    """
    cause = getattr(error, "orig", None) or error
    code = str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or "")
    kind = f"{type(cause).__name__}, {code}" if code else type(cause).__name__
    said = _STATES.get(code) or _STATES.get(code[:2])
    if code == "SQLITE_ERROR" or "[SQLite] Failed to prepare" in str(
        cause
    ):  # both are about names in the query
        missing = re.search(r"no such (table|column)", str(cause).partition("\n")[0])
        said = f"the query names a {missing[1]} that is not there: correct it" if missing else _STATES["42"]
    if said is not None:
        return SchemaError(f"query of {connection}: {said} ({kind})")
    if type(cause).__name__ == "DataError":
        return SchemaError(f"query of {connection}: {_STATES['22']} ({kind})")
    if not dropped:
        return SpecError(f"query of {connection} could not be run ({kind}); correct the query or its address")
    return SourceError(
        f"the database of connection {connection} cannot be reached, or the connection dropped ({kind}); "
        "nothing of it is kept: check that it runs, its address, user and password, then retry"
    )
