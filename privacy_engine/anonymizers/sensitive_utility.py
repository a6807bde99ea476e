"""How informative each quasi-identifier is about each sensitive value, and similar sensitive values.

Zhu, Zhao, Wang (2010), sections 3.1 and 4.2, and Li et al. (2008), whose KACLUK clusters sensitive
values in the same way.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.tables.encoding import EncodedTable, OrderedDomain

FloatMatrix = npt.NDArray[np.float64]
RESTARTS = 20  # of Lloyd's iterations before one cluster fewer is tried
ITERATIONS = 100  # means under an L1 distance need not converge


class Reading(StrEnum):
    """How weights come from the utility matrix u.

    The paper says that they "reflect the utility" and prints sums of the matrix's entries (section 5.2); but
    by its own definition a low entry means great utility.
    """

    LITERAL = "literal"  # w ~ u: as printed
    COMPLEMENT = "complement"  # w ~ 1 - u + 1e-3: a low u is informative, and kept precise
    EQUAL = "equal"  # w = 1/q for each attribute: the loss is the normalised certainty penalty


def sensitive_row(encoded: EncodedTable, attribute: str | None) -> int:
    """Row of ``encoded.sensitive`` of an attribute; None means the only one.

    Raises:
        SchemaError: If there is none, several to choose from, or not that one.
    """
    names = encoded.sensitive_names
    if not names:
        raise SchemaError("the method requires a sensitive attribute. Give one attribute that role")
    if attribute is None and len(names) > 1:
        raise SchemaError(
            f"the schema has the sensitive attributes {list(names)}: name one of them in `sensitive`"
        )
    if attribute is not None and attribute not in names:
        raise SchemaError(f"{attribute!r} is no sensitive attribute of the schema; it has {list(names)}")
    return 0 if attribute is None else names.index(attribute)


def utility_matrix(encoded: EncodedTable, row: int) -> FloatMatrix:
    """u_ij (m, q): share of the spread of attribute j that the records with sensitive value i have.

    Ordered: range among them / range in the table; a null is at the domain's whole length from every value.
    Categorical: distinct values among them / in the
    table. A LOW number means that the attribute is very informative about the value. 1 for an absent value.
    """
    values, m = encoded.sensitive[row], encoded.sensitive_sizes[row]
    matrix = np.ones((m, len(encoded.domains)))
    present = np.unique(values)
    for j, domain in enumerate(encoded.domains):
        codes = encoded.codes[:, j]
        if isinstance(domain, OrderedDomain):
            place, most = (domain.places, 1.0) if domain.has_null else (domain.values, np.inf)
            low, high = np.full(m, np.inf), np.full(m, -np.inf)
            np.minimum.at(low, values, place[codes])
            np.maximum.at(high, values, place[codes])
            whole = min(place[codes.max()] - place[codes.min()], most)
            matrix[present, j] = np.minimum(high - low, most)[present] / (whole or 1.0)
        else:
            size = len(domain.values)
            pairs = np.unique(values.astype(np.int64) * size + codes)
            matrix[present, j] = np.bincount(pairs // size, minlength=m)[present] / len(
                np.unique(pairs % size)
            )
    return matrix


def weight_matrix(utility: FloatMatrix, reading: Reading) -> FloatMatrix:
    """w_ij (m, q), all together 1: the weight of attribute j for sensitive value i in the ILP."""
    if reading is Reading.EQUAL:
        raw = np.ones_like(utility)
    else:
        raw = 1.0 - utility + 1e-3 if reading is Reading.COMPLEMENT else utility + 1e-12
    return np.asarray(raw / raw.sum(), dtype=np.float64)


def attribute_weights(
    weights: FloatMatrix, values: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.float64]:
    """(q,) w_i = sum_j w_ij over the sensitive values in play, normalised to 1 (section 5.2)."""
    chosen = weights if values is None else weights[values]
    summed = chosen.sum(axis=0)
    return np.asarray(summed / summed.sum(), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class ValueClusters:
    """Clusters of similar sensitive values.

    Attributes:
        of: Cluster of each value, 0 .. count - 1, shape (m,) int64; -1 = the value does not occur.
        absorbed: Values that found no ``least - 1`` companions and joined the nearest cluster that had them.
    """

    of: npt.NDArray[np.int64]
    absorbed: int = 0

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self.of.max(initial=-1)) + 1


def clusters_in_play(
    codes: npt.NDArray[np.int32], utility: FloatMatrix, least: int, clusters: int, rng: np.random.Generator
) -> ValueClusters:
    """Clusters of the sensitive values that occur among the codes (n,)."""
    present = np.unique(codes)
    found = cluster_values(utility[present], least, clusters, rng)
    of = np.full(len(utility), -1, dtype=np.int64)
    of[present] = found.of
    return ValueClusters(of=of, absorbed=found.absorbed)


def cluster_values(
    utility: FloatMatrix, least: int, clusters: int, rng: np.random.Generator
) -> ValueClusters:
    """Cluster similar sensitive values, at least ``least`` of them each.

    Section 4.2: random centres, Lloyd's iterations on D_ik = sum_j |u_ij - u_kj|, again if a cluster is
    too small, and one cluster fewer after a bounded number of tries. With many clusters a tenth of
    them is dropped at once, which the paper, with 14 values, did not need.

    Beyond the paper: if every start fails, which would leave one cluster, the start that fails by the fewest
    values is used (of equal ones the one with most clusters), and these values are absorbed.

    Args:
        utility: Utility of the values in play, shape (m, q).
        least: Values that each cluster must have, >= 1.
        clusters: Number to begin with; never more than m // least.
        rng: Draws the centres.

    Raises:
        InfeasibleError: If there are fewer than ``least`` values.
    """
    m = len(utility)
    if m < least:
        raise InfeasibleError(f"the sensitive attribute has {m} values and {least} are needed: lower l")
    wanted = max(1, min(clusters, m // least))
    failed: list[ValueClusters] = []
    while wanted > 1:
        for _ in range(RESTARTS):
            found = _absorbed(utility, _lloyd(utility, wanted, rng), least)
            if not found.absorbed and found.count == wanted:
                return found
            if found.count > 1:
                failed.append(found)
        wanted = min(wanted - 1, wanted * 9 // 10)
    one = ValueClusters(of=np.zeros(m, dtype=np.int64))
    return min(failed, key=lambda found: (found.absorbed, -found.count), default=one)


def _absorbed(utility: FloatMatrix, nearest: npt.NDArray[np.int64], least: int) -> ValueClusters:
    """Return clusters of at least ``least`` values: the others' values join the nearest of these, by D."""
    kept = np.flatnonzero(np.bincount(nearest) >= least)
    rare = ~np.isin(nearest, kept)
    if not len(kept):
        return ValueClusters(of=np.zeros_like(nearest))
    of = np.searchsorted(kept, nearest)
    centres = np.array([utility[nearest == c].mean(axis=0) for c in kept])
    of[rare] = np.abs(utility[rare, None, :] - centres[None, :, :]).sum(axis=2).argmin(axis=1)
    return ValueClusters(of=of, absorbed=int(rare.sum()))


def _lloyd(utility: FloatMatrix, clusters: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    centres = utility[rng.choice(len(utility), size=clusters, replace=False)]
    nearest = np.zeros(len(utility), dtype=np.int64)
    for _ in range(ITERATIONS):
        distance = np.abs(utility[:, None, :] - centres[None, :, :]).sum(axis=2)
        nearest = distance.argmin(axis=1)
        moved = np.array(
            [
                utility[nearest == c].mean(axis=0) if (nearest == c).any() else centres[c]
                for c in range(clusters)
            ]
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    return nearest
