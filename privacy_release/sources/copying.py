"""Copying a source that may be larger than memory into the work area, checked on the way; see `records`.

Writing is done at the same time as reading and checking, by a thread of its own; it takes memory for two row
groups of the copy. A source of many files and records is copied in shares, see `shares`, where an engine says
by whom.
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
    """A table as it was copied.

    Attributes:
        path: of the copy, one file or the list of several.
        sha256: of the same.
        fingerprint: sha256 over name, size and sha256 of every file of the source.
        rows: records in the source.
        dropped: records left out because of nulls.
        unchecked: files whose pages have no checksums.
        schema: of the copy.
        text: in how many records what was found in text that is allowed or redacted, by column and kind.
        shifted: which dates were shifted, if any.
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
        source: the files.
        schema: what the columns must be; its identifiers are not copied.
        target: the copy: row groups of at most `ROWS` records, zstd, no metadata of the source. Of a source
            that workers copy, the list beside it, see `work.file_sets`.
        columns: to read; None: all, and each must be in the schema.
        nulls: `fail` on a null in a quasi-identifier or sensitive attribute that is not nullable, `drop` its
            record, or `keep` it: a null is a value of its own then, as if each attribute were nullable.
        individual: the one identifier that is copied, too.
        people: is told the identifiers of the records that are kept, of one column, which is not copied.
        naming: which release identifiers get pseudonyms for, and dates are shifted for, where the schema
            asks for it.
        max_expansion: most bytes of records for each byte of their file, see `footers.Expansion`.
        disguise: numbers persons; None: as nowhere else. Tables that share persons share one.
        workers: who copies a source of many files and records; None: this process.
        sha256: what that of the only file must be, or of several files the fingerprint; None: anything.
        types: Common types of columns whose types differ between files, see `reading.Footers`; None: all are
            alike.

    Raises:
        SchemaError: if a file is no whole Parquet file, its records unfold too far, or they do not fit the
            schema, by file, records, column, rule and count; or what is released of them looks like direct
            identifiers. No copy is left then.
        SecretError: if a key of pseudonyms or shifted dates is missing or too short.
        SpecError: if these are asked for and not for which release, or a pseudonym of the individual.
        IntegrityError: if the files change while they are read, or are not those of `sha256`. No copy is left
            then.
        CapacityError: if the disk or the memory is too small. No copy is left then, either.
    """
    schema = schema.keeping_nulls() if nulls == "keep" else schema
    pseudonyms = Pseudonyms(schema, naming)
    if individual in pseudonyms.columns:
        raise SpecError(f"answers go by the identifier {individual} itself; remove its pseudonym")
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
    """One file of all records, written by this process."""
    read = Reading(wanted, target.parent)
    with closing(read.repeats), private_parquet(target) as copy:
        with ahead(regrouped(read.parts())) as parts:
            for part in parts:
                copy.write(part)
        read.require_fit()
    return Copy(path=target, sha256=copy.sha256), read
