"""PPNB: naive Bayes from only a randomized release, as a scikit-learn classifier.

Zhang, Tang: Privacy Preserving Naive Bayes Classification (Chinese Journal of Computers 30(8), 2007),
section 5: P(C) from counts, P(z | C) of a listed attribute by eq. (1) inside the class (eq. 4), that of a
number as a normal density with the reconstructed mean and variance (eqs. 2, 3, 5); the largest product wins.

Beyond the paper: the class may have been randomized as well (its channel is inverted like the others); shares
are clipped, normalised and smoothed by ``alpha`` records per value; a number's variance in a class is pulled
towards that of all classes as far as it is noise (``shrinkage=False`` is the paper's plain estimator).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from privacy_engine.learning.statistics import ListedStatistics, NumericStatistics
from privacy_engine.randomizers.channel import Channel, IntArray
from privacy_engine.randomizers.estimation import FloatArray
from privacy_engine.randomizers.numeric import Plain
from privacy_engine.randomizers.randomization import Randomization
from privacy_engine.tables.columns import value_text

LEAST = 1e-3  # records of a class that the inverse of the class's channel left without any


class PrivateNaiveBayes(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Naive Bayes trained on a randomized release; it predicts true records.

    Fit costs one pass and sums up, so ``partial_fit`` over partitions equals one ``fit``. Learning is
    post-processing of the release: it costs no privacy.

    Args:
        manifest: Manifest of the release; None means that nothing was randomized and all columns are numbers.
            With a manifest, X must be a data frame; columns that are not in it are plain numbers.
        label: Name of the class attribute in the manifest; by default the name of y.
        alpha: Number of records added to each listed value of each class, >= 0.
        var_smoothing: Least variance of a class, as a share of the attribute's.
        shrinkage: Whether a class only keeps the share v^2 / (v^2 + e^2) of its variance v, with standard
            error e, and takes the rest from that of all classes: noise makes some v far too small, which then
            dominates the decision. Without randomization nothing changes, and with many records little. It is
            not in the paper; False is the paper's estimator.

    Attributes:
        classes_: Classes, sorted, shape (c,).
        class_count_: Records by released class, shape (c,).
    """

    def __init__(
        self,
        manifest: Mapping[str, Any] | None = None,
        *,
        label: str | None = None,
        alpha: float = 1.0,
        var_smoothing: float = 1e-9,
        shrinkage: bool = True,
    ) -> None:
        self.manifest = manifest
        self.label = label
        self.alpha = alpha
        self.var_smoothing = var_smoothing
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any) -> "PrivateNaiveBayes":  # noqa: N803  scikit-learn's name
        """Learn from released records.

        Args:
            X: Released attributes, shape (n, d).
            y: Released classes, shape (n,).

        Raises:
            SchemaError: If a value is not in the release's public domain.
            ValueError: If the shapes differ, or a parameter is out of range.
        """
        X, y = self._checked(X, y, reset=True)  # noqa: N806  scikit-learn's name
        self._begin(X, y, unique_labels(y))
        return self._add(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "PrivateNaiveBayes":  # noqa: N803  as above
        """Learn from more released records.

        Args:
            X: Released attributes, shape (n, d).
            y: Released classes, shape (n,).
            classes: All that may occur, shape (c,); needed by the first call, unless the class was
                randomized.

        Raises:
            SchemaError, ValueError: As ``fit``, and if a class was not announced.
        """
        first = not hasattr(self, "classes_")
        X, y = self._checked(X, y, reset=first)  # noqa: N806  scikit-learn's name
        if first:
            if classes is None and self._label_channel() is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._begin(X, y, unique_labels(y if classes is None else classes))
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError("classes must be the same in every call to partial_fit")
        return self._add(X, y)

    @property
    def class_prior_(self) -> FloatArray:
        """(c,) the reconstructed shares of the classes."""
        sizes = self._sizes()
        return np.asarray(sizes / sizes.sum())

    def predict_joint_log_proba(self, X: Any) -> FloatArray:  # noqa: N803  as above
        """(n, c) log P(C) + log P(z | C)."""
        check_is_fitted(self)
        X, _ = self._checked(X, None, reset=False)  # noqa: N806  scikit-learn's name
        sizes = self._sizes()
        log = np.tile(np.log(self.class_prior_), (len(X), 1))
        for at, kept in enumerate(self.statistics_):
            if isinstance(kept, ListedStatistics):
                learned = kept.learn(sizes, self.unmix_, self.alpha)
            else:
                learned = kept.learn(sizes, self.unmix_, self.var_smoothing, shrinkage=self.shrinkage)
            log += kept.log_likelihood(X.iloc[:, at], learned)
        return log

    def predict_log_proba(self, X: Any) -> FloatArray:  # noqa: N803  as above
        """(n, c) log of the probability of each class."""
        log = self.predict_joint_log_proba(X)
        return np.asarray(log - logsumexp(log, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803  as above
        """(n, c) probability of each class."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803  as above
        """(n,) the most probable class of true records."""
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[pd.DataFrame, Any]:  # noqa: N803  as above
        """X as a data frame, y as an array or None."""
        if self.manifest is None:
            given = validate_data(self, X, "no_validation" if y is None else y, dtype=np.float64, reset=reset)
            X, y = given if isinstance(given, tuple) else (given, None)  # noqa: N806  scikit-learn's name
            X = pd.DataFrame(X)  # noqa: N806  scikit-learn's name
        else:
            if not isinstance(X, pd.DataFrame):
                raise ValueError("X must be a data frame: the manifest names its columns")
            validate_data(self, X, skip_check_array=True, reset=reset)
        if y is not None:
            if reset:
                self.label_ = getattr(y, "name", None) if self.label is None else self.label
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
            if len(y) != len(X) or not len(y):
                raise ValueError(f"X and y must have as many records, at least 1, got {len(X)} and {len(y)}")
        return X, y

    def _randomization(self) -> Randomization:
        return (
            Randomization(mechanisms={})
            if self.manifest is None
            else Randomization.of_manifest(self.manifest)
        )

    def _label_channel(self) -> Channel | None:
        """Through which the class was released."""
        randomization = self._randomization()
        known = {*randomization.mechanisms, *randomization.released_as_is}
        if self.label is not None and self.label not in known:
            raise ValueError(f"label must be one of {sorted(known)}, got {self.label!r}")
        mechanism = randomization.mechanisms.get(str(self.label_))
        if mechanism is not None and not isinstance(mechanism, Channel):
            raise ValueError(f"label must be a listed attribute to be a class, {self.label_!r} is a number")
        return mechanism

    def _begin(self, X: pd.DataFrame, y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> None:  # noqa: N803
        if not (self.alpha >= 0 and self.var_smoothing >= 0):
            raise ValueError(f"alpha and var_smoothing must be >= 0, got {self.alpha}, {self.var_smoothing}")
        channel = self._label_channel()
        self.classes_, self.unmix_ = classes, np.eye(len(classes))
        if channel is not None:
            all_classes = _classes_of(channel.labels, np.asarray(y).dtype.kind)
            order = np.argsort(all_classes)
            self.classes_, self.unmix_ = all_classes[order], channel.inverse.T[np.ix_(order, order)]
        mechanisms = self._randomization().mechanisms
        self.class_count_ = np.zeros(len(self.classes_))
        self.statistics_: list[ListedStatistics | NumericStatistics] = []
        for name in X.columns:
            mechanism = mechanisms.get(name, Plain())
            if isinstance(mechanism, Channel):
                counts = np.zeros((len(self.classes_), len(mechanism)))
                self.statistics_.append(ListedStatistics(str(name), mechanism, counts))
            else:
                sums = np.zeros((len(self.classes_), 3, 3))
                self.statistics_.append(NumericStatistics(str(name), mechanism, sums))

    def _add(self, X: pd.DataFrame, y: npt.NDArray[Any]) -> "PrivateNaiveBayes":  # noqa: N803  as above
        codes = self._codes(y)
        self.class_count_ += np.bincount(codes, minlength=len(self.classes_))
        for at, kept in enumerate(self.statistics_):
            kept.add(X.iloc[:, at], codes)
        return self

    def _sizes(self) -> FloatArray:
        """(c,) records of each true class."""
        return np.asarray(np.maximum(self.unmix_ @ self.class_count_, LEAST))

    def _codes(self, y: npt.NDArray[Any]) -> IntArray:
        values, inverse = np.unique(y, return_inverse=True)
        code_of = {value_text(value): code for code, value in enumerate(self.classes_.tolist())}
        codes = np.array([code_of.get(value_text(value), -1) for value in values.tolist()], dtype=np.int64)
        if (codes < 0).any():
            raise ValueError(f"y holds {int((codes < 0).sum())} classes that were not announced")
        return codes[inverse]


def _classes_of(labels: tuple[str, ...], kind: str) -> npt.NDArray[Any]:
    """Return the classes of public labels, in the kind of NumPy type that y has."""
    if kind == "b":
        return np.array([label == "True" for label in labels])
    if kind in "iuf":
        return np.array([float(label) for label in labels]).astype(int if kind in "iu" else float)
    return np.array(labels)
