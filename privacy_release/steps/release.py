"""Running a release method and staging what it made: table, schema, manifest and report, in the work area."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError
from privacy_engine.registry import is_randomizer
from privacy_release.spec.engine import problem_of_engine
from privacy_release.spec.methods import build_method
from privacy_release.spending.budget import public_booking
from privacy_release.steps.history import follow
from privacy_release.work.area import WorkArea
from privacy_release.work.engines import LOCAL
from privacy_release.work.parquet import parquet_bytes, read_private, write_private
from privacy_release.work.references import BookingRef, EngineRef, StagedRef, TableRef
from privacy_release.work.staged import facts_of, finite, read_schema, stage

if TYPE_CHECKING:
    import numpy as np

    from privacy_engine.release import Release, ReleaseMethod
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.spending.budget import Budget, Measured
    from privacy_release.spending.random_answers import Answers
    from privacy_release.spending.secrets import Memory
    from privacy_release.steps.sampling import Drawn


def make_release(
    table: TableRef,
    work: WorkArea,
    *,
    method: str,
    parameters: Mapping[str, Any] | None = None,
    seed: int | None = None,
    title: str | None = None,
    label: str = "staged",
    progress: Callable[[str], None] | None = None,
    budget: "Budget | None" = None,
    memory: "Memory | None" = None,
    engine: EngineRef | None = None,
) -> StagedRef:
    """Run a release method and stage what it made, with manifest and report, in the work area.

    Args:
        table: what `ingest` gave.
        work: where the release is staged.
        method: registry key.
        parameters: of the method.
        seed: of its random choices; None takes fresh entropy. It is not recorded: it tells the choices. Of a
            differentially private method it chooses the sampled records alone, and None derives it from the
            measured model; the noise can never be seeded. Random answers take it with `randomness: seeded`.
        title: of the report.
        label: begins the names of the files.
        progress: told the name of each part of the work as it begins.
        budget: pays for a differentially private method, which needs one.
        memory: of memoised answers, which need one.
        engine: that works on the table; None: its own, or memory where it has none.

    Raises:
        SpecError: if method or parameters are wrong, or the method does not fit the budget, secret, seed or
            engine.
        SecretError: if the answers are to be memoised and there is no secret, or another than before.
        SchemaError: if the table does not fit its schema.
        InfeasibleError: if the guarantees cannot be met.
        IntegrityError: if the table changed since it was ingested.
        VerificationError: if fragments, joined, do not keep what the method claims.
        BudgetExceededError: if the budget does not cover the loss; the table was not read.
        LedgerError: if the budget's ledger cannot be reached.
    """
    import numpy as np

    from privacy_release.spending.budget import require_budget
    from privacy_release.spending.random_answers import draw_answers, paid_answers
    from privacy_release.spending.secrets import keyed
    from privacy_release.steps.fragments import release_in_fragments
    from privacy_release.steps.outliers import require_whole_table

    tell = progress or (lambda _: None)
    table = worked_on_by(engine, table)
    require_fitting_engine(method, table)
    releaser, schema = build_method(method, parameters or {}), read_schema(table["schema"])
    releaser = keyed(releaser, memory, seed)
    loss = require_budget(releaser, schema, budget)
    if "persons" in table and (loss is not None or is_randomizer(method)):
        raise SpecError(
            f"history is about who is in which class, and {method} makes no classes; leave history out: "
            "its losses add up over releases, and the budget limits their sum"
        )
    require_whole_table(releaser, schema, table)
    if "engine" in table and loss is None:
        return release_in_fragments(
            table,
            work,
            method=method,
            parameters=parameters or {},
            seed=seed,
            title=title,
            label=label,
            tell=tell,
        )
    if is_randomizer(method):
        answer = partial(draw_answers, rng=np.random.default_rng(seed))
        if budget is not None and loss is not None:
            answer = partial(paid_answers, work=work, label=label, budget=budget, loss=loss, tell=tell)
        began = time.perf_counter()
        made = _made_of_answers(answer(releaser, table, schema), began, budget)
    elif budget is None:
        made = _made(releaser, schema, table, np.random.default_rng(seed), tell)
    else:
        path = work.path(f"{label}.parquet")
        made = _made_by_budget(releaser, schema, table, seed, budget, path, tell)
    tell("staging")
    return _stage(made, table, work, label, seeded=seed is not None, title=title, memory=memory)


def worked_on_by(engine: EngineRef | None, table: TableRef) -> TableRef:
    """A table that an engine works on; in memory as a whole where that is `local`."""
    if engine is None:
        return table
    worked_on = table.copy()
    worked_on.pop("engine", None)
    if engine["kind"] != LOCAL:
        worked_on["engine"] = engine
    return worked_on


def require_fitting_engine(method: str, table: TableRef) -> None:
    """Refuse what the engine of a table cannot do, as far as names tell.

    Raises:
        SpecError: saying what to take instead.
    """
    if "engine" in table:
        beside = ["history"] if "persons" in table else []
        if problem := problem_of_engine(table["engine"]["kind"], method, beside):
            raise SpecError(problem)


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A release before it is staged, with what was measured on it; `drawn` where its records are in place."""

    release: "Release"
    seconds: float
    utility: dict[str, float]
    risk: dict[str, float]
    drawn: "Drawn | None" = None
    booking: BookingRef | None = None
    measured: "Measured | None" = None
    account: dict[str, Any] | None = None

    @property
    def hides_source(self) -> bool:
        """Whether exact counts and hashes of the source would tell what the release hides."""
        return self.release.loss is not None or randomization_of(self.release) is not None


def _made(
    releaser: "ReleaseMethod",
    schema: "DataSchema",
    table: TableRef,
    rng: "np.random.Generator",
    tell: Callable[[str], None],
) -> _Made:
    from privacy_release.steps.outliers import counted_in, suppressed_before

    tell("reading")
    frame = read_private(table["uri"], table["sha256"])
    tell(f"running {releaser.key}")
    began = time.perf_counter()
    release = releaser.release(frame, schema, rng)
    seconds = time.perf_counter() - began
    tell("measuring")
    utility, risk = measure(release, rng)
    utility = counted_in(utility, suppressed_before(table), len(frame), len(schema.quasi_identifiers))
    return _Made(release=release, seconds=seconds, utility=utility, risk=risk)


def _made_by_budget(
    releaser: Any,
    schema: "DataSchema",
    table: TableRef,
    seed: int | None,
    budget: "Budget",
    path: Path,
    tell: Callable[[str], None],
) -> _Made:
    """All of it derives from the model in the ledger, so nothing here is a figure of the source."""
    import numpy as np

    from privacy_release.spending.budget import account_of, measured_model
    from privacy_release.steps.sampling import draw_parts

    measured = measured_model(releaser, table, schema, budget, tell)
    tell("sampling")
    began = time.perf_counter()
    rng = np.random.default_rng(measured.seed if seed is None else seed)
    drawn = draw_parts(releaser, measured.model, schema, rng, path) if "engine" in table else None
    release = drawn.release if drawn else releaser.release_of(measured.model, schema, rng)
    seconds = time.perf_counter() - began
    return _Made(
        release=release,
        seconds=seconds,
        utility=finite(release.notes),
        risk={},
        drawn=drawn,
        booking=measured.booking,
        measured=measured,
        account=account_of(budget),
    )


def _made_of_answers(answers: "Answers", began: float, budget: "Budget | None") -> _Made:
    """No class of equal records means anything among random answers, so there is no risk of linking."""
    from privacy_release.spending.budget import account_of

    return _Made(
        release=answers.release,
        seconds=time.perf_counter() - began,
        utility=finite(answers.release.notes),
        risk={},
        booking=answers.booking,
        account=account_of(budget) if budget else None,
    )


def _stage(
    made: _Made,
    table: TableRef,
    work: WorkArea,
    label: str,
    *,
    seeded: bool,
    title: str | None,
    memory: "Memory | None" = None,
) -> StagedRef:
    release, randomization = made.release, randomization_of(made.release)
    if randomization is not None:
        seeded = not randomization["private_randomness"]
    told, path = {**release.manifest(), **_outliers(release, table)}, work.path(f"{label}.parquet")
    if made.drawn is not None:
        told["rows"] = made.drawn.rows
    if made.booking is not None:
        told["booking"] = public_booking(made.booking)
    if memory is not None and memory.replaces is not None:
        told["replaces"] = memory.replaces
    staged = stage(
        table,
        work,
        label,
        told=told,
        schema=release.schema,
        figures=made.utility | made.risk,
        sha256=made.drawn.sha256 if made.drawn else write_private(path, parquet_bytes(release.table)),
        report=_report(made, title, table),
        seconds=made.seconds,
        seeded=seeded,
        private=made.hides_source,
    )
    if "persons" in table and release.rows is not None:
        staged["persons"] = follow(table["persons"], release.rows, work.path(f"{label}.persons.parquet"))
    if made.booking is not None:
        staged["booking"] = made.booking
    if made.measured is not None:
        write_private(work.path(f"{label}.model.json"), made.measured.text.encode())
        staged["model"] = str(work.path(f"{label}.model.json"))
        staged["mechanisms"] = [spend.to_dict() for spend in made.measured.model.spends]
    return staged


def randomization_of(release: "Release") -> dict[str, Any] | None:
    """What the manifest tells of how a release was randomized; None where it was not."""
    told = getattr(release, "randomization", None)
    return None if told is None else told.to_dict()


def measure(release: "Release", rng: "np.random.Generator") -> tuple[dict[str, float], dict[str, float]]:
    """Loss of information, and risk of the released records, by name; what is not finite is left out."""
    from privacy_engine.measures import risk, utility
    from privacy_engine.tables.classes import EquivalenceClasses

    lost = dict(release.notes)
    if release.recoding is not None:
        lost |= utility.figures(release.recoding, rng)
    at_risk = risk.figures(EquivalenceClasses.of_table(release.table, release.schema))
    return finite(lost), finite(at_risk)


def _outliers(release: "Release", table: TableRef) -> dict[str, Any]:
    """What the manifest says of outliers; nothing where exact counts of the source would void a DP claim."""
    from privacy_release.steps.outliers import public_outliers, suppressed_before

    if "outliers" not in table or release.loss is not None or randomization_of(release) is not None:
        return {}
    suppressed = release.manifest()["suppressed"] + suppressed_before(table)
    return {"outliers": public_outliers(table["outliers"]), "suppressed": suppressed}


def _report(made: _Made, title: str | None, table: TableRef) -> str:
    from privacy_release.reports.release import render_report
    from privacy_release.steps.outliers import suppressed_before

    return render_report(
        made.release,
        made.utility,
        made.risk,
        title=title or made.release.method,
        source_rows=table["rows"] + suppressed_before(table),
        about={} if made.hides_source else facts_of(table),
        budget=made.account,
        rows=made.drawn.rows if made.drawn else None,
    )
