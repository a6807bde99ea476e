"""Pseudonyms in place of identifiers: keyed, of equal length for all identifiers, equal within a scope.

A pseudonym is the first 128 bits of HMAC-SHA256 over scope, series, release and identifier, as 26 characters
of base32. Without the key, no one can make one or find out whose it is; with the key, both are possible. It
is a disguise, not a guarantee: the other columns can still show who a record is about.
"""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.errors import SchemaError, SecretError, SpecError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.direct_identifiers import Scope
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Role
from privacy_release.config.settings import secret

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from privacy_engine.tables.date_form import Shift
    from privacy_engine.tables.direct_identifiers import Pseudonym

VARIABLE = "PRIVACY_PSEUDONYM_KEY"
_SHORTEST = 32  # shortest key in bytes
_LENGTH = 16  # length of a pseudonym in bytes
_WHAT = "the key of pseudonyms and shifted dates"
_NEW_KEY = "python -c 'import secrets; print(secrets.token_hex(32))'"


@dataclass(frozen=True, eq=False)
class PseudonymKey:
    """A key of at least 32 random bytes, which is never shown.

    Raises:
        SecretError: If the key is missing or shorter.

    >>> PseudonymKey(b"0" * 32)
    PseudonymKey(fingerprint='...')
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < _SHORTEST:
            raise SecretError(
                f"{_WHAT} must be at least {_SHORTEST} random bytes, got {len(self.key)}; make one with "
                f"{_NEW_KEY}, and keep it: with another key a person has another pseudonym, and other dates"
            )

    def __repr__(self) -> str:
        return f"PseudonymKey(fingerprint={self.fingerprint!r})"

    @property
    def fingerprint(self) -> str:
        """A keyed hash of a constant. It distinguishes keys and reveals nothing about them."""
        return hmac.digest(self.key, b"privacy-release key of pseudonyms", "sha256").hex()[:32]


def key_of_environment(_: str) -> PseudonymKey:
    """Return the key outside of Airflow, for any connection: `$PRIVACY_PSEUDONYM_KEY`, or its file.

    Raises:
        SecretError: If the key is not set, or has fewer than 32 bytes.
    """
    found = secret(VARIABLE)
    if not found:
        raise SecretError(
            f"{_WHAT} must be in the environment variable {VARIABLE}, or in the file named by {VARIABLE}_FILE"
            f"; make one with {_NEW_KEY}"
        )
    return PseudonymKey(found.encode())


@dataclass(frozen=True, kw_only=True)
class KeyedHash:
    """HMAC-SHA256 of identifiers for one purpose.

    Attributes:
        key: Key of the hash.
        series: Series of releases that the hash is for.
        domain: Further input of the hash.
    """

    key: PseudonymKey
    series: str
    domain: bytes

    def of(self, identifiers: "pd.Series") -> "tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]":
        """Return the first 128 bits for each distinct identifier, and the position of each record's one.

        The shapes are (d, 16) and (n,), with position -1 for null. Whole numbers count as equal in either
        number type, and as text.
        """
        coded = factorize(identifiers)
        # A Python loop over identifiers: a million take two seconds.
        digests = b"".join(
            hmac.digest(self.key.key, self.domain + text.encode("utf-8", "surrogatepass"), "sha256")[:_LENGTH]
            for text in coded.texts
        )
        return np.frombuffer(digests, np.uint8).reshape(-1, _LENGTH), coded.codes


@dataclass(frozen=True, kw_only=True)
class Naming:
    """The series and release for which pseudonyms and date shifts are made.

    Attributes:
        series: Name of the specification, which is the default series.
        release: ID of the release.
        key_of: Function that returns the key of a connection, by its ID.
    """

    series: str
    release: str
    key_of: Callable[[str], PseudonymKey] = key_of_environment

    def keyed(self, purpose: str, requested: "Pseudonym | Shift") -> KeyedHash:
        """Return the hash for a purpose, the same within the requested scope.

        Raises:
            SecretError: If the key is missing or too short.
        """
        key, series = self.key_of(requested.connection or ""), requested.series or self.series
        parts = [purpose, requested.scope.value, series]
        parts += [self.release] if requested.scope is Scope.RELEASE else []
        # the lengths separate the parts
        domain = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
        return KeyedHash(key=key, series=series, domain=domain)


class Pseudonyms:
    """The pseudonyms of the identifiers of one table.

    Args:
        schema: Schema of the source.
        naming: Series and release that the pseudonyms are for.

    Raises:
        SpecError: If the schema has pseudonyms but `naming` is missing.
        SchemaError: If the schema says that a column of the source already has pseudonyms.
        SecretError: If a key is missing or too short.
    """

    def __init__(self, schema: "DataSchema", naming: Naming | None) -> None:
        self._made: dict[str, tuple[Pseudonym, KeyedHash]] = {}
        for attribute in schema.attributes:
            if (requested := attribute.pseudonym) is None:
                continue
            if requested.connection is None:
                raise SchemaError(
                    f"{attribute.name}: a source has no pseudonyms yet; give it the role identifier, and "
                    "name the connection of the key"
                )
            if naming is None:
                raise SpecError(f"{attribute.name}: pseudonyms need the name and the ID of the release")
            keyed = naming.keyed("pseudonym", requested)
            stated = replace(requested, connection=None, series=keyed.series, key=keyed.key.fingerprint)
            self._made[attribute.name] = (stated, keyed)

    @property
    def columns(self) -> Sequence[str]:
        """The identifiers that have pseudonyms."""
        return tuple(self._made)

    def released(self, schema: "DataSchema") -> "DataSchema":
        """Return the schema with insensitive text attributes in place of these identifiers."""
        attributes = (
            Attribute(name=a.name, role=Role.INSENSITIVE, pseudonym=self._made[a.name][0])
            if a.name in self._made
            else a
            for a in schema.attributes
        )
        return DataSchema(tuple(attributes), schema.person)

    def of(self, name: str, identifiers: "pd.Series") -> "npt.NDArray[np.object_]":
        """Return pseudonyms as text, shape (n,), None for null. Equality is as in `KeyedHash.of`."""
        digests, codes = self._made[name][1].of(identifiers)
        made = np.empty(len(digests) + 1, dtype=object)
        made[:-1] = _base32(digests)
        of_each: npt.NDArray[np.object_] = made[codes]  # the code of a null is -1
        return of_each


def _base32(digests: "npt.NDArray[np.uint8]") -> "npt.NDArray[np.str_]":
    """Return digests of shape (n, b) as text, as in RFC 4648 but without padding, shape (n,)."""
    bits = np.unpackbits(digests, axis=1)
    length = -(-bits.shape[1] // 5)
    whole = np.zeros((len(bits), length * 5), np.uint8)
    whole[:, : bits.shape[1]] = bits
    fives = whole.reshape(len(bits), length, 5) @ np.array([16, 8, 4, 2, 1], np.uint8)
    alphabet = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", np.uint8)
    return np.ascontiguousarray(alphabet[fives]).view(f"S{length}").reshape(-1).astype(np.str_)
