"""Mondrian: multidimensional k-anonymity by top-down cuts.

LeFevre, DeWitt, Ramakrishnan: Mondrian multidimensional k-anonymity, ICDE 2006; strict partitions, with
hierarchies. Required models are conditions of every cut, as Machanavajjhala et al. (2006) and Li et al.
(2007) do for l-diversity and t-closeness. Deviations: see ``partitioning``.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.choice import choice
from privacy_engine.grouping.model_rules import compile_constraints
from privacy_engine.grouping.partitioning import CutRule, mondrian
from privacy_engine.measures.recoding import Recoding
from privacy_engine.tables.encoding import EncodedTable


@dataclass(frozen=True, kw_only=True)
class Mondrian(Anonymizer):
    """The quick baseline: O(n log n).

    Attributes:
        rule: which of the allowed cuts is taken; ``widest`` is the paper's.
    """

    rule: CutRule = CutRule.LEAST_LOSS
    key: ClassVar[str] = "mondrian"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rule", choice(CutRule, self.rule, "rule"))

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """Cut while a cut is allowed: both sides must keep all that is asked."""
        labels = mondrian(
            encoded.codes,
            encoded.geometry(),
            self.least,
            encoded.sensitive,
            compile_constraints(self.sensitive_models, encoded),
            self.rule,
            encoded.persons,
        )
        return Recoding.of_labels(encoded, labels)
