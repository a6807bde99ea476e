"""The forward pass over features: keep each that the privacy models allow beside those kept before.

Algorithms 1 and 2 of Huang and Zhu (RFKA), for any privacy model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.anonymizers.features import Feature, Ints
from privacy_engine.classes import EquivalenceClasses
from privacy_engine.encoding import EncodedTable
from privacy_engine.models import PrivacyModel, holds

NOTHING = 1e-12  # nats; less than this is rounding


@dataclass(frozen=True)
class Selection:
    """What a forward pass kept.

    Attributes:
        labels: (n,) int64 class of each record by its kept features, -1 = suppressed.
        levels: (f,) level at which each feature is kept, 0 = as it is; -1 = dropped.
    """

    labels: Ints
    levels: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A feature that was added.

    Attributes:
        labels: (n,) int64 class of each record.
        released: the same, -1 = would be suppressed.
        level: of the feature.
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
        encoded: the table.
        features: what may be kept.
        order: the features' numbers, the best first.
        models: what all classes must satisfy.
        suppression_limit: share of the records that may be suppressed instead.
    """
    labels = np.zeros(len(encoded), dtype=np.int64)
    start = privacy_test(encoded, labels, models, suppression_limit)
    released = labels if start is None else start
    levels = [-1] * len(features)
    for number in order:
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
) -> Step | None:
    """Add a feature to the classes at the finest level that the models allow; None if there is none."""
    for level in range(len(feature.levels)):
        finer = refined(labels, feature.groups(encoded.codes, level))
        released = privacy_test(encoded, finer, models, suppression_limit)
        if released is not None:
            return Step(finer, released, level)
    return None


def gain_order(
    encoded: EncodedTable,
    features: Sequence[Feature],
    order: npt.NDArray[np.intp],
    models: Sequence[PrivacyModel],
    y: Ints,
    suppression_limit: float = 0.0,
) -> npt.NDArray[np.intp]:
    """The features in the order in which each, of those allowed beside the ones before, tells most of y.

    What it tells is the conditional mutual information I(y; feature | classes so far). When no feature
    tells anything more, the others follow in the given order. O(features x kept features) privacy tests.

    Args:
        encoded: the table.
        features: what may be kept.
        order: the features' numbers; of those that tell equally much the earlier comes first.
        models: what all classes must satisfy.
        y: (n,) class label 0, 1, ...
        suppression_limit: share of the records that may be suppressed instead.
    """
    labels = np.zeros(len(encoded), dtype=np.int64)
    chosen: list[int] = []
    left, unknown = order.tolist(), label_entropy(labels, y)
    while True:
        best, finer, allowed = -1, labels, []
        for number in left:
            step = forward_step(encoded, labels, features[number], models, suppression_limit)
            if step is None:
                continue  # what breaks a model beside few features breaks it beside more
            allowed.append(number)
            if (remains := label_entropy(step.labels, y)) < unknown - NOTHING:
                best, finer, unknown = number, step.labels, remains
        if best < 0:
            return np.array([*chosen, *(n for n in order.tolist() if n not in chosen)], dtype=np.intp)
        labels, left = finer, [number for number in allowed if number != best]
        chosen.append(best)


def label_entropy(labels: Ints, y: Ints) -> float:
    """Conditional entropy H(y | class) in nats: what the classes leave unknown of the label."""
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
        classes = EquivalenceClasses.of_labels(labels, encoded)
        if all(holds(model, classes) for model in models):
            return labels
        if not allowed:
            return None
        failing = np.any([model.violations(classes) for model in models], axis=0)
        labels[left[failing[classes.labels]]] = -1
        if np.count_nonzero(labels < 0) > allowed:
            return None
    return None
