"""Join the released fragments of a table to one staged release: each exactly once, and verified together."""

import json
import math
import shutil
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.engines.checking import examine_files
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.local import LocalEngine
from privacy_engine.engines.parquet import regrouped
from privacy_engine.errors import InfeasibleError, IntegrityError, SchemaError, VerificationError
from privacy_engine.fragments.figures import FragmentFigures
from privacy_engine.fragments.ranges import OF_A_RANGE, Ranges, in_order
from privacy_engine.pipeline import each_ahead, each_done
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.rows import in_types, plain_schema
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.data import (
    FragmentsPart,
    MeasuredGuarantee,
    ReportData,
    claimed_k,
    limits_of_classes,
)
from privacy_release.reports.figures import counted_in
from privacy_release.spec.methods import build_method
from privacy_release.steps.producers.followed import POSITION, joined_people
from privacy_release.steps.producers.job import Description, Job, ProducedRelease
from privacy_release.steps.producers.staging import stage
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import SPARK, engine_files, open_engine
from privacy_release.workarea.file_sets import (
    Part,
    folder_of_list,
    is_list,
    list_bytes,
    list_of,
    new_folder,
    part_name,
)
from privacy_release.workarea.fragment_files import (
    FragmentCut,
    FragmentResult,
    PrivateFiles,
    read_account,
    read_cut,
)
from privacy_release.workarea.parquet import (
    opened_parquet,
    part_bytes,
    private_parquet,
    write_private,
)
from privacy_release.workarea.people import counted_by_person, people_table
from privacy_release.workarea.references import FileRef, FragmentReleaseRef, PeopleRef, StagedRelease, need
from privacy_release.workarea.staged import finite, json_bytes

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from privacy_engine.engines.checking import Examined
    from privacy_engine.engines.engine import Engine
    from privacy_engine.tables.schema import DataSchema

ROWS_OF_A_FILE = 500_000  # released records per file, approximate on Spark; a smaller release is one file
_THREADS = 2  # threads that write or hash, each with the records of one file
MEANING = (
    "each fragment was anonymized by itself: no class was made across fragments, and what the method learns "
    "from the data it learned in each; the guarantees were measured on all fragments together"
)


def join_staged(
    released: Sequence[FragmentReleaseRef], work: WorkArea, *, title: str | None, label: str
) -> StagedRelease:
    """Stage the fragments that mapped tasks released, and remove their working files.

    A retry returns what was staged before. Arguments and errors are as for `join`.
    """
    if done := _staged_before(released, work, label):
        return done
    plan, job = _plan_of(released), Job(work=work, label=label, title=title)
    table = work.fetch(read_cut(plan).table)
    with open_engine(table.engine, work.folder) as engine:
        staged = stage(join(released, plan, job, engine), table, job)
    joined = {"fragments": _hashes(released), "staged": staged.to_ref()}
    write_private(work.path(f"{label}.joined.json"), json_bytes(joined))
    shutil.rmtree(Path(plan.uri).parent)
    return staged


def join(
    released: Sequence[FragmentReleaseRef],
    plan: FileRef,
    job: Job,
    engine: "Engine",
) -> ProducedRelease:
    """Join the fragments of a plan to one release, if together they meet what the method claims.

    The records are sorted by value, because their position must not reveal which fragment they come from. A
    small release is one file, a larger one a set of files. Then the engine counts the classes.

    Args:
        released: All fragments of the plan, in any order.
        plan: Plan by which the table was cut.
        job: Job of the producer.
        engine: Engine that counts the joined records.

    Raises:
        IntegrityError: If a fragment is missing, occurs twice, was changed or is of another plan, or if the
            records do not add up to those of the table.
        VerificationError: If the joined records do not meet what the method claims.
    """
    kept = read_cut(plan)
    cut = replace(kept, table=job.work.fetch(kept.table))
    in_order = _each_once(released, plan, cut)
    joined = _Joined.of(cut, in_order)
    if cut.followed is None:
        written, people, positions = _write(in_order, cut, job, engine, joined.schema.by), None, None
    else:
        written, positions = _write(in_order, cut, job, engine, POSITION).without_people()
        people = joined_people(cut, positions, job.work)
    try:
        examined, measured = _measured(joined, engine, written)
    except VerificationError:
        written.remove()
        raise
    figures, safe = joined.figures, None if people is None else people.safe
    utility = job.attempts.make("what the data lost", figures.utility) or {}
    utility = finite(figures.notes | utility)
    utility = counted_in(utility, cut.table.suppressed, figures.records, len(figures.attributes))
    risk = finite(examined.risk)
    return ProducedRelease(
        claims=joined.claims,
        schema=joined.schema,
        figures=utility | risk,
        sha256=written.sha256,
        persons=written.people,
        description=Description(
            data=partial(_report_data, joined, measured, examined.sizes, job.attempts),
            loss=utility,
            risk=risk,
            about={} if safe is None else {"earlier releases": safe.sentence(figures.notes)},
        ),
        seconds=sum(ref.seconds for ref in in_order),
        seeded=cut.seeded,
        records=written.path,
        positions=positions,
        earlier=None if safe is None else list(safe.versions),
        history=None if safe is None else safe.to_dict(figures.notes),
        before=None if safe is None else safe.before,
        waiting=None if safe is None else safe.waiting,
        regions=None if people is None else people.regions,
    )


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """Facts about all fragments together.

    Attributes:
        claims: Claims of the method for all fragments as one release.
        schema: Schema of the released records.
        figures: Figures added up over the fragments.
    """

    cut: FragmentCut
    claims: Claims
    schema: "DataSchema"
    figures: "FragmentFigures"

    @classmethod
    def of(cls, cut: FragmentCut, in_order: Sequence[FragmentReleaseRef]) -> "_Joined":
        """Add up the accounts of the fragments. Raises IntegrityError if they do not fit together."""
        accounts = [read_account(ref.account) for ref in in_order]
        figures = FragmentFigures.total(account.figures for account in accounts)
        released, rows = sum(ref.rows for ref in in_order), cut.table.rows
        # Of people who are followed, some wait, and some records of the last release are published again.
        records = figures.records + int(figures.counts.get("held_back", 0))
        again = int(figures.counts.get("outdated", 0))
        if records != rows or released - again != figures.records - figures.suppressed:
            raise IntegrityError(
                f"the fragments must hold the {rows:,} records of the table, got {records:,}, of "
                f"which {released:,} are released and {figures.suppressed:,} suppressed; cut the table again"
            )
        if not released:
            raise InfeasibleError(
                f"all {rows:,} records would be suppressed; weaken the models, or add more records"
            )
        first = accounts[0]
        if other := sum(_constant(account) != _constant(first) for account in accounts):
            raise IntegrityError(
                f"the fragments must be released alike, but {other} of {len(accounts)} have another method, "
                "claim or schema; cut the table again"
            )
        return cls(cut=cut, claims=_claims(first, figures, cut), schema=first.schema, figures=figures)


def _claims(first: FragmentResult, figures: "FragmentFigures", cut: FragmentCut) -> Claims:
    sizes = [int(size) for size in cut.plan.sizes]
    engine = cut.table.working_engine
    whole = {
        "rows": figures.released,
        "suppressed": figures.suppressed,
        "classes": figures.classes,
        "notes": figures.notes,
        "fragments": {
            "count": len(sizes),
            "rows": {"most": engine.rows, "smallest": min(sizes), "largest": max(sizes)},
            "engine": engine.kind,
            "meaning": MEANING,
        },
    }
    return Claims.from_dict(first.claims.to_dict() | whole)


def _constant(account: FragmentResult) -> tuple[Any, ...]:
    """Return the parts of an account that must be equal in all fragments."""
    names = ("method", "parameters", "guarantees", "loss", "columns")
    return (*(account.claims.stored[name] for name in names), account.schema)


def _plan_of(released: Sequence[FragmentReleaseRef]) -> FileRef:
    """Return the single plan of all fragments.

    Raises:
        IntegrityError: If there is no fragment, or they are of several plans.
    """
    plans = {(ref.plan.uri, ref.plan.sha256) for ref in released}
    if len(plans) != 1:
        raise IntegrityError(
            f"the fragments must be of one plan, got {len(released)} fragments of {len(plans)} plans; cut "
            "the table again and release the new fragments"
        )
    return released[0].plan


def _each_once(
    released: Sequence[FragmentReleaseRef], plan: FileRef, cut: FragmentCut
) -> list[FragmentReleaseRef]:
    """Return the fragments of a plan in order. Raise unless each occurs exactly once."""
    foreign = sum(ref.plan != plan for ref in released)
    times = Counter(ref.fragment for ref in released)
    expected = cut.plan.tree.fragments
    unknown = sum(not 0 <= fragment < expected for fragment in times)
    twice = sum(count > 1 for count in times.values())
    missing = expected - (len(times) - unknown)
    if foreign or unknown or twice or missing:
        raise IntegrityError(
            f"the join needs each of the {expected:,} fragments of the plan exactly once, got {missing} "
            f"missing, {twice} more than once, {foreign + unknown} of another plan; release the missing "
            "ones, or cut the table again"
        )
    return sorted(released, key=lambda ref: ref.fragment)


@dataclass(frozen=True, kw_only=True)
class _Written:
    """The joined records as written.

    Attributes:
        path: Path of the file, or of the list of the files.
        sha256: SHA-256 of the file, or of the list.
        rows: Number of records in all files.
        people: File of their persons. None if persons are not known.
    """

    path: Path
    sha256: str
    rows: int
    people: PeopleRef | None = None

    def without_people(self) -> "tuple[_Written, npt.NDArray[np.int64]]":
        """Return the records, and the numbers in the file of their persons, shape (n,), which is removed."""
        people = need(self.people, "people")
        numbers = people.frame()["person"].to_numpy(dtype="int64")
        Path(people.uri).unlink()
        return replace(self, people=None), numbers

    def remove(self) -> None:
        """Remove all written records."""
        for path in [self.path, *([Path(self.people.uri)] if self.people else [])]:
            path.unlink(missing_ok=True)
            if is_list(path):
                shutil.rmtree(folder_of_list(path))


def _write(
    in_order: Sequence[FragmentReleaseRef], cut: FragmentCut, job: Job, engine: "Engine", person: str
) -> _Written:
    """Write all records in the order of their values, and their persons, if known, in the same order."""
    _require_unchanged(in_order)
    columns, rows = _alike(in_order), sum(ref.rows for ref in in_order)
    # The records of people who are followed are one file, a copy of which is kept with the memberships.
    kinds = _plain(columns) if rows > ROWS_OF_A_FILE and cut.followed is None else None
    write = _one_file if kinds is None else partial(_several_files, kinds=kinds)
    written = write(in_order, cut, job, engine, person)
    try:
        _require_unchanged(in_order)  # the bytes that are read are those that were checked
        if written.rows != rows:
            raise IntegrityError(
                f"the fragments must have {rows:,} released records, got {written.rows:,}; release them again"
            )
    except IntegrityError:
        written.remove()
        raise
    return written


def _require_unchanged(released: Sequence[FragmentReleaseRef]) -> None:
    each_done(lambda ref: ref.require_unchanged(), released, _THREADS)


def _plain(columns: "pa.Schema") -> "pa.Schema | None":
    """Return the columns in the types of a lake table, so that it can take the files unchanged."""
    try:
        return plain_schema(columns)
    except SchemaError:
        return None


@contextmanager
def _sorting(cut: FragmentCut, job: Job) -> "Iterator[LocalEngine]":
    """Open DuckDB for sorting on all cores, with spilling to disk."""
    with LocalEngine(memory=cut.table.working_engine.memory, spill=job.work.folder) as here:
        yield here


def _one_file(
    in_order: Sequence[FragmentReleaseRef], cut: FragmentCut, job: Job, engine: "Engine", person: str
) -> _Written:
    """Write one file of all records, and one of their persons."""
    path = job.records
    people_path = path.with_suffix(".people.parquet")
    with _sorting(cut, job) as here, ExitStack() as files:  # if a check fails, no file remains
        file = files.enter_context(private_parquet(path))
        people = files.enter_context(private_parquet(people_path)) if person else None
        for records in regrouped(here.ordered([ref.uri for ref in in_order])):
            if people is not None:
                people.write(people_table(records.column(person)))
                records = records.drop_columns(person)
            file.write(records)
    beside = None if people is None else PeopleRef(uri=str(people_path), sha256=people.sha256, of=file.sha256)
    return _Written(path=path, sha256=file.sha256, rows=file.rows, people=beside)


def _several_files(
    in_order: Sequence[FragmentReleaseRef],
    cut: FragmentCut,
    job: Job,
    engine: "Engine",
    person: str,
    *,
    kinds: "pa.Schema",
) -> _Written:
    """Write files of some records each, and of their persons. Each is hashed where it is written.

    On Spark, an executor writes each file. Otherwise threads write slices of the sorted records.
    """
    path, people_path = list_of(job.records), list_of(job.records.with_suffix(".people.parquet"))
    works = cut.table.working_engine
    files = engine_files(works, new_folder(path))
    people = engine_files(works, new_folder(people_path)) if person else None
    write = _WritePart(kinds=kinds, files=files, person=person, people=people)
    make = _ranges_on_spark if works.kind == SPARK else _slices_of_the_order
    parts: dict[str, list[Part]] = {"records": [], "people": []}
    try:
        with closing(make(in_order, cut, job, engine, write)) as parts_made:
            for made in parts_made:
                for name in parts.keys() & made:
                    ref = FileRef.from_ref(job.work.fetch(made[name]))
                    part = Part(name=Path(ref.uri).name, rows=made["rows"], sha256=ref.sha256)
                    parts[name].append(part)
    except BaseException:
        for one in (path, people_path):
            shutil.rmtree(folder_of_list(one), ignore_errors=True)
        raise
    sha256 = write_private(path, list_bytes(parts["records"]))
    beside = None
    if person:
        beside = PeopleRef(
            uri=str(people_path), sha256=write_private(people_path, list_bytes(parts["people"])), of=sha256
        )
    return _Written(path=path, sha256=sha256, rows=sum(part.rows for part in parts["records"]), people=beside)


@dataclass(frozen=True, kw_only=True)
class _WritePart:
    """Writes the records of a part of the release. It can be pickled, and repeating it gives the same files.

    Attributes:
        kinds: Columns and types, including the person's column.
        files: Destination of the records.
        person: Column with the number of each record's person. None if persons are not known.
        people: Destination of the persons, which are in no file of the release.
    """

    kinds: "pa.Schema"
    files: PrivateFiles
    person: str
    people: PrivateFiles | None

    def __call__(self, number: int, records: "pa.Table") -> dict[str, Any]:
        records = in_types(records.select(self.kinds.names), self.kinds)
        parts: dict[str, Any] = {"rows": len(records)}
        if self.people is not None:
            people = part_bytes(people_table(records.column(self.person)))
            parts["people"] = self.people.write(part_name(number), people).to_ref()
            records = records.drop_columns(self.person)
        return parts | {"records": self.files.write(part_name(number), part_bytes(records)).to_ref()}


def _slices_of_the_order(
    in_order: Sequence[FragmentReleaseRef], cut: FragmentCut, job: Job, engine: "Engine", write: _WritePart
) -> Generator[Mapping[str, Any]]:
    """Yield parts of the sorted records. Only the values decide the position of a record."""
    with _sorting(cut, job) as here:
        slices = regrouped(here.ordered([ref.uri for ref in in_order]), ROWS_OF_A_FILE)
        with each_ahead(lambda part: write(*part), enumerate(slices), _THREADS) as written:
            yield from written


def _ranges_on_spark(
    in_order: Sequence[FragmentReleaseRef], cut: FragmentCut, job: Job, engine: "Engine", write: _WritePart
) -> Generator[Mapping[str, Any]]:
    """Yield parts that are ranges of values. An executor receives each by a shuffle, sorts and writes it.

    The boundaries of the ranges come from a random sample of the records, with a seed of the run. So nothing
    but the values decides the position of a record. If most records are equal, one range is nearly all
    records, and they are sorted on this machine.
    """
    uris = [ref.uri for ref in in_order]
    parts = -(-sum(ref.rows for ref in in_order) // ROWS_OF_A_FILE)
    # Each fragment derives its random choices from the seed and its number. This number is no fragment's.
    (seed,) = np.random.SeedSequence([cut.plan.seed, cut.plan.tree.fragments]).generate_state(1)
    sample = to_frame(engine.sample(uris, parts * OF_A_RANGE, int(seed)))
    ranges = Ranges.of_sample(sample[[name for name in sample if name != write.person]], parts)
    if ranges is None:
        yield from _slices_of_the_order(in_order, cut, job, engine, write)
    else:
        yield from engine.apply_by_fragment(uris, ranges.assign, _WriteRange(write))


@dataclass(frozen=True)
class _WriteRange:
    """Sorts the records of a range and writes them."""

    write: _WritePart

    def __call__(self, number: int, records: "pa.Table") -> Mapping[str, Any]:
        # The person is the last sort key. It orders equal records, whose order reveals nothing.
        first = [name for name in records.column_names if name != self.write.person]
        last = [name for name in records.column_names if name == self.write.person]
        return self.write(number, in_order(records.select([*first, *last])))


def _alike(in_order: Sequence[FragmentReleaseRef]) -> "pa.Schema":
    """Return the columns of all fragments. Raise if they differ, or if the numbers of records are wrong."""
    columns: pa.Schema | None = None
    for ref in in_order:
        with Path(ref.uri).open("rb") as stream:
            opened = opened_parquet(stream)
            found, rows = opened.schema_arrow, opened.metadata.num_rows
        columns = columns or found
        if not found.equals(columns):
            raise IntegrityError(
                f"all fragments must have the same columns and types, fragment {ref.fragment} differs; "
                "cut the table again"
            )
        if rows != ref.rows:
            raise IntegrityError(
                f"fragment {ref.fragment} must have {ref.rows:,} released records, got {rows:,}; "
                "release it again"
            )
    assert columns is not None  # every plan has fragments
    return columns


def _measured(
    joined: _Joined, engine: "Engine", written: _Written
) -> tuple["Examined", list[MeasuredGuarantee]]:
    """Check the claims of the method against the joined records.

    Raises:
        VerificationError: Naming each claim that does not hold, with its number.
    """
    cut = joined.cut
    claims = build_method(cut.method, cut.parameters).guarantees(cut.table.read_schema())
    policy, schema = ReleasePolicy(require=claims), joined.schema
    records = FileRef(uri=str(written.path), sha256=written.sha256)
    with counted_by_person(records, written.people, schema) as persons:
        examined = examine_files(engine, records.paths(), schema, policy, by_person=persons)
    report = examined.report
    if broken := [f"{f.rule} ({f.failing_rows:,} records)" for f in report.findings if not f.passed]:
        raise VerificationError(
            f"the joined fragments must meet what {cut.method} claims, and miss {', '.join(broken)}; use "
            "larger fragments (engine.rows), or the engine local"
        )
    return examined, [
        MeasuredGuarantee(model=model, number=math.nan if f.measured is None else f.measured, holds=f.passed)
        for model, f in zip(claims, report.findings, strict=True)
    ]


def _report_data(
    joined: _Joined, measured: Sequence[MeasuredGuarantee], sizes: Mapping[int, int], attempts: Attempts
) -> ReportData:
    """Return the data of the report on a release that was never in memory as a whole."""
    claims, least = joined.claims, claimed_k([guarantee.model for guarantee in measured])
    fragments = need(claims.fragments, "fragments")
    return ReportData(
        method=claims.method,
        parameters=dict(claims.parameters),
        schema=joined.schema,
        rows=claims.rows,
        guarantees=measured,
        class_sizes=sizes,
        notes=dict(claims.notes),
        losses=attempts.make("the loss of each quasi-identifier", joined.figures.losses) or [],
        distributions=attempts.make("before and after", partial(joined.figures.distributions, least)) or [],
        limits=limits_of_classes(joined.schema),
        fragments=FragmentsPart(count=fragments.count, **fragments.rows),
    )


def _staged_before(
    released: Sequence[FragmentReleaseRef], work: WorkArea, label: str
) -> StagedRelease | None:
    """Return what an earlier attempt staged of the same fragments. It has removed their working files."""
    done = work.path(f"{label}.joined.json")
    if not done.is_file():
        return None
    fields = json.loads(done.read_bytes())
    if fields["fragments"] != _hashes(released):
        return None
    staged = StagedRelease.from_ref(fields["staged"])
    staged.require_unchanged()
    return staged


def _hashes(released: Sequence[FragmentReleaseRef]) -> list[str]:
    return sorted(ref.plan.sha256 + ref.sha256 for ref in released)
