"""What other hands do to the tables of the ledger, and that it shows."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, select
from sqlalchemy.pool import NullPool

from privacy_engine.dp.chain import chained, sealed_head, totals_seal
from privacy_engine.dp.ledger import Entry
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.errors import BudgetExceededError, IntegrityError
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.ledger.rows import entry_of, row_of
from privacy_release.ledger.tables import DATASETS, ENTRIES, MODELS, RESERVATIONS, TOTALS
from tests.privacy_release.ledger.clocks import DATASET, DAY, Clock, loss
from tests.servers.postgres import new_schema

KEY = b"the signing key of the tests"
LAST = 6  # entries that `write` writes
Fill = Callable[[str, bytes | None], BudgetLedger]


@pytest.fixture(
    params=[
        (None, "sqlite"),
        (KEY, "sqlite"),
        pytest.param((KEY, "postgresql"), marks=pytest.mark.slow),  # compares and stores texts otherwise
    ],
    ids=["unsigned", "signed", "signed on PostgreSQL"],
)
def filled(request: pytest.FixtureRequest, tmp_path: Path, fill: Fill) -> BudgetLedger:
    key, kind = request.param
    if kind == "sqlite":
        return fill(f"sqlite:///{tmp_path / 'ledger.db'}", key)
    return fill(new_schema(request.getfixturevalue("postgres_server")), key)


@pytest.fixture(scope="session")
def fill(tmp_path_factory: pytest.TempPathFactory) -> Fill:
    """A ledger of six entries at an address; a file is a copy of one that was made once."""
    folder, made = tmp_path_factory.mktemp("ledgers"), dict[bytes | None, Path]()

    def at(url: str, key: bytes | None) -> BudgetLedger:
        if not url.startswith("sqlite:///"):
            return write(url, key)
        if key not in made:
            made[key] = folder / f"{len(made)}.db"
            write(f"sqlite:///{made[key]}", key)
        shutil.copyfile(made[key], url.removeprefix("sqlite:///"))
        return BudgetLedger(url, signing_key=key)

    return at


def write(url: str, key: bytes | None) -> BudgetLedger:
    ledger = BudgetLedger(url, signing_key=key)
    ledger.migrate()
    ledger.grant(DATASET, Limit(epsilon=1.0), reason="a year", by="officer")
    for name in ("a", "b"):
        held = ledger.reserve(DATASET, name, loss(0.4), detail={"run": name})
        ledger.commit(DATASET, name, f"model {name}", token=held.token)
    ledger.reserve(DATASET, "c", loss(0.1))
    assert len(ledger.check(DATASET)) == LAST
    return ledger


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


def totals(number: int, **changes: Callable[[str], str]) -> Callable[[Connection], Any]:
    """Running totals made smaller, with their seal left as it is."""

    def edit(connection: Connection) -> None:
        where = TOTALS.c.number == number
        row = connection.execute(select(TOTALS).where(where)).mappings().one()
        new = {name: change(row[name]) for name, change in changes.items()}
        assert new["totals"] != row["totals"]
        connection.execute(TOTALS.update().where(where).values(new))

    return edit


def totals_of_another(connection: Connection) -> None:
    """Smaller totals that the ledger itself sealed, with their seal: those after the first spend."""
    row = connection.execute(select(TOTALS).where(TOTALS.c.number == 2)).mappings().one()
    values = {"totals": row["totals"], "seal": row["seal"]}
    connection.execute(TOTALS.update().where(TOTALS.c.number == LAST).values(values))


def totals_removed(connection: Connection) -> None:
    connection.execute(TOTALS.delete().where(TOTALS.c.number == LAST))


def model(number: int, text: str) -> Callable[[Connection], Any]:
    return lambda c: c.execute(MODELS.update().where(MODELS.c.number == number).values(model=text))


# What every booking notices: the end of the chain, and what its decision rests on.
END_EDITS: dict[str, Callable[[Connection], Any]] = {
    "event of the last entry": entry(6, event="grant"),
    "event that is none": entry(6, event="gift"),
    "epsilon of the last entry": entry(6, epsilon="0.0001"),
    "last entry but one": entry(5, epsilon="0.0001"),
    "last entry removed": removed(LAST),
    "all entries removed": all_removed_but_the_head,
    "entries reordered": reordered,
    "entry added": added,
    "head counts less": head(entries=LAST - 1),
    "head names another": head(hash="0" * 64),
    "seal of the head": head(seal="0" * 64),
    "signing key of the head": head(key_id="0" * 64),
    "totals forged": totals(LAST, totals=lambda text: text.replace('"0.8"', '"0.1"')),
    "totals of another entry": totals_of_another,
    "totals removed": totals_removed,
}
# What an older entry tells is in the running totals of the last one; the full check compares the two.
OLDER_EDITS: dict[str, Callable[[Connection], Any]] = {
    "epsilon of a spend": entry(2, epsilon="0.0001"),
    "epsilon of the grant": entry(1, epsilon="1000"),
    "epsilon that is no number": entry(2, epsilon="much"),
    "time": entry(2, at="1999-01-01T00:00:00.000000+00:00"),
    "time that is none": entry(2, at="yesterday"),
    "reason": entry(1, detail='{"by": "officer", "period": "total", "reason": "another"}'),
    "detail that is none": entry(1, detail="[1]"),
    "hash of a model": entry(3, detail=f'{{"model_sha256": "{hashlib.sha256(b"x").hexdigest()}"}}'),
    "key": entry(2, key="another"),
    "middle entry removed": removed(3),
    "older totals forged": totals(3, totals=lambda text: text.replace('"0.4"', '"0.1"')),
    "older totals removed": lambda c: c.execute(TOTALS.delete().where(TOTALS.c.number == 2)),
    "reservation hidden": lambda c: c.execute(RESERVATIONS.delete().where(RESERVATIONS.c.number == 6)),
    "reservation opened": lambda c: c.execute(
        RESERVATIONS.update().where(RESERVATIONS.c.number == 2).values(is_open=1)
    ),
}
MODEL_EDITS: dict[str, Callable[[Connection], Any]] = {
    "model edited": model(3, "model x"),
    "model removed": lambda c: c.execute(MODELS.delete().where(MODELS.c.number == 5)),
    "model added": lambda c: c.execute(MODELS.insert().values(dataset=DATASET, number=2, model="x")),
}


def acts(filled: BudgetLedger, token: str) -> dict[str, Callable[[], object]]:
    return {
        "reserve": lambda: filled.reserve(DATASET, "d", loss(0.01)),
        "require": lambda: filled.require(DATASET, loss(0.01)),
        "commit": lambda: filled.commit(DATASET, "c", "model c", token=token),
        "cancel": lambda: filled.cancel(DATASET, "c", token=token),
        "grant": lambda: filled.grant(DATASET, Limit(epsilon=9.0), reason="x", by="y"),
        "standing": lambda: filled.standing(DATASET),
    }


@pytest.mark.parametrize("edit", END_EDITS)
def test_an_edited_end_shows_at_once_and_nothing_is_booked_on_it(filled: BudgetLedger, edit: str) -> None:
    token = filled.reserve(DATASET, "c", loss(0.1)).token
    by_hand(filled.url, END_EDITS[edit])
    for act in (lambda: filled.check(DATASET), *acts(filled, token).values()):
        with pytest.raises(IntegrityError, match="data set adult"):
            act()


@pytest.mark.parametrize("edit", OLDER_EDITS)
def test_an_older_edit_shows_at_the_full_check_and_changes_no_decision(
    filled: BudgetLedger, edit: str
) -> None:
    before = filled.standing(DATASET)
    by_hand(filled.url, OLDER_EDITS[edit])
    with pytest.raises(IntegrityError, match="data set adult"):
        filled.check(DATASET)
    assert filled.standing(DATASET) == before
    with pytest.raises(BudgetExceededError):
        filled.reserve(DATASET, "d", loss(0.2))


@pytest.mark.parametrize("edit", ["epsilon of a spend", "hash of a model", "time"])
def test_an_edit_of_the_very_booking_that_is_asked_for_shows_at_once(filled: BudgetLedger, edit: str) -> None:
    by_hand(filled.url, OLDER_EDITS[edit])
    for act in (
        lambda: filled.booking(DATASET, "a"),
        lambda: filled.reserve(DATASET, "a", loss(0.4)),
        lambda: filled.commit(DATASET, "a", "model", token="x"),
    ):
        with pytest.raises(IntegrityError, match="data set adult"):
            act()


@pytest.mark.parametrize("edit", ["older totals forged", "older totals removed", "time that is none"])
def test_an_edit_where_the_window_of_a_rolling_limit_begins_shows_at_once(ledger_url: str, edit: str) -> None:
    clock = Clock()
    ledger = BudgetLedger(ledger_url, signing_key=KEY, clock=clock)
    ledger.migrate()
    ledger.grant(DATASET, Limit(epsilon=1.0, period=Period(name="30d")), reason="a month", by="officer")
    clock.now += DAY
    held = ledger.reserve(DATASET, "a", loss(0.4))
    ledger.commit(DATASET, "a", "model", token=held.token)
    clock.now += 31 * DAY
    ledger.reserve(DATASET, "b", loss(1.0))
    edits = {
        **OLDER_EDITS,
        "older totals removed": lambda c: c.execute(TOTALS.delete().where(TOTALS.c.number == 3)),
    }
    edits["time that is none"] = entry(3, at="2024-03-02T12:00:00.000000 00:00")
    by_hand(ledger_url, edits[edit])
    for act in (lambda: ledger.reserve(DATASET, "c", loss(0.1)), lambda: ledger.standing(DATASET)):
        with pytest.raises(IntegrityError, match="data set adult"):
            act()


def test_a_reservation_whose_end_is_hidden_is_not_committed_for_nothing(filled: BudgetLedger) -> None:
    held = filled.reserve(DATASET, "d", loss(0.1))
    filled.cancel(DATASET, "d", token=held.token)
    for name in ("e", "f", "g"):  # so that the end of the chain does not show it
        filled.reserve(DATASET, name, loss(0.01))
    by_hand(filled.url, removed(LAST + 2))
    for act in (filled.commit, filled.cancel):
        given = (DATASET, "d", "model") if act == filled.commit else (DATASET, "d")
        with pytest.raises(IntegrityError, match="entry 8 is missing"):
            act(*given, token=held.token)


def test_forged_totals_with_a_seal_made_without_the_key_show(ledger_url: str, fill: Fill) -> None:
    ledger = fill(ledger_url, KEY)
    last = ledger_entries(ledger_url)[-1]

    def forge(connection: Connection) -> None:
        text = connection.execute(select(TOTALS.c.totals).where(TOTALS.c.number == LAST)).scalar_one()
        forged = text.replace('"0.8"', '"0.1"')
        seal = totals_seal(last, forged, b"not the key of this ledger")
        connection.execute(TOTALS.update().where(TOTALS.c.number == LAST).values(totals=forged, seal=seal))

    by_hand(ledger_url, forge)
    with pytest.raises(IntegrityError, match="the running totals of entry 6 were edited"):
        ledger.reserve(DATASET, "d", loss(0.5))


def test_without_a_signing_key_forged_totals_show_at_the_full_check(ledger_url: str, fill: Fill) -> None:
    # The limit that the documentation states: anyone who knows how seals are made can make one without a key.
    ledger = fill(ledger_url, None)
    last = ledger_entries(ledger_url)[-1]

    def forge(connection: Connection) -> None:
        text = connection.execute(select(TOTALS.c.totals).where(TOTALS.c.number == LAST)).scalar_one()
        forged = text.replace('"0.8"', '"0.1"')
        values = {"totals": forged, "seal": totals_seal(last, forged, None)}
        connection.execute(TOTALS.update().where(TOTALS.c.number == LAST).values(values))

    by_hand(ledger_url, forge)
    ledger.reserve(DATASET, "d", loss(0.5))
    with pytest.raises(IntegrityError, match="the running totals of entry 6 are not its sums"):
        ledger.check(DATASET)


def test_totals_that_are_all_gone_are_made_again_from_the_checked_chain(filled: BudgetLedger) -> None:
    before = filled.standing(DATASET)
    by_hand(filled.url, lambda c: c.execute(TOTALS.delete()))
    assert filled.standing(DATASET) == before
    assert len(filled.check(DATASET)) == LAST
    by_hand(filled.url, lambda c: c.execute(TOTALS.delete()))
    by_hand(filled.url, entry(2, epsilon="0.0001"))
    with pytest.raises(IntegrityError, match="entry 2 was edited or moved"):
        filled.standing(DATASET)


@pytest.mark.parametrize("edit", MODEL_EDITS)
def test_an_edited_model_shows(filled: BudgetLedger, edit: str) -> None:
    by_hand(filled.url, MODEL_EDITS[edit])
    with pytest.raises(
        IntegrityError, match=r"modified outside of this program|(changed|added) by other hands"
    ):
        filled.check(DATASET)


def test_an_edited_model_is_given_to_no_one(filled: BudgetLedger) -> None:
    by_hand(filled.url, model(3, "model x"))
    for act in (
        lambda: filled.booking(DATASET, "a"),
        lambda: filled.reserve(DATASET, "a", loss(0.4)),
        lambda: filled.commit(DATASET, "a", "model a", token="x"),
    ):
        with pytest.raises(IntegrityError, match="the model of entry 3 was edited"):
            act()


def test_entries_without_their_head_show(ledger_url: str, fill: Fill) -> None:
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
    """Write the whole chain again, with a spend made smaller, consistently down to the head."""

    def edit(connection: Connection) -> None:
        previous = ""
        for old in entries:
            new = chained(replace(old, epsilon="0.001") if old.number == 2 else old, previous, key)
            connection.execute(ENTRIES.update().where(ENTRIES.c.number == old.number).values(row_of(new)))
            previous = new.hash
        connection.execute(TOTALS.delete())
        connection.execute(DATASETS.update().values(vars(sealed_head(DATASET, len(entries), previous, key))))

    return edit


def test_a_chain_rewritten_from_end_to_end_shows_with_a_signing_key(ledger_url: str, fill: Fill) -> None:
    ledger = fill(ledger_url, KEY)
    for forged_with in (None, b"not the key of this ledger"):
        by_hand(ledger_url, rewritten(ledger_url, ledger_entries(ledger_url), forged_with))
        with pytest.raises(IntegrityError, match=r"it is not signed, although|is not the one its entries"):
            ledger.check(DATASET)


def test_a_chain_rewritten_under_the_name_of_the_key_shows(ledger_url: str, fill: Fill) -> None:
    ledger = fill(ledger_url, KEY)
    true_id = sealed_head(DATASET, 0, "", KEY).key_id
    by_hand(ledger_url, rewritten(ledger_url, ledger_entries(ledger_url), None))
    by_hand(ledger_url, head(key_id=true_id))
    with pytest.raises(IntegrityError, match="its head was edited"):
        ledger.check(DATASET)


def test_without_a_signing_key_a_chain_rewritten_from_end_to_end_does_not_show(
    ledger_url: str, fill: Fill
) -> None:
    # The limit that the documentation tells: only a key, or hashes kept elsewhere, go further.
    ledger = fill(ledger_url, None)
    recorded = ledger.history(DATASET)[1].hash
    by_hand(ledger_url, rewritten(ledger_url, ledger_entries(ledger_url), None))
    ledger.check(DATASET)
    with pytest.raises(IntegrityError, match="lacks 1 of 1 recorded entries"):
        ledger.check(DATASET, recorded=[recorded])


def test_an_old_copy_that_was_restored_shows_against_recorded_hashes_alone(
    ledger_url: str, fill: Fill
) -> None:
    ledger = fill(ledger_url, KEY)
    before = stored_head(ledger_url)
    recorded = ledger.reserve(DATASET, "d", loss(0.1)).entry_hash
    assert ledger.check(DATASET, recorded=[recorded])

    def restore(connection: Connection) -> None:
        for table in (ENTRIES, TOTALS, RESERVATIONS):
            connection.execute(table.delete().where(table.c.number > LAST))
        connection.execute(DATASETS.update().values(before))

    by_hand(ledger_url, restore)
    assert len(ledger.check(DATASET)) == LAST  # whole in itself, whatever the key
    with pytest.raises(IntegrityError, match=f"first {recorded}"):
        ledger.check(DATASET, recorded=[recorded])


def test_a_wrong_and_a_missing_key_are_reported(ledger_url: str, fill: Fill) -> None:
    fill(ledger_url, KEY)
    with pytest.raises(IntegrityError, match="no signing key was given"):
        BudgetLedger(ledger_url).reserve(DATASET, "d", loss(0.01))
    wrong = BudgetLedger(ledger_url, signing_key=b"another key, and long enough")
    with pytest.raises(IntegrityError, match="is not the one its entries were signed with"):
        wrong.reserve(DATASET, "d", loss(0.01))


def test_an_unsigned_ledger_is_not_taken_for_a_signed_one(ledger_url: str, fill: Fill) -> None:
    fill(ledger_url, None)
    with pytest.raises(IntegrityError, match="it is not signed, although"):
        BudgetLedger(ledger_url, signing_key=KEY).reserve(DATASET, "d", loss(0.01))


def test_no_hash_of_the_ledger_can_be_made_from_what_others_may_guess(ledger_url: str, fill: Fill) -> None:
    ledger = fill(ledger_url, None)
    salts = {row.salt for row in ledger.history(DATASET)}
    assert len(salts) == LAST
    assert all(len(bytes.fromhex(salt)) == 32 for salt in salts)


def stored_head(url: str) -> dict[str, Any]:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return dict(connection.execute(select(DATASETS)).mappings().one())


def ledger_entries(url: str) -> tuple[Entry, ...]:
    """The entries as they are, whichever user wrote them."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        rows = connection.execute(select(ENTRIES).order_by(ENTRIES.c.number)).mappings()
        return tuple(map(entry_of, rows))
