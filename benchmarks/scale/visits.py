"""Many rows a person, with dates and nulls: loss, speed and the check, on Synthea's visits."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table, synthea_visits
from benchmarks.timing import timed
from privacy_engine import DataSchema, Release, ReleasePolicy, load_method
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.frames import to_arrow
from privacy_engine.engines.local import LocalEngine
from privacy_engine.measures.utility import gcp

SCHEMA = DataSchema.from_dict(
    {
        "PATIENT": {"role": "identifier"},
        "BIRTHDATE": {"role": "quasi_identifier", "kind": "date"},
        "START": {"role": "quasi_identifier", "kind": "timestamp", "precision": "day"},
        "COUNTY": {"role": "quasi_identifier"},
        "GENDER": {"role": "quasi_identifier"},
        "RACE": {"role": "quasi_identifier"},
        "MARITAL": {"role": "quasi_identifier", "nullable": True},
        "REASONDESCRIPTION": {"role": "sensitive", "nullable": True},
        "person": "PATIENT",
    }
)
MODELS = [{"model": "k_anonymity", "k": 5}, {"model": "distinct_l_diversity", "l": 2}]
KNOWN_ROWS = [*MODELS, {"model": "row_intersection", "l": 2}]
METHODS = ("mondrian", "bottom_up")
PERSONS, ROWS = 50_000, 1_000_000
RELEASE_BAR, CHECK_BAR = 15.0, 2.0
MEMORY = 4 << 30
NOTE = """Synthea's encounters with their patients: {rows:,} visits of {persons:,} persons, of whom one has
{most:,}. k = 5 persons and l = 2 fingerprints of the reason, which may be null, as may the marital status;
dates of birth to the day, dates of visits to the day. Nothing is suppressed. The larger table has {many:,}
visits of {people:,} persons, drawn with replacement from those of the first and each moved by up to two years
in birth and visits, with a share of their visits. *Check*: verification of the released file with its
persons; *known rows*: with `row_intersection(l=2)` besides. CPU seconds of the second call of each."""


def visits() -> pd.DataFrame:
    """The visits; UnavailableError if PRIVACY_DATA does not have them."""
    sample = synthea_visits()
    return sample[list(SCHEMA.names)].assign(BIRTHDATE=pd.to_datetime(sample["BIRTHDATE"]))


def enlarged(table: pd.DataFrame, persons: int, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """About N rows of M persons, each drawn from those of the table and moved in time."""
    known = table.sort_values("PATIENT", kind="stable").reset_index(drop=True)
    first = np.flatnonzero(known["PATIENT"] != known["PATIENT"].shift())
    many = np.diff(first, append=len(known))
    who = rng.integers(0, len(first), persons)
    kept = np.maximum(1, rng.binomial(many[who], min(1.0, rows / many[who].sum())))
    drawn = [first[w] + rng.choice(many[w], n, replace=False) for w, n in zip(who, kept, strict=True)]
    person = np.repeat(np.arange(persons), kept)

    def days(most: int) -> pd.Series:
        return pd.Series(pd.to_timedelta(rng.integers(-most, most + 1, persons)[person], unit="D"))

    out = known.take(np.concatenate(drawn)).reset_index(drop=True)
    return out.assign(PATIENT=person, BIRTHDATE=out["BIRTHDATE"] + days(730), START=out["START"] + days(730))


def second(call: Callable[[], object]) -> float:
    """CPU seconds of the second call."""
    call()
    return timed(call)[1]


def checked(release: Release, models: list[dict[str, object]]) -> tuple[float, bool]:
    """CPU seconds of the check of a release in its file, and whether it passes."""
    policy = ReleasePolicy.from_dict({"require": models})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = to_arrow(release.table)
        pq.write_table(table, folder / "released.parquet")
        pq.write_table(table.append_column("PATIENT", pa.array(release.persons)), folder / "persons.parquet")
        with LocalEngine(memory=MEMORY, spill=folder) as engine:

            def check() -> bool:
                files, own = ([str(folder / f"{which}.parquet")] for which in ("released", "persons"))
                return verify_files(engine, files, release.schema, policy, by_person=own).passed

            return second(check), check()


def measured(table: pd.DataFrame, method: str) -> tuple[tuple[str, ...], dict[str, float]]:
    """A line of the report; CPU seconds of release and check."""
    releaser = load_method(method, k=5, l=2)
    release = releaser.release(table, SCHEMA, np.random.default_rng(1))
    _, seconds = timed(lambda: releaser.release(table, SCHEMA, np.random.default_rng(1)))
    assert release.recoding is not None
    check, holds = checked(release, MODELS)
    known, _ = checked(release, KNOWN_ROWS)
    assert holds, "a release must keep what it was made for"
    lost = gcp(release.recoding)
    line = (
        f"{method}, {len(table):,} visits",
        f"{lost:.3f}",
        f"{len(release.table) / len(table):.0%}",
        f"{release.recoding.classes:,}",
        f"{seconds:.1f}",
        f"{check:.1f}",
        f"{known:.1f}",
    )
    return line, {"release": seconds, "check": check}


def run(table: Table, *, persons: int = PERSONS, rows: int = ROWS) -> Section:
    """Measure and describe; ``table`` is not used."""
    small = visits()
    large = enlarged(small, persons, rows, np.random.default_rng(1))
    lines = [measured(small, method)[0] for method in METHODS]
    line, seconds = measured(large, "mondrian")
    heads = ["", "GCP", "rows kept", "classes", "CPU s", "check", "known rows"]
    verdicts = [
        verdict(
            f"Mondrian takes at most {RELEASE_BAR:g} CPU s on the larger table",
            seconds["release"] <= RELEASE_BAR,
            f"{seconds['release']:.1f}",
        ),
        verdict(
            f"the check takes at most {CHECK_BAR:g} CPU s on the larger table",
            seconds["check"] <= CHECK_BAR,
            f"{seconds['check']:.1f}",
        ),
    ]
    counts = small["PATIENT"].value_counts()
    note = NOTE.format(
        rows=len(small), persons=len(counts), most=int(counts.max()), many=len(large), people=persons
    )
    blocks = [note, markdown_table(heads, [*lines, line]), "\n".join(verdicts)]
    return Section(title="14. Visits: persons, dates, nulls", blocks=blocks)
