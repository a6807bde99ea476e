"""Compare the column types of a coming release with its release table before the method runs."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as t

from privacy_engine.engines.frames import to_frame
from privacy_engine.registry import is_anonymizer, is_randomizer, shown_method
from privacy_engine.tables.domains import Storage, with_nullable_types
from privacy_engine.vocabulary import Intervals, Role, bounds_of
from privacy_release.lake.log import open_table
from privacy_release.lake.rows import plain_type
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.judge import refuse
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.spec.model import ReleaseSpec


def check_types_of(spec: "ReleaseSpec", table: Table, release_table: "ReleaseTable") -> None:
    """Call `check_kept_types` with the values of a specification."""
    release, scheduled = spec.release, spec.budget is not None and spec.budget.schedule is not None
    check_kept_types(table, release.method, release.parameters, release_table, scheduled=scheduled)


def check_kept_types(
    table: Table,
    method: str,
    parameters: Mapping[str, Any],
    release_table: "ReleaseTable",
    *,
    scheduled: bool = False,
) -> None:
    """Raise if columns of the release will have other types than the release table, as far as is known.

    Publishing compares all types again.

    Args:
        table: Reference to the ingested table.
        method: Registry key of the method.
        parameters: Parameters of the method.
        release_table: The release table.
        scheduled: Whether a schedule pays. Its first release decides all types, so nothing is compared here.

    Raises:
        SchemaError: Naming the columns and both types.
        PublishError: If the lake cannot be reached.
    """
    if scheduled:
        return
    if made := made_types(table, method, parameters):
        refuse(Facts(kept_types=kept_types(release_table), made_types=made))


def kept_types(table: "ReleaseTable") -> dict[str, str]:
    """Return the type of each column of a release table, by name. Empty if there is no table yet.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    delta = open_table(table)
    return {} if delta is None else {field.name: str(field.type) for field in pa.schema(delta.schema())}


def made_types(table: Table, method: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the types of the numeric columns of a release that follow from the schema and the file.

    The types of other columns are only known after the method has run.

    Args:
        table: Reference to the ingested table.
        method: Registry key of the method.
        parameters: Parameters of the method.
    """
    schema: DataSchema = table.read_schema()
    method, parameters = shown_method(method, parameters)
    if is_randomizer(method) or schema.tables:
        return {}
    columns = pq.read_schema(table.first_path())
    known = [a for a in schema.without_identifiers().attributes if a.name in columns.names]
    numbers = [a for a in known if a.dates is None and a.pseudonym is None and a.coding is None]
    if not is_anonymizer(method):
        return dict(_drawn(columns, schema, numbers))
    in_bounds = (parameters.get("intervals") or Intervals.BOUNDS) == Intervals.BOUNDS
    return dict(_anonymized(columns, numbers, in_bounds=in_bounds))


def _drawn(
    columns: "pa.Schema", schema: "DataSchema", attributes: "list[Attribute]"
) -> Iterator[tuple[str, str]]:
    """Yield the types of columns of records that are drawn from a model."""
    empty = with_nullable_types(to_frame(columns.empty_table()), schema)
    types = {Storage.WHOLE: "int64", Storage.REAL: "double"}
    for attribute in attributes:
        if (storage := Storage.of(empty[attribute.name], attribute)) in types:
            yield attribute.name, types[storage]


def _anonymized(
    columns: "pa.Schema", attributes: "list[Attribute]", *, in_bounds: bool
) -> Iterator[tuple[str, str]]:
    """Yield the types of numbers that are released unchanged, and of the bounds of intervals."""
    for attribute in attributes:
        kind = columns.field(attribute.name).type
        if not (t.is_integer(kind) or t.is_floating(kind) or t.is_decimal128(kind)):
            continue
        if attribute.role is not Role.QUASI_IDENTIFIER:
            yield attribute.name, str(plain_type(attribute.name, kind))
        elif in_bounds and attribute.ordered and attribute.categories is None:
            wide = "int64" if t.is_integer(kind) else "double" if t.is_floating(kind) else str(kind)
            yield from ((end, wide) for end in bounds_of(attribute.name)[:2])
