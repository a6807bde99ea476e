"""Connections that users of Airflow's API cannot change, and the deployments that want no others."""

import json
from collections.abc import Iterator

import pytest
from airflow.models import Connection
from airflow.secrets.metastore import MetastoreBackend
from airflow.utils.session import create_session
from sqlalchemy import delete

from airflow_privacy_release.compat import fixed_connection
from airflow_privacy_release.hooks.connections import connection_of
from airflow_privacy_release.hooks.work import work_store
from privacy_engine.errors import SecretError, SpecError

SECRET = "a secret of more than thirty-two characters"


@pytest.fixture
def stored(airflow_home: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A connection in Airflow's database, as its API stores it; processes of a server read it."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.conn_id == "work_default"))
        session.add(Connection(conn_id="work_default", conn_type="generic", password=SECRET))
    yield
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.conn_id == "work_default"))


def test_a_deployment_that_fixes_its_connections_does_not_read_airflows_database(
    stored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MetastoreBackend().get_connection("work_default") is not None
    assert (found := connection_of("work_default")) is not None
    assert found.password == SECRET
    assert connection_of("work_default", fixed=True) is None
    monkeypatch.setenv("PRIVACY_CONNECTIONS", "environment")
    assert connection_of("work_default") is None
    monkeypatch.setenv("AIRFLOW_CONN_WORK_DEFAULT", json.dumps({"conn_type": "generic", "password": "other"}))
    assert (found := connection_of("work_default")) is not None
    assert found.password == "other"


def test_the_secret_that_wraps_keys_of_runs_never_comes_from_airflows_database(
    stored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", "s3://bucket/work")
    with pytest.raises(SecretError, match="PRIVACY_WORK_AREA_KEY, or a connection work_default from the env"):
        work_store()
    monkeypatch.setenv("PRIVACY_WORK_AREA_KEY", SECRET)
    assert work_store() is not None


def test_a_secrets_backend_of_the_deployment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Vault:
        def get_connection(self, conn_id: str) -> Connection:
            return Connection(conn_id=conn_id, conn_type="generic", password="from the vault")

    monkeypatch.setattr(
        "airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded",
        lambda: [MetastoreBackend(), Vault()],
    )
    assert (found := fixed_connection("anything")) is not None
    assert found.password == "from the vault"


def test_any_other_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_CONNECTIONS", "vault")
    with pytest.raises(SpecError, match="the option connections must be `any` or `environment`"):
        connection_of("work_default")
