"""The sample tables as files: each is written once, completely or not at all, and only the user can read it.

A text file of the same name next to each table says where its records come from.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.local.samples.adult import COLUMNS, half_of, provided, sample_table
from deploy.local.samples.clinic import patients_of_week
from deploy.local.samples.customers import SEED, branch_visits, delivery
from deploy.local.samples.synthea import encounters, patients, with_patients

if TYPE_CHECKING:
    import pandas as pd

    Made = tuple[pd.DataFrame, str]  # a table and its origin

SAMPLES = Path("data/samples")  # relative to the folder that holds `include/`
ADULT, PATIENTS, ENCOUNTERS = "adult.parquet", "patients.parquet", "encounters.parquet"
PERSONS = 150
CUSTOMERS = 50_000
VISITORS = 60_000  # one in twenty comes in a week
WEEKS = 12  # weeks of the clinic
TEST_CUSTOMERS = 5_000  # other people, to test a classifier that was trained on the rest


def write_samples(folder: Path, keys: Sequence[str]) -> list[Path]:
    """Write the tables that do not exist yet, and return the files that were written.

    Args:
        folder: Folder of the tables.
        keys: Keys of the partitions that get a delivery.
    """
    written = []
    for name, make in _tables(folder, keys):
        if not (file := folder / name).exists():
            write_table(file, *make())
            written.append(file)
    return written


def weeks_around(now: datetime) -> list[str]:
    """Return the partition keys of the week of `now`, of the week before, and of the three weeks after."""
    today = now.astimezone(UTC).date()
    monday = today - timedelta(days=today.weekday())
    return [f"{monday + timedelta(weeks=week)}T00:00:00" for week in range(-1, 4)]


def origin_of(file: Path) -> str | None:
    """Return the origin of a sample table's records; None for a file that is no sample."""
    note = file.with_suffix(".txt")
    return note.read_text(encoding="utf-8").strip() if file.suffix == ".parquet" and note.is_file() else None


def write_table(file: Path, table: pd.DataFrame, origin: str) -> None:
    """Write the origin of a table and then the table, so that no table exists without its origin."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _whole(file.with_suffix(".txt")) as note:
        note.write_text(f"{origin}\n", encoding="utf-8")
    with _whole(file) as part:
        table.to_parquet(part, index=False)


def _tables(folder: Path, keys: Sequence[str]) -> Iterator[tuple[str, Callable[[], Made]]]:
    """Yield the name of each file and the function that makes its table."""
    yield ADULT, sample_table
    yield "bank_customers_test.parquet", partial(_customers, TEST_CUSTOMERS, None, SEED + 1)
    yield PATIENTS, _patients
    yield ENCOUNTERS, partial(_encounters, folder / PATIENTS)
    yield "visits.parquet", partial(_visits, folder)
    for key in keys:
        yield f"adult_weeks/{key}.parquet", partial(_half, folder / ADULT, key)
        yield f"bank_customers/{key}.parquet", partial(_customers, CUSTOMERS, key, SEED)
        yield f"branch_visits/{key}.parquet", partial(_branch_visits, key)
    for key in _with_weeks_before(keys):
        yield f"clinic/{key}.parquet", partial(_clinic, key)


def _with_weeks_before(keys: Sequence[str]) -> list[str]:
    """Return the keys after those of the weeks before the first, `WEEKS` keys in total."""
    first = min((date.fromisoformat(key[:10]) for key in keys), default=None)
    before = range(WEEKS - len(keys), 0, -1) if first else ()
    return [*(f"{first - timedelta(weeks=week)}T00:00:00" for week in before if first), *keys]


def _half(adult: Path, key: str) -> Made:
    import pandas as pd

    table = pd.read_parquet(adult, columns=list(COLUMNS)).astype(COLUMNS)
    return half_of(table, key), f"Half of {ADULT}, chosen by the week. {origin_of(adult) or ''}".strip()


def _patients() -> Made:
    import numpy as np

    return _synthea(PATIENTS) or (
        patients(PERSONS, np.random.default_rng(PERSONS)),
        f"{PERSONS} generated patients in the form of Synthea's, not real people.",
    )


def _encounters(people: Path) -> Made:
    import numpy as np
    import pandas as pd

    if (given := _synthea(ENCOUNTERS)) is not None:
        return given
    table = encounters(pd.read_parquet(people), np.random.default_rng(PERSONS + 1))
    return table, f"{len(table):,} generated encounters of the people in {PATIENTS}."


def _synthea(name: str) -> Made | None:
    """Return Synthea's own table, if it is provided."""
    import pandas as pd

    file = provided(f"synthea_{name}")
    if file is None:
        return None
    table = pd.read_parquet(file)
    return table, f"Synthea, {len(table):,} records of {name}, from the folder that PRIVACY_DATA names."


def _visits(folder: Path) -> Made:
    """Return the encounters, each with the columns of its patient."""
    import pandas as pd

    people, had = (pd.read_parquet(folder / name) for name in (PATIENTS, ENCOUNTERS))
    table = with_patients(had, people)
    return table, f"{ENCOUNTERS} with {PATIENTS}. {origin_of(folder / ENCOUNTERS)}"


def _customers(rows: int, key: str | None, seed: int) -> Made:
    return delivery(rows, key, seed=seed), f"{rows:,} simulated bank-card customers, not real people."


def _clinic(key: str) -> Made:
    table = patients_of_week(key)
    return table, f"{len(table):,} generated patients of a clinic in one week, not real people."


def _branch_visits(key: str) -> Made:
    table = branch_visits(VISITORS, key)
    return table, f"{len(table):,} simulated visits to a bank's branches, not of real people."


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """Yield a new file, which replaces the old one when the block ends without an error."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
