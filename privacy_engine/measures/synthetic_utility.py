"""How much of the source a synthetic table keeps; one function per measure.

All compare records of the source with synthetic ones over the public domains of the schema: bins, categories
and bounds only come from it. The results are **exact figures of the source**. They are for the curator:
published, they would void the differential privacy of the release, whatever its epsilon.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import wasserstein_distance

from privacy_engine.compiled import kernel
from privacy_engine.measures.association import cramers_v, pearson
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords, contingency, count, pack
from privacy_engine.tables.schema import DataSchema

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DENSE_CELLS = 1 << 22  # a table of counts up to this size is held whole, a larger one by its non-empty cells


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalDistances:
    """Total variation distance of each marginal of a number of attributes.

    Attributes:
        subsets: Attributes of each marginal, shape (s, ways).
        tvd: Half the L1 distance of its normalised counts, 0 (equal) .. 1 (disjoint), shape (s,).
    """

    subsets: tuple[tuple[str, ...], ...]
    tvd: FloatArray

    @property
    def mean(self) -> float:
        """Mean over all subsets of attributes: the figure to compare synthesizers by."""
        return float(self.tvd.mean())

    def worst(self, count: int = 5) -> list[tuple[tuple[str, ...], float]]:
        """The marginals that are farthest off, farthest first."""
        order = np.argsort(-self.tvd, kind="stable")[:count]
        return [(self.subsets[i], float(self.tvd[i])) for i in order]


def marginal_tvd(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: DataSchema, ways: int = 3
) -> MarginalDistances:
    """Distances of all marginals of ``ways`` attributes, on the public bins of the schema.

    The metric of the PrivBayes papers (Zhang et al. 2014, section 6.1, average variation distance).

    Args:
        real: Records of the source.
        synthetic: Synthetic records, any number.
        schema: Schema of both; each attribute but identifiers with a public domain.
        ways: Attributes of a marginal, from 1.

    Raises:
        SchemaError: If a table does not fit the schema, or a domain is not public.
        ValueError: If there are fewer attributes than ways.
    """
    return coded_marginal_tvd(coded(real, schema), coded(synthetic, schema), ways)


def coded(table: pd.DataFrame, schema: DataSchema) -> CodedTable:
    """Return a table in the codes of its public domains, without identifiers.

    Nullable numbers are read as floats, so that a table with nulls and one without have the same bins.
    """
    known = schema.without_identifiers()
    frame = table.loc[:, list(known.names)]
    numbers = [
        a.name for a in known.attributes if a.nullable and pd.api.types.is_integer_dtype(frame[a.name])
    ]
    return CodedTable.encode(frame.astype(dict.fromkeys(numbers, np.float64)), known)


def coded_marginal_tvd(real: CodedTable, synthetic: CodedTable, ways: int = 3) -> MarginalDistances:
    """`marginal_tvd` of tables that are encoded already, over the same domains.

    Raises:
        ValueError: If the domains differ, or there are fewer attributes than ways.
    """
    require_equal_domains(real, synthetic)
    d = len(real.names)
    if not 1 <= ways <= d:
        raise ValueError(f"ways must be in 1 .. {d}, the number of attributes, got {ways}")
    subsets = np.array(list(itertools.combinations(range(d), ways)), dtype=np.int64)
    sizes = np.array(real.sizes, dtype=np.int64)
    cells = sizes[subsets].astype(np.float64).prod(axis=1)
    tvd = np.empty(len(subsets))
    dense = cells <= DENSE_CELLS
    ours, theirs = WeightedRecords.of(real), WeightedRecords.of(synthetic)
    tvd[dense] = _dense_tvd(ours.codes, ours.weights, theirs.codes, theirs.weights, sizes, subsets[dense])
    for i in np.flatnonzero(~dense):  # marginals of attributes with very many values, by the cells that occur
        members = subsets[i]
        tvd[i] = _sparse_tvd(real.codes[members], synthetic.codes[members], sizes[members])
    return MarginalDistances(
        subsets=tuple(tuple(real.names[j] for j in subset) for subset in subsets), tvd=tvd
    )


def require_equal_domains(one: CodedTable, other: CodedTable) -> None:
    """Refuse tables whose codes do not mean the same.

    Raises:
        ValueError: If names or numbers of codes differ: another schema, or another type of a column.
    """
    if one.names != other.names or one.sizes != other.sizes:
        raise ValueError(
            "both tables must be encoded over the same attributes and domains: use one schema, and columns "
            "of the same types"
        )


@kernel(parallel=True)
def _dense_tvd(
    real: npt.NDArray[Any], of_real: IntArray, drawn: npt.NDArray[Any], of_drawn: IntArray,
    sizes: IntArray, subsets: IntArray,
) -> FloatArray:  # fmt: skip
    """(s,) distances; distinct records (d, u) and (d, v) with their weights (u,) and (v,)."""
    n, m = of_real.sum(), of_drawn.sum()
    found = np.empty(len(subsets))
    for s in nb.prange(len(subsets)):
        members = subsets[s]
        of_members = sizes[members]
        cells = np.prod(of_members)
        ours = count(real, of_real, members, of_members, cells)
        theirs = count(drawn, of_drawn, members, of_members, cells)
        distance = 0.0
        for cell in range(cells):
            distance += abs(ours[cell] / n - theirs[cell] / m)
        found[s] = 0.5 * distance
    return found


def _sparse_tvd(real: npt.NDArray[Any], drawn: npt.NDArray[Any], sizes: IntArray) -> float:
    """Distance of the marginal of all attributes of codes (w, n) and (w, m), by the cells that occur."""
    n, m = real.shape[1], drawn.shape[1]
    cell = np.unique(pack(np.hstack([real, drawn]), sizes), return_inverse=True)[1]
    ours = np.bincount(cell[:n], minlength=int(cell.max()) + 1) / n
    theirs = np.bincount(cell[n:], minlength=len(ours)) / m
    return float(0.5 * np.abs(ours - theirs).sum())


def wasserstein(real: pd.DataFrame, synthetic: pd.DataFrame, schema: DataSchema) -> dict[str, float]:
    """Wasserstein-1 distance of each ordered attribute, as a share of its public extent, 0 .. 1.

    Computed on the values themselves, not on bins; ordered categories are one step apart. Nulls are omitted
    (their number is in the 1-way marginals). An attribute without public bounds or order is omitted.

    Args:
        real: Records of the source.
        synthetic: Synthetic records that are compared with the source.
        schema: Schema of both, which they fit.
    """
    found = {}
    for attribute in schema.without_identifiers().attributes:
        if not has_scale(attribute):
            continue
        ours, theirs = (positions(table[attribute.name], attribute) for table in (real, synthetic))
        ours, theirs = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
        if len(ours) and len(theirs):
            found[attribute.name] = float(wasserstein_distance(ours, theirs))
    return found


def has_scale(attribute: Attribute) -> bool:
    """Whether its values have public places on a line: bounds, or categories in order, and no hierarchy."""
    return attribute.ordered and attribute.has_public_domain


def positions(column: pd.Series, attribute: Attribute) -> FloatArray:
    """(n,) place of each value in the attribute's public extent, 0 .. 1; NaN = null."""
    if attribute.bounds is not None:
        low, high = attribute.bounds
        return (attribute.numbers(column) - low) / (high - low)
    categories = attribute.categories or ()
    place = {text: i / max(len(categories) - 1, 1) for i, text in enumerate(categories)}
    values = factorize(column)
    return np.array([*(place[text] for text in values.texts), np.nan])[values.codes]  # code -1 reads the last


@dataclass(frozen=True, kw_only=True, eq=False)
class CorrelationDifference:
    """Association of each pair of attributes in both tables.

    Attributes:
        names: Attributes, shape (d,).
        real, synthetic: Symmetric, 1 on the diagonal, shape (d, d); see `correlation_difference`.
    """

    names: tuple[str, ...]
    real: FloatArray
    synthetic: FloatArray

    @property
    def difference(self) -> FloatArray:
        """(d, d) error of each pair."""
        return np.abs(self.real - self.synthetic)

    @property
    def mean(self) -> float:
        """Mean over all pairs; 0 if there are none."""
        pairs = self.difference[np.triu_indices(len(self.names), 1)]
        return float(pairs.mean()) if len(pairs) else 0.0


def correlation_difference(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: DataSchema
) -> CorrelationDifference:
    """How pairs of attributes go together, before and after.

    Two ordered attributes: Pearson's correlation of their positions, over the records where neither is null,
    -1 .. 1. Any other pair: Cramer's V on the public bins with Bergsma's correction for the number of cells,
    0 .. 1 (Bergsma 2013, "A bias-correction for Cramer's V and Tschuprow's T"); without it V of a large table
    of counts is well above 0 for independent attributes. A constant attribute goes with nothing: 0.

    Args:
        real: Records of the source.
        synthetic: Synthetic records that are compared with the source.
        schema: Schema of both; each attribute but identifiers with a public domain.

    Raises:
        SchemaError: If a table does not fit the schema, or a domain is not public.
    """
    known = schema.without_identifiers()
    return CorrelationDifference(
        names=known.names, real=_associations(real, known), synthetic=_associations(synthetic, known)
    )


def _associations(table: pd.DataFrame, schema: DataSchema) -> FloatArray:
    records = WeightedRecords.of(coded(table, schema))
    lines = [positions(table[a.name], a) if has_scale(a) else None for a in schema.attributes]
    found = np.eye(len(lines))
    for i, j in itertools.combinations(range(len(lines)), 2):
        one, other = lines[i], lines[j]
        if one is not None and other is not None:
            value = pearson(one, other)
        else:
            value = cramers_v(contingency(records, (i, j)))
        found[i, j] = found[j, i] = value
    return found
