"""How many people are unique in a population, estimated from a sample; and the size of classes there.

A record that is unique in a table may be one of many in the population, and then linking it to a person by
these values is a guess. Two estimators, as in ARX: Zayatz, L.: Estimation of the percent of unique population
elements on a microdata file using the sample, US Census Bureau (1991); and Pitman's model, Hoshino, N.:
Applying Pitman's sampling formula to microdata disclosure risk assessment, Journal of Official Statistics 17
(2001). Both assume that the table is a simple random sample. **They are estimates, wrong if it is not**, and
not bounds: a policy is never checked against them.
"""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.attacks.blocks import Blocks
from privacy_engine.attacks.cells import equal_rows, read
from privacy_engine.attacks.seeking import covered_people
from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import DataSchema

Ints = npt.NDArray[np.int64]


def zayatz(sizes: Ints, population: int) -> float:
    """Share of the records of a sample that are unique in the population, 0 .. 1.

    Zayatz (1991): classes of the population are taken to be distributed over sizes as those of the sample. Of
    a class of i people exactly one is in the sample with the hypergeometric probability
    ``h(i) = i C(N - i, n - 1) / C(N, n)``, so a unique record of the sample is unique in the population with
    the probability ``p_1 h(1) / sum_i p_i h(i)``, p_i the share of the classes that have i records.

    Args:
        sizes: Records of each class of the sample, all n of them, shape (c,).
        population: N >= n.

    Raises:
        ValueError: If the population is smaller than the sample, or there is no record.

    >>> zayatz(np.array([1, 1, 2]), 4)  # everyone is in the sample
    0.5
    """
    n = _sample_size(sizes, population)
    counted = np.bincount(sizes)
    alone = int(counted[1]) if len(counted) > 1 else 0
    if not alone:
        return 0.0
    found = np.array([math.exp(_log_one_of(i, n, population)) for i in range(1, len(counted))])
    return float(alone * found[0] / (counted[1:] @ found) * alone / n)


def pitman(sizes: Ints, population: int) -> float:
    """Share of the people of a population who are unique in it, 0 .. 1.

    Hoshino (2001): the sizes of a sample have the likelihood of Pitman's sampling formula in (alpha, theta),
    ``prod_(i=1)^(u-1) (theta + i alpha) / prod_(i=1)^(n-1) (theta + i) * prod_j prod_(i=1)^(f_j - 1) (i -
    alpha)`` up to a constant, with u classes of f_j records. At its maximum the population of N has
    ``Gamma(theta + 1) / Gamma(theta + alpha) N^alpha`` unique people (equation 13, for large N).

    Arguments and errors as for `zayatz`. In a sample with a single class no one is unique; if everyone is
    unique in the sample, everyone is.
    """
    from scipy.optimize import minimize
    from scipy.special import gammaln

    n, classes = _sample_size(sizes, population), len(sizes)
    if classes == 1 or classes == n:
        return float(classes == n)
    of_size, how_many = np.unique(sizes, return_counts=True)

    def unlikely(at: npt.NDArray[np.float64]) -> float:
        alpha = 1 / (1 + math.exp(-at[0]))
        theta = math.exp(at[1]) - alpha  # > -alpha
        likelihood = (
            (classes - 1) * math.log(alpha) + gammaln(theta / alpha + classes) - gammaln(theta / alpha + 1)
        )
        likelihood -= gammaln(theta + n) - gammaln(theta + 1)
        likelihood += how_many @ (gammaln(of_size - alpha) - gammaln(1 - alpha))
        return -float(likelihood)

    best = min(
        (minimize(unlikely, np.array([a, t]), method="Nelder-Mead") for a in (-2.0, 1.0) for t in (0.0, 5.0)),
        key=lambda found: float(found.fun),
    )
    alpha = 1 / (1 + math.exp(-best.x[0]))
    theta = math.exp(best.x[1]) - alpha
    log_unique = gammaln(theta + 1) - gammaln(theta + alpha) + alpha * math.log(population)
    return float(min(1.0, math.exp(log_unique - math.log(population))))


def people_in_population(release: pd.DataFrame, population: pd.DataFrame, source: DataSchema) -> Ints:
    """(n,) number of people in a population whom the quasi-identifiers of each released record cover.

    They are what `risk.journalist_max` and `risk.journalist_mean` ask for, one number a class.

    Args:
        release: Released records with their quasi-identifiers.
        population: Quasi-identifiers of everyone, including those in the release.
        source: Schema of the source.

    Raises:
        SchemaError: If the population lacks a quasi-identifier of the release.
    """
    known = source.select([a.name for a in source.quasi_identifiers])
    if missing := [name for name in known.names if name not in population]:
        raise SchemaError(f"the population must have the quasi-identifiers {missing}; add the columns")
    space, (released, everyone) = read(release, [population], known)
    which = equal_rows(released.numbered)
    first = np.unique(which, return_index=True)[1]
    used = np.ones((len(first), len(space.names)), np.bool_)
    people = Blocks.of(space, everyone)
    count, _ = covered_people(space, released.take(first), people, used, len(everyone) + 1)
    return np.asarray(count[which])


def _sample_size(sizes: Ints, population: int) -> int:
    n = int(sizes.sum())
    if not 0 < n <= population:
        raise ValueError(
            f"population must be >= the {n} records of the sample, and these >= 1, got {population}"
        )
    return n


def _log_one_of(i: int, n: int, population: int) -> float:
    """Return the log probability that a sample of n has exactly one of i people; -inf if impossible."""
    if population - i < n - 1:
        return -math.inf
    return math.log(i) + _log_choose(population - i, n - 1) - _log_choose(population, n)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
