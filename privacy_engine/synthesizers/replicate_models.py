"""Replicates of a latent class network as they are stored: arrays of probabilities, rounded to few digits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node

Floats = npt.NDArray[np.float64]

DIGITS = 5  # significant, of a stored probability: the replicates' spread needs no more


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicateModels:
    """What `synthesizers.latent.replicates` found, over the values of attributes and by their names.

    Attributes that others determine are in none: they follow from the network. Large attributes that are
    drawn last are in none either.

    Attributes:
        weights: Probabilities of the classes, one row a replicate, shape (r, k); if there are `parts`, of the
            first part and of each of these, shape (r, 1 + parts, k).
        tables: Attribute to (r, k, size) its distribution given the class.
        misfit: Variances per p (1 - p) of marginals of one, two, three attributes measured together, shape
            (3,).
        unseen: Variance that is added if they were not.
        together: Sets of attributes that were.
        parts: Sets of attributes with classes that are independent of all others'; empty for most tables.
    """

    weights: Floats
    tables: Mapping[str, Floats]
    misfit: tuple[float, ...]
    unseen: float
    together: tuple[tuple[str, ...], ...]
    parts: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicateModels) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back, probabilities in a few digits."""
        fields = {
            "weights": _plain(self.weights),
            "tables": {name: _plain(table) for name, table in self.tables.items()},
            "misfit": list(self.misfit),
            "unseen": self.unseen,
            "together": [list(names) for names in self.together],
        }
        return fields | {"parts": [list(names) for names in self.parts]} if self.parts else fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ReplicateModels":
        """Read what ``to_dict`` writes."""
        return cls(
            weights=np.array(fields["weights"], dtype=np.float64),
            tables={name: np.array(table, dtype=np.float64) for name, table in fields["tables"].items()},
            misfit=tuple(fields["misfit"]),
            unseen=fields["unseen"],
            together=tuple(tuple(names) for names in fields["together"]),
            parts=tuple(tuple(names) for names in fields.get("parts", ())),
        )

    def models(self, network: BayesianNetwork) -> list["ClassTables"]:
        """The model that the network is, and each replicate; a rounded distribution sums to 1 again."""
        ours = ClassTables.of(network)
        weights = self.weights / self.weights.sum(axis=-1, keepdims=True)
        tables = {name: table / table.sum(axis=2, keepdims=True) for name, table in self.tables.items()}
        return [
            ours,
            *(
                ClassTables(
                    weights=weights[r],
                    tables={name: table[r] for name, table in tables.items()},
                    follows=ours.follows,
                    part_of=ours.part_of,
                )
                for r in range(len(self))
            ),
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassTables:
    """A network whose attributes are independent given hidden roots, or functions of one that is.

    Attributes that are drawn given another one, or a group, by chance are in none of these.

    Attributes:
        weights: Probabilities of the classes, shape (k,); of several roots, shape (roots, k).
        tables: Attribute to (k, size) its distribution given the class.
        follows: Attribute that another determines, to this one and (its size,) the corresponding value.
        part_of: Attribute to the index of its root, if this is not the first.
    """

    weights: Floats
    tables: Mapping[str, Floats]
    follows: Mapping[str, tuple[str, npt.NDArray[np.int64]]]
    part_of: Mapping[str, int] = field(default_factory=dict)

    def weights_of(self, attribute: str) -> Floats:
        """(k,) probabilities of the classes on which an attribute depends."""
        return np.asarray(np.atleast_2d(self.weights)[self.part_of.get(attribute, 0)])

    @classmethod
    def of(cls, network: BayesianNetwork) -> "ClassTables":
        """The tables of a network that LatentClass made."""
        roots = [node for node in network.nodes if not node.parents]
        root_of = {node.attribute: number for number, node in enumerate(roots)}
        others = network.nodes[len(roots) :]
        tables = {n.attribute: n.table for n in others if n.parents[0] in root_of}
        part_of = {n.attribute: root_of[n.parents[0]] for n in others if root_of.get(n.parents[0])}
        weights = roots[0].table if len(roots) == 1 else np.stack([root.table for root in roots])
        follows: dict[str, tuple[str, npt.NDArray[np.int64]]] = {}
        for node in others:
            (parent,) = node.parents
            if node.attribute in tables or not _is_function(node):
                continue
            value = node.table.argmax(axis=1).astype(np.int64)
            if parent in follows:  # what determines is determined itself
                parent, of_parent = follows[parent]
                value = value[of_parent]
            follows[node.attribute] = (parent, value)
        return cls(weights=weights, tables=tables, follows=follows, part_of=part_of)


def _is_function(node: Node) -> bool:
    return not any(node.groups) and bool((node.table.max(axis=-1) == 1).all())


def _plain(probabilities: Floats) -> Any:
    return _rounded(probabilities.tolist())


def _rounded(values: Any) -> Any:
    if isinstance(values, list):
        return [_rounded(value) for value in values]
    return float(f"{values:.{DIGITS}g}")
