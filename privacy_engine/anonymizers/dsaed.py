"""DSAED as this project reads it: DBSCAN clusters, cut to size in the order of the table.

Yang (2018) compares OBPA with a method of this name and does not describe it. This is the obvious density
baseline, and ours: clusters of Ester, Kriegel, Sander, Xu (1996), read off an OPTICS order as Ankerst et
al. (1999), figure 19, do; each is cut into classes of k in the canonical order of its records, which knows
nothing of distances. Noise, and clusters of fewer than k records, are cut together.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.anonymizers.cell_suppression import CellModel, modelled
from privacy_engine.anonymizers.local_recoding import LocalRecoding
from privacy_engine.choice import choice
from privacy_engine.measures.recoding import Recoding
from privacy_engine.recoding.grouping.assignment import assign_to_cheapest
from privacy_engine.recoding.grouping.boxes import Ints
from privacy_engine.recoding.grouping.optics import density_clusters, mixed_distance, optics_of_records
from privacy_engine.recoding.grouping.order_cut import cut_to_size
from privacy_engine.recoding.grouping.partners import Propose
from privacy_engine.tables.encoding import EncodedTable

ROUNDING = 1e-9  # distances that are equal in theory must not fall on both sides of eps


@dataclass(frozen=True, kw_only=True)
class DSAED(Anonymizer):
    """Cluster the records by density (DBSCAN), and cut each cluster in the order of the table: a baseline.

    Attributes:
        min_samples: Number of records within eps that make a record a core point, >= 1; None for k.
        eps_quantile: Quantile of the records' core distances that is eps, so that this share of the records
            are core points, 0 .. 1.
        model: Form of a cell whose value the class does not share: `generalization` or `suppression`.
        block_size: Most records that are cut in one block; larger tables are cut into several. None for no
            limit.
    """

    min_samples: int | None = None
    eps_quantile: float = 0.5
    model: CellModel = CellModel.GENERALIZATION
    block_size: int | None = 32_000
    key: ClassVar[str] = "dsaed"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "model", choice(CellModel, self.model, "model"))
        if self.min_samples is not None and self.min_samples < 1:
            raise ValueError(f"min_samples must be >= 1, got {self.min_samples}")
        if not 0 <= self.eps_quantile <= 1:
            raise ValueError(f"eps_quantile must be in [0, 1], got {self.eps_quantile}")

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """Cluster, cut, repair what misses a required model."""
        q = len(encoded.domains)
        distance = mixed_distance(encoded.domains, np.full(q, 1.0 / q))
        encoded = modelled(encoded, self.model)
        geometry = encoded.geometry()
        recode = LocalRecoding(
            geometry=geometry,
            models=self.sensitive_models,
            k=self.least,
            refine=False,
            block_size=self.block_size,
        )

        def merge(part: EncodedTable, stream: np.random.Generator, search: Propose) -> Ints:
            found = optics_of_records(part.codes, distance, self.min_samples or self.least)
            eps = float(np.quantile(found.core, self.eps_quantile)) * (1.0 + ROUNDING)
            clusters = density_clusters(found, eps)
            labels = cut_clusters(clusters, self.least)
            return assign_to_cheapest(part.codes, labels, geometry)

        return Recoding.of_labels(encoded, recode.labels(encoded, merge, rng))


def cut_clusters(clusters: Ints, k: int) -> Ints:
    """Classes of k .. 2k - 1 records inside the clusters (n,), in the order of the records.

    Cluster -1 is noise. Where noise and the clusters below k are together fewer than k, they stay -1;
    where no cluster has k records, all are cut together.
    """
    sizes = np.bincount(clusters + 1, minlength=1)
    small = sizes < k
    small[0] = True
    cluster = np.where(small[clusters + 1], -1, clusters)
    labels, used = np.full(len(clusters), -1, np.int64), 0
    for rows in _rows_of(cluster):
        if len(rows) >= k:
            labels[rows] = used + cut_to_size(len(rows), k)
            used = int(labels[rows].max()) + 1
    return labels


def _rows_of(cluster: Ints) -> list[Ints]:
    order = np.argsort(cluster, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(cluster[order])) + 1)
