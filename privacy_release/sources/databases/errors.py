"""Translate errors of databases and their drivers into errors that show no row, address or password."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from privacy_engine.errors import PrivacyEngineError, SchemaError, SourceError, SpecError

# Classes and codes of SQLSTATE (PostgreSQL, appendix A) that help the author of a query.
_STATES: Mapping[str, str] = MappingProxyType(
    {
        "42P01": "the query names a table that does not exist, or not for this user: correct it",
        "42703": "the query names a column that does not exist: correct it",
        "42501": "the user of the connection may not read what the query names: grant SELECT on it",
        "42": "the query is not valid SQL there: correct it",
        "0A": "the query would do more than read: write a SELECT",
        "25006": "the query would write, but a source is only read: write a SELECT",
        "22": "a value cannot be read or cast as the query requires: correct the cast, or the rows",
    }
)


def translated_error(error: Exception, connection: str, *, dropped: bool) -> PrivacyEngineError:
    """Return an error with only the kind of the original one, its SQLSTATE, and the remedy.

    Args:
        error: Error of the database driver.
        connection: Name of the connection.
        dropped: Whether an unknown error means that the database was or became unreachable.
    """
    cause = getattr(error, "orig", None) or error
    code = str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or "")
    kind = f"{type(cause).__name__}, {code}" if code else type(cause).__name__
    said = _STATES.get(code) or _STATES.get(code[:2])
    if code == "SQLITE_ERROR" or "[SQLite] Failed to prepare" in str(
        cause
    ):  # both are about names in the query
        missing = re.search(r"no such (table|column)", str(cause).partition("\n")[0])
        said = f"the query names a {missing[1]} that does not exist: correct it" if missing else _STATES["42"]
    if said is not None:
        return SchemaError(f"query of {connection}: {said} ({kind})")
    if type(cause).__name__ == "DataError":
        return SchemaError(f"query of {connection}: {_STATES['22']} ({kind})")
    if not dropped:
        return SpecError(f"query of {connection} could not be run ({kind}); correct the query or its address")
    return SourceError(
        f"the database of connection {connection} cannot be reached, or the connection dropped ({kind}); "
        "nothing of it was kept: check that it runs, its address, user and password, then retry"
    )
