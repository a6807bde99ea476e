"""MST (McKenna, Miklau, Sheldon 2021) of smartnoise-synth on Private-PGM: (epsilon, 1e-9), add/remove.

Two slips of these versions are fixed, so that the peer is seen at its best. Private-PGM 1.1 hands out the
values of a column in the order of the rows, so that columns follow each other (fixed upstream after this
release in ryan112358/mbi, pull request 145): as it is, MST does worse than independent columns on Adult.
smartnoise-synth weights the joint count of rare values and does not tell the model, as the authors' own
code does.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from mbi import Dataset, Domain, LinearMeasurement, markov_random_field
from snsynth.mst import MSTSynthesizer

DELTA = 1e-9  # its default


def synthetic(table: pd.DataFrame, sizes: Mapping[str, int], epsilon: float) -> pd.DataFrame:
    """As many rows as the table has. The codes are its domain; its own preprocessing is left out."""
    markov_random_field.np = Shuffling()
    domain = Domain(list(table.columns), [sizes[name] for name in table.columns])
    synthesizer = MST(epsilon=epsilon, delta=DELTA)
    synthesizer.MST(Dataset(table.to_numpy(), domain), epsilon, DELTA)
    return synthesizer.undo_compress_fn(synthesizer.synthesizer.synthetic_data(rows=len(table))).df


class Shuffling:
    """numpy, but for equal keys, which argsort puts into random order."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def argsort(self, keys: np.ndarray, kind: str | None = None) -> np.ndarray:
        """(n,) as numpy's, ties at random."""
        return np.lexsort((np.random.default_rng().random(len(keys)), keys))


class MST(MSTSynthesizer):
    """With the model informed how the joint count of rare values is weighted."""

    def compress_domain(self, data: Dataset, measurements: list[LinearMeasurement]) -> tuple[Any, ...]:
        """The data without rare values, what was measured of it, and the way back."""
        compressed, log, undo = super().compress_domain(data, measurements)
        return compressed, [_weighted(m, data.domain[m.clique[0]]) for m in log], undo


def _weighted(measurement: LinearMeasurement, size: int) -> LinearMeasurement:
    y = np.asarray(measurement.noisy_measurement)
    if y.size == size:
        return measurement
    weights = np.ones(y.size)
    weights[-1] = 1 / np.sqrt(size - (y.size - 1) + 1.0)  # as in its compress_domain
    return LinearMeasurement(
        y, measurement.clique, measurement.stddev, query=lambda factor: factor.datavector() * weights
    )
