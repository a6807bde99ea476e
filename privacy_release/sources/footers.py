"""What the files of a source say of themselves, and how far their records may unfold in memory.

A Parquet bomb is a small file whose records fill the memory or the disk. Its footer is judged before anything
is unpacked; but footers lie, and do not count what dictionaries unfold to, so the records are counted, too.
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

_NUMBER = 0x15  # the field after the one before, a number of 32 bits
_HARMLESS = 1 << 30  # bytes that the records of any file may take


@dataclass
class Expansion:
    """How many bytes the records of a file take in memory, and how many they may.

    Args:
        name: of the file, for people.
        size: of the file, in bytes.
        most: bytes in memory for each byte of the file; a file whose records take less than a GiB is never
            refused.
    """

    name: str
    size: int
    most: int = MAX_EXPANSION
    unfolded: int = 0

    def add_records(self, batch: "pa.RecordBatch") -> None:
        """Count records, before the dictionaries among their columns are unfolded.

        Raises:
            SchemaError: as `add`.
        """
        self.add(sum(map(_unfolded, batch.columns)))

    def add(self, amount: int) -> None:
        """Count bytes of records.

        Raises:
            SchemaError: if they are too many for this file by now.
        """
        self.unfolded += amount
        if self.unfolded > max(_HARMLESS, self.size * self.most):
            raise SchemaError(
                f"{self.name} must unfold to at most {self.most:,} times its {self.size:,} bytes, got "
                f"{self.unfolded:,} bytes or more: if that is no mistake or attack, raise max_expansion of "
                "the source"
            )


def _unfolded(column: "pa.Array") -> int:
    """Bytes that a column takes without a dictionary."""
    if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return 4 * len(column) + int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def opened_source(
    stream: IO[bytes], name: str, most: int = MAX_EXPANSION
) -> tuple["pq.ParquetFile", Expansion]:
    """A file of a source, once its footer is found credible, and what its records are counted by.

    Args:
        stream: of the file.
        name: relative to the source; the values in its folders' names are not shown.
        most: see `Expansion`.

    Raises:
        SchemaError: if it is no whole Parquet file, its footer contradicts itself, or tells of a bomb.
        CapacityError: if there is too little memory.
    """
    shown = without_values(name)
    with reading(name):
        size = stream.seek(0, 2)
        stream.seek(0)
        opened = opened_parquet(stream)
        found = opened.metadata
        check_footer(found, shown)
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        told = sum(max(0, group.total_byte_size) for group in groups)
        Expansion(shown, size, most).add(told)
        return opened, Expansion(shown, size, most)


def has_page_checksums(stream: IO[bytes]) -> bool:
    """Whether the first page of a Parquet file has a checksum, which writers give to all pages or to none.

    pyarrow verifies checksums and does not tell whether there are any. The page begins after the four bytes
    at the begin of the file, with a header in Thrift's compact protocol (`PageHeader` of the Parquet format):
    three numbers, and as the fourth field the checksum, if there is one.
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
            while head[place] & 0x80:  # more bytes of the same number follow
                place += 1
            place += 1
        return head[place] == _NUMBER
    except IndexError:
        return False


def records_of(
    stream: IO[bytes], opened: "pq.ParquetFile", columns: Sequence[str]
) -> Iterator["pa.RecordBatch"]:
    """The records of a file that `opened_source` opened, in its order, with their text as dictionaries.

    A value of a megabyte and a million references to it must be counted before they are unfolded. Encodings
    that pyarrow cannot read so are read as they are. (Which ones a file has stands in its footer, but pyarrow
    ends the process over some damaged ones when it is asked.)
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
    """The columns of a file and of its folders; a column of the file is the truer one."""
    for column in partition_values(name):
        if column not in stored.names:
            stored = stored.append(pa.field(column, (types or {}).get(column, pa.string())))
    return stored


class SourceFooter(NamedTuple):
    """Names and types of the columns of a file of a source, those of its folders, too, and its records."""

    schema: "pa.Schema"
    rows: int


def source_footer(
    stream: IO[bytes],
    name: str,
    most: int = MAX_EXPANSION,
    types: "Mapping[str, pa.DataType] | None" = None,
) -> SourceFooter:
    """What a file of a source says of itself.

    Args:
        stream: of the file.
        name: relative to the source.
        most: see `Expansion`.
        types: of columns that folders are named by; text by default.

    Raises:
        SchemaError: as `opened_source`.
    """
    opened, _ = opened_source(stream, name, most)
    with reading(name):
        schema = with_partitions(opened.schema_arrow.remove_metadata(), name, types)
        return SourceFooter(schema, opened.metadata.num_rows)
