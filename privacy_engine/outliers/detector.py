"""Input and output of an outlier detector: scores and flags by position, never a record."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import InfeasibleError
from privacy_engine.tables.schema import DataSchema

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

USUAL_THRESHOLD = 1.5  # where neither a threshold nor a number is given; scikit-learn's "auto"


@dataclass(frozen=True, kw_only=True)
class Outliers:
    """The outlier score of each record of a table, in the order of the table's rows.

    It is a statement about raw data: positions and scores belong where the records are, counts may travel.

    Attributes:
        scores: Local outlier factor, about 1 for a record in the midst of others, shape (n,) float64.
        flags: Outliers, shape (n,) bool.
        pruned: Records taken for inliers without a computation, shape (n,) bool; their score is 1.
        distinct: Number of distinct records; equal records have equal scores.
    """

    scores: FloatArray = field(repr=False)
    flags: BoolArray = field(repr=False)
    pruned: BoolArray = field(repr=False)
    distinct: int

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def count(self) -> int:
        """Number of outliers."""
        return int(self.flags.sum())

    @property
    def share(self) -> float:
        """Share of the records that are outliers, in [0, 1]."""
        return self.count / len(self)

    @property
    def pruned_share(self) -> float:
        """Share of the records that were pruned, in [0, 1]."""
        return float(self.pruned.mean())

    @property
    def positions(self) -> IntArray:
        """(count,) positions of the outliers in the table, ascending."""
        return np.flatnonzero(self.flags).astype(np.int64)


class OutlierDetector(Protocol):
    """A frozen, keyword-only dataclass of parameters that scores records."""

    def detect(self, table: pd.DataFrame, schema: DataSchema) -> Outliers:
        """Score the records; the table is not changed, its index is ignored."""
        ...


def outliers_of(
    point_scores: FloatArray,
    point_pruned: BoolArray,
    point_of: IntArray,
    top: int | None,
    threshold: float | None,
) -> Outliers:
    """Flags of the records from the scores (m,) of the distinct ones.

    Of equal scores at the end of the ``top`` highest, those of the lower points come first, and of equal
    records those that come first in the table. A pruned record is never flagged.

    Raises:
        InfeasibleError: If ``top`` exceeds the number of records.
    """
    scores, pruned = point_scores[point_of], point_pruned[point_of]
    if top is None:
        flags = (scores > (USUAL_THRESHOLD if threshold is None else threshold)) & ~pruned
    elif top > len(scores):
        raise InfeasibleError(f"the {top} highest of {len(scores)} rows cannot be reported; lower top")
    else:
        highest = np.lexsort((point_of, -scores, pruned))[:top]
        flags = np.zeros(len(scores), dtype=np.bool_)
        flags[highest] = True
        flags &= ~pruned
    return Outliers(scores=scores, flags=flags, pruned=pruned, distinct=len(point_scores))


def check_parameters(
    *,
    neighbours: int,
    penalty: float,
    top: int | None,
    threshold: float | None,
    attributes: Sequence[str] | None,
) -> None:
    """Refuse values that no detector can work with.

    Raises:
        ValueError: Naming the parameter, what must hold and what was given.
    """
    check_positive("neighbours", neighbours)
    check_penalty(penalty)
    if top is not None:
        check_positive("top", top)
    if threshold is not None and not (math.isfinite(threshold) and threshold > 0):
        raise ValueError(f"threshold must be a finite number > 0, got {threshold!r}")
    if top is not None and threshold is not None:
        raise ValueError("give top or threshold, not both: they are two ways to choose the outliers")
    if attributes is not None and (
        isinstance(attributes, str) or not attributes or len(set(attributes)) < len(attributes)
    ):
        raise ValueError(
            "attributes must be distinct column names, at least one. Omit them for all quasi-identifiers"
        )


def check_positive(name: str, value: object) -> None:
    """Raise unless the value is a whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")


def check_penalty(penalty: float) -> None:
    """Refuse a price of unequal categories that is no price."""
    if not (math.isfinite(penalty) and penalty > 0):
        raise ValueError(f"penalty must be a finite number > 0, got {penalty!r}")
