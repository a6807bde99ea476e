"""Values that are planted in a table, and a search for them in all that is left behind.

A planted value is unlike any other, so that a file with it holds a cell of the table.
"""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

MARK = "canary"
NUMBER = 61.735142
CANARIES = (MARK.encode(), str(NUMBER).encode())


def planted(people: pd.DataFrame) -> pd.DataFrame:
    """A unique identifier for each record, and one number like no other."""
    table = people.assign(name=[f"{MARK}-identifier-{i:04d}" for i in range(len(people))])
    table["age"] = table["age"].astype(float)
    table.loc[5, "age"] = NUMBER
    return table


def planted_everywhere(people: pd.DataFrame) -> pd.DataFrame:
    """A planted value in each column, too: unique in the insensitive one, rare in the others."""
    table = planted(people)
    table["remark"] = [f"{MARK}-insensitive-{i:04d}" for i in range(len(table))]
    table.loc[3, "town"] = f"{MARK}-town"
    table.loc[4, "disease"] = f"{MARK}-disease"
    return table


def files_below(*folders: Path) -> list[Path]:
    """Every file below the folders."""
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def holds(data: bytes, *words: bytes) -> bool:
    """Whether the bytes hold one of the words, in any case; compressed cells of Parquet count, too."""
    if any(word.lower() in data.lower() for word in words):
        return True
    if not data.startswith(b"PAR1"):
        return False
    try:
        cells = pq.read_table(pa.BufferReader(data))
    except (OSError, pa.ArrowException):  # half of a file
        return False
    return holds(cells.to_pandas().to_csv().encode(), *words)


def files_with(files: Iterable[Path], *words: bytes) -> list[Path]:
    """The files that hold one of the words, by default a planted value."""
    return [path for path in files if holds(path.read_bytes(), *(words or CANARIES))]
