"""Copy a source that may be larger than memory into the work area, and check it on the way; see `records`.

Writing happens in a separate thread, at the same time as reading and checking. It takes memory for two row
groups of the copy. A source of many files and records is copied in shares, see `shares`, by the processes of
an engine.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.engines.parquet import regrouped
from privacy_engine.errors import SpecError
from privacy_engine.pipeline import ahead
from privacy_release.sources.addresses import Source
from privacy_release.sources.identifiers import Disguise
from privacy_release.sources.person_dates import Shifts
from privacy_release.sources.pseudonyms import Naming, Pseudonyms
from privacy_release.sources.reading import Nulls, kept_schema
from privacy_release.sources.records import People, Reading, Wanted
from privacy_release.sources.shares import Copy, Workers, copied_in_shares, shares_of
from privacy_release.workarea.parquet import MAX_EXPANSION, private_parquet
from privacy_release.workarea.references import ShiftRef

if TYPE_CHECKING:
    import pyarrow as pa

    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Copied:
    """The result of copying a table.

    Attributes:
        path: Path of the copy, one file or the list of several.
        sha256: SHA-256 of the file or the list.
        fingerprint: SHA-256 over name, size and SHA-256 of every file of the source.
        rows: Number of records in the source.
        dropped: Number of records omitted because of nulls.
        unchecked: Number of files whose pages have no checksums.
        schema: Schema of the copy.
        text: Number of records with allowed or redacted findings in text, by column and kind.
        shifted: Shift of dates. None if no dates were shifted.
    """

    path: Path
    sha256: str
    fingerprint: str
    rows: int
    dropped: int
    unchecked: int
    schema: "DataSchema"
    text: dict[str, dict[str, int]]
    shifted: ShiftRef | None = None


def copy_source(
    source: Source,
    schema: "DataSchema",
    target: Path,
    columns: Sequence[str] | None = None,
    nulls: Nulls = "fail",
    *,
    individual: str | None = None,
    people: People | None = None,
    naming: Naming | None = None,
    max_expansion: int = MAX_EXPANSION,
    disguise: Disguise | None = None,
    workers: Workers | None = None,
    sha256: str | None = None,
    types: "Mapping[str, pa.DataType] | None" = None,
) -> Copied:
    """Copy the records of all files, in the order of the file names, into private Parquet.

    Args:
        source: Files to copy.
        schema: Schema that the columns must match. Its identifiers are not copied.
        target: Path of the copy: row groups of at most `ROWS` records, zstd, no metadata of the source. If
            workers copy the source, it is the list next to this path, see `work.file_sets`.
        columns: Columns to read. None: all, and each must be in the schema.
        nulls: `fail` raises on a null in a quasi-identifier or sensitive attribute that is not nullable,
            `drop` drops its record, `keep` treats null as a value, as if each attribute were nullable.
        individual: Identifier that is copied, too. None: no identifier is copied.
        people: Collector of the identifiers of the kept records, from one column, which is not copied.
        naming: Series and release that pseudonyms and date shifts are made for, if the schema requires them.
        max_expansion: Largest ratio of bytes in memory to bytes in a file, see `footers.Expansion`.
        disguise: Numbering of persons. Tables that share persons share one. None: a new one.
        workers: Workers that copy a source of many files and records. None: this process.
        sha256: Required SHA-256 of the only file, or fingerprint of several files. None: any.
        types: Common types of columns whose types differ between files, see `reading.Footers`. None: all are
            alike.

    Raises:
        SchemaError: If a file is no complete Parquet file, its records expand too far, or they do not fit the
            schema, with file, records, column, rule and count; or if released columns look like direct
            identifiers. No copy remains.
        SecretError: If a key of pseudonyms or shifted dates is missing or too short.
        SpecError: If pseudonyms or shifts are required without `naming`, or for the individual.
        IntegrityError: If the files change while they are read, or do not match `sha256`. No copy remains.
        CapacityError: If the disk or the memory is too small. No copy remains.
    """
    schema = schema.keeping_nulls() if nulls == "keep" else schema
    pseudonyms = Pseudonyms(schema, naming)
    if individual in pseudonyms.columns:
        raise SpecError(f"answers are memoised by the identifier {individual} itself; remove its pseudonym")
    wanted = Wanted(
        source=source,
        schema=schema,
        columns=columns,
        nulls=nulls,
        individual=individual,
        people=people,
        max_expansion=max_expansion,
        pseudonyms=pseudonyms,
        shifts=Shifts(schema, naming),
        disguise=disguise or Disguise(exact=schema.exact_persons),
        sha256=sha256,
        types=types or {},
    )
    if workers is not None and (shares := shares_of(wanted, workers)):
        copy, read = copied_in_shares(wanted, shares, target, workers)
    else:
        copy, read = _copied_here(wanted, target)
    return Copied(
        path=copy.path,
        sha256=copy.sha256,
        fingerprint=read.fingerprint,
        rows=read.rows,
        dropped=read.dropped,
        unchecked=read.unchecked,
        schema=kept_schema(pseudonyms.released(schema), individual).ingested().coded(),
        text=read.scan.found(),
        shifted=wanted.shifts.reference(),
    )


def _copied_here(wanted: Wanted, target: Path) -> tuple[Copy, Reading]:
    """Write one file of all records in this process."""
    read = Reading(wanted, target.parent)
    with closing(read.repeats), private_parquet(target) as copy:
        with ahead(regrouped(read.parts())) as parts:
            for part in parts:
                copy.write(part)
        read.require_fit()
    return Copy(path=target, sha256=copy.sha256), read
