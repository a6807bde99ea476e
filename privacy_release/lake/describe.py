"""The metadata of a table that every Delta client sees: its description and the comments on its columns."""

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
    """The texts in a table's metadata.

    Attributes:
        description: Description of the table. Empty: the description is not changed.
        comments: Comment on each column, by name. Other columns are not changed.
    """

    description: str = ""
    comments: Mapping[str, str] = field(default_factory=dict)

    def of(self, schema: "pa.Schema") -> "pa.Schema":
        """Return a schema with the comments, for columns that a table does not have yet."""
        return pa.schema(
            [
                field.with_metadata({_COMMENT: self.comments[field.name]})
                if field.name in self.comments
                else field
                for field in schema
            ]
        )


def describe(lake: Lake, table: "DeltaTable", words: Words) -> None:
    """Update description and comments of a table, each change in a commit without rows.

    Raises:
        CommitFailedError: If a conflicting commit came first.
        PublishError: If the lake cannot be reached.
    """
    with reaching(lake, "describe the table"):
        held = {column.name: column.metadata for column in table.schema().fields}
        for name, comment in words.comments.items():
            if name in held and held[name].get(_COMMENT) != comment:
                table.alter.set_column_metadata(name, {_COMMENT: comment})
        if words.description and table.metadata().description != words.description:
            table.alter.set_table_description(words.description)
