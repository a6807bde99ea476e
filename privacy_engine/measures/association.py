"""How strongly two columns go together: Pearson's correlation of numbers, Cramer's V of categories."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.columns import is_number
from privacy_engine.tables.dates import MICROS_OF_DAY, is_dated, moments
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import bounds_of

BINS = 10  # of equal width, for a number with a category
MOST_LABELS = 50  # of a category; the rarer ones count as one
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Association:
    """How strongly each pair of attributes of a released table goes together.

    Attributes:
        names: Attributes, shape (d,); the two bounds of an interval are one.
        strength: Symmetric, 0 .. 1, 1 on the diagonal: the size of Pearson's correlation of numbers,, shape
            (d, d) Cramer's V of any other pair.
    """

    names: tuple[str, ...]
    strength: Floats


def association(
    table: pd.DataFrame, schema: DataSchema, most: int, spanned: Collection[str] = ()
) -> Association:
    """Compute it from the cells of released records: an interval counts as its middle.

    Args:
        table: Released records of all columns in the schema.
        schema: Schema of the released records.
        most: Number of attributes to use, the first ones; the number of pairs grows with the square.
        spanned: Quasi-identifiers that are released as the two bounds of an interval. Any other column is
            taken as it is, whatever its name.
    """
    columns = dict(itertools.islice(_columns(table, schema, spanned), most))
    numbers = {
        name: column.astype(np.float64) for name, column in columns.items() if column.dtype.kind == "f"
    }
    codes = {name: column.astype(np.int64) for name, column in columns.items() if name not in numbers}
    codes |= {name: _binned(column) for name, column in numbers.items()}
    found = np.eye(len(columns))
    for (i, one), (j, other) in itertools.combinations(enumerate(columns), 2):
        if one in numbers and other in numbers:
            value = abs(pearson(numbers[one], numbers[other]))
        else:
            value = cramers_v(_contingency(codes[one], codes[other]))
        found[i, j] = found[j, i] = value
    return Association(names=tuple(columns), strength=found)


def _columns(
    table: pd.DataFrame, schema: DataSchema, spanned: Collection[str]
) -> Iterator[tuple[str, Floats | npt.NDArray[np.int64]]]:
    """Name and (n,) values of each attribute: float64 with NaN of a number or a date, else int64 codes."""
    ends = {end: name for name in spanned for end in bounds_of(name)}
    for attribute in schema.without_identifiers().attributes:
        name = attribute.name
        if base := ends.get(name):
            low, high, _ = bounds_of(base)
            if name == low:
                yield base, (_numbers(table[low]) + _numbers(table[high])) / 2
        elif is_number(table[name]) or is_dated(table[name]):
            yield name, _numbers(table[name])
        else:
            yield name, _codes(table[name])


def _numbers(column: pd.Series) -> Floats:
    """(n,) the numbers, or days of dates of any year; NaN = null."""
    if not is_dated(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    read = moments(column)
    unknown = np.logical_or.reduce([read.null, *read.wrong.values()])
    return np.where(unknown, np.nan, read.micros / MICROS_OF_DAY)


def _codes(column: pd.Series) -> npt.NDArray[np.int64]:
    """(n,) labels by falling frequency; null is a separate label."""
    codes, _ = pd.factorize(column, use_na_sentinel=False)
    rank = np.argsort(np.argsort(-np.bincount(codes), kind="stable"))
    return np.minimum(rank[codes], MOST_LABELS - 1)


def _binned(numbers: Floats) -> npt.NDArray[np.int64]:
    """(n,) bins of equal width; NaN is a separate bin."""
    known = ~np.isnan(numbers)
    codes = np.full(len(numbers), BINS)
    if known.any():
        low, high = numbers[known].min(), numbers[known].max()
        share = (numbers[known] - low) / (high - low or 1)
        codes[known] = np.minimum((share * BINS).astype(np.int64), BINS - 1)
    return codes


def _contingency(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    shape = (int(one.max(initial=0)) + 1, int(other.max(initial=0)) + 1)
    return np.bincount(one * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape)


def pearson(x: Floats, y: Floats) -> float:
    """Pearson's correlation, -1 .. 1, over the places (n,) where neither is NaN; 0 where one is constant."""
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    if len(x) < 2 or x.min() == x.max() or y.min() == y.max():
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def cramers_v(counts: npt.NDArray[np.int64]) -> float:
    """Cramer's V, 0 .. 1, of a contingency table (r, c), by its rows and columns that are not empty.

    With Bergsma's correction for the number of cells (Bergsma 2013, "A bias-correction for Cramer's V and
    Tschuprow's T"); without it V of a large table of counts is well above 0 for independent attributes.
    """
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    n, (r, c) = counts.sum(), counts.shape
    if min(r, c) < 2 or n < 2:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    phi2 = float(((counts - expected) ** 2 / expected).sum() / n)
    corrected = max(0.0, phi2 - (r - 1) * (c - 1) / (n - 1))  # Bergsma (2013), section 3
    rows, columns = r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)
    return float(np.sqrt(corrected / max(min(rows, columns) - 1, 1e-12)))
