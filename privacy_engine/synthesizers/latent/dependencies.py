"""Functional dependencies: attributes determined by another one, found in noisy figures and then enforced.

A table in which `region` is a function of `code` loses nearly all of this in a model of few classes. If a
dependency is found, the model omits the determined attribute, and every drawn record has the value that the
function returns. The function comes from a noisy table, so a value with few records may be mapped wrongly.

For attributes a and b let K = sum over the values of a of the largest count of a value of b with it: the
records that the best function explains. Replacing a record lowers one count by one and raises another, so K
and the largest count of b each change by at most one, and together:

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

PENALTY = 2  # exceptions that weigh as much as one record better than only the most frequent value
SCORE_SENSITIVITY = 2 + PENALTY  # of one record
TOLERANCE = 0.01  # share of the records that may be exceptions
CLEAR = 2.0  # scales of noise that a count of exceptions may lie above that
LEAST_DETERMINING = 9  # values of an attribute that others may depend on: views cover narrower ones
MOST_CELLS = 2**16  # of the two attributes' table


@dataclass(frozen=True, kw_only=True, eq=False)
class Dependency:
    """An attribute that is a function of another one.

    Attributes:
        determining, determined: Numbers of the two attributes.
        function: Value of the determined for each value of the determining, shape (size of the determining,).
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
    """Return how much better a function of a predicts b than b's most frequent value does, less its errors.

    Args:
        counts: Number of records with each pair of values, shape (a, b).
        total: Public number of records.
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
