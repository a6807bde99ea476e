"""How much of the source a recoding keeps; one function per number, named for it.

All are computed over all source records. A suppressed record lost everything: it counts as released
with the whole domain in each attribute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from privacy_engine.measures.recoding import Recoding
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import span_costs
from privacy_engine.tables.hierarchy import Hierarchy

FloatArray = npt.NDArray[np.float64]
_AT_ONCE = 2**18  # records of all queries that are answered at a time


class Charge(StrEnum):
    """The cost of a class for several values of a tree attribute; state it with every GCP."""

    LCA = "lca"  # the leaves under their lowest common ancestor, as the hierarchy's label would reveal
    OWN = "own"  # the values themselves, as the set {a, b} reveals


def class_losses(recoding: Recoding, charge: Charge | str = Charge.LCA) -> FloatArray:
    """(c, q) NCP of one record of each class, in 0 .. 1.

    Xu et al. (2006), section 3: an ordered attribute loses ``(z - y) / |A|`` for the interval ``[y, z]``,
    a tree attribute ``size(u) / |A|``, 0 for a single value. ``|A|`` is the public domain where the
    schema gives one, else the domain of the table. A class of nulls and values of an ordered attribute lost
    all of it: 1.
    """
    q = len(recoding.encoded.domains)
    losses = span_costs(*recoding.spans, recoding.encoded.geometry(np.ones(q)))
    if Charge(charge) is Charge.OWN:
        for j, domain in enumerate(recoding.encoded.domains):
            if isinstance(domain, Hierarchy):
                held = np.bincount(recoding.members(j)[0], minlength=recoding.classes)
                losses[:, j] = np.where(held > 1, held / len(domain.values), 0.0)
    return losses


def loss_sums(recoding: Recoding, charge: Charge | str = Charge.LCA) -> FloatArray:
    """NCP of all released records together, (q,); the values of a table's parts add up."""
    return np.asarray(recoding.sizes @ class_losses(recoding, charge), dtype=np.float64)


def ncp(recoding: Recoding, charge: Charge | str = Charge.LCA) -> FloatArray:
    """(q,) normalised certainty penalty: mean loss of each quasi-identifier, 0 (kept) .. 1 (gone).

    Xu, Wang, Pei, Wang, Shi and Fu (2006), "Utility-based anonymization using local recoding".
    """
    losses = loss_sums(recoding, charge)
    return np.asarray((losses + recoding.suppressed) / len(recoding.encoded), dtype=np.float64)


def gcp(recoding: Recoding, charge: Charge | str = Charge.LCA) -> float:
    """Global certainty penalty: mean NCP over all cells of the quasi-identifiers, 0 .. 1.

    Ghinita, Karras, Kalnis and Mamoulis (2007), "Fast data anonymization with low information loss".
    """
    return float(ncp(recoding, charge).mean())


def ilp(recoding: Recoding, weights: npt.ArrayLike) -> float:
    """Information loss penalty of the table: sum over records of ``sum_ij w_ij loss_j``.

    Zhu, Zhao and Wang (2010), section 3.2. A record's loss in attribute j does not depend on the
    sensitive value i, so only the column sums of the weights matter.

    Args:
        recoding: Recoding of the quasi-identifiers that is measured.
        weights: Weights w_ij of sensitive value i and quasi-identifier j, summing to 1, shape (m, q).

    Raises:
        ValueError: If the weights have another shape, are negative or do not sum to 1.
    """
    w, q = np.asarray(weights, dtype=np.float64), len(recoding.encoded.domains)
    if w.ndim != 2 or w.shape[1] != q:
        raise ValueError(f"weights must be (sensitive values, {q} quasi-identifiers), got shape {w.shape}")
    if (w < 0).any() or not np.isclose(w.sum(), 1.0):
        raise ValueError(f"weights must be >= 0 and sum to 1, got a sum of {w.sum():.6g}")
    return float(len(recoding.encoded) * (ncp(recoding, Charge.LCA) @ w.sum(axis=0)))


def discernibility(recoding: Recoding) -> float:
    """Sum over records of the number of indistinguishable records: ``sum |E|^2 + n`` per suppressed record.

    Bayardo and Agrawal (2005), "Data privacy through optimal k-anonymization", equation 1.
    """
    sizes = recoding.sizes.astype(np.float64)
    return float(sizes @ sizes + recoding.suppressed * len(recoding.encoded))


def average_class_size(recoding: Recoding) -> float:
    """Mean number of released records per class; 0 without classes.

    LeFevre, DeWitt and Ramakrishnan (2006), C_AVG, without its division by k: a recoding knows no k.
    """
    return float(recoding.sizes.mean()) if recoding.classes else 0.0


def suppressed_cells(recoding: Recoding) -> int:
    """Quasi-identifier cells that do not show their original value, those of suppressed records included."""
    lo, hi = recoding.spans
    leaves = [len(d.values) for d in recoding.encoded.domains]
    changed = (lo != hi) | (lo >= np.array(leaves))  # an interval, or a node above the leaves
    return int(recoding.sizes @ changed.sum(axis=1)) + recoding.suppressed * len(leaves)


def non_uniform_entropy(recoding: Recoding) -> float:
    """Mean over attributes of the share of its entropy that is lost, 0 .. 1.

    A cell with original value a, released as the set of values B, loses ``-log2 Pr(a | B)``, with
    probabilities from the source; the sum over records is divided by that of full suppression, n H(A).
    Gionis and Tassa (2009), "k-anonymization with minimal loss of information", after de Waal and
    Willenborg (1999). For global recoding it is H(original | released) / H(original); for local
    recoding that quotient can fall when classes merge, this sum cannot.

    Deviation: the division, so that attributes are comparable. An attribute with one value has no entropy to
    lose; there the share of suppressed records is used instead.
    """
    codes, n = recoding.encoded.codes, len(recoding.encoded)
    lost = []
    for j, (cover, domain) in enumerate(zip(covers(recoding), recoding.encoded.domains, strict=True)):
        counts = np.bincount(codes[:, j], minlength=len(domain.values)).astype(np.float64)
        surprise = -np.log(np.maximum(counts, 1.0) / n)
        full = float(counts @ surprise)
        if not full:
            lost.append(recoding.suppressed / n)
            continue
        kept = counts - np.bincount(codes[recoding.labels < 0, j], minlength=len(counts))
        remains = float(kept @ surprise) + float(recoding.sizes @ np.log(cover.total(counts) / n))
        gone = float((counts - kept) @ surprise)
        lost.append(min(max((remains + gone) / full, 0.0), 1.0))  # only rounding can leave the range
    return float(np.mean(lost))


def query_error(
    recoding: Recoding, rng: np.random.Generator, *, queries: int = 200, attributes: int = 2
) -> float:
    """Median relative error of counting queries that are answered from the release.

    A query asks how many records lie in a region over some quasi-identifiers. It is drawn around a
    random record, so its true answer is at least 1: on an ordered attribute the interval from the
    record's value to another record's, only the value if one of both is null; on a tree a random
    ancestor below the root. The answer from
    the release treats the records of a class as uniform over the values that its cell covers, and
    cannot see suppressed records. Zhang, Koudas, Srivastava and Yu (2007), section 6.

    Args:
        recoding: Recoding of the quasi-identifiers that is measured.
        rng: Draws the queries.
        queries: Number of queries.
        attributes: Quasi-identifiers in each query; all, if there are fewer.

    Raises:
        ValueError: If queries or attributes is below 1.
    """
    if queries < 1 or attributes < 1:
        raise ValueError(f"queries and attributes must be >= 1, got {queries} and {attributes}")
    encoded, cells = recoding.encoded, covers(recoding)
    sizes = [len(domain.values) for domain in encoded.domains]
    covered = [cell.total(np.ones(size)) for cell, size in zip(cells, sizes, strict=True)]
    regions = [_region(encoded, rng, attributes) for _ in range(queries)]
    step = max(1, _AT_ONCE // max(len(encoded), *sizes))
    errors = [_errors(recoding, cells, covered, regions[i : i + step]) for i in range(0, queries, step)]
    return float(np.median(np.concatenate(errors)))


def _region(encoded: EncodedTable, rng: np.random.Generator, attributes: int) -> dict[int, tuple[int, int]]:
    """Draw a query: the first and last code of each of its attributes, on a tree a level and a node of it."""
    codes = encoded.codes
    n, q = codes.shape
    centre, other = rng.integers(n, size=2)
    region = {}
    for j in rng.choice(q, size=min(attributes, q), replace=False).tolist():
        domain = encoded.domains[j]
        if isinstance(domain, Hierarchy):
            level = int(rng.integers(domain.height))
            region[j] = level, int(domain.nodes[codes[centre, j], level])
            continue
        low, high = sorted((int(codes[centre, j]), int(codes[other, j])))
        if high >= domain.known:  # a null is in no interval
            low = high = int(codes[centre, j])
        region[j] = low, high
    return region


def _errors(
    recoding: Recoding,
    cells: Sequence["Cover"],
    covered: Sequence[FloatArray],
    regions: Sequence[Mapping[int, tuple[int, int]]],
) -> FloatArray:
    """(m,) relative errors of the queries on some regions; ``covered`` has each cell's number of values."""
    encoded = recoding.encoded
    inside = np.ones((len(regions), len(encoded)), dtype=np.bool_)
    share = np.ones((len(regions), recoding.classes))
    for j, (cell, domain) in enumerate(zip(cells, encoded.domains, strict=True)):
        those = [i for i, region in enumerate(regions) if j in region]
        if not those:
            continue
        ends, which = np.unique([regions[i][j] for i in those], axis=0, return_inverse=True)
        which = which.reshape(-1)  # numpy 2.0 gives it another axis
        if isinstance(domain, Hierarchy):
            selected = domain.nodes.T[ends[:, 0]] == ends[:, 1:]
        else:
            places = np.arange(len(domain.values))
            selected = (ends[:, :1] <= places) & (places <= ends[:, 1:])
        parts = cell.total(selected.astype(np.float64)) / covered[j]
        inside[those] &= np.take(selected[which], encoded.codes[:, j], axis=1)
        share[those] *= parts[which]
    truths, sizes = np.count_nonzero(inside, axis=1), recoding.sizes.astype(np.float64)
    return np.array(
        [abs(float(sizes @ own) - truth) / truth for own, truth in zip(share, truths, strict=True)]
    )


@dataclass(frozen=True)
class Cover:
    """The values covered by the released cells of one attribute.

    Attributes:
        lo, hi: Codes of an interval's ends, or a tree's node twice, shape (c,) int32.
        hierarchy: Tree, where the cell is a node of it.
        pairs: Class and code of each value of a released set, if cells are sets.
        or_null: Whether an interval also covers null, which is the last code, shape (c,).
    """

    lo: npt.NDArray[np.int32]
    hi: npt.NDArray[np.int32]
    hierarchy: Hierarchy | None = None
    pairs: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    or_null: npt.NDArray[np.bool_] | None = None

    def total(self, mass: FloatArray) -> FloatArray:
        """(..., c) sum of ``mass`` (..., v) over the values that each class's cell covers."""
        if mass.ndim > 1 and (self.pairs is not None or self.hierarchy is not None):
            return np.stack([self.total(row) for row in mass])
        if self.pairs is not None:
            classes, codes = self.pairs
            return _sums(classes, mass[codes], len(self.lo))
        if self.hierarchy is not None:
            nodes = self.hierarchy.nodes
            return _sums(nodes.ravel(), np.repeat(mass, nodes.shape[1]), int(nodes.max()) + 1)[self.lo]
        sums = np.zeros((*mass.shape[:-1], mass.shape[-1] + 1))
        np.cumsum(mass, axis=-1, out=sums[..., 1:])
        found = np.asarray(sums[..., self.hi + 1] - sums[..., self.lo], dtype=np.float64)
        return found if self.or_null is None else found + np.where(self.or_null, mass[..., -1:], 0.0)


def _sums(groups: npt.NDArray[np.int64 | np.int32], mass: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(groups, weights=mass, minlength=size), dtype=np.float64)


def covers(recoding: Recoding) -> list[Cover]:
    """(q,) what the released cells of each quasi-identifier cover."""
    found = []
    for j, (attribute, domain) in enumerate(
        zip(recoding.encoded.schema.quasi_identifiers, recoding.encoded.domains, strict=True)
    ):
        if not isinstance(domain, Hierarchy):
            cells = recoding.interval(j)
            found.append(Cover(lo=cells.lo, hi=cells.hi, or_null=cells.or_null))
            continue
        as_set = attribute.hierarchy is None  # released as the set of its values
        found.append(
            Cover(
                lo=recoding.spans[0][:, j],
                hi=recoding.spans[1][:, j],
                hierarchy=None if as_set else domain,
                pairs=recoding.members(j) if as_set else None,
            )
        )
    return found


def figures(recoding: Recoding, rng: np.random.Generator | None = None) -> dict[str, float]:
    """All of them, by name; ``gcp`` and ``suppressed`` are the shares that a policy may limit.

    Args:
        recoding: Recoding of the quasi-identifiers that is measured.
        rng: Source of randomness for the queries of ``query_error``, which is omitted without it.
    """
    by_lca = gcp(recoding, Charge.LCA)
    found = {
        "gcp": by_lca,
        "gcp_lca": by_lca,
        "gcp_own": gcp(recoding, Charge.OWN),
        "suppressed": recoding.suppressed / len(recoding.encoded),
        "suppressed_records": float(recoding.suppressed),
        "suppressed_cells": float(suppressed_cells(recoding)),
        "discernibility": discernibility(recoding),
        "average_class_size": average_class_size(recoding),
        "non_uniform_entropy": non_uniform_entropy(recoding),
    }
    if rng is not None:
        found["query_error"] = query_error(recoding, rng)
    return found


def figures_of_tables(recodings: Sequence[Recoding]) -> dict[str, float]:
    """Those of `figures` that are shares or counts of cells or records, over all of several tables.

    Each cell counts once, within the domain of its table; columns that a table lacks have no cells.
    """
    rows = np.array([len(recoding.encoded) for recoding in recodings], dtype=np.float64)
    cells = rows * [len(recoding.encoded.domains) for recoding in recodings]
    gone = sum(recoding.suppressed for recoding in recodings)
    by_lca, own = (
        float(cells @ [gcp(recoding, charge) for recoding in recodings] / cells.sum()) for charge in Charge
    )
    return {
        "gcp": by_lca,
        "gcp_lca": by_lca,
        "gcp_own": own,
        "suppressed": gone / float(rows.sum()),
        "suppressed_records": float(gone),
        "suppressed_cells": float(sum(map(suppressed_cells, recodings))),
    }
