"""The rows of a staged release for the lake: exactly the verified bytes, in plain types.

If all columns of a set of files already have these types, its files are copied into the lake unchanged.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.types as t

from privacy_engine.errors import IntegrityError, PrivacyEngineError, PublishError, SchemaError
from privacy_engine.foreign import translated
from privacy_engine.pipeline import each_ahead
from privacy_engine.progress import advance
from privacy_engine.vocabulary import PARTITION, other_types, released_as, unfit_names
from privacy_release.lake.store import ReleaseTable, put_new, remove
from privacy_release.workarea.file_sets import Part, files_of, folder_of_list, is_list, listed
from privacy_release.workarea.parquet import opened_parquet, require_unchanged, unchanged_batches

_BATCH = 16_384  # records per batch for the Delta writer, which holds some dozens of batches
_COPIES = 4  # files of a set that are copied at the same time
_PIECE = 1 << 22  # bytes of a file that are held in memory
_AT_ONCE = 10_000_000  # largest number of cells that the writer gets in one batch


@dataclass(frozen=True, kw_only=True)
class VerifiedRows:
    """The rows of a staged release, never in memory as a whole. Columns and size come from its footers.

    Attributes:
        staged: Path of its Parquet file, or of the list of its files.
        sha256: SHA-256 of the file or the list.
        schema: Columns in the types of the lake.
        as_kept: Whether all columns already have these types in the files.
        problems: Errors that ended a stream. The Delta writer passes them on as its own errors.
    """

    staged: Path
    sha256: str
    schema: "pa.Schema"
    num_rows: int
    as_kept: bool = False
    problems: list[PrivacyEngineError] = field(default_factory=list, repr=False)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.schema.names)

    def fit(self, held: "pa.Schema", *, whole: bool) -> bool:
        """Return whether a table can take the files unchanged: a set, with columns that the table has.

        Args:
            held: Columns of the table.
            whole: Whether the table must have no other columns.
        """
        if not self.as_kept or not is_list(self.staged):
            return False
        columns = {field.name: field.type for field in held if field.name != PARTITION}
        own = {field.name: field.type for field in self.schema}
        return own == columns if whole else own.items() <= columns.items()

    def copied(self, table: ReleaseTable, partition: str) -> "list[DataFile]":
        """Copy the files to the folder of a partition, under new names that no commit mentions yet.

        Each file is hashed while it is copied, so that the lake has exactly the verified bytes.

        Raises:
            IntegrityError: If a file is not the verified one. No copy remains.
            PublishError: If the lake cannot be reached.
        """
        parts, attempt = listed(self.staged, self.sha256), uuid4()
        files = [DataFile.of(part, f"{PARTITION}={partition}", attempt) for part in parts]
        work = partial(_copy, table, folder_of_list(self.staged))
        done: list[DataFile] = []
        try:
            with each_ahead(work, files, _COPIES) as copies:
                for file in copies:
                    done.append(file)
                    advance(len(done) / len(files))
        except BaseException:
            with suppress(PublishError):  # a remaining file is in no commit, as after a crash
                for file in files:
                    remove(table.lake, f"{table.name}/{file.path}")
            raise
        return done

    def stream(self, partition: str, schema: "pa.Schema | None" = None) -> "pa.RecordBatchReader":
        """Return the rows with their partition column, batch by batch.

        The file is hashed before the first batch and after the last one. If it is not the verified one, the
        stream ends with an error, so the writer has nothing to commit.

        Args:
            partition: Value of the partition column.
            schema: Schema of the rows with column comments. None: without comments.
        """
        with_partition = (schema or self.schema).append(pa.field(PARTITION, pa.string()))
        batches = self._batches(partition, with_partition, copy_context())
        return pa.RecordBatchReader.from_batches(with_partition, batches)

    def _batches(self, partition: str, schema: "pa.Schema", here: Context) -> Iterator["pa.RecordBatch"]:
        try:
            # The Delta writer distributes batches over its threads and writes them as they finish. A release
            # in a single batch keeps its order.
            size = self.num_rows if self.num_rows * len(self.schema) <= _AT_ONCE else _BATCH
            written = 0
            for batch in unchanged_batches(self.staged, self.sha256, rows=size):
                rows = in_types(pa.Table.from_batches([batch]), self.schema)
                rows = rows.append_column(PARTITION, pa.repeat(pa.scalar(partition), len(rows)))
                yield from rows.cast(schema).to_batches()
                written += len(batch)
                here.run(advance, written / self.num_rows)  # the writer calls this in its own threads
        except PrivacyEngineError as error:
            self.problems.append(error)
            raise


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file of a staged set in a table.

    Attributes:
        name: Name in the set.
        path: Path below the table's folder.
        size: Size in bytes. 0 before it is copied.
    """

    name: str
    path: str
    rows: int
    sha256: str
    size: int = 0

    @classmethod
    def of(cls, part: Part, folder: str, attempt: UUID) -> "DataFile":
        """Return the file for a part of a set, under a name that no other attempt uses."""
        path = f"{folder}/{part.name.removesuffix('.parquet')}-{attempt}.zstd.parquet"
        return cls(name=part.name, path=path, rows=part.rows, sha256=part.sha256)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry for the note of the commit."""
        return {"name": self.name, "path": self.path, "rows": self.rows, "sha256": self.sha256}


def _copy(table: ReleaseTable, folder: Path, file: DataFile) -> DataFile:
    """Copy a file into the lake and hash it.

    Raises:
        IntegrityError: If it is not the verified one. The copy may exist then.
    """
    digest, size = hashlib.sha256(), 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        try:
            stream = (folder / file.name).open("rb")
        except OSError as error:
            raise IntegrityError(
                f"{file.name} must be in the work area, got {type(error).__name__}; run the release again"
            ) from None
        with stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                yield piece

    put_new(table.lake, f"{table.name}/{file.path}", pieces())
    if digest.hexdigest() != file.sha256:
        raise IntegrityError(
            f"{file.name} must have the verified sha256 {file.sha256}, got {digest.hexdigest()}: it changed "
            "after it was verified; run the release again"
        )
    return replace(file, size=size)


def verified_rows(staged: Path, expected_sha256: str) -> VerifiedRows:
    """Return the rows of a staged file, or set of files, if its bytes are the verified ones.

    Raises:
        IntegrityError: If the file is missing, its hash differs, or it is no complete Parquet file.
        SchemaError: If it has no rows, a reserved column or a type that a release table cannot hold.
    """
    require_unchanged(staged, expected_sha256)
    try:
        footers = [_footer(file) for file in files_of(staged, expected_sha256)]
    except (pa.ArrowException, OSError) as error:
        raise translated(error, "reading the staged release") or IntegrityError(
            "the staged release is not a whole Parquet file; run the release again"
        ) from None
    schema, rows = footers[0][0], sum(size for _, size in footers)
    if any(not other.equals(schema) for other, _ in footers):
        raise IntegrityError("the files of a release must have the same columns and types; run it again")
    _refuse_shape(rows, schema.names)
    return VerifiedRows(
        staged=staged,
        sha256=expected_sha256,
        schema=(kept := plain_schema(schema)),
        num_rows=rows,
        as_kept=schema.equals(kept),
    )


def _footer(file: Path) -> tuple["pa.Schema", int]:
    """Return the columns of a Parquet file, and its number of records."""
    with file.open("rb") as stream:
        opened = opened_parquet(stream)
        return opened.schema_arrow, opened.metadata.num_rows


def refuse_other_types(schema: "pa.Schema", held: "pa.Schema") -> None:
    """Raise if a column has another type in the table.

    The Delta writer would cast silently, and 1.5 would become 1. New columns are fine (older releases show
    null there), and so are missing ones. `privacy_release.steps.types` checks before the release what is
    known by then.

    Raises:
        SchemaError: Naming the columns and both types.
    """
    kept, made = ({field.name: str(field.type) for field in columns} for columns in (held, schema))
    if other := other_types(kept, made):
        raise SchemaError(other)


def refuse_other_form(schema: "pa.Schema", held: "pa.Schema") -> None:
    """Raise if the intervals of the rows have another form than those of the table.

    Readers would find some people in `age`, and the others in `age_from` and `age_to`.

    Raises:
        SchemaError: Naming the columns of both forms, and the remedy.
    """
    for one, ends, is_held in ((held, schema, True), (schema, held, False)):
        for name in one.names:
            bounds = released_as(name, ends.names)
            if len(bounds) < 2 or any(bound in one.names for bound in bounds):
                continue
            form = ("text" if "string" in str(one.field(name).type) else "midpoint") if is_held else "bounds"
            raise SchemaError(
                f"the table must have one form of intervals, but it would have both {name!r} and "
                f"{', '.join(bounds)}: its releases are of the form {form}; release "
                f"`intervals: {form}`, as before, or publish under a new table name"
            )


def _refuse_shape(rows: int, names: Sequence[str]) -> None:
    """Raise if a release has no rows, or columns that a release table cannot have."""
    if rows == 0:
        raise SchemaError("a release must have at least one row, got 0; check the source and the method")
    if unfit := unfit_names(names):
        raise SchemaError(f"a release table cannot have all columns: {unfit}")


def plain_schema(given: "pa.Schema") -> "pa.Schema":
    """Return the columns of a staged file in the types of the lake.

    Raises:
        SchemaError: If the lake cannot hold a column.
    """
    return pa.schema([pa.field(field.name, plain_type(field.name, field.type)) for field in given])


def in_types(table: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """Convert rows to the types of a schema with the same columns.

    Raises:
        SchemaError: If a value does not fit.
    """
    columns = []
    for target, column in zip(schema, table.columns, strict=True):
        try:
            columns.append(column.cast(target.type, safe=True))
        except pa.ArrowInvalid:  # its message quotes the cell
            raise SchemaError(
                f"column {target.name} must fit {target.type} without loss; round or cast it in the release"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def plain_type(name: str, given: "pa.DataType") -> "pa.DataType":
    """Return the type in which the lake stores a column.

    Delta has no dictionaries, unsigned integers or nanoseconds.

    Raises:
        SchemaError: If the lake cannot hold the type.
    """
    if t.is_dictionary(given):
        return plain_type(name, given.value_type)
    if t.is_large_string(given) or t.is_string_view(given):
        return pa.string()
    if t.is_unsigned_integer(given):
        return {8: pa.int16(), 16: pa.int32()}.get(given.bit_width, pa.int64())
    if t.is_float16(given):
        return pa.float32()
    if t.is_timestamp(given):
        return pa.timestamp("us", None if given.tz is None else "UTC")
    if t.is_date(given):
        return pa.date32()
    if any(
        is_kept(given)
        for is_kept in (t.is_string, t.is_integer, t.is_floating, t.is_boolean, t.is_decimal128)
    ):
        return given
    raise SchemaError(
        f"column {name} must be text, a number, a truth value, a date or a time stamp, got {given}; "
        "cast it in the release (a column with only nulls needs a type, too)"
    )
