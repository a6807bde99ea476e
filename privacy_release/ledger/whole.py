"""Read everything that is stored about a data set in batches, to check it or to compute running totals."""

from collections.abc import Callable, Iterator
from itertools import islice

from sqlalchemy import select

from privacy_engine.dp.chain import Head, edited, model_hash
from privacy_engine.dp.ledger import Entry, Event
from privacy_engine.dp.totals import Totals
from privacy_engine.errors import IntegrityError
from privacy_release.ledger.rows import Rows, run_hash
from privacy_release.ledger.tables import MODELS, RESERVATIONS, TOTALS

_BATCH = 1000
_MODELS = 10  # number of models that are read together; they may have megabytes


def carry_over(rows: Rows, head: Head, *, zcdp: bool) -> None:
    """Recompute the running totals of all entries, and check their whole chain on the way.

    Args:
        rows: Rows of the data set as stored.
        head: Head of the chain.
        zcdp: Whether rho's are added up.

    Raises:
        IntegrityError: If the entries are not those that were written. Nothing is computed then.
    """
    for table in (TOTALS, RESERVATIONS):
        rows.connection.execute(table.delete().where(table.c.dataset == rows.dataset))
    for batch in _batches(_with_totals(rows.chain(head), zcdp)):
        rows.write_derived(batch)


def check_whole(rows: Rows, head: Head, on_progress: Callable[[int, int], None]) -> tuple[Entry, ...]:
    """Check every entry, every running total and every stored model against its hash. Return the entries.

    Args:
        rows: Rows of the data set as stored.
        head: Head of the chain.
        on_progress: Progress callback, called with the number of checked entries and of all.

    Raises:
        IntegrityError: If something was edited, added, removed or moved.
    """
    entries: list[Entry] = []
    closed: dict[tuple[str, int], bool] = {}
    for batch in _batches(_with_totals(rows.chain(head), rows.were_ever_zcdp())):
        stored = rows.totals_texts([entry for entry, _ in batch])
        _check_models(rows, [entry for entry, _ in batch if entry.event is Event.COMMIT])
        for entry, totals in batch:
            if stored[entry.number] != totals.to_text():
                raise edited(rows.dataset, f"the running totals of entry {entry.number} are not its sums")
            if entry.event is not Event.GRANT:
                closed[entry.key, entry.attempt] = entry.event is not Event.RESERVE
            entries.append(entry)
        on_progress(len(entries), head.entries)
    _check_derived(rows, entries, closed)
    return tuple(entries)


def model_of(rows: Rows, commit: Entry) -> str:
    """Return the stored model of a commit.

    Raises:
        IntegrityError: If it was edited or removed.
    """
    query = select(MODELS.c.model).where(MODELS.c.dataset == commit.dataset, MODELS.c.number == commit.number)
    model: str | None = rows.connection.execute(query).scalar()
    if model is None or model_hash(model) != commit.detail["model_sha256"]:
        raise _no_model(commit)
    return model


def _check_models(rows: Rows, commits: list[Entry]) -> None:
    """Check the stored models of consecutive commits against their hashes, a few at a time."""
    if not commits:
        return
    numbers = MODELS.c.number.between(commits[0].number, commits[-1].number)
    query = select(MODELS.c.number, MODELS.c.model).where(MODELS.c.dataset == rows.dataset, numbers)
    stored = rows.connection.execute(query.execution_options(yield_per=_MODELS))
    hashes = {row.number: model_hash(row.model) for row in stored}
    for commit in commits:
        if hashes.get(commit.number) != commit.detail["model_sha256"]:
            raise _no_model(commit)


def _no_model(commit: Entry) -> IntegrityError:
    return IntegrityError(
        f"the ledger of data set {commit.dataset} was changed by other hands: the model of entry "
        f"{commit.number} was edited or removed; restore it from a backup"
    )


def _with_totals(entries: Iterator[Entry], zcdp: bool) -> Iterator[tuple[Entry, Totals]]:
    totals = Totals(zcdp=zcdp)
    for entry in entries:
        totals = totals.after(entry)
        yield entry, totals


def _batches(pairs: Iterator[tuple[Entry, Totals]]) -> Iterator[list[tuple[Entry, Totals]]]:
    while batch := list(islice(pairs, _BATCH)):
        yield batch


def _check_derived(rows: Rows, entries: list[Entry], closed: dict[tuple[str, int], bool]) -> None:
    """Check the numbers of models, totals and reservations against their entries."""
    commits = {entry.number for entry in entries if entry.event is Event.COMMIT}
    models = rows.numbers(MODELS)
    if models != commits:
        raise IntegrityError(
            f"the ledger of data set {rows.dataset} must hold {len(commits)} models, got {len(models)}: some "
            "were added by other hands; restore it from a backup"
        )
    if rows.numbers(TOTALS) != {entry.number for entry in entries}:
        raise edited(rows.dataset, "it has running totals of entries that do not exist")
    reserved = [entry for entry in entries if entry.event is Event.RESERVE]
    open_ = {entry.number for entry in reserved if not closed[entry.key, entry.attempt]}
    listed = {e.number: (run_hash(e.detail.get("run", "")), e.number in open_) for e in reserved}
    if rows.reservations() != listed:
        raise edited(rows.dataset, "its list of open reservations does not match its entries")
