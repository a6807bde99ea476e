"""KACLUK: k-anonymity via clustering domain knowledge.

Li, Tang, Wu, Luo, Li, Lin, Zuo: k-anonymity via clustering domain knowledge for privacy preservation,
FSKD 2008; as the baseline of Zhu, Zhao, Wang (2010): sensitive values are clustered by the utility
matrix (3 clusters), and the classes inside a cluster, first single records, are merged at random in rounds
until each has k records. Beyond the papers: any
privacy model by repair, and refinement, off by default because it would no longer be this baseline.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.anonymizers.groups import label_groups, sensitive_groups
from privacy_engine.anonymizers.local_recoding import LocalRecoding
from privacy_engine.anonymizers.sensitive_utility import clusters_in_play, sensitive_row, utility_matrix
from privacy_engine.measures.recoding import Recoding
from privacy_engine.recoding.grouping.agglomeration import merge_at_random
from privacy_engine.recoding.grouping.boxes import Ints
from privacy_engine.recoding.grouping.partners import Propose
from privacy_engine.tables.encoding import EncodedTable


@dataclass(frozen=True, kw_only=True)
class KACLUK(Anonymizer):
    """Cluster the sensitive values, then merge records at random inside each cluster: a baseline.

    Attributes:
        sensitive: Attribute whose values are clustered; None for the only one.
        clusters: Number of clusters of sensitive values, >= 1.
        refine: Whether records are moved afterwards wherever the total loss falls; then it is no longer the
            baseline.
    """

    sensitive: str | None = None
    clusters: int = 3
    refine: bool = False
    key: ClassVar[str] = "kacluk"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clusters < 1:
            raise ValueError(f"clusters must be >= 1, got {self.clusters}")

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """Cluster, merge at random, repair what misses a required model."""
        row = sensitive_row(encoded, self.sensitive)
        utility = utility_matrix(encoded, row)
        recode = LocalRecoding(
            geometry=encoded.geometry(),
            models=self.sensitive_models,
            k=self.least,
            refine=self.refine,
        )
        clusters = clusters_in_play(encoded.sensitive[row], utility, 1, self.clusters, rng)

        def merge(part: EncodedTable, stream: np.random.Generator, _: Propose) -> Ints:
            groups = sensitive_groups(part.sensitive[row], utility, clusters.of, self.least)
            return label_groups(groups, lambda group: merge_at_random(len(group.rows), self.least, stream))

        return Recoding.of_labels(encoded, recode.labels(encoded, merge, rng))
