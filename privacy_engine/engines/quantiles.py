"""Cuts of a column of numbers by a sample of it, so that every engine makes the same ones."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.columns import floats

SAMPLE, SEED = 1_000_000, 0  # records, and how they are drawn


def cuts(sample: pd.Series, parts: int) -> npt.NDArray[np.float64]:
    """(<= parts - 1,) ascending values of the column that cut it into parts of about equal size.

    >>> cuts(pd.Series([5, None, 1, 2, 2]), 4).tolist()
    [1.0, 2.0]
    """
    values = floats(sample)
    values = values[~np.isnan(values)]
    if not len(values):
        return values
    return np.unique(np.quantile(values, np.arange(1, parts) / parts, method="inverted_cdf"))
