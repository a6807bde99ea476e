"""Which joint tables are worth measuring: few cells, and attributes that have not met before.

Only sizes are read here, and those are public or come from noisy counts.
"""

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Members = tuple[int, ...]

DRAWS = 600  # attempts at a set of attributes; more change nothing


def candidate_views(
    sizes: Sequence[int], *, cells: float, width: int, rng: np.random.Generator
) -> list[Members]:
    """Choose sets of attributes whose joint table has at most a number of cells, each as large as possible.

    Attributes are added in random order while they fit. All pairs that fit come in addition, and single
    attributes that fit with no other.

    Args:
        sizes: Sizes of the attributes.
        cells: Most cells of a table.
        width: Most attributes of a set.
        rng: Draws the orders; it does not affect privacy.
    """
    found: set[Members] = set()
    for _ in range(DRAWS):
        members: list[int] = []
        size = 1
        for attribute in rng.permutation(len(sizes)).tolist():
            if len(members) < width and size * sizes[attribute] <= cells:
                members.append(attribute)
                size *= sizes[attribute]
        if len(members) > 1:
            found.add(tuple(sorted(members)))
    pairs = itertools.combinations(range(len(sizes)), 2)
    found.update((a, b) for a, b in pairs if width > 1 and sizes[a] * sizes[b] <= cells)
    met = set(itertools.chain.from_iterable(found))
    found.update((a,) for a in range(len(sizes)) if a not in met)
    return sorted(found)


def partition(
    sizes: Sequence[int], attributes: Sequence[int], *, cells: float, width: int, rng: np.random.Generator
) -> list[Members]:
    """Disjoint sets of attributes that hold each of them once, in random order, as many together as fit.

    Args:
        sizes: Sizes of all attributes.
        attributes: Those to place.
        cells: Most cells of a table of more than one attribute.
        width: Most attributes of a set.
        rng: Draws the order; it does not affect privacy.
    """
    found: list[list[int]] = []
    room: list[float] = []
    for attribute in rng.permutation(np.array(attributes, dtype=np.int64)).tolist():
        fitting = (
            i for i, members in enumerate(found) if len(members) < width and room[i] >= sizes[attribute]
        )
        i = next(fitting, None)
        if i is None:
            found.append([attribute])
            room.append(cells / sizes[attribute])
        else:
            found[i].append(attribute)
            room[i] /= sizes[attribute]
    return [tuple(sorted(members)) for members in found]


@dataclass(kw_only=True)
class Coverage:
    """Which attributes and which pairs of them have been measured together.

    Attributes:
        attributes: Seen so far.
        pairs: Seen so far, the smaller number first.
        sizes: Sizes of the attributes: a pair counts as much as its narrower attribute is informative,
            log(size), at least 1; empty: all pairs count equally.
    """

    attributes: set[int] = field(default_factory=set)
    pairs: set[tuple[int, int]] = field(default_factory=set)
    sizes: Sequence[int] = ()

    def add(self, members: Members) -> None:
        """Count a measured set in."""
        self.attributes.update(members)
        self.pairs.update(itertools.combinations(sorted(members), 2))

    def freshest(self, candidates: Sequence[Members], left: int) -> list[Members]:
        """Those with at least half as many new pairs as the best.

        Attributes never seen need no preference: the model is far off where they are. Only when the sets that
        are left could not hold them all any more, those count that bring enough of them.

        Args:
            candidates: Sets of attributes to choose from, at least one.
            left: Number of sets still to be chosen, including this one.
        """
        unseen = [len(set(members) - self.attributes) for members in candidates]
        missing = set(itertools.chain.from_iterable(candidates)) - self.attributes
        part = min(len(missing) - max(unseen) * (left - 1), max(unseen))
        candidates = [m for m, count in zip(candidates, unseen, strict=True) if count >= part]
        gains = [self._new_pairs(members) for members in candidates]
        best = max(gains)
        return [m for m, gain in zip(candidates, gains, strict=True) if 2 * gain >= best]

    def missing(self, candidates: Sequence[Members]) -> int:
        """How many of the candidates, taken greedily, bring all pairs and attributes not yet seen.

        The greedy number is within a factor of 1 + log(pairs of a candidate) of the least (Chvatal, 1979).
        """
        seen = Coverage(attributes=set(self.attributes), pairs=set(self.pairs), sizes=self.sizes)
        gains = [seen._gain(members) for members in candidates]
        taken = 0
        # Gains only shrink: the first candidate whose gain is unchanged is the best (Minoux, 1978).
        heap = [(-gain, i) for i, gain in enumerate(gains)]
        heapq.heapify(heap)
        while heap:
            _, i = heapq.heappop(heap)
            gain = seen._gain(candidates[i])
            if gain and heap and gain < -heap[0][0]:
                heapq.heappush(heap, (-gain, i))
            elif gain:
                seen.add(candidates[i])
                taken += 1
        return taken

    def _gain(self, members: Members) -> float:
        return self._new_pairs(members) + len(set(members) - self.attributes)

    def _new_pairs(self, members: Members) -> float:
        new = set(itertools.combinations(members, 2)) - self.pairs
        if not self.sizes:
            return len(new)
        return math.fsum(max(math.log(min(self.sizes[a], self.sizes[b])), 1.0) for a, b in new)
