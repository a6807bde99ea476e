"""The tables and families that the contracts of release methods are tested on."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from privacy_engine import DataSchema, Hierarchy, Release, load_method, method_names
from privacy_engine.registry import method_class

CITIES = Hierarchy(
    (("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*"), ("Zug", "north", "*"))
)
FIELDS = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
    "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
    "city": {"role": "quasi_identifier", "hierarchy": "cities"},
    "colour": {"role": "quasi_identifier"},
    "disease": {"role": "sensitive"},
    "visits": {"role": "insensitive", "kind": "numeric"},
}
DOMAINS = {
    "colour": {"categories": ["red", "green", "blue"]},
    "disease": {"categories": ["flu", "cold", "gout", "none"]},
    "visits": {"bounds": [0, 8]},
}

# Some domains are left to the data, which an anonymizer may read.
SCHEMA = DataSchema.from_dict(FIELDS, {"cities": CITIES})
# Every domain is public, as a differentially private method needs it.
PUBLIC_SCHEMA = DataSchema.from_dict(
    {name: fields | DOMAINS.get(name, {}) for name, fields in FIELDS.items()}, {"cities": CITIES}
)

# Parameters that only cost time here.
QUICK: dict[str, dict[str, object]] = {
    "latent_class": {"classes": 4, "fits": 1, "replicates": 2},
    "rfka": {"trees": 20},
}


def people(n: int = 120, seed: int = 3) -> pd.DataFrame:
    """Records that fit both schemas, with an index that means nothing."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "grade": rng.choice(["low", "mid", "high"], n),
            "city": rng.choice(CITIES.values, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "disease": rng.choice(["flu", "cold", "gout", "none"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "visits": rng.integers(0, 9, n),
        },
        index=rng.integers(0, 5, n),
    )


def quick(name: str, **parameters: Any) -> Any:
    """The method of that name, which does less work than by default."""
    return load_method(name, **QUICK.get(name, {}) | parameters)


def released(
    name: str,
    parameters: dict[str, object],
    table: pd.DataFrame,
    seed: int = 7,
    schema: DataSchema = PUBLIC_SCHEMA,
) -> Release:
    """A release by the method of that name."""
    return quick(name, **parameters).release(table, schema, np.random.default_rng(seed))


@cache
def release_of_people(name: str, *, public: bool = True, **parameters: object) -> Release:
    """The release of `people` by the method of that name, made once, for reading only.

    Args:
        name: Registry key of the method.
        public: Whether the schema states every domain, as `PUBLIC_SCHEMA` does.
        parameters: Parameters of the method, of types that can be hashed.
    """
    return released(name, parameters, people(), schema=PUBLIC_SCHEMA if public else SCHEMA)


def family(cls: type) -> list[str]:
    """The registered methods of one family."""
    return [name for name in method_names() if issubclass(method_class(name), cls)]
