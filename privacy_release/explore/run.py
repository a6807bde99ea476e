"""Measure a grid of choices in parallel processes, with progress reports."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from privacy_engine.errors import CapacityError
from privacy_engine.progress import advance, portion
from privacy_release.explore.cells import MeasuredChoice, measured
from privacy_release.explore.choices import Choice
from privacy_release.workarea.references import RecordsRef

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.budget.budget import Budget
    from privacy_release.workarea.area import WorkArea

OnMeasured = Callable[[MeasuredChoice], None]


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explored(
    grid: Sequence[Choice],
    records: RecordsRef,
    on_measured: OnMeasured,
    *,
    processes: int | None = None,
    work: "WorkArea | None" = None,
    budget: "Budget | None" = None,
    policy: "ReleasePolicy | None" = None,
) -> list[MeasuredChoice]:
    """Measure all choices, and return them in the order of the grid.

    Choices that spend a budget are measured one after the other in this process, which holds the ledger.

    Args:
        grid: Choices to measure.
        records: Records that they are measured on.
        on_measured: Callback for each finished choice.
        processes: Number of parallel processes. None: one per core.
        work: Work area, see `measured`.
        budget: Budget, see `measured`.
        policy: Policy, see `measured`.

    Raises:
        CapacityError: If a process is killed, for example because memory runs out.
    """
    count = min(processes or cores(), len(grid))
    found: dict[str, MeasuredChoice] = {}
    alone = count < 2 or budget is not None

    def measured_here(choice: Choice) -> MeasuredChoice:
        with portion(1.0 / len(grid)):
            return measured(choice, records, work, budget, policy)

    done = map(measured_here, grid) if alone else _in_processes(grid, records, count)
    for one in done:
        found[one["name"]] = one
        advance(len(found) / len(grid))
        on_measured(one)
    return [found[choice.name] for choice in grid]


def _in_processes(grid: Sequence[Choice], records: RecordsRef, count: int) -> Iterator[MeasuredChoice]:
    # A forked process would copy locks of this one's threads.
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(max(1, cores() // count),),
    )
    try:
        left: set[Future[MeasuredChoice]] = {pool.submit(measured, choice, records) for choice in grid}
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BrokenProcessPool:
        raise CapacityError(
            "a process that measured choices was killed, probably because memory ran out; use fewer records "
            "with --sample, or fewer processes with --jobs"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child.name.startswith("SpawnProcess"):
                child.terminate()


def _begin(threads: int) -> None:
    """Set up a process, before a library that counts cores is imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends its processes
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
