"""The cheapest partner of each class, round after round, while classes merge.

A round of agglomeration changes few classes, so its answers are nearly those of the round before. Each class
that needs a partner keeps a short list of its cheapest partners, and a limit: every class outside the list
costs at least this much. After a round, classes that changed or are gone leave the list, and the changed ones
are looked up, up to the limit: the first entry is still the cheapest of all. Only a class that is new, or
whose list is empty, searches among all classes. The answers are exact, and the same as without lists.

The classes are kept in search trees whose sizes at least double. A small tree is planted again with every
change and a large one seldom: the logarithmic method of Bentley and Saxe: Decomposable searching problems I
(1980). The cost of a merge therefore does not grow with the number of classes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.recoding.grouping.box_tree import BoxTree, cheapest, insert, plant, uproot
from privacy_engine.recoding.grouping.boxes import Boxes, Floats, Ints, Space

LISTED = 24  # partners in a class's list: with fewer it searches all classes more often

Flags = npt.NDArray[np.bool_]


class Known(NamedTuple):
    """What m classes know of their partners: a list each, and a limit below which the list is complete.

    near, price: (m, LISTED) int64 and float64, the cheapest partners, ties in ascending number.
    length: (m,) int64, entries of each list.
    limit, last: (m,) float64 and int64, price and number: no class outside of the list comes before them.
    """

    near: Ints
    price: Floats
    length: Ints
    limit: Floats
    last: Ints


Propose = Callable[[Space, Boxes, BoxTree, Ints, int, Known], None]


class PartnerSearch:
    """Finds partners of classes that merge from one round to the next.

    Args:
        space: Costs of the attributes.
        boxes: Classes, shape (m,); the caller merges them in place, so that the size of each changed one
            grows or becomes 0.
        criterion: Number of the `Criterion` that prices a union.
        propose: Looks up classes in a tree: `propose`, on all cores, or `propose_serially`.
    """

    def __init__(self, space: Space, boxes: Boxes, criterion: int, propose: Propose) -> None:
        self._space, self._boxes, self._criterion, self._propose = space, boxes, criterion, propose
        m = len(boxes.size)
        self._known = Known(
            np.full((m, LISTED), -1, np.int64),
            np.full((m, LISTED), np.inf),
            np.zeros(m, np.int64),
            np.full(m, np.inf),
            np.full(m, m, np.int64),
        )
        self._size = np.zeros(m)
        self._previous = np.zeros(0, np.int64)
        self._trees: list[BoxTree] = []
        self._members: list[Ints] = []

    def of(self, searching: Ints) -> tuple[Ints, Floats]:
        """Return the cheapest partner (a,) of each searching class (a,), and its price (a,).

        Args:
            searching: Numbers of classes, ascending, shape (a,) int64; at least one other class must remain.
        """
        changed = self._boxes.size != self._size
        fresh = np.flatnonzero(changed & (self._boxes.size > 0))
        unknown = np.setdiff1d(searching, self._previous, assume_unique=True)
        forget(self._known, changed, unknown, searching)
        lost = self._known.length[searching] == 0
        if len(fresh) and not lost.all():
            self._look_up(plant(self._space, self._boxes, fresh), searching[~lost])
        self._replant(changed, fresh)
        for tree in reversed(self._trees):  # small trees first: their results bound the others
            self._look_up(tree, searching[lost])
        self._size[:] = self._boxes.size
        self._previous = searching
        return self._known.near[searching, 0], self._known.price[searching, 0]

    def _look_up(self, tree: BoxTree, searching: Ints) -> None:
        if len(searching):
            self._propose(self._space, self._boxes, tree, searching, self._criterion, self._known)

    def _replant(self, changed: Flags, fresh: Ints) -> None:
        """Bring the trees up to date: changed classes leave their tree and are planted in the last one."""
        for tree in self._trees:
            uproot(tree, changed)
        self._members = [members[~changed[members]] for members in self._members]
        while self._members and len(self._members[-1]) <= 2 * len(fresh):
            self._trees.pop()
            fresh = np.concatenate((self._members.pop(), fresh))
        if len(fresh):
            self._trees.append(plant(self._space, self._boxes, fresh))
            self._members.append(fresh)


@kernel(nogil=True)
def forget(known: Known, changed: Flags, unknown: Ints, searching: Ints) -> None:
    """Remove changed and vanished classes from the lists of the searching ones; unknown ones start empty."""
    for i in unknown:
        known.length[i] = 0
    for i in searching:
        have = 0
        if not changed[i]:
            for s in range(known.length[i]):
                if not changed[known.near[i, s]]:
                    known.near[i, have], known.price[i, have] = known.near[i, s], known.price[i, s]
                    have += 1
        known.length[i] = have
        if have == 0:
            known.limit[i], known.last[i] = np.inf, len(known.length)


@kernel(parallel=True)
def propose(
    space: Space, boxes: Boxes, grown: BoxTree, searching: Ints, criterion: int, known: Known
) -> None:
    """Search unlisted partners under a tree for all searching classes, on all cores."""
    for t in nb.prange(len(searching)):
        _look_up(space, boxes, grown, searching[t], criterion, known)


@kernel(nogil=True)
def propose_serially(
    space: Space, boxes: Boxes, grown: BoxTree, searching: Ints, criterion: int, known: Known
) -> None:
    """The same on the calling thread, for callers that run several at once."""
    for t in range(len(searching)):
        _look_up(space, boxes, grown, searching[t], criterion, known)


@kernel(nogil=True, inner=True)
def _look_up(space: Space, boxes: Boxes, grown: BoxTree, i: int, criterion: int, known: Known) -> None:
    near, price, limit, last = known.near[i], known.price[i], known.limit[i], known.last[i]
    few, have = len(near), known.length[i]
    found, prices = np.empty(few, np.int64), np.empty(few)
    lo, hi, size, cost = boxes.lo[i], boxes.hi[i], boxes.size[i], boxes.cost[i]
    more = cheapest(space, boxes, grown, lo, hi, size, cost, i, criterion, limit, found, prices)
    for s in range(more):
        if prices[s] < limit or (prices[s] == limit and found[s] < last):
            have = insert(near, price, have, found[s], prices[s])
    known.length[i] = have
    if have == few:
        known.limit[i], known.last[i] = price[few - 1], near[few - 1]
