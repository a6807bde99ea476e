"""Levels of the hierarchies that a schema declares for large attributes: public groups of their values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.tables.domains import LabelledDomain, PublicDomain

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """A level of the hierarchy of an attribute.

    Attributes:
        labels: Label of each group; None for that of null.
        group_of: Group of each code of the attribute, shape (size,).
    """

    labels: tuple[str | None, ...]
    group_of: Ints


def levels_of(domain: PublicDomain) -> list[Level]:
    """The levels between the values of an attribute and the root, finest first; none without a hierarchy."""
    if not isinstance(domain, LabelledDomain) or domain.tree is None:
        return []
    tree, found = domain.tree, []
    first = np.unique(domain.groups, return_index=True)[1]  # a value of each code
    leaves = [tree.code(domain.labels[i]) for i in first.tolist()]
    for level in range(domain.level + 1, tree.height):
        nodes, group_of = np.unique(tree.at_level(level)[leaves], return_inverse=True)
        labels: list[str | None] = [tree.label(int(node)) for node in nodes]
        if domain.nullable:
            group_of, labels = np.append(group_of, len(nodes)), [*labels, None]
        found.append(Level(labels=tuple(labels), group_of=group_of.astype(np.int64)))
    return found


def level_for(levels: Sequence[Level], most: int) -> Level | None:
    """The finest level of 2 to ``most`` groups; None if there is none."""
    return next((level for level in levels if 1 < len(level.labels) <= most), None)


def function_onto(level: Level, other: PublicDomain) -> Ints | None:
    """(size,) the value of another attribute with the label of each group; None if it lacks a label."""
    if not isinstance(other, LabelledDomain):
        return None
    code_of: dict[str | None, int] = dict(zip(other.labels, other.groups.tolist(), strict=True))
    if other.nullable:
        code_of[None] = other.size - 1
    if any(label not in code_of for label in level.labels):
        return None
    return np.array([code_of[label] for label in level.labels], dtype=np.int64)[level.group_of]
