"""Read the footers of source files, and limit how far their records may expand in memory.

A Parquet bomb is a small file whose records fill the memory or the disk. Its footer is checked before
anything is decompressed. But footers can lie, and do not count expanded dictionaries, so the records are
counted, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from privacy_engine.engines.parquet import check_footer
from privacy_engine.errors import SchemaError
from privacy_release.sources.addresses import partition_values, reading
from privacy_release.sources.listing import without_values
from privacy_release.workarea.parquet import MAX_EXPANSION, batches_of, opened_parquet

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_NUMBER = 0x15  # header of the next field, a 32-bit number
_HARMLESS = 1 << 30  # bytes that the records of any file may take


@dataclass
class Expansion:
    """The memory that the records of a file take, and its limit.

    Args:
        name: Name of the file, for errors.
        size: Size of the file in bytes.
        most: Largest number of bytes in memory per byte of the file. A file whose records take less than a
            GiB is never refused.
    """

    name: str
    size: int
    most: int = MAX_EXPANSION
    unfolded: int = 0

    def add_records(self, batch: "pa.RecordBatch") -> None:
        """Count records, before their dictionary columns are expanded.

        Raises:
            SchemaError: As `add`.
        """
        self.add(sum(map(_unfolded, batch.columns)))

    def add(self, amount: int) -> None:
        """Count bytes of records.

        Raises:
            SchemaError: If they exceed the limit of this file.
        """
        self.unfolded += amount
        if self.unfolded > max(_HARMLESS, self.size * self.most):
            raise SchemaError(
                f"{self.name} must expand to at most {self.most:,} times its {self.size:,} bytes, got "
                f"{self.unfolded:,} bytes or more: if that is no mistake or attack, raise max_expansion of "
                "the source"
            )


def _unfolded(column: "pa.Array") -> int:
    """Return the bytes that a column takes without a dictionary."""
    if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return 4 * len(column) + int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def opened_source(
    stream: IO[bytes], name: str, most: int = MAX_EXPANSION
) -> tuple["pq.ParquetFile", Expansion]:
    """Open a file of a source, if its footer is credible. Return it with a counter of its records.

    Args:
        stream: Stream of the file.
        name: Name relative to the source. The values in its folders' names are not shown.
        most: Largest expansion, see `Expansion`.

    Raises:
        SchemaError: If it is no complete Parquet file, or its footer is inconsistent or describes a bomb.
        CapacityError: If there is too little memory.
    """
    shown = without_values(name)
    with reading(name):
        size = stream.seek(0, 2)
        stream.seek(0)
        opened = opened_parquet(stream)
        found = opened.metadata
        check_footer(found, shown)
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        unpacked = sum(max(0, group.total_byte_size) for group in groups)
        Expansion(shown, size, most).add(unpacked)
        return opened, Expansion(shown, size, most)


def has_page_checksums(stream: IO[bytes]) -> bool:
    """Return whether the first page of a Parquet file has a checksum. Writers add them to all pages or none.

    pyarrow verifies checksums but does not report whether there are any. The page begins after the first four
    bytes of the file, with a header in Thrift's compact protocol (`PageHeader` of the Parquet format): three
    numbers, and as the fourth field the checksum, if there is one.
    """
    stream.seek(0)
    head = stream.read(64)
    stream.seek(0)
    place = 4
    try:
        for _ in range(3):  # type, size, compressed size
            if head[place] != _NUMBER:
                return False
            place += 1
            while head[place] & 0x80:  # the number has more bytes
                place += 1
            place += 1
        return head[place] == _NUMBER
    except IndexError:
        return False


def records_of(
    stream: IO[bytes], opened: "pq.ParquetFile", columns: Sequence[str]
) -> Iterator["pa.RecordBatch"]:
    """Yield the records of a file from `opened_source`, in its order, with text as dictionaries.

    A megabyte value with a million references must be counted before they are expanded. Encodings that
    pyarrow cannot read this way are read normally. (The footer lists the encodings, but pyarrow aborts the
    process for some damaged footers.)
    """
    folded = [field.name for field in opened.schema_arrow if t.is_string(field.type)]
    read = 0
    try:
        for batch in batches_of(opened_parquet(stream, folded), columns):
            read += len(batch)
            yield batch
        return
    except OSError as error:
        if "Not yet implemented" not in str(error):
            raise
    for batch in batches_of(opened, columns):
        if len(batch) > read:
            yield batch.slice(read)
        read = max(0, read - len(batch))


def with_partitions(
    stored: "pa.Schema", name: str, types: "Mapping[str, pa.DataType] | None" = None
) -> "pa.Schema":
    """Return the columns of a file and of its folders. A column in the file takes precedence."""
    for column in partition_values(name):
        if column not in stored.names:
            stored = stored.append(pa.field(column, (types or {}).get(column, pa.string())))
    return stored


class SourceFooter(NamedTuple):
    """Names and types of a source file's columns, including those of its folders, and number of records."""

    schema: "pa.Schema"
    rows: int


def source_footer(
    stream: IO[bytes],
    name: str,
    most: int = MAX_EXPANSION,
    types: "Mapping[str, pa.DataType] | None" = None,
) -> SourceFooter:
    """Read the footer of a file of a source.

    Args:
        stream: Stream of the file.
        name: Name relative to the source.
        most: Largest expansion, see `Expansion`.
        types: Types of the columns from folder names. Default: text.

    Raises:
        SchemaError: As `opened_source`.
    """
    opened, _ = opened_source(stream, name, most)
    with reading(name):
        schema = with_partitions(opened.schema_arrow.remove_metadata(), name, types)
        return SourceFooter(schema, opened.metadata.num_rows)
