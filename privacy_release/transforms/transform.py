"""A step of the user's own: it reads ingested tables and stages a new one, like ingest.

While the step runs, each record has a number in the column `_record`, and each resulting row must still have
it. By this number, the row gets back the columns that identify whose record it is: the person's column, the
identifier of memoised answers, the hashes for models across releases. So no step can lose or multiply people
unnoticed. The result is copied like a source: checked against its schema, and searched for addresses and
names in text, and for nearly unique columns.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from privacy_engine.engines.frames import plain_columns
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import copy_source
from privacy_release.sources.reading import check_source
from privacy_release.sources.records import CopyRules
from privacy_release.spec.classification import classification, require_classified
from privacy_release.spec.selects import RECORD, RECORDS
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import private_parquet
from privacy_release.workarea.references import PersonsRef, StagedRelease, Table, TransformRef
from privacy_release.workarea.staged import write_schema

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Numbers of records that no step makes by counting: position times `stride` plus `offset`."""

    stride: int
    offset: int

    @classmethod
    def of(cls, table: Table) -> "Numbers":
        """Return the numbers of a table, the same whenever a step is repeated."""
        digest = hashlib.sha256(f"records of {table.sha256}".encode()).digest()
        return cls(stride=int.from_bytes(digest[:2]) + 65_537, offset=int.from_bytes(digest[2:7]) + (1 << 40))

    def positions(self, numbers: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
        """Return the position of each record, shape (n,), -1 if it is none."""
        at, rest = np.divmod(numbers - self.offset, self.stride)
        return np.where(rest == 0, at, -1)


@dataclass(frozen=True, kw_only=True)
class Output:
    """The result of a step.

    Attributes:
        batches: Resulting records, ordered by `RECORD`.
        row_by_row: Whether it is known that each record became one record independently.
    """

    batches: Iterator["pa.RecordBatch"]
    row_by_row: bool


class TransformStep(Protocol):
    """A step that makes a table from tables."""

    @property
    def name(self) -> str:
        """Its name in manifests."""

    @property
    def sha256(self) -> str:
        """SHA-256 of its code."""

    def made_of(self, columns: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the columns of `records` that each column is computed from. A missing one may use any.

        Args:
            columns: Columns of `records`, without `RECORD`.
        """

    def run(self, tables: Mapping[str, Table], folder: Path) -> AbstractContextManager[Output]:
        """Run it over the tables of these names, with private files in this folder."""


def transform(
    table: Table,
    work: WorkArea,
    step: TransformStep,
    *,
    others: Mapping[str, Table] | None = None,
    schema: "DataSchema | None" = None,
    label: str = "transform",
) -> Table:
    """Run a step over an ingested table and stage the result.

    Args:
        table: Table from `ingest`, or from another step.
        work: Work area in which the new table is kept until teardown.
        step: Step to run.
        others: Further ingested tables that it may read, by the names that it uses.
        schema: Schema of the resulting columns, without those that identify persons, which stay. None: that
            of the table.
        label: Prefix of the file names.

    Raises:
        SpecError: If the table was already searched for outliers or released, or is one of several that share
            persons, or has pseudonyms.
        SchemaError: If rows lost their record's number or, if each record is of another person, repeat one;
            or if the result does not fit the schema.
        IntegrityError: If a table changed since it was ingested.
        CapacityError: If the disk or the memory is too small.
    """
    _require_between(table, others or {})
    old = table.read_schema()
    _require_plain(old)
    new = _joined(old, schema)
    if (classes := classification()) is not None:
        require_classified([table.source.classification])
        made_of = step.made_of([a.name for a in old.without_identifiers().attributes]) if not others else {}
        classes.require_made(new, old, made_of)
    for ref in (table, *(others or {}).values()):
        ref.require_unchanged()
    made, path = work.path(f"{label}.made.parquet"), work.path(f"{label}.parquet")
    kept = _kept(table, old)
    rows = _Rows(kept=kept, once=not old.by, name=step.name, table=table)
    try:
        with step.run({RECORDS: table, **(others or {})}, work.create().folder) as output:
            alone = output.row_by_row
            with private_parquet(made) as file:
                for batch in output.batches:
                    file.write(rows.named(batch))
                if not file.rows:
                    raise SchemaError(f"the step {step.name} left no record: nothing can be released")
        source = find_source(str(made))
        source = replace(source, names=(f"the result of the step {step.name}",))
        check_source(source, new)
        individual = next((n for n in kept.column_names if n != old.by), None)
        read = copy_source(source, new, path, CopyRules(individual=individual))
    finally:
        with suppress(FileNotFoundError):
            made.unlink()
    entry = TransformRef(
        name=step.name, code=step.sha256, before=table.rows, rows=read.rows, row_by_row=alone
    )
    origin = replace(
        table.source,
        transforms=[*table.source.transforms, entry],
        text=table.source.text | read.text,
    )
    persons = table.persons
    if persons is not None:
        persons = _followed(persons, rows.positions(), work.path(f"{label}.persons.parquet"))
    return replace(
        table,
        uri=str(path),
        rows=read.rows,
        sha256=read.sha256,
        schema=write_schema(work, label, read.schema),
        source=origin,
        persons=persons,
        numbered=None,  # the persons have new numbers
    )


def _require_between(table: Table, others: Mapping[str, Table]) -> None:
    """Raise if references are no ingested tables, or a step would come in the wrong order."""
    for ref in (table, *others.values()):
        if isinstance(ref, StagedRelease) or not isinstance(ref, Table):
            raise SpecError(
                "a step of your own must be between ingest and release: what was released, measured or "
                "cut into fragments must not change; put it before the release"
            )
        if ref.source.tables:
            raise SpecError(
                "tables that share persons must be released as they were read; transform each in its source"
            )
    if table.outliers:
        raise SpecError(
            "a step of your own must precede the search for outliers, whose findings are about these records "
            "by position; put it before"
        )
    if wrong := [n for n in others if n == RECORDS or not n.isidentifier()]:
        raise SpecError(f"other tables must have plain names other than {RECORDS}, got {wrong}; rename them")


def _require_plain(schema: "DataSchema") -> None:
    if named := [a.name for a in schema.attributes if a.pseudonym is not None]:
        raise SpecError(
            f"a step of your own must not change records with pseudonyms, but {named} are some: transform in "
            "the source, or remove the pseudonyms"
        )


def _joined(old: "DataSchema", new: "DataSchema | None") -> "DataSchema":
    """Return the schema of the result. Columns that identify persons stay as they are."""
    old = old.without_zones()
    if new is None:
        return old
    if named := [a.name for a in new.identifiers]:
        raise SpecError(
            f"the schema of a step must have no identifiers, got {named}: they stayed in the source, and "
            "the columns that identify persons are kept automatically; remove them"
        )
    return DataSchema((*old.identifiers, *new.attributes), old.person)


def _kept(table: Table, schema: "DataSchema") -> "pa.Table":
    """Return the columns that identify persons, of all records: eight bytes per record for a person."""
    names = [a.name for a in schema.identifiers]
    if not names:
        return pa.table({})
    return pa.Table.from_batches(table.batches(names))


class _Rows:
    """The rows of a step, with the columns that identify whose record each is.

    Args:
        kept: Columns that identify persons, by the number of a record.
        once: Whether a record may occur only once, because it counts as a person.
        name: Name of the step, for errors.
        table: Table that the records come from.
    """

    def __init__(self, *, kept: "pa.Table", once: bool, name: str, table: Table) -> None:
        self._kept, self._once, self._name = kept, once, name
        self._total, self._numbers = table.rows, Numbers.of(table)
        self._last = -1
        self._positions: list[npt.NDArray[np.int64]] = []

    def named(self, batch: "pa.RecordBatch") -> "pa.Table":
        """Return rows without the number, but with the columns that identify persons."""
        numbers = batch.column(RECORD) if RECORD in batch.schema.names else None
        if numbers is None or numbers.null_count or not t.is_integer(numbers.type):
            raise SchemaError(
                f"the step {self._name} must keep the column {RECORD}, a whole number without nulls: it "
                "identifies the record of each row; do not change it"
            )
        positions = self._numbers.positions(numbers.cast(pa.int64()).to_numpy())
        steps = np.diff(positions, prepend=self._last)
        if len(positions) and (positions.min() < 0 or positions.max() >= self._total or steps.min() < 0):
            raise SchemaError(f"the step {self._name} must not change the column {RECORD}, but it did")
        if self._once and (again := int((steps == 0).sum())):
            raise SchemaError(
                f"the step {self._name} must not repeat a record if each is of another person, but it "
                f"repeated {again} or more: join by a key that is unique in the other table; or name the "
                "column that identifies the person of a row as `person`"
            )
        if len(positions):
            self._last = int(positions[-1])
        self._positions.append(positions)
        own = [n for n in batch.schema.names if n != RECORD and n not in self._kept.column_names]
        table = plain_columns(pa.Table.from_batches([batch]), own)
        for name in self._kept.column_names:
            table = table.append_column(name, self._kept.column(name).take(pa.array(positions)))
        return table

    def positions(self) -> "npt.NDArray[np.int64]":
        """The position of the record of each row, shape (n,)."""
        return np.concatenate(self._positions)


def _followed(persons: PersonsRef, positions: "npt.NDArray[Any]", path: Path) -> PersonsRef:
    """Write the persons of the rows to a new file."""
    whole = pa.Table.from_batches(persons.batches())
    with private_parquet(path) as file:
        file.write(whole.take(pa.array(positions)))
    return PersonsRef(uri=str(path), sha256=file.sha256, key=persons.key, form=persons.form)
