"""Private-PGM in numpy: a graphical model from noisy marginals (McKenna, Sheldon, Miklau 2019).

The model is p(x) ~ exp(sum of theta_r(x_r)) over the measured cliques r: of all distributions that are as
near to the measurements, in weighted squares, as one can be, the one of largest entropy. It is found by
mirror descent with a line search (their algorithm 1). Each step needs the model's marginals, which belief
propagation on a junction tree gives.

The authors' library (`mbi` 1.1, https://github.com/ryan112358/private-pgm, MIT licence) compiles each new
model by jax, and AIM makes one in each round: that took most of its time. Nothing of ours is imported here.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Clique = tuple[int, ...]  # attributes, in the order of `ordered`
Sizes = tuple[int, ...]  # values of each attribute
MEGABYTE = 2**20
LEAST_GAIN = 1e-5  # of the loss, in ten steps: less ends the descent
MOST_HALVINGS = 25


@dataclass(frozen=True)
class Measurement:
    """Noisy counts of a clique, one axis an attribute; standard deviation of the noise."""

    clique: Clique
    counts: np.ndarray
    sigma: float


def ordered(sizes: Sizes, attributes: Sequence[int]) -> Clique:
    """Long attributes last, so that numpy's inner loops are long."""
    return tuple(sorted(attributes, key=lambda a: (sizes[a], a)))


@dataclass(frozen=True)
class Tree:
    """A junction tree.

    Attributes:
        sizes: values of each attribute.
        cliques: the first is the root, each other comes after its parent.
        parents: of each clique, by number; the root has -1.
    """

    sizes: Sizes
    cliques: Sequence[Clique]
    parents: Sequence[int]

    def separator(self, number: int) -> Clique:
        """What a clique shares with its parent; the root shares nothing."""
        shared = set(self.cliques[self.parents[number]]) if number else set()
        return tuple(a for a in self.cliques[number] if a in shared)

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Of a table of these attributes."""
        return tuple(self.sizes[a] for a in clique)

    def home(self, clique: Clique) -> int | None:
        """The smallest clique that holds this one."""
        holds = [i for i, other in enumerate(self.cliques) if set(clique) <= set(other)]
        return min(holds, key=lambda i: math.prod(self.shape(self.cliques[i])), default=None)

    def neighbours(self, number: int) -> list[int]:
        """Its parent and its children."""
        children = [i for i, parent in enumerate(self.parents) if parent == number]
        return [*([self.parents[number]] if number else []), *children]


def junction_tree(sizes: Sizes, cliques: Sequence[Clique]) -> Tree:
    """The largest cliques, joined where they share most (Prim)."""
    left = sorted(largest_cliques(sizes, cliques), key=lambda bits: -_cells(sizes, bits))
    made, parents = [left.pop(0)], [-1]
    while left:
        at, parent = max(
            itertools.product(range(len(left)), range(len(made))),
            key=lambda pair: (left[pair[0]] & made[pair[1]]).bit_count(),
        )
        made.append(left.pop(at))
        parents.append(parent)
    return Tree(sizes, [ordered(sizes, _members(bits)) for bits in made], parents)


def model_megabytes(sizes: Sizes, cliques: Sequence[Clique]) -> float:
    """Of the tables of a junction tree."""
    return sum(_cells(sizes, bits) for bits in largest_cliques(sizes, cliques)) * 8 / MEGABYTE


def largest_cliques(sizes: Sizes, cliques: Sequence[Clique]) -> list[int]:
    """Of a triangulated graph, as sets of bits: the smaller one of two greedy orders of elimination."""
    near = [1 << a for a in range(len(sizes))]
    for clique in cliques:
        for a in clique:
            near[a] |= sum(1 << b for b in clique)
    found = [_eliminated(sizes, near, by_fill=by_fill) for by_fill in (False, True)]
    return min(found, key=lambda made: sum(_cells(sizes, bits) for bits in made))


def _eliminated(sizes: Sizes, near: Sequence[int], *, by_fill: bool) -> list[int]:
    near, left = list(near), list(range(len(sizes)))
    made: list[int] = []

    def cost(a: int) -> tuple[int, int]:
        missing = sum((near[a] & ~near[b]).bit_count() for b in _members(near[a])) if by_fill else 0
        return missing, _cells(sizes, near[a])

    while left:
        a = min(left, key=cost)
        left.remove(a)
        if not any(near[a] & other == near[a] for other in made):
            made.append(near[a])
        for b in left:
            if near[a] >> b & 1:
                near[b] = (near[b] | near[a]) & ~(1 << a)
    return made


@functools.cache
def _members(bits: int) -> Clique:
    return tuple(a for a in range(bits.bit_length()) if bits >> a & 1)


@functools.cache
def _cells(sizes: Sizes, bits: int) -> int:
    return math.prod(sizes[a] for a in _members(bits))


def summed(table: np.ndarray, have: Clique, want: Clique) -> np.ndarray:
    """A table's marginal, its attributes in the order that they have."""
    keep = set(want)
    return table.sum(axis=tuple(i for i, a in enumerate(have) if a not in keep))


def widened(table: np.ndarray, have: Clique, want: Clique) -> np.ndarray:
    """With axes of length one for the attributes that it does not have."""
    known = dict(zip(have, table.shape, strict=True))
    return table.reshape([known.get(a, 1) for a in want])


def quotient(table: np.ndarray, have: Clique, by: np.ndarray, over: Clique) -> np.ndarray:
    """A table divided by one of fewer attributes; where that is zero, so is the table."""
    return table / widened(np.where(by > 0, by, 1.0), over, have)


def propagated(tree: Tree, logs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Marginals of the cliques of p ~ exp(sum of the logs), each of sum one."""
    tables = [np.exp(log - log.max()) for log in logs]
    for i in range(len(tables) - 1, 0, -1):  # leaves first: what remains is given the separator
        clique, parent, shared = tree.cliques[i], tree.parents[i], tree.separator(i)
        message = np.asarray(summed(tables[i], clique, shared))
        tables[i] = quotient(tables[i], clique, message, shared)
        tables[parent] = tables[parent] * widened(message / message.max(), shared, tree.cliques[parent])
    tables[0] = tables[0] / tables[0].sum()
    for i in range(1, len(tables)):
        clique, parent, shared = tree.cliques[i], tree.parents[i], tree.separator(i)
        share = np.asarray(summed(tables[parent], tree.cliques[parent], shared))
        tables[i] = tables[i] * widened(share, shared, clique)
    return tables


@dataclass(frozen=True)
class Model:
    """A distribution of this many records.

    Attributes:
        tree: its junction tree.
        tables: marginal of each clique of the tree, of sum one.
        total: records.
        theta: measured clique -> its parameters.
    """

    tree: Tree
    tables: Sequence[np.ndarray]
    total: int
    theta: Mapping[Clique, np.ndarray]

    def marginal(self, clique: Clique) -> np.ndarray:
        """Expected counts."""
        home = self.tree.home(clique)
        if home is not None:
            return self.total * summed(self.tables[home], self.tree.cliques[home], clique)
        root = max(range(len(self.tables)), key=lambda i: len(set(clique) & set(self.tree.cliques[i])))
        table, axes = self._beyond(root, None, frozenset(clique))
        return self.total * table.transpose([axes.index(a) for a in clique])

    def _beyond(self, at: int, above: int | None, wanted: frozenset[int]) -> tuple[np.ndarray, Clique]:
        """p(what is wanted in this part of the tree | what this clique shares with the one above).

        What is summed out of a clique is summed out before the tables are multiplied.
        """
        clique = self.tree.cliques[at]
        shared = set(clique) & set(self.tree.cliques[above]) if above is not None else set()
        parts = [self._beyond(i, at, wanted) for i in self.tree.neighbours(at) if i != above]
        parts = [(table, axes) for table, axes in parts if not set(axes) <= set(clique)]
        brought = {a for _, axes in parts for a in axes}
        axes = tuple(a for a in clique if a in shared | wanted | brought)
        table = summed(self.tables[at], clique, axes)
        if above is not None:
            held = tuple(a for a in axes if a in shared)
            table = quotient(table, axes, np.asarray(summed(table, axes, held)), held)
        out = tuple(shared | (wanted & (set(axes) | brought)))
        factors = itertools.chain([table, list(axes)], *([part, list(have)] for part, have in parts))
        return np.einsum(*factors, list(out), optimize=True), out

    def records(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """(attributes, count) codes: in each clique the counts that are expected, but for rounding."""
        tree = self.tree
        codes = np.zeros((len(tree.sizes), count), dtype=np.int64)
        for i, clique in enumerate(tree.cliques):
            held = tree.separator(i)
            new = tuple(a for a in clique if a not in held)
            table = self.tables[i].transpose([clique.index(a) for a in (*held, *new)])
            given = table.reshape(math.prod(tree.shape(held)), -1)
            group = np.zeros(count, dtype=np.int64)
            if held:
                group = np.ravel_multi_index(tuple(codes[list(held)]), tree.shape(held))
            drawn = systematic(given, group, rng)
            codes[list(new)] = np.unravel_index(drawn, tree.shape(new))
        return codes


def systematic(weights: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column for each record by the weights in its group's row, at equal steps within the group."""
    order = np.lexsort((rng.random(len(group)), group))
    groups, place, sizes = np.unique(group[order], return_inverse=True, return_counts=True)
    rank = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = (rank + rng.random(len(groups))[place]) / sizes[place]
    ends = np.cumsum(weights[groups], axis=1)
    ends = ends / ends[:, -1:] + np.arange(len(groups))[:, None]
    column = np.searchsorted(ends.ravel(), at + place, side="right") - place * weights.shape[1]
    drawn = np.empty(len(group), dtype=np.int64)
    drawn[order] = np.clip(column, 0, weights.shape[1] - 1)
    return drawn


def estimated(
    sizes: Sizes,
    measurements: Sequence[Measurement],
    total: int,
    steps: int,
    start: Mapping[Clique, np.ndarray] | None = None,
) -> Model:
    """The model that is nearest to what was measured.

    Args:
        sizes: values of each attribute.
        measurements: of cliques.
        total: records.
        steps: Most steps of mirror descent.
        start: parameters of a model before; zero where it has none.
    """
    targets, weights = _pooled(measurements, total)
    tree = junction_tree(sizes, list(targets))
    homes = {clique: tree.home(clique) for clique in targets}

    def tables_of(theta: Mapping[Clique, np.ndarray]) -> list[np.ndarray]:
        logs = [np.zeros(tree.shape(clique)) for clique in tree.cliques]
        for clique, table in theta.items():
            logs[homes[clique]] += widened(table, clique, tree.cliques[homes[clique]])
        return propagated(tree, logs)

    def errors_of(tables: Sequence[np.ndarray]) -> dict[Clique, np.ndarray]:
        return {c: summed(tables[i], tree.cliques[i], c) - targets[c] for c, i in homes.items()}

    def loss_of(errors: Mapping[Clique, np.ndarray]) -> float:
        return sum(weights[c] / 2 * float((error**2).sum()) for c, error in errors.items())

    theta = {c: (start or {}).get(c, np.zeros(tree.shape(c))) for c in targets}
    tables = tables_of(theta)
    errors = errors_of(tables)
    loss, rate, before = loss_of(errors), 1.0, math.inf
    for step in range(steps):
        if step % 10 == 0:
            if before - loss <= LEAST_GAIN * loss:
                break
            before = loss
        for _ in range(MOST_HALVINGS):
            tried = {c: theta[c] - rate * weights[c] * errors[c] for c in targets}
            made = tables_of(tried)
            left = errors_of(made)
            promised = sum(weights[c] * float((errors[c] * (errors[c] - left[c])).sum()) for c in targets)
            if loss - loss_of(left) >= promised / 2:
                break
            rate /= 2
        else:
            break
        theta, tables, errors, loss, rate = tried, made, left, loss_of(left), 2 * rate
    return Model(tree, tables, total, theta)


def _pooled(
    measurements: Sequence[Measurement], total: int
) -> tuple[dict[Clique, np.ndarray], dict[Clique, float]]:
    """Clique -> shares, averaged by inverse variance; -> inverse variance, at most one."""
    sums: dict[Clique, np.ndarray] = {}
    inverse: dict[Clique, float] = {}
    for m in measurements:
        sums[m.clique] = sums.get(m.clique, 0.0) + m.counts / m.sigma**2
        inverse[m.clique] = inverse.get(m.clique, 0.0) + 1 / m.sigma**2
    most = max(inverse.values())
    shares = {c: table / (inverse[c] * total) for c, table in sums.items()}
    return shares, {c: weight / most for c, weight in inverse.items()}
