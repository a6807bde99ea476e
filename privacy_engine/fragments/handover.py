"""Fragments that cannot meet the guarantees by themselves go to a neighbour.

The cuts are found on a sample and ignore sensitive values; here every record counts. A fragment that is too
small, or that breaks a model as one class, joins the nearest leaf behind the last cut that separated it from
others. Every rule is closed under union, so this ends, at the latest with one fragment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.engines.engine import Assign, Engine, Files
from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import IntegrityError
from privacy_engine.fragments.cut_tree import CutTree
from privacy_engine.fragments.whole import WholeTable
from privacy_engine.recoding.grouping.constraints import Constraints, admits
from privacy_engine.tables.encoding import sensitive_codes

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The content of each leaf of a cut tree.

    Attributes:
        sizes: Number of records, shape (leaves,).
        counts: Counts of sensitive values, as the constraints concatenate them, shape (leaves, m_total)
            int32.
        people: Number of persons, shape (leaves,); None: each record counts as one.
    """

    sizes: Ints
    counts: Counts
    people: Ints | None = None


def count_leaves(
    engine: Engine,
    files: Files,
    tree: CutTree,
    whole: WholeTable,
    constraints: Constraints,
    *,
    leaf_of: Assign | None = None,
) -> Contents:
    """Count every record of a table in the leaves of a tree.

    By default, `leaf_of` is that of the tree, each of whose fragments must be one leaf. Sensitive attributes
    are counted one after the other, and only those with a rule: their combinations may be many.
    """
    leaves, assign = len(tree.fragment_of), leaf_of or tree.assign
    sizes = np.zeros(leaves, np.int64)
    counts = np.zeros((leaves, constraints.start[-1]), np.int32)
    ruled: list[int | None] = [*np.unique(constraints.attribute).tolist()] or [None]
    for a in ruled:
        names = [] if a is None else [whole.sensitive_names[a]]
        table = engine.count_fragments(files, assign, names)
        leaf, records = (table.column(name).to_numpy() for name in ("fragment", "count"))
        sizes = np.bincount(leaf, records, leaves).astype(np.int64)
        if a is not None:
            column = to_frame(table.select(names))[names[0]]
            codes = sensitive_codes(whole.schema[names[0]], column, whole.sensitive_domains[a])
            _require_unchanged(not (codes < 0).any())
            np.add.at(counts, (leaf, constraints.start[a] + codes), records.astype(np.int32))
    _require_unchanged(int(sizes.sum()) == whole.rows)
    people = None
    if person := whole.schema.by:  # one row for each person of a leaf
        people = np.bincount(engine.count_fragments(files, assign, [person])["fragment"], minlength=leaves)
    return Contents(sizes=sizes, people=people, counts=counts)


def _require_unchanged(same: bool) -> None:
    if not same:
        raise IntegrityError(
            "the table must not change while it is cut into fragments, but it changed; run again"
        )


def hand_over(
    tree: CutTree, contents: Contents, least: int, constraints: Constraints
) -> tuple[CutTree, tuple[int, ...]]:
    """Join fragments until each is allowed, or one is left.

    Args:
        tree: Tree of the leaves. Leaves that are one fragment stay together.
        contents: Contents of the leaves.
        least: Persons that a fragment needs; those of joined leaves are added up, so a person in several
            leaves counts more than once; the release of a fragment with too few persons is refused.
        constraints: Requirements on each fragment as one class.

    Returns:
        The tree with the leaves' new fragments, and the size of each.
    """
    leaves, owner = len(contents.sizes), np.array(tree.fragment_of)
    people = contents.sizes if contents.people is None else contents.people
    sizes, people = (np.bincount(owner, n, leaves).astype(np.int64) for n in (contents.sizes, people))
    counts = np.zeros_like(contents.counts)
    np.add.at(counts, owner, contents.counts)
    routes = _routes(tree)

    def is_feasible(fragment: int) -> bool:
        size = int(sizes[fragment])
        return int(people[fragment]) >= least and bool(admits(counts[fragment], size, constraints))

    failing = {fragment for fragment in owner.tolist() if not is_feasible(fragment)}
    while failing and (owner != owner[0]).any():
        handed = min(failing, key=lambda fragment: (sizes[fragment], fragment))
        taker = _neighbour(tree, routes, owner, sizes, handed)
        owner[owner == handed] = taker
        sizes[taker] += sizes[handed]
        people[taker] += people[handed]
        counts[taker] += counts[handed]
        failing -= {handed, taker} if is_feasible(taker) else {handed}
    joined = tree.renumbered(tuple(owner.tolist()))
    return joined, tuple(np.bincount(joined.fragment_of, contents.sizes).astype(np.int64).tolist())


def _routes(tree: CutTree) -> list[list[tuple[int, int]]]:
    """(leaves,) the cuts from the root to each leaf, with the side of each."""
    routes: list[list[tuple[int, int]]] = [[] for _ in tree.fragment_of]
    for i, cut in enumerate(tree.cuts):  # a cut comes before those behind it
        for side, place in enumerate(cut.sides):
            for leaf in tree.leaves(place):
                routes[leaf].append((i, side))
    return routes


def _neighbour(
    tree: CutTree, routes: Sequence[Sequence[tuple[int, int]]], owner: Ints, sizes: Ints, fragment: int
) -> int:
    """The fragment that takes another in: the smallest of those that lie next behind the last cut between.

    Args:
        tree: Tree of the leaves.
        routes: Routes to the leaves.
        owner: Fragment of each leaf, shape (leaves,).
        sizes: Sizes of the fragments.
        fragment: One of several.
    """
    partings = [
        (depth, cut, side)
        for leaf in np.flatnonzero(owner == fragment).tolist()
        for depth, (cut, side) in enumerate(routes[leaf])
        if any(owner[x] != fragment for x in tree.leaves(tree.cuts[cut].sides[1 - side]))
    ]
    _, cut, side = max(partings)
    behind = tree.cuts[cut].sides[1 - side]
    near = [x for x in _next_to(tree, cut, side, behind) if owner[x] != fragment]
    others = near or [x for x in tree.leaves(behind) if owner[x] != fragment]
    return int(min((owner[x] for x in others), key=lambda other: (sizes[other], other)))


def _next_to(tree: CutTree, cut: int, side: int, place: int) -> Iterator[int]:
    """Return the leaves behind the other side of a cut that its threshold bounds; all, if it has none.

    Args:
        tree: Tree of the cuts.
        cut: Index of the cut in `tree.cuts`.
        side: Side on which to find the neighbour.
        place: Subtree behind the other side: index of a cut, or `~leaf` of a leaf.
    """
    if place < 0:
        yield ~place
        return
    here, there = tree.cuts[cut], tree.cuts[place]
    numbers = here.below is not None and there.column == here.column
    for nearer in (there.sides[side],) if numbers else there.sides:
        yield from _next_to(tree, cut, side, nearer)
