"""Tables to cut, and the join of what comes out."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.engines.engine import Engine
from privacy_engine.engines.frames import to_arrow
from privacy_engine.fragments.plan import FragmentPlan, plan_fragments
from privacy_engine.fragments.work import FragmentRelease, release_fragment
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema

CITIES = Hierarchy(
    (("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*"), ("Zug", "north", "*"))
)
# The domains of salary and colour are left to the data.
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "salary": {"role": "quasi_identifier", "kind": "numeric"},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
        "city": {"role": "quasi_identifier", "hierarchy": "cities"},
        "colour": {"role": "quasi_identifier"},
        "disease": {"role": "sensitive"},
        "record": {"role": "insensitive", "kind": "numeric"},
    },
    {"cities": CITIES},
)
DISEASES = ("cold", "flu", "gout", "none")


def people(n: int = 1600, seed: int = 3) -> pd.DataFrame:
    """Records whose disease depends on the age: no part of them has the table's distribution."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    old = np.array([[0.3, 0.4, 0.1, 0.2], [0.4, 0.2, 0.2, 0.2]])[(age > 50).astype(int)]
    disease = (rng.random(n)[:, None] > np.cumsum(old, axis=1)).sum(axis=1).clip(max=3)
    return pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(n)],
            "age": age,
            "salary": np.round(rng.gamma(3.0, 900.0, n) + 10.0 * age, 2),
            "grade": rng.choice(["low", "mid", "high"], n),
            "city": rng.choice(CITIES.values, n, p=[0.5, 0.3, 0.15, 0.05]),
            "colour": rng.choice(["red", "green", "blue"], n),
            "disease": np.array(DISEASES)[disease],
            "record": np.arange(n),
        }
    )


def stored(table: pd.DataFrame, folder: Path) -> str:
    """A Parquet file of the table."""
    path = folder / "table.parquet"
    pq.write_table(to_arrow(table), path)
    return str(path)


@dataclass(frozen=True)
class Fragmented:
    """A table that was released in fragments."""

    plan: FragmentPlan
    parts: list[FragmentRelease]
    fragment_of: np.ndarray

    @property
    def joined(self) -> pd.DataFrame:
        """The records of all fragments."""
        return pd.concat([part.release.table for part in self.parts], ignore_index=True)


def planned(
    engine: Engine, folder: Path, table: pd.DataFrame, method: Anonymizer, schema: DataSchema, rows: int
) -> FragmentPlan:
    return plan_fragments(engine, [stored(table, folder)], schema, method, rows=rows, seed=11)


def released(plan: FragmentPlan, table: pd.DataFrame, method: Anonymizer) -> Fragmented:
    fragment_of = plan.tree.assign(table)
    parts = [
        release_fragment(plan, fragment, table[fragment_of == fragment], method)
        for fragment in range(plan.fragments)
    ]
    return Fragmented(plan, parts, fragment_of)
