"""The origin of a table's records: address, counts, and what was done to them while they were read."""

from dataclasses import dataclass, field
from typing import Any

from privacy_release.workarea.references.reference import Reference


@dataclass(frozen=True, kw_only=True)
class ShiftRef(Reference):
    """The shift of dates, by at most a number of days per person: a disguise, not a guarantee.

    Attributes:
        scope: Scope in which a person's dates are shifted by the same number of days, and its series.
        key: Fingerprint of the key.
        promise: Promise of the shift, in words.
    """

    columns: list[str]
    days: int
    scope: str
    series: str
    key: str
    promise: str


@dataclass(frozen=True, kw_only=True)
class TransformRef(Reference):
    """A step of the user's own code after ingest.

    Attributes:
        code: SHA-256 of the code.
        before, rows: Numbers of records before and after the step.
        row_by_row: Whether it is known that each record was made from one record, independently of others.
    """

    name: str
    code: str
    before: int
    rows: int
    row_by_row: bool


@dataclass(frozen=True, kw_only=True)
class SourceRef(Reference):
    """The origin of records.

    Attributes:
        files: Number of files.
        fingerprint: Hash that changes with the data.
        rows: Number of records in the source, including dropped ones.
        dropped: Number of records omitted because of nulls.
        identifiers: Columns that stayed in the source.
        text: Number of records with findings in text that the schema allows or redacts, by column and kind.
        derived: Derivation of each derived column, as in the schema.
        tables: Origin of each of several tables that are read as one.
        query: SHA-256 of the text of the query that gave the records.
        guessed: Whether column types were inferred from the values, because the database declares none.
        version: Version of the source table.
        transforms: Transformations of the records since, in order.
        holdout: Share of the people who were then held out as the control group of attacks.
        expectations: Numbers of expectations: defined, evaluated and met.
        classification: SHA-256 of the classification that the columns were checked against, if there is one.
        left_out: Names of hidden and empty files of the folder, which were not read.
        unchecked: Number of files whose pages have no checksums.
    """

    uri: str
    files: int
    fingerprint: str
    rows: int
    dropped: int
    identifiers: list[str]
    text: dict[str, dict[str, int]] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    shifted: ShiftRef | None = None
    tables: "dict[str, SourceRef]" = field(default_factory=dict)
    query: str | None = None
    guessed: bool = False
    version: int | None = None
    transforms: list[TransformRef] = field(default_factory=list)
    holdout: float | None = None
    expectations: dict[str, int] | None = None
    classification: str | None = None
    left_out: list[str] = field(default_factory=list)
    unchecked: int = 0

    @property
    def of_tables(self) -> "list[SourceRef]":
        """The origins of several tables, or the only one."""
        return list(self.tables.values()) or [self]

    @property
    def files_left_out(self) -> list[str]:
        """Names of the files of the source, or of all its tables, that were not read."""
        return [name for own in self.of_tables for name in own.left_out]
