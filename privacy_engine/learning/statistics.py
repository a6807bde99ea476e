"""The state of naive Bayes for one attribute: sums over records by class, from which likelihoods follow.

Sums add up over partitions. Where the class itself was released through a channel, its inverse is applied to
the sums by released class: they are linear in the records, so the result is unbiased for the true classes.
"""

import math
import warnings
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.randomizers.channel import Channel, IntArray
from privacy_engine.randomizers.estimation import FloatArray, clipped
from privacy_engine.randomizers.numeric import NumericMechanism, Plain
from privacy_engine.tables.columns import NULL, factorize, floats, is_number
from privacy_engine.vocabulary import counted


@dataclass
class ListedStatistics:
    """Counts of each released value by class.

    Attributes:
        name: Name of the attribute.
        channel: Through which it was released.
        counts: Float64, shape (classes, k).
    """

    name: str
    channel: Channel
    counts: FloatArray

    def add(self, column: pd.Series, classes: IntArray) -> None:
        """Count more records; ``classes``: (n,) codes of the released classes."""
        codes = label_codes(self.name, self.channel.labels, column)
        k = len(self.channel)
        self.counts += np.bincount(classes * k + codes, minlength=self.counts.size).reshape(-1, k)

    def learn(self, sizes: FloatArray, unmix: FloatArray, alpha: float) -> FloatArray:
        """(classes, k) log P(z | C), eq. (4), clipped, normalised and smoothed.

        Args:
            sizes: Records of each true class, > 0, shape (classes,).
            unmix: Matrix from sums by released class to sums by true class, shape (classes, classes).
            alpha: Number of records added to each value of each class.
        """
        shares = (unmix @ self.counts @ self.channel.inverse) / sizes[:, None]
        certain = np.stack([clipped(row) for row in shares])
        smoothed = (certain * sizes[:, None] + alpha) / (sizes[:, None] + alpha * len(self.channel))
        return np.log(np.maximum(smoothed, np.finfo(np.float64).tiny))

    def log_likelihood(self, column: pd.Series, learned: FloatArray) -> FloatArray:
        """(n, classes) of true values."""
        return learned[:, label_codes(self.name, self.channel.labels, column)].T


@dataclass
class NumericStatistics:
    """Sums of scores of a number by class.

    Attributes:
        name: Name of the attribute.
        mechanism: Mechanism that released it.
        sums: Sums of the products of 1 and the scores of x - centre and of its square, shape (classes, 3, 3).
        centre: Near the mean, fixed by the first records.
    """

    name: str
    mechanism: NumericMechanism
    sums: FloatArray
    centre: float | None = field(default=None)

    def add(self, column: pd.Series, classes: IntArray) -> None:
        """Add up more records; ``classes``: (n,) codes of the released classes."""
        values = numbers(self.name, column)
        if self.centre is None:
            self.centre = float(self.mechanism.scores(values)[:, 0].mean())
        first, second = self.mechanism.scores(values, self.centre).T
        terms = (np.ones(len(values)), first, second)
        for at, to in np.ndindex(3, 3):
            self.sums[:, at, to] += np.bincount(
                classes, weights=terms[at] * terms[to], minlength=len(self.sums)
            )

    def learn(
        self, sizes: FloatArray, unmix: FloatArray, var_smoothing: float, *, shrinkage: bool
    ) -> FloatArray:
        """(classes, 2) mean and variance of the normal density of each class, eq. (5).

        With ``shrinkage`` each variance is pulled towards that of all classes together, see ``_shrunk``. If
        the number or the class was randomized and a variance is too small, there are too few records for that
        much noise. With a warning, the variance of all classes together replaces it, or infinity if there is
        none; the number is then not used. Other variances have a floor as in ``GaussianNB``.

        Args:
            sizes: Records of each true class, > 0, shape (classes,).
            unmix: Matrix from sums by released class to sums by true class, shape (classes, classes).
            var_smoothing: Share of the attribute's largest variance over all records that is a class's least
                variance.
            shrinkage: Whether to shrink variances; never done if neither number nor class was randomized.
        """
        mean, variance, error = _moments(self.sums, sizes, unmix)
        _, pooled, pooled_error = _moments(self.sums, sizes.sum(keepdims=True), np.ones((1, len(sizes))))
        overall = float(pooled[0])
        floor = (
            var_smoothing * overall if overall > 0 else 1.0
        )  # a constant is not informative about the class
        if isinstance(self.mechanism, Plain) and np.array_equal(unmix, np.eye(len(unmix))):
            variance = np.maximum(variance, 0.0) + floor  # only rounding makes it negative
            return np.stack([mean + (self.centre or 0.0), variance], axis=1)
        low = variance <= floor
        if shrinkage and overall > 0:
            overall = max(overall, float(pooled_error[0]))  # less cannot be distinguished from noise
            variance = _shrunk(variance, error, overall)
        if low.any():
            warnings.warn(
                f"the variance of {self.name!r} is lost in noise in {int(low.sum())} of {len(low)} classes: "
                "that of all classes is used; bring more records, or weaken the randomization",
                UserWarning,
                stacklevel=2,
            )
            variance = np.where(low, overall if overall > 0 else math.inf, variance)
        return np.stack([mean + (self.centre or 0.0), variance], axis=1)

    def log_likelihood(self, column: pd.Series, learned: FloatArray) -> FloatArray:
        """(n, classes) of true values; 0 where the variance is infinite."""
        mean, variance = learned.T
        known = np.isfinite(variance)
        variance = np.where(known, variance, 1.0)
        distance = (numbers(self.name, column)[:, None] - mean) ** 2
        density = -0.5 * (np.log(2 * math.pi * variance) + distance / variance)
        return np.where(known, density, 0.0)


def _moments(
    sums: FloatArray, sizes: FloatArray, unmix: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, unbiased variance and its standard error of each class, see ``randomizers.numeric.moments``.

    A record adds (x - mean)^2 - variance to the variance (delta method), of which the score is a sum of 1
    and its two scores with weights w: the squares of all records of a released class add up to w' sums w.
    """
    true = np.einsum("tc,cij->tij", unmix, sums) / sizes[:, None, None]
    first, second, square = true[:, 0, 1], true[:, 0, 2], true[:, 1, 1]
    of_mean = np.maximum(square - first**2, 0.0) / np.maximum(sizes - 1, 1.0)
    variance = second - first**2 + of_mean
    weights = np.stack([first**2 - variance, -2 * first, np.ones(len(sizes))], axis=1)
    squares = np.einsum("tc,ti,cij,tj->t", unmix**2, weights, sums, weights)
    return first, variance, np.sqrt(np.maximum(squares, 0.0)) / sizes


def _shrunk(variance: FloatArray, error: FloatArray, overall: float) -> FloatArray:
    """(classes,) variances pulled towards that of all classes by their share of noise; not in the paper.

    Of an estimate v with standard error e the share v^2 / (v^2 + e^2) is kept, none of one below 0: a v far
    too small would make a spike of the density, which by itself decides for or against its class.
    """
    known = np.maximum(variance, 0.0) ** 2
    kept = np.divide(known, known + error**2, out=np.zeros_like(known), where=known > 0)
    return np.asarray(kept * variance + (1 - kept) * overall)


def label_codes(name: str, labels: tuple[str, ...], column: pd.Series) -> npt.NDArray[np.int64]:
    """(n,) the code of each value among public labels, a null among them as a value.

    Raises:
        SchemaError: If values are not among the labels.
    """
    coded = factorize(column)
    code_of = {label: code for code, label in enumerate(labels)}
    found = np.array(
        [*(code_of.get(text, -1) for text in coded.texts), code_of.get(NULL, -1)], dtype=np.int64
    )
    codes = found[coded.codes]
    if unknown := int((codes < 0).sum()):
        raise SchemaError(
            f"{name}: {counted(unknown, 'value is', 'values are')} not in the public domain of the release: "
            "correct the source"
        )
    return codes


def numbers(name: str, column: pd.Series) -> FloatArray:
    """(n,) finite values.

    Raises:
        SchemaError: If the column holds no numbers, or nulls or infinite ones.
    """
    if not is_number(column):
        raise SchemaError(
            f"{name}: must hold numbers or be listed in the manifest, got {column.dtype}. Omit it"
        )
    values = floats(column)
    if bad := int((~np.isfinite(values)).sum()):
        raise SchemaError(f"{name}: {counted(bad, 'value is', 'values are')} null or infinite: drop them")
    return values
