"""The files of a source, for what reads Parquet by path: as they are, or as one private copy."""

from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.engines.frames import plain_columns
from privacy_engine.engines.parquet import regrouped
from privacy_release.sources.addresses import Source, partition_values, reading
from privacy_release.sources.footers import source_footer
from privacy_release.sources.reading import check_equal
from privacy_release.sources.records import tables_of
from privacy_release.workarea.parquet import private_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def local_files(source: Source, folder: Path) -> list[str]:
    """Paths on this machine that hold all columns of the source, those of its folders' names, too.

    Args:
        source: of which only footers, and some records at a time, come into memory.
        folder: private folder for a copy, where the files are elsewhere or do not hold all columns.

    Raises:
        SchemaError: if a file is no whole Parquet file, or the files differ in their columns.
    """
    schemas = []
    for file, name in zip(source.files, source.names, strict=True):
        with reading(name), source.filesystem.open(file, "rb") as stream:
            schemas.append(source_footer(stream, name).schema)
        check_equal(schemas[0], schemas[-1], source.names[0], name)
    alike = all(found.equals(schemas[0]) for found in schemas)
    if source.is_local and alike and not any(map(partition_values, source.names)):
        return list(source.files)
    target = folder / "source.parquet"
    with private_parquet(target) as copy:
        copy.write(plain_columns(schemas[0].empty_table(), schemas[0].names))
        for part in regrouped(_parts(source, schemas[0].names)):
            copy.write(part)
    return [str(target)]


def _parts(source: Source, columns: list[str]) -> "Iterator[pa.Table]":
    """The records of all files, in the order of the file names, some at a time."""
    for file, name in zip(source.files, source.names, strict=True):
        with reading(name), source.filesystem.open(file, "rb") as stream:
            yield from tables_of(stream, name, columns)
