"""People of two kinds, with listed attributes and numbers, and their randomized releases."""

import numpy as np
import pandas as pd

from privacy_engine import DataSchema
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.randomization import Randomization

SCHEMA = DataSchema.from_dict(
    {
        "wage": {"role": "quasi_identifier", "kind": "numeric", "bounds": [-20, 80]},
        "city": {"role": "quasi_identifier", "categories": ["Bern", "Basel", "Chur"]},
        "kind": {"role": "sensitive", "categories": ["poor", "rich"]},
    }
)
PUBLIC_CLASS = DataSchema.from_dict({**SCHEMA.to_dict(), "kind": {"role": "insensitive"}})


def people(n: int, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rich = rng.random(n) < 0.4
    return pd.DataFrame(
        {
            "wage": np.clip(rng.normal(np.where(rich, 40, 20), np.where(rich, 8, 6)), -20, 80),
            "city": np.where(
                rich,
                rng.choice(["Bern", "Basel", "Chur"], n, p=[0.6, 0.3, 0.1]),
                rng.choice(["Bern", "Basel", "Chur"], n, p=[0.2, 0.3, 0.5]),
            ),
            "kind": np.where(rich, "rich", "poor"),
        }
    )


def identity(**labels: tuple[str, ...]) -> dict[str, object]:
    """The manifest of a release that randomized nothing."""
    channels = {name: Channel.of_matrix(values, np.eye(len(values))) for name, values in labels.items()}
    return {"randomization": Randomization(mechanisms=channels).to_dict()}


PLAIN = identity(city=("Bern", "Basel", "Chur"))
