"""Rules on the columns and types of Parquet sources about people. Identifiers stay in the source.

The footers of all files are checked against the schema before any record is read (`check_source`), and again
with the records (`privacy_release.sources.records`), because a file may be replaced in between.
"""

import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa
import pyarrow.types as t

from privacy_engine.engines.frames import plain_columns, plain_type, to_frame
from privacy_engine.errors import SchemaError
from privacy_engine.pipeline import each_ahead
from privacy_engine.tables.columns import factorize, number_text, text_in_full
from privacy_engine.tables.dates import is_zone
from privacy_engine.vocabulary import Kind, Role
from privacy_release.sources.addresses import Source, partition_values, reading
from privacy_release.sources.footers import SourceFooter, source_footer
from privacy_release.sources.listing import without_values
from privacy_release.workarea.parquet import MAX_EXPANSION

if TYPE_CHECKING:
    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema

Nulls = Literal["fail", "drop", "keep"]
_MOST_DIGITS = 18  # of whole numbers in 64 bits
_SHOWN = 100  # characters of a type that are shown
_THREADS = 8  # threads that read footers, which takes a while from an object store
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")  # a leaf that is a number
_INDEX = re.compile(r"__index_level_\d+__")  # pandas' row index, which is no column of the table


class Footers(NamedTuple):
    """The facts from the footers of a source.

    Attributes:
        rows: Number of records in each file.
        types: Common type of each column whose types differ between files.
    """

    rows: list[int]
    types: "Mapping[str, pa.DataType]"


def check_source(
    source: Source,
    schema: "DataSchema",
    columns: Sequence[str] | None = None,
    max_expansion: int = MAX_EXPANSION,
) -> Footers:
    """Check the columns and types of every file against the schema. Only footers are read.

    Args:
        source: Files of the source.
        schema: Schema that the columns must match, including its identifiers.
        columns: Columns to check. None: all.
        max_expansion: Largest ratio of bytes in memory to bytes in a file, see `footers.Expansion`.

    Raises:
        SchemaError: Naming file, column, rule and remedy.
    """
    partitions = partition_types(source, schema)

    def look(file: str, name: str) -> SourceFooter:
        with reading(name), source.filesystem.open(file, "rb") as stream:
            return source_footer(stream, name, max_expansion, partitions)

    files = [*zip(source.files, source.names, strict=True)]
    with each_ahead(lambda item: look(*item), files, _THREADS) as looked:
        footers = list(looked)
    types = common_types([found for found, _ in footers])
    first = in_common_types(footers[0][0], types)
    for name, (found, _) in zip(source.names, footers, strict=True):
        alike = in_common_types(found, types)
        check_arrow(alike, name, schema, columns)
        check_equal(first, alike, source.names[0], name, columns)
    return Footers(rows=[rows for _, rows in footers], types=types)


def common_types(files: "Sequence[pa.Schema]") -> "dict[str, pa.DataType]":
    """Return the common type of each column that has one although its types differ between files.

    This is a column without any value in some files, which have no type for it, or one of whole numbers of
    different widths. Other differences are left to `check_equal`.
    """
    kinds: dict[str, set[pa.DataType]] = {}
    for found in files:
        for field in found:
            kinds.setdefault(field.name, set()).add(plain_type(field.type))
    common = {name: _common_type(own) for name, own in kinds.items() if len(own) > 1}
    return {name: kind for name, kind in common.items() if kind is not None}


def in_common_types(found: "pa.Schema", types: "Mapping[str, pa.DataType]") -> "pa.Schema":
    """Return the columns of a file with common types, if the file's own types can be read as those."""
    for place, field in enumerate(found):
        kind = types.get(field.name)
        if kind is not None and _common_type({kind, plain_type(field.type)}) == kind:
            found = found.set(place, field.with_type(kind))
    return found


def _common_type(kinds: "Collection[pa.DataType]") -> "pa.DataType | None":
    """Return the type among some types, or 64-bit integers, that holds all their values."""
    known = {kind for kind in kinds if not t.is_null(kind)}
    if len(known) == 1:
        return known.pop()
    if known and all(t.is_integer(kind) and kind != pa.uint64() for kind in known):
        return pa.int64()
    return None


def kept_schema(schema: "DataSchema", individual: str | None = None) -> "DataSchema":
    """Return the schema of what is read: without identifiers, except for an individual or a person.

    Raises:
        SchemaError: If one of these is no identifier of the schema.
    """
    names = [a.name for a in schema.identifiers]
    if schema.by and schema.by not in names:
        raise SchemaError(
            f"person must be an identifier of the schema, {names}, got {schema.by!r}: give its column the "
            "role identifier"
        )
    kept = {name for name in (individual, schema.by) if name}
    if not kept:
        return schema.without_identifiers()
    if individual is not None and individual not in names:
        raise SchemaError(
            f"the individual must be named by an identifier of the schema, {names}, got {individual!r}: give "
            "its column the role identifier"
        )
    return schema.select([name for name in schema.names if name in kept or name not in names])


def partition_types(source: Source, schema: "DataSchema") -> dict[str, "pa.DataType"]:
    """Return the types of the columns from folder names, as the schema expects them.

    Numbers for numeric and ordinal attributes, whole ones if all folders have whole numbers; dates and times
    in ISO's form if the schema states no format; otherwise text.

    Raises:
        SchemaError: Naming the column, if the name of a folder does not have the form.
    """
    values: dict[str, list[str]] = {}
    for name in source.names:
        for column, value in partition_values(name).items():
            values.setdefault(column, [])
            if value is not None:
                values[column].append(value)
    types = {}
    for column in (c for c in values if c in schema.names):
        attribute, kind = schema[column], pa.string()
        if attribute.dates is not None and attribute.dates.format is None:
            kind = pa.date32() if attribute.kind is Kind.DATE else pa.timestamp("us")
        elif attribute.dates is None and attribute.ordered and attribute.categories is None:
            whole = all(re.fullmatch(r"[+-]?\d{1,18}", value) for value in values[column])
            kind = pa.int64() if whole else pa.float64()
        for value in dict.fromkeys(values[column]):
            _partition_cell(column, value, kind)
        types[column] = kind
    return types


def _partition_cell(column: str, value: str | None, kind: "pa.DataType") -> "pa.Scalar":
    """Convert the value in a folder name to its type."""
    try:
        return pa.scalar(value, pa.string()).cast(kind)
    except pa.ArrowException:
        raise SchemaError(
            f"{column}: folder names must have values of type {kind} according to the schema, but some do "
            "not; correct the kind, or the names of the folders"
        ) from None


def wanted_columns(
    table: "pa.Table",
    name: str,
    wanted: Sequence[str],
    types: "Mapping[str, pa.DataType] | None" = None,
) -> "pa.Table":
    """Return records of a file, with the columns of its folders, in the given order and in plain types."""
    stored = table.column_names
    for column, value in partition_values(name).items():
        if column in wanted and column not in stored:
            cell = _partition_cell(column, value, (types or {}).get(column, pa.string()))
            table = table.append_column(column, pa.repeat(cell, len(table)))
    return plain_columns(table, wanted)


def read_type(kind: "pa.DataType", attribute: "Attribute") -> "pa.DataType":
    """Return the type in which a column is read if the schema is more specific; otherwise its own type.

    Decimals without a fraction are whole numbers if they are codes or categories: NUMBER(p, 0) is Oracle's
    only type of whole numbers. Whole numbers such as 20150317 are dates if their format begins with the
    year: numbers have no leading zeros, and 3012015 may be two days.

    Numbers become text if the leaves of their hierarchy are written differently from released numbers.

    32-bit floats become doubles: a bound or a leaf of 0.3 is not a 32-bit float, but the values of the column
    are. Values that are released unchanged keep their type, unless the schema states their domain.
    """
    whole = t.is_decimal128(kind) and kind.scale == 0 and kind.precision <= _MOST_DIGITS
    if attribute.dates is not None:
        starts = (attribute.dates.format or "").startswith("%Y")
        return pa.string() if starts and (whole or t.is_integer(kind)) else kind
    if attribute.role is Role.IDENTIFIER:
        return kind
    if _leaves_of_numbers(kind, attribute):
        return pa.string()
    if whole and (attribute.nominal or attribute.categories is not None):
        return pa.int64()
    if t.is_float32(kind) and (attribute.role is Role.QUASI_IDENTIFIER or attribute.has_public_domain):
        return pa.float64()
    return kind


def in_read_types(
    table: "pa.Table", schema: "DataSchema", types: "Mapping[str, pa.DataType] | None" = None
) -> "pa.Table":
    """Convert records to the types of `read_type`. A 32-bit float becomes the double of its shortest decimal.

    Args:
        table: Records in plain types.
        schema: Schema of the source. Columns that it does not name are unchanged.
        types: Common types, as from `common_types`.
    """
    table = table.cast(in_common_types(table.schema, types or {}))
    for place, name in enumerate(table.column_names):
        own = table.schema.field(name).type
        kind = read_type(own, schema[name]) if name in schema.names else own
        if kind == own:
            continue
        leaves = _leaves_of_numbers(own, schema[name])
        read = _as_leaves(table.column(name), leaves) if leaves else table.column(name).cast(pa.string())
        table = table.set_column(place, name, read.cast(kind))
    return table


def _leaves_of_numbers(kind: "pa.DataType", attribute: "Attribute") -> dict[str, str]:
    """Return the written leaf of each number in a hierarchy over a column of numbers.

    Empty if all leaves are written like the column's numbers, and for other columns. ARX writes 6.0 for the 6
    of a column of doubles.
    """
    number = t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)
    if not number or not attribute.nominal or attribute.hierarchy is None or attribute.coding is not None:
        return {}
    numbers = {text_in_full(leaf): leaf for leaf in attribute.hierarchy.values if _NUMBER.fullmatch(leaf)}
    alike = all(leaf in (number, number_text(float(leaf))) for number, leaf in numbers.items())
    return {} if alike else numbers


def _as_leaves(column: "pa.ChunkedArray", leaves: Mapping[str, str]) -> "pa.Array":
    """Write numbers like the leaves of a hierarchy. Other numbers are unchanged."""
    coded = factorize(to_frame(pa.table({"numbers": column}))["numbers"])
    texts = pa.array([*(leaves.get(text_in_full(text), text) for text in coded.texts), None], pa.string())
    return texts.take(pa.array(coded.codes % len(texts)))  # null, with code -1, is the last


def check_arrow(found: "pa.Schema", name: str, schema: "DataSchema", columns: Sequence[str] | None) -> None:
    """Check columns and types of one file."""
    read, taken = schema.read, {a.name for a in schema.attributes if a.derive} & {*found.names}
    if columns is not None:
        read.check_columns(columns)
    elif taken:
        raise SchemaError(
            f"{without_values(name)}: columns {sorted(taken)} are derived, but the source has them, too: "
            "rename those of the schema, or name the columns to read"
        )
    wanted = set(read.names if columns is None else columns)
    present = [c for c in found.names if c in wanted or (columns is None and not _INDEX.fullmatch(c))]
    try:
        read.check_columns(present)
    except SchemaError as error:
        raise SchemaError(f"{without_values(name)}: {error}") from None
    problems = [
        f"{attribute.name}: {problem}"
        for attribute in read.attributes
        if (problem := problem_of_type(found.field(attribute.name).type, attribute, schema))
    ]
    if problems:
        raise SchemaError(f"{without_values(name)}: {'; '.join(problems)}")


def check_equal(
    first: "pa.Schema",
    other: "pa.Schema",
    first_name: str,
    name: str,
    columns: Sequence[str] | None = None,
) -> None:
    """Raise unless two files of a source have the same types. All forms of text are one type.

    Args:
        first: Columns of the first file.
        other: Columns of another file.
        first_name: Name of the first file, for errors.
        name: Name of the other file.
        columns: Columns to read. None: all.

    Raises:
        SchemaError: Naming both files, the columns that differ and the remedy.
    """
    types = {f.name: plain_type(f.type) for f in first}
    differing = {f.name for f in other if f.name in types and types[f.name] != plain_type(f.type)}
    differing |= set(first.names) ^ set(other.names)
    if columns is not None:
        differing &= set(columns)
    if differing:
        raise SchemaError(
            f"all files must have the same columns and types; {without_values(first_name)} and "
            f"{without_values(name)} differ in {sorted(differing)}: write them alike, or remove these "
            "columns from `source.columns`"
        )


def never_null(schema: "DataSchema") -> list[str]:
    """Return the columns that a released record must have a value in: its person, and not nullable ones."""
    named = [a.name for a in schema.identifiers if a.name == schema.by]
    return [*named, *(a.name for a in (*schema.quasi_identifiers, *schema.sensitive) if not a.nullable)]


def require_left(rows: int, left: int) -> None:
    """Raise if dropping nulls leaves no record.

    Raises:
        SchemaError: If there were records and none is left.
    """
    if rows and not left:
        raise SchemaError(
            f"all {rows} records have a null in a quasi-identifier or sensitive attribute: correct the source"
        )


def problem_of_type(kind: "pa.DataType", attribute: "Attribute", schema: "DataSchema") -> str | None:
    """Return what is wrong with the type of a column, and the remedy. None if it fits.

    Identifiers may have any type, because they are not read, unless they have pseudonyms, or dates are
    shifted by them, or columns are derived from them.
    """
    if t.is_dictionary(kind):
        kind = kind.value_type
    kind = read_type(kind, attribute)
    if t.is_timestamp(kind) and kind.tz and not _is_known(kind.tz):
        return "its time zone is not in the time zone database: write the column in UTC"
    number = t.is_integer(kind) or t.is_floating(kind)
    if attribute.role is Role.IDENTIFIER and attribute.name not in schema.derived_from:
        keyed = attribute.pseudonym is not None or attribute.name == schema.shifted_by
        if not keyed or number or _is_text(kind):
            return None
        what = "have a pseudonym" if attribute.pseudonym else "shift dates by"
        return f"must be text or a whole number to {what}, got {_shown(kind)}: cast it in the source"
    if attribute.dates is not None:
        return _problem_of_dates(kind, attribute)
    if attribute.coding is not None and (
        problem := attribute.coding.type_problem(number=number, whole=t.is_integer(kind))
    ):
        return problem
    if t.is_date(kind) or t.is_timestamp(kind):
        wanted = "date" if t.is_date(kind) else "timestamp, or of kind date without its time of the day,"
        return (
            f"must be of kind {wanted} because it is {_shown(kind)}, got {attribute.kind.value}: state that "
            "kind, and to which precision it may be known"
        )
    if attribute.ordered and attribute.categories is None:
        if number or t.is_decimal128(kind):
            return None
        remedy = "cast it to double" if t.is_decimal(kind) or _is_text(kind) else "cast it to a number"
        rule = f"must be a number because it is {attribute.kind.value}"
        return f"{rule}, got {_shown(kind)}: {remedy}, or make it categorical"
    if _is_text(kind) or number or t.is_boolean(kind):
        return None
    if attribute.role is Role.INSENSITIVE and t.is_decimal128(kind):
        return None
    rule = "must be text, a number or a truth value"
    return f"{rule}, got {_shown(kind)}: cast it in the source, or do not read it"


def _problem_of_dates(kind: "pa.DataType", attribute: "Attribute") -> str | None:
    """Return the same for an attribute of kind date or timestamp."""
    if t.is_timestamp(kind) or (t.is_date(kind) and attribute.kind is Kind.DATE):
        zoned = t.is_timestamp(kind) and kind.tz is not None
        if zoned or attribute.dates is None or attribute.dates.zone is None:
            return None
        return (
            f"must have a zone in the file because its `zone` is set, got {_shown(kind)}: remove `zone` "
            "if the values are of that clock, or write the column as timestamps with a zone, such as UTC"
        )
    if t.is_date(kind):
        return f"must have a time of the day as a timestamp, got {_shown(kind)}: make it kind: date"
    if not _is_text(kind):
        return f"must hold dates, times or text with a format, got {_shown(kind)}: cast it in the source"
    if attribute.dates is not None and attribute.dates.format is None:
        return "is text, so it must have a format: state it, such as format: '%Y-%m-%d'"
    return None


def _is_known(zone: str) -> bool:
    return bool(re.fullmatch(r"[+-]\d\d:\d\d", zone)) or is_zone(zone)


def _shown(kind: "pa.DataType") -> str:
    """Return a type in a few words: a deeply nested one takes pages."""
    return textwrap.shorten(str(kind), _SHOWN)


def _is_text(kind: "pa.DataType") -> bool:
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))
