"""Linked rows beside independent ones on Synthea's encounters: `python -m benchmarks.peers.linked_rows`.

Reads `synthea_encounters.parquet` and `synthea_patients.parquet` in the folder $PRIVACY_DATA. A larger table
is made by drawing patients again, each with birth year and months shifted a little.
"""

import time

import numpy as np
import pandas as pd

from benchmarks.report import markdown_table
from benchmarks.tables import synthea_visits
from privacy_engine.measures.utility import gcp
from privacy_engine.registry import load_method
from privacy_engine.tables.schema import DataSchema

FIELDS = {
    "patient": {"role": "identifier"},
    "county": {"role": "quasi_identifier"},
    "birth_year": {"role": "quasi_identifier", "kind": "numeric"},
    "sex": {"role": "quasi_identifier"},
    "race": {"role": "quasi_identifier"},
    "ethnicity": {"role": "quasi_identifier"},
    "month": {"role": "quasi_identifier", "kind": "numeric"},
    "reason": {"role": "sensitive"},
}
PATIENTS = 1_200  # of the larger table
HEAD = ("patients", "records", "rows", "method", "released", "GCP", "of released rows", "CPU seconds")


def encounters() -> pd.DataFrame:
    """One record an encounter, with what is known of its patient."""
    visits = synthea_visits()
    start = visits["START"].dt
    return pd.DataFrame(
        {
            "patient": visits["PATIENT"],
            "county": visits["COUNTY"].astype(str),
            "birth_year": pd.to_datetime(visits["BIRTHDATE"]).dt.year,
            "sex": visits["GENDER"],
            "race": visits["RACE"],
            "ethnicity": visits["ETHNICITY"],
            "month": start.year * 12 + start.month,
            "reason": visits["REASONDESCRIPTION"].fillna("none"),
        }
    )


def enlarged(table: pd.DataFrame, patients: int, rng: np.random.Generator) -> pd.DataFrame:
    """A number of patients, drawn from those of the table."""
    known = [own for _, own in table.groupby("patient")]
    drawn = [known[i] for i in rng.integers(0, len(known), patients)]
    return pd.concat(
        [
            own.assign(
                patient=f"patient {i}",
                birth_year=own["birth_year"] + rng.integers(-5, 6),
                month=own["month"] + rng.integers(-24, 25),
            )
            for i, own in enumerate(drawn)
        ],
        ignore_index=True,
    )


def line(table: pd.DataFrame, rows: str, key: str) -> list[str]:
    """One method with k = 5 and l = 2, the second time that it is run."""
    schema = DataSchema.from_dict({**FIELDS, "person": {"column": "patient", "rows": rows}})
    method = load_method(key, k=5, l=2)
    method.release(table, schema, np.random.default_rng(7))
    began = time.process_time()
    release = method.release(table, schema, np.random.default_rng(7))
    seconds = time.process_time() - began
    assert release.recoding is not None
    lost, released = gcp(release.recoding), len(release.table)
    kept = (lost * len(table) - release.recoding.suppressed) / released
    numbers = (f"{released:,} ({released / len(table):.0%})", f"{lost:.3f}", f"{kept:.3f}", f"{seconds:.2f}")
    return [f"{table['patient'].nunique():,}", f"{len(table):,}", rows, key, *numbers]


if __name__ == "__main__":
    small = encounters()
    tables = (small, enlarged(small, PATIENTS, np.random.default_rng(1)))
    lines = [
        line(table, rows, key)
        for table in tables
        for rows in ("independent", "linked")
        for key in ("mondrian", "bottom_up")
    ]
    print(markdown_table(HEAD, lines))
