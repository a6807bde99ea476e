"""Two releases as a graph: what someone who subtracts one from the other knows of arrivals and departures.

Persons who are in both releases connect their class in the old one with their class in the new one. In a
connected component of that graph, the sum of the new classes less the sum of the old ones is known: the
multiset of sensitive values of its arrivals less that of its departures. Any union of new classes with the
same stayers as a union of old ones is a union of components, so components are the smallest such cases.

Fung, B., Wang, K., Fu, A., Pei, J.: Anonymity for Continuous Data Publishing. EDBT 2008, names the attacks;
Xiao, X., Tao, Y.: m-Invariance. SIGMOD 2007, the absence of a value that gives a departure away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from privacy_engine.verification.republication.class_values import people_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """An old and a new release of one table, in whole numbers.

    Attributes:
        new: Class of each person of the new release, shape (n,), 0 .. new_classes - 1.
        old: Class of each person in the old release, shape (n,), -1 if not in it.
        gone: Old class of each person who is not in the new release, shape (d,).
        old_classes, new_classes: Number of classes of each release.
        corrected: Whether each person of both has another value now, shape (n,); None: unknown.
        people: Person of each record of the new release, shape (n,), 0 .. P - 1; None: each has one record.
        gone_people: Person of each record that is gone, shape (d,), by numbers of the old release.
        old_people: Person of each record of both by these numbers, shape (n,); arbitrary for the others.
    """

    new: Ints
    old: Ints
    gone: Ints
    old_classes: int
    new_classes: int
    corrected: Bools | None = None
    people: Ints | None = None
    gone_people: Ints | None = None
    old_people: Ints | None = None

    @property
    def apart(self) -> Pair:
        """The pair for someone who knows the corrections: each is a departure and an arrival."""
        if self.corrected is None or not self.corrected.any():
            return self
        gone_people = None
        if self.gone_people is not None and self.old_people is not None:
            gone_people = np.concatenate([self.gone_people, self.old_people[self.corrected]])
        return replace(
            self,
            old=np.where(self.corrected, -1, self.old),
            gone=np.concatenate([self.gone, self.old[self.corrected]]),
            corrected=None,
            gone_people=gone_people,
        )

    @cached_property
    def cells(self) -> tuple[Ints, Ints]:
        """Number the cells: persons who share both classes, with arrivals by the new class.

        Returns:
            keys: Cells, shape (c,) int64, ascending: (old + 1) * new_classes + new.
            which: Index of each person's cell among the keys, shape (n,).
        """
        keys = (self.old.astype(np.int64) + 1) * self.new_classes + self.new
        found, which = np.unique(keys, return_inverse=True)
        return found, which

    @cached_property
    def components(self) -> tuple[Ints, Ints]:
        """(old_classes,) and (new_classes,) the component of each class."""
        keys = self.cells[0]
        edges = keys[keys >= self.new_classes] - self.new_classes
        ends = (edges // self.new_classes, self.old_classes + edges % self.new_classes)
        found = component_of(*ends, self.old_classes + self.new_classes)
        return found[: self.old_classes], found[self.old_classes :]

    @cached_property
    def arrivals(self) -> Groups:
        """The arrivals of each component that has any."""
        rows = np.flatnonzero(self.old < 0)
        people = None if self.people is None else self.people[rows]
        return Groups.of(self.components[1][self.new[rows]], people)

    @cached_property
    def departures(self) -> Groups:
        """The departures of each component that has any.

        A component without a class of the new release is an old class that left as a whole: the new release
        reveals nothing about it.
        """
        return Groups.of(self.components[0][self.gone], self.gone_people)


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Persons of the same component.

    Attributes:
        components: Component of each group, shape (g,) int64, ascending.
        sizes: Number of persons of each group, shape (g,) int64.
    """

    components: Ints
    sizes: Ints

    @classmethod
    def of(cls, components: Ints, people: Ints | None = None) -> Groups:
        """Count persons by the component (p,) of each record and by its person, as for `people_of`."""
        found, which = np.unique(components, return_inverse=True)
        return cls(components=found, sizes=people_of(which, people, len(found)))

    def __len__(self) -> int:
        return len(self.sizes)

    def place(self, components: Ints) -> Ints:
        """(m,) the index of each of some components among those of the groups, -1 = no group."""
        places = np.full(max(components.max(initial=-1), self.components.max(initial=-1)) + 1, -1)
        places[self.components] = np.arange(len(self))
        found: Ints = places[components]
        return found


def component_of(tails: Ints, heads: Ints, nodes: int, *, directed: bool = False) -> Ints:
    """(nodes,) the connected component of each node of a graph.

    Args:
        tails: (e,) Node at which each edge begins, 0 .. nodes - 1.
        heads: (e,) Node at which it ends.
        nodes: Number of nodes.
        directed: Whether nodes must reach each other along the edges (strong connection).
    """
    graph = coo_array((np.ones(len(tails), np.int8), (tails, heads)), shape=(nodes, nodes))
    kind = "strong" if directed else "weak"
    found = connected_components(graph, directed=directed, connection=kind)[1]
    return np.asarray(found, dtype=np.int64)
