"""Tables that share persons, and plain counts of what a release of them gives away."""

from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from privacy_engine.tables.linked import schema_of_tables, stacked
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import released_as

PATIENTS = DataSchema.from_dict(
    {
        "patient": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "district": {"role": "quasi_identifier", "categories": ["d0", "d1", "d2", "d3"], "nullable": True},
        "insurer": {"role": "insensitive"},
    }
)
VISITS = DataSchema.from_dict(
    {
        "patient": {"role": "identifier"},
        "month": {"role": "quasi_identifier", "kind": "numeric", "bounds": [1, 24]},
        "ward": {"role": "quasi_identifier", "categories": ["a", "b", "c"]},
        "illness": {"role": "sensitive", "categories": list("abcdef"), "nullable": True},
        "note": {"role": "insensitive", "kind": "numeric"},
    }
)
SCHEMAS = {"patients": PATIENTS, "visits": VISITS}
SCHEMA = schema_of_tables(SCHEMAS, "patient")
CARRYING = schema_of_tables(SCHEMAS, "patient", {"visits": ["age", "district"]})


def clinic(persons: int = 60, seed: int = 11) -> dict[str, pd.DataFrame]:
    """A row a patient, and none to six visits each; some visits are of patients who have no row."""
    rng = np.random.default_rng(seed)
    visits = rng.integers(0, 7, persons)
    visits[-8:] = np.maximum(visits[-8:], 1)
    patient = np.repeat(np.arange(persons), visits)
    known = persons - 8
    return {
        "patients": pd.DataFrame(
            {
                "patient": [f"p{i}" for i in range(known)],
                "age": rng.integers(20, 90, known),
                "district": rng.choice(np.array(["d0", "d1", "d2", "d3", None], dtype=object), known),
                "insurer": rng.choice(["x", "y"], known),
            }
        ),
        "visits": pd.DataFrame(
            {
                "patient": [f"p{i}" for i in patient],
                "month": rng.integers(1, 25, len(patient)),
                "ward": rng.choice(list("abc"), len(patient)),
                "illness": rng.choice(np.array([*"abcdef", None], dtype=object), len(patient)),
                "note": np.arange(len(patient)),
            }
        ),
    }


def one(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables below each other, in the order of the schema's columns."""
    return stacked(tables)[list(SCHEMA.names)]


def recounted(
    table: pd.DataFrame, quasi: dict[str, list[str]], secret: dict[str, str]
) -> list[dict[str, Any]]:
    """Of each class of trajectories over all tables its persons, rows, and by table what tells them apart.

    In loops over plain rows. `quasi` has the quasi-identifiers of each table, `secret` its sensitive one.
    """
    ways: dict[Hashable, Counter[Any]] = defaultdict(Counter)
    had: dict[tuple[Hashable, str], list[str]] = defaultdict(list)
    reported = {
        name: [end for q in own for end in released_as(q, table.columns)] for name, own in quasi.items()
    }
    for row in table.astype(object).to_dict("records"):
        name = row["table_name"]
        ways[row["patient"]][(name, *(str(row[column]) for column in reported[name]))] += 1
        if name in secret:
            had[row["patient"], name].append(str(row[secret[name]]))
    classes = defaultdict(list)
    for patient, way in ways.items():
        classes[frozenset(way.items())].append(patient)
    found = []
    for people in classes.values():
        reported: dict[str, Any] = {"k": len(people), "rows": sum(ways[p].total() for p in people)}
        for name in secret:
            sets = [frozenset(had[p, name]) for p in people if (p, name) in had]
            if sets:
                reported[name] = min(len(frozenset().union(*sets)), len(set(sets)))
        found.append(reported)
    return found
