"""A specification of two tables that share a person, with their files, in a folder."""

from pathlib import Path

import pandas as pd

from privacy_release.spec.model import ReleaseSpec, load_spec
from tests.several_tables import clinic

TABLES = """
tables:
  patients:
    source: {uri: patients.parquet, nulls: keep}
    schema:
      patient:  {role: identifier, kind: categorical}
      age:      {role: quasi_identifier, kind: numeric, bounds: [0, 120]}
      district: {role: quasi_identifier, kind: categorical, categories: [d0, d1, d2, d3]}
      insurer:  {role: insensitive, kind: categorical}
  visits:
    source: {uri: visits.parquet, nulls: keep}
    schema:
      patient:  {role: identifier, kind: categorical}
      month:    {role: quasi_identifier, kind: numeric, bounds: [1, 24]}
      ward:     {role: quasi_identifier, kind: categorical, categories: [a, b, c]}
      illness:  {role: sensitive, kind: categorical}
    carry: [age]
"""
REST = """
person: patient
release: {method: bottom_up, k: 4, l: 2, seed: 7}
policy: policy.yaml
publish: {table: clinic}
"""
POLICY = """
require:
  - {model: k_anonymity, k: 4}
  - {model: distinct_l_diversity, l: 2}
max_suppressed: 0.5
"""


def files_in(folder: Path, tables: dict[str, pd.DataFrame] | None = None) -> None:
    """The files of a clinic."""
    for name, table in (tables or clinic()).items():
        kept = table.drop(columns="note", errors="ignore")
        kept.to_parquet(folder / f"{name}.parquet", index=False)


def written(folder: Path, text: str = TABLES + REST, name: str = "clinic") -> Path:
    """The specification, with its policy and its files."""
    files_in(folder)
    (folder / "policy.yaml").write_text(POLICY)
    path = folder / f"{name}.yaml"
    path.write_text(f"name: {name}\n{text}")
    return path


def clinic_spec(folder: Path, text: str = TABLES + REST) -> ReleaseSpec:
    """The same, read."""
    return load_spec(written(folder, text))
