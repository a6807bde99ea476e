"""k-anonymity by feature selection: keep the features that the privacy models allow, the best first.

What RFKA and Greedy_Hamdist share: they differ in how they value a feature. Deviations from both papers:
the privacy test takes any model, failing classes may be suppressed up to a limit, a feature may be
generalized before it is dropped, and ``order="gain"`` looks at what a feature adds to those already kept.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.anonymizers.feature_recoding import FeatureRecoding, feature_recoding
from privacy_engine.anonymizers.features import (
    Feature,
    Ints,
    attribute_features,
    attribute_levels,
    one_hot,
    value_features,
)
from privacy_engine.anonymizers.forward_pass import Selection, forward_pass, gain_order, refined
from privacy_engine.choice import choice
from privacy_engine.classes import SensitiveValues
from privacy_engine.columns import factorize
from privacy_engine.encoding import EncodedTable
from privacy_engine.errors import SchemaError
from privacy_engine.release import Release
from privacy_engine.schema import DataSchema, Role

MOST_CELLS = 500_000_000  # of the one-hot columns, 2 GB while the forest is grown


class Order(StrEnum):
    """Which feature the forward pass tries next."""

    WORTH = "worth"  # the papers': sorted once by how each is valued by itself
    GAIN = "gain"  # what tells most of the class label beside those kept; of equals the one of more worth


@dataclass(frozen=True, kw_only=True)
class FeatureSelection(Anonymizer):
    """An anonymizer that keeps the features that predict a class label best.

    The choice follows the label, so it tells something of it: no differential privacy is claimed. A table
    of which no feature can be kept is released without quasi-identifiers, as one class.

    Attributes:
        target: the class label, a sensitive or insensitive attribute; None = the only sensitive one.
        bins: number of equal-width bins of a numeric attribute whose schema names none.
        one_hot: whether each value or bin is a feature, as in the papers, and what is not kept of an
            attribute falls into one group; else each attribute is one feature.
        generalize: whether a feature's coarser forms are tried before it is dropped; the papers do not.
        order: which feature is tried next; ``worth`` is the papers'. ``gain`` leaves to the method's
            valuation only the choice between equals: few features are kept, and two that each tell much
            may tell the same, or use up what k leaves for a third.
    """

    target: str | None = None
    bins: int = 5
    one_hot: bool = True
    generalize: bool = True
    order: Order = Order.WORTH
    fragmentable: ClassVar[bool] = False  # each part would keep other features

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
        """(f,) how well each feature tells the class label.

        Args:
            columns: (n, p) binary columns.
            feature_of: (p,) feature of each column, ascending.
            y: (n,) class label 0, 1, ...
            rng: the method's random choices.
        """

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> FeatureRecoding:
        """Value the features, sort them, keep each that the models allow."""
        _require_few_values(encoded, self.bins)
        make = value_features if self.one_hot else attribute_features
        features = make(encoded, self.bins, generalize=self.generalize)
        y = class_label(encoded, self.target)
        columns, feature_of = one_hot(encoded, features)
        rows = np.lexsort([y, *columns.T])  # records alike in all of this cannot be told apart by a method
        worth = self.worth(columns[rows], feature_of, y[rows], rng)
        order = np.argsort(-worth, kind="stable")
        models, limit = self.guarantees(encoded.schema), self.suppression_limit
        if self.order is Order.GAIN:
            order = gain_order(encoded, features, order, models, y, limit)
        selection = forward_pass(encoded, features, order, models, limit)
        return _recoding(encoded, features, worth, selection)

    def release(
        self,
        table: pd.DataFrame,
        schema: DataSchema,
        rng: np.random.Generator,
        *,
        whole: Mapping[str, SensitiveValues] | None = None,
    ) -> Release:
        """Keep what can be kept of a table; the notes tell how much, and each attribute's importance.

        Raises:
            SchemaError: if the table does not fit the schema, or there is no class label in it.
            InfeasibleError: if not even the table without quasi-identifiers meets the guarantees.
        """
        release = super().release(table, schema, rng, whole=whole)
        notes = release.recoding.notes if isinstance(release.recoding, FeatureRecoding) else {}
        return replace(release, notes=release.notes | notes)


def class_label(encoded: EncodedTable, target: str | None) -> Ints:
    """(n,) int64 class label 0, 1, ... of each record; a null is a label like any other.

    Raises:
        SchemaError: if the target is no sensitive or insensitive attribute, or has a single value.
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
            f"target {target!r} has a single value in all {len(y)} rows; features are valued by how well "
            "they tell the values apart: name another target"
        )
    return np.asarray(y, dtype=np.int64)


def _require_few_values(encoded: EncodedTable, bins: int) -> None:
    """Refuse a one-hot encoding that would fill the memory."""
    values = [int(attribute_levels(encoded, j, bins)[0].max()) + 1 for j in range(len(encoded.domains))]
    count = sum(values)
    if count * max(len(encoded), count) > MOST_CELLS:
        widest = encoded.quasi_identifiers[int(np.argmax(values))]
        raise SchemaError(
            f"the quasi-identifiers have {count} values or bins, too many columns for {len(encoded)} rows; "
            f"most are of {widest!r} ({max(values)}): make it numeric, coarsen it at ingest, or leave it out"
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
