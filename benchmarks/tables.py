"""The tables that the benchmarks run on: Adult as in the papers, and large tables made from it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.environments import UnavailableError
from deploy.local.samples.adult import provided, sample_table
from deploy.local.samples.synthea import with_patients
from privacy_engine import DataSchema
from privacy_release.spec.files import load_schema

SENSITIVE = "occupation"
TREES = ("marital-status", "native-country", "race", "salary-class", "sex", "workclass")
FIELDS: dict[str, dict[str, object]] = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [17, 90]},
    "education-num": {"role": "quasi_identifier", "kind": "ordinal", "bounds": [1, 16]},
    **{
        name: {"role": "quasi_identifier", "hierarchy": f"hierarchies/adult/{name}.csv"}  #
        for name in TREES
    },
    SENSITIVE: {"role": "sensitive"},
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Records, what their columns are, and a sentence that says where they came from."""

    frame: pd.DataFrame
    schema: DataSchema
    source: str

    @property
    def quasi_identifiers(self) -> list[str]:
        """Names of the quasi-identifiers."""
        return [a.name for a in self.schema.quasi_identifiers]


def schema() -> DataSchema:
    """Eight quasi-identifiers and the occupation, with trees of the shape of ARX's hierarchies."""
    return load_schema(FIELDS)


def of_frame(frame: pd.DataFrame, source: str) -> Table:
    """The columns of the Adult setup, complete records alone."""
    complete = frame.loc[:, list(FIELDS)].dropna().reset_index(drop=True)
    return Table(frame=complete, schema=schema(), source=source)


def adult() -> Table:
    """The Adult setup of the papers: 30,162 complete records where UCI's table can be had."""
    return of_frame(*sample_table())


def enlarged(table: Table, rows: int, rng: np.random.Generator) -> Table:
    """Resampled records whose age is moved by up to three years within its bounds."""
    frame = table.frame.iloc[rng.integers(len(table.frame), size=rows)].reset_index(drop=True)
    low, high = table.schema["age"].bounds or (0, 120)
    age = np.clip(frame["age"].to_numpy() + rng.integers(-3, 4, size=rows), low, high).astype(np.int64)
    return replace(table, frame=frame.assign(age=age), source=f"{rows:,} records resampled, age jittered.")


def write(table: Table, path: Path) -> None:
    """Keep the records for another process."""
    table.frame.to_parquet(path, index=False)


def read(path: Path) -> Table:
    """Records that `write` kept."""
    return Table(frame=pd.read_parquet(path), schema=schema(), source=path.name)


def head(table: Table, rows: int | None) -> Table:
    """The first records, for a trial run."""
    return table if rows is None else replace(table, frame=table.frame.head(rows))


def synthea_visits() -> pd.DataFrame:
    """Synthea's encounters, each with what is known of its patient.

    Raises:
        UnavailableError: if PRIVACY_DATA does not have them.
    """
    files = [provided(f"synthea_{name}.parquet") for name in ("encounters", "patients")]
    if None in files:
        raise UnavailableError("PRIVACY_DATA must name a folder with synthea_encounters and synthea_patients")
    encounters, patients = map(pd.read_parquet, files)
    return with_patients(encounters, patients)
