"""A table in the work area: its records, schema, origin, outliers, persons and engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_release.workarea.references.files import Described, FileRef, NumberedRef, PersonsRef, Stored
from privacy_release.workarea.references.reference import Reference, need
from privacy_release.workarea.references.source import SourceRef

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.tables.domains import Storage
    from privacy_engine.tables.schema import DataSchema

SUPPRESSED = "suppress"  # action on outliers, see `privacy_release.spec.outliers.Action`


@dataclass(frozen=True, kw_only=True)
class OutlierRef(Reference):
    """The result of one search for outliers: counts, and the location of the scores in the work area.

    Attributes:
        records: Number of examined records.
        flagged: Number of outliers.
        share: Share of outliers among the records.
        pruned: Share of the records that needed no computation.
        threshold: Score above which records are outliers. None if a number of outliers was requested.
        removed: Number of records removed from the table.
        scores: Path of score and flags by position.
        aside: Path of the removed records.
    """

    method: str
    action: str
    records: int
    flagged: int
    share: float
    pruned: float
    threshold: float | None
    removed: int
    scores: str
    aside: str | None = None


@dataclass(frozen=True, kw_only=True)
class EngineRef(Reference):
    """The engine of a table, see `privacy_release.workarea.engines`.

    Attributes:
        kind: `local` (the whole table in memory), `fragments` or `spark`.
        rows: Largest number of records in a fragment.
        memory: Bytes that an aggregation may use.
        processes: Number of processes that work on fragments. None: one per core, as far as memory allows.
        connection: Airflow connection ID of the Spark session.
    """

    kind: str
    rows: int
    memory: int
    processes: int | None
    connection: str


@dataclass(frozen=True, kw_only=True)
class Table(Stored, Described, Reference):
    """A table in the work area. `schema` is the path of its schema, as JSON.

    Attributes:
        engine: Engine of a table that no step may hold in memory as a whole. Otherwise absent.
        numbered: Numbering of persons that is the same in every run. Absent if numbers are of one run.
        holdout: Records of the people who were held out, for attacks on the release.
    """

    uri: str
    rows: int
    sha256: str
    schema: str
    source: SourceRef
    outliers: list[OutlierRef] = field(default_factory=list)
    persons: PersonsRef | None = None
    engine: EngineRef | None = None
    numbered: NumberedRef | None = None
    holdout: FileRef | None = None

    def typed_frame(
        self, schema: "DataSchema", earlier: "Mapping[str, Storage] | None" = None
    ) -> "pd.DataFrame":
        """Return all records in columns of the types of the file, whether there are nulls or not.

        Args:
            schema: Schema of the records.
            earlier: Types of the release that this one continues, whose domains stay. None: there is none.

        Raises:
            IntegrityError: If the file is missing, changed or incomplete.
        """
        from privacy_engine.tables.domains import with_nullable_types

        return with_nullable_types(self.frame(), schema, earlier)

    @property
    def is_in_fragments(self) -> bool:
        """Whether an engine works on the table in parts, because no step may hold it in memory as a whole."""
        return self.engine is not None

    @property
    def follows_people(self) -> bool:
        """Whether the person of each record is kept, so that releases can be compared by person."""
        return self.persons is not None

    @property
    def numbers_people(self) -> bool:
        """Whether a person has the same number in every run."""
        followed = self.persons is not None and self.persons.may_have_several_records
        return followed or self.numbered is not None

    @property
    def working_engine(self) -> EngineRef:
        """The engine that works on the table in parts.

        Raises:
            IntegrityError: If there is none.
        """
        return need(self.engine, "engine")

    @property
    def followed_persons(self) -> PersonsRef:
        """The persons of the records.

        Raises:
            IntegrityError: If people are not followed.
        """
        return need(self.persons, "persons")

    @property
    def suppressed(self) -> int:
        """Number of outliers that count as suppressed, which the release method is not given."""
        return sum(found.removed for found in self.outliers if found.action == SUPPRESSED)

    @property
    def rows_with_suppressed(self) -> int:
        """Number of records that the release stands for: those of the table, and the suppressed ones."""
        return self.rows + self.suppressed

    @property
    def held_out(self) -> FileRef:
        """The records of the people who were held out.

        Raises:
            SpecError: If no one was held out.
        """
        if self.holdout is None:
            raise SpecError(
                "attacks need people who were held out of the release, but no one was; hold them out before "
                "the release is made"
            )
        return self.holdout
