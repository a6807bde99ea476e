"""Follow people over the releases of a table that is made in fragments.

The cut writes the records with the region of each person, and for each fragment its part of the earlier
releases, see `privacy_engine.republication.in_fragments`. A fragment is released with that part only. So the
cut and the join hold the persons of all releases in memory, as verification does, and fragments do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.errors import IntegrityError, VerificationError
from privacy_engine.fragments.figures import FragmentFigures
from privacy_engine.fragments.plan import FragmentPlan, StandingCut, fragmentable, plan_again, plan_fragments
from privacy_engine.fragments.work import FragmentRelease
from privacy_engine.republication.in_fragments import NEW, FragmentPast, part_of, regions_of, release_followed
from privacy_engine.republication.incremental import LastRelease, method_of_newcomers
from privacy_engine.verification.cross_release import CrossReleaseModel, Membership
from privacy_engine.verification.models import model_from_dict, model_to_dict
from privacy_engine.verification.policy import ACROSS_MODELS
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_release.spec.methods import build_method
from privacy_release.steps.memberships.past import EarlierFragments, Past
from privacy_release.steps.memberships.persons import KnownPersons
from privacy_release.steps.memberships.regions import Regions
from privacy_release.steps.producers.job import Job
from privacy_release.steps.producers.kept_safe import KeptSafe
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.fragment_files import Followed, FragmentCut
from privacy_release.workarea.parquet import (
    parquet_bytes,
    part_bytes,
    private_parquet,
    write_private,
)
from privacy_release.workarea.references import FileRef, Table, need

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.engines.engine import Engine
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema

POSITION = "position of the record"  # from the number of records on, of a record of the last release
_PERSON, _REGION, _WAITED = "person of the record", "region of the person", "releases waited"
_RELEASE, _WHO, _CLASS, _CELL, _VALUES, _VALUE = "release", "person", "class", "cell of ", "values of ", "is "
_RECORD, _PLACE = "record: ", "place"


@dataclass(frozen=True)
class ByRegion:
    """The fragment of a record by the region of its person. It can be pickled.

    Attributes:
        fragment_of: Fragment of each region.
    """

    fragment_of: tuple[int, ...]

    def __call__(self, frame: "pd.DataFrame") -> "npt.NDArray[np.int32]":
        """Return the fragment of each record, shape (n,)."""
        fragments = np.array(self.fragment_of, dtype=np.int32)
        found: npt.NDArray[np.int32] = fragments[frame[_REGION].to_numpy(dtype="int64")]
        return found


def cut_followed(
    releaser: "ReleaseMethod",
    schema: "DataSchema",
    table: Table,
    engine: "Engine",
    folder: Path,
    job: Job,
) -> FragmentCut:
    """Return a cut of a table whose people are followed, with its files in a private folder.

    Args:
        releaser: Release method of the job.
        schema: Schema of the table.
        table: Table to cut, with its persons.
        engine: Engine that reads the table.
        folder: Empty private folder.
        job: Job of the release, with earlier releases of the same people. Its seed is as for
            `fragments.cut_table`.

    Raises:
        VerificationError: If earlier releases cannot be continued in fragments.
        SpecError, InfeasibleError, IntegrityError: As `fragments.cut_table`.
    """
    known, past, seed = KnownPersons.of(table.followed_persons), need(job.past, "past"), job.seed
    persons, earlier = known.people, past.in_fragments(known)
    guarantee = past.guarantee(schema)
    across, reserve = past.across(guarantee), 1.0 if earlier else guarantee.reserve
    # Each fragment needs persons for classes as they are published for the first time, if it is cut now.
    least = method_of_newcomers(fragmentable(releaser), across, schema, reserve)
    regions = regions_of(persons, [(r.membership.persons, r.regions.of) for r in earlier])
    last, waits = _last_of(earlier, persons, past)
    if last is None:
        rows, files = table.working_engine.rows, table.paths()
        plan = plan_fragments(engine, files, schema, least, rows=rows, seed=seed)
        records, regions = _records(table, plan, persons, regions, waits, folder)
        before, pasts = np.zeros(0, np.int64), dict[int, FileRef]()
    else:
        standing, before = earlier[-1].regions.cut, _regions_of(last.persons, earlier[-1])
        _require_columns(standing, earlier, schema.names)
        records, regions = _records(table, standing, persons, regions, waits, folder)
        leaves = len(standing.tree.fragment_of)
        plan = plan_again(
            engine,
            [records.uri],
            schema,
            least,
            standing=standing,
            leaf_of=ByRegion(tuple(range(leaves))),
            last=np.bincount(before, minlength=leaves).tolist(),
            seed=seed,
        )
        pasts = _write_pasts(earlier, last, plan, folder)
    people = {
        _PERSON: persons if last is None else np.concatenate([persons, last.persons]),
        _REGION: np.concatenate([regions, before]),
        _WAITED: np.concatenate([waits, np.zeros_like(before)]),
    }
    path = folder / "people.parquet"
    followed = Followed(
        versions=tuple(release.version for release in earlier),
        guarantee=guarantee,
        across=tuple(model_to_dict(model) for model in across),
        records=records,
        people=FileRef(uri=str(path), sha256=write_private(path, parquet_bytes(pd.DataFrame(people)))),
        pasts=pasts,
    )
    return FragmentCut(
        table=table,
        plan=plan,
        method=job.method,
        parameters=dict(job.parameters),
        seeded=seed is not None,
        followed=followed,
    )


def _last_of(
    earlier: Sequence[EarlierFragments], persons: "npt.NDArray[np.object_]", past: Past
) -> "tuple[LastRelease | None, npt.NDArray[np.int64]]":
    """Return the last release, and the number of releases that each person has waited, shape (n,).

    Raises:
        VerificationError: If its records are not known.
    """
    if not earlier:
        return None, np.zeros(len(persons), np.int64)
    if earlier[-1].last is None:
        raise VerificationError(
            f"version {earlier[-1].version} of table {past.releases.table.name} was published without its "
            "records, so its classes cannot be published again; retract it, or publish under a new table name"
        )
    last, waited = earlier[-1].last
    return last, np.array([waited.get(who, 0) for who in persons.tolist()], dtype=np.int64)


def too_large(cut: FragmentCut) -> str | None:
    """Return a warning if a fragment has grown far beyond its configured size. None if none has."""
    most, largest = cut.table.working_engine.rows, max(cut.plan.sizes)
    if cut.followed is None or largest <= 2 * most:
        return None
    return (
        f"a fragment has {largest:,} records, more than twice engine.rows ({most:,}): people stay in the "
        "fragments of the first release, which are never cut again; if it takes too long, publish under a "
        "new table name, or retract the earlier releases"
    )


def _require_columns(
    standing: StandingCut, earlier: Sequence[EarlierFragments], names: Sequence[str]
) -> None:
    """Raise if a table lacks a column by which it was cut, or releases have different columns."""
    missing = {cut.column for cut in standing.tree.cuts} - set(names)
    shown = {(*sorted(r.membership.boxes), *sorted(r.membership.counts)) for r in earlier}
    if missing or len(shown) > 1:
        raise VerificationError(
            f"{len(missing)} columns by which the table was cut into fragments are missing, and the earlier "
            f"releases have {len(shown)} sets of columns instead of one, so they cannot be continued in "
            "fragments; restore the columns, use engine local, or publish under a new table name"
        )


def _regions_of(persons: "npt.NDArray[np.object_]", release: EarlierFragments) -> "npt.NDArray[np.int64]":
    """Return the region of each person of a release, shape (l,)."""
    found: npt.NDArray[np.int64] = release.regions.of[
        pd.Index(release.membership.persons).get_indexer(pd.Index(persons))
    ]
    return found


def _records(
    table: Table,
    cut: FragmentPlan | StandingCut,
    persons: "npt.NDArray[np.object_]",
    regions: "npt.NDArray[np.int64]",
    waited: "npt.NDArray[np.int64]",
    folder: Path,
) -> "tuple[FileRef, npt.NDArray[np.int64]]":
    """Write the records of a table with their positions, persons and regions. Return the regions, too.

    A person who was in no earlier release has the region of the values in the table.
    """
    by_value = replace(cut.tree, fragment_of=tuple(range(len(cut.tree.fragment_of))))
    found, at, path = regions.copy(), 0, folder / "records.parquet"
    with private_parquet(path) as file:
        for batch in table.batches():
            records = pa.Table.from_batches([batch])
            here = slice(at, at + len(batch))
            new = np.flatnonzero(found[here] == NEW)
            found[at + new] = by_value.assign(to_frame(records.take(new)))
            columns = {
                POSITION: pa.array(np.arange(at, at + len(batch))),
                _PERSON: pa.array(persons[here], pa.string()),
                _REGION: pa.array(found[here]),
                _WAITED: pa.array(waited[here]),
            }
            for name, column in columns.items():
                records = records.append_column(name, column)
            file.write(records)
            at += len(batch)
    return FileRef(uri=str(path), sha256=file.sha256), found


def _write_pasts(
    earlier: Sequence[EarlierFragments], last: LastRelease, plan: FragmentPlan, folder: Path
) -> dict[int, FileRef]:
    """Write the part of the earlier releases that belongs to each fragment."""
    fragment_of, found = np.array(plan.tree.fragment_of, dtype=np.int64), {}
    rows_of = [_rows_by(fragment_of[release.regions.of], plan.tree.fragments) for release in earlier]
    for fragment in range(plan.tree.fragments):
        parts = list[pa.Table]()
        for place, release in enumerate(earlier):
            own = part_of(release.membership, rows_of[place][fragment])
            parts.append(_to_table(own, place))
        rows = pd.Index(last.persons).get_indexer(pd.Index(own.persons))
        records = to_arrow(last.table.iloc[rows].reset_index(drop=True))
        parts[-1] = parts[-1].append_column(_PLACE, pa.array(rows, pa.int64()))
        for name in records.column_names:
            parts[-1] = parts[-1].append_column(_RECORD + name, records.column(name))
        path = folder / f"fragment-{fragment:05d}.past.parquet"
        joined = pa.concat_tables(parts, promote_options="default")
        found[fragment] = FileRef(uri=str(path), sha256=write_private(path, part_bytes(joined)))
    return found


def _rows_by(fragments: "npt.NDArray[np.int64]", count: int) -> "list[npt.NDArray[np.int64]]":
    """Return the rows of each fragment, in order."""
    order = np.argsort(fragments, kind="stable")
    return np.split(order, np.cumsum(np.bincount(fragments, minlength=count))[:-1])


def _to_table(release: "Membership", place: int) -> pa.Table:
    """Return a part of a release as a table for `_read_past`."""
    columns = {
        _RELEASE: pa.array(np.full(len(release), place), pa.int64()),
        _WHO: pa.array(release.persons, pa.string()),
        _CLASS: pa.array(release.labels, pa.int64()),
    }
    for name, texts in release.boxes.items():
        columns[_CELL + name] = pa.array(texts, pa.string())
    for name, counts in release.counts.items():
        of_class = np.array([*counts.to_json(), None], dtype=object)
        columns[_VALUES + name] = pa.array(of_class[release.labels], pa.string())
    for name, values in release.values.items():
        texts = np.array([*release.counts[name].texts, None], dtype=object)
        columns[_VALUE + name] = pa.array(texts[values], pa.string())
    return pa.table(columns)


def _read_past(table: pa.Table, releases: int) -> "tuple[FragmentPast, npt.NDArray[np.int64]]":
    """Read the part of a fragment, and the row of each record in the whole last release."""
    earlier = []
    for place in range(releases):
        own = table.filter(pc.equal(table.column(_RELEASE), place))
        earlier.append(_membership(own, newest=place == releases - 1))
    names = [name for name in own.column_names if name.startswith(_RECORD)]
    records = own.select(names).rename_columns([name.removeprefix(_RECORD) for name in names])
    last = LastRelease(table=to_frame(records), persons=earlier[-1].persons)
    return FragmentPast(earlier=tuple(earlier), last=last), own.column(_PLACE).to_numpy()


def _membership(table: pa.Table, *, newest: bool) -> "Membership":
    labels = table.column(_CLASS).to_numpy().astype(np.int64)
    counts, values = {}, {}
    first = np.unique(labels, return_index=True)[1]
    for name in _named(table, _VALUES):
        texts = table.column(_VALUES + name).take(first).to_pylist()
        counts[name] = ClassValues.from_json(texts)
    for name in _named(table, _VALUE) if newest else ():
        number = {text: i for i, text in enumerate(counts[name].texts)}
        found = [number.get(text, -1) for text in table.column(_VALUE + name).to_pylist()]
        values[name] = np.array(found, dtype=np.int64)
    return Membership(
        persons=_objects(table.column(_WHO)),
        labels=labels,
        boxes={name: _objects(table.column(_CELL + name)) for name in _named(table, _CELL)},
        counts=counts,
        values=values,
    )


def _named(table: pa.Table, kind: str) -> list[str]:
    return [name.removeprefix(kind) for name in table.column_names if name.startswith(kind)]


def _objects(column: pa.ChunkedArray) -> "npt.NDArray[np.object_]":
    return np.array([*column.to_pylist(), None], dtype=object)[:-1]


def released_followed(
    cut: FragmentCut, fragment: int, records: pa.Table, past: bytes | None
) -> "tuple[FragmentRelease, npt.NDArray[np.int64]]":
    """Release the records of a fragment together with its part of the earlier releases.

    Args:
        cut: Cut of the table.
        fragment: Number of the fragment.
        records: Records of the fragment, in any order.
        past: File of its part of the earlier releases. None: there are none.

    Returns:
        The release, and the position of each released record.

    Raises:
        IntegrityError: If the records are not as many as the plan counted.
        InfeasibleError: If the guarantees cannot be met.
    """
    followed, plan = need(cut.followed, "followed"), cut.plan
    if len(records) != plan.sizes[fragment] or (past is None and followed.versions):
        raise IntegrityError(
            f"fragment {fragment} must have {plan.sizes[fragment]} records and its part of "
            f"{len(followed.versions)} earlier releases, got {len(records)} records; cut the table again"
        )
    own, places = FragmentPast(), np.zeros(0, np.int64)
    if past is not None:
        own, places = _read_past(pq.read_table(pa.BufferReader(past)), len(followed.versions))
    frame = to_frame(records)
    position = np.concatenate([frame[POSITION].to_numpy(dtype="int64"), cut.table.rows + places])
    release = release_followed(
        fragmentable(build_method(cut.method, cut.parameters)),
        frame.drop(columns=[POSITION, _PERSON, _REGION, _WAITED]),
        plan.whole.schema,
        np.random.default_rng([plan.seed, fragment]),
        persons=_objects(records.column(_PERSON)),
        waited=frame[_WAITED].to_numpy(dtype="int64"),
        past=own,
        across=_models(followed),
        hold_back=need(followed.guarantee.hold_back, "hold_back"),
        reserve=followed.guarantee.reserve,
    )
    made = FragmentRelease(release=release, figures=FragmentFigures.of(release, plan.schema))
    return made, position[need(release.rows, "rows")]


def _models(followed: Followed) -> "tuple[CrossReleaseModel, ...]":
    return tuple(model_from_dict(model, ACROSS_MODELS) for model in followed.across)


@dataclass(frozen=True, kw_only=True)
class JoinedPeople:
    """The people of the joined release.

    Attributes:
        safe: Earlier versions that the release was made with, its guarantee, and who waits.
        regions: Region of the person of each released record.
    """

    safe: KeptSafe
    regions: Regions


def joined_people(cut: FragmentCut, positions: "npt.NDArray[np.int64]", work: WorkArea) -> JoinedPeople:
    """Return the people of the joined fragments, given the position of each released record, shape (m,).

    Raises:
        IntegrityError: If the file of the people is missing or changed.
    """
    followed = need(cut.followed, "followed")
    ref = work.fetch(followed.people)
    people = ref.frame()
    n, who = cut.table.rows, people[_PERSON].to_numpy(dtype=object)
    shown = np.zeros(len(people), dtype=np.bool_)
    shown[positions] = True
    waited = people[_WAITED].to_numpy(dtype="int64")
    waits = np.flatnonzero(~shown[:n])
    safe = KeptSafe(
        versions=followed.versions,
        guarantee=followed.guarantee,
        before=who[n:],
        waiting=dict(zip(who[waits].tolist(), (waited[waits] + 1).tolist(), strict=True)),
    )
    regions = people[_REGION].to_numpy(dtype="int64")[positions]
    return JoinedPeople(safe=safe, regions=Regions(cut=StandingCut.of(cut.plan), of=regions))
