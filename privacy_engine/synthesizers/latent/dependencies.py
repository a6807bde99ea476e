"""Functional dependencies: an attribute that another one determines, found in noisy figures and then kept.

A table in which `region` is a function of `code` keeps almost nothing of this in a model of few classes.
Where a dependency is found, the model leaves the determined attribute out, and every record drawn has the
value that the function gives. The function is what a noisy table says: a value of few records may be mapped
wrongly.

For attributes a and b let K = sum over the values of a of the largest count of a value of b beside it: the
records that the best function keeps. A record that is replaced lowers one count by one and raises another, so
that each of K and the largest count of b changes by at most one, and all together:

    exceptions   n - K                                       changes by at most 1
    score        K - largest count of b - PENALTY (n - K)    changes by at most 2 + PENALTY

and by m times as much where m records of one person are replaced (triangle inequality).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

PENALTY = 2  # exceptions that weigh as much as one record better than the most frequent value alone
SCORE_SENSITIVITY = 2 + PENALTY  # of one record
TOLERANCE = 0.01  # share of the records that may be exceptions
CLEAR = 2.0  # scales of noise that a count of exceptions may lie above that
LEAST_DETERMINING = 9  # values of an attribute that others may depend on: views tell of narrower ones
MOST_CELLS = 2**16  # of the two attributes' table


@dataclass(frozen=True, kw_only=True, eq=False)
class Dependency:
    """An attribute that is a function of another one.

    Attributes:
        determining, determined: numbers of the two attributes.
        function: (size of the determining,) the value of the determined for each value of the determining.
    """

    determining: int
    determined: int
    function: Ints


def kept(counts: Ints) -> int:
    """K of a table (a, b): records that agree with the best function of a.

    >>> kept(np.array([[5, 1], [0, 4]]))
    9
    """
    return int(counts.max(axis=1).sum())


def score(counts: Ints, total: int) -> int:
    """How much better a function of a tells b than b's most frequent value does, less what it gets wrong.

    Args:
        counts: (a, b).
        total: the public number of records.
    """
    best = kept(counts)
    return best - int(counts.sum(axis=0).max()) - PENALTY * (total - best)


def candidates(sizes: Sequence[int], determined: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs (a, b) of attributes that are not determined yet, b with at most as many values as a."""
    free = [attribute for attribute in range(len(sizes)) if attribute not in determined]
    return [
        (a, b)
        for a, b in itertools.permutations(free, 2)
        if sizes[a] >= max(sizes[b], LEAST_DETERMINING) and sizes[b] > 1 and sizes[a] * sizes[b] <= MOST_CELLS
    ]
