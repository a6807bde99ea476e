"""Convert a CSV file to a Parquet file, because releases read Parquet only.

CSV has no types. A column becomes whole numbers, numbers or dates only if all its values are written in that
form; numbers with leading zeros, such as postcodes, stay text. An empty field is a null.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from privacy_engine.engines.parquet import regrouped
from privacy_engine.errors import MissingSourceError, SchemaError
from privacy_engine.foreign import translated
from privacy_release.config.places import require_allowed
from privacy_release.workarea.parquet import private_parquet

_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_DELIMITERS = ",;\t|"
_HEADER = 1 << 16  # bytes in which the first line must end
_WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


def is_csv(path: Path) -> bool:
    """Return whether a path is a file of this machine that its name calls CSV."""
    return path.name.lower().endswith(_ENDINGS) and path.is_file()


def converted(path: Path) -> Path:
    """Write the rows of a CSV file to a new Parquet file next to it, readable only by this user.

    Memory: one block of the file, which is read twice.

    Args:
        path: File in UTF-8 with column names in its first line. Commas, semicolons, tabs or bars separate
            its fields.

    Raises:
        SpecError: If no release of this deployment may read the path.
        SchemaError: If the file cannot be read as CSV, two columns have one name, or the Parquet file exists.
        MissingSourceError: If there are no rows.
        CapacityError: If the disk or the memory is too small.
    """
    require_allowed(str(path))
    ending = next(e for e in sorted(_ENDINGS, key=len, reverse=True) if path.name.lower().endswith(e))
    target = path.with_name(path.name[: -len(ending)] + ".parquet")
    if target.exists():
        raise SchemaError(
            f"{target} exists, and is never overwritten; use it as TABLE, or remove it to convert {path.name}"
        )
    with _reading(path):
        delimiter = _delimiter(path)
        with _opened(path, delimiter, {}) as reader:
            names = reader.schema.names
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise SchemaError(f"{path.name}: column names must be unique, got {repeated} more than once")
        types = _types(path, delimiter, names)
        with _opened(path, delimiter, types) as reader, private_parquet(target) as file:
            for part in regrouped(pa.Table.from_batches([batch]) for batch in reader):
                file.write(part)
            if not file.rows:
                raise MissingSourceError(f"{path.name}: the table is empty: nothing can be released")
    return target


def _types(path: Path, delimiter: str, names: list[str]) -> dict[str, pa.DataType]:
    """Return the type of each column: the first one that all values fit, and text without any value."""
    fitting = {name: [pa.int64(), pa.float64(), pa.date32()] for name in names}
    valued = set()
    with _opened(path, delimiter, dict.fromkeys(names, pa.string())) as reader:
        for batch in reader:
            for name in names:
                values = batch.column(name).drop_null()
                if len(values):
                    valued.add(name)
                    fitting[name] = [kind for kind in fitting[name] if _fits(values, kind)]
    return {n: kinds[0] if kinds and n in valued else pa.string() for n, kinds in fitting.items()}


def _fits(values: pa.Array, kind: pa.DataType) -> bool:
    """Return whether all texts are written as a type of number, or as ISO dates."""
    if pa.types.is_date(kind):
        try:
            values.cast(kind)
        except pa.ArrowInvalid:
            return False
        return True
    form = _WHOLE if pa.types.is_integer(kind) else _NUMBER
    return bool(pc.all(pc.match_substring_regex(values, form)).as_py())


@contextmanager
def _opened(path: Path, delimiter: str, types: dict[str, pa.DataType]) -> Iterator[csv.CSVStreamingReader]:
    with csv.open_csv(
        path,
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True),
    ) as reader:
        yield reader


def _delimiter(path: Path) -> str:
    """Return the delimiter that is most frequent in the first line."""
    with pa.input_stream(path) as stream:
        first = stream.read(_HEADER).partition(b"\n")[0]
    return max(_DELIMITERS, key=lambda mark: first.count(mark.encode()))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of the CSV reader, which quote rows, into one that does not."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
        raise SchemaError(
            f"{path.name} must be CSV in UTF-8 with column names in its first line and as many fields in "
            f"each row, got {type(error).__name__}; correct it, or convert it to Parquet"
        ) from None
    except OSError as error:
        raise translated(error, f"reading {path.name}") or SchemaError(
            f"{path.name} could not be read ({type(error).__name__}); correct its permissions"
        ) from None
