"""Spends from a ledger in a process of its own, which a test can kill or hold at a chosen step.

The steps are real; a fault point only ends the process (SIGKILL: no clean-up runs) or waits for the parent.
"""

import json
import secrets
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fault_points import after, kill_me, rendezvous, say
from sqlalchemy import Connection, event

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import BudgetExceededError
from privacy_release.ledger import book as ledger_book
from privacy_release.ledger.ledger import BudgetLedger


def at_end_of_transaction(statement_start: str) -> None:
    """End the process when all of a transaction that runs such a statement is done but its COMMIT."""
    seen: list[str] = []

    def notice(connection: Connection, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    def end(connection: Connection) -> None:
        if any(statement.startswith(statement_start) for statement in seen):
            kill_me()

    ledger = BudgetLedger(TASK["url"])
    event.listen(ledger._engine, "before_cursor_execute", notice)
    event.listen(ledger._engine, "commit", end)
    LEDGERS.append(ledger)


TASK: dict[str, Any] = {}
LEDGERS: list[BudgetLedger] = []


def spend_once() -> None:
    """Reserve, measure, commit; what is kept is told to the parent."""
    point = TASK["point"]
    match point:
        case "end_of_reserve":
            at_end_of_transaction("INSERT INTO privacy_ledger_entry")
        case "end_of_commit":
            at_end_of_transaction("INSERT INTO privacy_ledger_model")
        case "between_commit_and_its_model":
            ledger_book.Book.store_model = after(lambda *_: None, kill_me)
    ledger = LEDGERS[0] if LEDGERS else BudgetLedger(TASK["url"])
    loss = PrivacyLoss(epsilon=TASK["epsilon"], neighbours="replace_one")
    held = ledger.reserve(TASK["dataset"], TASK["key"], loss, detail={"run": "r"})
    if point == "after_reserve":
        kill_me()
    model = secrets.token_hex(16)  # no two measurements are equal
    say(f"measured {model}")
    if point == "after_measure":
        kill_me()
    if point == "meet_before_commit":
        rendezvous()
    kept = ledger.commit(TASK["dataset"], TASK["key"], model, token=held.token).model
    say(f"kept {kept}")
    if point == "after_commit":
        kill_me()


def spend_at_once() -> None:
    """One reservation a key, each in a thread with connections of its own, all at once; the outcomes."""
    ledger = BudgetLedger(TASK["url"])
    loss = PrivacyLoss(epsilon=TASK["epsilon"], neighbours="replace_one")

    def spend(key: str) -> str:
        try:
            return ledger.reserve(TASK["dataset"], key, loss).entry_hash
        except BudgetExceededError:
            return "refused"

    with ThreadPoolExecutor(len(TASK["keys"])) as pool:
        rendezvous()
        say(json.dumps(list(pool.map(spend, TASK["keys"]))))


def main() -> None:
    TASK.update(json.loads(Path(sys.argv[1]).read_text()))
    spend_at_once() if "keys" in TASK else spend_once()


if __name__ == "__main__":
    main()
