"""Release a table in fragments: cut it, release each fragment, and join the results.

Fragments are processed in a process pool, on Spark, or by mapped tasks, always with the same function.
`fragment_join` joins the released fragments.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import SpecError
from privacy_engine.fragments.plan import fragmentable, plan_fragments
from privacy_engine.fragments.work import release_fragment
from privacy_engine.progress import advance, portion
from privacy_release.manifest.manifest import Claims
from privacy_release.spec.methods import build_method
from privacy_release.spec.rules.judge import refuse
from privacy_release.steps.facts import facts_of_table
from privacy_release.steps.producers.followed import (
    POSITION,
    ByRegion,
    cut_followed,
    released_followed,
    too_large,
)
from privacy_release.steps.producers.fragment_join import join
from privacy_release.steps.producers.job import Job, ProducedRelease
from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.engines import executors_files, open_engine
from privacy_release.workarea.fragment_files import (
    FilesHere,
    FragmentCut,
    FragmentResult,
    PrivateFiles,
    account_bytes,
    read_cut,
    write_cut,
)
from privacy_release.workarea.parquet import part_bytes
from privacy_release.workarea.references import FileRef, FragmentRef, FragmentReleaseRef, Table

Fragments = FragmentRef | list[FragmentRef]  # the fragments that one task releases

if TYPE_CHECKING:
    from privacy_engine.engines.engine import Assign, Engine
    from privacy_engine.fragments.plan import FragmentPlan
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema


def released_in_fragments(
    releaser: "ReleaseMethod", schema: "DataSchema", table: Table, job: Job
) -> ProducedRelease:
    """Cut a table, release its fragments in other processes, and join the results.

    The processes build the method themselves. Its seed is also the seed of the cuts and of all fragments. The
    working files are removed at the end.
    """
    with open_engine(table.engine, job.work.folder) as engine:
        job.on_progress("cutting the table")
        with portion(0.05):
            cut, plan = _cut_and_keep(releaser, schema, table, engine, job)
        if warning := too_large(cut):
            job.on_progress(warning)
        released: list[FragmentReleaseRef] = []
        if away := executors_files(table.working_engine, Path(plan.uri).parent.name):
            work_on = partial(release_records, job.work.send(plan), files=away)
        else:
            work_on = partial(release_records, plan)
        files, assign = _records_of(cut)
        with portion(0.8):
            for ref in engine.apply_by_fragment(files, assign, work_on):
                released.append(FragmentReleaseRef.from_ref(job.work.fetch(ref)))
                job.on_progress(f"fragment {len(released)} of {cut.plan.tree.fragments}")
                advance(len(released) / cut.plan.tree.fragments)
        _require_unchanged(cut)
        job.on_progress("joining")
        made = join(released, plan, job, engine)
    shutil.rmtree(Path(plan.uri).parent)
    return made


def cut_and_keep(table: Table, engine: "Engine", job: Job) -> tuple[FragmentCut, FileRef]:
    """Cut a table in a separate task and write the cut to a new private folder.

    Args:
        table: Table to cut.
        engine: Engine that reads the table.
        job: Job of the release, with its method, seed and earlier releases.

    Raises:
        SpecError, InfeasibleError, IntegrityError: As `cut_table`.
        VerificationError: If earlier releases cannot be continued in fragments.
    """
    releaser, schema = build_method(job.method, job.parameters), table.read_schema()
    refuse(facts_of_table(table, schema, releaser, job.parameters, past=job.past))
    return _cut_and_keep(releaser, schema, table, engine, job)


def _cut_and_keep(
    releaser: "ReleaseMethod", schema: "DataSchema", table: Table, engine: "Engine", job: Job
) -> tuple[FragmentCut, FileRef]:
    """Cut a table that breaks no rule, and write the cut to a new private folder."""
    if not job.continues:
        plan = _plan_of(releaser, schema, table, engine, job.seed)
        cut = FragmentCut(
            table=table,
            plan=plan,
            method=job.method,
            parameters=dict(job.parameters),
            seeded=job.seed is not None,
        )
        return cut, keep(cut, job.work, job.label)
    table.require_unchanged()
    folder = _new_folder(job.work, job.label)
    cut = cut_followed(releaser, schema, table, engine, folder, job)
    return cut, _kept(cut, job.work, folder)


def cut_table(
    table: Table,
    engine: "Engine",
    *,
    method: str,
    parameters: Mapping[str, Any],
    seed: int | None,
) -> FragmentCut:
    """Return a cut of the table into parts that can each meet the guarantees. Nothing is written.

    Args:
        table: Table to cut. Its `engine` states how large a fragment may be.
        engine: Engine that reads the table.
        method: Registry key of the method.
        parameters: Parameters of the method.
        seed: Seed of the cuts and of all fragments. None draws fresh entropy.

    Raises:
        SpecError: If the method cannot work in fragments.
        InfeasibleError: If not even the whole table can be one class.
        IntegrityError: If the table changed since it was ingested.
    """
    releaser, schema = build_method(method, parameters), table.read_schema()
    refuse(facts_of_table(table, schema, releaser, parameters))
    plan = _plan_of(releaser, schema, table, engine, seed)
    return FragmentCut(
        table=table, plan=plan, method=method, parameters=dict(parameters), seeded=seed is not None
    )


def _plan_of(
    releaser: "ReleaseMethod", schema: "DataSchema", table: Table, engine: "Engine", seed: int | None
) -> "FragmentPlan":
    """Return a plan of cuts of a table whose file is unchanged."""
    rows = table.working_engine.rows
    table.require_unchanged()
    files = table.paths()
    return plan_fragments(engine, files, schema, releaser, rows=rows, seed=seed)


def keep(cut: FragmentCut, work: WorkArea, label: str) -> FileRef:
    """Write a cut to a new private folder, which will also contain the files of the fragments.

    Files that an earlier attempt left there are removed.
    """
    return _kept(cut, work, _new_folder(work, label))


def _new_folder(work: WorkArea, label: str) -> Path:
    folder = work.path(f"{label}.fragments")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def _kept(cut: FragmentCut, work: WorkArea, folder: Path) -> FileRef:
    # The plan is a file, whose paths no task can translate. So its paths are those of other machines.
    followed = cut.followed and replace(cut.followed, people=work.send(cut.followed.people))
    return write_cut(replace(cut, table=work.send(cut.table), followed=followed), folder / "plan.json")


def _records_of(cut: FragmentCut) -> tuple[Sequence[str], "Assign"]:
    """Return the files of the records to release, and the function from a record to its fragment."""
    if cut.followed is None:
        return cut.table.paths(), cut.plan.tree.assign
    return [cut.followed.records.uri], ByRegion(cut.plan.tree.fragment_of)


def _require_unchanged(cut: FragmentCut) -> None:
    """Raise if the records that were read are not those that were cut."""
    read = cut.table if cut.followed is None else cut.followed.records
    read.require_unchanged()


def partition(cut: FragmentCut, plan: FileRef, engine: "Engine") -> list[FragmentRef]:
    """Write the records of each fragment to a file, for tasks that process one fragment each.

    Args:
        cut: Cut of the table.
        plan: File of the cut. The fragments are written next to it.
        engine: Engine of this machine.

    Raises:
        IntegrityError: If the table changed since it was cut.
        SpecError: If the engine is not of this machine.
    """
    if not isinstance(engine, LocalEngine):
        raise SpecError("only the engine fragments writes fragments for tasks; set mapped: false")
    pasts = {} if cut.followed is None else cut.followed.pasts
    files, assign = _records_of(cut)
    found = engine.partition_by_fragment(files, assign, Path(plan.uri).parent)
    _require_unchanged(cut)
    return [
        FragmentRef(
            uri=str(path),
            rows=int(cut.plan.sizes[fragment]),
            sha256=sha256_file(path),
            fragment=fragment,
            plan=plan,
            past=pasts.get(fragment),
        )
        for fragment, path in sorted(found.items())
    ]


def in_batches(fragments: Sequence[FragmentRef], most: int) -> list[Fragments]:
    """Distribute fragments over tasks: one each, or equal batches if there are more fragments than tasks.

    >>> in_batches(["a", "b", "c", "d", "e"], 2)
    [['a', 'c', 'e'], ['b', 'd']]

    Args:
        fragments: Fragments, at least one.
        most: Largest number of tasks.
    """
    if len(fragments) <= most:
        return [*fragments]
    return [[*fragments[task::most]] for task in range(most)]


def release_one(fragment: FragmentRef) -> FragmentReleaseRef:
    """Release the records of one fragment. Repeating it gives the same bytes.

    Raises:
        IntegrityError: If its records or its plan changed since the table was cut.
        InfeasibleError: If the guarantees cannot be met.
    """
    records = pa.Table.from_batches(fragment.batches())
    made = release_records(fragment.plan, fragment.fragment, records, past=fragment.past)
    return FragmentReleaseRef.from_ref(made)


def release_records(
    plan: FileRef,
    fragment: int,
    records: "pa.Table",
    *,
    files: PrivateFiles | None = None,
    past: FileRef | None = None,
) -> dict[str, Any]:
    """Release the records of a fragment, in any process, and write the result.

    It can be pickled once plan and files are bound. Repeating it gives the same files.

    Args:
        plan: Plan by which the table was cut.
        fragment: Number of the fragment.
        records: All records of the fragment.
        files: Destination of the result. None: the folder of the plan.
        past: Its part of the earlier releases. None: the one that the plan names, if there is one.

    Returns:
        A `FragmentReleaseRef` as plain values.
    """
    files = files or FilesHere.beside(plan)
    cut, name = read_cut(plan, files), f"fragment-{fragment:05d}"
    began = time.perf_counter()
    positions = None
    if cut.followed is None:
        releaser = fragmentable(build_method(cut.method, cut.parameters))
        made = release_fragment(cut.plan, fragment, to_frame(records), releaser)
    else:
        own = past or cut.followed.pasts.get(fragment)
        before = None if own is None else files.read(own)
        made, positions = released_followed(cut, fragment, records, before)
    seconds = time.perf_counter() - began
    release = made.release
    table = _typed(to_arrow(release.table), release.schema, records.schema)
    if release.persons is not None:
        table = table.append_column(release.schema.by, pa.array(release.persons, pa.int64()))
    if positions is not None:
        table = table.append_column(POSITION, pa.array(positions, pa.int64()))
    released = files.write(f"{name}.released.parquet", part_bytes(table))
    account = FragmentResult(
        claims=Claims.from_dict(release.manifest()), schema=release.schema, figures=made.figures
    )
    reference = FragmentReleaseRef(
        uri=released.uri,
        rows=len(release.table),
        sha256=released.sha256,
        fragment=fragment,
        plan=plan,
        account=files.write(f"{name}.account.json", account_bytes(account)),
        seconds=seconds,
    )
    return reference.to_ref()


def _typed(released: "pa.Table", schema: "DataSchema", source: "pa.Schema") -> "pa.Table":
    """Give released columns, except for recoded ones, the types of the source.

    A type that is guessed from the cells, for example of a column that is all null or of decimals, would
    differ from fragment to fragment.
    """
    recoded = {a.name for a in schema.quasi_identifiers}
    fields = [
        source.field(field.name) if field.name in source.names and field.name not in recoded else field
        for field in released.schema
    ]
    return released.cast(pa.schema([field.remove_metadata() for field in fields]))
