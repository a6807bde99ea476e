"""People with every kind of attribute that a randomizer takes."""

import numpy as np
import pandas as pd

from privacy_engine import DataSchema, Hierarchy

CITIES = Hierarchy(
    (("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*"), ("Zug", "north", "*"))
)
SCHEMA = DataSchema.from_dict(
    {
        "id": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "bounds": [1, 6]},
        "size": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["S", "M", "L"]},
        "city": {"role": "quasi_identifier", "hierarchy": "cities"},
        "disease": {"role": "sensitive", "categories": ["flu", "gout", "none"], "nullable": True},
    },
    {"cities": CITIES},
)


def people(n: int = 300, seed: int = 3) -> pd.DataFrame:
    """Records that fit SCHEMA, with an index that means nothing."""
    rng = np.random.default_rng(seed)
    disease = rng.choice(np.array(["flu", "gout", "none", None], dtype=object), n, p=[0.4, 0.3, 0.2, 0.1])
    return pd.DataFrame(
        {
            "id": [f"person {i}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "grade": rng.integers(1, 7, n),
            "size": rng.choice(["S", "M", "L"], n),
            "city": rng.choice(CITIES.values, n),
            "disease": disease,
        },
        index=rng.integers(0, 5, n),
    )
