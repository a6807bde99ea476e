"""Small tables about people, and the files of a release of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy

# Of releases that spend a budget, in tests that are not about what must hold of them.
SPENDING = ReleasePolicy(max_epsilon=1000.0, max_delta=0.5)
REGIONS = {"north": ("N1", "N2"), "south": ("S1", "S2")}
ZIPS = [[code, region, "*"] for region, codes in REGIONS.items() for code in codes]
ILLNESSES = ("cold", "cough", "flu", "measles")

FIELDS: Mapping[str, Mapping[str, Any]] = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "zip": {"role": "quasi_identifier", "kind": "categorical", "hierarchy": "hierarchies/zip.csv"},
    "illness": {"role": "sensitive", "kind": "categorical"},
    "visits": {"role": "insensitive", "kind": "numeric"},
}
# What a private method needs to know of `FIELDS`.
PUBLIC: Mapping[str, Mapping[str, Any]] = {"age": {"bins": 10}, "illness": {"categories": list(ILLNESSES)}}
SUITE = {
    "name": "people",
    "expectations": [
        {"type": name, "kwargs": kwargs, "severity": "critical"}
        for name, kwargs in (
            ("expect_column_values_to_not_be_null", {"column": "age"}),
            ("expect_table_row_count_to_be_between", {"min_value": 10}),
        )
    ],
}


def people(n: int = 200, seed: int = 3) -> pd.DataFrame:
    """Records with every column of `FIELDS`; names are unique, so that a search finds each of them."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "name": [f"person-{i:03d}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "zip": rng.choice([row[0] for row in ZIPS], n),
            "illness": rng.choice(ILLNESSES, n),
            "visits": rng.integers(0, 9, n),
        }
    )


def fields(*columns: str, **changes: Any) -> dict[str, Any]:
    """The schema of `people` as a specification writes it.

    Args:
        columns: Columns to keep; all if none is given.
        changes: Entries of a column that differ, or a further column.

    >>> fields("age", "name", age={"bins": 6})["age"]
    {'role': 'quasi_identifier', 'kind': 'numeric', 'bounds': [0, 120], 'bins': 6}
    """
    kept = {name: dict(FIELDS[name]) for name in columns or FIELDS}
    for name, change in changes.items():
        kept[name] = kept.get(name, {}) | change if isinstance(change, Mapping) else change
    return kept


def schema(*columns: str, **changes: Any) -> DataSchema:
    """`fields` as the engine reads them, with the hierarchy of `zip`."""
    kept = fields(*columns, **changes)
    if "zip" in kept:
        kept["zip"] |= {"hierarchy": ZIPS}
    return DataSchema.from_dict(kept)


def policy(k: int = 5, l: int = 2, **limits: Any) -> dict[str, Any]:  # noqa: E741 -- the name in the papers
    """A policy file: k-anonymity, distinct l-diversity of the illness (not if `l` is 1), other limits."""
    require: list[dict[str, Any]] = [{"model": "k_anonymity", "k": k}]
    if l > 1:
        require.append({"model": "distinct_l_diversity", "l": l, "attribute": "illness"})
    return {"require": require} | limits


POLICY: Mapping[str, Any] = policy(max_suppressed=0.1, max_gcp=0.9)


def spec(name: str = "people", **changes: Any) -> dict[str, Any]:
    """A release specification of `people`; a change replaces a field, and None takes it out."""
    kept = {
        "name": name,
        "schedule": "@daily",
        "source": {"uri": "people.parquet", "columns": list(FIELDS), "nulls": "fail"},
        "schema": fields(),
        "expectations": "expectations/people.json",
        "release": {"method": "mondrian", "k": 5, "l": 2, "seed": 7},
        "policy": "policies/people.yaml",
        "publish": {"lake": "lake_default", "table": name},
    }
    return {key: value for key, value in (kept | changes).items() if value is not None}


def write_home(
    folder: Path,
    table: pd.DataFrame | None = None,
    rules: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Write an include folder with the release `people`, which runs green; return the folder.

    Args:
        folder: The include folder; it is created.
        table: The source, by default `people()`.
        rules: The policy, by default `POLICY`.
        changes: Fields of the specification, as in `spec`.
    """
    for name in ("releases", "hierarchies", "policies", "expectations"):
        (folder / name).mkdir(parents=True)
    (folder / "hierarchies" / "zip.csv").write_text("".join(f"{';'.join(row)}\n" for row in ZIPS))
    (folder / "expectations" / "people.json").write_text(json.dumps(SUITE))
    (people() if table is None else table).to_parquet(folder / "people.parquet")
    write_release(folder, POLICY if rules is None else rules, **changes)
    return folder


def write_release(folder: Path, rules: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    """Write the specification `people` with other fields, and its policy if given; return the file."""
    if rules is not None:
        (folder / "policies" / "people.yaml").write_text(yaml.safe_dump(dict(rules)))
    path = folder / "releases" / "people.yaml"
    path.write_text(yaml.safe_dump(spec(**changes), sort_keys=False))
    return path


def rewrite(path: Path, *, at: Sequence[str] = (), **changes: Any) -> Path:
    """Change fields of a YAML file; None takes a field out.

    Args:
        path: The file, which is returned.
        at: Keys that lead to the fields, from the top of the file.
        changes: New values by field.
    """
    kept = here = yaml.safe_load(path.read_text())
    for key in at:
        here = here[key]
    here |= changes
    for name in [name for name, value in changes.items() if value is None]:
        del here[name]
    path.write_text(yaml.safe_dump(kept, sort_keys=False))
    return path
