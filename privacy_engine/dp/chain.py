"""The hash chain of a ledger: every entry is hashed together with the hash of the previous entry.

Without a signing key this reveals accidents, and edits by someone who does not know how the hashes are
computed. Anyone who knows and can write to the database can compute the whole chain again. With a key the
hashes are HMAC-SHA256 (RFC 2104), and only the owner of the key can. In both cases the head, which is sealed
separately, reveals missing entries at the end. An old copy of the whole ledger restored in place of the new
one is consistent in itself: it is only detected against hashes kept elsewhere, such as those in the manifests
of releases.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC

from privacy_engine.dp.ledger import Entry
from privacy_engine.errors import IntegrityError

_SHORTEST_KEY = 16


@dataclass(frozen=True, kw_only=True)
class Head:
    """The end of a data set's chain.

    Attributes:
        entries: Number of entries.
        hash: Hash of the last entry; empty if there is none.
        key_id: Identifies the signing key without revealing it; empty without a key.
        seal: Seal over all of the above.
    """

    dataset: str
    entries: int
    hash: str
    key_id: str
    seal: str


def check_key(signing_key: bytes | None) -> None:
    """Raise if a signing key can be guessed.

    Raises:
        ValueError: If it has fewer than 16 bytes.
    """
    if signing_key is not None and len(signing_key) < _SHORTEST_KEY:
        raise ValueError(
            f"the ledger's signing key must have at least {_SHORTEST_KEY} bytes, got {len(signing_key)}. "
            "Create one, for example with: openssl rand -hex 32"
        )


def chained(entry: Entry, previous: str, signing_key: bytes | None) -> Entry:
    """Return the entry with the hash of the previous one and its own hash."""
    linked = replace(entry, previous=previous)
    return replace(linked, hash=_entry_hash(linked, signing_key))


def sealed_head(dataset: str, entries: int, last_hash: str, signing_key: bytes | None) -> Head:
    """Return the head of a chain as it is stored."""
    key_id = "" if signing_key is None else _digest("key", [], signing_key)
    seal = _digest("head", [dataset, entries, last_hash, key_id], signing_key)
    return Head(dataset=dataset, entries=entries, hash=last_hash, key_id=key_id, seal=seal)


def check_chain(head: Head, entries: Iterable[Entry], signing_key: bytes | None) -> None:
    """Check all stored entries, in the order of their numbers, against their hashes and the head.

    Raises:
        IntegrityError: If an entry was edited, added, removed or moved, if the head was edited, or if the key
            is not the one they were signed with.
    """
    check_head(head, signing_key)
    last = None
    for entry in entries:
        check_next(head.dataset, last, entry, signing_key)
        last = entry
    check_end(head, last)


def check_head(head: Head, signing_key: bytes | None) -> None:
    """Check a stored head against its seal.

    Raises:
        IntegrityError: If it was edited, or the key is not the one it was sealed with.
    """
    expected = sealed_head(head.dataset, head.entries, head.hash, signing_key)
    if head.key_id != expected.key_id:
        raise IntegrityError(f"ledger of data set {head.dataset}: {_key_trouble(head, signing_key)}")
    if not hmac.compare_digest(head.seal, expected.seal):
        raise edited(head.dataset, "its head was edited")


def check_entry(entry: Entry, signing_key: bytes | None) -> None:
    """Check a stored entry against its own hash, which covers its number and all its content.

    Raises:
        IntegrityError: If it was edited.
    """
    if not hmac.compare_digest(entry.hash, _entry_hash(entry, signing_key)):
        raise edited(entry.dataset, f"entry {entry.number} was edited or moved")


def check_next(dataset: str, above: Entry | None, entry: Entry, signing_key: bytes | None) -> None:
    """Check a stored entry against its own hash, and against the previous entry; None before the first.

    Raises:
        IntegrityError: If it was edited or moved, or one between them is missing.
    """
    number, previous = (above.number + 1, above.hash) if above else (1, "")
    if entry.dataset != dataset or entry.number != number:
        raise edited(dataset, f"entry {number} is missing")
    if entry.previous != previous:
        raise edited(dataset, f"entry {entry.number} was edited or moved")
    check_entry(entry, signing_key)


def check_end(head: Head, last: Entry | None) -> None:
    """Check the last stored entry against the head; None if there is none.

    Raises:
        IntegrityError: If the chain does not end where the head says.
    """
    number, last_hash = (last.number, last.hash) if last else (0, "")
    if (number, last_hash) != (head.entries, head.hash):
        raise edited(
            head.dataset, f"it must have {head.entries} entries up to its recorded head, got {number}"
        )


def totals_seal(entry: Entry, totals: str, signing_key: bytes | None) -> str:
    """Return the seal that binds running totals to their entry, and so to all previous entries."""
    return _digest("totals", [entry.hash, totals], signing_key)


def check_totals(entry: Entry, totals: str, seal: str, signing_key: bytes | None) -> None:
    """Check stored running totals against their seal.

    Raises:
        IntegrityError: If they were edited, or belong to another entry.
    """
    if not hmac.compare_digest(seal, totals_seal(entry, totals, signing_key)):
        raise edited(entry.dataset, f"the running totals of entry {entry.number} were edited")


def model_hash(model: str) -> str:
    """Return the hexadecimal sha256 of a stored model's text."""
    return hashlib.sha256(model.encode()).hexdigest()


def _entry_hash(entry: Entry, signing_key: bytes | None) -> str:
    return _digest(
        "entry",
        [
            entry.dataset,
            entry.number,
            entry.event.value,
            entry.key,
            entry.attempt,
            entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
            entry.epsilon,
            entry.delta,
            entry.neighbours.value,
            dict(sorted(entry.detail.items())),
            entry.salt,
            entry.previous,
        ],
        signing_key,
    )


def _digest(kind: str, fields: Sequence[object], signing_key: bytes | None) -> str:
    """Hash an unambiguous text of a list of fields and its kind."""
    text = json.dumps(["privacy-release ledger 1", kind, *fields], ensure_ascii=True, separators=(",", ":"))
    if signing_key is None:
        return hashlib.sha256(text.encode()).hexdigest()
    return hmac.new(signing_key, text.encode(), hashlib.sha256).hexdigest()


def _key_trouble(head: Head, signing_key: bytes | None) -> str:
    if signing_key is None:
        return "its entries are signed, but no signing key was given. Pass the ledger's signing key"
    if not head.key_id:
        return (
            "it is not signed, although a signing key was given. If it was begun without "
            "a key, open it without one. Otherwise it was replaced: restore it from a backup"
        )
    return "the given signing key is not the one its entries were signed with. Pass that key"


def edited(dataset: str, what: str) -> IntegrityError:
    """Return the error of a ledger that was modified outside of this program."""
    return IntegrityError(
        f"the ledger of data set {dataset} was modified outside of this program: {what}. No budget "
        "can be booked until its owner has restored it from a backup"
    )
