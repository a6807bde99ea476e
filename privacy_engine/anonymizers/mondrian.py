"""Mondrian: multidimensional k-anonymity by top-down cuts.

LeFevre, DeWitt, Ramakrishnan: Mondrian multidimensional k-anonymity, ICDE 2006; strict partitions, with
hierarchies. Required models are conditions of every cut, as Machanavajjhala et al. (2006) and Li et al.
(2007) do for l-diversity and t-closeness. Where a model bounds the distribution of the sensitive values, a
side may take only a share of each value, see ``quotas.quantile_cuts``. Deviations: see ``partitioning``.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.choice import choice
from privacy_engine.measures.recoding import Recoding
from privacy_engine.recoding.grouping.constraints import Constraints, bounds_distribution
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.recoding.grouping.partitioning import CutRule, mondrian
from privacy_engine.recoding.quotas.quantile_cuts import cut_by_quotas
from privacy_engine.tables.encoding import EncodedTable


@dataclass(frozen=True, kw_only=True)
class Mondrian(Anonymizer):
    """Cut the table into ever smaller boxes while each box meets the guarantees: the quick baseline.

    Attributes:
        rule: Rule that picks one of the allowed cuts: `least_loss`, or `widest`, the paper's.
    """

    rule: CutRule = CutRule.LEAST_LOSS
    key: ClassVar[str] = "mondrian"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rule", choice(CutRule, self.rule, "rule"))

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """Cut while a cut is allowed: both sides must meet all requirements."""
        geometry, constraints = encoded.geometry(), compile_constraints(self.sensitive_models, encoded)
        if self._by_quotas(encoded, constraints):
            codes = np.ascontiguousarray(encoded.codes, np.int32)
            labels = cut_by_quotas(codes, geometry, self.least, encoded.sensitive, constraints)
        else:
            labels = mondrian(
                encoded.codes,
                geometry,
                self.least,
                encoded.sensitive,
                constraints,
                self.rule,
                encoded.persons,
            )
        return Recoding.of_labels(encoded, labels)

    def _by_quotas(self, encoded: EncodedTable, constraints: Constraints) -> bool:
        """Whether sides may take a share of each sensitive value: quotas count records, not persons."""
        return (
            self.rule is CutRule.LEAST_LOSS and encoded.persons is None and bounds_distribution(constraints)
        )
