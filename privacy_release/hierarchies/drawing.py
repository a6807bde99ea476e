"""Draw a hierarchy as a tree with the share of people under each node, unless it reveals a small group.

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
        values: Number of values under it.
        share: Share of the records or persons, 0 to 1. None if it is hidden, or none were counted.
        children: Nodes of the next level that distinguishes them.
    """

    label: str
    values: int
    share: float | None
    children: "tuple[Node, ...]" = ()


def tree(hierarchy: "Hierarchy", holders: "Holders | None" = None, k: int = 10) -> Node:
    """Return the tree of a hierarchy.

    A share is hidden if fewer than `k` are under a node. A single hidden share could be computed from the
    others, so the shares of its next smaller siblings are hidden, too, until at least two nodes with at least
    `k` in all are hidden; and with a node, everything below it.

    Args:
        hierarchy: Hierarchy to draw.
        holders: Holders of each value. Those of values that the hierarchy misses do not count. None: no one
            is counted.
        k: Smallest number of holders whose share is shown.
    """
    total = holders.together(hierarchy.values) if holders else 0
    shown = holders is not None and total >= k
    return _node(
        hierarchy.rows[0][-1], hierarchy.rows, hierarchy.height, holders if shown else None, total, k
    )


def _node(
    label: str, rows: Sequence[tuple[str, ...]], level: int, holders: "Holders | None", total: int, k: int
) -> Node:
    """Return the node of a level above some rows, without a share if there are no holders.

    Levels that distinguish nothing are skipped.
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
    """Return which parts of a known whole to hide, so that the size of none below `k` can be computed.

    Args:
        parts: Values of each part, by name.
        holders: Holders of the values.
        k: Smallest shown number, see `tree`.
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
    """Return the page as HTML.

    Args:
        root: Root of the tree.
        title: Subject of the hierarchy.
        k: Number below which a share is hidden.
        counted: `records` or `persons`. Empty if no one was counted.
    """
    return page_template("hierarchy.html.j2").render(root=root, title=title, k=k, counted=counted)
