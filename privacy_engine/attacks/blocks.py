"""Blocks of similar records, so that a search skips every block that cannot contain a match.

The extent of each block's records is known. So a bound of the distance to all of them, or of what they may
match, is found without visiting them. A search by blocks finds the same as a search of all records.

Similar records are grouped along a Z-order curve (Morton 1966): a record's position on it interleaves the
bits of its ranks in all attributes, the first bit of each, then the second.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.attacks.cells import Bools, Cells, Floats, Ints, Space
from privacy_engine.compiled import kernel

SIZE = 64  # records per block
WORDS = 4  # words per set of values
BITS = 64 * WORDS  # values that a set distinguishes; beyond that, some share a bit
_PLACE = 62  # bits of a position on the curve

T = TypeVar("T", bound=np.generic)
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Blocks:
    """Records in blocks of `SIZE`.

    Attributes:
        cells: Records, block after block.
        order: Original index of each record, shape (n,).
        low, high: Ends of each block's span of each ordered attribute, shape (b, o); inf .. -inf = no value.
        null: Whether some record covers a null, or has no value, shape (b, o).
        words: Values of each other attribute that some record covers, as bits, shape (b, c, WORDS).
        cell_words: The same for each cell, shape (c, cells, WORDS).
    """

    cells: Cells
    order: Ints
    low: Floats
    high: Floats
    null: Bools
    words: Words
    cell_words: Words

    @classmethod
    def of(cls, space: Space, given: Cells) -> "Blocks":
        """Group records into blocks."""
        order = np.argsort(_places(given), kind="stable")
        cells = given.take(order)
        begins = np.arange(0, len(cells), SIZE)
        own = _words_of_cells(space)
        return cls(
            cells=cells,
            order=order,
            low=_reduced(np.minimum, np.where(np.isnan(cells.low), np.inf, cells.low), begins),
            high=_reduced(np.maximum, np.where(np.isnan(cells.high), -np.inf, cells.high), begins),
            null=_reduced(np.logical_or, cells.null | np.isnan(cells.low), begins),
            words=_words_of_blocks(cells.codes, own, len(begins)),
            cell_words=own,
        )


def _reduced(how: np.ufunc, values: npt.NDArray[T], begins: Ints) -> npt.NDArray[T]:
    if not len(begins) or not values.shape[1]:
        return np.zeros((len(begins), values.shape[1]), values.dtype)
    found: npt.NDArray[T] = np.ascontiguousarray(how.reduceat(values, begins, axis=0))
    return found


def _places(cells: Cells) -> npt.NDArray[np.uint64]:
    """(n,) the position of each record on the curve, attributes without an order first."""
    middles = np.nan_to_num((cells.low + cells.high) / 2, nan=-1.0)
    columns = [*cells.codes.T, *middles.T][:_PLACE]
    found = np.zeros(len(cells), np.uint64)
    if not columns:
        return found
    ranks = [_rank(column) for column in columns]
    for depth in range(1, min(32, _PLACE // len(columns)) + 1):
        for rank in ranks:
            found = (found << np.uint64(1)) | ((rank >> np.uint64(32 - depth)) & np.uint64(1))
    return found


def _rank(column: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    """(n,) the share of records with a smaller value, in 2^-32."""
    codes, values = pd.factorize(column, sort=True)
    counts = np.bincount(codes, minlength=len(values))
    below = (np.cumsum(counts) - counts) / max(len(column), 1)
    return np.asarray((below * 2.0**32).astype(np.uint64)[codes])


def _words_of_cells(space: Space) -> Words:
    most = max((len(c) for c in space.covers), default=1)
    found = np.zeros((len(space.covers), most, WORDS), np.uint64)
    for j, covers in enumerate(space.covers):
        for value in range(covers.shape[1]):  # a few thousand
            bit = np.uint64(1) << np.uint64(value % 64)
            found[j, : len(covers), value % BITS // 64] |= np.where(covers[:, value] > 0, bit, np.uint64(0))
    return found


@kernel()
def _words_of_blocks(codes: npt.NDArray[np.int32], own: Words, blocks: int) -> Words:
    found = np.zeros((blocks, codes.shape[1], WORDS), np.uint64)
    for i in range(len(codes)):
        for c in range(codes.shape[1]):
            for w in range(WORDS):
                found[i // SIZE, c, w] |= own[c, codes[i, c], w]
    return found
