"""A hash of the rows of a release that does not depend on their order or their distribution over files.

Anyone can compute it again. A row is text: for each column, in the order that the statement names, `n` for a
null, otherwise `v`, the length of the cell's text in bytes of UTF-8, a colon, and the text. The text of a
cell is

- for text: itself; for a truth value: `true` or `false`; for a whole or decimal number: its digits;
- for a float: its 32 or 64 bits (IEEE 754, sign first) as digits 0 and 1;
- for a date: days since 1970-01-01; for a time stamp: microseconds since then, UTC.

Each row is hashed (SHA-256, lower-case hexadecimal digits). The hashes are sorted, including repeated ones,
and concatenated, and the result is hashed. Unlike a sum of hashes, this is as hard to forge as SHA-256
itself, and DuckDB can sort it on disk if it does not fit into memory.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from privacy_engine.engines.closed import CLOSED, Setting
from privacy_engine.errors import CapacityError, IntegrityError, SchemaError
from privacy_engine.foreign import translated

_BATCH = 100_000  # number of hashes in memory
_PLAIN = {"VARCHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
_PLAIN |= {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}


@contextmanager
def hashing_database(folder: Path, memory: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory for `rows_digest`. Opening it takes longer than hashing a small release.

    Args:
        folder: Private folder for sorting hashes that do not fit into memory.
        memory: Largest memory to use, in bytes.
    """
    config: dict[str, Setting] = {
        **CLOSED,
        "memory_limit": f"{memory // 2}B",
        "temp_directory": str(folder / "digest"),
    }
    with duckdb.connect(":memory:", config=config) as database:
        yield database


def rows_digest(
    files: Sequence[Path], columns: Sequence[str], database: duckdb.DuckDBPyConnection
) -> tuple[str, int]:
    """Return the hash of the rows in Parquet files, and the number of rows.

    Args:
        files: Files with all of the columns, and possibly more.
        columns: Columns to hash, in this order.
        database: Database that hashes and sorts, such as a `hashing_database`.

    Raises:
        IntegrityError: If the files cannot be read, or lack a column.
        SchemaError: If a column has a type that no release has.
        CapacityError: If memory and disk are too small.
    """
    whole, rows = hashlib.sha256(), 0
    try:
        kinds, source = _kinds(database, files), _source(files)
        cells = ", ".join(_cell(name, kinds) for name in columns)
        database.execute(f"SELECT sha256(concat({cells})) AS h FROM {source} ORDER BY h")
        while found := database.fetchmany(_BATCH):
            rows += len(found)
            whole.update("".join(h for (h,) in found).encode())
    except duckdb.OutOfMemoryException:
        raise CapacityError("hashing the rows needs more memory or disk; give it more") from None
    except duckdb.Error as error:
        raise translated(error, "hashing the rows") or IntegrityError(
            f"the files of the release must be whole Parquet files of its columns, got {type(error).__name__}"
        ) from None
    return whole.hexdigest(), rows


def filled_columns(
    files: Sequence[Path], columns: Sequence[str], database: duckdb.DuckDBPyConnection
) -> list[str]:
    """Return columns of Parquet files, other than these, that have a value.

    Raises:
        IntegrityError: If the files cannot be read.
    """
    try:
        others = [name for name in _kinds(database, files) if name not in columns]
        if not others:
            return []
        counts = ", ".join(f"count({_quoted(name)})" for name in others)
        found = database.execute(f"SELECT {counts} FROM {_source(files)}").fetchall()
    except duckdb.Error as error:
        raise IntegrityError(
            f"the files of the release must be whole Parquet files, got {type(error).__name__}"
        ) from None
    return [name for name, count in zip(others, found[0], strict=True) if count]


def _source(files: Sequence[Path]) -> str:
    """Return SQL for the rows of the files. Folder names are no columns."""
    names = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    return f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"


def _kinds(database: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> dict[str, str]:
    """Return the DuckDB type of each column."""
    described = database.execute(f"DESCRIBE SELECT * FROM {_source(files)}").fetchall()
    return {name: kind for name, kind, *_ in described}


def _cell(name: str, kinds: Mapping[str, str]) -> str:
    """Return SQL for the text of a cell in its row."""
    if name not in kinds:
        raise IntegrityError(f"the files of the release must have the column {name}, but they do not")
    kind = kinds[name]
    column = _quoted(name)
    if kind in ("FLOAT", "DOUBLE"):
        text = f"CAST(CAST({column} AS BIT) AS VARCHAR)"
    elif kind == "DATE":
        text = f"CAST({column} - DATE '1970-01-01' AS VARCHAR)"
    elif kind.startswith("TIMESTAMP"):
        text = f"CAST(epoch_us({column}) AS VARCHAR)"
    elif kind in _PLAIN or kind.startswith("DECIMAL"):
        text = f"CAST({column} AS VARCHAR)"
    else:
        raise SchemaError(f"column {name} must be text, a number, a truth value or a time, got {kind}")
    return f"CASE WHEN {column} IS NULL THEN 'n' ELSE concat('v', strlen({text}), ':', {text}) END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
