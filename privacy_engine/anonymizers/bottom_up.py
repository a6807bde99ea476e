"""Bottom-up k-anonymity: local recoding by agglomeration over the whole table.

Xu, Wang, Pei, Wang, Shi, Fu: Utility-based anonymization using local recoding, KDD 2006; as the
baseline of Zhu, Zhao, Wang (2010), section 5.2: one weight per quasi-identifier. Beyond the papers:
refinement (see ``refinement``), blocks for large tables, and any privacy model by repair.
``refine=False, price="whole"`` is the papers' plain form.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.anonymizers.local_recoding import LocalRecoding, require_sweeps
from privacy_engine.anonymizers.sensitive_utility import (
    Reading,
    attribute_weights,
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


@dataclass(frozen=True, kw_only=True)
class BottomUp(Anonymizer):
    """Merge each class of fewer than k records with the class that costs least, over the whole table.

    Attributes:
        sensitive: Attribute from which the weights come; None for the only one. Unused with equal weights.
        reading: Weights of the quasi-identifiers: `equal`, or `literal` and `complement`, which come from a
            sensitive attribute.
        price: Price of a merge: `increase`, the increase of the table's loss, or `whole`, the loss of the
            union.
        refine: Whether records are moved, swapped and regrouped afterwards wherever the total loss falls.
        regroup: Number of sweeps after `refine` in which neighbouring classes are taken apart and formed
            again; 0 for none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one
            before. Up to k = 10, where no other model is required, a search by columns comes first, which
            takes 6 CPU s at k = 5. No sweeps are made without `refine`, where several rows may belong to
            one person, or where a model bounds the distribution of the sensitive values.
        block_size: Most records that are cut in one block; larger tables are cut into several. None for no
            limit.
    """

    sensitive: str | None = None
    reading: Reading = Reading.EQUAL
    price: MergePrice = MergePrice.INCREASE
    refine: bool = True
    regroup: int = 0
    block_size: int | None = 50_000
    key: ClassVar[str] = "bottom_up"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_sweeps(self.regroup)
        object.__setattr__(self, "reading", choice(Reading, self.reading, "reading"))
        object.__setattr__(self, "price", choice(MergePrice, self.price, "price"))

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """Agglomerate the whole table, then repair what misses a required model, then refine."""
        recode = self.local_recoding(encoded)
        geometry = recode.geometry

        def merge(part: EncodedTable, stream: np.random.Generator, search: Propose) -> Ints:
            return agglomerate(part.codes, geometry, self.least, stream, self.price, search, part.persons)

        return Recoding.of_labels(encoded, recode.labels(encoded, merge, rng))

    def local_recoding(self, encoded: EncodedTable) -> LocalRecoding:
        """Repair and refinement."""
        geometry = encoded.geometry()
        if self.reading is not Reading.EQUAL:
            utility = utility_matrix(encoded, sensitive_row(encoded, self.sensitive))
            geometry = encoded.geometry(attribute_weights(weight_matrix(utility, self.reading)))
        return LocalRecoding(
            geometry=geometry,
            models=self.sensitive_models,
            k=self.least,
            refine=self.refine,
            regroup=self.regroup,
            block_size=self.block_size,
        )
