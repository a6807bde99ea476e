"""Which sensitive values remain possible for a person, to anyone who has two releases and subtracts.

They know who is in which class of both releases, and the multiset of values of each class. Call an exchange
a change of who has which value that leaves each multiset as it is: then nothing in the two releases tells
which is true. Take the classes as nodes, and each person with the value v or w as an edge between their two
classes: with v from the old to the new one, with w from the new to the old one. To exchange v and w along a
directed cycle leaves all multisets as they are, and an edge lies on such a cycle exactly where its two ends
are strongly connected. Arrivals are edges of one more node, which has no multiset to keep.

So each value found is possible. The search is of two values at a time: where three or more values can only
be exchanged together, fewer values are found than are possible, never more. (To decide it for all is the
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
    """How many sensitive values remain possible for each person.

    Args:
        old: (p,) int64, class in the old release, -1 of arrivals.
        new: (p,) int64, class in the new release, -1 of departures. Give the one or the other: their values
            are exchanged within the release that has them.
        codes: (p,) int64, value of each, >= 0.
        least: Number that is asked for. Where the persons of both classes have as many, no more are looked
            for.

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
    """(c,) values beyond its own that the persons of each cell can get.

    Args:
        tails: (c,) old class of each cell as a node, 0 = none.
        heads: (c,) the same of the new class; the number after the last tail = none.
        cells: (e,) one entry for each value that occurs in a cell, ascending.
        values: (e,) the value.
        few: (c,) cells to look at.
    """
    # Arrivals and departures have one node together, of which no multiset is known.
    ends = np.stack([tails, np.where(heads == tails.max() + 1, 0, heads)])
    component = _components_of(ends)
    near = np.isin(component, component[few])  # a cycle through the outside returns to the same component
    nodes, which = np.unique(ends[:, near], return_inverse=True)
    tails, heads = which.reshape(2, -1)
    kept = near[cells]
    cells, values = (np.cumsum(near) - 1)[cells[kept]], values[kept]
    order = np.argsort(values, kind="stable")
    starts = np.searchsorted(values[order], np.arange(int(values.max()) + 2))
    wanted = _wanted(tails, heads, cells, values, few[near])
    if not len(wanted):
        return np.zeros(len(few), dtype=np.int64)
    size, (c, v, w) = int(values.max()) + 1, wanted.T
    pairs, which = np.unique(np.minimum(v, w) * size + np.maximum(v, w), return_inverse=True)
    rows_of = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    can = np.zeros(len(wanted), dtype=np.bool_)
    for pair, rows in zip(pairs.tolist(), rows_of, strict=True):
        forth, back = (cells[order[starts[x] : starts[x + 1]]] for x in divmod(pair, size))
        out, into = (
            np.concatenate(ends) for ends in ((tails[forth], heads[back]), (heads[forth], tails[back]))
        )
        strong = component_of(out, into, len(nodes), directed=True)
        can[rows] = strong[tails[c[rows]]] == strong[heads[c[rows]]]
    found = _distinct(c[can] * size + w[can])  # by whichever of the cell's values
    return np.bincount(np.flatnonzero(near)[found // size], minlength=len(few))


def _wanted(tails: Ints, heads: Ints, cells: Ints, values: Ints, few: npt.NDArray[np.bool_]) -> Ints:
    """(m, 3) each cell to look at, a value that it has, and one of both its classes that it has not."""
    size = int(values.max()) + 1
    at = _distinct(np.concatenate([ends[cells] * size + values for ends in (tails, heads)]))
    looked = np.flatnonzero(few)
    # The values of the old class, those of them that the new one has, and of these what the cell has not.
    row, entry = spread(at // size, tails[looked])
    c, w = looked[row], at[entry] % size
    kept = np.isin(heads[c] * size + w, at) & ~np.isin(c * size + w, cells * size + values)
    c, w = c[kept], w[kept]
    row, entry = spread(cells, c)
    return np.stack([c[row], values[entry], w[row]], axis=1)


def spread(keys: npt.NDArray[np.integer[Any]], wanted: Ints) -> tuple[Ints, Ints]:
    """For each of the wanted keys, its place, and each place of it among keys that ascend."""
    first, last = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
    many = last - first
    row = np.repeat(np.arange(len(wanted)), many)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(many) - many - first, many)


def _distinct(numbers: Ints) -> Ints:
    """The distinct numbers, ascending; by sorting, which is several times as quick as a hash table."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]


def _components_of(ends: Ints) -> Ints:
    """(c,) the component of each cell, where the outside, node 0, connects none."""
    tails, heads = ends
    within = (tails > 0) & (heads > 0)
    found = component_of(tails[within], heads[within], int(ends.max()) + 1)
    of_cell: Ints = found[np.where(tails == 0, heads, tails)]
    return of_cell
