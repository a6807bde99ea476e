"""`privacy-release budget`: grant privacy budgets, show what is spent, and check the ledger."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.vocabulary import counted
from privacy_release.cli.arguments import WrongArgumentError, lake_at, usage

if TYPE_CHECKING:
    from privacy_engine.dp.ledger import Entry, Standing
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.spec.model import ReleaseSpec

_EVERY = 10_000  # number of entries between two progress messages
_SHORT = 12  # hexadecimal digits of a shown hash
_NOTHING = "no data set has a budget yet"
_EPILOG = """\
The ledger is a SQLite file, or a PostgreSQL database: postgresql://USER@HOST/NAME. Other users of the machine
can see the arguments of a command, so do not use a password in --ledger: put the address into
$PRIVACY_LEDGER, or the password into $PGPASSWORD or a password file. $PRIVACY_LEDGER_KEY is the signing key.
Without a key, anyone who can write to the database can rewrite its history unnoticed, or cut off its end.
$PRIVACY_LEDGER_KEY_FILE and $PRIVACY_LEDGER_PASSWORD_FILE name files with the key and the password instead.
"""


def add_budget_commands(kinds: Any) -> None:
    """Add the commands to the sub-parsers of `budget`."""
    show = _command(
        kinds, "show", "show each limit, what is spent, rounded up, and what is left, rounded down", _show
    )
    show.add_argument("dataset", nargs="?", metavar="DATASET", help="default: all data sets")

    grant = _command(kinds, "grant", "set a limit; it replaces that of the same period", _grant)
    grant.add_argument("dataset", metavar="DATASET", help="name of the data set; its first grant creates it")
    grant.add_argument(
        "--epsilon", type=float, required=True, metavar="E", help="largest epsilon; 0 closes the data set"
    )
    grant.add_argument("--delta", type=float, default=0.0, metavar="D", help="default 0")
    grant.add_argument(
        "--accounting",
        default="sum",
        metavar="RULE",
        help="sum (default): add epsilons; or zcdp: add rho's, and convert their sum at --delta, so "
        "that many small releases cost less",
    )
    grant.add_argument(
        "--period",
        default="total",
        metavar="PERIOD",
        help="total (default), release (each one), or a rolling window of days such as 365d",
    )
    grant.add_argument(
        "--neighbours",
        default="replace_one",
        metavar="RELATION",
        help="replace_one (default), replace_person (all rows of one person) or add_remove; the same for all "
        "limits of a data set",
    )
    grant.add_argument(
        "--reason", required=True, metavar="TEXT", help="reason; stored forever, so it must not name a person"
    )

    history = _command(kinds, "history", "list all entries of a data set, oldest first", _history)
    history.add_argument("dataset", metavar="DATASET", help="whose entries")
    history.add_argument("--last", type=int, metavar="N", help="number of newest entries; default: all")

    check = _command(kinds, "check", "verify the hashes of the entries; exit 1 if they were changed", _check)
    check.add_argument("dataset", nargs="?", metavar="DATASET", help="default: all data sets")
    check.add_argument(
        "--recorded",
        action="append",
        default=[],
        metavar="HASH",
        help="an entry that must exist, such as the entry_hash in a release's manifest; may be repeated",
    )
    check.add_argument(
        "--lake",
        metavar="LAKE",
        help="also require the entries that paid for the current releases of all tables of this lake",
    )
    _command(kinds, "migrate", "create the ledger's tables, or update them to this version", _migrate)


def _command(kinds: Any, name: str, text: str, function: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = kinds.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--ledger",
        metavar="URL|FILE",
        help="database of the ledger; default $PRIVACY_LEDGER, else ledger.db in $AIRFLOW_HOME",
    )
    parser.set_defaults(command=function)
    return parser


def _show(arguments: argparse.Namespace) -> int:
    ledger = _ledger(arguments)
    names = _named(ledger, arguments.dataset)
    if not names:
        print(_NOTHING)
        return 0
    rows = [_standing_row(name, standing) for name in names for standing in ledger.standing(name)]
    heads = ("data set", "period", "budget", "spent", "reserved", "left", "neighbours", "accounting")
    shown = -1 if all(row[-1] == "sum" for row in rows) else len(heads)
    print("\n".join(_table(heads[:shown], [row[:shown] for row in rows])))
    return 0


def _grant(arguments: argparse.Namespace) -> int:
    from privacy_engine.dp.limits import Limit, Period
    from privacy_release.steps.promised import promises_of, unsuited

    ledger = _ledger(arguments)
    with usage("budget grant"):
        limit = Limit(
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            neighbours=arguments.neighbours,
            period=Period.parse(arguments.period),
            accounting=arguments.accounting,
        )
        entry = ledger.grant(arguments.dataset, limit, reason=arguments.reason)
    print(f"granted as entry {entry.number} of {arguments.dataset}, {entry.hash[:_SHORT]}")
    for warning in unsuited(limit, promises_of(ledger, arguments.dataset, _specifications())):
        print(f"warning: {warning}", file=sys.stderr)
    return _show(arguments)


def _specifications() -> "list[ReleaseSpec]":
    """Return the release specifications of the settings. Empty if they cannot be read."""
    from privacy_engine.errors import SpecError
    from privacy_release.spec.catalogue import readable_specs

    try:
        return readable_specs()
    except SpecError:
        return []


def _history(arguments: argparse.Namespace) -> int:
    ledger = _ledger(arguments)
    (name,) = _named(ledger, arguments.dataset)
    if arguments.last is not None and arguments.last < 1:
        raise WrongArgumentError(f"--last must be >= 1, got {arguments.last}; correct it")
    rows = [_entry_row(entry) for entry in ledger.history(name, last=arguments.last)]
    heads = ("entry", "time, UTC", "event", "epsilon", "delta", "booking", "hash", "what")
    print("\n".join(_table(heads, rows)))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    ledger = _ledger(arguments)
    if arguments.recorded and arguments.dataset is None:
        raise WrongArgumentError("--recorded needs the DATASET whose entry it is; add it")
    paid = _recorded_in(arguments.lake) if arguments.lake else {}
    names = [arguments.dataset] if arguments.dataset else sorted({*_named(ledger, None), *paid})
    if not names:
        print(_NOTHING)
        return 0
    for name in names:
        recorded = {*arguments.recorded, *paid.get(name, ())}
        entries = ledger.check(name, recorded=recorded, on_progress=_progress(name))
        print(
            f"whole     {name}: {counted(len(entries), 'entry', 'entries')} up to {entries[-1].hash[:_SHORT]}"
        )
    print(
        "the entries are signed with the given key"
        if ledger.signing_key
        else "the entries are not signed: anyone who can write the database could have replaced them"
    )
    return 0


def _recorded_in(root: str) -> dict[str, set[str]]:
    """Return the entries that paid for the current releases of all tables of a lake, by data set."""
    from privacy_release.budget.recorded import recorded_entries
    from privacy_release.lake.store import table_names

    lake, found = lake_at(root), dict[str, set[str]]()
    for table in table_names(lake):
        for name, entries in recorded_entries(lake.table(table)).items():
            found[name] = found.get(name, set()) | entries
    return found


def _progress(name: str) -> Callable[[int, int], None]:
    """Return a callback that reports the progress of a long check."""

    def show(checked: int, entries: int) -> None:
        if checked % _EVERY == 0:  # it is called per batch, whose size divides this
            print(f"{name}: {checked} of {entries} entries checked", file=sys.stderr)

    return show


def _migrate(arguments: argparse.Namespace) -> int:
    ledger = _ledger(arguments)
    ledger.migrate()
    print(f"the ledger {ledger.place} has the tables of this version")
    return 0


def _ledger(arguments: argparse.Namespace) -> "BudgetLedger":
    from privacy_release.config.settings import PROJECT_FILE, airflow_home, setting
    from privacy_release.ledger.default import PLACE, default_ledger, ledger_at

    if arguments.ledger:
        named = arguments.ledger
        return ledger_at(named if "://" in named else str(Path(named).expanduser().absolute()))
    if not (setting("ledger") or airflow_home()):
        raise WrongArgumentError(
            f"the ledger must be named: give --ledger URL|FILE, set {PLACE}, or write it into a "
            f"{PROJECT_FILE}"
        )
    return default_ledger()


def _named(ledger: "BudgetLedger", name: str | None) -> Sequence[str]:
    known = ledger.datasets()
    if name is not None and name not in known:
        raise WrongArgumentError(
            f"the ledger {ledger.place} must have the data set {name}, found {', '.join(known) or 'none'}; "
            "correct DATASET, or grant it a budget"
        )
    return known if name is None else (name,)


def _standing_row(name: str, standing: "Standing") -> tuple[str, ...]:
    """Return a row for a limit. One accounted as zcdp shows epsilon at its delta, which is never used up.

    What is spent is rounded up, and what is left is rounded down.
    """
    from privacy_engine.dp.limits import decimal_text, rounded_text

    limit = standing.limit
    each = limit.period.name == "release"
    spent, reserved, spent_delta = (
        rounded_text(loss, up=True) for loss in (standing.spent, standing.reserved, standing.spent_delta)
    )
    return (
        name,
        limit.period.name,
        _loss(decimal_text(limit.epsilon), decimal_text(limit.delta)),
        "-" if each else _loss(spent, spent_delta),
        "-" if each else reserved,
        _loss(rounded_text(standing.left, up=False), rounded_text(standing.left_delta, up=False)),
        limit.neighbours.value,
        _accounting(standing),
    )


def _accounting(standing: "Standing") -> str:
    """Return how losses add up; for zcdp with the rho, rounded like the losses."""
    from privacy_engine.dp.limits import rounded_text

    if not standing.limit.is_zcdp:
        return "sum"
    spent, left = rounded_text(standing.rho, up=True), rounded_text(standing.left_rho, up=False)
    return f"zcdp: rho {spent} spent, {left} left of {rounded_text(standing.limit.rho, up=False)}"


def _loss(epsilon: str, delta: str) -> str:
    return f"{epsilon}, delta {delta}" if delta != "0" else epsilon


def _entry_row(entry: "Entry") -> tuple[str, ...]:
    from privacy_engine.dp.ledger import Event

    detail = " ".join(f"{key}={value}" for key, value in sorted(entry.detail.items()))
    return (
        str(entry.number),
        f"{entry.at:%Y-%m-%d %H:%M:%S}",
        entry.event.value,
        entry.epsilon,
        entry.delta,
        "-" if entry.event is Event.GRANT else entry.key[:_SHORT],
        entry.hash[:_SHORT],
        detail,
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format columns as wide as needed."""
    lines = [heads, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
