"""OKPLOF: prune what lies well inside its cluster, rate the rest by their local outlier factor.

Yang: privacy protection key algorithms for the Internet (2018), section 1: (1) k-prototypes, (2) prune,
(3) LOF of the rest. The paper's pruning box is lost: here a record is pruned when it is no farther from its
prototype than its cluster's records are on average, and its cluster is not small. The paper spares distances
with a recursion over neighbourhoods; here an exact tree does.

Deviations: neighbours are taken from all records, not only from those that were not pruned, so that the
result equals plain LOF's; equal records are one point (see `privacy_engine.outliers.density`); at least one
more point than the neighbours remains, or nothing is pruned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.outliers.density import local_outlier_factors
from privacy_engine.outliers.detector import (
    BoolArray,
    Outliers,
    check_parameters,
    check_positive,
    outliers_of,
)
from privacy_engine.outliers.k_prototypes import Clustering, cluster_points
from privacy_engine.outliers.mixed_space import MixedSpace
from privacy_engine.parameters import require_types
from privacy_engine.progress import portion
from privacy_engine.tables.schema import DataSchema


class Reference(StrEnum):
    """From which records neighbours are taken."""

    ALL = "all"  # unbiased at the edge of a cluster: the factor is plain LOF's
    SURVIVORS = "survivors"  # the paper: those that were not pruned


@dataclass(frozen=True, kw_only=True)
class OKPLOF:
    """Rate the records that do not lie well inside a cluster; the others have score 1.

    Attributes:
        clusters: K', >= 1; by default records / ``average_cluster_size``, at most the distinct records.
        average_cluster_size: Records per cluster from which the number of clusters follows, >= 1; used if
            `clusters` is not given.
        neighbours: Distinct records around each, >= 1; as many as there are where these are fewer.
        smallest_pruned: Least records of a cluster that is pruned, >= 1; by default ``neighbours``.
        penalty: Lambda, squared distance of two unequal categories, > 0; numbers are scaled to [0, 1].
        reference: Records that may be neighbours. Among ``all`` the scores are those of plain LOF, which
            takes about as long. Among ``survivors``, as in the paper, it is faster and finds gross errors as
            well, but misses some outliers that are less far out: use it for large tables.
        rounds: Largest number of rounds of the clustering, >= 1; pruning requires little of it (section 1.2),
            and five rounds prune and find on Adult as much as twenty.
        top: Number of the highest scores to report; not with `threshold`.
        threshold: Score above which a record is reported, > 0, instead of `top`; 1.5 if neither is given.
        attributes: Columns outliers may show in; all quasi-identifiers where none are given.
    """

    clusters: int | None = None
    average_cluster_size: int = 100
    neighbours: int = 20
    smallest_pruned: int | None = None
    penalty: float = 1.0
    reference: Reference | str = Reference.ALL
    rounds: int = 5
    top: int | None = None
    threshold: float | None = None
    attributes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        require_types(self)
        check_parameters(
            neighbours=self.neighbours,
            penalty=self.penalty,
            top=self.top,
            threshold=self.threshold,
            attributes=self.attributes,
        )
        for name in ("clusters", "average_cluster_size", "smallest_pruned", "rounds"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        object.__setattr__(self, "reference", choice(Reference, self.reference, "reference"))

    def detect(self, table: pd.DataFrame, schema: DataSchema) -> Outliers:
        """Score and flag the records, in the order of the table's rows.

        Raises:
            SchemaError: If the chosen columns do not fit the schema.
            InfeasibleError: More clusters than distinct records, all records are equal, or ``top`` exceeds
                their number.
        """
        space = MixedSpace.of_table(table, schema, self.attributes, self.penalty)
        with portion(0.4):
            clustering = cluster_points(space, self._clusters_of(space), self.rounds)
        pruned = inner_points(space, clustering, self.smallest_pruned or self.neighbours)
        if len(space) - pruned.sum() <= self.neighbours:
            pruned = np.zeros(len(space), dtype=np.bool_)
        survivors = np.flatnonzero(~pruned)
        reference = survivors if self.reference is Reference.SURVIVORS else np.arange(len(space))
        scores = np.ones(len(space))
        with portion(0.6):
            scores[survivors] = local_outlier_factors(space, survivors, reference, self.neighbours)
        return outliers_of(scores, pruned, space.point_of, self.top, self.threshold)

    def _clusters_of(self, space: MixedSpace) -> int:
        if self.clusters is not None:
            return self.clusters
        return min(max(len(space.point_of) // self.average_cluster_size, 1), len(space))


def inner_points(space: MixedSpace, clustering: Clustering, smallest: int) -> BoolArray:
    """(m,) points no farther from their prototype than their cluster's records on average.

    Clusters of fewer than ``smallest`` records have none: a small cluster may be a nest of outliers.
    """
    k = len(clustering.numbers)
    sizes = np.bincount(clustering.labels, weights=space.counts, minlength=k)
    totals = np.bincount(clustering.labels, weights=space.counts * clustering.distances, minlength=k)
    mean = totals / np.maximum(sizes, 1)
    inner = clustering.distances <= mean[clustering.labels]
    return np.asarray(inner & (sizes >= smallest)[clustering.labels])
