"""A whole release of a large table, part by part: ``python -m benchmarks.scale.scale_release FOLDER ROWS``.

The same call as ``privacy-release run``: ingest of a source of many files, Mondrian with k = 10 and l = 3 in
fragments, a join that counts, verification of the staged bytes, one commit to a lake. Each size should have a
separate process, as `scale_model` sees to, since what a process ever held counts.
"""

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.scale.cases import K, L
from benchmarks.scale.scale_cases import opened
from benchmarks.scale.scale_steps import running
from benchmarks.scale.scale_tables import FIELDS, GROUP, parts, schema
from benchmarks.tables import SENSITIVE, Table, adult
from privacy_engine.registry import load_method
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea

NAME = "scale"
REDRAWN = 0.35  # chance that a value is drawn again: of 100 million records more than 60 % are distinct
A_FILE = 1_000_000  # records of a file of the source
FRAGMENT = 500_000  # records at most
MEMORY = "1GB"  # that counting may take
MEASURING = 3 * 10**9  # bytes that measuring may: all of 100 million records may be distinct
PAUSE = 0.1  # seconds between two looks
INGEST, WORK, JOIN, VERIFY, PUBLISH = "ingest", "cut and work", "join and count", "verify", "publish"
MEASURE = "measuring, LatentClass"
HIERARCHIES = Path(__file__).parents[2] / "include" / "hierarchies" / "adult"
PARTS = (INGEST, WORK, JOIN, VERIFY, PUBLISH)


@dataclass
class Part:
    """What a part of a release took.

    Attributes:
        wall: seconds.
        alone: CPU seconds that were spent while at most one thread could run.
        together: CPU seconds that were spent while two or more could.
        moved: bytes that were read and written.
    """

    wall: float = 0.0
    alone: float = 0.0
    together: float = 0.0
    moved: float = 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds in all."""
        return self.alone + self.together


@dataclass(kw_only=True)
class Spent:
    """What a release took.

    Attributes:
        parts: by name.
        peak: bytes of memory that all of its processes held together, pages that they share counted once.
        read: bytes of the source.
        written: bytes of the published files.
    """

    rows: int
    classes: int
    peak: int
    read: int
    written: int
    parts: dict[str, Part] = field(default_factory=dict)


class Looks:
    """Looks at this process and those below it from time to time, and adds up what they took by part.

    A process that is gone was waited for, and counts to its last look: `PAUSE` is short beside what it does.
    """

    def __init__(self, first: str) -> None:
        self.parts = {first: Part()}
        self.peak = 0
        self._part, self._began = first, time.perf_counter()
        self._seconds: dict[tuple[int, float], float] = {}
        self._moved = 0.0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._spent()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.enter(self._part)

    def enter(self, part: str) -> None:
        """Another part begins."""
        now = time.perf_counter()
        with self._lock:
            self.parts[self._part].wall += now - self._began
            self._part, self._began = part, now
            self.parts.setdefault(part, Part())

    def _watch(self) -> None:
        me = threading.get_native_id()
        while not self._over.wait(PAUSE):
            own = psutil.Process()
            could = held = 0
            for process in [own, *own.children(recursive=True)]:
                could += running(process.pid, me)
                held += proportional(process.pid)
            spent, moved = self._spent()
            with self._lock:
                part = self.parts[self._part]
                part.together += spent * (could > 1)
                part.alone += spent * (could <= 1)
                part.moved += moved
            self.peak = max(self.peak, held)

    def _spent(self) -> tuple[float, float]:
        """CPU seconds since the last look, and bytes that were read and written.

        What a process moved counts as its parent's once it has ended.
        """
        seconds, moved, own = 0.0, 0.0, psutil.Process()
        for process in [own, *own.children(recursive=True)]:
            with suppress(psutil.Error):
                key, times = (process.pid, process.create_time()), process.cpu_times()
                passed = process.io_counters()
                now = times.user + times.system
                seconds += now - self._seconds.get(key, 0.0)
                self._seconds[key] = now
                moved += passed.read_chars + passed.write_chars
        before, self._moved = self._moved, max(moved, self._moved)
        return seconds, self._moved - before


def proportional(process: int) -> int:
    """Bytes of memory of a process, a page that others hold, too, in parts; 0 for one that has ended."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line[:4] == "Pss:"), 0)


def write_source(table: Table, rows: int, folder: Path) -> int:
    """Files of a source, `A_FILE` records each, unless they are there; their bytes."""
    if not folder.is_dir():
        part = folder.with_suffix(".part")
        part.mkdir()
        for number, made in enumerate(_files(table, rows)):
            with pq.ParquetWriter(
                part / f"{number:04d}.parquet", made[0].schema, compression="zstd", store_schema=False
            ) as writer:
                for records in made:
                    writer.write_table(records, row_group_size=GROUP)
        part.rename(folder)
    return sum(file.stat().st_size for file in folder.iterdir())


def _files(table: Table, rows: int) -> Iterator[list[pa.Table]]:
    made: list[pa.Table] = []
    count = 0
    for records in parts(table, rows, seed=1, redrawn=REDRAWN):
        made.append(records)
        count += len(records)
        if count >= A_FILE:
            yield made
            made, count = [], 0
    if made:
        yield made


def specification(folder: Path, source: Path) -> Path:
    """The release's file."""
    path = folder / "releases" / f"{NAME}.yaml"
    path.parent.mkdir(exist_ok=True)
    shutil.copytree(HIERARCHIES, folder / "hierarchies" / "adult", dirs_exist_ok=True)
    policy = folder / "policy.yaml"
    fields = {
        "name": NAME,
        "source": {"uri": str(source), "columns": list(FIELDS), "nulls": "drop"},
        "engine": {"kind": "fragments", "rows": FRAGMENT, "memory": MEMORY},
        "schema": {name: {"kind": "categorical", **given} for name, given in FIELDS.items()},
        "release": {"method": "mondrian", "k": K, "l": L, "seed": 1},
        "policy": policy.name,
        "publish": {"lake": "lake_default", "table": NAME},
    }
    required = [
        {"model": "k_anonymity", "k": K},
        {"model": "distinct_l_diversity", "l": L, "attribute": SENSITIVE},
    ]
    policy.write_text(yaml.safe_dump({"require": required}))
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    return path


def part_of(step: str, text: str) -> str | None:
    """Which part begins with what a run says; None: none does."""
    match step, text:
        case "release", "cutting the table":
            return WORK
        case "release", "joining":
            return JOIN
        case "verify", "measuring the staged bytes":
            return VERIFY
        case "publish", "committing":
            return PUBLISH
    return None


def release(table: Table, rows: int, folder: Path, tell: Callable[[str], None] = print) -> Spent:
    """Release a table of a number of rows in a folder, which keeps the source alone."""
    source = folder / f"source-{rows}"
    read = write_source(table, rows, source)
    spec = load_spec(specification(folder, source))
    lake, work = Lake(root=str(folder / f"lake-{rows}")), WorkArea(folder, f"work-{rows}")

    def watch(step: str, text: str) -> None:
        if (part := part_of(step, text)) is not None:
            tell(f"[scale_release] {rows:,} rows: {part}")
            looks.enter(part)

    with work, Looks(INGEST) as looks:
        outcome = run_release(spec, lake, f"{NAME}-{rows}", work, watch)
    work.remove()
    written = sum(f.stat().st_size for f in Path(lake.table(NAME)).rglob("*.parquet"))
    return Spent(
        rows=outcome.staged.rows,
        classes=outcome.report.classes,
        peak=looks.peak,
        read=read,
        written=written,
        parts=looks.parts,
    )


def measure(table: Table, rows: int, folder: Path, tell: Callable[[str], None] = print) -> Spent:
    """Measure a table of a number of rows for a synthesizer, through the engine; nothing is made of it."""
    source = folder / f"source-{rows}"
    read = write_source(table, rows, source)
    method = load_method("latent_class", epsilon=1.0)
    assert isinstance(method, Synthesizer)
    files = sorted(map(str, source.iterdir()))
    with opened("local", folder, MEASURING) as engine, Looks(MEASURE) as looks:
        tell(f"[scale_release] {rows:,} rows: {MEASURE}")
        method.measure_files(engine, files, schema())
    return Spent(rows=rows, classes=0, peak=looks.peak, read=read, written=0, parts=looks.parts)


def main() -> None:
    """End with a line of JSON."""
    folder, rows = Path(sys.argv[1]), int(sys.argv[2])
    work = measure if sys.argv[3:] == ["measure"] else release
    spent = work(adult(), rows, folder, _tell)
    print(json.dumps(asdict(spent)))


def _tell(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
