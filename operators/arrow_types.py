"""Which Arrow types an attribute of a schema may have, and what to do about the others."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from privacy_engine.schema import Attribute


def problem_of_type(kind: "pa.DataType", attribute: "Attribute") -> str | None:
    """What is wrong with the type of a column, and the remedy; None if it fits.

    Identifiers may have any type: they are not read.
    """
    import pyarrow.types as t

    from privacy_engine.schema import Role

    if attribute.role is Role.IDENTIFIER:
        return None
    if t.is_dictionary(kind):
        kind = kind.value_type
    number = t.is_integer(kind) or t.is_floating(kind)
    if attribute.ordered and attribute.categories is None:
        if number:
            return None
        remedy = "cast it to double" if t.is_decimal(kind) or _is_text(kind) else "cast it to a number"
        rule = f"must be a number because it is {attribute.kind.value}"
        return f"{rule}, got {kind}: {remedy}, or make it categorical"
    if _is_text(kind) or number or t.is_boolean(kind):
        return None
    if attribute.role is Role.INSENSITIVE and (
        t.is_date(kind) or t.is_timestamp(kind) or t.is_decimal128(kind)
    ):
        return None
    return f"must be text, a number or a truth value, got {kind}: cast it in the source, or do not read it"


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))
