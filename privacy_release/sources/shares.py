"""Copy a source of many files and records in shares, by processes of this machine or executors of Spark.

A share is a sequence of source files, as few as have half a million records; a larger file is one share. A
worker does with a share what one process does with a whole source (see `records`), and writes its records to
files of the work area on the way. Facts that concern all files together are returned: their hashes, the
numbers of records that were read and did not fit, and findings about identifiers, text and nearly unique
values. The parts, and so the hash of their list, are the same as from a single process.
"""

import pickle
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, count, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privacy_engine.engines.parquet import regrouped
from privacy_engine.errors import IntegrityError
from privacy_engine.pipeline import ahead
from privacy_engine.progress import advance
from privacy_release.sources.records import MOST_PROBLEMS, CopyTask, SourceReading
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import engine_files, open_engine, reads_sources, require_sealed
from privacy_release.workarea.file_sets import Part, list_bytes, list_of, new_folder, part_name
from privacy_release.workarea.fragment_files import PrivateFiles
from privacy_release.workarea.parquet import part_bytes, write_private
from privacy_release.workarea.references import EngineRef, FileRef

SHARE = 500_000  # records of a share
IN_MEMORY = 500_000_000  # largest size in bytes of a file that executors of a cluster hold in memory
MANY = 10_000_000  # number of records from which starting other processes pays off


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The workers that copy a source of many files and records.

    Attributes:
        engine: Engine whose processes or executors they are.
        rows: Number of records in each file of the source, from its footer.
        work: Work area of the copy.
        many: Number of records below which one process copies the source.
        share: Smallest number of records in a share, except for the last, and largest in a file of the copy.
    """

    engine: EngineRef
    rows: Sequence[int]
    work: WorkArea
    many: int = MANY
    share: int = SHARE


class Copy(NamedTuple):
    """A copy in the work area: the path of the file, or of the list of several, and its SHA-256."""

    path: Path
    sha256: str


class Share(NamedTuple):
    """Some files of a source, the number of the first part of the copy for them, and of the next share's."""

    files: slice
    begin: int
    end: int


def shares_of(task: CopyTask, workers: Workers) -> list[Share]:
    """Return the shares of a source for workers. Empty if one process copies it.

    One process copies few records, a single file, and a source that workers cannot reach. It also copies if
    all files are read for the first day of each person, or one place collects the persons of the records.
    """
    source, engine = task.source, workers.engine
    alone = task.rules.people is not None or task.disguise.is_kept
    whole = alone or task.schema.counted_from_first
    if sum(workers.rows) < workers.many or len(workers.rows) < 2 or whole:
        return []
    if not reads_sources(engine, here=source.is_local) or not _can_be_sent(task):
        return []
    if require_sealed(engine) and max(map(source.filesystem.size, source.files)) > IN_MEMORY:
        return []
    shares: list[Share] = []
    begin = part = rows = 0
    for end, of_file in enumerate(workers.rows, start=1):
        rows += of_file
        if rows >= workers.share or end == len(workers.rows):
            parts = max(1, -(-rows // workers.share))
            shares.append(Share(slice(begin, end), part, part + parts))
            begin, part, rows = end, part + parts, 0
    return shares


def _can_be_sent(task: CopyTask) -> bool:
    """Return whether `task` can be pickled. File systems of some Airflow providers cannot."""
    if task.source.is_of_process:
        return False
    try:
        pickle.dumps(task)
    except Exception:  # noqa: BLE001  each library has its own errors for what cannot be pickled
        return False
    return True


def copied_in_shares(
    task: CopyTask, shares: Sequence[Share], target: Path, workers: Workers
) -> tuple[Copy, SourceReading]:
    """Write a set of files with all records by workers. Arguments and errors are as of `copying.copy_source`.

    Once the first three parts that do not fit are known, no more shares are started. If several files cannot
    be read at all, the first error is raised.
    """
    path, whole = list_of(target), SourceReading(task, target.parent)
    folder, facts_in = new_folder(path), target.with_suffix(".facts")
    facts_in.mkdir(mode=0o700, exist_ok=True)
    copy = _CopyShare(
        task=task,
        shares=tuple(shares),
        most=workers.share,
        folder=None if require_sealed(workers.engine) else target.parent,
        files=engine_files(workers.engine, folder),
        seen=engine_files(workers.engine, facts_in),
    )
    results: dict[int, Mapping[str, Any]] = {}
    parts: list[Part] = []
    try:
        with (
            open_engine(workers.engine, target.parent) as engine,
            closing(engine.each(len(shares), copy, "share")) as outcomes,
        ):
            for outcome in outcomes:
                results[outcome["share"]] = outcome
                for rows, written in outcome["parts"]:
                    ref = FileRef.from_ref(workers.work.fetch(written))
                    parts.append(Part(name=Path(ref.uri).name, rows=rows, sha256=ref.sha256))
                advance(len(results) / len(shares))
                if _is_enough(results):
                    break
        for number in sorted(results):
            _absorb(whole, shares[number], results[number], copy.seen)
        whole.require_fit()
        sha256 = write_private(path, list_bytes(parts))
    except BaseException:
        shutil.rmtree(folder)
        raise
    finally:
        whole.repeats.close()
        shutil.rmtree(facts_in)
    return Copy(path=path, sha256=sha256), whole


def _is_enough(results: Mapping[int, Mapping[str, Any]]) -> bool:
    """Return whether the first parts that do not fit are known, whichever share was finished first."""
    known = takewhile(results.__contains__, count())
    return any(total >= MOST_PROBLEMS for total in accumulate(len(results[i]["problems"]) for i in known))


@dataclass(frozen=True, kw_only=True)
class _CopyShare:
    """Copies a share of a source. It can be pickled, and repeating it gives the same files.

    Attributes:
        most: Largest number of records in a part.
        folder: Folder for copies of files, one at a time. None: they are held in memory.
        files: Destination of the parts of the copy.
        seen: Destination of facts that concern all files together.
    """

    task: CopyTask
    shares: Sequence[Share]
    most: int
    folder: Path | None
    files: PrivateFiles
    seen: PrivateFiles

    def __call__(self, number: int) -> dict[str, Any]:
        read = SourceReading(self.task, self.folder, self.shares[number].files)
        with closing(read.repeats):
            return self._copied(number, read)

    def _copied(self, number: int, read: SourceReading) -> dict[str, Any]:
        share, parts = self.shares[number], []
        with ahead(regrouped(read.parts(), self.most)) as tables:
            for part, table in enumerate(tables, start=share.begin):
                if part == share.end:
                    raise IntegrityError(
                        "the files of the source must not change while they are read, but one has more "
                        "records than its footer said: run the release again"
                    )
                parts.append((len(table), self.files.write(part_name(part), part_bytes(table)).to_ref()))
        known = pickle.dumps((read.first, read.scan, read.unique))
        return {
            "share": number,
            "parts": parts,
            "read": read.read,
            "rows": read.rows,
            "dropped": read.dropped,
            "unchecked": read.unchecked,
            "problems": read.problems,
            "seen": self.seen.write(f"{number:05d}.seen", known).to_ref(),
            "repeats": [
                (name, self.seen.write(f"{number:05d}.{run:05d}.hashes", hashes.tobytes()).to_ref())
                for run, (name, hashes) in enumerate(read.repeats.runs())
            ],
        }


def _absorb(whole: SourceReading, share: Share, outcome: Mapping[str, Any], seen: PrivateFiles) -> None:
    """Add the result of a share to those of all shares before it."""
    whole.read += outcome["read"]
    whole.rows += outcome["rows"]
    whole.dropped += outcome["dropped"]
    whole.unchecked += outcome["unchecked"]
    whole.problems += outcome["problems"]
    # The file is trusted like the rest of the worker's result: the worker computed its hash itself.
    first, scan, unique = pickle.loads(seen.read(FileRef.from_ref(outcome["seen"])))
    whole.require_alike(first, whole.task.source.names[share.files][0])
    whole.scan.absorb(scan)
    whole.unique.absorb(unique)
    for name, ref in outcome["repeats"]:
        whole.repeats.absorb(name, np.frombuffer(seen.read(FileRef.from_ref(ref)), np.uint64))
