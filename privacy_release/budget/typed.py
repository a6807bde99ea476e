"""The records that a budget is spent on, in the types that their file declares."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.tables.domains import Storage
    from privacy_engine.tables.schema import DataSchema


def typed_records(
    table: Table, schema: "DataSchema", earlier: "Mapping[str, Storage] | None" = None
) -> "pd.DataFrame":
    """A staged table whose columns have the types of the file, whether nulls occur among their values or not.

    Args:
        table: that was staged.
        schema: of it.
        earlier: storages of the release that this one goes on from, whose domains stay; None: of none.

    Raises:
        IntegrityError: if the file is missing, changed or not whole.
    """
    from privacy_engine.tables.domains import with_nullable_types

    return with_nullable_types(read_private(table.uri, table.sha256), schema, earlier)
