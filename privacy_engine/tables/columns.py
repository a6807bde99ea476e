"""A column as integer codes, for any pandas type."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privacy_engine.errors import SchemaError

NULL = "\0"  # text that represents null if null is a value; no text column contains it
_EXACT = 2**53  # whole numbers up to this are exact as floats
_NOT_ATOMIC = (list, tuple, dict, set, frozenset, np.ndarray, bytes, bytearray)
NULL_WORD = "null"  # text shown to readers


@dataclass(frozen=True)
class Column:
    """A factorized column.

    Attributes:
        codes: Index into ``values``, -1 = null, shape (n,) int64.
        values: Distinct values as pandas returns them, in no particular order.
    """

    codes: npt.NDArray[np.int64]
    values: pd.Index

    @property
    def texts(self) -> list[str]:
        """The distinct values as text; whole numbers without a decimal point."""
        return [value_text(value) for value in self.values]

    @property
    def nulls(self) -> int:
        """Number of records without a value."""
        return int(np.count_nonzero(self.codes < 0))

    def ascending(self) -> npt.NDArray[np.intp]:
        """(v,) the distinct values in ascending order, by their text if they cannot be compared."""
        try:
            return np.asarray(self.values.argsort(), dtype=np.intp)
        except TypeError:
            return np.argsort(np.array(self.texts, dtype=object), kind="stable")


def factorize(column: pd.Series) -> Column:
    """Return codes and distinct values of a column; the index is ignored.

    >>> factorize(pd.Series(["b", None, "b"], index=[7, 7, 3])).codes.tolist()
    [0, -1, 0]
    """
    codes, values = pd.factorize(column, use_na_sentinel=True)
    values = pd.Index(values)
    if isinstance(values, pd.CategoricalIndex):  # ordered by its categories, not by values
        values = values.astype(values.categories.dtype)
    return Column(codes=codes.astype(np.int64), values=values)


def are_among(texts: npt.NDArray[np.object_], known: Collection[str]) -> npt.NDArray[np.bool_]:
    """(n,) bool, whether each text is one of the ``known``; by lookup, while `numpy.isin` compares all pairs.

    >>> are_among(np.array(["a", "b"], dtype=object), ["b", "c"]).tolist()
    [False, True]
    """
    looked_up = set(known)
    return np.fromiter((text in looked_up for text in texts), np.bool_, len(texts))


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers; booleans do not count."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def floats(column: pd.Series) -> npt.NDArray[np.float64]:
    """(n,) float64 values of a numeric column, NaN = null; for dates days, for times seconds since 1970.

    >>> floats(pd.Series(pd.to_datetime(["1970-01-02", None]))).tolist()
    [86400.0, nan]
    """
    if isinstance(column.dtype, pd.ArrowDtype) and str(column.dtype).startswith("date32"):
        days = column.astype("int32[pyarrow]").to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(days, dtype=np.float64)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
        micros = column.to_numpy().astype("datetime64[us]")
        seconds: npt.NDArray[np.float64] = micros.view(np.int64) / 10**6
        return np.where(np.isnat(micros), np.nan, seconds)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


@dataclass(frozen=True)
class Numbers:
    """A factorized column of numbers.

    Attributes:
        codes: Rank among the distinct values, shape (n,) int64; for a null, the number of values.
        values: Distinct values, ascending, less ``origin``, shape (v,) float64.
        origin: 0, or the smallest value if floats could not distinguish all values.
        texts: Each value in full, shape (v,); whole numbers without a decimal point.
    """

    codes: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    texts: tuple[str, ...]
    origin: int | Decimal = 0


def ranked(column: pd.Series) -> Numbers:
    """Return the ranks and the distinct values of a numeric column, with any number of digits.

    >>> ranked(pd.Series([2**60 + 1, 2**60])).texts
    ('1152921504606846976', '1152921504606846977')
    """
    if not is_rounded(column):
        values, codes = np.unique(floats(column), return_inverse=True)  # all NaN are one value, the last
        known = values[~np.isnan(values)]
        return Numbers(codes.astype(np.int64), known, tuple(map(number_text, known)))
    coded = factorize(column)
    distinct = sorted((value, i) for i, value in enumerate(coded.values.tolist()))
    rank = np.empty(len(distinct) + 1, dtype=np.int64)
    rank[[i for _, i in distinct]] = np.arange(len(distinct))
    rank[-1] = len(distinct)  # the code of a null is -1
    origin = distinct[0][0] if distinct else 0
    values = np.array([float(value - origin) for value, _ in distinct])
    return Numbers(rank[coded.codes], values, tuple(text_in_full(value) for value, _ in distinct), origin)


def is_rounded(column: pd.Series) -> bool:
    """Return whether numbers of a column are rounded as floats: decimals, and whole ones beyond 2**53."""
    if is_decimal(column):
        return True
    if not pd.api.types.is_integer_dtype(column.dtype) or not column.notna().any():
        return False
    return int(column.min()) < -_EXACT or int(column.max()) > _EXACT


def require_span(name: str, low: float, high: float) -> None:
    """Raise if the distance between two numbers overflows.

    Raises:
        SchemaError: If it does; the message names the column and the remedy.
    """
    if not math.isfinite(high - low):
        raise SchemaError(f"{name}: the least and the largest value are too far apart. Correct the source")


def is_atomic(column: pd.Series) -> bool:
    """Return whether no cell holds several values, or bytes."""
    if isinstance(column.dtype, pd.ArrowDtype):
        kind = column.dtype.pyarrow_dtype
        return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    if column.dtype != object:
        return True
    return not any(isinstance(cell, _NOT_ATOMIC) for cell in column)


def is_decimal(column: pd.Series) -> bool:
    """Return whether a column holds Arrow decimals."""
    return isinstance(column.dtype, pd.ArrowDtype) and str(column.dtype).startswith("decimal")


def number_text(value: float) -> str:
    """Format a number as it is released: whole numbers without a decimal point, others in full."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def text_in_full(number: int | Decimal | str) -> str:
    """Format a number without an exponent and without trailing zeros.

    >>> text_in_full("6.00"), text_in_full("1e-3"), text_in_full(2**60 + 1)
    ('6', '0.001', '1152921504606846977')
    """
    text = f"{Decimal(number):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def value_text(value: object) -> str:
    """Format a value as text; a whole number without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
