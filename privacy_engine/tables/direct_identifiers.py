"""Direct identifiers in a schema: pseudonyms that replace them, and columns that may contain some.

A pseudonym is a disguise and no guarantee: anyone who has the key can find out whose it is, and equal
pseudonyms link the rows that have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError

REDACT: Literal["redact"] = "redact"


class Scope(StrEnum):
    """Where equal identifiers have equal pseudonyms, narrower first."""

    RELEASE = "release"  # within the tables of one release
    SERIES = "series"  # also across all releases of a series, which links them


@dataclass(frozen=True, kw_only=True)
class Pseudonym:
    """The pseudonym that is released instead of an identifier.

    Attributes:
        scope: Where equal identifiers have equal pseudonyms.
        connection: Airflow connection whose password is their key.
        series: Name of the series of releases that belong together; None: those of one specification. Tables
            with the same series and the same key share pseudonyms.
        key: Fingerprint of the key, once the column has the pseudonyms; None in the schema of a source.

    Raises:
        SchemaError: If a part is missing or of the wrong type.
    """

    scope: Scope
    connection: str | None = None
    series: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        require_texts("pseudonym", connection=self.connection, series=self.series, key=self.key)
        if (self.connection is None) == (self.key is None):
            raise SchemaError("pseudonym requires the connection of its key. Name it as `connection`")

    def to_dict(self) -> dict[str, str]:
        """Return plain values for ``from_dict``; with a key they contain no secret."""
        values = {"scope": self.scope.value, "connection": self.connection}
        values |= {"series": self.series, "key": self.key}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, given: Any) -> "Pseudonym":
        """Read a mapping.

        Raises:
            SchemaError: If it is not a mapping, or has unknown fields or no scope.
        """
        known = ("connection", "scope", "series", "key")
        if not isinstance(given, Mapping) or set(map(str, given)) - set(known) or "scope" not in given:
            raise SchemaError("pseudonym must be a mapping with connection, scope and optionally series")
        return cls(**{**given, "scope": scope_of("pseudonym", given["scope"])})


def require_texts(field: str, **given: object) -> None:
    """Raise if a given value is not text, or is blank.

    Raises:
        SchemaError: If there is one; the message names the field.
    """
    for name, value in given.items():
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise SchemaError(f"{field}: {name} must be a text that is not blank")


def scope_of(field: str, given: object) -> Scope:
    """Read a scope.

    Raises:
        SchemaError: If it is not a scope; the message names the field.
    """
    try:
        return choice(Scope, given, "scope")
    except ValueError as error:
        raise SchemaError(f"{field}: {error}") from None


@dataclass(frozen=True)
class Allowed:
    """Exception from a rule that would refuse or otherwise count a column, with a reason for the manifest."""

    reason: str

    def __post_init__(self) -> None:
        given: object = self.reason
        if not (isinstance(given, str) and given.strip()):
            raise SchemaError("allow requires a reason, a text that is not blank")

    @classmethod
    def from_dict(cls, field: str, given: Any) -> "Allowed":
        """Read ``{allow: <reason>}``.

        Raises:
            SchemaError: If it is anything else; the message names the field.
        """
        if not isinstance(given, Mapping) or set(given) != {"allow"}:
            other = f"{REDACT}, or " if field == "text" else ""
            raise SchemaError(f"{field} must be {other}`{{allow: <reason>}}`, which goes into the manifest")
        return cls(given["allow"])

    def to_dict(self) -> dict[str, str]:
        """Return plain values for ``from_dict``."""
        return {"allow": self.reason}


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A named person's confirmation that free text may be released, for the manifest.

    Attributes:
        signed_by: Name and office of the person.
        reason: Why the text identifies no person.

    Raises:
        SchemaError: If one of them is blank.
    """

    signed_by: str
    reason: str

    def __post_init__(self) -> None:
        require_texts("free_text", signed_by=self.signed_by, reason=self.reason)

    @classmethod
    def from_dict(cls, given: Any) -> "Signature":
        """Read ``{signed_by: <name>, reason: <why>}``.

        Raises:
            SchemaError: If it is anything else.
        """
        if not isinstance(given, Mapping) or set(given) != {"signed_by", "reason"}:
            raise SchemaError("free_text must be `{signed_by: <name>, reason: <why>}`, for the manifest")
        for name, value in given.items():
            if not isinstance(value, str):
                raise SchemaError(f"free_text: {name} must be a text that is not blank")
        return cls(**given)

    def to_dict(self) -> dict[str, str]:
        """Return plain values for ``from_dict``."""
        return {"signed_by": self.signed_by, "reason": self.reason}


TextRule = Literal["redact"] | Allowed
FIELDS = frozenset({"pseudonym", "text", "unique", "free_text", "exact"})


def read_fields(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Read the fields of an attribute that this module handles.

    Raises:
        SchemaError: If a field is wrong; the message names the attribute.
    """
    given = {field: fields[field] for field in FIELDS if fields.get(field) is not None}
    try:
        if "pseudonym" in given:
            given["pseudonym"] = Pseudonym.from_dict(given["pseudonym"])
        if given.get("text", REDACT) != REDACT:
            given["text"] = Allowed.from_dict("text", given["text"])
        for field in ("unique", "exact"):
            if field in given:
                given[field] = Allowed.from_dict(field, given[field])
        if "free_text" in given:
            given["free_text"] = Signature.from_dict(given["free_text"])
    except SchemaError as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None
    return given


def written_fields(
    pseudonym: Pseudonym | None,
    text: TextRule | None,
    unique: Allowed | None,
    free_text: Signature | None,
    exact: Allowed | None,
) -> dict[str, Any]:
    """Return plain values for ``read_fields``."""
    values = {"pseudonym": pseudonym, "text": text, "unique": unique, "free_text": free_text, "exact": exact}
    return {
        field: value if isinstance(value, str) else value.to_dict()
        for field, value in values.items()
        if value is not None
    }
