"""The ledger behind an Airflow connection."""

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseHook, BaseOperator
from airflow.sdk._shared.secrets_masker import should_hide_value_for_key

from airflow_privacy_release.hooks.ledger import SIGNING_SECRET, LedgerHook, ledger_of
from airflow_privacy_release.task.errors import guarded
from deploy.local.embedded import free_port
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import LedgerError, SpecError
from privacy_release.ledger.database import database_url
from privacy_release.ledger.ledger import BudgetLedger

SECRET = "a secret of the tests, long enough"
LOSS = PrivacyLoss(epsilon=0.1, neighbours=Neighbours.REPLACE_ONE)


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "default.db"))
    monkeypatch.delenv("PRIVACY_LEDGER_KEY", raising=False)


def connect(monkeypatch: pytest.MonkeyPatch, name: str = "ledger_default", **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))


def test_without_a_connection_the_default_file_is_made_by_its_first_use(tmp_path: Path) -> None:
    ledger = ledger_of("ledger_default")
    assert ledger.place == str(tmp_path / "default.db")
    ledger.grant("adult", Limit(epsilon=1.0), reason="x", by="y")
    assert ledger_of("ledger_default").datasets() == ("adult",)


def test_the_default_file_is_in_airflows_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVACY_LEDGER")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    assert ledger_of("ledger_default").place == str(tmp_path / "home" / "ledger.db")


def test_the_default_place_is_signed_with_the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_LEDGER_KEY", SECRET)
    assert ledger_of("ledger_default").signing_key == SECRET.encode()
    monkeypatch.setenv("PRIVACY_LEDGER_KEY", "short")
    with pytest.raises(SpecError, match=r"PRIVACY_LEDGER_KEY: .* at least 16 bytes"):
        ledger_of("ledger_default")


@pytest.mark.parametrize(
    "fields",
    [
        {"conn_type": "privacy_ledger", "extra": {"path": "FILE"}},
        {"conn_type": "sqlite", "extra": {"path": "FILE"}},
        {"conn_type": "sqlite", "host": "FILE"},
    ],
)
def test_a_connection_names_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    file = str(tmp_path / "named.db")
    connect(monkeypatch, **json.loads(json.dumps(fields).replace("FILE", file)))
    assert ledger_of("ledger_default").place == file
    assert not Path(file).exists()


@pytest.mark.parametrize("conn_type", ["privacy_ledger", "postgres"])
def test_a_connection_names_a_database(monkeypatch: pytest.MonkeyPatch, conn_type: str) -> None:
    connect(
        monkeypatch,
        "budgets",
        conn_type=conn_type,
        host="db.example",
        port=5433,
        login="app",
        password="p@ss/word",
        schema="ledger",
        extra={SIGNING_SECRET: SECRET, "sslmode": "verify-full", "unknown": "x"},
    )
    ledger = ledger_of("budgets")
    url = database_url(ledger.url)
    assert (url.host, url.port, url.username, url.password, url.database) == (
        "db.example",
        5433,
        "app",
        "p@ss/word",
        "ledger",
    )
    assert url.drivername == "postgresql+psycopg"
    assert dict(url.query) == {"sslmode": "verify-full"}
    assert ledger.signing_key == SECRET.encode()
    assert not [secret for secret in ("p@ss", SECRET) if secret in repr(ledger) + ledger.place]


def test_a_connection_reaches_its_database(monkeypatch: pytest.MonkeyPatch, ledger: BudgetLedger) -> None:
    url = database_url(ledger.url)
    if ledger.is_file:
        connect(monkeypatch, conn_type="privacy_ledger", extra={"path": url.database, SIGNING_SECRET: SECRET})
    else:
        connect(
            monkeypatch,
            conn_type="privacy_ledger",
            host=url.host,
            port=url.port,
            login=url.username,
            password=url.password,
            schema=url.database,
            extra={SIGNING_SECRET: SECRET},
        )
    held = ledger_of("ledger_default")
    held.grant("adult", Limit(epsilon=1.0), reason="x", by="y")
    assert held.reserve("adult", "key", LOSS).entry_hash == held.check("adult")[1].hash
    assert LedgerHook().test_connection() == (
        True,
        f"the ledger {ledger.place} has the budgets of 1 data sets",
    )


def test_airflow_finds_the_hook_of_the_connection_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connect(monkeypatch, "budgets", conn_type="privacy_ledger", extra={"path": str(tmp_path / "named.db")})
    hook = BaseHook.get_hook("budgets")
    assert isinstance(hook, LedgerHook)
    assert hook.get_conn().place == str(tmp_path / "named.db")


def test_airflow_hides_the_signing_secret_of_a_connection() -> None:
    assert should_hide_value_for_key(SIGNING_SECRET)


def test_a_missing_connection_is_reported() -> None:
    with pytest.raises(SpecError, match="connection budgets of the ledger does not exist"):
        ledger_of("budgets")


@pytest.mark.parametrize(
    "fields",
    [
        {"conn_type": "privacy_ledger"},
        {"conn_type": "privacy_ledger", "host": "db"},
        {"conn_type": "mysql", "host": "db", "schema": "ledger"},
    ],
)
def test_a_connection_that_names_no_ledger_is_reported(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    connect(monkeypatch, "budgets", **fields)
    with pytest.raises(SpecError, match="connection budgets does not name the ledger"):
        ledger_of("budgets")


def test_a_short_signing_secret_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connect(monkeypatch, conn_type="sqlite", extra={"path": str(tmp_path / "x.db"), SIGNING_SECRET: "short"})
    with pytest.raises(SpecError, match=r"connection ledger_default: .* at least 16 bytes, got 5"):
        ledger_of("ledger_default")


def test_the_button_tells_what_is_wrong_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    address = {
        "host": "127.0.0.1",
        "port": free_port(),
        "schema": "ledger",
        "login": "app",
        "password": SECRET,
    }
    connect(monkeypatch, conn_type="postgres", **address)
    works, reported = LedgerHook().test_connection()
    assert not works
    assert "cannot be reached or refuses" in reported
    assert SECRET not in reported


class SpendOperator(BaseOperator):
    """Books, as release operators do."""

    @guarded
    def execute(self, context: Any) -> None:
        ledger_of("ledger_default").reserve("adult", "key", LOSS)


def test_a_task_that_cannot_reach_the_ledger_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, conn_type="postgres", host="127.0.0.1", port=free_port(), schema="ledger")
    with pytest.raises(LedgerError, match="without it nothing is measured"):
        SpendOperator(task_id="spend").execute({})
