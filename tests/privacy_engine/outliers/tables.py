"""Small tables of numbers and categories, and the searches that the fast ones are compared with."""

from dataclasses import replace

import numpy as np
import pandas as pd

from privacy_engine import DataSchema
from privacy_engine.outliers.k_prototypes import Clustering, cluster_points
from privacy_engine.outliers.mixed_space import MixedSpace

SCHEMA = DataSchema.from_dict(
    {
        "height": {"role": "quasi_identifier", "kind": "numeric"},
        "weight": {"role": "quasi_identifier", "kind": "numeric"},
        "school": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "middle", "high"]},
        "city": {"role": "quasi_identifier"},
        "illness": {"role": "sensitive"},
    }
)


def people(n: int, seed: int, *, grid: int | None = None) -> pd.DataFrame:
    """Two groups of people; numbers on a grid of N values repeat, others do not."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    numbers = rng.normal(group[:, None] * 3.0, 1.0, (n, 2))
    if grid is not None:
        numbers = np.round(numbers * grid / 4) / grid
    return pd.DataFrame(
        {
            "height": numbers[:, 0],
            "weight": numbers[:, 1],
            "school": np.array(["low", "middle", "high"])[rng.integers(0, 3, n)],
            "city": np.array(["a", "b", "c"])[np.minimum(rng.integers(0, 4, n), 2 - group)],
            "illness": np.array(["x", "y"])[rng.integers(0, 2, n)],
        }
    )


def squared_distances(
    numbers: np.ndarray,
    categories: np.ndarray,
    penalty: float,
    to: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Definition 1 between all pairs of rows, one pair after the other."""
    others = (numbers, categories) if to is None else to
    return np.array(
        [
            [sum((x - y) ** 2) + penalty * sum(a != b) for y, b in zip(*others, strict=True)]
            for x, a in zip(numbers, categories, strict=True)
        ]
    )


def clustered(table: pd.DataFrame, clusters: int, penalty: float = 1.0, rounds: int = 20) -> Clustering:
    """A clustering with a label and a distance for each record, equal ones included."""
    space = MixedSpace.of_table(table, SCHEMA, None, penalty)
    found = cluster_points(space, clusters, rounds)
    return replace(found, labels=found.labels[space.point_of], distances=found.distances[space.point_of])
