"""Read the records of a source in batches, and check them on the way.

The parsed bytes are exactly the hashed bytes, and identifiers stay in the source: a number replaces the
person of a row, if the schema allows several rows per person. Each file is first copied, as a stream, to an
unnamed file of the work area that disappears with this process. Then its records are read from that copy in
batches: columns are derived from true dates, everything is checked against the schema, and dates are shifted
and coarsened. These three steps (copying, reading, checking) run in parallel, each in a thread and one step
ahead of the next, in the order of the file names. Records, fingerprint and errors are the same as in
sequence. Memory: two row groups of the source. Disk: three files of the source. If days are counted since the
first row of a person, all files are read once before.
"""

import hashlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.engines.parquet import check_count, check_text
from privacy_engine.errors import IntegrityError, SchemaError
from privacy_engine.pipeline import ahead
from privacy_engine.progress import advance
from privacy_engine.tables.dates import DATES
from privacy_release.sources.addresses import Source, reading
from privacy_release.sources.footers import (
    has_page_checksums,
    opened_source,
    records_of,
    source_footer,
)
from privacy_release.sources.identifiers import Disguise, Repeats
from privacy_release.sources.listing import without_values
from privacy_release.sources.person_dates import FirstDays, Shifts
from privacy_release.sources.pseudonyms import Naming, Pseudonyms
from privacy_release.sources.reading import (
    Nulls,
    check_arrow,
    check_equal,
    in_common_types,
    in_read_types,
    kept_schema,
    never_null,
    partition_types,
    require_left,
    wanted_columns,
)
from privacy_release.sources.text.scan import TextScan
from privacy_release.sources.uniqueness import NearlyUnique
from privacy_release.workarea.parquet import MAX_EXPANSION

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.tables.schema import DataSchema

MOST_PROBLEMS = 3  # number of parts that do not fit the schema after which reading stops
_BLOCK = 1 << 20  # bytes read at once


class People(Protocol):
    """A collector of the persons that the records are about."""

    @property
    def column(self) -> str:
        """The identifier of the persons."""

    def add(self, identifiers: "pd.Series") -> None:
        """Add the identifiers of the next records."""


@dataclass(frozen=True, kw_only=True)
class CopyRules:
    """How the records of a source are copied, whatever source and schema.

    Attributes:
        columns: Columns to read. None: all, and each must be in the schema.
        nulls: `fail` raises on a null in a quasi-identifier or sensitive attribute that is not nullable,
            `drop` drops its record, `keep` treats null as a value, as if each attribute were nullable.
        individual: Identifier that is copied, too. None: no identifier is copied.
        people: Collector of the identifiers of the kept records, from one column, which is not copied.
        naming: Series and release that pseudonyms and date shifts are made for, if the schema requires them.
        max_expansion: Largest ratio of bytes in memory to bytes in a file, see `footers.Expansion`.
        disguise: Numbering of persons. Tables that share persons share one. None: a new one.
        sha256: Required SHA-256 of the only file, or fingerprint of several files. None: any.
        types: Common types of columns whose types differ between files, see `reading.Footers`.
    """

    columns: Sequence[str] | None = None
    nulls: Nulls = "fail"
    individual: str | None = None
    people: People | None = None
    naming: Naming | None = None
    max_expansion: int = MAX_EXPANSION
    disguise: Disguise | None = None
    sha256: str | None = None
    types: "Mapping[str, pa.DataType]" = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CopyTask:
    """What to read from a source, and how to transform it. It can be pickled if its rules have no `people`.

    Attributes:
        source: Files of the source.
        schema: Schema that the columns must match.
        rules: Rules for copying any source.
        pseudonyms, shifts, disguise: Replacements of identifiers, true dates and persons.
    """

    source: Source
    schema: "DataSchema"
    rules: CopyRules
    pseudonyms: Pseudonyms
    shifts: Shifts
    disguise: Disguise

    @cached_property
    def kept(self) -> "DataSchema":
        """The schema of what is kept, as in the source, before dates are shifted."""
        names = self.pseudonyms.columns
        known_by = self.rules.people.column if self.rules.people else self.rules.individual
        return kept_schema(self.pseudonyms.released(self.schema), None if known_by in names else known_by)

    @cached_property
    def partitions(self) -> "dict[str, pa.DataType]":
        """The types of the columns from folder names."""
        return partition_types(self.source, self.schema)

    @property
    def followed(self) -> set[str | None]:
        """The identifiers that may repeat.

        Identifiers of followed persons and individuals must be unique anyway, which is checked elsewhere.
        Dates from which columns are derived name no one.
        """
        return {
            self.rules.individual,
            self.rules.people.column if self.rules.people else None,
            *self.schema.derived_from,
        }


@dataclass
class SourceReading:
    """The progress of reading some files of a source.

    Attributes:
        task: Columns and rules for reading all files.
        folder: Folder for copies of the files, one at a time. None: they are held in memory.
        files: Files that are read.
        first: Names and types of the first file's columns. None: it is not read yet.
        read: Input of the fingerprint: name, size and SHA-256 of each file.
        rows, dropped: Number of records read, and of those omitted because of nulls.
        unchecked: Number of files whose pages have no checksums, so that damage may go unnoticed.
        problems: Problems of the parts that do not fit, at most `MOST_PROBLEMS`.
    """

    task: CopyTask
    folder: Path | None
    files: slice = field(default_factory=lambda: slice(None))
    first: "pa.Schema | None" = None
    read: list[str] = field(default_factory=list)
    rows: int = 0
    dropped: int = 0
    unchecked: int = 0
    problems: list[str] = field(default_factory=list)
    repeats: Repeats = field(init=False)
    scan: TextScan = field(init=False)
    unique: NearlyUnique = field(init=False)
    _first_days: dict[str, FirstDays] = field(default_factory=dict)
    _read_before: list[str] | None = None  # value of `read` when first days were searched

    def __post_init__(self) -> None:
        task = self.task
        self.repeats = Repeats(
            task.schema, self.folder, without=task.followed, pseudonyms=task.pseudonyms.columns
        )
        self.scan, self.unique = TextScan(task.kept), NearlyUnique(task.kept)

    @property
    def fingerprint(self) -> str:
        """The hash over name, size and SHA-256 of every file that was read."""
        return hashlib.sha256("".join(self.read).encode()).hexdigest()

    @property
    def _sha256(self) -> str:
        """The SHA-256 of the only file, or the fingerprint of several."""
        (*several, last) = self.read
        return self.fingerprint if several else last.rstrip("\n").rpartition("\0")[2]

    def parts(self) -> Iterator["pa.Table"]:
        """Yield the kept records. After records that do not fit, yield nothing more."""
        task = self.task
        self._find_first_days()
        needed = {*task.kept.names, *self.repeats.columns, *task.schema.derived_from, task.shifts.by}
        columns = [name for name in task.schema.read.names if name in needed]
        with ahead(self._tables(columns, self.read)) as tables:
            for place, table in tables:
                yield from self._fitting(table, place)
                if len(self.problems) >= MOST_PROBLEMS:
                    return

    def _find_first_days(self) -> None:
        """Read all files for the first day of each person, if a column counts the days since it."""
        schema = self.task.schema
        self._first_days = {name: FirstDays() for name in schema.counted_from_first}
        if not self._first_days:
            return
        self._read_before = []
        for _, table in self._tables([schema.by, *self._first_days], self._read_before):
            frame = to_frame(table).dropna(subset=[schema.by])
            persons = self.task.disguise.of(frame[schema.by])
            for name, days in self._first_days.items():
                form = schema[name].dates
                assert form is not None
                days.add(persons, form.read(frame[name]).numbers(DATES))
        self.first = None  # other columns are read now

    def _tables(self, columns: Sequence[str], read: list[str]) -> Iterator[tuple[str, "pa.Table"]]:
        """Yield the records of the files in batches with their location. The files are added to `read`."""
        source, most = self.task.source, self.task.rules.max_expansion
        names = source.names[self.files]
        with ahead(_copies(source, self.files, self.folder, read)) as copies:
            for number, (name, copy) in enumerate(zip(names, copies, strict=True)):
                with copy as stream:
                    types, rows = self._footer(stream, name, columns)
                    if read is self.read and rows and not has_page_checksums(stream):
                        self.unchecked += 1
                    self.require_alike(types, name)
                    begin = 1
                    for stored in tables_of(stream, name, columns, most, self.task.partitions):
                        table = in_read_types(stored, self.task.schema, self.task.rules.types)
                        yield f"{without_values(name)}, {_span(begin, table)}", table
                        begin += len(table)
                        advance((number + begin / max(rows, begin)) / len(names))

    def _footer(self, stream: IO[bytes], name: str, columns: Sequence[str]) -> "tuple[pa.Schema, int]":
        """Return types and number of records of a file. The footer may differ from the one checked before."""
        task = self.task
        found, rows = source_footer(stream, name, task.rules.max_expansion, task.partitions)
        found = in_common_types(found, task.rules.types)
        check_arrow(found, name, task.schema, task.rules.columns)
        empty = wanted_columns(found.empty_table(), name, columns, task.partitions)
        return in_read_types(empty, task.schema).schema, rows

    def _fitting(self, table: "pa.Table", place: str) -> Iterator["pa.Table"]:
        """Yield the kept records of a part, if they and all records before them fit the schema."""
        task, kept = self.task, self.task.kept
        self.rows += len(table)
        frame = to_frame(table)
        try:
            frame = self._derived(frame)
            if task.rules.nulls == "drop":
                whole = frame[never_null(kept)].notna().all(axis="columns").to_numpy(dtype=bool)
                frame, table = frame[whole], table.filter(pa.array(whole))
                self.dropped += int((~whole).sum())
            if len(frame):
                kept.check(frame[list(kept.names)])
                frame = self._shifted(frame)
        except SchemaError as error:
            self.problems.append(f"{place}: {error}")
        if not len(frame) or self.problems:
            return
        self.repeats.add(frame)
        table = _normalized(table, frame, kept)
        if by := kept.by:
            table = table.set_column(
                table.schema.get_field_index(by), by, pa.array(task.disguise.of(frame[by]))
            )
        if task.rules.people is not None:
            task.rules.people.add(frame[task.rules.people.column])
            if task.rules.people.column not in task.pseudonyms.columns:
                table = table.drop_columns(task.rules.people.column)
        for name in task.pseudonyms.columns:
            made = pa.array(task.pseudonyms.of(name, frame[name]), pa.string())
            table = table.set_column(table.schema.get_field_index(name), name, made)
        table = self.scan.cleaned(_without_nan(table))
        self.unique.add(table)
        yield table

    def _derived(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Add the derived columns to records, from true dates."""
        first, schema = None, self.task.schema
        if self._first_days:
            named = frame[schema.by].notna()
            persons = self.task.disguise.of(frame.loc[named, schema.by])
            among = named.to_numpy()
            first = {name: days.of(persons, among=among) for name, days in self._first_days.items()}
        return schema.derived(frame, first)

    def _shifted(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Shift the dates of records that fit."""
        shifts = self.task.shifts
        return self.task.kept.shifted(frame, shifts.of(frame[shifts.by])) if shifts.by else frame

    def require_alike(self, first: "pa.Schema | None", name: str) -> None:
        """Raise if the first file that another process read has other types than those read here.

        Raises:
            SchemaError: Naming both files, and the columns that differ.
        """
        if first is not None:
            self.first = first if self.first is None else self.first
            check_equal(self.first, first, self.task.source.names[self.files][0], name)

    def require_fit(self) -> None:
        """Raise if records do not fit, files changed while they were read, or there are no records."""
        if self.problems:
            more = " (later records were not checked)" if len(self.problems) >= MOST_PROBLEMS else ""
            raise SchemaError(f"{'; '.join(self.problems[:MOST_PROBLEMS])}{more}")
        if self._read_before not in (None, self.read):
            raise IntegrityError(
                "the files of the source must not change while they are read, but they did: run the "
                "release again"
            )
        if self.task.rules.sha256 not in (None, self._sha256):
            raise IntegrityError(
                "source.sha256 must be that of the files read, but it is not: restore the files that it was "
                "computed from, or state the SHA-256 of these"
            )
        self.repeats.require_none()
        self.scan.require_clean()
        self.unique.require_none()
        require_left(self.rows, self.rows - self.dropped)
        if not self.rows:
            raise SchemaError("the table is empty: nothing can be released")


def _copies(source: Source, files: slice, folder: Path | None, read: list[str]) -> Iterator[IO[bytes]]:
    """Yield each of these files as an unnamed file of the folder, and add its hash to `read`.

    The consumer closes the file, which removes it.
    """
    for file, name in zip(source.files[files], source.names[files], strict=True):
        own, size = hashlib.sha256(), 0
        # it is closed by the consumer
        copy: IO[bytes] = io.BytesIO() if folder is None else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        try:
            for block in _blocks(source, file, name):
                own.update(block)
                size += copy.write(block)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        read.append(f"{name}\0{size}\0{own.hexdigest()}\n")
        try:
            yield copy
        except GeneratorExit:  # it was not consumed
            copy.close()
            raise


def _blocks(source: Source, file: str, name: str) -> Iterator[bytes]:
    """Yield the bytes of a source file in blocks."""
    with reading(name), source.filesystem.open(file, "rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def tables_of(
    stream: IO[bytes],
    name: str,
    columns: Sequence[str],
    max_expansion: int = MAX_EXPANSION,
    partitions: "Mapping[str, pa.DataType] | None" = None,
) -> Iterator["pa.Table"]:
    """Yield the records of a file in batches, in plain types.

    Raises:
        SchemaError: If the file is damaged or expands too far, or text in it is not UTF-8.
        CapacityError: If there is too little memory.
    """
    opened, expansion = opened_source(stream, name, max_expansion)
    shown, rows = without_values(name), 0
    with reading(name):
        stored = [column for column in columns if column in opened.schema_arrow.names]
        for batch in records_of(stream, opened, stored):
            expansion.add_records(batch)
            table = wanted_columns(pa.Table.from_batches([batch]), name, columns, partitions)
            check_text(table, f"{shown}, {_span(rows + 1, table)}")
            rows += len(table)
            yield table
        check_count(rows, opened.metadata.num_rows, shown)


def _normalized(table: "pa.Table", frame: "pd.DataFrame", schema: "DataSchema") -> "pa.Table":
    """Add derived columns, and normalize dates and codes like `DataSchema.normalized`, for records that fit.

    A column of numbers keeps its type, which pandas changes if there are nulls.
    """
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
    """Replace NaN by null, as pandas does, so that it does not depend on the size of the table."""
    columns = [
        pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if t.is_floating(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _span(begin: int, table: "pa.Table") -> str:
    return f"records {begin:,} to {begin + len(table) - 1:,}"
