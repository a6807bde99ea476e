"""Private files in the work area, how they are read, and those that hold keyed hashes of people."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError
from privacy_release.workarea.file_sets import files_of, paths_of
from privacy_release.workarea.parquet import read_private, require_unchanged, unchanged_batches
from privacy_release.workarea.references.reference import Reference

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from privacy_engine.tables.schema import DataSchema


def read_json(path: str) -> dict[str, Any]:
    """Read a JSON file of the work area.

    Raises:
        IntegrityError: If the file is missing or damaged.
    """
    try:
        return dict(json.loads(Path(path).read_bytes()))
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"{Path(path).name} must be in the work area, got {type(error).__name__}; run from ingest again"
        ) from None


def read_schema(path: str) -> "DataSchema":
    """Read a schema from the work area. Raises as `read_json`."""
    from privacy_engine.tables.schema import DataSchema

    return DataSchema.from_dict(read_json(path))


class Described:
    """Records with a schema, whose path in the work area is `schema`."""

    schema: str

    def read_schema(self) -> "DataSchema":
        """Return the schema. Raises as `read_json`."""
        return read_schema(self.schema)


class Stored:
    """A private file in the work area, or the list of a set of files, with the hash that was recorded.

    Whatever is read is compared with that hash, see `privacy_release.workarea.parquet`.
    """

    uri: str
    sha256: str

    def frame(self) -> "pd.DataFrame":
        """Return all records. Raises as `read_private`."""
        return read_private(self.uri, self.sha256)

    def batches(self, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
        """Yield the records in batches, in order. Raises as `unchanged_batches`.

        Args:
            columns: Columns to read. None: all.
        """
        return unchanged_batches(self.uri, self.sha256, columns)

    def paths(self) -> list[str]:
        """Return the paths of the files, for an engine, which reads them unchecked."""
        return paths_of(self.uri, self.sha256)

    def first_path(self) -> Path:
        """Return the path of the first file, whose columns are those of all."""
        return next(iter(files_of(self.uri, self.sha256)))

    def require_unchanged(self) -> None:
        """Raise if the bytes are not the recorded ones. Raises as `parquet.require_unchanged`."""
        require_unchanged(self.uri, self.sha256)


@dataclass(frozen=True, kw_only=True)
class FileRef(Stored, Reference):
    """A private file in the work area."""

    uri: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class KeyedRef(FileRef):
    """A private file of keyed hashes of identifiers.

    Attributes:
        key: ID of the key of the hashes.
        form: Form of an identifier that distinguishes persons, see `privacy_release.workarea.people`.
    """

    key: str
    form: str


@dataclass(frozen=True, kw_only=True)
class PersonsRef(KeyedRef):
    """The persons of a table's records, in order.

    Attributes:
        owners: Form of the identifiers of persons, if persons may have several records. The file then
            identifies records, and a person has the same number in every run.
    """

    owners: str | None = None

    @property
    def may_have_several_records(self) -> bool:
        """Whether a person may have several records, so that the file identifies records."""
        return self.owners is not None


@dataclass(frozen=True, kw_only=True)
class NumberedRef(KeyedRef):
    """The numbering of persons that is the same in every run, as a file of texts not in their normal form."""


@dataclass(frozen=True, kw_only=True)
class PeopleRef(FileRef):
    """The person of each released record. `of` is the SHA-256 of these records."""

    of: str
