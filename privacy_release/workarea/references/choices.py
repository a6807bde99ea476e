"""The records on which choices of a release are measured, and the figures of each choice."""

from dataclasses import dataclass
from typing import Any, Literal

from privacy_release.workarea.references.files import Described, FileRef
from privacy_release.workarea.references.reference import Reference
from privacy_release.workarea.references.table import Table

Origin = Literal["source", "public", "simulated", "booked"]


@dataclass(frozen=True, kw_only=True)
class RecordsFileRef(FileRef):
    """A Parquet file in the work area."""

    rows: int


@dataclass(frozen=True, kw_only=True)
class RecordsRef(Described, Reference):
    """The records on which choices are measured, for any process that reaches the work area.

    Attributes:
        origin: Origin of the records.
        made_from: File of the records to release.
        held_out: File of other records of the same population, to test a classifier.
        schema: Path of the schema.
        policy: Policy that a release must meet.
        target: Attribute that a classifier predicts. None: no classifier is trained.
        source_rows: Number of records that they were drawn from.
        smallest_count: Smallest count that is shown.
        seed: Seed of the methods' random choices, and of drawings for their measurement.
        table: Table of the source, if its budget pays for the measurement.
    """

    origin: Origin
    made_from: RecordsFileRef
    held_out: RecordsFileRef
    schema: str
    policy: dict[str, Any]
    target: str | None
    source_rows: int
    smallest_count: int
    seed: int
    table: Table | None


@dataclass(frozen=True, kw_only=True)
class MeasuredRef(FileRef):
    """The file of a choice's figures in the work area. The reference contains no figure.

    Attributes:
        name: Name of the choice.
        made: Whether a release could be made.
    """

    name: str
    made: bool
