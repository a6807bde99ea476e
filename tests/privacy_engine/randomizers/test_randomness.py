"""Random bits from the operating system, a seed, and a secret."""

import hashlib

import numpy as np
import pytest

from privacy_engine.errors import SecretError
from privacy_engine.randomizers.randomness import KeyedSource, Question, Secret, SeededSource, SystemSource

KEY = bytes(range(32))


def question(codes: list[int] | np.ndarray, attribute: str = "city", mechanism: bytes = b"m") -> Question:
    return Question(
        attribute=attribute, mechanism=mechanism, codes=np.array(codes), texts=("Bern", "Basel", "Chur")
    )


def keyed(key: bytes = KEY, individuals: tuple[bytes, ...] = (b"1", b"2", b"3")) -> KeyedSource:
    return KeyedSource(Secret(key), individuals)


def test_an_answer_is_keyed_blake2b_of_attribute_mechanism_value_and_individual() -> None:
    message = b"\0\0\0\4city\0\0\0\1m\0\0\0\5Basel" + b"2"
    digest = hashlib.blake2b(message, key=KEY, digest_size=16).digest()
    words = keyed().words(question([0, 1, 2]), each=2)
    assert words[1].tolist() == [int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")]


def test_an_unchanged_value_has_the_same_bits_whatever_stands_around_it() -> None:
    one = keyed(individuals=(b"1", b"2", b"3")).words(question([0, 1, 2]))
    other = keyed(individuals=(b"9", b"3", b"1")).words(question([1, 2, 0]))
    assert one[2] == other[1]
    assert one[0] == other[2]


@pytest.mark.parametrize(
    ("key", "individual", "requested"),
    [
        (bytes(32), b"1", question([0])),
        (KEY, b"11", question([0])),
        (KEY, b"1", question([1])),
        (KEY, b"1", question([0], attribute="town")),
        (KEY, b"1", question([0], mechanism=b"n")),
    ],
    ids=["secret", "individual", "value", "attribute", "mechanism"],
)
def test_whatever_changes_gives_other_bits(key: bytes, individual: bytes, requested: Question) -> None:
    before = KeyedSource(Secret(KEY), [b"1"]).words(question([0]))
    assert KeyedSource(Secret(key), [individual]).words(requested)[0, 0] != before[0, 0]


def test_a_secret_longer_than_the_key_of_the_hash_is_used_whole() -> None:
    one, other = (
        KeyedSource(Secret(bytes(70) + end), [b"1"]).words(question([0]))[0, 0] for end in (b"a", b"b")
    )
    assert one != other


@pytest.mark.parametrize("kind", ["system", "seeded", "memoised"])
def test_bits_are_uniform(kind: str) -> None:
    # Each of the 64 bits is set in half of 20,000 words, within 7 standard deviations: false alarm < 64 *
    # 3e-12.
    n = 20_000
    source = {
        "system": SystemSource(),
        "seeded": SeededSource(np.random.default_rng(1)),
        "memoised": KeyedSource(Secret(KEY), [str(i).encode() for i in range(n)]),
    }[kind]
    words = source.words(question(np.zeros(n, dtype=np.int64)), each=2)
    assert words.shape == (n, 2)
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8).reshape(n, 16), axis=1)
    assert (np.abs(bits.sum(axis=0) - n / 2) < 7 * np.sqrt(n) / 2).all()


def test_fresh_bits_differ_and_seeded_ones_repeat() -> None:
    requested = question(np.zeros(100, dtype=np.int64))
    assert not np.array_equal(SystemSource().words(requested), SystemSource().words(requested))
    one, other = (SeededSource(np.random.default_rng(7)).words(requested) for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("key", [None, "a text of more than thirty-two characters", b"", b"short", bytes(31)])
def test_a_missing_or_short_secret_is_refused_and_never_shown(key: object) -> None:
    with pytest.raises(SecretError, match="at least 32 random bytes") as caught:
        Secret(key)
    assert "thirty-two" not in str(caught.value)


def test_a_secret_is_not_shown_by_its_repr() -> None:
    secret = Secret(b"do not show me, I am the key of all")
    assert "key" not in repr(KeyedSource(secret, [b"alice"]))
    assert "alice" not in repr(KeyedSource(secret, [b"alice"]))


def test_a_changed_secret_is_found_by_its_fingerprint() -> None:
    known = Secret(KEY).fingerprint
    Secret(KEY).require(known)
    with pytest.raises(SecretError, match="must be the one of the earlier releases"):
        Secret(bytes(32)).require(known)
