"""Pseudonyms in the place of identifiers: keyed, of one length whatever they stand for, equal within a scope.

A pseudonym is the first 128 bits of HMAC-SHA256 over scope, series, release and identifier, as 26 characters
of base32. Without the key nobody can make one or tell whose it is; who has the key can do both. It is a
disguise, not a guarantee: what stands beside it still tells who a record is about.
"""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.errors import SchemaError, SecretError, SpecError
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.direct_identifiers import Scope
from privacy_engine.tables.schema import Attribute, DataSchema
from privacy_engine.vocabulary import Role
from privacy_release.config.settings import secret

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from privacy_engine.tables.date_form import Shift
    from privacy_engine.tables.direct_identifiers import Pseudonym

VARIABLE = "PRIVACY_PSEUDONYM_KEY"
_SHORTEST = 32  # bytes of a key
_LENGTH = 16  # bytes of a pseudonym
_WHAT = "the key of pseudonyms and shifted dates"
_NEW_KEY = "python -c 'import secrets; print(secrets.token_hex(32))'"


@dataclass(frozen=True, eq=False)
class PseudonymKey:
    """A key of at least 32 random bytes, which is never shown.

    Raises:
        SecretError: if it is missing or shorter.

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
        """A keyed hash of a constant: tells one key from another, and nothing of either."""
        return hmac.digest(self.key, b"privacy-release key of pseudonyms", "sha256").hex()[:32]


def key_of_environment(_: str) -> PseudonymKey:
    """The key outside of Airflow, whatever connection is named: `$PRIVACY_PSEUDONYM_KEY`, or its file.

    Raises:
        SecretError: if it is not set, or has fewer than 32 bytes.
    """
    found = secret(VARIABLE)
    if not found:
        raise SecretError(
            f"{_WHAT} must be in the environment variable {VARIABLE}, or in the file that {VARIABLE}_FILE "
            f"names; make one with {_NEW_KEY}"
        )
    return PseudonymKey(found.encode())


@dataclass(frozen=True, kw_only=True)
class KeyedHash:
    """HMAC-SHA256 of identifiers for one purpose.

    Attributes:
        key: that it is made with.
        series: of releases that it is for.
        domain: what else goes into the hash.
    """

    key: PseudonymKey
    series: str
    domain: bytes

    def of(self, identifiers: "pd.Series") -> "tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]":
        """(d, 16) the first 128 bits for each distinct identifier, and (n,) which each record has; -1 = null.

        Whole numbers count as equal in either number type, and as text.
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
    """Which release identifiers get their pseudonyms for, and dates are shifted for.

    Attributes:
        series: name of the specification, which those are of that name no series.
        release: its id.
        key_of: the key that a connection holds, by its id.
    """

    series: str
    release: str
    key_of: Callable[[str], PseudonymKey] = key_of_environment

    def keyed(self, purpose: str, asked: "Pseudonym | Shift") -> KeyedHash:
        """The hash for a purpose, the same within the scope that is asked for.

        Raises:
            SecretError: if the key is missing or too short.
        """
        key, series = self.key_of(asked.connection or ""), asked.series or self.series
        parts = [purpose, asked.scope.value, series]
        parts += [self.release] if asked.scope is Scope.RELEASE else []
        # parts are told apart by their lengths
        domain = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
        return KeyedHash(key=key, series=series, domain=domain)


class Pseudonyms:
    """The pseudonyms of the identifiers of one table.

    Args:
        schema: of the source.
        naming: which release they are for.

    Raises:
        SpecError: if the schema has some and it is not said which release they are for.
        SchemaError: if the schema says that a column of the source holds pseudonyms already.
        SecretError: if a key is missing or too short.
    """

    def __init__(self, schema: "DataSchema", naming: Naming | None) -> None:
        self._made: dict[str, tuple[Pseudonym, KeyedHash]] = {}
        for attribute in schema.attributes:
            if (asked := attribute.pseudonym) is None:
                continue
            if asked.connection is None:
                raise SchemaError(
                    f"{attribute.name}: a source holds no pseudonyms yet; give it the role identifier, and "
                    "name the connection of the key"
                )
            if naming is None:
                raise SpecError(f"{attribute.name}: pseudonyms need the name and the id of the release")
            keyed = naming.keyed("pseudonym", asked)
            told = replace(asked, connection=None, series=keyed.series, key=keyed.key.fingerprint)
            self._made[attribute.name] = (told, keyed)

    @property
    def columns(self) -> Sequence[str]:
        """The identifiers that have pseudonyms."""
        return tuple(self._made)

    def released(self, schema: "DataSchema") -> "DataSchema":
        """The schema with insensitive attributes of text in the place of these identifiers."""
        attributes = (
            Attribute(name=a.name, role=Role.INSENSITIVE, pseudonym=self._made[a.name][0])
            if a.name in self._made
            else a
            for a in schema.attributes
        )
        return DataSchema(tuple(attributes), schema.person)

    def of(self, name: str, identifiers: "pd.Series") -> "npt.NDArray[np.object_]":
        """(n,) text, None for a null; identifiers count as equal as in `KeyedHash.of`."""
        digests, codes = self._made[name][1].of(identifiers)
        made = np.empty(len(digests) + 1, dtype=object)
        made[:-1] = _base32(digests)
        of_each: npt.NDArray[np.object_] = made[codes]  # the code of a null is -1
        return of_each


def _base32(digests: "npt.NDArray[np.uint8]") -> "npt.NDArray[np.str_]":
    """(n,) text: the digests (n, b) as in RFC 4648, without the marks that fill up the end."""
    bits = np.unpackbits(digests, axis=1)
    length = -(-bits.shape[1] // 5)
    whole = np.zeros((len(bits), length * 5), np.uint8)
    whole[:, : bits.shape[1]] = bits
    fives = whole.reshape(len(bits), length, 5) @ np.array([16, 8, 4, 2, 1], np.uint8)
    alphabet = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", np.uint8)
    return np.ascontiguousarray(alphabet[fives]).view(f"S{length}").reshape(-1).astype(np.str_)
