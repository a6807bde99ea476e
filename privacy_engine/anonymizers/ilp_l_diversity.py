"""ILP-based l-diversity: local recoding; each quasi-identifier has its own use for each sensitive value.

Zhu, Zhao, Wang: Privacy preservation algorithm for service-oriented information search, Chinese Journal
of Computers 33(8), 2010, sections 3 and 4. Deviations:

* ``repair="merge"`` (default) keeps sensitive values true; the paper's ``repair="distort"`` changes them,
  and the release has their number (R_man).
* The weights w_ij follow ``reading``: ``literal``, as section 5.2 prints them, or ``complement``, since by
  the paper's own words a low entry of the utility matrix is a great utility.
* A sensitive value that is too rare for l - 1 companions joins the nearest cluster that has them; the
  release's notes have the number of such values and of clusters.
* Merges are made cheapest first and large classes are split, see `agglomeration`; the paper merges class
  after class.
* A cluster of fewer than k records joins the most similar cluster.
* ``refine`` lowers the loss afterwards, over the whole table and with all models as constraints.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.anonymizers.groups import distort, label_groups, sensitive_groups
from privacy_engine.anonymizers.local_recoding import LocalRecoding, require_sweeps
from privacy_engine.anonymizers.sensitive_utility import (
    FloatMatrix,
    Reading,
    attribute_weights,
    clusters_in_play,
    sensitive_row,
    utility_matrix,
    weight_matrix,
)
from privacy_engine.choice import choice
from privacy_engine.measures.recoding import Recoding
from privacy_engine.recoding.grouping.agglomeration import MergePrice, agglomerate
from privacy_engine.recoding.grouping.boxes import Ints
from privacy_engine.recoding.grouping.partners import Propose
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.verification.models import DistinctLDiversity, PrivacyModel


class Repair(StrEnum):
    """The remedy for a class of fewer than l sensitive values."""

    MERGE = "merge"  # with the class that costs least: truthful
    DISTORT = "distort"  # the paper's: random records get another value of their cluster: false
    SUPPRESS = "suppress"  # merge, then suppress within the limit what pays


class MergeWeights(StrEnum):
    """The sensitive values whose weights price a merge inside a cluster."""

    ALL_VALUES = "all_values"  # all m values, as section 3.2 prints the ILP
    CLUSTER = "cluster"  # the values of the cluster only: a record's loss counts for values it may have


@dataclass(frozen=True, kw_only=True)
class ILPLDiversity(Anonymizer):
    """Cluster the sensitive values, merge records inside each cluster, and repair the classes to l-diversity.

    A sensitive value that is too rare to find l - 1 companions joins the nearest cluster; the notes of the
    release give the number of such values and of clusters.

    Attributes:
        l: Least number of distinct sensitive values in a class, >= 2.
        sensitive: Name of the sensitive attribute; None for the only one.
        repair: Remedy for a class that misses l: `merge` it with another, `distort` sensitive values, as
            the paper does, which makes them false, or `suppress` it within the suppression limit.
        reading: How weights are derived from the utility matrix, whose low entries are informative:
            `literal`, its entries as the paper prints them, `complement`, so that informative attributes are
            kept most precise, or `equal`.
        utility: Utility matrix (m, q) of an expert, instead of the data's: a row for each value of the
            attribute, in their order, and a column for each quasi-identifier; entries in [0, 1], low =
            informative.
        price: Price of a merge: `increase`, the increase of the table's loss, or `whole`, the loss of the
            union.
        merge_weights: Sensitive values whose weights price a merge: `all_values`, as the paper prints it, or
            `cluster`, the values of the cluster that the merged records belong to.
        refine: Whether records are moved, swapped and regrouped afterwards wherever the total loss falls.
        regroup: Number of sweeps after `refine` in which neighbouring classes are taken apart and formed
            again; 0 for none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one
            before. Up to k = 10, where no other model is required, a search by columns comes first, which
            takes 6 CPU s at k = 5. No sweeps are made without `refine`, where several rows may belong to
            one person, or where a model bounds the distribution of the sensitive values.
        block_size: Most records of a cluster that are merged in one block; larger clusters are cut into
            several. None for no limit.
    """

    l: int = 3  # noqa: E741  the field's own symbol
    sensitive: str | None = None
    repair: Repair = Repair.MERGE
    reading: Reading = Reading.LITERAL
    utility: tuple[tuple[float, ...], ...] | None = None
    price: MergePrice = MergePrice.INCREASE
    merge_weights: MergeWeights = MergeWeights.ALL_VALUES
    refine: bool = True
    regroup: int = 0
    block_size: int | None = 50_000
    key: ClassVar[str] = "ilp_l_diversity"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_sweeps(self.regroup)
        object.__setattr__(self, "repair", choice(Repair, self.repair, "repair"))
        object.__setattr__(self, "reading", choice(Reading, self.reading, "reading"))
        object.__setattr__(self, "price", choice(MergePrice, self.price, "price"))
        object.__setattr__(self, "merge_weights", choice(MergeWeights, self.merge_weights, "merge_weights"))
        if self.utility is not None:
            object.__setattr__(self, "utility", tuple(tuple(float(u) for u in row) for row in self.utility))
        if self.repair is Repair.DISTORT and self.l > self.k:
            raise ValueError(f"l must be <= k to distort, got l = {self.l} and k = {self.k}")
        if self.repair is Repair.SUPPRESS and not self.suppression_limit:
            raise ValueError("repair by suppression needs a suppression_limit > 0")

    @property
    def sensitive_models(self) -> tuple[PrivacyModel, ...]:
        """Distinct l-diversity of the sensitive attribute, and the required models."""
        return (DistinctLDiversity(l=self.l, attribute=self.sensitive), *self.require)

    @property
    def suppressible(self) -> float:
        """None where classes are merged."""
        return 0.0 if self.repair is Repair.MERGE else self.suppression_limit

    @property
    def keeps_distribution(self) -> bool:
        """Not where values are suppressed or changed."""
        return super().keeps_distribution and self.repair is not Repair.DISTORT

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """The paper's section 4.3, box "improved L-diversity algorithm"."""
        row = sensitive_row(encoded, self.sensitive)
        utility = self._utility(encoded, row)
        weights = weight_matrix(utility, self.reading)
        clusters = clusters_in_play(encoded.sensitive[row], utility, self.l, len(utility), rng)
        distorted = self.repair is Repair.DISTORT
        recode = self.local_recoding(encoded)

        def merge(part: EncodedTable, stream: np.random.Generator, search: Propose) -> Ints:
            persons = part.persons
            groups = sensitive_groups(part.sensitive[row], utility, clusters.of, self.least, persons)
            return label_groups(
                groups,
                lambda group: agglomerate(
                    part.codes[group.rows],
                    part.geometry(self._merge_weights(weights, group.values)),
                    self.least,
                    stream,
                    self.price,
                    search,
                    None if persons is None else persons[group.rows],
                ),
            )

        labels = recode.labels(encoded, merge, rng)
        if distorted:
            groups = sensitive_groups(
                encoded.sensitive[row], utility, clusters.of, self.least, encoded.persons
            )
            encoded = distort(encoded, row, labels, groups, self.l, rng)
        notes = {"clusters": float(clusters.count), "absorbed_values": float(clusters.absorbed)}
        return Recoding.of_labels(encoded, labels, notes)

    def local_recoding(self, encoded: EncodedTable) -> LocalRecoding:
        """Repair, unless values are changed instead, and refinement."""
        weights = weight_matrix(self._utility(encoded, sensitive_row(encoded, self.sensitive)), self.reading)
        return LocalRecoding(
            geometry=encoded.geometry(attribute_weights(weights)),
            models=self.require if self.repair is Repair.DISTORT else self.sensitive_models,
            k=self.least,
            refine=self.refine,
            regroup=self.regroup,
            block_size=self.block_size,
        )

    def _merge_weights(self, weights: FloatMatrix, values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """(q,) weights that price merges in the cluster of sensitive ``values``, summing to 1.

        Section 3.2: ILP_Ai(t) = sum_j w_ij (z_i - y_i) / |A_i|, the sum being over all m sensitive values.
        """
        return attribute_weights(weights, values if self.merge_weights is MergeWeights.CLUSTER else None)

    def _utility(self, encoded: EncodedTable, row: int) -> FloatMatrix:
        if self.utility is None:
            return utility_matrix(encoded, row)
        given = np.array(self.utility, dtype=np.float64)
        shape = (encoded.sensitive_sizes[row], len(encoded.domains))
        if given.shape != shape or not ((given >= 0) & (given <= 1)).all():
            raise ValueError(f"utility must be a matrix of {shape[0]} x {shape[1]} numbers in [0, 1]")
        return given
