"""Stage a release: write manifest, schema and report next to its records."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from privacy_release.budget.budget import public_booking
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.columns import with_origins
from privacy_release.reports.figures import BOUND
from privacy_release.steps.memberships.last import write_waiting
from privacy_release.steps.memberships.persons import follow
from privacy_release.steps.memberships.regions import Regions
from privacy_release.steps.producers.job import Job, ProducedRelease
from privacy_release.steps.producers.report import report_of
from privacy_release.workarea.parquet import unchanged_batches, write_private
from privacy_release.workarea.people import write_people
from privacy_release.workarea.references import (
    FileRef,
    OutlierRef,
    PeopleRef,
    PersonsRef,
    SourceRef,
    StagedRelease,
    Table,
)
from privacy_release.workarea.staged import json_bytes, software, write_schema

if TYPE_CHECKING:
    from privacy_engine.tables.persons import Person
    from privacy_engine.tables.schema import DataSchema

T = TypeVar("T")
R = TypeVar("R")
_PRIVATE = ("scores", "aside")  # fields of a search for outliers that the manifest omits


def stage(made: ProducedRelease, table: Table, job: Job) -> StagedRelease:
    """Write manifest, schema and report of written records, and return a reference to all of it.

    Args:
        made: Release whose records were written.
        table: Table that the release was made from.
        job: Job of the producer.
    """
    work, label, source = job.work, job.label, table.read_schema()
    report = report_of(made, table, source, job)
    people = _people(made, work.path(f"{label}.people.parquet"))
    columns = _columns(made, source, job)
    write_private(work.path(f"{label}.manifest.json"), json_bytes(_manifest(made, table, people, job).stored))
    write_private(work.path(f"{label}.report.html"), report.encode())
    write_private(work.path(f"{label}.columns.json"), json_bytes(columns))
    return StagedRelease(
        uri=str(made.records or job.records),
        rows=made.claims.rows,
        sha256=made.sha256,
        schema=write_schema(work, label, made.schema),
        source=table.source,
        manifest=str(work.path(f"{label}.manifest.json")),
        report=str(work.path(f"{label}.report.html")),
        method=made.claims.method,
        guarantees=[dict(model) for model in made.claims.guarantees],
        loss=None if made.claims.loss is None else made.claims.loss.to_dict(),
        figures=dict(made.figures),
        seconds=made.seconds,
        columns=str(work.path(f"{label}.columns.json")),
        engine=table.engine,
        people=people,
        earlier=made.earlier,
        booking=made.booking,
        mechanisms=made.mechanisms,
        source_schema=table.schema,
        persons=_persons(made, table, work.path(f"{label}.persons.parquet")),
        waiting=_written(made.waiting, _write_waiting, work.path(f"{label}.waiting.parquet")),
        regions=_written(made.regions, Regions.write, work.path(f"{label}.regions.parquet")),
        model=_written(made.model, _write_model, work.path(f"{label}.model.json")),
    )


def _written(value: T | None, write: Callable[[T, Path], R], path: Path) -> R | None:
    """Write a part that only some releases have. Return None if this release does not have it."""
    return None if value is None else write(value, path)


def _persons(made: ProducedRelease, table: Table, path: Path) -> PersonsRef | None:
    """Write the person of each released record. Return None if people are not followed."""
    if not table.follows_people or made.positions is None:
        return None
    return follow(table.followed_persons, made.positions, path, made.before)


def _write_waiting(waiting: Mapping[str, int], path: Path) -> FileRef:
    return FileRef(uri=str(path), sha256=write_waiting(waiting, path))


def _write_model(model: str, path: Path) -> str:
    write_private(path, model.encode())
    return str(path)


def _manifest(made: ProducedRelease, table: Table, people: PeopleRef | None, job: Job) -> Manifest:
    """Return the manifest, before the release is verified.

    For a private release it does not mention outliers, because their number is an exact count of the source.
    """
    outliers = [] if made.private else table.outliers
    staged = {
        "suppressed": made.claims.suppressed + table.suppressed if outliers else None,
        "outliers": public_outliers(outliers) or None,
        "history": made.history,
        "booking": made.booking and public_booking(made.booking),
        "over_time": made.promise or None,
        "replaces": made.replaces,
        "person": made.schema.person and _whose(made.schema.person, people),
        "figures": {name: figure for name, figure in made.figures.items() if name != BOUND},
        "source": public_source(table.source, private=made.private),
        "sha256": made.sha256,
        "seeded": made.seeded,
        "software": software(),
        **job.attempts.to_dict(),
    }
    return made.claims.extended(staged)


def public_source(source: SourceRef, *, private: bool) -> dict[str, Any]:
    """Return the section of a manifest about the source, without its address, which may name people.

    Args:
        source: Origin of the records.
        private: Whether the release is differentially private or randomized, so that exact counts and
            hashes of the source would void its guarantee.
    """
    exact = (
        {"fingerprint", "rows", "dropped", "text", "version", "left_out", "unchecked"} if private else set()
    )
    hidden = {"uri", "expectations", "guessed"} | exact
    public = {name: value for name, value in source.to_ref().items() if name not in hidden}
    if source.left_out and not private:  # file names may name people
        public["left_out"] = len(source.left_out)
    if private and source.transforms:
        public["transforms"] = [{"name": t.name, "code": t.code} for t in source.transforms]
    if source.tables:
        public["tables"] = {name: public_source(own, private=private) for name, own in source.tables.items()}
    return public


def public_outliers(outliers: Sequence[OutlierRef]) -> list[dict[str, Any]]:
    """Return the section of the manifest about outliers: counts, without the location of the scores."""
    return [{name: value for name, value in o.to_ref().items() if name not in _PRIVATE} for o in outliers]


def _columns(made: ProducedRelease, source: "DataSchema", job: Job) -> Mapping[str, Mapping[str, Any]]:
    """Describe each column for the dictionary. If that fails, return the description in the manifest."""

    def described() -> Mapping[str, Mapping[str, Any]]:
        file = made.records or job.records
        records = None if made.private else unchanged_batches(file, made.sha256)
        return with_origins(made.described or made.claims, source, made.schema, records)

    known = {name: column.stored for name, column in made.claims.columns.items()}
    return job.attempts.make("origin and form of the columns", described) or known


def _people(made: ProducedRelease, path: Path) -> PeopleRef | None:
    """Return the file of the persons. Write it now unless it was written with the records."""
    if made.persons is None or isinstance(made.persons, PeopleRef):
        return made.persons
    return write_people(made.persons, path, made.sha256)


def _whose(person: "Person", people: PeopleRef | None) -> dict[str, Any]:
    """Return the section of the manifest about whose records they are."""
    return person.to_dict() | ({"sha256": people.sha256} if people else {})
