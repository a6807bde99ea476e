"""Tables of counts before and after one record is replaced, for the tests of sensitivities."""

import itertools

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def neighbours(shape: int | tuple[int, ...], n: int) -> list[tuple[Ints, Ints]]:
    """All tables of n records over the cells, each with those after every replacement of one record."""
    cells, found = int(np.prod(shape)), []
    for records in itertools.combinations_with_replacement(range(cells), n):
        before = np.bincount(records, minlength=cells)
        for old, new in itertools.product(set(records), range(cells)):
            after = before.copy()
            after[old] -= 1
            after[new] += 1
            found.append((before.reshape(shape), after.reshape(shape)))
    return found
