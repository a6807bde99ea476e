"""What other hands do to the tables of the ledger, and that it shows."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, select
from sqlalchemy.pool import NullPool

from privacy_engine.dp.chain import chained, sealed_head
from privacy_engine.dp.ledger import Entry
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import IntegrityError
from privacy_release.ledger.book import _row
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.ledger.tables import DATASETS, ENTRIES, MODELS

pytestmark = pytest.mark.slow

DATASET = "adult"
KEY = b"the signing key of the tests"
LAST = 6  # entries that `filled` writes


@pytest.fixture(params=[None, KEY], ids=["unsigned", "signed"])
def filled(request: pytest.FixtureRequest, ledger_url: str) -> BudgetLedger:
    return fill(ledger_url, request.param)


def fill(url: str, key: bytes | None) -> BudgetLedger:
    ledger = BudgetLedger(url, signing_key=key)
    ledger.migrate()
    ledger.grant(DATASET, Limit(epsilon=1.0), reason="a year", by="officer")
    for name in ("a", "b"):
        ledger.reserve(DATASET, name, loss(0.4), detail={"run": name})
        ledger.commit(DATASET, name, f"model {name}")
    ledger.reserve(DATASET, "c", loss(0.1))
    assert len(ledger.check(DATASET)) == LAST
    return ledger


def loss(epsilon: float) -> PrivacyLoss:
    return PrivacyLoss(epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE)


def by_hand(url: str, edit: Callable[[Connection], Any]) -> None:
    """Change the tables without the ledger; keys that refer to a row do not stop who may write all rows."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        edit(connection)


def entry(number: int, **values: Any) -> Callable[[Connection], Any]:
    return lambda c: c.execute(ENTRIES.update().where(ENTRIES.c.number == number).values(**values))


def head(**values: Any) -> Callable[[Connection], Any]:
    return lambda c: c.execute(DATASETS.update().values(**values))


def removed(number: int) -> Callable[[Connection], Any]:
    def edit(connection: Connection) -> None:
        connection.execute(MODELS.delete().where(MODELS.c.number == number))
        connection.execute(ENTRIES.delete().where(ENTRIES.c.number == number))

    return edit


def reordered(connection: Connection) -> None:
    for old, new in ((2, 99), (6, 2), (99, 6)):
        connection.execute(ENTRIES.update().where(ENTRIES.c.number == old).values(number=new))


def added(connection: Connection) -> None:
    row = dict(connection.execute(select(ENTRIES).where(ENTRIES.c.number == LAST)).mappings().one())
    connection.execute(ENTRIES.insert().values(row | {"number": LAST + 1, "event": "cancel"}))


def all_removed_but_the_head(connection: Connection) -> None:
    connection.execute(MODELS.delete())
    connection.execute(ENTRIES.delete())


def model(number: int, text: str) -> Callable[[Connection], Any]:
    return lambda c: c.execute(MODELS.update().where(MODELS.c.number == number).values(model=text))


EDITS: dict[str, Callable[[Connection], Any]] = {
    "epsilon of a spend": entry(2, epsilon="0.0001"),
    "epsilon of the grant": entry(1, epsilon="1000"),
    "epsilon that is no number": entry(2, epsilon="much"),
    "time": entry(2, at="1999-01-01T00:00:00.000000+00:00"),
    "time that is none": entry(2, at="yesterday"),
    "event": entry(6, event="grant"),
    "event that is none": entry(6, event="gift"),
    "reason": entry(1, detail='{"by": "officer", "period": "total", "reason": "another"}'),
    "detail that is none": entry(1, detail="[1]"),
    "hash of a model": entry(3, detail=f'{{"model_sha256": "{hashlib.sha256(b"x").hexdigest()}"}}'),
    "key": entry(2, key="another"),
    "middle entry removed": removed(3),
    "last entry removed": removed(LAST),
    "all entries removed": all_removed_but_the_head,
    "entries reordered": reordered,
    "entry added": added,
    "head counts less": head(entries=LAST - 1),
    "head names another": head(hash="0" * 64),
    "seal of the head": head(seal="0" * 64),
    "signing key of the head": head(key_id="0" * 64),
}
MODEL_EDITS: dict[str, Callable[[Connection], Any]] = {
    "model edited": model(3, "model x"),
    "model removed": lambda c: c.execute(MODELS.delete().where(MODELS.c.number == 5)),
    "model added": lambda c: c.execute(MODELS.insert().values(dataset=DATASET, number=2, model="x")),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_ledger_shows_and_nothing_is_booked_on_it(filled: BudgetLedger, edit: str) -> None:
    by_hand(filled.url, EDITS[edit])
    for act in (
        lambda: filled.check(DATASET),
        lambda: filled.reserve(DATASET, "d", loss(0.01)),
        lambda: filled.require(DATASET, loss(0.01)),
        lambda: filled.commit(DATASET, "c", "model c"),
        lambda: filled.cancel(DATASET, "c"),
        lambda: filled.grant(DATASET, Limit(epsilon=9.0), reason="x", by="y"),
        lambda: filled.standing(DATASET),
    ):
        with pytest.raises(IntegrityError, match="data set adult"):
            act()


@pytest.mark.parametrize("edit", MODEL_EDITS)
def test_an_edited_model_shows(filled: BudgetLedger, edit: str) -> None:
    by_hand(filled.url, MODEL_EDITS[edit])
    with pytest.raises(IntegrityError, match=r"changed by other hands|added by other hands"):
        filled.check(DATASET)


def test_an_edited_model_is_given_to_nobody(filled: BudgetLedger) -> None:
    by_hand(filled.url, model(3, "model x"))
    for act in (
        lambda: filled.booking(DATASET, "a"),
        lambda: filled.reserve(DATASET, "a", loss(0.4)),
        lambda: filled.commit(DATASET, "a", "model a"),
    ):
        with pytest.raises(IntegrityError, match="the model of entry 3 was edited"):
            act()


def test_entries_without_their_head_show(ledger_url: str) -> None:
    ledger = fill(ledger_url, None)

    def edit(connection: Connection) -> None:
        rows = [dict(row) for row in connection.execute(select(ENTRIES)).mappings()]
        connection.execute(MODELS.delete())
        connection.execute(ENTRIES.delete())
        connection.execute(DATASETS.delete())
        if connection.dialect.name == "sqlite":  # PostgreSQL keeps entries of unknown data sets out
            connection.execute(ENTRIES.insert(), rows)

    by_hand(ledger_url, edit)
    with pytest.raises(IntegrityError, match=r"no head|has no entries"):
        ledger.check(DATASET)


def rewritten(url: str, entries: tuple[Entry, ...], key: bytes | None) -> Callable[[Connection], Any]:
    """Write the whole chain anew, with a spend made smaller, consistently down to the head."""

    def edit(connection: Connection) -> None:
        previous = ""
        for old in entries:
            new = chained(replace(old, epsilon="0.001") if old.number == 2 else old, previous, key)
            connection.execute(ENTRIES.update().where(ENTRIES.c.number == old.number).values(_row(new)))
            previous = new.hash
        connection.execute(DATASETS.update().values(vars(sealed_head(DATASET, len(entries), previous, key))))

    return edit


def test_a_chain_rewritten_from_end_to_end_shows_with_a_signing_key(ledger_url: str) -> None:
    ledger = fill(ledger_url, KEY)
    for forged_with in (None, b"not the key of this ledger"):
        by_hand(ledger_url, rewritten(ledger_url, ledger_entries(ledger_url), forged_with))
        with pytest.raises(IntegrityError, match=r"not signed at all|is not the one that its entries"):
            ledger.check(DATASET)


def test_a_chain_rewritten_under_the_name_of_the_key_shows(ledger_url: str) -> None:
    ledger = fill(ledger_url, KEY)
    true_id = sealed_head(DATASET, 0, "", KEY).key_id
    by_hand(ledger_url, rewritten(ledger_url, ledger_entries(ledger_url), None))
    by_hand(ledger_url, head(key_id=true_id))
    with pytest.raises(IntegrityError, match="its head was edited"):
        ledger.check(DATASET)


def test_without_a_signing_key_a_chain_rewritten_from_end_to_end_does_not_show(ledger_url: str) -> None:
    # The limit that the documentation tells: only a key, or hashes kept elsewhere, go further.
    ledger = fill(ledger_url, None)
    recorded = ledger.history(DATASET)[1].hash
    by_hand(ledger_url, rewritten(ledger_url, ledger_entries(ledger_url), None))
    ledger.check(DATASET)
    with pytest.raises(IntegrityError, match="lacks 1 of 1 recorded entries"):
        ledger.check(DATASET, recorded=[recorded])


def test_an_old_copy_put_back_shows_against_recorded_hashes_alone(ledger_url: str) -> None:
    ledger = fill(ledger_url, KEY)
    before = tables(ledger_url)
    recorded = ledger.reserve(DATASET, "d", loss(0.1)).entry_hash
    assert ledger.check(DATASET, recorded=[recorded])

    def restore(connection: Connection) -> None:
        connection.execute(ENTRIES.delete().where(ENTRIES.c.number > LAST))
        connection.execute(DATASETS.update().values(before))

    by_hand(ledger_url, restore)
    assert len(ledger.check(DATASET)) == LAST  # whole in itself, whatever the key
    with pytest.raises(IntegrityError, match=f"first {recorded}"):
        ledger.check(DATASET, recorded=[recorded])


def test_a_wrong_and_a_missing_key_are_told(ledger_url: str) -> None:
    fill(ledger_url, KEY)
    with pytest.raises(IntegrityError, match="no signing key was given"):
        BudgetLedger(ledger_url).reserve(DATASET, "d", loss(0.01))
    wrong = BudgetLedger(ledger_url, signing_key=b"another key, and long enough")
    with pytest.raises(IntegrityError, match="is not the one that its entries were signed with"):
        wrong.reserve(DATASET, "d", loss(0.01))


def test_an_unsigned_ledger_is_not_taken_for_a_signed_one(ledger_url: str) -> None:
    fill(ledger_url, None)
    with pytest.raises(IntegrityError, match="not signed at all"):
        BudgetLedger(ledger_url, signing_key=KEY).reserve(DATASET, "d", loss(0.01))


def test_no_hash_of_the_ledger_can_be_made_from_what_others_may_guess(ledger_url: str) -> None:
    ledger = fill(ledger_url, None)
    salts = {row.salt for row in ledger.history(DATASET)}
    assert len(salts) == LAST
    assert all(len(bytes.fromhex(salt)) == 32 for salt in salts)


def tables(url: str) -> dict[str, Any]:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return dict(connection.execute(select(DATASETS)).mappings().one())


def ledger_entries(url: str) -> tuple[Entry, ...]:
    """The entries as they stand, whoever wrote them."""
    from privacy_release.ledger.book import _entry

    with create_engine(url, poolclass=NullPool).connect() as connection:
        rows = connection.execute(select(ENTRIES).order_by(ENTRIES.c.number)).mappings()
        return tuple(map(_entry, rows))
