"""Copying a source that may be larger than memory into the work area, checked on the way.

What is hashed is what is parsed, and identifiers stay in the source; a number stands for the person of a row,
where the schema says that several rows may be of one. Each file is first copied, in a stream, to a file of
the work area that has no name and goes with this process; then its records are read from that copy, some at a
time: columns are derived from true dates, all is held against the schema, dates are shifted and cut, and the
records are written on. These four (copying, reading, checking, writing) are done at the same time, each by a
thread and a step ahead of the next one, in the order of the file names: the copy, its fingerprint and every
error are those of one after the other. Memory: two row groups of the source, and two of the copy. Disk: three
files of the source, and the copy. Where days are counted since the first row of a person, all files are read
once before.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from privacy_engine.errors import IntegrityError, SchemaError, SpecError
from privacy_engine.pipeline import ahead
from privacy_engine.progress import advance
from privacy_release.sources.addresses import Source, reading, without_values
from privacy_release.sources.footers import opened_source, records_of, source_schema
from privacy_release.sources.identifiers import Disguise, Repeats
from privacy_release.sources.person_dates import FirstDays, Shifts
from privacy_release.sources.pseudonyms import Naming, Pseudonyms
from privacy_release.sources.reading import (
    Nulls,
    check_arrow,
    check_equal,
    kept_schema,
    never_null,
    partition_types,
    require_left,
    wanted_columns,
)
from privacy_release.sources.text_scan import TextScan
from privacy_release.sources.uniqueness import NearlyUnique
from privacy_release.work.parquet import MAX_EXPANSION, private_parquet
from privacy_release.work.references import ShiftRef

if TYPE_CHECKING:
    from hashlib import _Hash

    import pandas as pd
    import pyarrow as pa

    from privacy_engine.tables.schema import DataSchema

_TOLD = 3  # parts that do not fit the schema; then the copying stops
_BLOCK = 1 << 20  # bytes


class People(Protocol):
    """Whoever keeps apart who the records are about."""

    @property
    def column(self) -> str:
        """The identifier that tells it."""

    def add(self, identifiers: "pd.Series") -> None:
        """Take the identifiers of the next records."""


@dataclass(frozen=True, kw_only=True)
class Copied:
    """A table as it was copied.

    Attributes:
        sha256: of the copy.
        fingerprint: sha256 over name, size and sha256 of every file of the source.
        rows: records in the source.
        dropped: records left out because of nulls.
        schema: of the copy.
        text: in how many records what was found in text that is allowed or redacted, by column and kind.
        shifted: which dates were shifted, if any.
    """

    sha256: str
    fingerprint: str
    rows: int
    dropped: int
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
) -> Copied:
    """Copy the records of all files, in the order of the file names, into one private Parquet file.

    Args:
        source: the files.
        schema: what the columns must be; its identifiers are not copied.
        target: the copy: row groups of at most `ROWS` records, zstd, no metadata of the source.
        columns: to read; None: all, and each must be in the schema.
        nulls: `fail` on a null in a quasi-identifier or sensitive attribute that is not nullable, `drop` its
            record, or `keep` it: a null is a value of its own then, as if each attribute were nullable.
        individual: the one identifier that is copied, too.
        people: is told the identifiers of the records that are kept, of one column, which is not copied.
        naming: which release identifiers get pseudonyms for, and dates are shifted for, where the schema
            asks for it.
        max_expansion: most bytes of records for each byte of their file, see `footers.Expansion`.
        disguise: numbers persons; None: as nowhere else. Tables that share persons share one.

    Raises:
        SchemaError: if a file is no whole Parquet file, its records unfold too far, or they do not fit the
            schema, by file, records, column, rule and count; or what is released of them looks like direct
            identifiers. No copy is left then.
        SecretError: if a key of pseudonyms or shifted dates is missing or too short.
        SpecError: if these are asked for and not for which release, or a pseudonym of the individual.
        IntegrityError: if the files are read twice, and change. No copy is left then.
        CapacityError: if the disk or the memory is too small. No copy is left then, either.
    """
    from privacy_engine.engines.parquet import regrouped

    schema = schema.keeping_nulls() if nulls == "keep" else schema
    pseudonyms, shifts = Pseudonyms(schema, naming), Shifts(schema, naming)
    if individual in pseudonyms.columns:
        raise SpecError(f"answers go by the identifier {individual} itself; remove its pseudonym")
    read = _Reading(
        source=source,
        schema=schema,
        columns=columns,
        nulls=nulls,
        individual=individual,
        people=people,
        max_expansion=max_expansion,
        pseudonyms=pseudonyms,
        shifts=shifts,
        folder=target.parent,
        disguise=disguise or Disguise(),
    )
    with private_parquet(target) as copy:
        with ahead(regrouped(read.parts())) as parts:
            for part in parts:
                copy.write(part)
        read.require_fit()
    return Copied(
        sha256=copy.sha256,
        fingerprint=read.digest.hexdigest(),
        rows=read.rows,
        dropped=read.dropped,
        schema=kept_schema(pseudonyms.released(schema), individual).ingested().coded(),
        text=read.scan.found(),
        shifted=shifts.told(),
    )


@dataclass
class _Reading:
    """How far the reading of a source has come.

    Attributes:
        folder: for copies of the files, one at a time.
        problems: of the parts that do not fit, at most `_TOLD`.
        kept: the schema of what is kept, as the source has it: nothing is shifted yet.
        first_days: of the columns that count days since the first one of a person, and `first_digest` of the
            files that were read for it.
    """

    source: Source
    schema: "DataSchema"
    columns: Sequence[str] | None
    nulls: Nulls
    individual: str | None
    people: People | None
    max_expansion: int
    pseudonyms: Pseudonyms
    shifts: Shifts
    folder: Path
    digest: "_Hash" = field(default_factory=hashlib.sha256)
    rows: int = 0
    dropped: int = 0
    problems: list[str] = field(default_factory=list)
    disguise: Disguise = field(default_factory=Disguise)
    first_days: dict[str, FirstDays] = field(default_factory=dict)
    first_digest: str | None = None
    partitions: "dict[str, pa.DataType]" = field(init=False)
    kept: "DataSchema" = field(init=False)
    repeats: Repeats = field(init=False)
    scan: TextScan = field(init=False)
    unique: NearlyUnique = field(init=False)

    def __post_init__(self) -> None:
        schema, names = self.schema, self.pseudonyms.columns
        self.partitions = partition_types(self.source, schema)
        known_by = self.people.column if self.people else self.individual
        self.kept = kept_schema(self.pseudonyms.released(schema), None if known_by in names else known_by)
        # who is followed or answered by an identifier must be unique anyhow, which is said there; dates that
        # columns are derived from name nobody
        followed = {self.individual, self.people.column if self.people else None, *schema.derived_from}
        self.repeats = Repeats(schema, self.folder, without=followed, pseudonyms=names)
        self.scan, self.unique = TextScan(self.kept), NearlyUnique(self.kept)

    def parts(self) -> Iterator["pa.Table"]:
        """The records that are kept; none any more once some do not fit."""
        self._find_first_days()
        needed = {*self.kept.names, *self.repeats.columns, *self.schema.derived_from, self.shifts.by}
        wanted = [name for name in self.schema.read.names if name in needed]
        with ahead(self._tables(wanted, self.digest)) as tables:
            for place, table in tables:
                yield from self._fitting(table, place)
                if len(self.problems) >= _TOLD:
                    return

    def _find_first_days(self) -> None:
        """Read all files for the first day of each person, where a column counts the days since."""
        from privacy_engine.engines.frames import to_frame
        from privacy_engine.tables.dates import DATES

        self.first_days = {name: FirstDays() for name in self.schema.counted_from_first}
        if not self.first_days:
            return
        by, digest = self.schema.by, hashlib.sha256()
        for _, table in self._tables([by, *self.first_days], digest):
            frame = to_frame(table).dropna(subset=[by])
            persons = self.disguise.of(frame[by])
            for name, days in self.first_days.items():
                form = self.schema[name].dates
                assert form is not None
                days.add(persons, form.read(frame[name]).numbers(DATES))
        self.first_digest = digest.hexdigest()

    def _tables(self, wanted: Sequence[str], digest: "_Hash") -> Iterator[tuple[str, "pa.Table"]]:
        """The records of all files, some at a time, and where they stand; the files are hashed."""
        first, names = None, self.source.names
        with ahead(_copies(self.source, self.folder, digest)) as copies:
            for number, (name, copy) in enumerate(zip(names, copies, strict=True)):
                with copy as stream:
                    types = self._types(stream, name, wanted)
                    first = types if first is None else first
                    check_equal(first, types, names[0], name)
                    begin = 1
                    rows = opened_source(stream, name, self.max_expansion)[0].metadata.num_rows
                    for table in tables_of(stream, name, wanted, self.max_expansion, self.partitions):
                        yield f"{without_values(name)}, {_span(begin, table)}", table
                        begin += len(table)
                        advance((number + begin / max(rows, begin)) / len(names))

    def _types(self, stream: IO[bytes], name: str, wanted: Sequence[str]) -> "pa.Schema":
        """Names and types of what is read of a file; its footer may not be the one checked before."""
        found = source_schema(stream, name, self.max_expansion, self.partitions)
        check_arrow(found, name, self.schema, self.columns)
        return wanted_columns(found.empty_table(), name, wanted, self.partitions).schema

    def _fitting(self, table: "pa.Table", place: str) -> Iterator["pa.Table"]:
        """The records of a part that are kept, if they fit the schema and all before them did."""
        import pyarrow as pa

        from privacy_engine.engines.frames import to_frame

        self.rows += len(table)
        frame = to_frame(table)
        try:
            frame = self._derived(frame)
            if self.nulls == "drop":
                whole = frame[never_null(self.kept)].notna().all(axis="columns").to_numpy(dtype=bool)
                frame, table = frame[whole], table.filter(pa.array(whole))
                self.dropped += int((~whole).sum())
            if len(frame):
                self.kept.check(frame[list(self.kept.names)])
                frame = self._shifted(frame)
        except SchemaError as error:
            self.problems.append(f"{place}: {error}")
        if not len(frame) or self.problems:
            return
        self.repeats.add(frame)
        table = _normalized(table, frame, self.kept)
        if by := self.kept.by:
            table = table.set_column(
                table.schema.get_field_index(by), by, pa.array(self.disguise.of(frame[by]))
            )
        if self.people is not None:
            self.people.add(frame[self.people.column])
            if self.people.column not in self.pseudonyms.columns:
                table = table.drop_columns(self.people.column)
        for name in self.pseudonyms.columns:
            made = pa.array(self.pseudonyms.of(name, frame[name]), pa.string())
            table = table.set_column(table.schema.get_field_index(name), name, made)
        table = self.scan.cleaned(_without_nan(table))
        self.unique.add(table)
        yield table

    def _derived(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Records with the columns that are derived, from true dates."""
        first = None
        if self.first_days:
            named = frame[self.schema.by].notna()
            persons = self.disguise.of(frame.loc[named, self.schema.by])
            first = {name: days.of(persons, among=named.to_numpy()) for name, days in self.first_days.items()}
        return self.schema.derived(frame, first)

    def _shifted(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Records that fit, with the dates that are shifted."""
        by = self.shifts.by
        return self.kept.shifted(frame, self.shifts.of(frame[by])) if by else frame

    def require_fit(self) -> None:
        """Refuse records that do not fit, files that changed meanwhile, and a table without records."""
        if self.problems:
            more = " (later records were not looked at)" if len(self.problems) >= _TOLD else ""
            raise SchemaError(f"{'; '.join(self.problems)}{more}")
        if self.first_digest not in (None, self.digest.hexdigest()):
            raise IntegrityError(
                "the files of the source must stay as they are while they are read, and changed: run the "
                "release again"
            )
        self.repeats.require_none()
        self.scan.require_clean()
        self.unique.require_none()
        require_left(self.rows, self.rows - self.dropped)
        if not self.rows:
            raise SchemaError("the table is empty: nothing can be released")


def _copies(source: Source, folder: Path, digest: "_Hash") -> Iterator[IO[bytes]]:
    """Each file of a source, as a file of the work area without a name; its hash goes into the fingerprint.

    Whoever takes one closes it, which removes it.
    """
    for file, name in zip(source.files, source.names, strict=True):
        own, size = hashlib.sha256(), 0
        copy = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # it is closed by whoever takes it
        try:
            for block in _blocks(source, file, name):
                own.update(block)
                size += copy.write(block)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        digest.update(f"{name}\0{size}\0{own.hexdigest()}\n".encode())
        try:
            yield copy
        except GeneratorExit:  # nobody took it
            copy.close()
            raise


def _blocks(source: Source, file: str, name: str) -> Iterator[bytes]:
    """The bytes of a file of a source, some at a time."""
    with reading(name), source.filesystem.open(file, "rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def tables_of(
    stream: IO[bytes],
    name: str,
    wanted: Sequence[str],
    max_expansion: int = MAX_EXPANSION,
    partitions: "Mapping[str, pa.DataType] | None" = None,
) -> Iterator["pa.Table"]:
    """The records of a file, some at a time, in plain types.

    Raises:
        SchemaError: if the file is damaged or unfolds too far, or text in it is not UTF-8.
        CapacityError: if there is too little memory.
    """
    import pyarrow as pa

    from privacy_engine.engines.parquet import check_count, check_text

    opened, expansion = opened_source(stream, name, max_expansion)
    shown, rows = without_values(name), 0
    with reading(name):
        stored = [column for column in wanted if column in opened.schema_arrow.names]
        for batch in records_of(stream, opened, stored):
            expansion.add_records(batch)
            table = wanted_columns(pa.Table.from_batches([batch]), name, wanted, partitions)
            check_text(table, f"{shown}, {_span(rows + 1, table)}")
            rows += len(table)
            yield table
        check_count(rows, opened.metadata.num_rows, shown)


def _normalized(table: "pa.Table", frame: "pd.DataFrame", schema: "DataSchema") -> "pa.Table":
    """Records that fit, with derived columns, and dates and codes as `DataSchema.normalized` makes them.

    A column of numbers keeps its type, which pandas changes where there are nulls.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from privacy_engine.engines.frames import to_arrow

    columns = {
        a.name: pa.array(frame[a.name], pa.int64()) if a.derive else table.column(a.name)
        for a in schema.attributes
    }
    table, schema = pa.table(columns), schema.ingested()
    for attribute in schema.normalized_attributes:
        name = attribute.name
        place = table.schema.get_field_index(name)
        if attribute.dates is None and attribute.coding is not None and not attribute.coding.of_text:
            kind, column = table.schema.field(name).type, table.column(name)
            changed = pa.array(attribute.numbers(frame[name]), pa.float64(), from_pandas=True)
            kept = pc.equal(changed, pc.cast(column, pa.float64(), safe=False))
            column = pc.if_else(pc.fill_null(kept, True), column, pc.cast(changed, kind, safe=False))
            table = table.set_column(place, table.schema.field(name), column)
        else:
            read = to_arrow(schema.normalized(frame[[name]]))
            table = table.set_column(place, read.schema.field(name), read.column(name))
    return table


def _without_nan(table: "pa.Table") -> "pa.Table":
    """The records with nulls for numbers that are none, as pandas, and so a smaller table, has them."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    columns = [
        pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if t.is_floating(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _span(begin: int, table: "pa.Table") -> str:
    return f"records {begin:,} to {begin + len(table) - 1:,}"
