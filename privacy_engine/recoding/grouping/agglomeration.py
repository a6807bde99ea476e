"""Bottom-up local recoding: agglomeration of records into classes of at least k.

Xu, Wang, Pei, Wang, Shi, Fu: Utility-based anonymization using local recoding (2006), the
bottom-up method; Zhu, Zhao, Wang (2010), section 4, the clustering step. Identical tuples form
classes at cost 0; while classes are smaller than k, each of them is merged with the class whose
union with it is cheapest; a class of 2k or more is split again.

Deviations: a round searches the cheapest partners of all small classes at once (in parallel) and merges the
proposals in ascending price, each only if both sides are unchanged, while the paper takes the small classes
one after the other. So the result depends neither on the order of the records nor on the number of threads,
and loses less: an expensive merge never pre-empts a cheap one. The default price is the increase of the loss
(see `MergePrice`).

If most values of an attribute are rare, many small classes want the same large one, and only one per round
gets it. After `PATIENCE` rounds a class takes in all of them for which that costs at most what they proposed,
so the number of rounds does not grow with the records. Adult needs fewer rounds.

If small classes meet large ones, agglomeration leaves classes of 2k records or more; they are split.

If a person may have several records, a class is small while it has fewer than k distinct persons, and
both parts of one that is split have k. The cost of merges and splits is still counted by records.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.errors import InfeasibleError
from privacy_engine.ordering import stable_order
from privacy_engine.progress import advance
from privacy_engine.recoding.grouping.box_tree import Criterion, merge_price
from privacy_engine.recoding.grouping.boxes import (
    Boxes,
    Codes,
    Floats,
    Ints,
    Space,
    box_cost,
    enlarge,
    tabulate,
    union_cost,
)
from privacy_engine.recoding.grouping.partners import PartnerSearch, Propose, propose
from privacy_engine.tables.geometry import Geometry
from privacy_engine.tables.persons import people_of_classes

PATIENCE = 16


class Holders(NamedTuple):
    """The distinct persons of tuples; no entries where each record counts as a person.

    start: (m + 1,) int64; tuple t owns ``start[t] : start[t + 1]`` of `person`; (0,) if there are none.
    person: (e,) int64.
    """

    start: Ints
    person: Ints

    def people(self, labels: Ints) -> Ints:
        """(m,) distinct persons of the tuples with each label (m,), numbers of tuples."""
        of_entry = np.repeat(labels, np.diff(self.start))
        return people_of_classes(of_entry, self.person, len(labels))


NO_HOLDERS = Holders(np.zeros(0, np.int64), np.zeros(0, np.int64))


class MergePrice(StrEnum):
    """The cost of merging two classes."""

    WHOLE = "whole"  # the papers': the loss of the union
    INCREASE = "increase"  # the increase of the table's loss: neutral towards big classes


def agglomerate(
    codes: Codes,
    geometry: Geometry,
    k: int,
    rng: np.random.Generator,
    price: MergePrice = MergePrice.INCREASE,
    search: Propose | None = None,
    persons: Ints | None = None,
) -> Ints:
    """Partition records into classes of at least k persons.

    Args:
        codes: Quasi-identifier codes, shape (n, q) int32.
        geometry: Costs of the q attributes.
        k: Least class size, >= 1.
        rng: Breaks ties between equally cheap merges.
        price: Cost of a merge.
        search: Search for partners: `propose`, on all cores (default), or `propose_serially`.
        persons: Person of each record, >= 0, shape (n,); None: each record counts as a person.

    Returns:
        labels: (n,) int64, 0 .. classes - 1. Only a class of identical records is larger than it
        could be: it is published as one class anyhow.

    Raises:
        InfeasibleError: Fewer than k records or persons.
    """
    if len(codes) < k:
        raise InfeasibleError(f"{len(codes)} rows cannot be {k}-anonymous; lower k or allow suppression")
    if persons is not None and (people := len(np.unique(persons))) < k:
        raise InfeasibleError(f"{people} persons cannot be {k}-anonymous; lower k or allow suppression")
    if len(codes) == 0:
        return np.zeros(0, np.int64)
    space = tabulate(geometry)
    # One memory layout, lest every kernel be compiled again for another.
    tuples, tuple_of, counts = distinct_tuples(np.ascontiguousarray(codes, np.int32))
    shuffled = rng.permutation(len(tuples))
    tuples, counts = np.ascontiguousarray(tuples[shuffled]), counts[shuffled]
    holders = NO_HOLDERS if persons is None else _holders(np.argsort(shuffled)[tuple_of], persons)
    merged = _merge_to_k(space, tuples, counts, k, Criterion[price.name], search or propose, holders)
    labels = np.empty(len(tuples), np.int64)
    labels[shuffled] = split_large(space, tuples, counts, merged, k, holders.start, holders.person)
    return np.unique(labels[tuple_of], return_inverse=True)[1].astype(np.int64)


def merge_at_random(n: int, k: int, rng: np.random.Generator) -> Ints:
    """Labels (n,) of n records whose classes were merged at random until all have k .. 2k - 1 (KACLUK).

    Zhu, Zhao, Wang (2010), sections 2 and 4.3: each record begins as a class; in a round every class of
    fewer than k meets another one, so that sizes double; a class that has reached k meets no more. Where
    their number is odd one waits for the next round; the last joins any class, which is halved where it then
    has 2k or more.

    Raises:
        InfeasibleError: Fewer than k records.
    """
    if n < k:
        raise InfeasibleError(f"{n} rows cannot be {k}-anonymous; lower k or allow suppression")
    into, sizes = np.arange(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    while len(small := np.flatnonzero((sizes > 0) & (sizes < k))) > 1:
        one, other = rng.permutation(small)[: len(small) // 2 * 2].reshape(2, -1)
        into[other] = one
        sizes[one] += sizes[other]
        sizes[other] = 0
    labels = follow(into)
    for last in small:  # at most one
        host = rng.choice(np.flatnonzero(sizes >= k))
        members = rng.permutation(np.flatnonzero((labels == last) | (labels == host)))
        labels[members] = host
        if len(members) >= 2 * k:
            labels[members[: len(members) // 2]] = last
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def distinct_tuples(codes: Codes) -> tuple[Codes, Ints, Ints]:
    """Distinct rows (m, q) in ascending order, the row of each record (n,), and their counts (m,)."""
    order = np.lexsort(codes.T[::-1])
    ranked = codes[order]
    if len(codes) == 0:
        return codes, np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.concatenate(([True], (ranked[1:] != ranked[:-1]).any(axis=1)))
    tuple_of = np.empty(len(codes), np.int64)
    tuple_of[order] = np.cumsum(first) - 1
    return ranked[first], tuple_of, np.bincount(tuple_of)


def _holders(tuple_of: Ints, persons: Ints) -> Holders:
    """The persons of each tuple, 0 .. m - 1, by the tuple of each record (n,)."""
    span = int(persons.max()) + 1
    tuples, person = np.divmod(np.unique(tuple_of * span + persons), span)
    return Holders(np.searchsorted(tuples, np.arange(int(tuple_of.max()) + 2)), person)


def _merge_to_k(
    space: Space,
    tuples: Codes,
    counts: Ints,
    k: int,
    criterion: Criterion,
    search: Propose,
    holders: Holders,
) -> Ints:
    """The rounds. Tuples (m, q) with their multiplicities (m,) to labels (m,): numbers of tuples."""
    m = len(tuples)
    boxes = Boxes(tuples.copy(), tuples.copy(), counts.astype(np.float64), np.zeros(m))
    into, partners = np.arange(m), PartnerSearch(space, boxes, int(criterion), search)
    rounds = 0
    while True:
        people = holders.people(follow(into)) if len(holders.start) else boxes.size
        small = np.flatnonzero((boxes.size > 0) & (people < k))
        if not len(small):
            return follow(into)
        advance(1.0 - len(small) / m)
        partner, price = partners.of(small)
        if rounds < PATIENCE:
            merge_cheapest_first(space, boxes, into, small, partner, price)
        else:
            join_while_cheap(space, boxes, into, small, partner, price, int(criterion))
        rounds += 1


def follow(into: Ints) -> Ints:
    """Where each class (m,) ended that was merged into ``into``, and that into another, and so on."""
    while (into != into[into]).any():
        into = into[into]
    return into


@kernel(nogil=True)
def merge_cheapest_first(
    space: Space, boxes: Boxes, into: Ints, small: Ints, partner: Ints, price: Floats
) -> None:
    """Merge proposals in ascending price, each only while both classes are as they were priced."""
    touched = np.zeros(len(into), np.bool_)
    for t in stable_order(price):
        a, b = small[t], partner[t]
        if touched[a] or touched[b]:
            continue
        touched[a] = touched[b] = True
        _take_in(space, boxes, into, a, b)


@kernel(nogil=True)
def join_while_cheap(
    space: Space, boxes: Boxes, into: Ints, small: Ints, partner: Ints, price: Floats, criterion: int
) -> None:
    """Make proposals in ascending price; a partner that has grown still counts if it costs no more.

    A class that has taken in another one, or is gone, makes none. Each class that proposes joins its partner.
    """
    touched = np.zeros(len(into), np.bool_)
    for t in stable_order(price):
        a, b = small[t], partner[t]
        if touched[a]:
            continue
        while into[b] != b:
            b = into[b]
        if touched[b]:
            union = union_cost(space, boxes.lo[a], boxes.hi[a], boxes.lo[b], boxes.hi[b])
            now = merge_price(boxes.size[a], boxes.cost[a], boxes.size[b], boxes.cost[b], union, criterion)
            if now > price[t]:
                continue
        touched[a] = touched[b] = True
        _take_in(space, boxes, into, b, a)


@kernel(inline="always")
def _take_in(space: Space, boxes: Boxes, into: Ints, a: int, b: int) -> None:
    """Make class b a part of class a."""
    enlarge(space, boxes.lo[a], boxes.hi[a], boxes.lo[b], boxes.hi[b])
    boxes.cost[a] = box_cost(space, boxes.lo[a], boxes.hi[a])
    boxes.size[a] += boxes.size[b]
    boxes.size[b] = 0
    into[b] = a


@kernel(nogil=True)
def split_large(
    space: Space, tuples: Codes, counts: Ints, labels: Ints, k: int, start: Ints, person: Ints
) -> Ints:
    """Cut classes of 2k or more in two, as long as both parts can keep k, at the lowest cost.

    A cut is a position in the order of one attribute's values (of a hierarchy: depth first). The total
    loss never rises. Identical records stay together.

    Args:
        space: Costs of the attributes.
        tuples: Distinct tuples, shape (m, q) int32.
        counts: Records of each, shape (m,) int64.
        labels: Class of each tuple, shape (m,) int64.
        k: Least class size.
        start: Start of the persons of each tuple, as in `Holders`, shape (m + 1,) int64.
        person: Persons, shape (e,) int64.

    Returns:
        labels: (m,) int64, each the number of a tuple of the class.
    """
    order = stable_order(labels)
    labels = labels.copy()
    met = np.zeros(person.max() + 1 if len(person) > 0 else 0, np.bool_)
    todo = [(0, 0) for _ in range(0)]
    begin = 0
    for i in range(1, len(order) + 1):
        if i == len(order) or labels[order[i]] != labels[order[begin]]:
            todo.append((begin, i))
            begin = i
    while len(todo) > 0:
        begin, end = todo.pop()
        members = order[begin:end]
        cut = 0
        if end - begin > 1 and counts[members].sum() >= 2 * k:
            cut = _cheapest_cut(space, tuples, counts, members, k, start, person, met)
        if cut > 0:
            todo.append((begin, begin + cut))
            todo.append((begin + cut, end))
        else:
            labels[members] = members.min()
    return labels


@kernel(nogil=True, inner=True)
def _cheapest_cut(
    space: Space,
    tuples: Codes,
    counts: Ints,
    members: Ints,
    k: int,
    start: Ints,
    person: Ints,
    met: npt.NDArray[np.bool_],
) -> int:
    """Put the members in the order of the best cut and return its place; 0 if no cut keeps k twice."""
    best, least = 0, np.inf
    chosen = members.copy()
    total = counts[members].sum()
    for j in range(tuples.shape[1]):
        keys = np.empty(len(members), np.int64)
        for i in range(len(members)):
            code = tuples[members[i], j]
            keys[i] = space.rank[space.start[j] + code] if space.tree[j] else code
        ordered = members[stable_order(keys)]
        left = _prefix_costs(space, tuples, ordered)
        right = _prefix_costs(space, tuples, ordered[::-1].copy())
        near = prefix_people(counts, ordered, start, person, met)
        far = prefix_people(counts, ordered[::-1].copy(), start, person, met)
        size = 0
        for cut in range(1, len(ordered)):
            size += counts[ordered[cut - 1]]
            if near[cut - 1] >= k and far[len(ordered) - cut - 1] >= k:
                loss = size * left[cut - 1] + (total - size) * right[len(ordered) - cut - 1]
                if loss < least:
                    best, least = cut, loss
                    chosen = ordered
    members[:] = chosen
    return best


@kernel(nogil=True)
def prefix_people(counts: Ints, members: Ints, start: Ints, person: Ints, met: npt.NDArray[np.bool_]) -> Ints:
    """Distinct persons of the first 1, 2, ... members; their records where each counts as a person.

    met: (persons,) room to work in, False before and after.
    """
    found = np.empty(len(members), np.int64)
    total = 0
    for i in range(len(members)):
        t = members[i]
        if len(start) == 0:
            total += counts[t]
        else:
            for e in range(start[t], start[t + 1]):
                total += not met[person[e]]
                met[person[e]] = True
        found[i] = total
    if len(start) > 0:
        for t in members:
            met[person[start[t] : start[t + 1]]] = False
    return found


@kernel(nogil=True, inner=True)
def _prefix_costs(space: Space, tuples: Codes, members: Ints) -> Floats:
    """Cost of the box of the first 1, 2, ... members."""
    costs = np.empty(len(members))
    lo, hi = tuples[members[0]].copy(), tuples[members[0]].copy()
    for i in range(len(members)):
        enlarge(space, lo, hi, tuples[members[i]], tuples[members[i]])
        costs[i] = box_cost(space, lo, hi)
    return costs
