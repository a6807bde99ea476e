"""Assignments and work that tests send to Spark's workers, which import them from here."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privacy_engine.engines.engine import Work
from privacy_engine.errors import InfeasibleError
from privacy_engine.tables.classes import CountedClasses
from tests.waiting import wait_for

CANARY = "CANARY-7f3a91"


def by_number(frame: pd.DataFrame) -> npt.NDArray[np.int32]:
    """Eight fragments, by the column `number`."""
    return (frame["number"] % 8).to_numpy(dtype=np.int32)


def uneven(frame: pd.DataFrame) -> npt.NDArray[np.int32]:
    """Fragments 0, 1, 2 and 5: the others have no record."""
    return np.array([0, 1, 2, 5, 5, 5], dtype=np.int32)[(frame["number"] % 6).to_numpy(dtype=np.int64)]


def shown(parts: Iterable[CountedClasses]) -> dict[str, Any]:
    """A fold that tells every class by its size, its persons and its counts, as text."""
    found: list[str] = []
    for part in parts:
        counts = {name: part.counts(name) for name in sorted(part.sensitive)}
        for i, size in enumerate(part.sizes):
            entries = [
                (
                    [
                        (int(v), float(c))
                        for of, v, c in zip(e.classes, e.values, e.counts, strict=True)
                        if of == i
                    ],
                    int(e.distinct[i]),
                )
                for e in counts.values()
            ]
            found.append(repr((int(size), int(part.people[i]), entries)))
    return {"classes": found}


def totals(parts: Iterable[CountedClasses]) -> dict[str, Any]:
    """A fold of three numbers: records, classes, and records by their salary."""
    reported = [(part.records, len(part), int(part.counts("salary").counts.sum())) for part in parts]
    return {"totals": [sum(numbers) for numbers in zip((0, 0, 0), *reported, strict=True)]}


CODED = pa.schema({"0": pa.uint8(), "a value": pa.string()})


def remainders(records: pa.Table) -> pa.Table:
    """The remainder by 3, and the city, of each record."""
    return pa.table([records["number"].to_numpy() % 3, records["city"]], schema=CODED)


def failing(frame: pd.DataFrame) -> npt.NDArray[np.int32]:
    raise KeyError(f"{CANARY} {frame['number'].iloc[0]}")


def listed(fragment: int, table: pa.Table) -> Mapping[str, Any]:
    """What the table holds, and how it is typed."""
    return {
        "fragment": fragment,
        "numbers": table["number"].to_pylist(),
        "types": [str(field.type) for field in table.schema],
        "names": table.column_names,
        "text": str(table.to_pydict()),
    }


def infeasible(fragment: int, table: pa.Table) -> Mapping[str, Any]:
    if fragment >= 3:
        raise InfeasibleError(
            f"{table.num_rows} rows of fragment {fragment} cannot be 500-anonymous; lower k"
        )
    return {}


def quoting(fragment: int, table: pa.Table) -> Mapping[str, Any]:
    """What a careless library does: it fails and quotes the records."""
    raise ValueError(f"{CANARY} cannot convert {table['city'].to_pylist()}")


@dataclass(frozen=True)
class Waiting:
    """Work that leaves a note when it starts and goes on only when the file `go` is in the folder."""

    folder: Path
    work: Work

    def __call__(self, fragment: int, table: pa.Table) -> Mapping[str, Any]:
        (self.folder / f"started-{fragment}-{os.getpid()}").touch()
        wait_for((self.folder / "go").exists, "the test to let the work go on")
        return {"process": os.getpid(), "result": dict(self.work(fragment, table))}

    def started(self) -> dict[int, list[int]]:
        """Fragment -> the processes that started it."""
        found: dict[int, list[int]] = {}
        for note in self.folder.glob("started-*"):
            _, fragment, process = note.name.split("-")
            found.setdefault(int(fragment), []).append(int(process))
        return found


def sizes(parts: Iterable[CountedClasses]) -> dict[str, Any]:
    """A fold of two numbers: how many classes there are, and the size of the smallest."""
    reported = [(len(part), int(part.sizes.min(initial=2**62))) for part in parts]
    return {
        "classes": sum(n for n, _ in reported),
        "smallest": min((least for _, least in reported), default=2**62),
    }
