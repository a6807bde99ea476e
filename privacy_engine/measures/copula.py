"""How likely a record is unique in a population, by a Gaussian copula that is fitted to a sample.

Rocher, L., Hendrickx, J. M., de Montjoye, Y.-A.: Estimating the success of re-identifications in incomplete
datasets using generative models. Nature Communications 10, 3069 (2019). Each attribute is a cut of a normal
variable, and the normal variables have correlations: a record is a box of them, and p(x), its probability,
the mass of the box. Of n people a person with the record x is unique with the likelihood
``(1 - p(x))^(n - 1)`` (their equation 3), and the share of unique people is its mean over the population that
the model draws.

1. **Marginals** are the frequencies of the sample.
2. **Correlations** of each pair of attributes are those at which the copula has the mutual information that
   the sample shows, less what chance adds, ``(r - 1)(c - 1) / 2n`` (Miller 1955); the sign is that of the
   rank correlation. Negative eigenvalues of all of them together are cut.
3. **Boxes** are integrated by sequential conditioning (Genz 1992), at quasi-random points.

Deviations: the paper chooses among families of marginals, of which only the frequencies require no choice,
and takes values in any coded order; here values without an order are sorted by frequency. For the
correlations, neighbouring values of an attribute are joined to at most `CUTS`, and to fewer for a small
sample.

**An estimate, not a bound**: it is wrong if the sample is not random, if attributes depend on each other in
threes, or if the dependence follows no order. A value that is missing in the sample has no mass, so for a
small sample of an attribute with very many values, too few people are found unique.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, special, stats
from scipy.stats import qmc

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.schema import DataSchema

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CUTS = 24  # values of an attribute that its correlations are fitted on, at most
CELL = 10  # records in a cell of two attributes, in the mean: with fewer chance looks like information
POINTS = 256  # at which a box is integrated
LARGEST = 0.99  # correlation in magnitude
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True)
class GaussianCopula:
    """A model of records.

    Attributes:
        ends: For each attribute, (values + 1,) cumulative frequencies of its values, 0 .. 1.
        correlations: Correlations of the normal variables behind the attributes, shape (a, a).
        codes: Records of the sample, as numbers of values, shape (n, a).
    """

    ends: tuple[Floats, ...]
    correlations: Floats
    codes: Ints

    @classmethod
    def of(cls, sample: pd.DataFrame, schema: DataSchema) -> "GaussianCopula":
        """Fit the quasi-identifiers of a sample.

        Raises:
            SchemaError: If the sample has no record, or lacks a quasi-identifier, or the schema has none.
        """
        needed = schema.quasi_identifiers
        if not needed or not len(sample):
            raise SchemaError("there must be a record and a quasi-identifier; mark one in the schema")
        if missing := [a.name for a in needed if a.name not in sample]:
            raise SchemaError(f"the sample must have the quasi-identifiers {missing}; add the columns")
        codes = np.stack([_codes(sample[a.name], a) for a in needed], axis=1)
        ends = tuple(_ends(column) for column in codes.T)
        return cls(ends=ends, correlations=_correlations(codes), codes=codes)

    def probabilities(self, codes: Ints) -> Floats:
        """(n,) the mass of each record's box, at the same points for all."""
        distinct, which = np.unique(codes, axis=0, return_inverse=True)
        # A fixed seed has no bearing on privacy: it places the points of an integral.
        points: Floats = qmc.Sobol(max(codes.shape[1] - 1, 1), seed=1).random(POINTS)
        lower: Floats = np.linalg.cholesky(self.correlations).astype(np.float64)
        found = np.concatenate([self._boxes(part, lower, points) for part in _parts(distinct)])
        return np.asarray(found[which.ravel()])

    def _boxes(self, codes: Ints, lower: Floats, points: Floats) -> Floats:
        """(n,) Genz (1992): the mass of each attribute's span, given points in those before it."""
        shape = (len(codes), len(points))
        mass, drawn = np.ones(shape), np.zeros((codes.shape[1], *shape))
        for j in range(codes.shape[1]):
            given = np.tensordot(lower[j, :j], drawn[:j], axes=1) if j else np.zeros(shape)
            below, above = (
                special.ndtr((special.ndtri(self.ends[j][codes[:, j] + i])[:, None] - given) / lower[j, j])
                for i in (0, 1)
            )
            mass *= above - below
            if j + 1 < codes.shape[1]:
                inside = below + points[None, :, j] * (above - below)
                drawn[j] = special.ndtri(np.clip(inside, 1e-15, 1 - 1e-15))
        return np.asarray(mass.mean(axis=1))

    def likelihoods(self, population: int) -> Floats:
        """(n,) probability that each record of the sample is unique in a population of a given size."""
        return self._unique(self.codes, population)

    def uniqueness(self, population: int, rng: np.random.Generator, draws: int = 2_000) -> float:
        """Expected share of the people of a population who are unique in it.

        Args:
            population: Size of the population, at least that of the sample.
            rng: Source of randomness of the model's draws.
            draws: Number of draws; the standard error is at most ``1 / (2 sqrt(draws))``.
        """
        normal = rng.standard_normal((draws, len(self.ends))) @ np.linalg.cholesky(self.correlations).T
        uniform = special.ndtr(normal)
        columns = [np.searchsorted(e[1:-1], u, "right") for e, u in zip(self.ends, uniform.T, strict=True)]
        return float(self._unique(np.stack(columns, axis=1).astype(np.int64), population).mean())

    def _unique(self, codes: Ints, population: int) -> Floats:
        if population < len(self.codes):
            raise ValueError(
                f"population must be >= the {len(self.codes)} records of the sample, got {population}"
            )
        mass = np.clip(self.probabilities(codes), 0, 1 - 1e-15)
        return np.asarray(np.exp((population - 1) * np.log1p(-mass)))


def _codes(column: pd.Series, attribute: Attribute) -> Ints:
    """Numbers of values: in their order where they have one, else by frequency; a null comes last."""
    if attribute.categories is not None and attribute.ordered:
        place = {text: i for i, text in enumerate(attribute.categories)}
        coded = factorize(column)
        numbers = np.array([*(place.get(t, len(place)) for t in coded.texts), len(place) + 1])[coded.codes]
    elif attribute.ordered or attribute.dates is not None:
        known = attribute.numbers(column)
        numbers = np.where(np.isnan(known), np.inf, known)
    else:
        coded = factorize(column)
        known = np.where(coded.codes < 0, len(coded.texts), coded.codes)
        counts = np.bincount(known, minlength=len(coded.texts) + 1)[:-1]
        order = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
        numbers = np.array([*order, len(order)])[known]
    return np.unique(numbers, return_inverse=True)[1].ravel().astype(np.int64)


def _ends(codes: Ints) -> Floats:
    ends = np.concatenate([[0], np.cumsum(np.bincount(codes))]) / len(codes)
    return np.asarray(ends)


def _parts(codes: Ints) -> list[Ints]:
    """So few records at once that their points fit into some hundred megabytes."""
    return np.array_split(codes, -(-len(codes) // 2_000))


def _joined(codes: Ints) -> Ints:
    """Neighbouring values joined, of about equal frequency, so that a cell of two has some `CELL` records."""
    ends, most = _ends(codes), max(2, min(CUTS, int(np.sqrt(len(codes) / CELL))))
    if len(ends) - 1 <= most:
        return codes
    middle = (ends[1:] + ends[:-1]) / 2
    cuts = np.minimum((middle * most).astype(np.int64), most - 1)
    return np.asarray(np.unique(cuts[codes], return_inverse=True)[1].ravel(), np.int64)


def _correlations(codes: Ints) -> Floats:
    """(a, a) the correlations of each two attributes, as a correlation matrix."""
    columns = [_joined(column) for column in codes.T]
    found = np.eye(len(columns))
    for i, one in enumerate(columns):
        for j in range(i):
            found[i, j] = found[j, i] = _correlation(one, columns[j])
    values, vectors = np.linalg.eigh(found)
    if values[0] < 1e-6:
        found = (vectors * np.maximum(values, 1e-6)) @ vectors.T
        scale = np.sqrt(np.diag(found))
        found = found / np.outer(scale, scale)
    return np.asarray(found)


def _correlation(x: Ints, y: Ints) -> float:
    """The correlation at which cut normal variables have the mutual information of a sample."""
    rows, columns = int(x.max()) + 1, int(y.max()) + 1
    counts = np.bincount(x * columns + y, minlength=rows * columns).reshape(rows, columns)
    information = _information(counts / len(x)) - (rows - 1) * (columns - 1) / (2 * len(x))
    if information <= 0 or rows == 1 or columns == 1:
        return 0.0
    sign = np.sign(stats.spearmanr(x, y).statistic) or 1.0
    cut_x, cut_y = (np.clip(special.ndtri(_ends(z)), -9, 9) for z in (x, y))

    def beyond(r: float) -> float:
        return _information(_masses(cut_x, cut_y, sign * r)) - information

    if beyond(LARGEST) <= 0:
        return float(sign * LARGEST)
    return float(sign * optimize.brentq(beyond, 0, LARGEST, xtol=1e-4))


def _information(shares: Floats) -> float:
    """Mutual information of a table of shares, nats."""
    alone = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    some = shares > 0
    return float((shares[some] * np.log(shares[some] / alone[some])).sum())


def _masses(x: Floats, y: Floats, r: float) -> Floats:
    """Mass of each cell of a grid under two normal variables of correlation r.

    ``Phi2(x, y; r) = Phi(x) Phi(y) + int_0^r phi2(x, y; s) ds``; with ``s = sin(u)`` the integrand is
    ``exp(-(x^2 + y^2 - 2 x y sin u) / (2 cos^2 u)) / 2 pi`` (Drezner and Wesolowsky 1990).
    """
    u = np.arcsin(r) * (_NODES + 1) / 2
    grid_x, grid_y = x[:, None, None], y[None, :, None]
    exponent = (grid_x**2 + grid_y**2 - 2 * grid_x * grid_y * np.sin(u)) / (2 * np.cos(u) ** 2)
    added = np.exp(-exponent) @ _WEIGHTS * np.arcsin(r) / (4 * np.pi)
    whole = special.ndtr(x)[:, None] * special.ndtr(y)[None, :] + added
    return np.asarray(np.maximum(np.diff(np.diff(whole, axis=0), axis=1), 0))
