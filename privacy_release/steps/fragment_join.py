"""The released fragments of a table as one staged release: each exactly once, and measured together."""

import json
import math
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import InfeasibleError, IntegrityError, VerificationError
from privacy_release.reports.data import FragmentsPart, Measured, ReportData, claimed_k, limits_of_classes
from privacy_release.steps.made import Job, Made, stage
from privacy_release.steps.outliers import counted_in, public_outliers, suppressed_before
from privacy_release.work.area import WorkArea
from privacy_release.work.engines import open_engine
from privacy_release.work.fragment_files import Account, Cut, read_account, read_cut
from privacy_release.work.parquet import opened_parquet, private_parquet, require_unchanged, write_private
from privacy_release.work.people import counted_by_person, people_table
from privacy_release.work.references import FileRef, FragmentReleaseRef, PeopleRef, StagedRef
from privacy_release.work.staged import codes_of, facts_of, finite, json_bytes, read_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from privacy_engine.engines.checking import Examined
    from privacy_engine.engines.engine import Engine
    from privacy_engine.engines.local import LocalEngine
    from privacy_engine.fragments.figures import FragmentFigures
    from privacy_engine.tables.schema import DataSchema

MEANING = (
    "each fragment was anonymized by itself: no class was made across fragments, and what the method learns "
    "from the data it learned in each; the guarantees were measured on all fragments together"
)


def join_staged(
    released: Sequence[FragmentReleaseRef], work: WorkArea, *, title: str | None, label: str
) -> StagedRef:
    """Stage the fragments that mapped tasks released, and remove their working files.

    Doing it again gives what was staged. Arguments and errors as of `join`.
    """
    if done := _staged_before(released, work, label):
        return done
    plan, job = _plan_of(released), Job(work=work, label=label, title=title)
    table = work.fetch(read_cut(plan).table)
    with open_engine(table["engine"], work.folder) as engine:
        staged = stage(join(released, plan, job, engine), table, job)
    told = {"fragments": _hashes(released), "staged": staged}
    write_private(work.path(f"{label}.joined.json"), json_bytes(told))
    shutil.rmtree(Path(plan["uri"]).parent)
    return staged


def join(
    released: Sequence[FragmentReleaseRef],
    plan: FileRef,
    job: Job,
    engine: "Engine",
) -> Made:
    """Put the fragments of a plan together as one release, if together they keep what the method claims.

    The records are joined as a stream, in the order of their values: where one stands must not tell which
    fragment it comes from. Then the engine counts them.

    Args:
        released: every fragment of the plan, in any order.
        plan: how the table was cut.
        job: who asks for the release.
        engine: that counts the joined records.

    Raises:
        IntegrityError: if a fragment is missing, there twice, changed or of another plan, or if their records
            do not add up to those of the table.
        VerificationError: if the joined records do not keep what the method claims.
    """
    from privacy_engine.engines.local import LocalEngine

    kept = read_cut(plan)
    cut = replace(kept, table=job.work.fetch(kept.table))
    in_order = _each_once(released, plan, cut)
    joined = _Joined.of(cut, in_order)
    path = job.records
    with LocalEngine(memory=cut.table["engine"]["memory"], spill=job.work.folder) as here:
        written = _write(in_order, path, here, joined.schema.by)
    try:
        examined, measured = _measured(joined, engine, path, written)
    except VerificationError:
        path.unlink()
        raise
    figures = joined.figures
    utility = finite(figures.notes | figures.utility())
    utility = counted_in(utility, suppressed_before(cut.table), figures.records, len(figures.attributes))
    risk = finite(examined.risk)
    return Made(
        told=joined.told,
        schema=joined.schema,
        figures=utility | risk,
        sha256=written.sha256,
        persons=written.people,
        report=_report(joined, measured, (utility, risk), examined.sizes, job.title),
        seconds=sum(ref["seconds"] for ref in in_order),
        seeded=cut.seeded,
    )


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """What is known of all fragments together.

    Attributes:
        told: what the method would tell of them as one release.
        schema: of the released records.
        figures: added up.
    """

    cut: Cut
    told: Mapping[str, Any]
    schema: "DataSchema"
    figures: "FragmentFigures"

    @classmethod
    def of(cls, cut: Cut, in_order: Sequence[FragmentReleaseRef]) -> "_Joined":
        """Add up the accounts of the fragments; raises IntegrityError where they do not fit together."""
        from privacy_engine.fragments.figures import FragmentFigures

        accounts = [read_account(ref["account"]) for ref in in_order]
        figures = FragmentFigures.total(account.figures for account in accounts)
        released, rows = sum(ref["rows"] for ref in in_order), cut.table["rows"]
        if figures.records != rows or released != rows - figures.suppressed:
            raise IntegrityError(
                f"the fragments must hold the {rows:,} records of the table, got {figures.records:,}, of "
                f"which {released:,} are released and {figures.suppressed:,} suppressed; cut the table again"
            )
        if not released:
            raise InfeasibleError(
                f"all {rows:,} records would be suppressed; weaken the models, or bring more records"
            )
        first = accounts[0]
        if other := sum(_constant(account) != _constant(first) for account in accounts):
            raise IntegrityError(
                f"the fragments must be released alike, {other} of {len(accounts)} have another method, "
                "claim or schema; cut the table again"
            )
        return cls(cut=cut, told=_told(first, figures, cut), schema=first.schema, figures=figures)


def _told(first: Account, figures: "FragmentFigures", cut: Cut) -> dict[str, Any]:
    sizes = [int(size) for size in cut.plan.sizes]
    engine = cut.table["engine"]
    told = {
        **first.told,
        "rows": figures.released,
        "suppressed": figures.suppressed + suppressed_before(cut.table),
        "classes": figures.classes,
        "notes": figures.notes,
        "fragments": {
            "count": len(sizes),
            "rows": {"most": engine["rows"], "smallest": min(sizes), "largest": max(sizes)},
            "engine": engine["kind"],
            "meaning": MEANING,
        },
    }
    if "outliers" in cut.table:
        told["outliers"] = public_outliers(cut.table["outliers"])
    return told


def _constant(account: Account) -> tuple[Any, ...]:
    """What no fragment may differ in."""
    told = account.told
    names = ("method", "parameters", "guarantees", "loss", "columns")
    return (*(told[name] for name in names), account.schema)


def _plan_of(released: Sequence[FragmentReleaseRef]) -> FileRef:
    """The one plan that all fragments are of.

    Raises:
        IntegrityError: if there is no fragment, or they are of several plans.
    """
    plans = {(ref["plan"]["uri"], ref["plan"]["sha256"]) for ref in released}
    if len(plans) != 1:
        raise IntegrityError(
            f"the fragments must be of one plan, got {len(released)} fragments of {len(plans)} plans; cut "
            "the table again and release what that gives"
        )
    return released[0]["plan"]


def _each_once(released: Sequence[FragmentReleaseRef], plan: FileRef, cut: Cut) -> list[FragmentReleaseRef]:
    """The fragments of a plan in their order, each exactly once."""
    foreign = sum(ref["plan"] != plan for ref in released)
    times = Counter(ref["fragment"] for ref in released)
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
    return sorted(released, key=lambda ref: ref["fragment"])


@dataclass(frozen=True, kw_only=True)
class _Written:
    """The joined records as they were written; `people` tells of their persons."""

    sha256: str
    people: PeopleRef | None = None


def _write(
    in_order: Sequence[FragmentReleaseRef], path: Path, engine: "LocalEngine", person: str
) -> _Written:
    """One file of all records in the order of their values, and one of their persons where they are known."""
    from privacy_engine.engines.parquet import regrouped

    for ref in in_order:
        require_unchanged(ref["uri"], ref["sha256"])
    _require_alike(in_order)
    told = path.with_suffix(".people.parquet")
    with ExitStack() as files:  # no file stands there where a check fails
        file = files.enter_context(private_parquet(path))
        people = files.enter_context(private_parquet(told)) if person else None
        for records in regrouped(engine.ordered([ref["uri"] for ref in in_order])):
            if people is not None:
                people.write(people_table(records.column(person)))
                records = records.drop_columns(person)
            file.write(records)
        for ref in in_order:  # what was checked is what is read
            require_unchanged(ref["uri"], ref["sha256"])
        if file.rows != (expected := sum(ref["rows"] for ref in in_order)):
            raise IntegrityError(
                f"the fragments must have {expected:,} released records, got {file.rows:,}; "
                "release them again"
            )
    if people is None:
        return _Written(sha256=file.sha256)
    beside = PeopleRef(uri=str(told), sha256=people.sha256, of=file.sha256)
    return _Written(sha256=file.sha256, people=beside)


def _require_alike(in_order: Sequence[FragmentReleaseRef]) -> None:
    """Refuse fragments that have not the records that were told of them, or other columns than the first."""
    columns: pa.Schema | None = None
    for ref in in_order:
        with Path(ref["uri"]).open("rb") as stream:
            opened = opened_parquet(stream)
            found, rows = opened.schema_arrow, opened.metadata.num_rows
        columns = columns or found
        if not found.equals(columns):
            raise IntegrityError(
                f"all fragments must have the same columns and types, fragment {ref['fragment']} differs; "
                "cut the table again"
            )
        if rows != ref["rows"]:
            raise IntegrityError(
                f"fragment {ref['fragment']} must have {ref['rows']:,} released records, got {rows:,}; "
                "release it again"
            )


def _measured(
    joined: _Joined, engine: "Engine", path: Path, written: _Written
) -> tuple["Examined", list[Measured]]:
    """What the method claims, held against the joined records.

    Raises:
        VerificationError: naming each claim that does not hold, with its number.
    """
    from privacy_engine.engines.checking import examine_files
    from privacy_engine.judge.policy import ReleasePolicy
    from privacy_release.spec.methods import build_method

    cut = joined.cut
    claims = build_method(cut.method, cut.parameters).guarantees(read_schema(cut.table["schema"]))
    policy, schema = ReleasePolicy(require=claims), joined.schema
    with counted_by_person(str(path), written.sha256, written.people, schema) as persons:
        examined = examine_files(engine, [str(path)], schema, policy, by_person=persons)
    report = examined.report
    if broken := [f"{f.rule} ({f.failing_rows:,} records)" for f in report.findings if not f.passed]:
        raise VerificationError(
            f"the joined fragments must keep what {cut.method} claims, and miss {', '.join(broken)}; take "
            "larger fragments (engine.rows), or engine local"
        )
    return examined, [
        Measured(model=model, number=math.nan if f.measured is None else f.measured, holds=f.passed)
        for model, f in zip(claims, report.findings, strict=True)
    ]


def _report(
    joined: _Joined,
    measured: Sequence[Measured],
    figures: tuple[Mapping[str, float], Mapping[str, float]],
    sizes: Mapping[int, int],
    title: str | None,
) -> str:
    """The report of a release that no process ever held; `figures` are of loss and of risk."""
    from privacy_release.reports.release import render

    told, table = joined.told, joined.cut.table
    least = claimed_k([guarantee.model for guarantee in measured])
    data = ReportData(
        method=told["method"],
        parameters=told["parameters"],
        schema=joined.schema,
        rows=told["rows"],
        guarantees=measured,
        class_sizes=sizes,
        notes=told["notes"],
        losses=joined.figures.losses(),
        distributions=joined.figures.distributions(least),
        limits=limits_of_classes(joined.schema),
        fragments=FragmentsPart(count=told["fragments"]["count"], **told["fragments"]["rows"]),
    )
    return render(
        data,
        *figures,
        title=title or told["method"],
        source_rows=table["rows"] + suppressed_before(table),
        smallest_count=least,
        about=facts_of(table) | codes_of(table),
        shifted=table["source"].get("shifted"),
    )


def _staged_before(released: Sequence[FragmentReleaseRef], work: WorkArea, label: str) -> StagedRef | None:
    """What an earlier attempt staged of these very fragments, whose working files it has removed."""
    done = work.path(f"{label}.joined.json")
    if not done.is_file():
        return None
    fields = json.loads(done.read_bytes())
    if fields["fragments"] != _hashes(released):
        return None
    staged: StagedRef = fields["staged"]
    require_unchanged(staged["uri"], staged["sha256"])
    return staged


def _hashes(released: Sequence[FragmentReleaseRef]) -> list[str]:
    return sorted(ref["plan"]["sha256"] + ref["sha256"] for ref in released)
