"""Greedy growth of a Bayesian network, one attribute at a time, for any method's choice.

GreedyBayes of Zhang, Cormode, Procopiuc, Srivastava, Xiao: PrivBayes, SIGMOD 2014; the maximal parent sets
and the bound on cells for attributes of more than two values are those of the version in TODS 2017.
Everything here follows from public figures and from the choices made: no record is seen.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.errors import InfeasibleError
from privacy_engine.progress import advance

Ints = npt.NDArray[np.int64]

MOST_FAMILIES = 250_000  # sets of attributes that a selection may have to count


@dataclass(frozen=True, kw_only=True)
class Family:
    """An attribute and its parents, by number."""

    child: int
    parents: tuple[int, ...]

    @property
    def members(self) -> tuple[int, ...]:
        """Parents, then child: the axes of the family's table."""
        return (*self.parents, self.child)


@dataclass(frozen=True, kw_only=True)
class FamilyLimit:
    """Which families may be chosen.

    Attributes:
        degree: Most parents of an attribute, >= 0.
        cells: Most cells of a family's table, >= 1. A lone attribute is always allowed.
    """

    degree: int
    cells: int

    def allows_parents(self, sizes: Sequence[int]) -> bool:
        """Whether any attribute can have a parent at all; if not, there is nothing to select."""
        smallest = sorted(sizes)[:2]
        return self.degree > 0 and len(smallest) == 2 and math.prod(smallest) <= self.cells


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Pairs of a child and a parent set, candidates for the next place in a network.

    Attributes:
        ids: Ascending, shape (c,) int64; a candidate keeps its number from one pick to the next.
        children: Int64, shape (c,).
        parents: Parents of each candidate, padded with -1, shape (c, w) int64; equal parents are mostly
            adjacent.
    """

    ids: Ints
    children: Ints
    parents: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: npt.NDArray[np.bool_]) -> "Candidates":
        """Some of the candidates, by a mask (c,)."""
        return Candidates(ids=self.ids[which], children=self.children[which], parents=self.parents[which])

    def family(self, position: int) -> Family:
        """Return the family of a candidate."""
        parents = self.parents[position]
        return Family(child=int(self.children[position]), parents=tuple(parents[parents >= 0].tolist()))


def grow(
    sizes: Sequence[int], first: int, limit: FamilyLimit, choose: Callable[[Candidates], int]
) -> tuple[Family, ...]:
    """Place all attributes, ``first`` first, each with the parents that ``choose`` picks.

    A candidate's parents are a maximal set of placed attributes within the limit: mutual information never
    falls when a parent is added, so smaller sets would only be worse candidates. If all attributes have two
    values, these are the sets of min(degree, placed) attributes.

    Args:
        sizes: Number of values of each attribute, shape (d,).
        first: Attribute without parents; independent of the data.
        limit: Limit of parents and cells.
        choose: Function that returns the position of the next family among the candidates. New candidates
            have the largest ids.
    """
    families = [Family(child=first, parents=())]
    open_children = [a for a in range(len(sizes)) if a != first]
    pool = _new_candidates(sizes, [], None, open_children, limit, 0)
    made = len(pool)
    while open_children:
        advance((len(sizes) - 1 - len(open_children)) / len(sizes))
        placed, newest = [f.child for f in families[:-1]], families[-1].child
        fresh = _new_candidates(sizes, placed, newest, open_children, limit, made)
        made += len(fresh)
        pool = _joined(_still_maximal(pool, sizes, newest, limit), fresh)
        family = pool.family(choose(pool))
        families.append(family)
        open_children.remove(family.child)
        pool = pool.take(pool.children != family.child)
    return tuple(families)


def maximal_parent_sets(
    placed: Sequence[int], sizes: Sequence[int], cells: int, degree: int
) -> list[tuple[int, ...]]:
    """The largest sets of placed attributes of at most ``cells`` cells and ``degree`` members.

    MaximalParentSets of TODS 2017, with the bound on members added. None of them contains another; none at
    all where cells < 1.

    >>> maximal_parent_sets([0, 1, 2], [2, 2, 4], cells=4, degree=3)
    [(0, 1), (2,)]
    """
    if cells < 1:
        return []
    if not placed or degree == 0:
        return [()]
    *rest, last = placed
    with_last = maximal_parent_sets(rest, sizes, cells // sizes[last], degree - 1)
    grown = set(with_last)
    without = [s for s in maximal_parent_sets(rest, sizes, cells, degree) if s not in grown]
    return without + [(*s, last) for s in with_last]


def measured_families(families: Sequence[Family]) -> list[int]:
    """Those families that are not part of another one: the rest follow from their tables.

    In a network of degree k over attributes of two values these are the last d - k families, the first of
    which covers the first k + 1 attributes: NoisyConditionals of SIGMOD 2014. For families of other shapes it
    is checked here: one that is no subset is measured and paid for.
    """
    sets = [frozenset(f.members) for f in families]
    return [
        i
        for i, own in enumerate(sets)
        if not any(own < other or (own == other and j < i) for j, other in enumerate(sets))
    ]


def useful_cells(rows: float, epsilon: float, tables: int, theta: float) -> int:
    """Cells up to which a noisy table is theta-useful: n epsilon / (2 tables theta), rounded down.

    The mean of a cell's probability, 1 / cells, is then at least theta times the mean of the noise,
    2 tables / (n epsilon): the papers' theta-usefulness. Public figures only.
    """
    return max(1, math.floor(rows * epsilon / (2 * tables * theta)))


def useful_degree(rows: float, epsilon: float, attributes: int, theta: float) -> int:
    """The largest degree k whose d - k tables of 2^(k+1) cells are theta-useful; 0 where none is.

    >>> useful_degree(21_574, 0.7 * 0.8, 16, 4)  # tables of 128 cells: 12,081 / (2 * 10 * 128) = 4.7
    6
    """
    return max(
        (k for k in range(attributes) if 2 ** (k + 1) <= useful_cells(rows, epsilon, attributes - k, theta)),
        default=0,
    )


def countable_degree(attributes: int) -> int:
    """The largest degree at which there are not too many families to count; at least 1."""
    few = itertools.takewhile(
        lambda k: math.comb(attributes, k + 1) <= MOST_FAMILIES, range(1, max(attributes, 2))
    )
    return max(few, default=1)


def theta_limit(
    sizes: Sequence[int], rows: float, epsilon: float, *, theta: float, cell_limit: int, shared: bool
) -> FamilyLimit:
    """The largest families whose noisy tables are theta-useful.

    Args:
        sizes: Number of values of each attribute, shape (d,).
        rows: N; where a person has up to m of the records, n / m, since the noise is m times as much.
        epsilon: Epsilon for all tables together.
        theta: Least ratio of a cell's mean to its noise.
        cell_limit: Most cells in any case.
        shared: Whether families that are part of another one share its table: of attributes of two values
            only d - k tables of a network of degree k are measured then. Else, and for other attributes, d.
    """
    degree, cells = countable_degree(len(sizes)), useful_cells(rows, epsilon, len(sizes), theta)
    if shared and set(sizes) == {2}:
        degree = min(degree, useful_degree(rows, epsilon, len(sizes), theta))
        cells = 2 ** (degree + 1)
    return FamilyLimit(degree=degree, cells=min(cells, cell_limit))


def fixed_limit(
    degree: int, names: Sequence[str], sizes: Sequence[int], rows: int, cell_limit: int
) -> FamilyLimit:
    """Return the limit for a degree that the caller requested, if table and domains allow it.

    Raises:
        InfeasibleError: If the table is too small, a family's table could be too large, or there would be too
            many families; the message has the remedy.
    """
    degree = min(degree, len(sizes) - 1)
    by_size = sorted(range(len(sizes)), key=lambda a: sizes[a])
    least, largest = by_size[: degree + 1], by_size[-degree - 1 :]
    if rows < (needed := math.prod(sizes[a] for a in least)):
        raise InfeasibleError(
            f"{rows} rows are fewer than the {needed} cells of even the smallest table of degree {degree}: "
            "lower the degree, let theta choose it (degree=None), or add records"
        )
    if (cells := math.prod(sizes[a] for a in largest)) > cell_limit:
        columns = {names[a]: sizes[a] for a in largest}
        raise InfeasibleError(
            f"a table of degree {degree} could have {cells} cells (columns and their numbers of values: "
            f"{columns}), more than the cell limit of {cell_limit}: give these columns fewer bins or a "
            "hierarchy level in `levels`, lower the degree, or let theta choose it (degree=None)"
        )
    if (count := math.comb(len(sizes), degree + 1)) > MOST_FAMILIES and degree > 1:
        raise InfeasibleError(
            f"degree {degree} of {len(sizes)} attributes has {count} families to count, more than "
            f"{MOST_FAMILIES}: lower it to {countable_degree(len(sizes))} or release fewer columns"
        )
    return FamilyLimit(degree=degree, cells=cell_limit)


def check_single_tables(names: Sequence[str], sizes: Sequence[int], cell_limit: int) -> None:
    """Raise for attributes whose own table is too large.

    Raises:
        InfeasibleError: Naming them and the remedy.
    """
    if large := {name: size for name, size in zip(names, sizes, strict=True) if size > cell_limit}:
        raise InfeasibleError(
            f"columns with more values than the cell limit of {cell_limit}: {large}; give them fewer bins or "
            "a hierarchy level in `levels`"
        )


def _new_candidates(
    sizes: Sequence[int],
    placed: Sequence[int],
    newest: int | None,
    children: Sequence[int],
    limit: FamilyLimit,
    first_id: int,
) -> Candidates:
    """All candidates whose parents contain the newest attribute; without one, all with no parents."""
    width = min(limit.degree, len(sizes) - 1)
    child_blocks, parent_blocks = [np.zeros(0, np.int64)], [np.zeros((0, width), np.int64)]
    for size in sorted({sizes[c] for c in children}):
        alike = np.array([c for c in children if sizes[c] == size], dtype=np.int64)
        if newest is None:
            sets: list[tuple[int, ...]] = [()]
        elif limit.degree == 0:
            sets = []
        else:
            cells = limit.cells // (size * sizes[newest])
            sets = [(*s, newest) for s in maximal_parent_sets(placed, sizes, cells, limit.degree - 1)]
        rows = np.array([s + (-1,) * (width - len(s)) for s in sets], dtype=np.int64)
        rows = rows.reshape(len(sets), width)
        parent_blocks.append(np.repeat(rows, len(alike), axis=0))
        child_blocks.append(np.tile(alike, len(rows)))
    found = np.concatenate(child_blocks)
    return Candidates(
        ids=np.arange(first_id, first_id + len(found)), children=found, parents=np.concatenate(parent_blocks)
    )


def _still_maximal(pool: Candidates, sizes: Sequence[int], newest: int, limit: FamilyLimit) -> Candidates:
    """Without the candidates whose parents could take the newest attribute in."""
    width = np.append(np.array(sizes, dtype=np.int64), 1)  # -1 reads the last
    # The product stays below the limit: each factor was checked when the candidate was made.
    cells = width[pool.children] * np.prod(width[pool.parents], axis=1, dtype=np.int64)
    full = (pool.parents >= 0).sum(axis=1) >= limit.degree
    return pool.take(full | (cells * sizes[newest] > limit.cells))


def _joined(one: Candidates, other: Candidates) -> Candidates:
    return Candidates(
        ids=np.concatenate([one.ids, other.ids]),
        children=np.concatenate([one.children, other.children]),
        parents=np.concatenate([one.parents, other.parents]),
    )
