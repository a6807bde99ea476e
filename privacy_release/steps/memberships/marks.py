"""Marks: each person's sensitive values in one release, as hashes that only the run of a later release reads.

A mark is a hash of the value, the release and the attribute, keyed with the person's salt. The salt is a hash
of the person, keyed with a secret that follows from the membership key. The secret exists only in the work
area of a run, never next to the marks. Without it, nothing follows from the marks of one file or of two:
equal values of two persons, or of one person in two releases, have different marks. No one can write a mark
that a run accepts without it.

The hash of a person is next to the marks, so a run reads the marks of all persons, those who left the source
included. Their records may be published again with those of others, and an attacker who subtracts releases
knows their values. Marks of earlier versions had salts of identifiers, so a run could read them only for the
persons in its source.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.errors import IntegrityError

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.verification.cross_release import Membership
    from privacy_engine.verification.republication.class_values import ClassValues

_SIZE = 16  # bytes
SALT_SIZE = 32


def salts_of(persons: "Sequence[str]", secret: str) -> list[str]:
    """Return the hexadecimal salt of each person.

    Args:
        persons: Keyed hash of each person.
        secret: Hexadecimal secret from `Identification.secret`.
    """
    key = bytes.fromhex(secret)
    return [
        hashlib.blake2b(person.encode(), key=key, digest_size=SALT_SIZE).hexdigest() for person in persons
    ]


def marks_of(
    membership: "Membership", salts: "Sequence[str]", release: str
) -> "dict[str, npt.NDArray[np.object_]]":
    """Return the marks of a release.

    Args:
        membership: Persons of the release and their values.
        salts: Hexadecimal salt of each person, shape (n,).
        release: SHA-256 of the release.

    Returns:
        Hexadecimal mark of each person by sensitive attribute, shape (n,).
    """
    found = {}
    for name, values in membership.values.items():
        messages = _messages(membership.counts[name].texts, name, release)
        marked = [_mark(salt, messages[value]) for salt, value in zip(salts, values.tolist(), strict=True)]
        found[name] = np.array(marked, dtype=object)
    return found


def values_of(
    marks: "Mapping[str, npt.NDArray[np.object_]]",
    counts: "Mapping[str, ClassValues]",
    labels: "npt.NDArray[np.int64]",
    salts: "Sequence[str | None]",
    release: str,
) -> "dict[str, npt.NDArray[np.int64]]":
    """Read the marks of persons whose salt is known.

    Args:
        marks: Marks from `marks_of`.
        counts: Values of each class of the release, by sensitive attribute.
        labels: Class of each person, shape (n,).
        salts: Salt of each person, shape (n,). None if it is unknown.
        release: SHA-256 of the release.

    Returns:
        Position of each person's value among the texts of `counts`, by sensitive attribute, shape (n,).
        -1 if it is unknown.

    Raises:
        IntegrityError: If a mark matches none of the values of the person's class.
    """
    found = {}
    for name in marks.keys() & counts.keys():
        messages = _messages(counts[name].texts, name, release)
        of_class = _by_class(counts[name])
        places = np.full(len(labels), -1)
        known = [row for row, salt in enumerate(salts) if salt is not None and marks[name][row] is not None]
        for row, label in zip(known, labels[known].tolist(), strict=True):
            mark, salt = marks[name][row], str(salts[row])
            places[row] = next((v for v in of_class.get(label, ()) if _mark(salt, messages[v]) == mark), -1)
        if wrong := int((places[known] < 0).sum()):
            raise IntegrityError(f"the marks of {wrong} persons must match values of their classes of {name}")
        found[name] = places
    return found


def _messages(texts: Sequence[str], name: str, release: str) -> list[bytes]:
    return [json.dumps([release, name, text]).encode() for text in texts]


def _mark(salt: str, message: bytes) -> str:
    return hashlib.blake2b(message, key=bytes.fromhex(salt), digest_size=_SIZE).hexdigest()


def _by_class(counts: "ClassValues") -> dict[int, list[int]]:
    """Return the values of each class, the most frequent first."""
    found: dict[int, list[int]] = {}
    order = np.argsort(-counts.persons, kind="stable")
    for label, value in zip(counts.classes[order].tolist(), counts.values[order].tolist(), strict=True):
        found.setdefault(label, []).append(value)
    return found
