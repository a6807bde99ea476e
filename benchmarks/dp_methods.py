"""Our synthesizers as the benchmarks run them: by their defaults, epsilon given."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.dp_tables import Data, Split
from privacy_engine import load_method
from privacy_engine.measures.synthetic_utility import coded
from privacy_engine.tables.domains import CodedTable


@dataclass(frozen=True)
class Made:
    """A registered method with parameters."""

    key: str
    parameters: Mapping[str, object] = field(default_factory=dict)


PRIVBAYES, DPSM_BAYES = "PrivBayes", "DPSM-Bayes"
PRIVBAYES_R, LATENT_CLASS = "PrivBayesR", "LatentClass (recommended)"
METHODS: Mapping[str, Made] = {
    PRIVBAYES: Made("privbayes"),
    DPSM_BAYES: Made("dpsm_bayes"),
    PRIVBAYES_R: Made("privbayes_r"),
    LATENT_CLASS: Made("latent_class"),
}


def synthetic(made: Made, epsilon: float, data: Data, split: Split, rng: np.random.Generator) -> CodedTable:
    """As many records as were synthesized from, through the whole release: noise, decoding, encoding."""
    method = load_method(made.key, epsilon=epsilon, **made.parameters)
    return coded(method.release(split.frame, data.schema, rng).table, data.schema)
