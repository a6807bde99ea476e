"""Copy a source that may be larger than memory into the work area, and check it on the way; see `records`.

Writing happens in a separate thread, at the same time as reading and checking. It takes memory for two row
groups of the copy. A source of many files and records is copied in shares, see `shares`, by the processes of
an engine.
"""

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.engines.parquet import regrouped
from privacy_engine.errors import SpecError
from privacy_engine.pipeline import ahead
from privacy_release.sources.addresses import Source
from privacy_release.sources.identifiers import Disguise
from privacy_release.sources.person_dates import Shifts
from privacy_release.sources.pseudonyms import Pseudonyms
from privacy_release.sources.reading import kept_schema
from privacy_release.sources.records import CopyRules, CopyTask, SourceReading
from privacy_release.sources.shares import Copy, Workers, copied_in_shares, shares_of
from privacy_release.workarea.parquet import private_parquet
from privacy_release.workarea.references import ShiftRef

if TYPE_CHECKING:
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
    rules: CopyRules | None = None,
    *,
    workers: Workers | None = None,
) -> Copied:
    """Copy the records of all files, in the order of the file names, into private Parquet.

    Args:
        source: Files to copy.
        schema: Schema that the columns must match. Its identifiers are not copied.
        target: Path of the copy: row groups of at most `ROWS` records, zstd, no metadata of the source. If
            workers copy the source, it is the list next to this path, see `work.file_sets`.
        rules: Rules for copying. None: all columns are copied, and nulls are refused.
        workers: Workers that copy a source of many files and records. None: this process.

    Raises:
        SchemaError: If a file is no complete Parquet file, its records expand too far, or they do not fit the
            schema, with file, records, column, rule and count; or if released columns look like direct
            identifiers. No copy remains.
        SecretError: If a key of pseudonyms or shifted dates is missing or too short.
        SpecError: If pseudonyms or shifts are required without `naming`, or for the individual.
        IntegrityError: If the files change while they are read, or do not match `sha256`. No copy remains.
        CapacityError: If the disk or the memory is too small. No copy remains.
    """
    rules = rules or CopyRules()
    schema = schema.keeping_nulls() if rules.nulls == "keep" else schema
    pseudonyms = Pseudonyms(schema, rules.naming)
    if rules.individual in pseudonyms.columns:
        raise SpecError(
            f"answers are memoised by the identifier {rules.individual} itself; remove its pseudonym"
        )
    task = CopyTask(
        source=source,
        schema=schema,
        rules=replace(rules, naming=None, disguise=None),  # which other processes may not have
        pseudonyms=pseudonyms,
        shifts=Shifts(schema, rules.naming),
        disguise=rules.disguise or Disguise(exact=schema.exact_persons),
    )
    if workers is not None and (shares := shares_of(task, workers)):
        copy, read = copied_in_shares(task, shares, target, workers)
    else:
        copy, read = _copied_here(task, target)
    return Copied(
        path=copy.path,
        sha256=copy.sha256,
        fingerprint=read.fingerprint,
        rows=read.rows,
        dropped=read.dropped,
        unchecked=read.unchecked,
        schema=kept_schema(pseudonyms.released(schema), rules.individual).ingested().coded(),
        text=read.scan.found(),
        shifted=task.shifts.reference(),
    )


def _copied_here(task: CopyTask, target: Path) -> tuple[Copy, SourceReading]:
    """Write one file of all records in this process."""
    read = SourceReading(task, target.parent)
    with closing(read.repeats), private_parquet(target) as copy:
        with ahead(regrouped(read.parts())) as parts:
            for part in parts:
                copy.write(part)
        read.require_fit()
    return Copy(path=target, sha256=copy.sha256), read
