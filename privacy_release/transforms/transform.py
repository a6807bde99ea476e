"""A step of the user's own: it reads ingested tables and stages a new one, as ingest would have.

Each record has a number, in the column `_record`, while the step sees it, and each row that comes out must
still have it. By it the row gets back what tells whose record it is: the person's column, the identifier of
memoised answers, the hashes for models across releases. So no step loses or multiplies people in silence.
What comes out is copied as a source is: held against its schema, looked through for addresses and names in
text, and for columns that are nearly unique.
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
from privacy_release.spec.classification import classification, require_classified
from privacy_release.spec.selects import RECORD, RECORDS
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import private_parquet, require_unchanged, unchanged_batches
from privacy_release.workarea.references import PersonsRef, StagedRelease, Table, TransformRef
from privacy_release.workarea.staged import read_schema, write_schema

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Numbers of records that nobody makes by counting: position times `stride` plus `offset`."""

    stride: int
    offset: int

    @classmethod
    def of(cls, table: Table) -> "Numbers":
        """Those of a table, the same whenever a step is repeated."""
        told = hashlib.sha256(f"records of {table.sha256}".encode()).digest()
        return cls(stride=int.from_bytes(told[:2]) + 65_537, offset=int.from_bytes(told[2:7]) + (1 << 40))

    def positions(self, numbers: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
        """(n,) which record each is, -1 = none."""
        at, rest = np.divmod(numbers - self.offset, self.stride)
        return np.where(rest == 0, at, -1)


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a step made.

    Attributes:
        batches: its records, ordered by `RECORD`.
        row_by_row: whether it is known that each record became one record, by itself alone.
    """

    batches: Iterator["pa.RecordBatch"]
    row_by_row: bool


class Step(Protocol):
    """What makes a table of tables."""

    @property
    def name(self) -> str:
        """What manifests call it."""

    @property
    def sha256(self) -> str:
        """Of its code."""

    def made_of(self, columns: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The columns of `records` that each column is computed of; one that is missing may come from any.

        Args:
            columns: of `records`, without `RECORD`.
        """

    def run(self, tables: Mapping[str, Table], folder: Path) -> AbstractContextManager[Output]:
        """Run it over the tables of these names, with private files in this folder."""


def transform(
    table: Table,
    work: WorkArea,
    step: Step,
    *,
    others: Mapping[str, Table] | None = None,
    schema: "DataSchema | None" = None,
    label: str = "transform",
) -> Table:
    """Run a step over an ingested table and stage what it made.

    Args:
        table: what `ingest` gave, or another step.
        work: where the new table is kept until teardown.
        step: what is to be done.
        others: further ingested tables that it may look at, by the names that it calls them.
        schema: of the columns that come out, without those that tell persons apart, which stay; None: those
            of the table.
        label: begins the names of the files.

    Raises:
        SpecError: if the table was already searched for outliers or released, or is one of several that share
            persons, or has pseudonyms.
        SchemaError: if rows lost their record's number or, where each record is of another person, repeat
            one; or if what came out does not fit the schema.
        IntegrityError: if a table changed since it was ingested.
        CapacityError: if the disk or the memory is too small.
    """
    _require_between(table, others or {})
    old = read_schema(table.schema)
    _require_plain(old)
    new = _joined(old, schema)
    if (classes := classification()) is not None:
        require_classified([table.source.classification])
        made_of = step.made_of([a.name for a in old.without_identifiers().attributes]) if not others else {}
        classes.require_made(new, old, made_of)
    for ref in (table, *(others or {}).values()):
        require_unchanged(ref.uri, ref.sha256)
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
        source = replace(source, names=(f"what the step {step.name} made",))
        check_source(source, new)
        individual = next((n for n in kept.column_names if n != old.by), None)
        read = copy_source(source, new, path, individual=individual)
    finally:
        with suppress(FileNotFoundError):
            made.unlink()
    told = TransformRef(name=step.name, code=step.sha256, before=table.rows, rows=read.rows, row_by_row=alone)
    origin = replace(
        table.source,
        transforms=[*table.source.transforms, told],
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
    """Refuse references that are no ingested tables, and what a step would put out of order."""
    for ref in (table, *others.values()):
        if isinstance(ref, StagedRelease) or not isinstance(ref, Table):
            raise SpecError(
                "a step of your own must stand between ingest and release: what was released, measured or "
                "cut into fragments must stay as it is; put it before the release"
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
            f"a step of your own must not change records with pseudonyms, {named} are some: transform in the "
            "source, or leave the pseudonyms out"
        )


def _joined(old: "DataSchema", new: "DataSchema | None") -> "DataSchema":
    """The schema of what comes out: what tells persons apart stays as it is."""
    old = old.without_zones()
    if new is None:
        return old
    if named := [a.name for a in new.identifiers]:
        raise SpecError(
            f"the schema of a step must have no identifiers, got {named}: they stayed in the source, and "
            "what tells persons apart stays by itself; remove them"
        )
    return DataSchema((*old.identifiers, *new.attributes), old.person)


def _kept(table: Table, schema: "DataSchema") -> "pa.Table":
    """The columns that tell persons apart, of all records: eight bytes a record for a person."""
    names = [a.name for a in schema.identifiers]
    if not names:
        return pa.table({})
    return pa.Table.from_batches(unchanged_batches(table.uri, table.sha256, names))


class _Rows:
    """The rows of a step, with what tells whose record each is.

    Args:
        kept: columns that tell persons apart, by the number of a record.
        once: whether a record may come out once alone: where it counts as a person.
        name: of the step.
        table: whose records they are.
    """

    def __init__(self, *, kept: "pa.Table", once: bool, name: str, table: Table) -> None:
        self._kept, self._once, self._name = kept, once, name
        self._total, self._numbers = table.rows, Numbers.of(table)
        self._last = -1
        self._positions: list[npt.NDArray[np.int64]] = []

    def named(self, batch: "pa.RecordBatch") -> "pa.Table":
        """Rows without the number, and with the columns that tell persons apart."""
        numbers = batch.column(RECORD) if RECORD in batch.schema.names else None
        if numbers is None or numbers.null_count or not t.is_integer(numbers.type):
            raise SchemaError(
                f"the step {self._name} must keep the column {RECORD}, a whole number without nulls: it "
                "tells whose record each row is; keep it as it is"
            )
        positions = self._numbers.positions(numbers.cast(pa.int64()).to_numpy())
        steps = np.diff(positions, prepend=self._last)
        if len(positions) and (positions.min() < 0 or positions.max() >= self._total or steps.min() < 0):
            raise SchemaError(
                f"the step {self._name} must leave the column {RECORD} as it is, and changed it"
            )
        if self._once and (again := int((steps == 0).sum())):
            raise SchemaError(
                f"the step {self._name} must not repeat a record where each is of another person, and "
                f"repeated {again} or more: join by a key that is unique in the other table; or name the "
                "column that tells whose record a row is as `person`"
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
        """(n,) which record each row is."""
        return np.concatenate(self._positions)


def _followed(persons: PersonsRef, positions: "npt.NDArray[Any]", path: Path) -> PersonsRef:
    """Who the rows are about, in a file of their own."""
    whole = pa.Table.from_batches(unchanged_batches(persons.uri, persons.sha256))
    with private_parquet(path) as file:
        file.write(whole.take(pa.array(positions)))
    return PersonsRef(uri=str(path), sha256=file.sha256, key=persons.key, form=persons.form)
