"""What a table says of itself to every Delta client: its description and the comments of its columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from privacy_release.lake.store import Lake, reaching

if TYPE_CHECKING:
    from deltalake import DeltaTable

_COMMENT = "comment"


@dataclass(frozen=True, kw_only=True)
class Words:
    """What stands in a table's own metadata.

    Attributes:
        description: of the table; empty: it is left as it is.
        comments: by column; columns that are not named are left as they are.
    """

    description: str = ""
    comments: Mapping[str, str] = field(default_factory=dict)

    def of(self, schema: "pa.Schema") -> "pa.Schema":
        """A schema with the comments, for columns that a table does not have yet."""
        return pa.schema(
            [
                field.with_metadata({_COMMENT: self.comments[field.name]})
                if field.name in self.comments
                else field
                for field in schema
            ]
        )


def describe(lake: Lake, table: "DeltaTable", words: Words) -> None:
    """Bring description and comments of a table up to date, each change in a commit without rows.

    Raises:
        CommitFailedError: if a conflicting commit got ahead.
        PublishError: if the lake cannot be reached.
    """
    with reaching(lake, "describe the table"):
        held = {column.name: column.metadata for column in table.schema().fields}
        for name, comment in words.comments.items():
            if name in held and held[name].get(_COMMENT) != comment:
                table.alter.set_column_metadata(name, {_COMMENT: comment})
        if words.description and table.metadata().description != words.description:
            table.alter.set_table_description(words.description)
