"""Where the random bits of a randomized release come from: the operating system, a secret, or a seed.

The secret makes an answer a keyed pseudo-random function of (individual, attribute, value, mechanism):
releasing an unchanged value again returns the same answer, so nothing can be averaged over scheduled
releases. The mechanism is part of the input: answers by two channels from the same bits would together reveal
more than the sum of their epsilons.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from privacy_engine.errors import SecretError

SHORTEST = 32  # bytes of a secret
LONGEST = 64  # what BLAKE2b takes as a key
Words = npt.NDArray[np.uint64]


class Randomness(StrEnum):
    """Where random bits come from."""

    SYSTEM = "system"  # the operating system's cryptographic source: fresh answers in every release
    MEMOISED = "memoised"  # a keyed function of a secret: an unchanged value is answered as before
    SEEDED = "seeded"  # the rng argument: repeatable by anyone who knows the seed, hence not private


@dataclass(frozen=True)
class Question:
    """One attribute of all individuals, to be randomized.

    Attributes:
        attribute: Name of the attribute.
        mechanism: Fingerprint of what turns bits into answers.
        codes: Index of each individual's value in ``texts``, shape (n,).
        texts: Distinct values; only the memoised source reads them.
    """

    attribute: str
    mechanism: bytes
    codes: npt.NDArray[np.int64]
    texts: Sequence[str]


class Source(Protocol):
    """Gives random words."""

    def words(self, question: Question, each: int = 1) -> Words:
        """(n, each) 64 uniform bits for each individual."""


@dataclass(frozen=True)
class SystemSource:
    """The operating system's cryptographic source."""

    def words(self, question: Question, each: int = 1) -> Words:
        """(n, each) fresh bits."""
        drawn = secrets.token_bytes(8 * each * len(question.codes))
        return np.frombuffer(drawn, dtype="<u8").reshape(-1, each)


@dataclass(frozen=True)
class SeededSource:
    """A seeded generator: for tests and benchmarks, never for a release about people."""

    rng: np.random.Generator

    def words(self, question: Question, each: int = 1) -> Words:
        """(n, each) repeatable bits."""
        return self.rng.integers(0, 1 << 64, size=(len(question.codes), each), dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Secret:
    """The key of memoised answers: at least 32 random bytes, the same in every release of a series.

    Anyone who has it can distinguish true answers from random ones. It is never shown, only compared by
    fingerprint.

    Raises:
        SecretError: If it is missing or shorter than 32 bytes.

    >>> Secret(b"0" * 32)
    Secret(fingerprint='...')
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        given: object = self.key  # from a connection, which may hold nothing or a text
        length = len(given) if isinstance(given, bytes) else 0
        if length < SHORTEST:
            raise SecretError(
                f"the secret of memoised answers must be at least {SHORTEST} random bytes, got {length}: "
                "Create one, keep it with the connection, and use the same in every release"
            )

    def __repr__(self) -> str:
        return f"Secret(fingerprint={self.fingerprint!r})"

    @property
    def fingerprint(self) -> str:
        """A keyed hash of a constant: it distinguishes secrets and reveals nothing about them."""
        return hmac.digest(self.key, b"privacy-release memoised randomization", "sha256").hex()[:32]

    def require(self, fingerprint: str) -> None:
        """Refuse a secret that is not the one of the earlier releases.

        Raises:
            SecretError: If its fingerprint is another.
        """
        if not hmac.compare_digest(fingerprint, self.fingerprint):
            raise SecretError(
                "the secret must be the one of the earlier releases, and its fingerprint is another: every "
                "value would be answered again, which reveals more about everyone. Restore the old secret, "
                "or ask for it on purpose"
            )


@dataclass(frozen=True, eq=False)
class KeyedSource:
    """Keyed BLAKE2b of (attribute, mechanism, value, individual); deterministic.

    Attributes:
        secret: Secret key of the hash.
        individuals: Individual of each record, all different, shape (n,).
    """

    secret: Secret
    individuals: Sequence[bytes] = field(repr=False)

    def words(self, question: Question, each: int = 1) -> Words:
        """(n, each) pseudo-random bits, about half a microsecond an individual."""
        key = hashlib.blake2b(self.secret.key).digest() if len(self.secret.key) > LONGEST else self.secret.key
        started = [
            hashlib.blake2b(_prefix(question, text), key=key, digest_size=8 * each) for text in question.texts
        ]
        digests = []
        # A Python loop over records: a million take half a second.
        for code, individual in zip(question.codes.tolist(), self.individuals, strict=True):
            state = started[code].copy()
            state.update(individual)
            digests.append(state.digest())
        return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, each)


def _prefix(question: Question, text: str) -> bytes:
    """Encode the question without the individual, with parts separated by their lengths."""
    parts = (question.attribute.encode(), question.mechanism, text.encode())
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
