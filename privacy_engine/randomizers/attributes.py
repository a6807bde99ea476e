"""What is randomized in an attribute: the labels of a public domain, or points between public bounds."""

import math

import numpy as np

from privacy_engine.errors import SchemaError
from privacy_engine.randomizers.channel import LARGEST
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL
from privacy_engine.tables.domains import SINGLE_VALUES, LabelledDomain, Storage, public_domain
from privacy_engine.tables.scales import DEFAULT_BINS, Scale
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role


def randomized(schema: DataSchema) -> tuple[Attribute, ...]:
    """Quasi-identifiers and sensitive attributes; insensitive ones are released unchanged.

    Raises:
        SchemaError: If there is none, or one is a date.
    """
    found = tuple(a for a in schema.attributes if a.role in (Role.QUASI_IDENTIFIER, Role.SENSITIVE))
    if not found:
        raise SchemaError("a schema must have a quasi-identifier or sensitive attribute to randomize")
    if dated := [a.name for a in found if a.dates is not None]:
        raise SchemaError(
            f"{dated} are dates, but random answers only support numbers and categories. Write their "
            "periods as text in the source and list them as categories, or take a synthesizer"
        )
    return found


def is_numeric(attribute: Attribute) -> bool:
    """Whether its values are numbers and not listed."""
    return attribute.ordered and attribute.categories is None


def listed_domain(attribute: Attribute, storage: Storage) -> LabelledDomain:
    """The codes of an attribute whose values are listed in the schema.

    Raises:
        SchemaError: If they are not, or there are too few or too many of them.
    """
    domain = public_domain(attribute, storage)
    if not isinstance(domain, LabelledDomain):
        raise SchemaError(f"{attribute.name!r} must have categories or a hierarchy in the schema")
    if not 2 <= domain.size <= LARGEST:
        raise SchemaError(f"{attribute.name!r} must have 2 to {LARGEST} public values, got {domain.size}")
    return domain


def labels_of(attribute: Attribute) -> tuple[str, ...]:
    """The public labels of a listed attribute in the order of its codes, a null last.

    Raises:
        SchemaError: As ``listed_domain``.
    """
    domain = listed_domain(attribute, Storage.TEXT)
    ordered = tuple(domain.labels[i] for i in np.argsort(domain.groups, kind="stable"))
    return (*ordered, NULL) if domain.nullable else ordered


def bounds_of(attribute: Attribute) -> tuple[float, float]:
    """The public bounds of a numeric attribute that is never null.

    Raises:
        SchemaError: If it has none, may be null, or has a logarithmic scale.
    """
    require_never_null(attribute)
    require_linear(attribute)
    if attribute.bounds is None:
        raise SchemaError(
            f"{attribute.name!r} must have bounds in the schema: they are never taken from the data"
        )
    return attribute.bounds


def require_never_null(attribute: Attribute) -> None:
    """Refuse a nullable number.

    Raises:
        SchemaError: If so.
    """
    if attribute.nullable:
        raise SchemaError(
            f"{attribute.name!r} must not be nullable to be randomized as a number: drop its nulls at ingest"
        )


def require_linear(attribute: Attribute) -> None:
    """Refuse a logarithmic scale, because random answers are made on an even one.

    Raises:
        SchemaError: If the schema requires one.
    """
    if attribute.scale is not None and attribute.scale is not Scale.LINEAR:
        raise SchemaError(
            f"{attribute.name!r} must have no scale other than linear to be randomized, got "
            f"{attribute.scale.value}: remove it, or use a synthesizer"
        )


def bin_points(attribute: Attribute) -> tuple[float, float, int]:
    """First and last midpoint and number of an attribute's equal-width public bins.

    Few whole numbers between the bounds of an ordinal attribute have a bin each.

    Raises:
        SchemaError: As ``bounds_of``.
    """
    low, high = bounds_of(attribute)
    first, last = math.ceil(low), math.floor(high)
    if attribute.kind is Kind.ORDINAL and 1 < last - first + 1 <= (attribute.bins or SINGLE_VALUES):
        return float(first), float(last), last - first + 1
    bins = attribute.bins or DEFAULT_BINS
    if not 2 <= bins <= LARGEST:
        raise SchemaError(f"{attribute.name!r} must have 2 to {LARGEST} bins, got {bins}")
    half = (high - low) / bins / 2
    return low + half, high - half, bins


def step_points(attribute: Attribute, steps: int) -> tuple[float, float, int]:
    """Bounds and number of equally spaced points; whole numbers where an ordinal attribute has few.

    Raises:
        SchemaError: As ``bounds_of``.
    """
    low, high = bounds_of(attribute)
    first, last = math.ceil(low), math.floor(high)
    if attribute.kind is Kind.ORDINAL and 1 < last - first + 1 <= steps + 1:
        return float(first), float(last), last - first + 1
    return low, high, steps + 1


def point_labels(low: float, high: float, count: int) -> tuple[str, ...]:
    """Distinct texts of equally spaced points."""
    return tuple(repr(float(point)) for point in np.linspace(low, high, count))
