"""OBPA: an OPTICS order of the records, cut into classes, with personal weights of the attributes.

Yang (2018), OPTICS-based personalized anonymization: (1) weights, hence distance (equation 1) and loss;
(2) outliers set aside; (3) OPTICS; (4) classes from its order, adjusted to size; (5) generalization.
What the paper leaves open, and extensions:

* How classes come from the order: ``cut="exact"`` is the cut into runs of k .. 2k - 1 that loses least;
  ``cut="peaks"`` follows the reachability, as the paper suggests.
* Outliers are the records of largest core distance, and no record is set aside by default.
* ``refine`` moves records afterwards wherever the loss falls; without it, the order and its cut are all.
* ``distance="entropy"``: under equation 1 with equal weights the density order is worse than a plain sort.
Most
  distinct records are far from all others, so the order is likely to jump, and a run of k differs in many
  attributes, where a sort keeps its first attributes constant. This distance only knows equal and different,
  which is all that `*` can show, and divides by the squared entropy of the attribute: records are near if
  they differ in attributes that nearly always differ. It is the default of the suppression model, where it
  loses at most as much as the sort (Adult, k = 16 .. 256). The square was chosen by trial on Adult, where
  powers 1 to 4 differ by up to 4 %.
* ``order="lexicographic"``: that sort, without any density; quick, and close to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

import numpy as np

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.anonymizers.cell_suppression import CellModel, modelled, with_flat_domains
from privacy_engine.anonymizers.local_recoding import LocalRecoding, label_distinct, require_sweeps
from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError
from privacy_engine.measures.recoding import Recoding
from privacy_engine.recoding.grouping.assignment import assign_to_cheapest
from privacy_engine.recoding.grouping.boxes import Floats, Ints
from privacy_engine.recoding.grouping.optics import (
    MixedDistance,
    Reachability,
    mixed_distance,
    optics_of_records,
)
from privacy_engine.recoding.grouping.order_cut import (
    cut_at_least_loss,
    cut_at_peaks,
    entropies,
    lexicographic_order,
)
from privacy_engine.recoding.grouping.partners import Propose
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import Geometry


class Order(StrEnum):
    """In which order the records are cut."""

    OPTICS = "optics"  # the paper's
    LEXICOGRAPHIC = "lexicographic"  # by attribute, the least diverse first, relative to its weight


class Distance(StrEnum):
    """What two records that differ in an attribute are apart, before its personal weight."""

    PAPER = "paper"  # equation 1: scaled difference, or level of the common ancestor
    ENTROPY = "entropy"  # one over the attribute's squared entropy, whatever the values


class Cut(StrEnum):
    """How the order is cut."""

    EXACT = "exact"  # where the total loss is least
    PEAKS = "peaks"  # where the reachability is highest


class Outliers(StrEnum):
    """What becomes of the records set aside."""

    ASSIGN = "assign"  # each joins the class where it costs least
    SUPPRESS = "suppress"  # they are not released
    GROUP = "group"  # they are cut among themselves


@dataclass(frozen=True, kw_only=True)
class OBPA(Anonymizer):
    """Order the records by density (OPTICS) and cut the order into classes; attributes have personal weights.

    Attributes:
        weights: Weight of each quasi-identifier in distance and loss, >= 0; 1 where none is given.
        order: Order in which the records are cut: `optics`, or `lexicographic`, a plain sort.
        distance: Distance that makes the order: `paper` or `entropy`; None for `entropy` with the
            suppression model and `paper` otherwise.
        cut: Places where the order is cut: `exact`, where the loss is least, or `peaks`, where the
            reachability is highest, which needs the order `optics`.
        outliers: Treatment of the records that are set aside: `assign` each to the class where it costs
            least, `suppress` them, or `group` them among themselves.
        outlier_share: Share of the records to set aside, those with the largest core distance; 0 .. 1, 1
            excluded.
        model: Form of a cell whose value the class does not share: `generalization` or `suppression`.
        min_samples: Number of records within its core distance that make a record a core point, >= 1.
        refine: Whether records are moved, swapped and regrouped afterwards wherever the total loss falls.
        regroup: Number of sweeps after `refine` in which neighbouring classes are taken apart and formed
            again; 0 for none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one
            before. Up to k = 10, where no other model is required, a search by columns comes first, which
            takes 6 CPU s at k = 5. No sweeps are made without `refine`, where several rows may belong to
            one person, or where a model bounds the distribution of the sensitive values.
        block_size: Most records with one order; larger tables are cut into blocks with separate orders,
            which takes O(n block) instead of O(n^2). None for no limit.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    order: Order = Order.OPTICS
    distance: Distance | None = None
    cut: Cut = Cut.EXACT
    outliers: Outliers = Outliers.ASSIGN
    outlier_share: float = 0.0
    model: CellModel = CellModel.GENERALIZATION
    min_samples: int = 4
    refine: bool = True
    regroup: int = 0
    block_size: int | None = 32_000
    key: ClassVar[str] = "obpa"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_sweeps(self.regroup)
        for name, enum in (("order", Order), ("cut", Cut), ("outliers", Outliers), ("model", CellModel)):
            object.__setattr__(self, name, choice(enum, getattr(self, name), name))
        if self.distance is not None:
            object.__setattr__(self, "distance", choice(Distance, self.distance, "distance"))
        object.__setattr__(self, "weights", _numbers(self.weights))
        if not 0 <= self.outlier_share < 1:
            raise ValueError(f"outlier_share must be in [0, 1), got {self.outlier_share}")
        if self.min_samples < 1:
            raise ValueError(f"min_samples must be >= 1, got {self.min_samples}")
        if self.cut is Cut.PEAKS and self.order is not Order.OPTICS:
            raise ValueError("cut='peaks' needs the reachability: it must be used with order='optics'")
        if self.outliers is Outliers.SUPPRESS and self.outlier_share > self.suppression_limit:
            raise ValueError(
                "to suppress the outliers, outlier_share must be <= suppression_limit, got "
                f"{self.outlier_share} and {self.suppression_limit}"
            )

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """The steps of the paper, then repair of what misses a required model, then refinement."""
        weights = self._weights(encoded)
        distance = self._distance(encoded, weights)
        encoded = modelled(encoded, self.model)
        recode = self.local_recoding(encoded)
        geometry = recode.geometry
        spent = self.outlier_share if self.outliers is Outliers.SUPPRESS else 0.0

        def merge(part: EncodedTable, stream: np.random.Generator, search: Propose) -> Ints:
            if spent:  # a share of the records
                return self._classes(part, geometry, distance, weights)
            return label_distinct(part, lambda own: self._classes(own, geometry, distance, weights))

        return Recoding.of_labels(encoded, recode.labels(encoded, merge, rng))

    def local_recoding(self, encoded: EncodedTable) -> LocalRecoding:
        """Repair and refine a table whose cells take the form of `model`."""
        return LocalRecoding(
            geometry=encoded.geometry(self._weights(encoded)),
            models=self.sensitive_models,
            k=self.least,
            refine=self.refine,
            regroup=self.regroup,
            block_size=self.block_size,
        )

    def _weights(self, encoded: EncodedTable) -> Floats:
        names = encoded.quasi_identifiers
        if unknown := sorted(set(self.weights) - set(names)):
            raise SchemaError(
                f"weights must belong to quasi-identifiers; {unknown} are none of {list(names)}"
            )
        weights = np.array([self.weights.get(name, 1.0) for name in names])
        if not weights.any():
            raise SchemaError("weights must not be 0 for every quasi-identifier. Give one a positive weight")
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def _distance(self, encoded: EncodedTable, weights: Floats) -> MixedDistance:
        by_model = Distance.ENTROPY if self.model is CellModel.SUPPRESSION else Distance.PAPER
        if (self.distance or by_model) is Distance.PAPER:
            return mixed_distance(encoded.domains, weights)
        spread = entropies(encoded.codes)
        spread[spread == 0.0] = 1.0  # a constant attribute distinguishes no one
        return mixed_distance(with_flat_domains(encoded).domains, weights / spread**2)

    def _classes(
        self, encoded: EncodedTable, geometry: Geometry, distance: MixedDistance, weights: Floats
    ) -> Ints:
        """Order, set aside, cut: labels (n,), -1 = suppressed."""
        found: Reachability | None = None
        if self.order is Order.OPTICS or self.outlier_share:
            found = optics_of_records(encoded.codes, distance, self.min_samples)
        aside = self._aside(found, len(encoded))
        if found is not None and self.order is Order.OPTICS:
            order = found.order
        else:
            order = lexicographic_order(encoded.codes, weights)
        inside = order[~aside[order]]
        labels = np.full(len(encoded), -1, np.int64)
        labels[inside] = self._cut(encoded, geometry, inside, found)
        if not aside.any() or self.outliers is Outliers.SUPPRESS:
            return labels
        outside = order[aside[order]]
        if self.outliers is Outliers.ASSIGN or len(outside) < self.least:
            return assign_to_cheapest(encoded.codes, labels, geometry)
        labels[outside] = labels.max() + 1 + self._cut(encoded, geometry, outside, found)
        return labels

    def _aside(self, found: Reachability | None, n: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(n,) which records are set aside: the share of largest core distance, while k are left."""
        aside = np.zeros(n, np.bool_)
        count = min(int(self.outlier_share * n + 1e-9), n - self.least)  # 0.29 of 100 are 29
        if found is not None and count > 0:
            aside[np.argsort(-found.core, kind="stable")[:count]] = True
        return aside

    def _cut(
        self, encoded: EncodedTable, geometry: Geometry, order: Ints, found: Reachability | None
    ) -> Ints:
        if self.cut is Cut.PEAKS and found is not None:
            return cut_at_peaks(found.reach[order], self.least)
        return cut_at_least_loss(encoded.codes[order], geometry, self.least)


def _numbers(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights as they are written to JSON.

    Raises:
        ValueError: If one is < 0.
    """
    if bad := sorted(name for name, weight in weights.items() if weight < 0):
        raise ValueError(f"weights must be finite and >= 0; those of {bad} are not")
    return {name: float(w) for name, w in weights.items()}
