"""Read the records that a budget is spent on, in the types that their file declares."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.tables.domains import Storage
    from privacy_engine.tables.schema import DataSchema


def typed_records(
    table: Table, schema: "DataSchema", earlier: "Mapping[str, Storage] | None" = None
) -> "pd.DataFrame":
    """Return a staged table whose columns have the types of the file, whether there are nulls or not.

    Args:
        table: Reference to the staged table.
        schema: Schema of the table.
        earlier: Types of the release that this one continues, whose domains stay. None: there is none.

    Raises:
        IntegrityError: If the file is missing, changed or incomplete.
    """
    from privacy_engine.tables.domains import with_nullable_types

    return with_nullable_types(table.frame(), schema, earlier)
