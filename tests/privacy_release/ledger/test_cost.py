"""What a booking costs does not grow with the ledger: rows read and statements, counted by the driver."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.pool import NullPool

from privacy_release.ledger.ledger import BudgetLedger
from tests.privacy_release.ledger.clocks import DATASET, DAY, NOW, Clock, ledger_with, loss
from tests.privacy_release.ledger.filled import entries, write

SMALL, LARGE = 101, 1_001
KEY = b"the signing key of the tests"


def filled(url: str, count: int) -> BudgetLedger:
    """Entries of some weeks, and the clock a day after them; the window begins in their midst."""
    clock = Clock()
    ledger_with(url, clock)
    with create_engine(url, poolclass=NullPool).begin() as connection:
        made = list(entries(count, NOW, KEY))
        write(connection, made, KEY)
    clock.now = made[-1].at + 30 * DAY - (made[-1].at - NOW) / 2
    ledger = BudgetLedger(url, signing_key=KEY, clock=clock)
    assert len(ledger.history(DATASET, last=3)) == 3  # it gets its running totals
    return ledger


def cost(ledger: BudgetLedger, act: Callable[[], Any]) -> Counter[str]:
    """Rows that the driver fetched, statements, and on SQLite its own steps, by hundreds."""
    counted: Counter[str] = Counter()

    def count_row(cursor: Any, row: Any) -> Any:
        counted["rows"] += 1
        return row

    def count_rows_of(cursor: Any) -> Any:
        def make(values: Any) -> Any:
            return count_row(cursor, tuple(values))

        return make

    def connected(connection: Any, record: object) -> None:
        sqlite = ledger.is_file
        connection.row_factory = count_row if sqlite else count_rows_of
        if sqlite:
            connection.set_progress_handler(lambda: counted.update(steps=1) or 0, 100)

    def executed(*arguments: Any) -> None:
        counted["statements"] += 1

    event.listen(ledger._engine, "connect", connected)
    event.listen(ledger._engine, "before_cursor_execute", executed)
    act()
    event.remove(ledger._engine, "connect", connected)
    event.remove(ledger._engine, "before_cursor_execute", executed)
    return counted


ACTS: dict[str, Callable[[BudgetLedger], Any]] = {
    "reserve": lambda ledger: ledger.reserve(DATASET, "new", loss(0.1)),
    "reserve and commit": lambda ledger: ledger.commit(
        DATASET, "n", "model", token=ledger.reserve(DATASET, "n", loss(0.1)).token
    ),
    "reserve and cancel": lambda ledger: ledger.cancel(
        DATASET, "m", token=ledger.reserve(DATASET, "m", loss(0.1)).token
    ),
    "the same again": lambda ledger: ledger.reserve(DATASET, "key 1", loss(0.000001)),
    "require": lambda ledger: ledger.require(DATASET, loss(0.1)),
    "booked_by": lambda ledger: ledger.booked_by(DATASET, "r 2"),
    "standing": lambda ledger: ledger.standing(DATASET),
    "course": lambda ledger: ledger.course(DATASET, 20),
    "history": lambda ledger: ledger.history(DATASET, last=20),
}


def test_what_an_act_reads_does_not_grow_with_the_ledger(ledger_url: str, tmp_path: Any) -> None:
    small = filled(ledger_url, SMALL)
    costs = {name: cost(small, lambda act=act: act(small)) for name, act in ACTS.items()}  # type: ignore[misc]
    large_url = f"sqlite:///{tmp_path / 'large.db'}" if small.is_file else another(ledger_url)
    large = filled(large_url, LARGE)
    for name, act in ACTS.items():
        found = cost(large, lambda act=act: act(large))  # type: ignore[misc]
        assert 0 < found["rows"] <= costs[name]["rows"] + 12, name
        assert found["statements"] <= costs[name]["statements"] + 12, name
        assert found["steps"] <= costs[name]["steps"] + 20, name
    assert costs["reserve"]["rows"] < 30


def another(url: str) -> str:
    """The same place, emptied of its ledger."""
    from privacy_release.ledger.tables import METADATA, VERSION_TABLE

    engine = create_engine(url, poolclass=NullPool)
    METADATA.drop_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
    return url
