"""The hash chain: whatever is edited, removed, added or moved shows; with a key also a chain made again."""

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from privacy_engine.dp.chain import Head, chained, check_chain, check_entry, check_key, sealed_head
from privacy_engine.dp.ledger import Entry, Event
from privacy_engine.dp.loss import Neighbours
from privacy_engine.errors import IntegrityError

KEY = b"a signing key of the tests"
OTHER = b"another key of the tests"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = pytest.mark.parametrize("key", [None, KEY], ids=["unsigned", "signed"])

Chain = tuple[Head, list[Entry]]


def make(key: bytes | None, length: int = 5, salt: str = "salt") -> Chain:
    entries: list[Entry] = []
    for number in range(1, length + 1):
        bare = Entry(
            dataset="adult",
            number=number,
            event=Event.GRANT if number == 1 else Event.RESERVE,
            key=f"key {number}",
            attempt=1,
            at=NOW + timedelta(hours=number),
            epsilon="0.1",
            delta="0",
            neighbours=Neighbours.REPLACE_ONE,
            detail={"run": "r", "period": "total"},
            salt=salt,
            previous="",
        )
        entries.append(chained(bare, entries[-1].hash if entries else "", key))
    return sealed_head("adult", length, entries[-1].hash, key), entries


EDITS = {
    "dataset": "other",
    "number": 9,
    "event": Event.CANCEL,
    "key": "other",
    "attempt": 2,
    "at": NOW,
    "epsilon": "0.01",
    "delta": "0.1",
    "neighbours": Neighbours.ADD_REMOVE,
    "detail": {"run": "other", "period": "total"},
    "salt": "other",
    "previous": "0" * 64,
    "hash": "0" * 64,
}


def test_every_field_of_an_entry_is_tried_below() -> None:
    assert set(EDITS) == {field.name for field in fields(Entry)}


@KEYS
def test_a_chain_as_written_is_whole(key: bytes | None) -> None:
    head, entries = make(key)
    check_chain(head, entries, key)
    check_chain(sealed_head("new", 0, "", key), [], key)


@KEYS
@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("name", EDITS)
def test_an_edited_field_shows(key: bytes | None, name: str, place: int) -> None:
    head, entries = make(key)
    edited = replace(entries[place], **{name: EDITS[name]})
    assert edited != entries[place]
    with pytest.raises(IntegrityError, match="modified outside of this program"):
        check_chain(head, [*entries[:place], edited, *entries[place + 1 :]], key)


@KEYS
def test_every_digit_of_a_hash_is_compared(key: bytes | None) -> None:
    _, (entry, *_) = make(key)
    check_entry(entry, key)
    for place, digit in enumerate(entry.hash):
        edited = entry.hash[:place] + ("0" if digit != "0" else "1") + entry.hash[place + 1 :]
        with pytest.raises(IntegrityError, match="modified outside of this program"):
            check_entry(replace(entry, hash=edited), key)


def without_middle(head: Head, entries: list[Entry]) -> Chain:
    return head, entries[:2] + entries[3:]


def without_last(head: Head, entries: list[Entry]) -> Chain:
    return head, entries[:-1]


def without_first(head: Head, entries: list[Entry]) -> Chain:
    return head, entries[1:]


def without_any(head: Head, entries: list[Entry]) -> Chain:
    return head, []


def swapped(head: Head, entries: list[Entry]) -> Chain:
    return head, [entries[0], entries[2], entries[1], *entries[3:]]


def swapped_and_renumbered(head: Head, entries: list[Entry]) -> Chain:
    return head, [
        entries[0],
        replace(entries[2], number=2),
        replace(entries[1], number=3),
        *entries[3:],
    ]


def repeated(head: Head, entries: list[Entry]) -> Chain:
    return head, [*entries, replace(entries[-1], number=6)]


def head_counts_less(head: Head, entries: list[Entry]) -> Chain:
    return replace(head, entries=4, hash=entries[3].hash), entries[:4]


def head_of_another(head: Head, entries: list[Entry]) -> Chain:
    return replace(head, dataset="other"), entries


DAMAGE = [
    without_middle,
    without_last,
    without_first,
    without_any,
    swapped,
    swapped_and_renumbered,
    repeated,
    head_counts_less,
    head_of_another,
]


@KEYS
@pytest.mark.parametrize("damage", DAMAGE)
def test_entries_removed_moved_or_added_show(key: bytes | None, damage: Callable[..., Chain]) -> None:
    head, entries = damage(*make(key))
    with pytest.raises(IntegrityError, match="modified outside of this program"):
        check_chain(head, entries, key)


def test_a_chain_made_again_without_the_key_shows_only_if_it_is_signed() -> None:
    forged_head, forged = make(None, length=2)
    check_chain(forged_head, forged, None)  # what no unsigned ledger can show
    with pytest.raises(IntegrityError, match="it is not signed, although"):
        check_chain(forged_head, forged, KEY)
    claimed = sealed_head("adult", 2, forged[-1].hash, KEY).key_id
    with pytest.raises(IntegrityError, match="its head was edited"):
        check_chain(replace(forged_head, key_id=claimed), forged, KEY)


def test_the_end_cut_off_a_signed_chain_shows_though_every_entry_left_is_signed() -> None:
    head, entries = make(KEY)
    unsigned = sealed_head("adult", 4, entries[3].hash, None)
    with pytest.raises(IntegrityError, match="its head was edited"):
        check_chain(replace(unsigned, key_id=head.key_id), entries[:4], KEY)


def test_a_wrong_key_and_a_missing_key_are_distinguished_from_an_edit() -> None:
    head, entries = make(KEY)
    with pytest.raises(IntegrityError, match="is not the one its entries were signed with"):
        check_chain(head, entries, OTHER)
    with pytest.raises(IntegrityError, match="no signing key was given"):
        check_chain(head, entries, None)


def test_neither_the_key_nor_a_hash_of_it_that_others_share_is_in_the_head() -> None:
    head, _ = make(KEY)
    assert KEY.hex() not in repr(head)
    assert head.key_id != sealed_head("adult", 5, head.hash, OTHER).key_id


def test_the_hash_of_an_entry_cannot_be_guessed_from_what_it_is_about() -> None:
    one, other = make(None, salt="1")[1], make(None, salt="2")[1]
    assert not {entry.hash for entry in one} & {entry.hash for entry in other}


def test_fields_cannot_flow_into_each_other() -> None:
    _, entries = make(None)
    one = chained(replace(entries[0], epsilon="0.1", delta="0"), "", None)
    other = chained(replace(entries[0], epsilon="0.", delta="10"), "", None)
    assert one.hash != other.hash


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes, got 15"):
        check_key(b"x" * 15)
    check_key(b"x" * 16)
    check_key(None)
