"""Contingency tables: the frequency of each combination of values of some attributes.

Records that agree in all attributes are counted once with a weight (survey extracts repeat themselves: the
21,574 records of NLTCS are 3,152 distinct ones). Each set of attributes is counted once, whatever is computed
about its members afterwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.tables.domains import CodedTable

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRecords:
    """The distinct records of a table and their frequencies.

    Attributes:
        codes: Small unsigned integers, C-contiguous, shape (d, u).
        weights: Frequency of each record, >= 1, shape (u,) int64.
        sizes: Number of codes of each attribute, shape (d,) int64.
    """

    codes: npt.NDArray[Any]
    weights: Ints
    sizes: Ints

    @classmethod
    def of(cls, coded: CodedTable) -> "WeightedRecords":
        """Merge equal records, if that was not done yet."""
        sizes = np.array(coded.sizes, dtype=np.int64)
        if coded.weights is not None:
            return cls(codes=coded.codes, weights=coded.weights, sizes=sizes)
        _, first, counts = np.unique(pack(coded.codes, sizes), return_index=True, return_counts=True)
        return cls(
            codes=np.ascontiguousarray(coded.codes[:, first]), weights=counts.astype(np.int64), sizes=sizes
        )

    @property
    def total(self) -> int:
        """Number of records."""
        return int(self.weights.sum())


def pack(codes: npt.NDArray[Any], sizes: Ints) -> Ints:
    """(n,) one number per record, equal for records that are equal in all rows of codes (d, n)."""
    key, span = np.zeros(codes.shape[1], dtype=np.int64), 1
    for row, size in zip(codes, sizes.tolist(), strict=True):
        if span * size >= 2**62:  # renumber the codes that occur
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            span = len(key)
        key = key * size + row
        span *= size
    return key


def contingency(coded: CodedTable | WeightedRecords, attributes: Sequence[int]) -> Ints:
    """The joint counts of some attributes.

    Args:
        coded: Records as codes, with or without weights.
        attributes: Numbers of distinct attributes, in the order of the result's axes; may be empty.

    Returns:
        int64, one axis per attribute, of its size.

    >>> from privacy_engine import DataSchema
    >>> import pandas as pd
    >>> schema = DataSchema.from_dict({"a": {"categories": ["x", "y"]}, "b": {"categories": ["u", "v"]}})
    >>> table = pd.DataFrame({"a": ["x", "x", "y"], "b": ["u", "v", "v"]})
    >>> contingency(CodedTable.encode(table, schema), [0, 1]).tolist()
    [[1, 1], [0, 1]]
    """
    members = np.array(attributes, dtype=np.int64)
    sizes = np.array(coded.sizes, dtype=np.int64)[members]
    weights = np.ones(coded.codes.shape[1], dtype=np.int64) if coded.weights is None else coded.weights
    counts = count(coded.codes, weights, members, sizes, math.prod(sizes.tolist()))
    return np.asarray(counts).reshape(tuple(sizes.tolist()))


def table_sensitivity(coded: CodedTable) -> int:
    """Return the largest change of a table of joint counts between neighbours, in sum of absolute values.

    If one record is replaced, one cell loses it and one gains it: 2. If all m records of a person are: 2 m.
    """
    return 2 * coded.each


@kernel(nogil=True, inner=True)
def joint_codes(codes: npt.NDArray[Any], members: Ints, sizes: Ints) -> npt.NDArray[np.int32]:
    """(u,) one number per record for its values of the attributes ``members``, the last one running fastest.

    sizes: sizes of the members; their product must be below 2^31. A member of -1 is ignored.
    """
    index = np.zeros(codes.shape[1], np.int32)
    for j in range(len(members)):
        if members[j] >= 0:
            column, size = codes[members[j]], np.int32(sizes[j])
            for r in range(len(index)):
                index[r] = index[r] * size + np.int32(column[r])
    return index


@kernel(nogil=True)
def count(codes: npt.NDArray[Any], weights: Ints, members: Ints, sizes: Ints, cells: int) -> Ints:
    """(cells,) joint counts of the attributes ``members`` with ``sizes``, the last one running fastest."""
    index = joint_codes(codes, members, sizes)
    counts = np.zeros(cells, np.int64)
    for r in range(len(index)):
        counts[index[r]] += weights[r]
    return counts
