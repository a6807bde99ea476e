"""A ledger of an earlier version is carried over: its chain stays as it is, and is checked on the way."""

from datetime import datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from privacy_engine.errors import IntegrityError, LedgerError
from privacy_release.ledger import database
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.ledger.tables import ENTRIES
from tests.privacy_release.ledger.clocks import DATASET, NOW, Clock, loss
from tests.privacy_release.ledger.filled import entries, write

KEY = b"the signing key of the tests"


def old(url: str, key: bytes | None) -> list[str]:
    """A ledger of revision 1 with 21 entries; their hashes."""
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))
    with create_engine(database.database_url(url), poolclass=NullPool).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "ledger_0001")
        made = list(entries(21, NOW, key))
        write(connection, made, key)
    return [entry.hash for entry in made]


@pytest.mark.parametrize("key", [None, KEY], ids=["unsigned", "signed"])
def test_an_old_ledger_is_carried_over_with_its_hashes(ledger_url: str, key: bytes | None) -> None:
    recorded = old(ledger_url, key)
    ledger = BudgetLedger(ledger_url, signing_key=key, clock=Clock(entries_end()))
    with pytest.raises(LedgerError, match="privacy-release budget migrate"):
        ledger.standing(DATASET)
    ledger.migrate()
    (standing,) = ledger.standing(DATASET)
    assert (str(standing.spent), standing.reserved) == ("1/100000", 0)
    assert [entry.hash for entry in ledger.check(DATASET, recorded=recorded)] == recorded
    held = ledger.reserve(DATASET, "key 1", loss(0.000001))
    assert held.model == "model"
    ledger.reserve(DATASET, "new", loss(0.5))
    assert [entry.hash for entry in ledger.check(DATASET)][:-1] == recorded


def test_an_old_ledger_that_was_edited_is_not_carried_over(ledger_url: str) -> None:
    old(ledger_url, KEY)
    ledger = BudgetLedger(ledger_url, signing_key=KEY, clock=Clock(entries_end()))
    ledger.migrate()
    with create_engine(database.database_url(ledger_url), poolclass=NullPool).begin() as connection:
        connection.execute(ENTRIES.update().where(ENTRIES.c.number == 4).values(epsilon="0.1"))
    for _ in range(2):
        with pytest.raises(IntegrityError, match="entry 4 was edited"):
            ledger.reserve(DATASET, "new", loss(0.5))


def entries_end() -> datetime:
    return list(entries(21, NOW, None))[-1].at
