"""Google's dpsynth on a table of codes, with the iterations that its authors set; imports nothing of ours.

``rho`` is what dpsynth books: zCDP for a record added or removed.
"""

import os

os.environ.setdefault(  # before jax is imported: one thread
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

from collections.abc import Mapping

import numpy as np
import pandas as pd
from dpsynth.api import MechanismConfig
from dpsynth.data_generation_v3 import TabularConfig
from dpsynth.domain import CategoricalAttribute


def released(
    table: pd.DataFrame, sizes: Mapping[str, int], rho: float, mechanism: MechanismConfig
) -> pd.DataFrame:
    """A synthetic table over the same codes; it has as many rows as the noisy number of records."""
    domains = {name: CategoricalAttribute(list(range(sizes[name]))) for name in table.columns}
    config = TabularConfig(domains=domains, discrete_mechanism=mechanism)
    return config.configure(zcdp_rho=rho)(np.random.default_rng(0), table).synthetic_data
