"""Named steps of the product, and what can happen at one: the work ends there, or another gets ahead.

The steps are real. A test of the quick tier raises `Crash` at a step, or does there what another process
would do; a separate process (`tests.children.processes`) is killed there, or waits for the test.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from privacy_engine.errors import PublishError
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_release.lake import commits, log, publish, rows
from privacy_release.ledger import database
from privacy_release.ledger.book import Book
from privacy_release.ledger.ledger import BudgetLedger

Act = Callable[[], Any]
Step = Callable[..., Any]


class Crash(BaseException):
    """The end of the work at a step; no handler of errors takes it for another error."""


def after(step: Step, act: Act, *, on_call: int = 1) -> Step:
    """The step, then the act, on its n-th call."""
    calls = 0

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        result = step(*args, **kwargs)
        calls += 1
        if calls == on_call:
            act()
        return result

    return watched


def before(step: Step, act: Act) -> Step:
    """The act, then the step, on its first call."""
    pending = [act]

    def watched(*args: Any, **kwargs: Any) -> Any:
        if pending:
            pending.pop()()
        return step(*args, **kwargs)

    return watched


def with_data_on_disk(write: Step, act: Act) -> Step:
    """The Delta writer, fed with rows until a data file is on disk; the act comes before its commit."""

    def watched(table: deltalake.DeltaTable, given: pa.Table | pa.RecordBatchReader, **options: Any) -> None:
        folder = Path(table.table_uri.removeprefix("file://"))
        there_before = set(folder.rglob("*.parquet"))
        held = given if isinstance(given, pa.Table) else given.read_all()
        # Before some 16,000 rows, the writer writes nothing.
        many = pa.concat_tables([held] * (1 + 5_000 // len(held))).combine_chunks().to_batches()

        def batches() -> Iterator[pa.RecordBatch]:
            for _ in range(10_000):
                yield from many
                if set(folder.rglob("*.parquet")) - there_before:
                    act()

        stream = pa.RecordBatchReader.from_batches(given.schema, batches())
        write(table, stream, target_file_size=1, **options)

    return watched


def in_the_middle(read: Step, act: Act) -> Step:
    """Half of the batches of a file that is streamed, the act, and the other half."""

    def watched(*args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        batches = list(read(*args, **kwargs))
        yield from batches[: len(batches) // 2]
        act()
        yield from batches[len(batches) // 2 :]

    return watched


def in_a_file(copy: Step, act: Act) -> Step:
    """Half of the first file that is copied, the act, and the other half."""
    pending = [act]

    def watched(where: Any, path: str, parts: Iterator[bytes]) -> None:
        def pieces(act: Act) -> Iterator[bytes]:
            piece = next(parts)
            yield piece[: len(piece) // 2]
            act()
            yield piece[len(piece) // 2 :]
            yield from parts

        copy(where, path, pieces(pending.pop()) if pending else parts)

    return watched


def at_end_of_transaction(writing: Step, act: Act, *, on_call: int = 1) -> Step:
    """All of the n-th transaction but its COMMIT, then the act."""
    calls = 0

    @contextmanager
    def watched(engine: Any) -> Iterator[Any]:
        nonlocal calls
        calls += 1
        mine = calls == on_call
        with writing(engine) as connection:
            yield connection
            if mine:
                act()

    return watched


POINTS: dict[str, tuple[Any, str, Callable[[Step, Act], Step]]] = {
    # Publishing
    "no_table": (log, "refuse_lost_log", before),
    "before_create": (publish, "_create", before),
    "before_proofs": (publish, "put", before),
    "in_manifest": (Path, "replace", before),
    "between_proofs": (publish, "put", after),
    "after_proofs": (publish, "put", partial(after, on_call=2)),
    "in_stream": (rows, "unchanged_batches", in_the_middle),
    "data_on_disk": (publish, "write_deltalake", with_data_on_disk),
    "in_file": (rows, "put_new", in_a_file),
    "between_files": (rows, "put_new", after),
    "after_files": (rows.VerifiedRows, "copied", after),
    "before_index": (publish, "next_mark", before),
    "before_block": (commits, "put", before),
    "after_index": (publish, "next_mark", after),
    "before_commit": (publish, "_commit", before),
    "after_commit": (publish, "_commit", after),
    # Retracting
    "before_delete": (deltalake.DeltaTable, "delete", before),
    "after_delete": (deltalake.DeltaTable, "delete", after),
    # Spending
    "before_reserve": (BudgetLedger, "reserve", before),
    "after_reserve": (BudgetLedger, "reserve", after),
    "end_of_reserve": (database, "writing", at_end_of_transaction),
    "before_spend": (BudgetLedger, "commit", before),
    "before_model": (Book, "store_model", before),
    "end_of_spend": (database, "writing", partial(at_end_of_transaction, on_call=2)),
    "after_spend": (BudgetLedger, "commit", after),
    "before_measure": (Synthesizer, "measure_participants", before),
    "after_measure": (Synthesizer, "measure_coded", after),
}


def arm(point: str, act: Act, patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let an act happen at a step, once; a test gives `monkeypatch.setattr`."""
    owner, name, watch = POINTS[point]
    patch(owner, name, watch(getattr(owner, name), act))


def crashed(monkeypatch: pytest.MonkeyPatch, point: str, work: Step, *arguments: Any, **more: Any) -> None:
    """Do a work that ends at a step, in this process: its transactions are undone, and its files stay."""
    ended: list[str] = []

    with monkeypatch.context() as patch:

        def end() -> None:
            ended.append(point)
            for owner, clean_up in ((Path, "unlink"), (rows, "remove")):
                patch.setattr(owner, clean_up, lambda *given, **options: None)
            raise Crash

        arm(point, end, patch.setattr)
        # The Delta writer reports what its source raised as another error.
        with pytest.raises((Crash, PublishError)):
            work(*arguments, **more)
    assert ended == [point]
