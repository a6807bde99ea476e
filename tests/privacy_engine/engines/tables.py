"""Awkward tables in Parquet files, and what is done with their fragments in other processes."""

import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.errors import InfeasibleError


def written(
    table: pa.Table, folder: Path, *, files: int = 1, rows: int = 131_072, name: str = "part"
) -> list[str]:
    """The records in N files, with at most M in a row group."""
    paths = []
    step = max(1, -(-len(table) // files))
    for number in range(files):
        path = folder / f"{name}-{number}.parquet"
        pq.write_table(table.slice(number * step, step), path, row_group_size=rows)
        paths.append(str(path))
    return paths


def value_of(cell: Any) -> Any:
    """A cell as classes tell it apart: NaN is null, and -0.0 is 0.0."""
    return None if isinstance(cell, float) and cell != cell else cell


def combinations(table: pa.Table, columns: Iterable[str]) -> Counter[tuple[Any, ...]]:
    """How often each combination of values occurs, one record at a time."""
    names = list(columns)
    return Counter(tuple(value_of(row[name]) for name in names) for row in table.to_pylist())


def counted(table: pa.Table) -> dict[tuple[Any, ...], int]:
    """Combination -> count, of a table whose last column is the count; each stands once."""
    rows = [tuple(row.values()) for row in table.to_pylist()]
    found = {row[:-1]: row[-1] for row in rows}
    assert len(found) == len(rows)
    return found


@dataclass(frozen=True)
class Modulo:
    """Fragments by the remainder of a column of numbers, whose nulls are of fragment 0."""

    column: str
    fragments: int

    def __call__(self, frame: pd.DataFrame) -> npt.NDArray[np.int32]:
        numbers = frame[self.column].to_numpy(dtype=np.float64, na_value=0.0)
        return (np.nan_to_num(numbers) % self.fragments).astype(np.int32)


IN_MEMORY: list[str] = []  # of this process


def describe(fragment: int, records: pa.Table) -> Mapping[str, Any]:
    return {
        "fragment": fragment,
        "rows": len(records),
        "first": records.column("n")[0].as_py(),
        "pid": os.getpid(),
        "memory": [*IN_MEMORY],
    }


def threads(fragment: int, records: pa.Table) -> Mapping[str, Any]:
    import numba
    import threadpoolctl

    pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    return {"numba": numba.get_num_threads(), "pools": pools, "arrow": pa.cpu_count()}


def infeasible(fragment: int, records: pa.Table) -> Mapping[str, Any]:
    raise InfeasibleError(f"{len(records)} rows cannot be 9-anonymous")


def quoting(fragment: int, records: pa.Table) -> Mapping[str, Any]:
    raise KeyError("canary-5c1e")


@dataclass(frozen=True)
class KilledOnce:
    """Work whose process is killed the first time that it meets a fragment, as the kernel does it."""

    folder: Path
    fragment: int
    always: bool = False

    def __call__(self, fragment: int, records: pa.Table) -> Mapping[str, Any]:
        mark = self.folder / "killed"
        if fragment == self.fragment and (self.always or not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"fragment": fragment, "rows": len(records)}


@dataclass(frozen=True)
class Endless:
    """Work that says that it began, and never ends."""

    folder: Path

    def __call__(self, fragment: int, records: pa.Table) -> Mapping[str, Any]:
        if fragment == 0:
            return {"fragment": fragment}
        (self.folder / f"pid-{os.getpid()}").touch()
        signal.pause()
        return {}
