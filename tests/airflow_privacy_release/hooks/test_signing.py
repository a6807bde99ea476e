"""The key that signs: of a connection, of the settings, or none; and what the operators make of it."""

import json
from pathlib import Path

import pytest

from airflow_privacy_release.hooks.signing import signer_of
from airflow_privacy_release.operators.publish import RetractOperator
from privacy_engine.errors import SecretError
from privacy_release.lake.store import Lake
from privacy_release.proof.check import check_table
from privacy_release.proof.keys import SigningKey
from tests.privacy_release.proof.signed_tables import NAME, Publisher, people

ONE, OTHER = SigningKey.new(), SigningKey.new()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AIRFLOW_CONN_SIGNING_DEFAULT", "PRIVACY_SIGNING_KEY"):
        monkeypatch.delenv(variable, raising=False)


def connect(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "generic", "password": text}))


def test_the_connection_goes_before_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert signer_of() is None
    (tmp_path / "key.pem").write_bytes(ONE.pem())
    monkeypatch.setenv("PRIVACY_SIGNING_KEY", str(tmp_path / "key.pem"))
    assert (found := signer_of()) is not None
    assert found.key.public.id == ONE.public.id
    connect(monkeypatch, "signing_default", OTHER.pem().decode())
    assert (found := signer_of()) is not None
    assert found.key.public.id == OTHER.public.id
    assert "PRIVATE" not in repr(found)


def test_a_connection_that_is_named_must_be_there_and_hold_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SecretError, match="the Airflow connection ours of the signing key does not exist"):
        signer_of("ours")
    connect(monkeypatch, "ours", "CANARY")
    with pytest.raises(SecretError, match="the password of the Airflow connection ours must hold") as caught:
        signer_of("ours")
    assert "CANARY" not in str(caught.value)


def test_a_retraction_is_signed_by_the_connection(
    airflow_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = Publisher(airflow_lake, tmp_path / "work", ONE)
    by.publish(people(3), "w1")
    by.publish(people(3), "w2")
    connect(monkeypatch, "signing_default", ONE.pem().decode())
    RetractOperator(task_id="retract", name=NAME, release="w1", reason="asked to").execute({})
    verdict = check_table(airflow_lake.table(NAME), [ONE.public])
    assert (verdict.right, verdict.sequence) == (True, 3)
