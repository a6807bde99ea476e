"""A store that refuses, knows no such bucket or does not answer: one clear error, and no key in it."""

import base64
from collections.abc import Callable
from dataclasses import replace

import pytest

from privacy_engine.errors import PublishError, SchemaError
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake, table_names
from privacy_release.sources.addresses import find_source
from privacy_release.workarea.area import sha256_file
from tests.object_stores.staged import NAME, RELEASE, Staged, send
from tests.object_stores.stores import Bucket

pytestmark = pytest.mark.object_stores
WRONG = base64.b64encode(b"CANARY-CANARY-CANARY-CANARY-CANARY").decode()
NOWHERE = "http://127.0.0.1:1"
FAULTS = {
    "wrong-key": "the store answered 403 Forbidden, (SignatureDoesNotMatch|AuthorizationFailure)",
    "no-bucket": "the store answered 404 [A-Za-z ]+, (NoSuchBucket|ContainerNotFound)",
    "unreachable": "the store gave no answer",
}


def faulty(bucket: Bucket, fault: str) -> Bucket:
    match fault:
        case "wrong-key":
            return replace(bucket, store=replace(bucket.store, secret=WRONG))
        case "no-bucket":
            return replace(bucket, name="no-such-bucket")
        case _:
            return bucket.through(NOWHERE)


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_use_of_the_lake_fails_with_a_clear_error_that_carries_no_secret(
    bucket: Bucket, edition: Callable[[int], Staged], fault: str
) -> None:
    staged = edition(1)
    broken = faulty(bucket, fault)
    lake: Lake = broken.lake(options={"max_retries": "0"})
    for act in (
        lambda: send(lake, staged, "run 1"),
        lambda: releases(lake.table(NAME)),
        lambda: read_release(lake.table(NAME), RELEASE),
        lambda: manifest_of(lake.table(NAME), RELEASE),
        lambda: retract(lake.table(NAME), RELEASE, "reason"),
        lambda: table_names(lake),
    ):
        with pytest.raises(PublishError, match=FAULTS[fault]) as caught:
            act()
        assert lake.root in str(caught.value)
        assert "check the lake's address, the permissions" in str(caught.value)
        assert caught.value.__suppress_context__
        for secret in (bucket.store.secret, WRONG, "ignature="):
            assert secret not in str(caught.value)
    assert sha256_file(staged.file) == staged.sha256
    assert bucket.objects() == {}


@pytest.mark.parametrize("path", ["people/a.parquet", "people", "people/*.parquet"])
@pytest.mark.parametrize(
    ("source_fault", "message"),
    [
        ("wrong-key", "correct the keys of its connection|check the address, the access keys"),
        ("no-bucket", "found none: correct the address|must exist; correct the address"),
    ],
)
def test_a_source_that_cannot_be_read_is_a_clear_error_that_carries_no_secret(
    bucket: Bucket, path: str, source_fault: str, message: str
) -> None:
    broken = faulty(bucket, source_fault)
    with pytest.raises(SchemaError, match=message) as caught:
        find_source(broken.address(path), broken.store.source_options())
    assert broken.address(path) in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for secret in (bucket.store.secret, WRONG):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("store", ["s3"], indirect=True)  # Azure's client tries for a minute and a half
def test_a_source_that_does_not_answer_is_a_clear_error(bucket: Bucket) -> None:
    gone = bucket.through(NOWHERE)
    once = {"config_kwargs": {"retries": {"max_attempts": 0}}}
    with pytest.raises(SchemaError, match=r"could not be read \(EndpointConnectionError\)"):
        find_source(gone.address("people"), gone.store.source_options() | once)
