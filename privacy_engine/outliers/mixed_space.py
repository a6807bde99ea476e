"""Records of numbers and categories as distinct points of one metric space.

Yang: privacy protection key algorithms for the Internet (2018), definition 1. The dissimilarity
d(X, Y) = sum_numeric (x_i - y_i)^2 + lambda sum_categorical [x_i != y_i] is the square of a Euclidean
distance (categories one-hot, times sqrt(lambda / 2)), so its root obeys the triangle inequality.

Deviations: numbers are scaled to [0, 1] by the bounds of the schema, or by the table's own smallest and
largest value if there are none. The paper does not say; without it one attribute dominates. A number that may
be null is a number and a category, known or not: a null is in the middle of the numbers, lambda apart from
each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.recoding.grouping.agglomeration import distinct_tuples
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, factorize, is_number, require_span
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role, counted

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
N = TypeVar("N", np.float64, np.int32)


@dataclass(frozen=True, kw_only=True)
class MixedSpace:
    """The distinct records of a table, in the order of their values whatever the order of the rows.

    Attributes:
        numbers: Numeric and ordinal attributes, scaled, shape (m, p) float64.
        categories: Codes of the categorical ones, shape (m, c) int32.
        counts: Number of records at that point, shape (m,) int64.
        point_of: Point of each record, shape (n,) int64.
        penalty: Lambda, > 0: the squared distance of two categories.
    """

    numbers: FloatArray
    categories: CodeArray
    counts: IntArray
    point_of: IntArray
    penalty: float

    @classmethod
    def of_table(
        cls, table: pd.DataFrame, schema: DataSchema, attributes: Sequence[str] | None, penalty: float
    ) -> "MixedSpace":
        """Check the chosen columns and place their records.

        Raises:
            SchemaError: If an attribute is unknown, an identifier, or holds null numbers and is not nullable,
                the schema has no quasi-identifier where none are chosen, or the columns do not fit it.
        """
        chosen = _chosen(table, schema, attributes)
        scaled, codes = [], []
        for attribute in chosen:
            column = table[attribute.name]
            if attribute.kind is Kind.ORDINAL and attribute.categories is not None:
                values = _ranks(column, attribute.categories)
            elif attribute.dates is not None or (
                attribute.kind is not Kind.CATEGORICAL and is_number(column)
            ):
                values = attribute.numbers(column)
            else:
                codes.append(_codes(column))
                continue
            if attribute.nullable:
                codes.append(np.isnan(values).astype(np.int32))
            scaled.append(_scaled(values, attribute))
        ranks = [np.unique(x, return_inverse=True)[1].astype(np.int32) for x in scaled]
        _, point_of, counts = distinct_tuples(np.stack([*ranks, *codes], axis=1))
        first = np.empty(len(counts), dtype=np.int64)
        first[point_of[::-1]] = np.arange(len(table) - 1, -1, -1)
        return cls(
            numbers=_table_of(scaled, first, np.float64),
            categories=_table_of(codes, first, np.int32),
            counts=counts.astype(np.int64),
            point_of=point_of,
            penalty=penalty,
        )

    def __len__(self) -> int:
        return len(self.counts)


def _chosen(
    table: pd.DataFrame, schema: DataSchema, attributes: Sequence[str] | None
) -> tuple[Attribute, ...]:
    chosen = schema.quasi_identifiers if attributes is None else tuple(schema[name] for name in attributes)
    if not chosen:
        raise SchemaError("the schema has no quasi-identifier: name the attributes that outliers show in")
    if identifiers := [a.name for a in chosen if a.role is Role.IDENTIFIER]:
        raise SchemaError(f"identifiers {identifiers} distinguish all records. Choose other attributes")
    present = [a.name for a in chosen if a.name in table.columns]
    DataSchema(chosen).check(table.loc[:, present])
    return chosen


def _scaled(values: FloatArray, attribute: Attribute) -> FloatArray:
    """(n,) in [0, 1] over the bounds or categories of the schema, else over the values; 1/2 for a null."""
    null = np.isnan(values) if attribute.nullable else np.zeros(len(values), dtype=np.bool_)
    known = values[~null]
    if unknown := int((~np.isfinite(known)).sum()):
        raise SchemaError(
            f"{attribute.name}: {counted(unknown, 'value is', 'values are')} null or infinite and without a "
            "distance: drop them at ingest, make the attribute categorical, or say that it may be null "
            "(nullable: true)"
        )
    if attribute.categories is not None:
        low, high = 0.0, len(attribute.categories) - 1.0
    else:
        low, high = attribute.bounds or (float(known.min(initial=np.inf)), float(known.max(initial=-np.inf)))
    if len(known):
        require_span(attribute.name, low, high)
    found = np.full(len(values), 0.5)
    found[~null] = (known - low) / ((high - low) or 1.0)
    return found


def _ranks(column: pd.Series, categories: tuple[str, ...]) -> FloatArray:
    """(n,) place of each value in the order of the categories, NaN = null."""
    coded = factorize(column)
    place = {category: i for i, category in enumerate(categories)}
    ranks = np.array([*(place[text] for text in coded.texts), np.nan])
    return ranks[coded.codes]  # code -1 reads the last


def _codes(column: pd.Series) -> CodeArray:
    """(n,) codes in the order of the values' texts; a null is a value."""
    coded = factorize(column)
    _, codes = np.unique(np.array([*coded.texts, NULL], dtype=object), return_inverse=True)
    return np.asarray(codes[coded.codes], dtype=np.int32)  # code -1 reads the last


def _table_of(columns: list[FloatArray] | list[CodeArray], rows: IntArray, dtype: type[N]) -> npt.NDArray[N]:
    """(m, columns) of some rows."""
    if not columns:
        return np.zeros((len(rows), 0), dtype=dtype)
    return np.stack([column[rows] for column in columns], axis=1).astype(dtype, order="C")
