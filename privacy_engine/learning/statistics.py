"""What naive Bayes keeps of one attribute: sums over records by class, from which likelihoods follow.

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


@dataclass
class ListedStatistics:
    """Counts of each released value by class.

    Attributes:
        name: the attribute.
        channel: through which it was released.
        counts: (classes, k) float64.
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
            sizes: (classes,) records of each true class, > 0.
            unmix: (classes, classes) from sums by released class to those by true class.
            alpha: so many records are added to each value of each class.
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
        name: the attribute.
        mechanism: how it was released.
        sums: (classes, 3) of the scores of x - centre, of its square, and of the first score's square.
        centre: near the mean, fixed by the first records.
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
        for at, score in enumerate((first, second, first**2)):
            self.sums[:, at] += np.bincount(classes, weights=score, minlength=len(self.sums))

    def learn(self, sizes: FloatArray, unmix: FloatArray, var_smoothing: float) -> FloatArray:
        """(classes, 2) mean and variance of the normal density of each class, eq. (5).

        A variance that comes out too small where the number or the class was randomized says that there are
        too few records for so much noise: that of all classes together takes its place, infinite if it has
        none (the number is not used then), and a warning says so. Others have a floor as in ``GaussianNB``.

        Args:
            sizes: (classes,) records of each true class, > 0.
            unmix: (classes, classes) from sums by released class to those by true class.
            var_smoothing: of the largest variance of the attribute over all records, the least of a class.
        """
        mean, variance = _moments(unmix @ self.sums, sizes)
        _, pooled = _moments(self.sums.sum(axis=0, keepdims=True), sizes.sum(keepdims=True))
        overall = float(pooled[0])
        floor = var_smoothing * overall if overall > 0 else 1.0  # a constant tells nothing of the class
        if isinstance(self.mechanism, Plain) and np.array_equal(unmix, np.eye(len(unmix))):
            variance = np.maximum(variance, 0.0) + floor  # rounding alone makes it negative
        elif (low := variance <= floor).any():
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


def _moments(sums: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and unbiased variance from sums of scores, see ``randomizers.numeric.moments``."""
    first, second, square = (sums / sizes[:, None]).T
    of_mean = np.maximum(square - first**2, 0.0) / np.maximum(sizes - 1, 1.0)
    return first, second - first**2 + of_mean


def label_codes(name: str, labels: tuple[str, ...], column: pd.Series) -> npt.NDArray[np.int64]:
    """(n,) the code of each value among public labels, a null among them as a value.

    Raises:
        SchemaError: if values are not among the labels.
    """
    coded = factorize(column)
    code_of = {label: code for code, label in enumerate(labels)}
    found = np.array(
        [*(code_of.get(text, -1) for text in coded.texts), code_of.get(NULL, -1)], dtype=np.int64
    )
    codes = found[coded.codes]
    if unknown := int((codes < 0).sum()):
        raise SchemaError(
            f"{name}: {unknown} values are not in the public domain of the release: mend the source"
        )
    return codes


def numbers(name: str, column: pd.Series) -> FloatArray:
    """(n,) finite values.

    Raises:
        SchemaError: if the column holds no numbers, or nulls or infinite ones.
    """
    if not is_number(column):
        raise SchemaError(
            f"{name}: must hold numbers or be listed in the manifest, got {column.dtype}: leave it out"
        )
    values = floats(column)
    if bad := int((~np.isfinite(values)).sum()):
        raise SchemaError(f"{name}: {bad} values are null or infinite: drop them")
    return values
