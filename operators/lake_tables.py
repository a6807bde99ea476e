"""Which release tables a lake has."""

from typing import TYPE_CHECKING

from operators.lake_store import listing

if TYPE_CHECKING:
    from operators.lake_store import Lake


def table_names(lake: "Lake") -> list[str]:
    """Names of the tables that have, or had, a release; sorted.

    A table is known by its folder of proofs, which outlives its releases: object stores list no folder
    without the files in it, and a release has few proofs but may have many data files.

    Raises:
        PublishError: if the lake cannot be reached.
    """
    return sorted({file.path.split("/")[1] for file in listing(lake, "_proof") if file.path.count("/") == 2})
