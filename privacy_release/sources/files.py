"""Provide a source's files for libraries that read Parquet by path: as they are, or as a private copy."""

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
    """Return local paths that have all columns of the source, including those from its folders' names.

    Args:
        source: Source, of which only footers and batches of records are read into memory.
        folder: Private folder for a copy, if the files are elsewhere or lack columns.

    Raises:
        SchemaError: If a file is no complete Parquet file, or the columns of the files differ.
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
    """Yield the records of all files in batches, in the order of the file names."""
    for file, name in zip(source.files, source.names, strict=True):
        with reading(name), source.filesystem.open(file, "rb") as stream:
            yield from tables_of(stream, name, columns)
