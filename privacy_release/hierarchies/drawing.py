"""A hierarchy as a tree with the share of the people under each node, where that tells of no small group.

Its page is one file that loads and runs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privacy_release.reports.release import page_template

if TYPE_CHECKING:
    from privacy_engine.tables.hierarchy import Hierarchy
    from privacy_release.hierarchies.holders import Holders


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of the tree.

    Attributes:
        values: how many values lie under it.
        share: of the records or persons, 0 .. 1; None where it is hidden, or none were counted.
        children: of the next level that tells them apart.
    """

    label: str
    values: int
    share: float | None
    children: "tuple[Node, ...]" = ()


def tree(hierarchy: "Hierarchy", holders: "Holders | None" = None, k: int = 10) -> Node:
    """The tree of a hierarchy.

    A share is hidden where fewer than `k` are under a node. What is hidden can be told from the rest: so the
    shares of its next smaller siblings are hidden, too, until at least two nodes with at least `k` in all
    are, and with a node all below it.

    Args:
        hierarchy: to draw.
        holders: who has each value; those that the hierarchy misses do not count. None: nobody is counted.
        k: the fewest whose share is shown.
    """
    total = holders.together(hierarchy.values) if holders else 0
    shown = holders is not None and total >= k
    return _node(
        hierarchy.rows[0][-1], hierarchy.rows, hierarchy.height, holders if shown else None, total, k
    )


def _node(
    label: str, rows: Sequence[tuple[str, ...]], level: int, holders: "Holders | None", total: int, k: int
) -> Node:
    """The node of a level above some rows, without a share where there are no holders.

    Levels that tell nothing apart are passed over.
    """
    below = level - 1
    while below > 0 and len({row[below] for row in rows}) == 1:
        below -= 1
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in rows if len(rows) > 1 else ():
        groups.setdefault(row[below], []).append(row)
    kept = set(groups)
    if holders is not None:
        kept = hidden({name: [row[0] for row in group] for name, group in groups.items()}, holders, k)
    return Node(
        label=label,
        values=len(rows),
        share=holders.together(row[0] for row in rows) / total if holders is not None else None,
        children=tuple(
            _node(name, group, below, None if name in kept else holders, total, k)
            for name, group in groups.items()
        ),
    )


def hidden(parts: Mapping[str, Sequence[str]], holders: "Holders", k: int) -> set[str]:
    """Which parts of a known whole are not told, so that of none with fewer than `k` the size can be told.

    Args:
        parts: name -> values.
        holders: who has them.
        k: see `tree`.
    """
    sizes = {name: holders.together(values) for name, values in parts.items()}
    found = {name for name, size in sizes.items() if size < k}
    rest = sorted((name for name in sizes if name not in found), key=lambda name: sizes[name])
    while found and rest:
        if len(found) > 1 and holders.together(v for name in found for v in parts[name]) >= k:
            break
        found.add(rest.pop(0))
    return found


def render(root: Node, *, title: str, k: int, counted: str) -> str:
    """The page as HTML.

    Args:
        root: of the tree.
        title: what it is a hierarchy of.
        k: below which a share is hidden.
        counted: `records` or `persons`; empty where nobody was counted.
    """
    return page_template("hierarchy.html.j2").render(root=root, title=title, k=k, counted=counted)
