"""A Bayesian network over coded attributes: each attribute's distribution given its parents.

Pr(X_1, ..., X_d) = prod_i Pr(X_i | Pi_i): equation (3) of Zhu, Xu, Ya. Sampled in its order (ancestral,
also logic sampling), marginalised exactly by summing attributes out as soon as nothing needs them.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel

Floats = npt.NDArray[np.float64]
Groups = tuple[int, ...]

BLOCK = 2**16  # points that are made at a time
CELL_LIMIT = 2**24  # cells of an exact marginal and of its intermediate sums: 128 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """One attribute given its parents.

    Attributes:
        attribute: Name of the attribute.
        parents: Their names; may be empty.
        table: Probabilities that sum to 1 along the last axis, shape (*parent sizes, size) float64.
        groups: One entry per parent: the group of each of its values, if the attribute depends on no more
            than that, and the table's axis counts groups; else None. Empty: None for each.

    Raises:
        ValueError: If the shape does not fit the parents, or a distribution does not sum to 1.
    """

    attribute: str
    parents: tuple[str, ...] = ()
    table: Floats
    groups: tuple[Groups | None, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", self.groups or (None,) * len(self.parents))
        if self.table.ndim != len(self.parents) + 1 or len(self.groups) != len(self.parents):
            raise ValueError(
                f"the table of {self.attribute!r} must have an axis for each of its {len(self.parents)} "
                f"parents and one for itself, got {self.table.ndim} axes and {len(self.groups)} groupings"
            )
        if (self.table < 0).any() or not np.allclose(self.table.sum(axis=-1), 1, rtol=0, atol=1e-9):
            raise ValueError(f"the distributions of {self.attribute!r} must be >= 0 and sum to 1")
        self.table.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it holds an array

    def full_table(self) -> Floats:
        """The table with an axis of full size for each parent."""
        table = self.table
        for axis, groups in enumerate(self.groups):
            if groups is not None:
                table = table.take(groups, axis=axis)
        return table

    def full_shape(self) -> tuple[int, ...]:
        """Shape of the table with an axis of full size for each parent; its own if a group has no row."""
        sizes = self.table.shape[:-1]
        if any(g and not 0 <= min(g) <= max(g) < size for g, size in zip(self.groups, sizes, strict=True)):
            return self.table.shape
        full = (len(g) if g else size for g, size in zip(self.groups, sizes, strict=True))
        return (*full, self.table.shape[-1])

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        out: dict[str, Any] = {"attribute": self.attribute, "parents": list(self.parents)}
        if any(self.groups):
            out["groups"] = [list(g) if g else None for g in self.groups]
        return out | {"probabilities": self.table.tolist()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Node":
        """Read what ``to_dict`` writes."""
        return cls(
            attribute=fields["attribute"],
            parents=tuple(fields["parents"]),
            table=np.array(fields["probabilities"], dtype=np.float64),
            groups=tuple(tuple(g) if g else None for g in fields.get("groups", ())),
        )


@dataclass(frozen=True, kw_only=True)
class BayesianNetwork:
    """Attributes with their sizes, and one node for each, parents before their children.

    Attributes:
        names: Attributes, in the order in which ``sample`` gives them, shape (d,).
        sizes: Number of codes of each, shape (d,).
        nodes: Nodes in topological order, shape (d,).

    Raises:
        ValueError: Unless there is one node for each attribute, after its parents, with tables that fit.

    >>> rain = Node(attribute="rain", table=np.array([0.75, 0.25]))
    >>> wet = Node(attribute="wet", parents=("rain",), table=np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> network = BayesianNetwork(names=("rain", "wet"), sizes=(2, 2), nodes=(rain, wet))
    >>> network.marginal(["wet"]).round(3).tolist()
    [0.725, 0.275]
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names) or len(self.names) != len(self.sizes):
            raise ValueError("a network must have distinct attributes and a size for each")
        if sorted(node.attribute for node in self.nodes) != sorted(self.names):
            raise ValueError("a network must have one node for each attribute")
        placed: set[str] = set()
        for node in self.nodes:
            if missing := [parent for parent in node.parents if parent not in placed]:
                raise ValueError(f"the parents {missing} of {node.attribute!r} must come before it")
            wanted = tuple(self.size(name) for name in (*node.parents, node.attribute))
            if any(g and len(g) != size for g, size in zip(node.groups, wanted[:-1], strict=True)):
                raise ValueError(f"the groupings at {node.attribute!r} must have an entry for each value")
            if node.full_shape() != wanted:
                raise ValueError(f"the table of {node.attribute!r} must have the sizes {wanted}")
            placed.add(node.attribute)

    def size(self, name: str) -> int:
        """Number of codes of an attribute."""
        return self.sizes[self.names.index(name)]

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """(parent, child) pairs, in the order of the nodes."""
        return tuple((parent, node.attribute) for node in self.nodes for parent in node.parents)

    def sample(self, n: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        """Draw records from the joint distribution; as a sample they are closer to it than independent draws.

        Returns:
            (d, n) uint8 or uint16 codes, one row per attribute in the order of ``names``.
        """
        codes = np.zeros((len(self.names), n), dtype=np.uint8 if max(self.sizes) <= 256 else np.uint16)
        points = spread_points(len(self.nodes), n, rng)
        row_of = {name: row for row, name in enumerate(self.names)}
        for node, uniform in zip(self.nodes, points, strict=True):
            given = np.zeros(n, dtype=np.int64)
            for parent, groups, size in zip(node.parents, node.groups, node.table.shape[:-1], strict=True):
                column = codes[row_of[parent]]
                given = given * size + (column if groups is None else np.array(groups)[column])
            # In rows, whatever the order of the table is: `draw` is compiled for one layout.
            cumulative = np.ascontiguousarray(np.cumsum(node.table.reshape(-1, node.table.shape[-1]), axis=1))
            cumulative /= cumulative[:, -1:]  # exactly 1 at and after the last value that can occur
            draw(cumulative, given, uniform, codes[row_of[node.attribute]])
        return codes

    def marginal(self, attributes: Sequence[str], *, limit: int = CELL_LIMIT) -> Floats:
        """The exact joint distribution of some attributes, one axis each.

        Raises:
            ValueError: If it, or a table that has to be summed up for it, has more cells than the limit.
        """
        needed = self._ancestors(attributes)
        self._check_cells(attributes, limit)
        nodes = [node for node in self.nodes if node.attribute in needed]
        live: list[str] = []
        joint: Floats = np.ones(())
        for position, node in enumerate(nodes):
            later = {name for n in nodes[position + 1 :] for name in n.parents} | set(attributes)
            self._check_cells([*live, node.attribute], limit)
            label = {name: i for i, name in enumerate((*live, node.attribute))}
            kept = [name for name in label if name in later]
            axes = [
                [label[name] for name in names] for names in (live, (*node.parents, node.attribute), kept)
            ]
            joint = np.einsum(joint, axes[0], node.full_table(), axes[1], axes[2])  # type: ignore[arg-type]  # stubs
            live = kept
        return joint.transpose([live.index(name) for name in attributes])

    def _ancestors(self, attributes: Iterable[str]) -> set[str]:
        needed = set(attributes)
        if unknown := sorted(needed - set(self.names)):
            raise ValueError(f"attributes {unknown} are not in the network")
        for node in reversed(self.nodes):
            if node.attribute in needed:
                needed |= set(node.parents)
        return needed

    def _check_cells(self, names: Sequence[str], limit: int) -> None:
        cells = math.prod(map(self.size, names))
        if cells > limit:
            raise ValueError(
                f"an exact marginal must not need more than {limit} cells, this one needs {cells} over "
                f"{list(names)}: ask for fewer attributes, or count them in a sample"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back; probabilities in full."""
        return {
            "names": list(self.names),
            "sizes": list(self.sizes),
            "nodes": [node.to_dict() for node in self.nodes],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "BayesianNetwork":
        """Read what ``to_dict`` writes."""
        return cls(
            names=tuple(fields["names"]),
            sizes=tuple(fields["sizes"]),
            nodes=tuple(map(Node.from_dict, fields["nodes"])),
        )


def spread_points(dimensions: int, n: int, rng: np.random.Generator) -> Floats:
    """(dimensions, n) points in the unit cube that lie more evenly than independent ones, in random order.

    A Sobol sequence scrambled by Owen's method (Owen, 1998): each single point is uniform, so that what is
    drawn with them is unbiased.
    """
    from scipy.stats import qmc  # half a second, which releases without a synthesizer do not have to spend

    sequence = qmc.Sobol(dimensions, seed=rng)  # named so in all versions of SciPy; `rng` from 1.15 on
    points = np.empty((dimensions, n))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # a number that is no power of two is less even, not wrong
        for start in range(0, n, BLOCK):
            points[:, start : start + BLOCK] = sequence.random(min(BLOCK, n - start)).T
    return points[:, rng.permutation(n)]


@kernel(nogil=True)
def draw(cumulative: Floats, given: npt.NDArray[np.int64], uniform: Floats, out: npt.NDArray[Any]) -> None:
    """To ``out`` (n,): the first value whose cumulative probability exceeds its uniform."""
    size = cumulative.shape[1]
    for r in range(len(given)):
        row, u = given[r], uniform[r]
        low, high = 0, size - 1  # the value lies in low .. high
        while low < high:
            middle = (low + high) // 2
            if cumulative[row, middle] > u:
                high = middle
            else:
                low = middle + 1
        out[r] = low
