"""k-anonymity by feature selection: keep the features that the privacy models allow, the best first.

The base of RFKA and Greedy_Hamdist, which differ in how they value a feature. Deviations from both papers:
the privacy test allows any model, failing classes may be suppressed up to a limit, a feature may be
generalized before it is dropped, and ``order="gain"`` considers what a feature adds to those already kept.

The forward pass keeps each feature that the privacy models allow in addition to those kept before: algorithms
1 and 2 of Huang and Zhu (RFKA), for any privacy model.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError
from privacy_engine.measures.utility import gcp
from privacy_engine.progress import advance, portion, tracked
from privacy_engine.recoding.features.features import (
    Feature,
    FeatureRecoding,
    Ints,
    attribute_features,
    attribute_levels,
    feature_recoding,
    one_hot,
    value_features,
)
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.verification.models import PrivacyModel, holds
from privacy_engine.vocabulary import Role

MOST_CELLS = 500_000_000  # of the one-hot columns, 2 GB while the forest is grown


# Shares that may be suppressed: within the limit, the one with the least loss is used.
STEPS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0)
NOTHING = 1e-12  # nats; less than this is rounding


@dataclass(frozen=True)
class Selection:
    """The result of a forward pass.

    Attributes:
        labels: Class of each record by its kept features, -1 = suppressed, shape (n,) int64.
        levels: Level at which each feature is kept, 0 = unchanged, shape (f,); -1 = dropped.
    """

    labels: Ints
    levels: tuple[int, ...]


@dataclass(frozen=True)
class AddedFeature:
    """A feature that was added.

    Attributes:
        labels: Class of each record, shape (n,) int64.
        released: Same, -1 = would be suppressed.
        level: Level of the feature.
    """

    labels: Ints
    released: Ints
    level: int


def forward_pass(
    encoded: EncodedTable,
    features: Sequence[Feature],
    order: npt.NDArray[np.intp],
    models: Sequence[PrivacyModel],
    suppression_limit: float = 0.0,
) -> Selection:
    """Algorithm 1, steps 3-9: add feature after feature; drop what breaks a model.

    The classes of one subset are refined by the next feature, never counted again from the records' values.

    Args:
        encoded: Encoded table whose records the features describe.
        features: Features that may be kept.
        order: Features' numbers, the best first.
        models: Models that all classes must satisfy.
        suppression_limit: Share of the records that may be suppressed instead.
    """
    labels = np.zeros(len(encoded), dtype=np.int64)
    start = privacy_test(encoded, labels, models, suppression_limit)
    released = labels if start is None else start
    levels = [-1] * len(features)
    for number in tracked(order):
        step = forward_step(encoded, labels, features[number], models, suppression_limit)
        if step is not None:
            labels, released, levels[number] = step.labels, step.released, step.level
    return Selection(released, tuple(levels))


def forward_step(
    encoded: EncodedTable,
    labels: Ints,
    feature: Feature,
    models: Sequence[PrivacyModel],
    suppression_limit: float,
) -> AddedFeature | None:
    """Add a feature to the classes at the finest level that the models allow; None if no level is allowed."""
    for level in range(len(feature.levels)):
        finer = refined(labels, feature.groups(encoded.codes, level))
        released = privacy_test(encoded, finer, models, suppression_limit)
        if released is not None:
            return AddedFeature(finer, released, level)
    return None


def gain_order(
    encoded: EncodedTable,
    features: Sequence[Feature],
    order: npt.NDArray[np.intp],
    models: Sequence[PrivacyModel],
    y: Ints,
    suppression_limit: float = 0.0,
) -> npt.NDArray[np.intp]:
    """Order the features so that each is the most informative about y, of those allowed with the ones before.

    The information is the conditional mutual information I(y; feature | classes so far). When no feature adds
    any information, the others follow in the given order. O(features x kept features) privacy tests.

    Args:
        encoded: Encoded table whose records the features describe.
        features: Features that may be kept.
        order: Numbers of the features; of equally informative ones the earlier comes first.
        models: Models that all classes must satisfy.
        y: Class label 0, 1, ..., shape (n,)
        suppression_limit: Share of the records that may be suppressed instead.
    """
    labels = np.zeros(len(encoded), dtype=np.int64)
    chosen: list[int] = []
    left, unknown = order.tolist(), label_entropy(labels, y)
    while True:
        best, finer, allowed = -1, labels, []
        advance(1.0 - len(left) / max(len(order), 1))
        for number in left:
            step = forward_step(encoded, labels, features[number], models, suppression_limit)
            if step is None:
                continue  # a feature that breaks a model with few features breaks it with more
            allowed.append(number)
            if (remains := label_entropy(step.labels, y)) < unknown - NOTHING:
                best, finer, unknown = number, step.labels, remains
        if best < 0:
            return np.array([*chosen, *(n for n in order.tolist() if n not in chosen)], dtype=np.intp)
        labels, left = finer, [number for number in allowed if number != best]
        chosen.append(best)


def label_entropy(labels: Ints, y: Ints) -> float:
    """Conditional entropy H(y | class) in nats: the uncertainty of the label that remains within classes."""
    size = int(y.max()) + 1
    counts = np.unique(labels * size + y, return_counts=True)
    inside = np.bincount(labels)[counts[0] // size]
    return float(-(counts[1] * np.log(counts[1] / inside)).sum() / len(y))


def refined(labels: Ints, groups: Ints) -> Ints:
    """(n,) int64 classes 0 .. c - 1 of records that share both label and group; O(n).

    >>> refined(np.array([0, 0, 1, 1]), np.array([1, 0, 1, 1])).tolist()
    [1, 0, 2, 2]
    """
    size = int(groups.max()) + 1
    keys = labels * size + groups
    span = (int(labels.max()) + 1) * size
    if span > 4 * len(keys) + 1024:
        return np.asarray(np.unique(keys, return_inverse=True)[1], dtype=np.int64)
    present = np.bincount(keys, minlength=span) > 0
    return np.asarray((np.cumsum(present) - 1)[keys], dtype=np.int64)


def privacy_test(
    encoded: EncodedTable, labels: Ints, models: Sequence[PrivacyModel], suppression_limit: float = 0.0
) -> Ints | None:
    """Algorithm 2 for any models: the labels if all classes satisfy them, else None.

    With a limit, failing classes are suppressed (label -1), and the rest is measured again, because
    t-closeness and its like compare with all released records.
    """
    labels, allowed = labels.copy(), int(suppression_limit * len(labels))
    while (left := np.flatnonzero(labels >= 0)).size:
        classes = encoded.classes_of(labels)
        if all(holds(model, classes) for model in models):
            return labels
        if not allowed:
            return None
        failing = np.any([model.violations(classes) for model in models], axis=0)
        labels[left[failing[classes.labels]]] = -1
        if np.count_nonzero(labels < 0) > allowed:
            return None
    return None


class Order(StrEnum):
    """Which feature the forward pass tries next."""

    WORTH = "worth"  # the papers' order: sorted once by each feature's own value
    GAIN = "gain"  # most informative in addition to those kept; of equals the one of higher worth


@dataclass(frozen=True, kw_only=True)
class FeatureSelection(Anonymizer):
    """An anonymizer that keeps the features that predict a class label best.

    The choice depends on the label, so it reveals something about it: no differential privacy is claimed. A
    table of which no feature can be kept is released without quasi-identifiers, as one class.

    Attributes:
        target: Name of the class label, a sensitive or insensitive attribute; None for the only sensitive
            one.
        bins: Number of equal-width bins of a numeric attribute whose schema names none, >= 2.
        one_hot: Whether each value or bin is a feature, as in the papers, with all values that are not kept
            in one group; otherwise each attribute is one feature.
        generalize: Whether a feature's coarser forms are tried before it is dropped; the papers do not.
        order: Next feature to try: `worth`, the one of the highest worth, as in the papers, or `gain`, the
            one that is most informative about the label in addition to those already kept. Few features are
            kept, and two informative ones may be redundant, or use up the share of k that a third requires.
    """

    target: str | None = None
    bins: int = 5
    one_hot: bool = True
    generalize: bool = True
    order: Order = Order.WORTH
    fragmentable: ClassVar[bool] = False  # each part would keep different features

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.bins) is not int or self.bins < 2:
            raise ValueError(f"bins must be a whole number >= 2, got {self.bins!r}")
        target: object = self.target  # of any type, where it comes from a file
        if target is not None and not (isinstance(target, str) and target):
            raise ValueError(f"target must be the name of an attribute, or None, got {target!r}")
        object.__setattr__(self, "order", choice(Order, self.order, "order"))

    @abstractmethod
    def worth(
        self,
        columns: npt.NDArray[np.uint8],
        feature_of: npt.NDArray[np.int32],
        y: Ints,
        rng: np.random.Generator,
    ) -> npt.NDArray[np.float64]:
        """(f,) how well each feature predicts the class label.

        Args:
            columns: Binary columns, shape (n, p).
            feature_of: Feature of each column, ascending, shape (p,).
            y: Class label 0, 1, ..., shape (n,)
            rng: Method's random choices.
        """

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> FeatureRecoding:
        """Value the features, sort them, keep each that the models allow."""
        _require_few_values(encoded, self.bins)
        make = value_features if self.one_hot else attribute_features
        features = make(encoded, self.bins, generalize=self.generalize)
        y = class_label(encoded, self.target)
        columns, feature_of = one_hot(encoded, features)
        rows = np.lexsort(
            [y, *columns.T]
        )  # records that are equal in all of this are indistinguishable to a method
        with portion(0.9):
            worth = self.worth(columns[rows], feature_of, y[rows], rng)
        order = np.argsort(-worth, kind="stable")
        models = self.guarantees(encoded.schema)
        found = []
        with portion(0.1):
            for limit in tracked([step for step in STEPS if step <= self.suppression_limit]):
                tried = order
                if self.order is Order.GAIN:
                    with portion(0.7):
                        tried = gain_order(encoded, features, order, models, y, limit)
                selection = forward_pass(encoded, features, tried, models, limit)
                found.append(_recoding(encoded, features, worth, selection))
        return min(found, key=gcp)

    @property
    def suppressible(self) -> float:
        """None: suppressed records are chosen with the features."""
        return 0.0


def class_label(encoded: EncodedTable, target: str | None) -> Ints:
    """(n,) int64 class label 0, 1, ... of each record; a null is a label like any other.

    Raises:
        SchemaError: If the target is no sensitive or insensitive attribute, or has a single value.
    """
    if target is None:
        if len(encoded.sensitive_names) != 1:
            raise SchemaError(
                f"the schema has {len(encoded.sensitive_names)} sensitive attributes, so target must name "
                "the class label"
            )
        target = encoded.sensitive_names[0]
    if encoded.schema[target].role is Role.QUASI_IDENTIFIER:
        raise SchemaError(f"target {target!r} is a quasi-identifier; it must be sensitive or insensitive")
    if target in encoded.sensitive_names:
        codes: npt.NDArray[np.integer] = encoded.sensitive[encoded.sensitive_names.index(target)]
    else:
        coded = factorize(encoded.table[target])
        rank = np.full(len(coded.values) + 1, -1, dtype=np.int64)  # code -1, a null, reads the last
        rank[coded.ascending()] = np.arange(len(coded.values))
        codes = rank[coded.codes]
    found, y = np.unique(codes, return_inverse=True)
    if len(found) < 2:
        raise SchemaError(
            f"target {target!r} has a single value in all {len(y)} rows, but features are valued by how well "
            "they distinguish the values. Name another target"
        )
    return np.asarray(y, dtype=np.int64)


def _require_few_values(encoded: EncodedTable, bins: int) -> None:
    """Refuse a one-hot encoding that would fill the memory."""
    values = [int(attribute_levels(encoded, j, bins)[0].max()) + 1 for j in range(len(encoded.domains))]
    count = sum(values)
    if count * max(len(encoded), count) > MOST_CELLS:
        widest = encoded.quasi_identifiers[int(np.argmax(values))]
        raise SchemaError(
            f"the quasi-identifiers have {count} values or bins, too many columns for {len(encoded)} rows. "
            f"Most belong to {widest!r} ({max(values)}). Make it numeric, coarsen it at ingest, or omit it"
        )


def _recoding(
    encoded: EncodedTable,
    features: Sequence[Feature],
    worth: npt.NDArray[np.float64],
    selection: Selection,
) -> FeatureRecoding:
    groups = [np.zeros(len(domain.values), dtype=np.int64) for domain in encoded.domains]
    kept = [False] * len(groups)
    importance = dict.fromkeys(encoded.quasi_identifiers, 0.0)
    for feature, value, level in zip(features, worth, selection.levels, strict=True):
        j = feature.attribute
        importance[encoded.quasi_identifiers[j]] += float(value)
        if level >= 0:
            groups[j] = refined(groups[j], feature.levels[level])
            kept[j] = True
    notes = {
        "kept quasi-identifiers": float(sum(kept)),
        "dropped quasi-identifiers": float(len(kept) - sum(kept)),
        "kept features": float(sum(level >= 0 for level in selection.levels)),
        "generalized features": float(sum(level > 0 for level in selection.levels)),
        "dropped features": float(sum(level < 0 for level in selection.levels)),
        **{f"importance of {name}": value for name, value in importance.items()},
    }
    return feature_recoding(encoded, selection.labels, tuple(groups), tuple(kept), notes)
