"""The public keys shown in a lake, their periods of validity, and which of them are trusted.

`_keys/<id>.json` is a DSSE envelope about a key, signed by the key itself and, if there is one, by the older
key that it replaces: if you trust the older key, you trust the new one. A key is not trusted
just because the lake shows it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from privacy_engine.errors import SecretError
from privacy_release.lake.store import Lake, listing, put, read_all
from privacy_release.proof.envelope import opened, opened_unproven, sealed
from privacy_release.proof.faults import Fault, FaultError
from privacy_release.proof.keys import PublicKey, SigningKey, by_id, public_key_of

FOLDER = "_keys"
_TYPE = "application/vnd.privacy-release.key+json"


@dataclass(frozen=True, kw_only=True)
class Validity:
    """A key, its period of validity, and the ID of the key that it replaces. None: no limit, or no key."""

    key: PublicKey
    since: datetime | None = None
    until: datetime | None = None
    replaces: str | None = None

    def covers(self, moment: datetime) -> bool:
        """Return whether the key was valid at a time."""
        return (self.since is None or self.since <= moment) and (self.until is None or moment <= self.until)


def publish_key(
    lake: Lake,
    key: SigningKey,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    replaces: SigningKey | None = None,
) -> str:
    """Show the public half of a key in a lake, replacing earlier entries of it. Return the path."""
    payload = {
        "key": key.public.pem(),
        "since": since and since.isoformat(),
        "until": until and until.isoformat(),
        "replaces": replaces and replaces.public.id,
    }
    path = f"{FOLDER}/{key.public.id}.json"
    put(lake, path, sealed(payload, [key, *([replaces] if replaces else [])], _TYPE))
    return path


def show_key(lake: Lake, key: SigningKey) -> None:
    """Show a key that is about to sign, if the lake does not show it yet.

    Raises:
        SecretError: If the lake says that the key is not valid yet, or no longer.
        PublishError: If the lake cannot be reached.
    """
    (data,) = read_all(lake, [f"{FOLDER}/{key.public.id}.json"])
    if data is None:
        publish_key(lake, key)
        return
    try:
        shown = _shown(data, by_id([key.public]))
    except FaultError as fault:
        raise SecretError(
            f"the key {key.public.id} is shown in the lake, but {fault}; show it again with "
            "`privacy-release key publish`"
        ) from None
    if not shown.covers(datetime.now(UTC)):
        raise SecretError(
            f"the key {key.public.id} must hold today, and is valid {_span(shown)}; sign with the key that "
            "replaces it"
        )


def shown_keys(lake: Lake) -> dict[str, Validity]:
    """Return all keys shown in a lake that are signed by themselves. They are not trusted yet.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    found = {}
    paths = [file.path for file in listing(lake, FOLDER) if file.path.endswith(".json")]
    for data in read_all(lake, paths):
        with suppress(FaultError, KeyError, ValueError):
            key = public_key_of(str(opened_unproven(data or b"", _TYPE)["key"]).encode())
            found[key.id] = _shown(data or b"", by_id([key]))
    return found


def trusted_keys(lake: Lake, given: Iterable[PublicKey]) -> dict[str, Validity]:
    """Return the trusted keys: the given ones, and those that one of these signed as its successor.

    Raises:
        FaultError: If the lake's entry about a given key is not signed by it.
        PublishError: If the lake cannot be reached.
    """
    paths = [file.path for file in listing(lake, FOLDER) if file.path.endswith(".json")]
    files = {
        path.rpartition("/")[2].removesuffix(".json"): data
        for path, data in zip(paths, read_all(lake, paths), strict=True)
    }
    found: dict[str, Validity] = {}
    for key in given:
        data = files.pop(key.id, None)
        found[key.id] = Validity(key=key) if data is None else _shown(data, by_id([key]))
    while True:
        more = {}
        for key_id, data in files.items():
            if key_id not in found and data is not None and (successor := _successor(key_id, data, found)):
                more[key_id] = successor
        if not more:
            return found
        found |= more


def replaced_by(keys: Mapping[str, Validity], key_id: str) -> frozenset[str]:
    """Return the IDs of the keys that a key replaces, directly or through others."""
    found, at = set[str](), keys[key_id].replaces
    while at is not None and at not in found:
        found.add(at)
        at = keys[at].replaces if at in keys else None
    return frozenset(found)


def _successor(key_id: str, data: bytes, known: Mapping[str, Validity]) -> Validity | None:
    """Return a key that a known one signed as its successor. None if it is none."""
    try:
        payload, signers = opened(data, {i: v.key for i, v in known.items()}, _TYPE)
        key = public_key_of(str(payload["key"]).encode())
        shown = _shown(data, by_id([key]))
    except (FaultError, KeyError, ValueError):
        return None
    return shown if key.id == key_id and shown.replaces in signers else None


def _shown(data: bytes, key: Mapping[str, PublicKey]) -> Validity:
    """Read an envelope about a key, which must have signed it.

    Raises:
        FaultError: If it is not signed by the key, or about something else.
    """
    (key_id,) = key
    payload, _ = opened(data, key, _TYPE)
    try:
        same = public_key_of(str(payload["key"]).encode()).id == key_id
        since, until = (_moment(payload[name]) for name in ("since", "until"))
        replaces = payload["replaces"]
    except (KeyError, ValueError, TypeError):
        same = False
    if not same:
        raise FaultError(Fault.STATEMENT_CHANGED, "it is of another key, or not whole")
    return Validity(key=key[key_id], since=since, until=until, replaces=replaces)


def _moment(text: Any) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _span(shown: Validity) -> str:
    limits = [("from", shown.since), ("until", shown.until)]
    return " ".join(f"{word} {moment.isoformat()}" for word, moment in limits if moment)
