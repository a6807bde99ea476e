"""Top-down cuts of a table's quasi-identifiers: strict Mondrian, and blocks for other methods.

LeFevre, DeWitt, Ramakrishnan (2006), "Mondrian Multidimensional K-Anonymity", the algorithm of section 4:
cut the records, continue with each part, stop when no cut is allowed. A cut is allowed if every part has
enough records and meets the constraints, so l-diversity and similar models are conditions of the search, not
repairs after it. Partitions are strict: records with equal values are never separated. So the order of the
records does not matter, and nothing is random. If a person may have several records, every part has enough
distinct persons; other requirements on a class count records.

Deviations: hierarchies are cut below the lowest common ancestor of the records (section 5.1 asks for every
child to be a part, and has no answer if one is too small); `CutRule` selects the cut.
"""

from enum import StrEnum

import numba as nb
import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.pipeline import each_ahead
from privacy_engine.progress import advance
from privacy_engine.recoding.grouping.boxes import Codes, Ints, tabulate
from privacy_engine.recoding.grouping.constraints import Constraints
from privacy_engine.recoding.grouping.cuts import NO_PERSONS, Task, cheapest_cut, cover, widest_cut
from privacy_engine.recoding.grouping.model_rules import require_feasible
from privacy_engine.tables.geometry import Geometry

AT_ONCE = 2_000_000  # records processed between two progress reports
RUNS = 4  # least parts per thread; the first cuts are made by a single thread
FEW = 50_000  # records that one thread cuts
Run = tuple[int, int]  # of `order`: its first record, and the one behind its last


class CutRule(StrEnum):
    """Which of the allowed cuts Mondrian takes."""

    WIDEST = "widest"  # the paper's: the attribute of widest span, at its median
    LEAST_LOSS = "least_loss"  # the cut after which the records lose least; a fifth less loss on Adult


def mondrian(
    codes: Codes,
    geometry: Geometry,
    k: int,
    sensitive: Codes,
    constraints: Constraints,
    rule: CutRule = CutRule.LEAST_LOSS,
    persons: Ints | None = None,
) -> Ints:
    """Partition records into classes of at least k that meet the constraints, by strict top-down cuts.

    Args:
        codes: Quasi-identifier codes, shape (n, q) int32.
        geometry: Costs of the q attributes; one that costs nothing is not cut.
        k: Least class size, >= 1.
        sensitive: Codes of the sensitive attributes, shape (s, n) int32.
        constraints: Further requirements on every class.
        rule: Rule that selects the cut.
        persons: Person of each record, shape (n,), of whom a class has at least k; None: each counts as a
            person.

    Returns:
        labels: (n,) int64, 0 .. classes - 1.

    Raises:
        InfeasibleError: If the whole table cannot be one class.
    """
    require_feasible(len(codes), k, sensitive, constraints)
    task = Task(codes, sensitive, tabulate(geometry), constraints, k, NO_PERSONS)
    return _labels(task, persons, enough=1, by_loss=rule is CutRule.LEAST_LOSS)


def blocks(
    codes: Codes,
    geometry: Geometry,
    size: int,
    k: int,
    sensitive: Codes,
    constraints: Constraints,
    persons: Ints | None = None,
) -> Ints:
    """Cut a table into blocks in which another method can work by itself.

    A block has at most `size` records, unless every cut of it would leave a part of fewer than 2k persons or
    one that does not meet the constraints; then it stays larger. The cuts are those of least loss: on Adult,
    agglomeration in blocks of 4,000 then loses 2% more than on the whole table, and 20% more after median
    cuts.

    Args:
        codes: Quasi-identifier codes, shape (n, q) int32.
        geometry: Costs of the q attributes.
        size: Most records of a block, a few thousand; >= 2k.
        k: Least class size of the method that follows.
        sensitive: Codes of the sensitive attributes, shape (s, n) int32.
        constraints: Requirements on every block.
        persons: Person of each record, shape (n,); None: each record counts as a person.

    Returns:
        labels: (n,) int64, 0 .. blocks - 1.

    Raises:
        InfeasibleError: If the whole table cannot be one class.
        ValueError: If `size` is less than 2k.
    """
    if size < 2 * k:
        raise ValueError(f"the block size must be >= 2k = {2 * k}, got {size}")
    require_feasible(len(codes), k, sensitive, constraints)
    task = Task(codes, sensitive, tabulate(geometry), constraints, 2 * k, NO_PERSONS)
    return _labels(task, persons, enough=size, by_loss=True)


def _labels(task: Task, persons: Ints | None, *, enough: int, by_loss: bool) -> Ints:
    if persons is not None:
        by_person = np.argsort(persons, kind="stable")
        labels = np.empty(len(persons), np.int64)
        labels[by_person] = _labels(_taken(task, persons, by_person), None, enough=enough, by_loss=by_loss)
        return labels
    order = np.arange(len(task.codes))
    opens = np.zeros(len(task.codes), np.int64)
    threads = nb.get_num_threads()

    def cut(run: Run) -> int:
        """Cut a run until no part of it can be cut; how many records it has."""
        open_runs = _open(run, task.least)
        waiting = 1
        while waiting:
            waiting = _cut_some(task, enough, by_loss, order, opens, open_runs, waiting, AT_ONCE)
            left = int(np.diff(open_runs[:waiting]).sum())  # records of the run that have no class yet
            advance((run[1] - left) / max(len(order), 1))  # without effect in a thread of a pool
        return run[1] - run[0]

    runs = _shared_out(task, enough, by_loss, order, opens, threads)
    done = len(order) - sum(last - first for first, last in runs)
    with each_ahead(cut, runs, threads) as finished:
        for records in finished:
            done += records
            advance(done / max(len(order), 1))
    labels = np.empty(len(order), np.int64)
    labels[order] = np.cumsum(opens) - 1
    return labels


def _shared_out(task: Task, enough: int, by_loss: bool, order: Ints, opens: Ints, threads: int) -> list[Run]:
    """Cut the largest parts until each is small enough for threads to be busy for equal times.

    The cuts of a part do not depend on the other parts, nor on when it is cut.
    """
    runs = [(0, len(order))]
    least = len(order) // (RUNS * threads) if threads > 1 and len(order) > FEW else len(order)
    waiting = [run for run in runs if run[1] - run[0] > least]
    while waiting:
        run = waiting.pop()
        runs.remove(run)
        open_runs = _open(run, task.least)
        parts = _cut_some(task, enough, by_loss, order, opens, open_runs, 1, 1)
        made = [(int(first), int(last)) for first, last in open_runs[:parts]]
        runs += made
        waiting += [part for part in made if part[1] - part[0] > least]
    return sorted(runs, key=lambda run: run[0] - run[1])


def _open(run: Run, least: int) -> Ints:
    """Room for all runs of at least `least` records within one, which is the first."""
    open_runs = np.empty(((run[1] - run[0]) // least + 2, 2), np.int64)
    open_runs[0] = run
    return open_runs


def _taken(task: Task, persons: Ints, rows: Ints) -> Task:
    """The task of these records of a table, in one memory layout."""
    return task._replace(
        codes=np.ascontiguousarray(task.codes[rows]),
        sensitive=np.ascontiguousarray(task.sensitive[:, rows]),
        persons=persons[rows],
    )


@kernel(nogil=True)
def _cut_some(
    task: Task,
    enough: int,
    by_loss: bool,
    order: Ints,
    opens: Ints,
    open_runs: Ints,
    waiting: int,
    at_once: int,
) -> int:
    """Rearrange `order` (n,) so that classes are runs; `opens` (n,) marks with 1 where a run begins.

    Parts of more than `enough` records are cut while a cut is allowed. The first `waiting` of `open_runs` are
    still to be cut; the call returns when `at_once` records were processed.
    """
    part, spare = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    seen = 0
    while waiting > 0 and seen < at_once:
        waiting -= 1
        first, last = open_runs[waiting]
        seen += last - first
        parts = 0
        if last - first > max(enough, 2 * task.least - 1):
            parts = _cut(task, order[first:last], by_loss, part[first:last])
        if parts < 2:
            opens[first] = 1
            continue
        begin = first
        for end in arrange(order[first:last], part[first:last], parts, spare):
            open_runs[waiting] = begin, first + end
            begin = first + end
            waiting += 1
    return waiting


@kernel()
def _cut(task: Task, rows: Ints, by_loss: bool, part: Ints) -> int:
    """The part of each record and the number of parts, 0 if no cut is allowed."""
    q = task.codes.shape[1]
    size, lo, hi = np.zeros(1, np.int64), np.empty((1, q), np.int32), np.empty((1, q), np.int32)
    part[:] = 0
    cover(task.codes, rows, part, task.space.tree, task.space.start, task.space.parent, size, lo, hi)
    if by_loss:
        parts = cheapest_cut(task, rows, lo[0], hi[0], part)
        if parts > 1:
            return parts
    return widest_cut(task, rows, lo[0], hi[0], part)


@kernel(inner=True)
def arrange(rows: Ints, part: Ints, parts: int, spare: Ints) -> Ints:
    """Rearrange rows (m,) in place so that parts are runs, each in the order of before; their ends."""
    ends = np.zeros(parts + 1, np.int64)
    for p in part:
        ends[p + 1] += 1
    ends = np.cumsum(ends)  # where each run begins, and after the loop, where it ends
    for i in range(len(rows)):
        spare[ends[part[i]]] = rows[i]
        ends[part[i]] += 1
    rows[:] = spare[: len(rows)]
    return ends[:parts]
