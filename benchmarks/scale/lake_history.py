"""What a publication and a look at a table cost, when the table has few releases and when it has many.

``python -m benchmarks.scale.lake_history RELEASES`` builds such a table, measures, and prints a line of JSON.
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import answer_of
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from privacy_release.lake.publish import CommittedRelease, publish
from privacy_release.lake.read import manifest_of, newest_releases, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file

NAME = "people"
SIZES = (100, 5_000)
PAGE = 20  # releases, the newest, as a page shows them
TURNS = 7
BAR = 2.0
_EVERY = 100  # commits from one of Delta's checkpoints to the next
_FIRST = "release-000000"
_PHASE = 50  # both tables are this many commits past their last checkpoint: none is measured on one

PUBLISH, NEWEST, READ, PROOF, LIST = (
    "Publish a release",
    f"List the {PAGE} newest releases",
    "Read the newest release",
    "Read its manifest",
    "List all releases",
)
CONSTANT = (PUBLISH, NEWEST, READ, PROOF)
NOTE = """Releases of two rows in one table of a lake on the local disk; CPU seconds of the calling process,
medians of {turns} calls after a first one. The history is made of real commits: those of a first release
under other names, with a checkpoint where Delta writes one. A list of all releases grows with what it
returns, so it is compared with no bar; what else still grows is Delta's checkpoint, which every opening of a
table reads (one line for each release)."""


@dataclass(frozen=True, kw_only=True)
class LongTable:
    """A table with a history, and what can be published next."""

    lake: Lake
    staged: Path
    report: Path

    def publish(self, release_id: str, run_key: str | None = None) -> CommittedRelease:
        """Publish the staged rows as one more release."""
        return publish(
            self.lake.table(NAME),
            release_id,
            self.staged,
            MANIFEST,
            self.report,
            expected_sha256=sha256_file(self.staged),
            run_key=run_key,
        )


MANIFEST: Mapping[str, object] = {
    "method": "ilp_l_diversity",
    "parameters": {"k": 10, "l": 3},
    "guarantees": [{"model": "KAnonymity", "k": 10}, {"model": "DistinctLDiversity", "l": 3}],
    "measured": [
        {"rule": "KAnonymity(k=10)", "threshold": 10, "measured": 11, "passed": True},
        {"rule": "DistinctLDiversity(l=3)", "threshold": 3, "measured": 4, "passed": True},
    ],
    "loss": None,
}


def build(folder: Path, count: int) -> LongTable:
    """A table with N releases: the last one is published, the others are copies of the first one."""
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"age": ["[0, 9]", "[10, 19]"], "pay": [1, 2]}), folder / "staged.parquet")
    (folder / "report.html").write_text("<p>2 rows</p>")
    made = LongTable(
        lake=Lake(root=f"{folder}/lake"), staged=folder / "staged.parquet", report=folder / "report.html"
    )
    made.publish(_FIRST)
    repeat_first(folder / "lake" / NAME, count - 2)
    made.publish("release-last")
    return made


def repeat_first(table: Path, copies: int) -> None:
    """Let copies of a table's first release follow it, each in a separate commit and file."""
    from deltalake import DeltaTable

    log = table / "_delta_log"
    commit = (log / f"{1:020d}.json").read_text()
    (data,) = table.glob("release=*/*.parquet")
    for number in range(1, copies + 1):
        release = f"release-{number:06d}"
        place = table / f"release={release}"
        place.mkdir()
        shutil.copy(data, place)
        (log / f"{number + 1:020d}.json").write_text(commit.replace(_FIRST, release))
    last = (copies + 2) // _EVERY * _EVERY - 1
    if last > 0:
        DeltaTable(table, version=last).create_checkpoint()


def measure(count: int) -> dict[str, float]:
    """CPU seconds of each call on a table with a number of releases."""
    with tempfile.TemporaryDirectory() as folder:
        made = build(Path(folder) / "history", count)
        published = iter(range(TURNS + 1))
        calls: Mapping[str, Callable[[], object]] = {
            PUBLISH: lambda: made.publish(f"measured-{next(published)}"),
            NEWEST: lambda: list(islice(newest_releases(made.lake.table(NAME)), PAGE)),
            READ: lambda: read_release(made.lake.table(NAME), "release-last"),
            PROOF: lambda: manifest_of(made.lake.table(NAME), "release-last"),
            LIST: lambda: releases(made.lake.table(NAME)),
        }
        return {name: _cpu_seconds(call) for name, call in calls.items()}


def _cpu_seconds(call: Callable[[], object]) -> float:
    call()
    taken = []
    for _ in range(TURNS):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def run(table: Table, *, sizes: Sequence[int] = SIZES) -> Section:
    """Measure and describe; ``table`` is not used."""
    return describe({count: _measured_apart(count + _PHASE) for count in sizes})


def describe(found: Mapping[int, Mapping[str, float]]) -> Section:
    """The section of these figures, by number of releases."""
    few, many = min(found), max(found)
    rows = [
        (
            name,
            *(f"{found[count][name]:.3f}" for count in found),
            f"{found[many][name] / found[few][name]:.1f}",
        )
        for name in found[few]
    ]
    heads = ["CPU seconds", *(f"{count:,} releases" for count in found), "times as many"]
    verdicts = [
        verdict(
            f"{name.lower()}: at {many:,} releases at most {BAR:g} times what it takes at {few:,}",
            found[many][name] <= BAR * found[few][name],
            f"{found[many][name] / found[few][name]:.2f} times",
        )
        for name in CONSTANT
    ]
    blocks = [NOTE.format(turns=TURNS), markdown_table(heads, rows), "\n".join(verdicts)]
    return Section(title="Long histories of releases", blocks=blocks)


def _measured_apart(count: int) -> Mapping[str, float]:
    found: dict[str, float] = answer_of("scale.lake_history", str(count))
    return found


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
