"""The position of a record among the records of all fragments: a range of values, and the order within it.

Both only depend on the records' own values, so a position does not reveal a fragment.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.types as t

OF_A_RANGE = 100  # records of a sample; one range in a million is half as large again by chance
MOST_EQUAL = 4  # ranges that equal records may fill, because they are in one

Row = tuple[Any, ...]
"""A record's values; None is a null."""


@dataclass(frozen=True)
class Ranges:
    """The records at which each range but the first begins, ascending.

    Records are sorted by their first column, then the next; nulls come last. The range of a record only
    depends on its values: not on its position, nor on the file it comes from.

    Attributes:
        columns: Columns that are compared.
        starts: Distinct records of these columns, ascending.

    >>> ranges = Ranges(("age", "town"), ((30, "b"), (40, None)))
    >>> frame = pd.DataFrame({"age": [29, 30, 30, 40, 41], "town": ["b", "a", "b", "b", None]})
    >>> ranges.assign(frame).tolist()
    [0, 0, 1, 1, 2]
    """

    columns: tuple[str, ...]
    starts: tuple[Row, ...]

    @classmethod
    def of_sample(cls, sample: pd.DataFrame, ranges: int) -> Self | None:
        """Ranges that have about as many records of a sample each.

        If each set of that many records is equally likely to be the sample, then the probability of some
        ranges also only depends on the values of the records.

        Args:
            sample: Sampled records of the table, at least one.
            ranges: Number of ranges; there are fewer if records are equal.

        Returns:
            None if equal records would fill more than `MOST_EQUAL` ranges: then one is too large.
        """
        ranks = [_ranks(sample[name]) for name in reversed(sample.columns)]
        places = np.arange(1, ranges) * len(sample) // ranges
        chosen = sample.iloc[np.lexsort(ranks)[places]]
        rows = list(zip(*(_values(chosen[name]) for name in chosen), strict=True))
        starts = tuple(dict.fromkeys(rows))
        if max(Counter(rows).values(), default=0) > MOST_EQUAL:
            return None
        return cls(tuple(sample.columns), starts)

    def assign(self, frame: pd.DataFrame) -> npt.NDArray[np.int32]:
        """(n,) the range of each record, from 0: how many of the starts are not behind it."""
        out = np.zeros(len(frame), np.int32)
        rows, same = np.arange(len(frame)), np.zeros(len(frame), np.int64)
        for place, name in enumerate(self.columns):
            # `rows` agree with starts in all columns before; `same` numbers the beginnings that they share.
            known = _distinct([start[place] for start in self.starts])
            own, width = _positions(frame[name], known), 2 * len(known) + 1
            keys, first = self._beginnings(place, known, width)
            sought = same * width + own[rows]
            found = np.searchsorted(keys, sought)
            agrees = np.append(keys, -1)[found] == sought
            out[rows[~agrees]] = np.append(first, len(self.starts))[found[~agrees]]
            rows, same = rows[agrees], found[agrees]
        out[rows] = same + 1  # they are equal to starts, each of which is now a separate beginning
        return out

    def _beginnings(
        self, place: int, known: Sequence[Any], width: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Of the distinct beginnings of starts up to a column: key in `assign`, and the first such start."""
        before = {row: number for number, row in enumerate(dict.fromkeys(s[:place] for s in self.starts))}
        number = {value: 2 * i + 1 for i, value in enumerate(known)}
        found: dict[int, int] = {}
        for i, start in enumerate(self.starts):
            found.setdefault(before[start[:place]] * width + number[start[place]], i)
        return np.array([*found], np.int64), np.array([*found.values()], np.int64)


def _positions(column: pd.Series, known: Sequence[Any]) -> npt.NDArray[np.int64]:
    """(n,) position of each value among known ones: 2i + 1 = it is the i-th, 2i = just before it."""
    codes, values = pd.factorize(column)
    ordered = [value for value in known if value is not None]
    null = 2 * len(ordered) + (None in known)
    if ordered and getattr(values.dtype, "kind", "O") in "iuf":
        own = np.asarray(values)
        sides = [np.searchsorted(np.array(ordered), own, side) for side in ("left", "right")]
        places = np.asarray(sides[0] + sides[1], np.int64)
    else:
        places = np.array([_place(value, ordered) for value in values.tolist()], np.int64)
    return np.append(places, null)[codes]  # code -1, a null, reads the last


def _place(value: Any, ordered: Sequence[Any]) -> int:
    at = bisect_left(ordered, value)
    return 2 * at + (at < len(ordered) and ordered[at] == value)


def _ranks(column: pd.Series) -> npt.NDArray[np.int64]:
    """(n,) equal values have equal ranks, smaller ones smaller ranks, and nulls the largest."""
    codes, values = pd.factorize(column)
    own = values.tolist()
    ranks = np.empty(len(own) + 1, np.int64)
    ranks[sorted(range(len(own)), key=own.__getitem__)] = np.arange(len(own))
    ranks[-1] = len(own)
    return ranks[codes]


def _values(column: pd.Series) -> list[Any]:
    """The values, None for a null."""
    codes, values = pd.factorize(column)
    own = [*values.tolist(), None]
    return [own[code] for code in codes]


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Each value once, ascending, a null last."""
    ordered = sorted({value for value in values if value is not None})
    return [*ordered, *([None] if None in values else [])]


def in_order(records: pa.Table) -> pa.Table:
    """Sort records by their values, the first column first; equal ones are indistinguishable.

    0.0 and -0.0 are equal, and so are NaNs: values that differ only in their bits are ordered by them.
    """
    bits = {
        f"bits of {name}": pa.chunked_array([part.view(_INTEGERS[column.type]) for part in column.chunks])
        for name, column in zip(records.column_names, records.columns, strict=True)
        if t.is_floating(column.type) and len(column)
    }
    keyed = records
    for name, column in bits.items():
        keyed = keyed.append_column(name, column)
    return keyed.sort_by([(name, "ascending") for name in keyed.column_names]).select(records.column_names)


_INTEGERS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
