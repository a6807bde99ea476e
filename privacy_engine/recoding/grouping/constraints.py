"""Privacy models other than k as compiled rules: is this class of records allowed?

A method checks this for every cut, merge or move, so the rules are arrays for a numba kernel, and a class is
the vector of its sensitive values' counts. The kernels restate the definitions of
`privacy_engine.verification.models`, whose own `holds` still decides on what is released:

* distinct and entropy l-diversity, recursive (c,l)-diversity: Machanavajjhala et al. (2007), definitions
  4.1 to 4.3;
* t-closeness: Li, Li and Venkatasubramanian (2007), section 4, earth mover's distance with equal, ordered
  and hierarchical ground distance;
* (alpha,k)-anonymity: Wong et al. (2006), definition 3;
* basic and enhanced beta-likeness: Cao and Karras (2012), definitions 2 and 3;
* delta-disclosure privacy: Brickell and Shmatikov (2008), definition 4.

Every rule is closed under union: two allowed classes may be merged.

The three earth mover's distances between the sensitive values of one class and of the whole table take the
counts (m,) of a class of `size` > 0 records and the table's shares `prior` (m,), and give a distance in
[0, 1].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel

TOLERANCE = 1e-9  # rounding must not refuse a class whose figure is the limit itself


class RuleKind(IntEnum):
    """Which definition a rule applies, and the meaning of its `limit` (and `rank`)."""

    DISTINCT = 0  # limit l
    ENTROPY = 1  # limit l
    RECURSIVE = 2  # limit c, rank l
    CLOSE_EQUAL = 3  # limit t
    CLOSE_ORDERED = 4  # limit t
    CLOSE_HIERARCHICAL = 5  # limit t
    ALPHA = 6  # limit alpha
    BETA_BASIC = 7  # limit beta
    BETA_ENHANCED = 8  # limit beta
    DELTA = 9  # limit delta


# These compare the shares of the values with those of all that is released.
COMPARED = (
    RuleKind.CLOSE_EQUAL,
    RuleKind.CLOSE_ORDERED,
    RuleKind.CLOSE_HIERARCHICAL,
    RuleKind.BETA_BASIC,
    RuleKind.BETA_ENHANCED,
    RuleKind.DELTA,
)
# Of these the shares of the values count, so that merging what fails ends in a few giant classes.
DISTRIBUTIONS = (RuleKind.ENTROPY, RuleKind.RECURSIVE, *COMPARED)


class Constraints(NamedTuple):
    """M rules over s sensitive attributes whose values' counts are concatenated.

    kind: (M,) int64, see `RuleKind`.
    attribute: (M,) int64, index of the rule's sensitive attribute.
    limit: (M,) float64, first parameter.
    rank: (M,) int64, the l of recursive (c,l)-diversity, else 0.
    start: (s + 1,) int64; attribute a owns ``start[a] : start[a + 1]`` of counts and `prior`.
    prior: (m_total,) float64, share of a value among all records, per attribute.
    node_start: (s + 1,) int64; attribute a owns ``node_start[a] : node_start[a + 1]`` of the trees.
    parent: int32; parent of a node as a node of the same attribute; leaves (= codes) first, a parent after
        its children, the root last and its own parent. An attribute without hierarchy owns no nodes.
    height: float64; level of a node / level of the root: the ground distance of leaves that meet there.
    """

    kind: npt.NDArray[np.int64]
    attribute: npt.NDArray[np.int64]
    limit: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    prior: npt.NDArray[np.float64]
    node_start: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int32]
    height: npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One privacy model on one sensitive attribute; parameters as in `RuleKind`."""

    kind: RuleKind
    limit: float
    attribute: int = 0
    rank: int = 0


@dataclass(frozen=True, kw_only=True)
class SensitiveTree:
    """Hierarchy of a sensitive attribute: `parent` and `height` of its nodes, as in `Constraints`."""

    parent: npt.NDArray[np.int32]
    height: npt.NDArray[np.float64]


def no_constraints() -> Constraints:
    """The empty set of rules: every class is allowed, nothing is counted."""
    return pack_rules([], [], [])


def pack_rules(
    rules: Sequence[Rule],
    counts: Sequence[npt.NDArray[np.int64]],
    trees: Sequence[SensitiveTree | None],
) -> Constraints:
    """The rules as arrays.

    Args:
        rules: Any number; each needs its attribute's `counts`, hierarchical closeness also its tree.
        counts: Per sensitive attribute (m,), records of the whole table with each value of its domain.
        trees: Per sensitive attribute its hierarchy, or None.
    """
    nodes = [(t.parent, t.height) if t is not None else (np.zeros(0), np.zeros(0)) for t in trees]
    return Constraints(
        kind=np.array([int(rule.kind) for rule in rules], np.int64),
        attribute=np.array([rule.attribute for rule in rules], np.int64),
        limit=np.array([rule.limit for rule in rules], np.float64),
        rank=np.array([rule.rank for rule in rules], np.int64),
        start=np.cumsum([0, *(len(c) for c in counts)], dtype=np.int64),
        prior=np.concatenate([np.zeros(0), *(c / max(int(c.sum()), 1) for c in counts)]),
        node_start=np.cumsum([0, *(len(parent) for parent, _ in nodes)], dtype=np.int64),
        parent=np.concatenate([np.zeros(0), *(parent for parent, _ in nodes)]).astype(np.int32),
        height=np.concatenate([np.zeros(0), *(height for _, height in nodes)]),
    )


def bounds_distribution(constraints: Constraints) -> bool:
    """Whether a rule is about the shares of the sensitive values."""
    return bool(np.isin(constraints.kind, DISTRIBUTIONS).any())


def compares_with_table(constraints: Constraints) -> bool:
    """Return whether a rule compares a class with everything released, so that suppression affects it."""
    return bool(np.isin(constraints.kind, COMPARED).any())


@kernel()
def admits(counts: npt.NDArray[np.int32], size: int, constraints: Constraints) -> bool:
    """Whether a class of `size` records with these counts (m_total,) meets every rule; an empty one does."""
    return first_refusal(counts, size, constraints) < 0


@kernel()
def first_refusal(counts: npt.NDArray[np.int32], size: int, constraints: Constraints) -> int:
    """Index of the first rule that the class breaks, -1 if it meets all."""
    if size == 0:
        return -1
    for rule in range(constraints.kind.shape[0]):
        a = constraints.attribute[rule]
        own = counts[constraints.start[a] : constraints.start[a + 1]]
        prior = constraints.prior[constraints.start[a] : constraints.start[a + 1]]
        kind = constraints.kind[rule]
        limit = constraints.limit[rule]
        if kind <= RuleKind.RECURSIVE:
            kept = _diverse(kind, own, size, limit, constraints.rank[rule])
        elif kind <= RuleKind.CLOSE_HIERARCHICAL:
            kept = earth_movers_distance(kind, own, size, prior, a, constraints) <= limit + _slack(limit)
        else:
            kept = _bounded(kind, own, size, prior, limit)
        if not kept:
            return rule
    return -1


@kernel(inner=True)
def _slack(limit: float) -> float:
    """Tolerance for rounding in a figure: exactly as much as the models allow."""
    return TOLERANCE * max(1.0, limit)


@kernel(inner=True)
def _diverse(kind: int, counts: npt.NDArray[np.int32], size: int, limit: float, rank: int) -> bool:
    """l-diversity: distinct values >= l; exp(entropy) >= l; r_1 < c (r_l + ... + r_m)."""
    if kind == RuleKind.DISTINCT:
        distinct = 0
        for count in counts:
            distinct += count > 0
        return bool(distinct >= limit)
    if kind == RuleKind.ENTROPY:
        entropy = 0.0
        for count in counts:
            if count > 0:
                entropy -= count / size * np.log(count / size)
        return bool(np.exp(entropy) >= limit - _slack(limit))
    ordered = np.sort(counts)
    tail = 0
    for i in range(ordered.shape[0] - rank + 1):
        tail += ordered[i]
    return tail > 0 and bool(ordered[-1] / tail < limit)


@kernel(inner=True)
def earth_movers_distance(
    kind: int,
    counts: npt.NDArray[np.int32],
    size: int,
    prior: npt.NDArray[np.float64],
    a: int,
    constraints: Constraints,
) -> float:
    """The earth mover's distance of the rule on attribute a."""
    if kind == RuleKind.CLOSE_EQUAL:
        return float(equal_distance(counts, size, prior))
    if kind == RuleKind.CLOSE_ORDERED:
        return float(ordered_distance(counts, size, prior))
    first, last = constraints.node_start[a], constraints.node_start[a + 1]
    parent, height = constraints.parent[first:last], constraints.height[first:last]
    return float(hierarchical_distance(counts, size, prior, parent, height))


@kernel()
def _bounded(
    kind: int, counts: npt.NDArray[np.int32], size: int, prior: npt.NDArray[np.float64], limit: float
) -> bool:
    """Bounds on the share q of each single value, most of them relative to its share p in the table."""
    for value in range(counts.shape[0]):
        q = counts[value] / size
        p = prior[value]
        if kind == RuleKind.ALPHA:
            if q > limit + _slack(limit):
                return False
        elif kind == RuleKind.DELTA:
            # Definition 4 requires |ln(q / p)| < delta: a value that a class lacks is disclosed as absent.
            if (p > 0.0) != (q > 0.0) or (p > 0.0 and abs(np.log(q / p)) >= limit):
                return False
        elif q > p:
            if p == 0.0 or (q - p) / p > limit + _slack(limit):
                return False
            if kind == RuleKind.BETA_ENHANCED and (q - p) / p > -np.log(p) * (1.0 + TOLERANCE):
                return False
    return True


@kernel()
def shortfall(counts: npt.NDArray[np.int32], size: int, constraints: Constraints) -> float:
    """Return how far a class of `size` > 0 records is from meeting the rules, >= 0.

    The sum over rules of the shortfall of the distance, the shares, or the entropy in nats; for distinct
    values the missing share of l. 0 if all rules are met; a strict rule may be broken at 0 as well.
    """
    total = 0.0
    for rule in range(constraints.kind.shape[0]):
        a = constraints.attribute[rule]
        own = counts[constraints.start[a] : constraints.start[a + 1]]
        prior = constraints.prior[constraints.start[a] : constraints.start[a + 1]]
        kind, limit = constraints.kind[rule], constraints.limit[rule]
        if kind == RuleKind.DISTINCT:
            distinct = 0
            for count in own:
                distinct += count > 0
            total += max(0.0, limit - distinct) / limit
        elif kind == RuleKind.ENTROPY:
            entropy = 0.0
            for count in own:
                if count > 0:
                    entropy -= count / size * np.log(count / size)
            total += max(0.0, np.log(limit) - entropy)
        elif kind == RuleKind.RECURSIVE:
            ordered = np.sort(own)
            tail = ordered[: len(ordered) - constraints.rank[rule] + 1].sum()
            total += max(0.0, (ordered[-1] - limit * tail) / size)
        elif kind <= RuleKind.CLOSE_HIERARCHICAL:
            total += max(
                0.0, earth_movers_distance(kind, own, size, prior, a, constraints) - limit - TOLERANCE
            )
        else:
            total += _excess(kind, own, size, prior, limit)
    return total


@kernel()
def _excess(
    kind: int, counts: npt.NDArray[np.int32], size: int, prior: npt.NDArray[np.float64], limit: float
) -> float:
    """Return by how much shares are above, and for delta-disclosure below, what a rule allows."""
    total = 0.0
    for value in range(len(counts)):
        q, p = counts[value] / size, prior[value]
        most, least = limit, 0.0
        if kind == RuleKind.DELTA:
            most, least = p * np.exp(limit), p * np.exp(-limit)
        elif kind != RuleKind.ALPHA:
            most = p * (1.0 + limit)
            if kind == RuleKind.BETA_ENHANCED and p > 0.0:
                most = min(most, p * (1.0 - np.log(p)))
        total += max(0.0, q - most - TOLERANCE) + max(0.0, least - q)
    return total


@kernel()
def class_counts(
    labels: npt.NDArray[np.int64],
    sensitive: npt.NDArray[np.int32],
    start: npt.NDArray[np.int64],
    classes: int,
) -> npt.NDArray[np.int32]:
    """Counts (classes, m_total) of the sensitive values of each class.

    Args:
        labels: Class of a record, -1 = suppressed: not counted, shape (n,).
        sensitive: Codes, shape (s, n).
        start: Offsets as in `Constraints`, shape (s + 1,); ``[0]`` counts nothing.
        classes: Number of classes.
    """
    counts = np.zeros((classes, start[-1]), np.int32)
    for a in range(start.shape[0] - 1):
        for i in range(labels.shape[0]):
            if labels[i] >= 0:
                counts[labels[i], start[a] + sensitive[a, i]] += 1
    return counts


@kernel()
def equal_distance(counts: npt.NDArray[np.int32], size: int, prior: npt.NDArray[np.float64]) -> float:
    """All values equally far apart: total variation."""
    distance = 0.0
    for value in range(counts.shape[0]):
        distance += abs(counts[value] / size - prior[value])
    return distance / 2.0


@kernel()
def ordered_distance(counts: npt.NDArray[np.int32], size: int, prior: npt.NDArray[np.float64]) -> float:
    """Values on a line: mean over the gaps between values that the table holds of the mass that crosses."""
    crossing, distance, held = 0.0, 0.0, 0
    for value in range(counts.shape[0]):
        if prior[value] > 0.0:  # a value that no record has is no step between two others
            held += 1
            crossing += counts[value] / size - prior[value]
            distance += abs(crossing)  # beyond the last value nothing crosses: it adds 0
    return float(distance / max(held - 1, 1))


@kernel()
def hierarchical_distance(
    counts: npt.NDArray[np.int32],
    size: int,
    prior: npt.NDArray[np.float64],
    parent: npt.NDArray[np.int32],
    height: npt.NDArray[np.float64],
) -> float:
    """Values in a tree: at each node, what its children can balance among themselves.

    The sum over nodes N of height(N) / H * min(pos_extra(N), neg_extra(N)); `parent` and `height`
    (nodes,) as in `Constraints`.
    """
    surplus = np.zeros(parent.shape[0])
    lack = np.zeros(parent.shape[0])
    distance = 0.0
    for node in range(parent.shape[0]):  # children come before their parents
        if node < counts.shape[0]:
            extra = counts[node] / size - prior[node]
        else:
            distance += height[node] * min(surplus[node], lack[node])
            extra = surplus[node] - lack[node]
        if extra > 0.0:
            surplus[parent[node]] += extra
        else:
            lack[parent[node]] -= extra
    return distance
