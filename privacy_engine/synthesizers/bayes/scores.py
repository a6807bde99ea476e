"""How informative a set of parents is about a child: mutual information, and R in exact integers.

Neighbour relation of every sensitivity here: one of n records replaced, n public. Where a person has up to m
of the records and all are replaced, m times as much; see ``privacy_engine.dp.contributions``.

And the private choice of a network's structure by such a score: one noisy max a pick.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import noisy_max, noisy_max_scale, split
from privacy_engine.synthesizers.bayes.structure import Candidates, Family, FamilyLimit, grow
from privacy_engine.tables.marginals import WeightedRecords, joint_codes

Codes = npt.NDArray[Any]  # small unsigned integers
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BITS = 40  # mutual information is selected in units of 2^-40 bits
_HALF_ULP = 2.0**-53


def mutual_information(records: WeightedRecords, candidates: Candidates) -> Floats:
    """(c,) I(child; parents) in bits, of the records' own distribution.

    Off by at most ``rounding_error``.
    """
    return np.asarray(
        _mutual_information(*_arrays(records, candidates), records.total) if len(candidates) else np.zeros(0)
    )


def integer_mutual_information(records: WeightedRecords, candidates: Candidates) -> Ints:
    """(c,) mutual information in whole units of 2^-40 bits, rounded down: what ``noisy_max`` works on."""
    return np.floor(np.ldexp(mutual_information(records, candidates), BITS)).astype(np.int64)


def mutual_information_sensitivities(rows: Floats, *, binary: bool) -> Floats:
    """Most by which the mutual information of n records changes where one is replaced, in bits.

    The bounds that PrivBayes (SIGMOD 2014) derives. They hold for n >= 2; the tests compare them with all
    neighbouring small tables.

    Args:
        rows: Values of n, any shape.
        binary: Whether the child or the joint parent set of every pair has two values; the smaller bound
            fails for 3 x 3.
    """
    n = rows
    if binary:
        return np.asarray(np.log2(n) / n + (n - 1) / n * np.log2(n / (n - 1)))
    return np.asarray(2 / n * np.log2((n + 1) / 2) + (n - 1) / n * np.log2((n + 1) / (n - 1)))


def mutual_information_sensitivity(rows: int, *, binary: bool) -> float:
    """The same for one number of records.

    >>> round(mutual_information_sensitivity(21_574, binary=True), 6)
    0.000734
    """
    return float(mutual_information_sensitivities(np.array(float(rows)), binary=binary))


def two_valued(sizes: Sequence[int]) -> bool:
    """Whether every pair of a child and parents from these attributes has a child of two values at most."""
    return max(sizes) <= 2


def integer_sensitivity(rows: int, cells: int, *, binary: bool, each: int = 1) -> int:
    """Most by which ``integer_mutual_information`` changes where ``each`` records are replaced.

    If the computed numbers are off by r at most, they change by S + 2 r, and rounding down adds less than one
    unit: |floor(a) - floor(b)| <= ceil(|a - b|). One unit more covers the rounding of this very formula.

    Args:
        rows: Number of records N.
        cells: Most cells of a table that is scored.
        binary: Whether the child or the joint parent set of every pair has two values, which allows a smaller
            bound.
        each: Number of records replaced together; S is that many times the sensitivity of one record.
    """
    change = each * mutual_information_sensitivity(rows, binary=binary) + 2 * rounding_error(rows, cells)
    return math.ceil(math.ldexp(change, BITS)) + 1


def rounding_error(rows: int, cells: int) -> float:
    """Bound on the error of ``mutual_information`` in bits.

    It is (F(x,p) - F(x) - F(p) + F(n)) / n with F = sum of c log2 c over the cells of a table. A term is off
    by a factor of 1 + 4u at most (u = 2^-53; log2 is within one unit in the last place, i.e. 2u), and a sum
    of t terms >= 0, added one after another, by 1 + (t + 4) u to first order; each F is at most n log2 n. The
    three tables have at most 3 min(cells, n) terms in all. Doubled for the terms of second order and the
    last few operations.
    """
    return 2 * (3 * min(cells, rows) + 24) * _HALF_ULP * math.log2(max(rows, 2))


def dependence(records: WeightedRecords, candidates: Candidates) -> Ints:
    """(c,) R of PrivBayes (2017), times 2 n^2: sum over cells of |n c(x, p) - c(x) c(p)|, exact.

    n^2 times the L1 distance between the joint distribution and the product of its margins; below 2^63 for
    n <= 2 * 10^9.
    """
    if not len(candidates):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(_dependence(*_arrays(records, candidates), records.total))


def dependence_sensitivity(rows: int) -> int:
    """Most by which ``dependence`` changes where one of n records is replaced: 6 n.

    n c(x, p) changes in two cells by n each: 2 n in all. And c(x) c(p) - c'(x) c'(p) =
    c(x) (c(p) - c'(p)) + (c(x) - c'(x)) c'(p), which sums to at most n * 2 + 2 * n. The paper's bound for R,
    3/n + 2/n^2, is 6 n + 4 in these units. Brute force over small tables finds no more than 4 n, but 4 n is
    wrong: two attributes of three values and 10,000 records change by 5.96 n (see the tests).
    """
    return 6 * rows


def once(score: Callable[[Candidates], Ints]) -> Callable[[Candidates], Ints]:
    """The same scores, each candidate's computed when it first comes up: for records that stay the same."""
    known = np.zeros(0, dtype=np.int64)

    def remembered(candidates: Candidates) -> Ints:
        nonlocal known
        new = candidates.ids >= len(known)
        known = np.concatenate([known, np.zeros(max(0, candidates.ids[-1] + 1 - len(known)), dtype=np.int64)])
        known[candidates.ids[new]] = score(candidates.take(new))
        return known[candidates.ids]

    return remembered


def _arrays(records: WeightedRecords, candidates: Candidates) -> tuple[Codes, Ints, Ints, Ints, Ints, Ints]:
    """The input of the loops; a group is a run of candidates with equal parents, whose code is built once."""
    changes = (candidates.parents[1:] != candidates.parents[:-1]).any(axis=1)
    groups = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(candidates)]]).astype(np.int64)
    return (
        records.codes,
        records.weights,
        records.sizes,
        np.ascontiguousarray(candidates.children),
        np.ascontiguousarray(candidates.parents),
        groups,
    )


@kernel(nogil=True)
def _tables(
    index: npt.NDArray[np.int32], cells: int, column: Codes, size: int, weights: Ints
) -> tuple[Ints, Ints, Ints]:
    """Joint counts (cells * size,), the child running fastest; those of the child and of the parents."""
    joint = np.zeros(cells * size, np.int64)
    of_child, of_parents = np.zeros(size, np.int64), np.zeros(cells, np.int64)
    for r in range(len(index)):
        joint[index[r] * np.int32(size) + np.int32(column[r])] += weights[r]
    for p in range(cells):
        for x in range(size):
            of_child[x] += joint[p * size + x]
            of_parents[p] += joint[p * size + x]
    return joint, of_child, of_parents


@kernel(nogil=True)
def _cells(sizes: Ints, members: Ints) -> int:
    cells = 1
    for a in members:
        if a >= 0:
            cells *= sizes[a]
    return cells


@kernel(nogil=True, inner=True)
def _c_log_c(counts: Ints) -> float:
    total = 0.0
    for c in counts:
        if c > 1:
            total += c * np.log2(np.float64(c))
    return total


@kernel(parallel=True)
def _mutual_information(
    codes: Codes, weights: Ints, sizes: Ints, children: Ints, parents: Ints, groups: Ints, n: int
) -> Floats:
    out = np.empty(len(children))
    whole = n * np.log2(np.float64(n))
    for g in nb.prange(len(groups) - 1):
        members = parents[groups[g]]
        index, cells = joint_codes(codes, members, sizes[members]), _cells(sizes, members)
        for i in range(groups[g], groups[g + 1]):
            child = children[i]
            joint, of_child, of_parents = _tables(index, cells, codes[child], sizes[child], weights)
            out[i] = (_c_log_c(joint) - _c_log_c(of_child) - _c_log_c(of_parents) + whole) / n
    return out


@kernel(parallel=True)
def _dependence(
    codes: Codes, weights: Ints, sizes: Ints, children: Ints, parents: Ints, groups: Ints, n: int
) -> Ints:
    out = np.empty(len(children), np.int64)
    for g in nb.prange(len(groups) - 1):
        members = parents[groups[g]]
        index, cells = joint_codes(codes, members, sizes[members]), _cells(sizes, members)
        for i in range(groups[g], groups[g + 1]):
            child = children[i]
            size = sizes[child]
            joint, of_child, of_parents = _tables(index, cells, codes[child], size, weights)
            total = 0
            for p in range(cells):
                for x in range(size):
                    total += abs(n * joint[p * size + x] - of_child[x] * of_parents[p])
            out[i] = total
    return out


Score = Callable[[WeightedRecords, Candidates], npt.NDArray[np.int64]]


def greedy_bayes(
    names: Sequence[str],
    records: WeightedRecords,
    limit: FamilyLimit,
    score: Score,
    *,
    sensitivity: int,
    epsilon: float,
) -> tuple[tuple[Family, ...], Spend]:
    """GreedyBayes on all records: the network, and what its selection spent, epsilon / (d - 1) a pick.

    Args:
        names: Attributes, shape (d,).
        records: All of them, for one record replaced.
        limit: Limit of parents and cells.
        score: Function from records and candidates to scores (c,) int64, higher is better.
        sensitivity: Most by which one score changes.
        epsilon: Epsilon of the whole selection.
    """
    sizes, picks = records.sizes.tolist(), len(names) - 1
    pick = split(epsilon, [1] * picks)[0]
    families = select_families(
        sizes, limit, once(partial(score, records)), epsilon=pick, sensitivity=sensitivity
    )
    return families, selection_spend(names, epsilon=epsilon, pick=pick, sensitivity=sensitivity, runs=picks)


def select_families(
    sizes: Sequence[int],
    limit: FamilyLimit,
    score: Callable[[Candidates], npt.NDArray[np.int64]],
    *,
    epsilon: float,
    sensitivity: int,
) -> tuple[Family, ...]:
    """A network of d families by d - 1 picks; the first attribute is drawn without looking at any record.

    Args:
        sizes: Number of values of each attribute, shape (d,).
        limit: Limit of parents and cells.
        score: Function from candidates to scores (c,) int64, higher is better.
        epsilon: Epsilon of each pick, one record replaced; the picks compose sequentially.
        sensitivity: Most by which one score changes where one record is replaced.
    """
    first = secrets.randbelow(len(sizes))
    return grow(
        sizes, first, limit, lambda pool: noisy_max(score(pool), epsilon=epsilon, sensitivity=sensitivity)
    )


def selection_spend(
    names: Sequence[str],
    *,
    epsilon: float,
    pick: float,
    sensitivity: int,
    runs: int,
    sample: tuple[int, int] | None = None,
    group: int = 1,
) -> Spend:
    """The entry in the books for picks of the same noise.

    Args:
        names: Names of the attributes that the picks choose among.
        epsilon: Epsilon that the picks spend together, after amplification.
        pick: Epsilon of one of them, on the records that it sees.
        sensitivity: Sensitivity of the scores, in their units.
        runs: Number of picks.
        sample: Numbers (m, n), if the picks saw m of n records; None: they saw all.
        group: Number of records that are replaced with one person, as in ``Spend``.
    """
    return Spend(
        mechanism="noisy_max",
        target=f"structure over {', '.join(names)}",
        epsilon=epsilon,
        sensitivity=sensitivity,
        scale=noisy_max_scale(epsilon=pick, sensitivity=sensitivity),
        runs=runs,
        sample=sample,
        group=group,
    )
