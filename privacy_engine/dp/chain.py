"""The hash chain of a ledger: every entry is hashed together with the hash of the entry above it.

Without a signing key this shows an accident, or an edit by somebody who does not know how the hashes are
made; whoever can write the database and knows, can make the whole chain anew. With a key the hashes are
HMAC-SHA256 (RFC 2104), and only who has the key can. In both cases the head, sealed apart, shows that the
last entries are missing. An old copy of the whole ledger put back in place of the new one is whole in itself:
that shows only against hashes kept elsewhere, such as those in the manifests of releases.
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
    """Where the chain of a data set ends.

    Attributes:
        entries: how many there are.
        hash: of the last one; empty if there is none.
        key_id: names the signing key without telling it; empty without a key.
        seal: over all of the above.
    """

    dataset: str
    entries: int
    hash: str
    key_id: str
    seal: str


def check_key(signing_key: bytes | None) -> None:
    """Refuse a signing key that can be guessed.

    Raises:
        ValueError: if it has fewer than 16 bytes.
    """
    if signing_key is not None and len(signing_key) < _SHORTEST_KEY:
        raise ValueError(
            f"the ledger's signing key must have at least {_SHORTEST_KEY} bytes, got {len(signing_key)}; "
            "make one, for example with: openssl rand -hex 32"
        )


def chained(entry: Entry, previous: str, signing_key: bytes | None) -> Entry:
    """The entry with the hash of the one above it and with its own."""
    linked = replace(entry, previous=previous)
    return replace(linked, hash=_entry_hash(linked, signing_key))


def sealed_head(dataset: str, entries: int, last_hash: str, signing_key: bytes | None) -> Head:
    """The head of a chain as it is to be stored."""
    key_id = "" if signing_key is None else _digest("key", [], signing_key)
    seal = _digest("head", [dataset, entries, last_hash, key_id], signing_key)
    return Head(dataset=dataset, entries=entries, hash=last_hash, key_id=key_id, seal=seal)


def check_chain(head: Head, entries: Iterable[Entry], signing_key: bytes | None) -> None:
    """Hold all stored entries, in the order of their numbers, against their hashes and the head.

    Raises:
        IntegrityError: if an entry was edited, added, removed or moved, if the head was, or if the key is
            not the one that they were signed with.
    """
    check_head(head, signing_key)
    last = None
    for entry in entries:
        check_next(head.dataset, last, entry, signing_key)
        last = entry
    check_end(head, last)


def check_head(head: Head, signing_key: bytes | None) -> None:
    """Hold a stored head against its seal.

    Raises:
        IntegrityError: if it was edited, or the key is not the one that it was sealed with.
    """
    expected = sealed_head(head.dataset, head.entries, head.hash, signing_key)
    if head.key_id != expected.key_id:
        raise IntegrityError(f"ledger of data set {head.dataset}: {_key_trouble(head, signing_key)}")
    if not hmac.compare_digest(head.seal, expected.seal):
        raise edited(head.dataset, "its head was edited")


def check_entry(entry: Entry, signing_key: bytes | None) -> None:
    """Hold one stored entry against its own hash, which covers its number and all that it tells.

    Raises:
        IntegrityError: if it was edited.
    """
    if not hmac.compare_digest(entry.hash, _entry_hash(entry, signing_key)):
        raise edited(entry.dataset, f"entry {entry.number} was edited or moved")


def check_next(dataset: str, above: Entry | None, entry: Entry, signing_key: bytes | None) -> None:
    """Hold one stored entry against its own hash, and against the entry above it; None above the first.

    Raises:
        IntegrityError: if it was edited or moved, or one between them is missing.
    """
    number, previous = (above.number + 1, above.hash) if above else (1, "")
    if entry.dataset != dataset or entry.number != number:
        raise edited(dataset, f"entry {number} is missing")
    if entry.previous != previous:
        raise edited(dataset, f"entry {entry.number} was edited or moved")
    check_entry(entry, signing_key)


def check_end(head: Head, last: Entry | None) -> None:
    """Hold the last stored entry against the head; None where there is none.

    Raises:
        IntegrityError: if the chain ends elsewhere than the head says.
    """
    number, last_hash = (last.number, last.hash) if last else (0, "")
    if (number, last_hash) != (head.entries, head.hash):
        raise edited(
            head.dataset, f"it must have {head.entries} entries up to its recorded head, got {number}"
        )


def totals_seal(entry: Entry, totals: str, signing_key: bytes | None) -> str:
    """The seal that binds running totals to the entry that they were made after, and so to all above it."""
    return _digest("totals", [entry.hash, totals], signing_key)


def check_totals(entry: Entry, totals: str, seal: str, signing_key: bytes | None) -> None:
    """Hold stored running totals against their seal.

    Raises:
        IntegrityError: if they were edited, or are those of another entry.
    """
    if not hmac.compare_digest(seal, totals_seal(entry, totals, signing_key)):
        raise edited(entry.dataset, f"the running totals of entry {entry.number} were edited")


def model_hash(model: str) -> str:
    """Hexadecimal sha256 of a stored model's text."""
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
    """One text for each list of fields, and another for each kind of it; then its hash."""
    text = json.dumps(["privacy-release ledger 1", kind, *fields], ensure_ascii=True, separators=(",", ":"))
    if signing_key is None:
        return hashlib.sha256(text.encode()).hexdigest()
    return hmac.new(signing_key, text.encode(), hashlib.sha256).hexdigest()


def _key_trouble(head: Head, signing_key: bytes | None) -> str:
    if signing_key is None:
        return "its entries are signed, and no signing key was given; give the ledger's signing key"
    if not head.key_id:
        return (
            "it must be signed with the signing key given, but is not signed at all; if it was begun without "
            "a key, open it without one, else it was replaced: restore it from a backup"
        )
    return "the signing key given is not the one that its entries were signed with; give that one"


def edited(dataset: str, what: str) -> IntegrityError:
    """The error of a ledger that other hands changed."""
    return IntegrityError(
        f"the ledger of data set {dataset} was changed by other hands: {what}; book nothing until its owner "
        "has restored it from a backup"
    )
