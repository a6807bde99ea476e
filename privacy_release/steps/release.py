"""Running a release method and staging what it made: table, schema, manifest and report, in the work area."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.engines.frames import to_arrow
from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.measures import risk, utility
from privacy_engine.progress import advance, portion
from privacy_engine.randomizers.randomness import Randomness
from privacy_engine.recoding.nearness.least_boxes import least_gcp
from privacy_engine.registry import is_randomizer
from privacy_engine.republication.incremental import release_incrementally
from privacy_engine.republication.republish import republish
from privacy_engine.tables.linked import ReleasedClasses
from privacy_engine.verification import known_rows
from privacy_engine.verification.models import KAnonymity
from privacy_engine.vocabulary import COUNTERFEITS
from privacy_release.budget.budget import (
    Budget,
    account_of,
    measured_model,
)
from privacy_release.budget.random_answers import Answers, draw_answers, paid_answers
from privacy_release.budget.secrets import Memory, keyed
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.release import render_report, report_or_claims
from privacy_release.spec.methods import build_method
from privacy_release.steps.facts import facts_of_table, loss_by_rules
from privacy_release.steps.fragments import released_in_fragments
from privacy_release.steps.history import Past, read_persons
from privacy_release.steps.made import BOUND, Job, Made, say_nothing, stage
from privacy_release.steps.outliers import (
    counted_in,
    suppressed_before,
)
from privacy_release.steps.validate import with_expectations
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import LOCAL
from privacy_release.workarea.parquet import parquet_bytes, private_parquet, read_private, write_private
from privacy_release.workarea.references import EngineRef, PersonsRef, StagedRelease, Table, need
from privacy_release.workarea.staged import codes_of, facts_of, finite, read_schema

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.release import Release, ReleaseMethod
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.synthesizers.synthesizer import Synthesizer
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy


def make_release(
    table: Table,
    work: WorkArea,
    *,
    method: str,
    parameters: Mapping[str, Any] | None = None,
    seed: int | None = None,
    title: str | None = None,
    label: str = "staged",
    progress: Callable[[str], None] | None = None,
    budget: Budget | None = None,
    policy: "ReleasePolicy | None" = None,
    memory: Memory | None = None,
    past: Past | None = None,
    engine: EngineRef | None = None,
) -> StagedRelease:
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
        policy: what must hold, the floor policy included. Beside a budget it must be given: what it would
            refuse in the end is refused before anything is booked.
        memory: of memoised answers, which need one.
        past: the earlier releases of the same people, where the release is to stay safe together with them.
        engine: that works on the table; None: its own, or this machine's.

    Raises:
        SpecError: if method or parameters are wrong, or a rule is broken, see `spec.rules`.
        SecretError: if the answers are to be memoised and there is no secret, or another than before.
        SchemaError: if the table does not fit its schema.
        InfeasibleError: if the guarantees cannot be met.
        IntegrityError: if the table changed since it was ingested.
        VerificationError: if fragments, joined, do not keep what the method claims.
        BudgetExceededError: if the budget does not cover the loss; the table was not read.
        LedgerError: if the budget's ledger cannot be reached.
    """
    tell = progress or say_nothing
    job = Job(work=work, label=label, seed=seed, title=title, tell=tell, attempts=Attempts(tell))
    table = worked_on_by(engine, table)
    given, schema = parameters or {}, read_schema(table.schema)
    releaser = keyed(build_method(method, given), memory, seed)
    if policy is None and past is not None:
        policy = past.policy
    facts = facts_of_table(table, schema, releaser, given, budget=budget, past=past, policy=policy)
    loss = loss_by_rules(facts)
    if is_randomizer(method):
        made = _randomized(releaser, schema, table, job, budget, loss, memory)
    elif budget is not None:
        made = _synthesized(releaser, schema, table, job, budget)
    elif table.engine is not None:
        made = released_in_fragments(table, job, method=method, parameters=parameters or {})
    else:
        made = _anonymized(releaser, schema, table, job, past)
    job.tell("staging")
    return stage(made, table, job)


def worked_on_by(engine: EngineRef | None, table: Table) -> Table:
    """A table that an engine works on; this machine's, in one piece, where that is `local`."""
    if engine is None:
        return table
    return replace(table, engine=None if engine.kind == LOCAL else engine)


def with_required(table: Table, required: Sequence[Table] | None) -> Table:
    """A table with what the tasks found that had to end well before it is released.

    Args:
        table: that is to be released.
        required: what these tasks handed on; None: nothing was required.

    Raises:
        SpecError: if nothing was required of a table that was made of several.
        IntegrityError: if one was about an earlier state of the source.
    """
    if required is None:
        if table.source.tables:
            raise SpecError(
                "`requires` must list the tasks that validate each of the tables, `requires=[]` if there are "
                "none: that they ended well cannot be seen from the table"
            )
        return table
    source = table.source
    for other in required:
        if other.source.uri == source.uri and other.source.fingerprint != source.fingerprint:
            raise IntegrityError(
                "what was validated must be the table that is released, and it was read again since; clear "
                "the tasks that validate it"
            )
    return with_expectations(table, [other.source.expectations for other in required])


def _anonymized(
    releaser: "ReleaseMethod", schema: "DataSchema", table: Table, job: Job, past: Past | None
) -> Made:
    """A table in one piece."""
    rng = np.random.default_rng(job.seed)
    job.tell("reading")
    frame = read_private(table.uri, table.sha256)
    job.tell(f"running {releaser.key}")
    began = time.perf_counter()
    with portion(0.8):
        if past is None:
            release, history = releaser.release(frame, schema, rng), None
        else:
            release, history = _kept_safe(releaser, frame, schema, rng, need(table.persons, "persons"), past)
    seconds = time.perf_counter() - began
    job.tell("measuring")
    whole = release.of_persons
    loss = job.attempts.make("what the data lost", partial(_lost, whole, rng)) or finite(release.notes)
    risk = job.attempts.make("how exposed people are", partial(_at_risk, whole)) or {}
    before = suppressed_before(table)
    if not schema.tables:  # of several, nobody took records out before
        loss = counted_in(loss, before, len(frame), len(schema.quasi_identifiers))
    claims = Claims.from_dict(release.manifest())
    bound = {} if before else job.attempts.make("the bound of the loss", partial(loss_bound, release)) or {}
    about = facts_of(table) | _facts_of_tables(claims)
    if history is not None:
        about |= {"earlier releases": history.sentence(release)}
    return Made(
        claims=claims,
        schema=release.schema,
        figures=loss | risk | bound,
        sha256=write_private(job.records, parquet_bytes(release.table)),
        report=_report(release, loss, risk, table, job, about=about),
        seconds=seconds,
        seeded=job.seed is not None,
        positions=release.rows,
        persons=release.persons,
        earlier=None if history is None else list(history.versions),
        history=None if history is None else history.to_dict(release),
        before=None if history is None else history.before,
        waiting=None if history is None else history.waiting,
    )


@dataclass(frozen=True, kw_only=True)
class _KeptSafe:
    """What a release was made with: versions of the earlier ones of its table, and what is kept over all."""

    versions: tuple[int, ...]
    kept: Mapping[str, Any]
    before: "npt.NDArray[np.object_] | None" = None
    waiting: Mapping[str, int] | None = None

    def to_dict(self, release: "Release") -> dict[str, Any]:
        """Section of the manifest; nothing of a person."""
        section = {"releases": len(self.versions), **self.kept, "withheld": int(release.notes["withheld"])}
        section |= {
            name: int(release.notes[name]) for name in ("held_back", "outdated") if name in release.notes
        }
        # How many were allowed becomes how many there are; of unique classes it is any number.
        if "counterfeits" in release.notes:
            section["counterfeits"] = {
                "allowed": None if self.kept.get("unique") else self.kept["counterfeits"],
                "added": int(release.notes["counterfeits"]),
                "column": COUNTERFEITS,
            }
        return section

    def sentence(self, release: "Release") -> str:
        """What the report says."""
        k, departures = self.kept["k"], self.kept["departures"]
        kept = f"nobody is told apart from fewer than {k} by all, departures {departures}"
        told = f"{len(self.versions)}; {kept}; {int(release.notes['withheld']):,} records withheld"
        if "held_back" in release.notes:
            waits, outdated = int(release.notes["held_back"]), int(release.notes["outdated"])
            return f"{told}; {waits:,} persons held back; {outdated:,} outdated records published again"
        if "counterfeits" not in release.notes:
            return told
        added = f"{int(release.notes['counterfeits']):,} counterfeit records added"
        return f"{told}; {added}, the column {COUNTERFEITS} tells how many each class has"


def _kept_safe(
    releaser: Any,
    frame: "pd.DataFrame",
    schema: "DataSchema",
    rng: "np.random.Generator",
    persons: PersonsRef,
    past: Past,
) -> "tuple[Release, _KeptSafe]":
    """A release that is safe together with the earlier ones of its table, and what it was made with."""
    earlier, kept, people = past.memberships(persons), past.kept(schema), read_persons(persons)
    told, hold_back = _KeptSafe(versions=tuple(earlier), kept=dict(kept)), kept.pop("hold_back", None)
    found = past.last(earlier) if past.subtracted else None
    if not past.subtracted or (earlier and found is None):  # what it cannot do, verification refuses
        release = republish(
            releaser, frame, schema, rng, persons=people, earlier=tuple(earlier.values()), **kept
        )
        return release, replace(told, waiting={} if past.subtracted else None)
    last, waited = found or (None, {})
    release = release_incrementally(
        releaser,
        frame,
        schema,
        rng,
        persons=people,
        earlier=tuple(earlier.values()),
        last=last,
        across=past.across(kept),
        hold_back=hold_back or 0,
        waited=waited,
        reserve=kept["reserve"],
        owners=frame[schema.by].to_numpy(dtype="int64") if schema.by else None,
    )
    assert release.rows is not None
    shown = set(people[release.rows[release.rows < len(people)]])
    waits = {who: waited.get(who, 0) + 1 for who in people.tolist() if who not in shown}
    return release, replace(told, before=last.persons if last else None, waiting=waits)


def _facts_of_tables(claims: Claims) -> dict[str, str]:
    """What a report says of each of several tables."""
    return {
        f"table {name}": f"{own.rows:,} records, {own.suppressed:,} suppressed"
        for name, own in claims.tables.items()
    }


def _synthesized(releaser: Any, schema: "DataSchema", table: Table, job: Job, budget: Budget) -> Made:
    """Records of the model in the ledger: all derives from that, so nothing is a figure of the source."""
    with portion(0.8):
        measured = measured_model(releaser, table, schema, budget, job.tell)
    job.tell("sampling")
    began = time.perf_counter()
    rng = np.random.default_rng(measured.seed if job.seed is None else job.seed)
    with portion(0.15):
        drawn = draw_parts(releaser, measured.model, schema, rng, job.records)
    seconds = time.perf_counter() - began
    release, notes = drawn.release, finite(drawn.release.notes)
    promised = measured.booking.over_time
    return Made(
        claims=Claims.from_dict(release.manifest() | {"rows": drawn.rows}),
        schema=release.schema,
        figures=notes,
        sha256=drawn.sha256,
        report=_report(
            release,
            notes,
            {},
            table,
            job,
            budget=_account(job, budget, promised),
            rows=drawn.rows,
        ),
        seconds=seconds,
        seeded=job.seed is not None,
        private=True,
        booking=measured.booking,
        model=measured.text,
        mechanisms=[spend.to_dict() for spend in measured.model.spends],
    )


def _randomized(
    releaser: Any,
    schema: "DataSchema",
    table: Table,
    job: Job,
    budget: Budget | None,
    loss: "PrivacyLoss | None",
    memory: Memory | None,
) -> Made:
    """Random answers; no class of equal records means anything among them, so there is no risk of linking."""
    began = time.perf_counter()
    with portion(0.8):
        answers = _answers(releaser, schema, table, job, budget, loss)
    release, seconds = answers.release, time.perf_counter() - began
    notes = finite(release.notes)
    account = _account(job, budget) if budget is not None and loss is not None else None
    return Made(
        claims=Claims.from_dict(release.manifest()),
        schema=release.schema,
        figures=notes,
        sha256=write_private(job.records, parquet_bytes(release.table)),
        report=_report(release, notes, {}, table, job, budget=account),
        seconds=seconds,
        seeded=release.randomization.randomness is Randomness.SEEDED,
        private=True,
        booking=answers.booking,
        replaces=memory.replaces if memory is not None else None,
    )


def _answers(
    releaser: Any,
    schema: "DataSchema",
    table: Table,
    job: Job,
    budget: Budget | None,
    loss: "PrivacyLoss | None",
) -> Answers:
    """Answers that the budget pays for, or such that claim nothing."""
    if budget is not None and loss is not None:
        return paid_answers(releaser, table, schema, job.work, job.label, budget, loss, job.tell)
    return draw_answers(releaser, table, schema, np.random.default_rng(job.seed))


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A release whose records are in a file that no process held.

    Attributes:
        release: of them, with the first part as its table.
        rows: in the file.
        sha256: of the file.
    """

    release: "Release"
    rows: int
    sha256: str


def draw_parts(
    method: "Synthesizer",
    model: "SynthesizerModel",
    schema: "DataSchema",
    rng: "np.random.Generator",
    path: Path,
    size: int | None = None,
) -> Drawn:
    """Draw as many records as `Synthesizer.release_of` does: the same ones, where one part is enough.

    Args:
        method: that measured the model.
        model: that they are drawn from.
        schema: it was measured with.
        rng: draws them.
        path: of the file.
        size: most records of a part; None: what the synthesizer thinks fit.
    """
    from privacy_engine.synthesizers.synthesizer import PART

    all_rows = model.rows if method.rows is None else method.rows
    release, others = method.release_parts(model, schema, rng, size or PART)
    with private_parquet(path) as file:
        file.write(to_arrow(release.table))
        for part in others:
            advance(file.rows / all_rows)
            file.write(to_arrow(part))
    return Drawn(release=release, rows=file.rows, sha256=file.sha256)


def _account(job: Job, budget: Budget, promise: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """State of the budget for the report; None if it cannot be read now."""
    return job.attempts.make("what is left of the budget", partial(account_of, budget, promise))


def measure(release: "Release", rng: "np.random.Generator") -> tuple[dict[str, float], dict[str, float]]:
    """Loss of information, and risk of the released records, by name; what is not finite is left out."""
    release = release.of_persons
    return _lost(release, rng), _at_risk(release)


def _lost(release: "Release", rng: "np.random.Generator") -> dict[str, float]:
    """Notes of the method and loss of information, by name."""
    lost = dict(release.notes)
    if release.recoding is not None:
        lost |= utility.figures(release.recoding, rng)
    if release.recodings:
        lost |= utility.figures_of_tables(list(release.recodings.values()))
    return finite(lost)


def _at_risk(release: "Release") -> dict[str, float]:
    """Risk of the released records by name."""
    released = ReleasedClasses.of_table(release.table, release.schema, release.persons)
    at_risk = risk.figures(released.whole)
    if released.tables:
        at_risk["hasr"] = max(map(risk.hasr, released.tables.values()))
    if released.whole.persons is not None:
        secret = [a.name for a in release.schema.sensitive]
        known = {name: released.of_attribute(name).values_left(name) for name in secret}
        at_risk |= known_rows.figures(known, release.guarantees)
    return finite(at_risk)


def loss_bound(release: "Release") -> dict[str, float]:
    """``gcp_bound``, below which no k-anonymous release of this table can lose, where it is known.

    It is rounded down to two digits: not even the officer needs to be told the source more exactly.
    Nothing is told of linked rows, of other methods than anonymizers, and of very large tables.
    """
    asked = [model.k for model in release.guarantees if isinstance(model, KAnonymity)]
    if release.recoding is None or release.trajectories is not None or not asked:
        return {}
    bound = least_gcp(release.recoding.encoded, max(asked))
    return {} if bound is None else {BOUND: _rounded_down(bound)}


def _rounded_down(bound: float) -> float:
    """To two digits."""
    scale = 10.0 ** (1 - math.floor(math.log10(bound))) if bound > 0 else 1.0
    return math.floor(bound * scale) / scale


def _report(
    release: "Release",
    loss: Mapping[str, float],
    risk: Mapping[str, float],
    table: Table,
    job: Job,
    *,
    about: Mapping[str, str] | None = None,
    budget: Mapping[str, Any] | None = None,
    rows: int | None = None,
) -> str:
    title = job.title or release.method

    def report() -> str:
        return render_report(
            release,
            loss,
            risk,
            title=title,
            source_rows=table.rows + suppressed_before(table),
            about={**(about or {}), **codes_of(table)},
            budget=budget,
            rows=rows,
            shifted=table.source.shifted,
            attempts=job.attempts,
        )

    claims = Claims.from_dict(release.manifest())
    return report_or_claims(report, claims, title=title, attempts=job.attempts)
