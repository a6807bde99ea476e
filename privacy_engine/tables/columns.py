"""One column as integer codes, whatever pandas type it comes in."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

NULL = "\0"  # the text of a null where a null is a value; no column of text holds it
NULL_WORD = "null"  # what people read for it


@dataclass(frozen=True)
class Column:
    """A factorized column.

    Attributes:
        codes: (n,) int64, index into ``values``, -1 = null.
        values: the distinct values as pandas gives them, in no particular order.
    """

    codes: npt.NDArray[np.int64]
    values: pd.Index

    @property
    def texts(self) -> list[str]:
        """The distinct values as text; whole numbers without a decimal point."""
        return [value_text(value) for value in self.values]

    @property
    def nulls(self) -> int:
        """How many records have no value."""
        return int(np.count_nonzero(self.codes < 0))

    def ascending(self) -> npt.NDArray[np.intp]:
        """(v,) the distinct values in ascending order, by their texts where they do not compare."""
        try:
            return np.asarray(self.values.argsort(), dtype=np.intp)
        except TypeError:
            return np.argsort(np.array(self.texts, dtype=object), kind="stable")


def factorize(column: pd.Series) -> Column:
    """Codes and distinct values of a column; the index is ignored.

    >>> factorize(pd.Series(["b", None, "b"], index=[7, 7, 3])).codes.tolist()
    [0, -1, 0]
    """
    codes, values = pd.factorize(column, use_na_sentinel=True)
    values = pd.Index(values)
    if isinstance(values, pd.CategoricalIndex):  # whose order is that of its categories, not of the values
        values = values.astype(values.categories.dtype)
    return Column(codes=codes.astype(np.int64), values=values)


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers; booleans do not count."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def floats(column: pd.Series) -> npt.NDArray[np.float64]:
    """(n,) float64 values of a numeric column, NaN = null; of dates days, of times seconds since 1970-01-01.

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


def value_text(value: object) -> str:
    """A value as text; a whole number without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
