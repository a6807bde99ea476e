"""Copying a source of many files and records in shares: by processes of this machine, or executors of Spark.

A share is some files of the source, one after the other, as few as give it half a million records; a larger
file is one by itself. Whoever copies a share does with it what one process does with all (see `records`), and
writes its records to files of the work area as it goes. What tells something of all files together comes
back: their hashes, how many records there were and did not fit, and what was seen of identifiers, of text and
of values that are nearly unique. The parts are as one process would have them, whoever copied which, and so
is the hash of their list.
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
from privacy_release.sources.records import TOLD, Reading, Wanted
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import engine_files, open_engine, reads_sources, require_sealed
from privacy_release.workarea.file_sets import Part, list_bytes, list_of, new_folder, part_name
from privacy_release.workarea.fragment_files import PrivateFiles
from privacy_release.workarea.parquet import part_bytes, write_private
from privacy_release.workarea.references import EngineRef, FileRef

SHARE = 500_000  # records
IN_MEMORY = 500_000_000  # bytes of a file, which executors of a cluster hold in memory
MANY = 10_000_000  # records, from which on it pays to start other processes


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Who copies a source of many files and records.

    Attributes:
        engine: whose processes, or executors, they are.
        rows: of each file of the source, as its footer says.
        work: where the copy is kept.
        many: fewer records are copied by one process.
        share: records of a share, at least but for the last one; and of a file of the copy, at most.
    """

    engine: EngineRef
    rows: Sequence[int]
    work: WorkArea
    many: int = MANY
    share: int = SHARE


class Copy(NamedTuple):
    """A copy in the work area: its path, that of one file or of the list of several, and the sha256 of it."""

    path: Path
    sha256: str


class Share(NamedTuple):
    """Some files of a source, the number of the first part of the copy that they go into, and of the next."""

    files: slice
    begin: int
    end: int


def shares_of(wanted: Wanted, workers: Workers) -> list[Share]:
    """The shares that workers copy a source in; none where one process copies it.

    That is so of few records, of one file, where all files are read for the first day of each person or one
    place keeps apart who the records are about, and where the workers do not reach the source.
    """
    source, engine = wanted.source, workers.engine
    alone = wanted.people is not None or wanted.disguise.is_kept
    whole = alone or wanted.schema.counted_from_first
    if sum(workers.rows) < workers.many or len(workers.rows) < 2 or whole:
        return []
    if not reads_sources(engine, here=source.is_local) or not _can_be_sent(wanted):
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


def _can_be_sent(wanted: Wanted) -> bool:
    """Whether another process can be told: the file systems of some of Airflow's providers cannot."""
    if wanted.source.is_of_process:
        return False
    try:
        pickle.dumps(wanted)
    except Exception:  # noqa: BLE001  each library has errors of its own for what cannot be pickled
        return False
    return True


def copied_in_shares(
    wanted: Wanted, shares: Sequence[Share], target: Path, workers: Workers
) -> tuple[Copy, Reading]:
    """A set of files with all records, written by workers; arguments and errors as of `copying.copy_source`.

    Once the first three parts that do not fit are known, no more shares are begun. Of several files that
    cannot be read at all, the one is told of whose error came first.
    """
    path, whole = list_of(target), Reading(wanted, target.parent)
    folder, told_in = new_folder(path), target.with_suffix(".told")
    told_in.mkdir(mode=0o700, exist_ok=True)
    copy = _CopyShare(
        wanted=wanted,
        shares=tuple(shares),
        most=workers.share,
        folder=None if require_sealed(workers.engine) else target.parent,
        files=engine_files(workers.engine, folder),
        seen=engine_files(workers.engine, told_in),
    )
    told: dict[int, Mapping[str, Any]] = {}
    parts: list[Part] = []
    try:
        with (
            open_engine(workers.engine, target.parent) as engine,
            closing(engine.each(len(shares), copy, "share")) as outcomes,
        ):
            for outcome in outcomes:
                told[outcome["share"]] = outcome
                for rows, written in outcome["parts"]:
                    ref = FileRef.from_ref(workers.work.fetch(written))
                    parts.append(Part(name=Path(ref.uri).name, rows=rows, sha256=ref.sha256))
                advance(len(told) / len(shares))
                if _is_enough(told):
                    break
        for number in sorted(told):
            _absorb(whole, shares[number], told[number], copy.seen)
        whole.require_fit()
        sha256 = write_private(path, list_bytes(parts))
    except BaseException:
        shutil.rmtree(folder)
        raise
    finally:
        whole.repeats.close()
        shutil.rmtree(told_in)
    return Copy(path=path, sha256=sha256), whole


def _is_enough(told: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether the first parts that do not fit are known, whichever share came first."""
    known = takewhile(told.__contains__, count())
    return any(total >= TOLD for total in accumulate(len(told[number]["problems"]) for number in known))


@dataclass(frozen=True, kw_only=True)
class _CopyShare:
    """Copies a share of a source; it can be pickled, and does the same when done again.

    Attributes:
        most: records of a part.
        folder: for copies of files, one at a time; None: they are held in memory.
        files: where the parts of the copy go.
        seen: and what is told of all files together.
    """

    wanted: Wanted
    shares: Sequence[Share]
    most: int
    folder: Path | None
    files: PrivateFiles
    seen: PrivateFiles

    def __call__(self, number: int) -> dict[str, Any]:
        read = Reading(self.wanted, self.folder, self.shares[number].files)
        with closing(read.repeats):
            return self._copied(number, read)

    def _copied(self, number: int, read: Reading) -> dict[str, Any]:
        share, parts = self.shares[number], []
        with ahead(regrouped(read.parts(), self.most)) as tables:
            for part, table in enumerate(tables, start=share.begin):
                if part == share.end:
                    raise IntegrityError(
                        "the files of the source must stay as they are while they are read, and one has more "
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


def _absorb(whole: Reading, share: Share, outcome: Mapping[str, Any], seen: PrivateFiles) -> None:
    """Add a share to what is known of all before it."""
    whole.read += outcome["read"]
    whole.rows += outcome["rows"]
    whole.dropped += outcome["dropped"]
    whole.unchecked += outcome["unchecked"]
    whole.problems += outcome["problems"]
    # The file is as the worker wrote it, whose word for its hash is as good as its word for the rest.
    first, scan, unique = pickle.loads(seen.read(FileRef.from_ref(outcome["seen"])))
    whole.require_alike(first, whole.wanted.source.names[share.files][0])
    whole.scan.absorb(scan)
    whole.unique.absorb(unique)
    for name, ref in outcome["repeats"]:
        whole.repeats.absorb(name, np.frombuffer(seen.read(FileRef.from_ref(ref)), np.uint64))
