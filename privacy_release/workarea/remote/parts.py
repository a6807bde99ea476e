"""Files of a run for the executors of a cluster, which read and write the encrypted work area themselves.

An executor gets the run's key and the rights to the store inside its task, which Spark encrypts on its way,
and nothing that opens the files of another run. What it decrypts stays in memory: whichever way it ends,
nothing is left on its machine.
"""

import hashlib
import io
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import WorkAreaError
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.parquet import ROWS, opened_parquet, part_bytes
from privacy_release.workarea.references import FileRef
from privacy_release.workarea.remote.store import RunFiles

if TYPE_CHECKING:
    import pyarrow as pa

    from privacy_engine.engines.spark_workers import Parts


@dataclass(frozen=True, kw_only=True)
class SealedFiles:
    """`fragment_files.PrivateFiles` in a folder of the run's encrypted files."""

    run: RunFiles
    folder: str

    def read(self, ref: FileRef) -> bytes:
        """See `PrivateFiles`."""
        return self.run.get_bytes(ref.uri.removeprefix(f"{self.run.address}/"), ref.sha256)

    def write(self, name: str, data: bytes) -> FileRef:
        """See `PrivateFiles`."""
        self.run.put_bytes(data, f"{self.folder}/{name}")
        uri = f"{self.run.address}/{self.folder}/{name}"
        return FileRef(uri=uri, sha256=hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, kw_only=True)
class SealedPart:
    """`spark_workers.Part`: some records of a table, in an encrypted file of their own."""

    run: RunFiles
    name: str
    sha256: str
    rows: int

    def __call__(self) -> "pa.Table":
        """The records.

        Raises:
            IntegrityError: if they are not those that were dealt out.
            WorkAreaError: if the store cannot be reached.
        """
        return opened_parquet(io.BytesIO(self.run.get_bytes(self.name, self.sha256))).read()


@contextmanager
def dealt_out(
    run: RunFiles, rows: int = ROWS, stored: Callable[[Path], str | None] = lambda path: None
) -> Iterator["Parts"]:
    """What cuts a file of this machine into encrypted parts of the run, which are removed at the end.

    A file of no more records than four parts that is among the run's files already is a part by itself.

    Args:
        run: whose parts they are.
        rows: of a part.
        stored: by what name a file of this machine is among the run's files; None if it is not.
    """
    from privacy_engine.engines.parquet import batches, footer, regrouped

    lent, folder = run.lent(), f"parts-{secrets.token_hex(8)}"
    dealt: dict[tuple[str, int, int], list[SealedPart]] = {}
    names: list[str] = []

    def parts(file: str) -> list[SealedPart]:
        found = Path(file).stat()  # a file is replaced, not written to
        key = (file, found.st_ino, found.st_mtime_ns)
        if key not in dealt:
            count, name = footer(file).num_rows, stored(Path(file))
            if name is not None and count <= 4 * rows:
                dealt[key] = [SealedPart(run=lent, name=name, sha256=sha256_file(Path(file)), rows=count)]
            else:
                dealt[key] = [part(table) for table in regrouped(batches([file]), rows)]
        return dealt[key]

    def part(table: "pa.Table") -> SealedPart:
        data, name = part_bytes(table), f"{folder}/{len(names):05d}.parquet"
        names.append(name)
        run.put_bytes(data, name)
        return SealedPart(run=lent, name=name, sha256=hashlib.sha256(data).hexdigest(), rows=len(table))

    try:
        yield parts
    finally:
        with suppress(WorkAreaError):  # the clean-up of the run removes them, too
            run.discard(names)
