"""Column types of a query in a table: declared by the database, or else from the values or the schema.

Only PostgreSQL declares reliable types. For other databases they follow from the first values or, if a
privacy budget pays, from the schema: a single record, 50 or 50.5, could change a type that is inferred from
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
    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema

Types = Literal["values", "schema"]  # origin of undeclared types
LONGEST = 1 << 24  # largest number of characters in a text of a table
_MOST_DIGITS = 38  # libpq reports 65,535 for a numeric without a precision
# PostgreSQL's type numbers (pg_type.dat), the same on every server -> Arrow's names.
_TYPES: Mapping[int, str] = MappingProxyType(
    {
        **{16: "bool", 20: "int64", 21: "int16", 23: "int32", 26: "int64", 700: "float32", 701: "float64"},
        **dict.fromkeys((19, 25, 1042, 1043, 2950), "string"),  # name, text, char, varchar, uuid
        **{1082: "date32", 1114: "timestamp", 1184: "timestamptz", 1700: "numeric"},
    }
)


def attribute_of(schema: "DataSchema | None", name: str) -> "Attribute | None":
    """Return a column's attribute. None if there is no schema, or the column is not in it."""
    return schema[name] if schema is not None and name in schema.names else None


def type_of(
    name: str,
    declared: Any,
    values: Sequence[Any],
    attribute: "Attribute | None",
    place: str,
    types: Types = "values",
) -> "pa.DataType":
    """Return the type of a column: as the database declares it, or else by the rule in `types`.

    Args:
        name: Name of the column.
        declared: PostgreSQL's description of it. None: the database declares no types.
        values: First values of the column.
        attribute: Attribute in the schema. None if there is none.
        place: Name of the source, for errors.
        types: `values`: by the first values, and by the schema if all are null. `schema`: by the schema.

    Raises:
        SchemaError: If no table can have the type, or the schema does not determine it.
    """
    if declared is None and types == "schema":
        return by_schema(attribute, name, place)
    known = [value for value in values if value is not None]
    type_name = _TYPES.get(declared.type_code, "") if declared is not None else _python_type(known)
    if type_name == "numeric":
        precision, scale = getattr(declared, "precision", None), getattr(declared, "scale", None)
        return numeric(precision or 0, scale or 0, attribute, name, place)
    if type_name == "null":
        return expected(attribute)
    if not type_name:
        raise unfit(name, place)
    return {"timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}.get(
        type_name
    ) or pa.type_for_alias(type_name)


def by_schema(attribute: "Attribute | None", name: str, place: str) -> "pa.DataType":
    """Return the type of a column by its schema only, independent of its values.

    Numbers are double, but whole numbers for kind ordinal. Labels are text, unless the whole domain consists
    of whole numbers or truth values.

    Args:
        attribute: Attribute in the schema. None if there is none.
        name: Name of the column.
        place: Name of the source, for errors.

    Raises:
        SchemaError: If the schema does not determine the type.
    """
    if attribute is None or (attribute.kind is Kind.ORDINAL and not attribute.has_public_domain):
        raise SchemaError(
            f"{place}: the type of column {name!r} must follow from the schema if a privacy budget pays, "
            "because the database declares none: give it categories, bounds or a hierarchy in the schema, or "
            "omit it from the query"
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
    """Return whether a text is a whole number in plain form, without leading zeros, of at most 18 digits."""
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) <= 18
    return plain and str(int(text)) == text


def numeric(
    precision: int, scale: int, attribute: "Attribute | None", name: str, place: str
) -> "pa.DataType":
    """Return the type of a column of decimals. Digits of 0, or more than Arrow has, mean no precision.

    Raises:
        SchemaError: If it has no precision and is no number in the schema.
    """
    if 0 < precision <= _MOST_DIGITS:
        return pa.decimal128(precision, scale)
    # without a precision, a later value may have more digits than any type inferred from the first
    if attribute is not None and not attribute.ordered:
        raise unfit(name, place)
    return pa.float64()


def _python_type(values: Sequence[Any]) -> str:
    """Return the type of Python values. Empty if no table can have it."""
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
    """Return the type of a column of which only nulls are known."""
    if attribute is not None and attribute.dates is not None and attribute.dates.format is None:
        return _of_dates(attribute) if attribute.dates.zone is None else pa.timestamp("us", "UTC")
    ordered = attribute is not None and attribute.ordered and attribute.categories is None
    return pa.float64() if ordered and attribute is not None and attribute.dates is None else pa.string()


def _of_dates(attribute: "Attribute") -> "pa.DataType":
    """Return the type of dates, or of times without a zone."""
    return pa.date32() if attribute.kind is Kind.DATE else pa.timestamp("us")


def array_of(
    values: list[Any], kind: "pa.DataType", name: str, place: str, types: Types = "values"
) -> "pa.Array":
    """Return a column of a batch as an array.

    Args:
        values: Python values of the column.
        kind: Type of the column.
        name: Name of the column.
        place: Name of the source, for errors.
        types: Origin of the type. If it is the schema, values with the same meaning are converted to it.

    Raises:
        SchemaError: If a value is of another type, or a text is too long.
    """
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    require_short(longest, name, place)
    try:
        if types == "schema":
            values = [_same(value, kind) for value in values]
        if t.is_string(kind):
            values = [str(v) if type(v).__name__ == "UUID" else v for v in values]
        elif t.is_integer(kind) and any(v % 1 for v in values if v is not None):  # pyarrow would truncate
            raise mixed(name, kind, place)
        elif t.is_floating(kind):
            values = [None if v is None else float(v) for v in values]
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise mixed(name, kind, place) from None


def _same(value: Any, kind: "pa.DataType") -> Any:
    """Convert a value to a type from the schema if that keeps its meaning. Otherwise leave it unchanged."""
    if t.is_string(kind) and type(value).__name__ in ("bool", "int", "float", "Decimal"):
        return value_text(value)
    if t.is_integer(kind) and isinstance(value, str) and _is_whole(value):
        return int(value)
    if t.is_boolean(kind) and type(value) is int and value in (0, 1):  # some databases have no truth values
        return bool(value)
    return value


def require_short(longest: int, name: str, place: str) -> None:
    """Raise if a text is longer than any fact about a person, before gigabytes are searched.

    Args:
        longest: Characters or bytes of the longest text of a batch.
        name: Name of its column.
        place: Name of the source, for the error.

    Raises:
        SchemaError: Naming the limit and the remedy.
    """
    if longest > LONGEST:
        raise SchemaError(
            f"{place}: column {name!r} must hold no text of more than {LONGEST:,} characters; omit it, "
            "or cut it in the query, such as left(..., 1000)"
        )


def mixed(name: str, kind: "pa.DataType", place: str) -> SchemaError:
    """Return the error for a column with values of several types."""
    return SchemaError(
        f"{place}: column {name!r} must hold values of one type, {kind} by its declaration, the schema or "
        "its first values; cast it in the query"
    )


def unfit(name: str, place: str) -> SchemaError:
    """Return the error for a column with a type that no table can have."""
    return SchemaError(
        f"{place}: column {name!r} has a type that no table can have here; cast it in the query, such as "
        "CAST(... AS text), AS double precision or AS numeric(12, 2)"
    )
