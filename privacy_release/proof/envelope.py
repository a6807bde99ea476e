"""DSSE envelopes, in which the type and the exact bytes of the payload are signed.

Dead Simple Signing Envelope, version 1.0.2 (github.com/secure-systems-lab/dsse, `envelope.md`,
`protocol.md`): a JSON object with `payloadType`, the payload in base64, and signatures over
`PAE(payloadType, payload)`. Signatures are Ed25519 (RFC 8032).
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from privacy_release.proof.faults import Fault, FaultError
from privacy_release.proof.keys import PublicKey, SigningKey

IN_TOTO = "application/vnd.in-toto+json"


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the pre-authentication encoding, the bytes that are signed.

    >>> pae("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sealed(payload: Mapping[str, Any], keys: Sequence[SigningKey], payload_type: str = IN_TOTO) -> bytes:
    """Return an envelope around a payload of plain JSON, with a signature by each key."""
    body = json.dumps(payload, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    signatures = [{"keyid": key.public.id, "sig": _text(key.sign(pae(payload_type, body)))} for key in keys]
    envelope = {"payloadType": payload_type, "payload": _text(body), "signatures": signatures}
    return json.dumps(envelope, indent=1).encode()


def opened(
    data: bytes, keys: Mapping[str, PublicKey], payload_type: str = IN_TOTO
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the payload of an envelope, and the IDs of the keys with a valid signature on it.

    Args:
        data: Bytes of the envelope.
        keys: Keys by ID. Signatures by other keys are ignored.
        payload_type: Required type of the payload.

    Raises:
        FaultError: If it is no envelope of this type, a signature by one of the keys is wrong, or there is
            none.
    """
    body, signatures = _read(data, payload_type)
    known = [(key_id, signature) for key_id, signature in signatures if key_id in keys]
    if not known:
        named = ", ".join(key_id[:16] for key_id, _ in signatures) or "no one"
        raise FaultError(Fault.UNKNOWN_KEY, f"it is signed by {named}, which is none of the trusted keys")
    for key_id, signature in known:
        if not keys[key_id].verifies(pae(payload_type, body), signature):
            raise FaultError(Fault.SIGNATURE, f"the signature by the key {key_id[:16]} is not of these bytes")
    return _object(body), frozenset(key_id for key_id, _ in known)


def opened_unproven(data: bytes, payload_type: str = IN_TOTO) -> dict[str, Any]:
    """Return the payload of an envelope, without checking its signatures.

    Raises:
        FaultError: If it is no envelope of this type.
    """
    return _object(_read(data, payload_type)[0])


def _read(data: bytes, payload_type: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return the bytes of the payload, and the signatures with the IDs of their keys."""
    try:
        envelope = json.loads(data)
        kind, body = envelope["payloadType"], _bytes(envelope["payload"])
        signatures = [(str(each["keyid"]), _bytes(each["sig"])) for each in envelope["signatures"]]
    except (ValueError, KeyError, TypeError):
        raise FaultError(Fault.STATEMENT_CHANGED, "it is no DSSE envelope") from None
    if kind != payload_type:
        raise FaultError(Fault.STATEMENT_CHANGED, f"its payload must be {payload_type}")
    return body, signatures


def _object(body: bytes) -> dict[str, Any]:
    try:
        payload = json.loads(body)
    except ValueError:
        payload = None
    if not isinstance(payload, dict):
        raise FaultError(Fault.STATEMENT_CHANGED, "its payload must be a JSON object")
    return payload


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
