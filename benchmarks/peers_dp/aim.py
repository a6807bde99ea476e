"""AIM (McKenna, Mullins, Sheldon, Miklau 2022) of OpenDP on Private-PGM: (epsilon, 1e-9), add/remove.

The workload are all pairs of attributes. Single attributes get a sixteenth of the budget, as in the authors'
own code, instead of half of it. It plans for two rounds an attribute, where its default is sixteen: each
round compiles the model anew, and it lengthens and shortens its steps by itself. Private-PGM 1.1 hands out
the values of a column in the order of the rows (see `mst.py`), which is mended here as there.

OpenDP gives each attribute one more value, for what is not in its domain. As nothing is, records that have it
are replaced by others of the same model.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import opendp.prelude as dp
import pandas as pd
import polars as pl
from mbi import markov_random_field

DELTA = 1e-9
WORKLOAD = 2  # attributes of the largest tables
SINGLES = 1 / 16  # of the budget
ROUNDS = 2  # planned for each attribute
SPARE = 1.5  # times as many records as are wanted are drawn


def synthetic(table: pd.DataFrame, sizes: Mapping[str, int], epsilon: float) -> pd.DataFrame:
    """As many rows as the table has, of the codes that are its domain."""
    dp.enable_features("contrib")
    markov_random_field.np = Shuffling()
    rho = largest_rho(epsilon)
    context = dp.Context.compositor(
        data=pl.from_pandas(table.astype("int64")).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    algorithm = dp.mbi.AIM(queries=WORKLOAD, oneway_split=SINGLES, rounds=ROUNDS * len(sizes))
    made = (
        context.query(rho=rho)
        .select(list(table.columns))
        .contingency_table(
            keys={name: list(range(size)) for name, size in sizes.items()}, algorithm=algorithm
        )
        .release()
    )
    drawn = made.synthesize(rows=round(SPARE * len(table))).to_pandas().dropna().astype("int64")
    return drawn.sample(len(table), ignore_index=True)


class Shuffling:
    """numpy, but for equal keys, which argsort puts into random order."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def argsort(self, keys: np.ndarray, kind: str | None = None) -> np.ndarray:
        """(n,) as numpy's, ties at random."""
        return np.lexsort((np.random.default_rng().random(len(keys)), keys))


def largest_rho(epsilon: float) -> float:
    """The rho of zCDP that OpenDP takes for (epsilon, 1e-9)."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def implied(rho: float) -> float:
        noise = dp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * rho))
        return dp.c.make_zCDP_to_approxDP(noise).map(1.0).epsilon(DELTA)

    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if implied(middle) <= epsilon else (low, middle)
    return low
