"""Which sensitive values remain possible for a person to someone who subtracts two releases.

The attacker knows who is in which class of both releases, and the multiset of values of each class. Call a
reassignment of values to persons an exchange if it leaves each multiset unchanged: then nothing in the two
releases shows which assignment is true. Take the classes as nodes, and each person with the value v or w as
an edge between their two classes: with v from the old to the new one, with w from the new to the old one.
Exchanging v and w along a directed cycle leaves all multisets unchanged, and an edge lies on such a cycle
exactly if its two ends are strongly connected. Arrivals are edges of one additional node, which has no
multiset to preserve.

So each value found is possible. The search is limited to two values at a time: if three or more values can
only be exchanged together, fewer values are found than are possible, never more. (Deciding it for all is the
question whether a three-way table with given two-way sums exists, which is NP-complete: Irving, R.,
Jerrum, M.: Three-Dimensional Statistical Data Security Problems. SIAM Journal on Computing, 1994.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.verification.republication.components import component_of

Ints = npt.NDArray[np.int64]


def values_left(old: Ints, new: Ints, codes: Ints, least: int) -> Ints:
    """Count the sensitive values that remain possible for each person.

    Args:
        old: Class in the old release, shape (p,) int64, -1 for arrivals.
        new: Class in the new release, shape (p,) int64, -1 for departures. Pass either arrivals or
            departures: their values are exchanged within the release that has them.
        codes: Value of each person, shape (p,) int64, >= 0.
        least: Required number. The search stops once the persons of both classes have this many.

    Returns:
        (p,) int64, exact below ``least``, and at least ``least`` elsewhere, up to the exchanges of three
        values.
    """
    size, width = int(codes.max(initial=0)) + 1, int(new.max(initial=-1)) + 2
    cell, cell_of = np.unique((old.astype(np.int64) + 1) * width + new + 1, return_inverse=True)
    triples = _distinct(cell_of * size + codes)
    cells, values = np.divmod(triples, size)
    left = np.bincount(cells, minlength=len(cell))
    few = left < least
    if few.any():
        tails, heads = np.divmod(cell, width)
        found = _exchanged(tails, heads + int(tails.max()) + 1, cells, values, few)
        left = left + found
    return left[cell_of]


def _exchanged(tails: Ints, heads: Ints, cells: Ints, values: Ints, few: npt.NDArray[np.bool_]) -> Ints:
    """(c,) the number of further values that the persons of each cell can get.

    Args:
        tails: Old class of each cell as a node, shape (c,), 0 = none.
        heads: New class of each cell as a node, shape (c,); the number after the last tail = none.
        cells: Cell of each entry, shape (e,), ascending; one entry for each value in a cell.
        values: Value of each entry, shape (e,).
        few: Whether to search each cell, shape (c,).
    """
    # Arrivals and departures share one node, whose multiset is unknown.
    ends = np.stack([tails, np.where(heads == tails.max() + 1, 0, heads)])
    component = _components_of(ends)
    near = np.isin(component, component[few])  # a cycle through the outside returns to the same component
    nodes, which = np.unique(ends[:, near], return_inverse=True)
    tails, heads = which.reshape(2, -1)
    kept = near[cells]
    cells, values = (np.cumsum(near) - 1)[cells[kept]], values[kept]
    order = np.argsort(values, kind="stable")
    starts = np.searchsorted(values[order], np.arange(int(values.max()) + 2))
    queries = _queries(tails, heads, cells, values, few[near])
    if not len(queries):
        return np.zeros(len(few), dtype=np.int64)
    size, (c, v, w) = int(values.max()) + 1, queries.T
    pairs, which = np.unique(np.minimum(v, w) * size + np.maximum(v, w), return_inverse=True)
    rows_of = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    can = np.zeros(len(queries), dtype=np.bool_)
    for pair, rows in zip(pairs.tolist(), rows_of, strict=True):
        forth, back = (cells[order[starts[x] : starts[x + 1]]] for x in divmod(pair, size))
        out, into = (
            np.concatenate(ends) for ends in ((tails[forth], heads[back]), (heads[forth], tails[back]))
        )
        strong = component_of(out, into, len(nodes), directed=True)
        can[rows] = strong[tails[c[rows]]] == strong[heads[c[rows]]]
    found = _distinct(c[can] * size + w[can])  # through any of the cell's values
    return np.bincount(np.flatnonzero(near)[found // size], minlength=len(few))


def _queries(tails: Ints, heads: Ints, cells: Ints, values: Ints, few: npt.NDArray[np.bool_]) -> Ints:
    """(m, 3) each cell to search, a value that it has, and a value of both its classes that it lacks."""
    size = int(values.max()) + 1
    at = _distinct(np.concatenate([ends[cells] * size + values for ends in (tails, heads)]))
    looked = np.flatnonzero(few)
    # The values of the old class, those that the new class has as well, and of these, those the cell lacks.
    row, entry = spread(at // size, tails[looked])
    c, w = looked[row], at[entry] % size
    kept = np.isin(heads[c] * size + w, at) & ~np.isin(c * size + w, cells * size + values)
    c, w = c[kept], w[kept]
    row, entry = spread(cells, c)
    return np.stack([c[row], values[entry], w[row]], axis=1)


def spread(keys: npt.NDArray[np.integer[Any]], queries: Ints) -> tuple[Ints, Ints]:
    """For each of the given keys, return its index and each position of it among ascending keys."""
    first, last = np.searchsorted(keys, queries), np.searchsorted(keys, queries, side="right")
    many = last - first
    row = np.repeat(np.arange(len(queries)), many)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(many) - many - first, many)


def _distinct(numbers: Ints) -> Ints:
    """Return the distinct numbers, ascending; sorting is several times as fast as a hash table."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]


def _components_of(ends: Ints) -> Ints:
    """(c,) the component of each cell, where the outside, node 0, connects none."""
    tails, heads = ends
    within = (tails > 0) & (heads > 0)
    found = component_of(tails[within], heads[within], int(ends.max()) + 1)
    of_cell: Ints = found[np.where(tails == 0, heads, tails)]
    return of_cell
