"""Files of a run for the executors of a cluster, which read and write the encrypted work area themselves.

An executor gets the run's key and the credentials of the store inside its task, which Spark encrypts in
transit, and nothing that opens other runs' files. Decrypted data stays in memory, so nothing remains on
the executor's machine, however it ends.
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
    """`spark_workers.Part`: some records of a table, in an encrypted file."""

    run: RunFiles
    name: str
    sha256: str
    rows: int

    def __call__(self) -> "pa.Table":
        """Return the records.

        Raises:
            IntegrityError: If they are not those that were distributed.
            WorkAreaError: If the store cannot be reached.
        """
        return opened_parquet(io.BytesIO(self.run.get_bytes(self.name, self.sha256))).read()


@contextmanager
def dealt_out(
    run: RunFiles, rows: int = ROWS, stored: Callable[[Path], str | None] = lambda path: None
) -> Iterator["Parts"]:
    """Return a function that cuts a local file into encrypted parts of the run, removed at the end.

    A file with at most four times the records of a part that is already among the run's files is one part.

    Args:
        run: Files of the run.
        rows: Number of records in a part.
        stored: Function that returns a local file's name among the run's files, None if it has none.
    """
    from privacy_engine.engines.parquet import batches, footer, regrouped

    lent, folder = run.lent(), f"parts-{secrets.token_hex(8)}"
    dealt: dict[tuple[str, int, int], list[SealedPart]] = {}
    names: list[str] = []

    def parts(file: str) -> list[SealedPart]:
        found = Path(file).stat()  # files are replaced, never written to
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
        with suppress(WorkAreaError):  # the clean-up of the run also removes them
            run.discard(names)
