"""SWIFT of Google's dpsynth."""

from collections.abc import Mapping

import pandas as pd
from dpsynth.discrete_mechanisms import SWIFTConfig
from dpsynth_tables import released


def synthetic(table: pd.DataFrame, sizes: Mapping[str, int], rho: float) -> pd.DataFrame:
    """A table of synthetic codes that costs a rho of zCDP, for a record added or removed."""
    return released(table, sizes, rho, SWIFTConfig())
