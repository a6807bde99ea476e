"""Envelopes: every signature by a trusted key must be of these bytes and this type."""

import base64
import json
from typing import Any

import pytest

from privacy_release.proof.envelope import opened, sealed
from privacy_release.proof.faults import Fault, FaultError
from privacy_release.proof.keys import SigningKey, by_id

OWN, OTHER = SigningKey.new(), SigningKey.new()
TRUSTED = by_id([OWN.public, OTHER.public])


def changed(data: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(data), **fields}).encode()


def signatures(data: bytes) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(data)["signatures"]
    return found


def test_payload_and_signers_of_a_whole_envelope_are_returned() -> None:
    payload, signers = opened(sealed({"a": 1}, [OWN, OTHER]), TRUSTED)
    assert (payload, signers) == ({"a": 1}, {OWN.public.id, OTHER.public.id})
    strangers = sealed({"a": 1}, [OWN, SigningKey.new()])
    assert opened(strangers, TRUSTED)[1] == {OWN.public.id}


def test_a_signature_that_is_not_of_these_bytes_is_refused() -> None:
    data, other = sealed({"rows": 12}, [OWN]), sealed({"rows": 13}, [OWN])
    foreign = {"keyid": OWN.public.id, "sig": signatures(sealed({"rows": 12}, [OTHER]))[0]["sig"]}
    forged = [
        changed(data, payload=json.loads(other)["payload"]),
        changed(data, signatures=signatures(other)),
        changed(data, signatures=[foreign]),
        changed(data, signatures=[*signatures(sealed({"rows": 12}, [OTHER])), foreign]),
        changed(data, signatures=[{"keyid": OWN.public.id, "sig": base64.b64encode(b"x" * 64).decode()}]),
    ]
    for envelope in forged:
        with pytest.raises(FaultError) as refused:
            opened(envelope, TRUSTED)
        assert refused.value.fault is Fault.SIGNATURE


def test_a_signature_of_another_type_of_payload_is_refused() -> None:
    data = sealed({"a": 1}, [OWN], "text/plain")
    with pytest.raises(FaultError) as refused:
        opened(data, TRUSTED)
    assert refused.value.fault is Fault.STATEMENT_CHANGED
    with pytest.raises(FaultError) as refused:
        opened(changed(data, payloadType="application/vnd.in-toto+json"), TRUSTED)
    assert refused.value.fault is Fault.SIGNATURE


def test_an_envelope_that_no_trusted_key_signed_is_refused() -> None:
    for envelope in (sealed({"a": 1}, [SigningKey.new()]), sealed({"a": 1}, [])):
        with pytest.raises(FaultError) as refused:
            opened(envelope, TRUSTED)
        assert refused.value.fault is Fault.UNKNOWN_KEY
