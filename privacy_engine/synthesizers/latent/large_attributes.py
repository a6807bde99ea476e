"""Nominal attributes of many values, which are drawn given another attribute or a group of their values.

Classes cannot hold the dependences of an attribute of hundreds of values, and its values would take most of
the budget. So the model has groups of its values instead, or does not have it at all. The value of a record
is drawn last: given its group, or given another attribute of the record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node
from privacy_engine.tables.domains import CodedTable, LabelledDomain, Storage, code_type

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LargeAttribute:
    """An attribute that is drawn given a group of its values, or of the values of another attribute.

    Attributes:
        attribute: Number of the attribute.
        parent: Number of the attribute given which it is drawn; None if the model has groups of its values.
        group_of: Group of each value of the parent, or of the attribute itself if there is none.
        table: Distribution of its values given each group, shape (groups, size).
    """

    attribute: int
    parent: int | None
    group_of: Ints
    table: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class LargeAttributes:
    """The large attributes of a table, those that others are drawn given before these.

    Attributes:
        found: Large attributes, in the order in which they are drawn.
        names: Names of all attributes of the table, shape (d,).
        sizes: Number of values of each, shape (d,).
    """

    found: tuple[LargeAttribute, ...] = ()
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def reduced(self, coded: CodedTable) -> CodedTable:
        """The records without what is drawn last: groups of values, or nothing, for each large attribute."""
        if not self.found:
            return coded
        by_number = {large.attribute: large for large in self.found}
        kept = [a for a in range(len(coded.domains)) if a not in by_number or by_number[a].parent is None]
        domains = list(coded.domains)
        for a, name in self._group_names().items():
            domains[a] = _groups(name, by_number[a])
        codes = [by_number[a].group_of[coded.codes[a]] if a in by_number else coded.codes[a] for a in kept]
        kept_domains = tuple(domains[a] for a in kept)
        return replace(
            coded,
            domains=kept_domains,
            storages={d.name: coded.storages.get(d.name, Storage.TEXT) for d in kept_domains},
            codes=np.ascontiguousarray(np.array(codes, dtype=code_type(kept_domains))),
        )

    def restored(self, network: BayesianNetwork) -> BayesianNetwork:
        """A network over the reduced records with the large attributes."""
        if not self.found:
            return network
        groups = self._group_names()
        nodes = [
            Node(
                attribute=self.names[large.attribute],
                parents=(groups[large.attribute] if large.parent is None else self.names[large.parent],),
                table=large.table,
                groups=(None if large.parent is None else tuple(large.group_of.tolist()),),
            )
            for large in self.found
        ]
        hidden = [name for name in network.names if name not in self.names]
        return BayesianNetwork(
            names=(*self.names, *hidden),
            sizes=(*self.sizes, *(network.size(name) for name in hidden)),
            nodes=(*network.nodes, *nodes),
        )

    def _group_names(self) -> dict[int, str]:
        """Attribute to the name of its groups, which no column has."""
        names, made = self.names, dict[int, str]()
        for large in self.found:
            if large.parent is None:
                name = f"{names[large.attribute]} group"
                while name in names or name in made.values():
                    name += "_"
                made[large.attribute] = name
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `from_dict`."""
        found = [
            {
                "attribute": large.attribute,
                "parent": large.parent,
                "group_of": large.group_of.tolist(),
                "table": large.table.tolist(),
            }
            for large in self.found
        ]
        return {"found": found, "names": list(self.names), "sizes": list(self.sizes)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "LargeAttributes":
        """Read what `to_dict` gives.

        Raises:
            KeyError, TypeError, ValueError: If it is no such thing.
        """
        return cls(
            found=tuple(
                LargeAttribute(
                    attribute=of["attribute"],
                    parent=of["parent"],
                    group_of=np.array(of["group_of"], dtype=np.int64),
                    table=np.array(of["table"], dtype=np.float64),
                )
                for of in fields["found"]
            ),
            names=tuple(fields["names"]),
            sizes=tuple(fields["sizes"]),
        )


def _groups(name: str, large: LargeAttribute) -> LabelledDomain:
    size = len(large.table)
    return LabelledDomain(
        name=name,
        labels=tuple(map(str, range(size))),
        groups=np.arange(size),
        storage=Storage.TEXT,
        nullable=False,
    )
