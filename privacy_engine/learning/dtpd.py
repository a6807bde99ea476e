"""DTPD: a decision tree from records that were reversed as a whole, the baseline of PPNB.

Du, Zhan: Using Randomized Response Techniques for Privacy-Preserving Data Mining (KDD 2003). Warner's
randomized response on boolean attributes: each record is kept with probability theta, and all its attributes
are reversed with 1 - theta. ID3 then uses the proportions from P*(E) = P(E) theta + P(E reversed) (1 -
theta), inside each class: the class is not randomized here, as for PPNB.

A record is released as itself or as its reverse and never as a third one, so this has no local differential
privacy at any theta (another record of the same person is ruled out); it is here to be compared with.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from privacy_engine.randomizers.channel import check_share
from privacy_engine.randomizers.estimation import FloatArray

BoolArray = npt.NDArray[np.bool_]


def reverse_records(table: BoolArray, theta: float, rng: np.random.Generator) -> BoolArray:
    """(n, d) records, each kept with probability theta, or else with all its attributes reversed.

    Raises:
        ValueError: If theta is not in (0, 1).
    """
    check_share("theta", theta)
    return np.asarray(table ^ (rng.random(len(table)) >= theta)[:, None])


def warner_breach(theta: float) -> float:
    """The breach coefficient of Warner's answers, by the definition of PPNB's paper (section 6.1).

    The share of true values times the chance that one is recognised, and the same of the false ones, each of
    which gives the true value away: theta^2 + (1 - theta)^2. Of two values, partial hiding has
    2 p_0^2 / (1 + p_0), which is less for p_0 = theta < 1 / sqrt 2, equal there, and more above.

    >>> warner_breach(0.5)
    0.5

    Raises:
        ValueError: If theta is not in (0, 1).
    """
    check_share("theta", theta)
    return theta**2 + (1 - theta) ** 2


@dataclass(frozen=True)
class Leaf:
    """The class of records that reach it."""

    label: int


@dataclass(frozen=True)
class Split:
    """The values of an attribute."""

    attribute: int
    no: "Split | Leaf"
    yes: "Split | Leaf"


class DTPD(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """ID3 on proportions estimated from reversed records; it predicts true records.

    Args:
        theta: Probability with which records were kept, in (0, 1), but not 0.5, where estimates are
            impossible.
        least_share: Estimated share of all records that a node must have to be split.

    Attributes:
        classes_: Classes, sorted, shape (c,).
        tree_: Root of the fitted tree.
    """

    def __init__(self, theta: float = 0.8, *, least_share: float = 0.002) -> None:
        self.theta = theta
        self.least_share = least_share

    def fit(self, X: Any, y: Any) -> "DTPD":  # noqa: N803  scikit-learn's name
        """Learn from released records.

        Args:
            X: Bool, shape (n, d).
            y: Classes, shape (n,).

        Raises:
            ValueError: If theta is out of range or 0.5, or X is not boolean.
        """
        check_share("theta", self.theta)
        if self.theta == 0.5:
            raise ValueError(
                "theta must not be 0.5, because a record and its reverse are then equally likely"
            )
        table = _booleans(X)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self.n_features_in_ = table.shape[1]
        # P(E) = (theta P*(E) - (1 - theta) P*(E reversed)) / (2 theta - 1): each released record counts so
        # much for this value and, negatively, for its reverse. Sums over any E are unbiased then.
        kept, reverse = np.array([self.theta, self.theta - 1]) / (2 * self.theta - 1) / len(table)
        weights = np.zeros((2, len(table), len(self.classes_)))
        weights[0, np.arange(len(table)), codes] = kept
        weights[1, np.arange(len(table)), codes] = reverse
        both = np.concatenate([table, ~table])
        self.tree_ = _grow(
            both, weights.reshape(len(both), -1), frozenset(range(table.shape[1])), self.least_share
        )
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803  scikit-learn's name
        """(n,) the class of true records."""
        check_is_fitted(self)
        table = _booleans(X)
        labels = np.empty(len(table), dtype=np.int64)
        _walk(self.tree_, table, np.arange(len(table)), labels)
        return np.asarray(self.classes_[labels])


def _grow(table: BoolArray, weights: FloatArray, left: frozenset[int], least: float) -> Split | Leaf:
    """ID3: split by the attribute of largest gain while one gains and the node is large enough."""
    shares = np.maximum(weights.sum(axis=0), 0.0)
    leaf = Leaf(int(shares.argmax()))
    if not left or shares.sum() <= least or np.count_nonzero(shares) < 2:
        return leaf
    attributes = np.array(sorted(left))
    yes = table[:, attributes].astype(np.float64).T @ weights
    no = weights.sum(axis=0) - yes
    gains = (
        _mass_entropy(shares[None]) - _mass_entropy(np.maximum(yes, 0.0)) - _mass_entropy(np.maximum(no, 0.0))
    )
    if not gains.max() > 0:
        return leaf
    chosen = int(attributes[gains.argmax()])
    at, rest = table[:, chosen], left - {chosen}
    return Split(
        chosen,
        no=_grow(table[~at], weights[~at], rest, least),
        yes=_grow(table[at], weights[at], rest, least),
    )


def _mass_entropy(shares: FloatArray) -> FloatArray:
    """(m,) entropy of the classes in each row, times the row's sum."""
    total = shares.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(shares > 0, shares * np.log(shares / total), 0.0)
    return np.asarray(-terms.sum(axis=1))


def _walk(
    node: Split | Leaf, table: BoolArray, rows: npt.NDArray[np.intp], labels: npt.NDArray[np.int64]
) -> None:
    if isinstance(node, Leaf):
        labels[rows] = node.label
        return
    at = table[rows, node.attribute]
    _walk(node.no, table, rows[~at], labels)
    _walk(node.yes, table, rows[at], labels)


def _booleans(given: Any) -> BoolArray:
    table = np.asarray(given)
    if table.ndim != 2 or table.dtype != np.bool_ or not len(table):
        raise ValueError("X must be records of boolean attributes, at least one")
    return table
