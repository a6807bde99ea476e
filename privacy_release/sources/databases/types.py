"""The types that columns of a query have in a table: declared by the database, else by values or the schema.

Only PostgreSQL declares types that can be relied on. Of other databases they follow from the first values or,
where a privacy budget pays, from the schema: one record, 50 or 50.5, would change a type that is read off
the values, and no noise covers that.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.types as t

from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import value_text
from privacy_engine.vocabulary import Kind

if TYPE_CHECKING:
    from privacy_engine.tables.schema import Attribute, DataSchema

Types = Literal["values", "schema"]  # where undeclared types come from
LONGEST = 1 << 24  # characters of a text in a table
_MOST_DIGITS = 38  # libpq says 65,535 of a numeric without a precision
# PostgreSQL's numbers of types (pg_type.dat) -> Arrow's names; the same on every server.
_TYPES: Mapping[int, str] = MappingProxyType(
    {
        **{16: "bool", 20: "int64", 21: "int16", 23: "int32", 26: "int64", 700: "float32", 701: "float64"},
        **dict.fromkeys((19, 25, 1042, 1043, 2950), "string"),  # name, text, char, varchar, uuid
        **{1082: "date32", 1114: "timestamp", 1184: "timestamptz", 1700: "numeric"},
    }
)


def attribute_of(schema: "DataSchema | None", name: str) -> "Attribute | None":
    """What the schema says of a column; None where there is no schema, or the column is not in it."""
    return schema[name] if schema is not None and name in schema.names else None


def type_of(
    name: str,
    declared: Any,
    values: Sequence[Any],
    attribute: "Attribute | None",
    place: str,
    types: Types = "values",
) -> "pa.DataType":
    """The type of a column: as the database declares it, else as `types` says.

    Args:
        name: of the column.
        declared: what PostgreSQL says of it; None: the database declares no types.
        values: the first ones.
        attribute: what the schema says of it.
        place: for errors.
        types: `values`: by the first values, and by the schema where all are null; `schema`: by the schema.

    Raises:
        SchemaError: if no table can have the type, or the schema says too little.
    """
    if declared is None and types == "schema":
        return by_schema(attribute, name, place)
    known = [value for value in values if value is not None]
    told = _TYPES.get(declared.type_code, "") if declared is not None else _told_by(known)
    if told == "numeric":
        precision, scale = getattr(declared, "precision", None), getattr(declared, "scale", None)
        return numeric(precision or 0, scale or 0, attribute, name, place)
    if told == "null":
        return expected(attribute)
    if not told:
        raise unfit(name, place)
    return {"timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}.get(
        told
    ) or pa.type_for_alias(told)


def by_schema(attribute: "Attribute | None", name: str, place: str) -> "pa.DataType":
    """The type of a column by its schema alone: the same whatever its values are.

    Numbers are double, those of kind ordinal whole; labels are text, unless all of the domain are whole
    numbers, or truth values.

    Args:
        attribute: what the schema says of it.
        name: of the column.
        place: for errors.

    Raises:
        SchemaError: if the schema says too little.
    """
    if attribute is None or (attribute.kind is Kind.ORDINAL and not attribute.has_public_domain):
        raise SchemaError(
            f"{place}: the type of column {name!r} must follow from the schema where a privacy budget pays, "
            "because the database declares none: give it categories, bounds or a hierarchy in the schema, or "
            "leave it out of the query"
        )
    if attribute.dates is not None:
        return pa.string() if attribute.dates.format is not None else _of_dates(attribute)
    labels = attribute.categories or (attribute.hierarchy.values if attribute.hierarchy else None)
    if labels is None:
        return {Kind.NUMERIC: pa.float64(), Kind.ORDINAL: pa.int64()}.get(attribute.kind, pa.string())
    if set(labels) <= {"True", "False"}:
        return pa.bool_()
    return pa.int64() if all(map(_is_whole, labels)) else pa.string()


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number as it is written, without zeros before it, of at most 18 digits."""
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) <= 18
    return plain and str(int(text)) == text


def numeric(
    precision: int, scale: int, attribute: "Attribute | None", name: str, place: str
) -> "pa.DataType":
    """The type of a column of decimals; 0 or more digits than Arrow has: it has no precision.

    Raises:
        SchemaError: if it has none and is no number by the schema.
    """
    if 0 < precision <= _MOST_DIGITS:
        return pa.decimal128(precision, scale)
    # without a precision a later value may have more digits than any type that is taken from the first
    if attribute is not None and not attribute.ordered:
        raise unfit(name, place)
    return pa.float64()


def _told_by(values: Sequence[Any]) -> str:
    """The type of values as Python has them; empty where it is none of a table."""
    kinds = {type(value).__name__ for value in values}
    if not kinds:
        return "null"
    if kinds == {"datetime"}:
        zones = {value.tzinfo is not None for value in values}
        return "" if len(zones) > 1 else "timestamptz" if zones == {True} else "timestamp"
    if kinds <= {"int", "float"}:
        return "int64" if kinds == {"int"} else "float64"
    names = {"bool": "bool", "str": "string", "UUID": "string", "date": "date32", "Decimal": "numeric"}
    return names.get(kinds.pop(), "") if len(kinds) == 1 else ""


def expected(attribute: "Attribute | None") -> "pa.DataType":
    """The type of a column of which only nulls are known."""
    if attribute is not None and attribute.dates is not None and attribute.dates.format is None:
        return _of_dates(attribute) if attribute.dates.zone is None else pa.timestamp("us", "UTC")
    ordered = attribute is not None and attribute.ordered and attribute.categories is None
    return pa.float64() if ordered and attribute is not None and attribute.dates is None else pa.string()


def _of_dates(attribute: "Attribute") -> "pa.DataType":
    """The type of dates, or of times without a zone."""
    return pa.date32() if attribute.kind is Kind.DATE else pa.timestamp("us")


def array_of(
    values: list[Any], kind: "pa.DataType", name: str, place: str, types: Types = "values"
) -> "pa.Array":
    """A column of a batch.

    Args:
        values: of the column, as Python has them.
        kind: the type of the column.
        name: of the column.
        place: for errors.
        types: where the type comes from: what means the same in a type by the schema is written in it.

    Raises:
        SchemaError: if a value is of another type, or a text too long.
    """
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    require_short(longest, name, place)
    try:
        if types == "schema":
            values = [_same(value, kind) for value in values]
        if t.is_string(kind):
            values = [str(v) if type(v).__name__ == "UUID" else v for v in values]
        elif t.is_integer(kind) and any(v % 1 for v in values if v is not None):  # pyarrow would cut them
            raise mixed(name, kind, place)
        elif t.is_floating(kind):
            values = [None if v is None else float(v) for v in values]
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise mixed(name, kind, place) from None


def _same(value: Any, kind: "pa.DataType") -> Any:
    """What a value means in a type that follows from the schema; itself where it means nothing else there."""
    if t.is_string(kind) and type(value).__name__ in ("bool", "int", "float", "Decimal"):
        return value_text(value)
    if t.is_integer(kind) and isinstance(value, str) and _is_whole(value):
        return int(value)
    if t.is_boolean(kind) and type(value) is int and value in (0, 1):  # databases without a type for truths
        return bool(value)
    return value


def require_short(longest: int, name: str, place: str) -> None:
    """Refuse a text that nothing about a person is as long as, before gigabytes are looked through.

    Args:
        longest: characters or bytes of the longest text of a batch.
        name: of its column.
        place: for the error.

    Raises:
        SchemaError: naming the limit and the remedy.
    """
    if longest > LONGEST:
        raise SchemaError(
            f"{place}: column {name!r} must hold no text of more than {LONGEST:,} characters; leave it out, "
            "or cut it in the query, such as left(..., 1000)"
        )


def mixed(name: str, kind: "pa.DataType", place: str) -> SchemaError:
    """The error of a column with values of more than one type."""
    return SchemaError(
        f"{place}: column {name!r} must hold values of one type, {kind} by its declaration, the schema or "
        "its first values; cast it in the query"
    )


def unfit(name: str, place: str) -> SchemaError:
    """The error of a column whose type no table here can have."""
    return SchemaError(
        f"{place}: column {name!r} has a type that no table here can have; cast it in the query, such as "
        "CAST(... AS text), AS double precision or AS numeric(12, 2)"
    )
