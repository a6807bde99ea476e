"""The keys of object stores in a connection: each library gets what it understands, or says so."""

import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_privacy_release.compat import conf
from airflow_privacy_release.hooks.connections import database_url, lake_options, source_options, users
from privacy_engine.errors import SpecError


def test_a_source_gets_its_options_as_they_are() -> None:
    options = {"anon": False, "client_kwargs": {"endpoint_url": "http://store"}, "max_concurrency": 4}
    assert source_options({"storage_options": options | {"key": None}}) == options


def test_a_lake_gets_text() -> None:
    given = {"AWS_ALLOW_HTTP": True, "max_retries": 3, "AWS_REGION": "eu-west-1", "AWS_SESSION_TOKEN": None}
    wanted = {"AWS_ALLOW_HTTP": "true", "max_retries": "3", "AWS_REGION": "eu-west-1"}
    assert lake_options({"storage_options": given}) == wanted
    assert lake_options({}) == {}


@pytest.mark.parametrize(
    ("options_of", "options", "message"),
    [
        (lake_options, {"key": "CANARY", "secret": "CANARY"}, "deltalake's names, got key, secret"),
        (lake_options, {"client_kwargs": {"endpoint_url": "CANARY"}}, "deltalake's names, got client_kwargs"),
        (lake_options, {"connection_string": "CANARY"}, "deltalake's names, got connection_string"),
        (source_options, {"AWS_SECRET_ACCESS_KEY": "CANARY"}, "fsspec's names, got AWS_SECRET_ACCESS_KEY"),
        (source_options, {"azure_storage_account_key": "CANARY"}, "fsspec's names, got azure_storage"),
        (lake_options, "CANARY", "must be a mapping of names and values, got str"),
    ],
)
def test_names_of_the_other_library_are_refused_without_their_values(
    options_of: Any, options: Any, message: str
) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        options_of({"storage_options": options})
    assert "CANARY" not in str(caught.value)


def test_keys_are_blotted_out_of_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", messages.append)
    lake_options({"storage_options": {"AWS_SECRET_ACCESS_KEY": "one", "AWS_REGION": "eu-west-1"}})
    source_options({"storage_options": {"connection_string": "AccountName=a;AccountKey=two=="}})
    source_options({"storage_options": {"client_kwargs": {"aws_session_token": "three"}}})
    assert messages == ["one", "AccountName=a;AccountKey=two==", "two==", "three"]


def test_a_database_is_named_by_an_ordinary_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_WAREHOUSE", "postgres://reader:hunter2@db.example:5433/hospital?sslmode=require"
    )
    monkeypatch.setenv("AIRFLOW_CONN_FILE", "sqlite:///?path=%2Fdata%2Fvisits.db")
    monkeypatch.setenv("AIRFLOW_CONN_NOTHING", "postgres://db.example")
    url = database_url("warehouse")
    assert url.render_as_string(hide_password=False) == (
        "postgresql+psycopg://reader:hunter2@db.example:5433/hospital?sslmode=require"
    )
    assert str(database_url("file")) == "sqlite:////data/visits.db"
    for wrong in ("nothing", "nowhere"):
        with pytest.raises(SpecError, match=wrong):
            database_url(wrong)


@pytest.fixture(params=["loaded", "not loaded"])
def airflow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which Airflow answers, and one that reads the environment and Airflow's file itself."""
    if request.param == "not loaded":
        monkeypatch.delitem(sys.modules, "airflow")


@pytest.mark.usefixtures("airflow")
def test_the_users_are_those_that_the_configuration_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "olga:op, viewer:viewer")
    manager = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", manager)
    assert users() == {"olga", "viewer"}
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "their.own.AuthManager")
    assert users() is None


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize("named", [None, "admin:admin"])
def test_users_that_no_one_set_are_not_known(named: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    monkeypatch.delenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", raising=False)
    if named is not None:
        monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", named)
    assert users() is None


@pytest.mark.usefixtures("airflow")
def test_where_everybody_is_an_admin_the_users_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "olga:op")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "TRUE")
    assert users() is None


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize("variable", ["SIMPLE_AUTH_MANAGER_USERS", "SIMPLE_AUTH_MANAGER_ALL_ADMINS"])
def test_settings_that_need_airflow_are_read_by_it(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "olga:op")
    monkeypatch.setenv("WRITTEN_ELSEWHERE", "f # only olga:op")
    monkeypatch.setenv(f"AIRFLOW__CORE__{variable}", "$WRITTEN_ELSEWHERE")
    assert users() == {"f # only olga" if variable.endswith("USERS") else "olga"}


def test_users_in_the_file_of_airflow_are_read_without_airflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in ("USERS", "ALL_ADMINS"):
        monkeypatch.delenv(f"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_{option}", raising=False)
    file = tmp_path / "airflow.cfg"
    file.write_text("[core]\nsimple_auth_manager_users = olga:op, viewer:viewer\n")
    monkeypatch.setenv("AIRFLOW_CONFIG", str(file))
    monkeypatch.delitem(sys.modules, "airflow")
    assert users() == {"olga", "viewer"}


def test_the_defaults_are_those_of_airflow() -> None:
    assert conf.get_default_value("core", "simple_auth_manager_users") == "admin:admin"
    assert conf.get_default_value("core", "auth_manager").endswith("SimpleAuthManager")
    assert conf.get_default_value("core", "simple_auth_manager_all_admins") == "False"
