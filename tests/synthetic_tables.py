"""People with related attributes, for the tests of what is measured on synthetic tables."""

import numpy as np
import pandas as pd

from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role

JOBS = ("clerk", "coder", "cook", "nurse", "pilot")
TOWNS = tuple(f"town{i}" for i in range(12))
SCHEMA = DataSchema(
    (
        Attribute(name="name", role=Role.IDENTIFIER),
        Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 100)),
        Attribute(name="job", role=Role.QUASI_IDENTIFIER, categories=JOBS),
        Attribute(name="town", categories=TOWNS),
        Attribute(name="grade", kind=Kind.ORDINAL, categories=("low", "middle", "high"), nullable=True),
        Attribute(name="wage", kind=Kind.NUMERIC, bounds=(0.0, 1.0), bins=8),
        Attribute(name="ill", role=Role.SENSITIVE, categories=("yes", "no")),
    )
)


def people(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Independent draws from one population: job goes with age, wage with grade, ill with age and town."""
    age = rng.integers(0, 101, rows)
    job = (age // 20 + rng.integers(0, 2, rows)) % len(JOBS)
    town, grade = rng.integers(0, len(TOWNS), rows), rng.integers(0, 3, rows)
    ill = rng.random(rows) < np.where(age > 60, 0.8, 0.1) * np.where(town < 6, 1.0, 0.5)
    grades = pd.Series(np.array(["low", "middle", "high"], dtype=object)[grade])
    grades[rng.random(rows) < 0.1] = None
    return pd.DataFrame(
        {
            "name": [f"person{i}" for i in rng.integers(0, 10**9, rows)],
            "age": age,
            "job": np.array(JOBS)[job],
            "town": np.array(TOWNS)[town],
            "grade": grades,
            "wage": np.clip((grade + rng.random(rows)) / 3, 0, 1),
            "ill": np.where(ill, "yes", "no"),
        }
    )
