"""Keys that a lake shows: when each is valid, and which key vouches for which."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from privacy_engine.errors import SecretError
from privacy_release.lake.store import Lake, put
from privacy_release.proof.envelope import sealed
from privacy_release.proof.faults import FaultError
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.published_keys import (
    FOLDER,
    Validity,
    publish_key,
    replaced_by,
    show_key,
    trusted_keys,
)

OLD, NEW = SigningKey.new(), SigningKey.new()
DAY = timedelta(days=1)
TYPE = "application/vnd.privacy-release.key+json"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_key_covers_the_moments_from_its_first_to_its_last() -> None:
    shown = Validity(key=OLD.public, since=NOW - DAY, until=NOW + DAY)
    moments = [NOW + n * timedelta(hours=12) for n in range(-3, 4)]
    assert [shown.covers(moment) for moment in moments] == [False, True, True, True, True, True, False]
    assert Validity(key=OLD.public).covers(NOW)
    assert not Validity(key=OLD.public, until=NOW).covers(NOW + timedelta(microseconds=1))
    assert not Validity(key=OLD.public, since=NOW).covers(NOW - timedelta(microseconds=1))


@pytest.mark.parametrize(("since", "until"), [(DAY, None), (None, -DAY)])
def test_a_key_that_is_not_valid_now_signs_nothing(
    lake: Lake, since: timedelta | None, until: timedelta | None
) -> None:
    now = datetime.now(UTC)
    publish_key(lake, OLD, since=since and now + since, until=until and now + until)
    with pytest.raises(SecretError, match="must hold today"):
        show_key(lake, OLD)


def test_a_successor_is_trusted_by_the_signature_of_the_key_that_it_replaces_alone(lake: Lake) -> None:
    publish_key(lake, OLD, until=NOW)
    publish_key(lake, NEW, since=NOW, replaces=OLD)
    trusted = trusted_keys(lake, [OLD.public])
    assert (trusted[OLD.public.id].until, trusted[NEW.public.id].since) == (NOW, NOW)
    assert replaced_by(trusted, NEW.public.id) == {OLD.public.id}
    other = SigningKey.new()
    payload = {"key": NEW.public.pem(), "since": None, "until": None}
    for replaces, signers in ((OLD, [NEW]), (other, [NEW, OLD])):
        reported = sealed(payload | {"replaces": replaces.public.id}, signers, TYPE)
        put(lake, f"{FOLDER}/{NEW.public.id}.json", reported)
        given = [OLD.public, other.public]
        assert trusted_keys(lake, given).keys() == {key.id for key in given}


def test_an_entry_under_the_name_of_another_key_is_not_trusted(lake: Lake) -> None:
    """A copy of an older entry would undo that the key was replaced or has expired."""
    publish_key(lake, OLD)
    publish_key(lake, NEW, replaces=OLD)
    folder = lake.folder / FOLDER
    copy = (folder / f"{NEW.public.id}.json").read_bytes()
    (folder / f"{SigningKey.new().public.id}.json").write_bytes(copy)
    assert trusted_keys(lake, [OLD.public]).keys() == {OLD.public.id, NEW.public.id}


def test_keys_are_replaced_through_others() -> None:
    keys = [SigningKey.new().public for _ in range(3)]
    chain = {
        key.id: Validity(key=key, replaces=last and last.id)
        for key, last in zip(keys, [None, *keys[:2]], strict=True)
    }
    assert replaced_by(chain, keys[2].id) == {keys[0].id, keys[1].id}


def test_a_validity_that_its_key_did_not_sign_is_refused(lake: Lake) -> None:
    publish_key(lake, OLD, until=NOW)
    path = lake.folder / FOLDER / f"{OLD.public.id}.json"
    payload = {"key": OLD.public.pem(), "since": None, "until": None, "replaces": None}
    longer = json.loads(sealed(payload, [NEW], TYPE))
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "payload": longer["payload"]}))
    with pytest.raises(FaultError, match="not of these bytes"):
        trusted_keys(lake, [OLD.public])
