"""Running a release method and staging what it made: table, schema, manifest and report, in the work area."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.registry import Family, family_of
from privacy_release.budget.budget import Budget
from privacy_release.budget.secrets import Memory, keyed
from privacy_release.reports.attempts import Attempts
from privacy_release.spec.methods import build_method
from privacy_release.steps.facts import facts_of_table, loss_by_rules
from privacy_release.steps.history import Past
from privacy_release.steps.producers.fragments import released_in_fragments
from privacy_release.steps.producers.job import Job, ProducedRelease, say_nothing
from privacy_release.steps.producers.randomized import randomized
from privacy_release.steps.producers.staging import stage
from privacy_release.steps.producers.synthetic import synthesized
from privacy_release.steps.producers.whole import anonymized
from privacy_release.steps.validate import with_expectations
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import LOCAL
from privacy_release.workarea.references import EngineRef, StagedRelease, Table
from privacy_release.workarea.staged import read_schema

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy

Producer = Callable[[Any, Any, Table, Job], ProducedRelease]
# Who makes the releases of a family's methods.
_PRODUCERS: Mapping[Family, Producer] = {
    Family.ANONYMIZER: anonymized,
    Family.SYNTHESIZER: synthesized,
    Family.RANDOMIZER: randomized,
}


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
    tell, given = progress or say_nothing, dict(parameters or {})
    table, schema = worked_on_by(engine, table), read_schema(table.schema)
    releaser = keyed(build_method(method, given), memory, seed)
    if policy is None and past is not None:
        policy = past.policy
    facts = facts_of_table(table, schema, releaser, given, budget=budget, past=past, policy=policy)
    job = Job(
        work=work,
        label=label,
        method=method,
        parameters=given,
        seed=seed,
        title=title,
        tell=tell,
        attempts=Attempts(tell),
        budget=budget,
        loss=loss_by_rules(facts),
        memory=memory,
        past=past,
    )
    produced = _producer_of(method, table)(releaser, schema, table, job)
    job.tell("staging")
    return stage(produced, table, job)


def _producer_of(method: str, table: Table) -> Producer:
    """Who makes a release of a table; an engine makes that of an anonymizer in fragments."""
    family = family_of(method)
    in_fragments = family is Family.ANONYMIZER and table.engine is not None
    return released_in_fragments if in_fragments else _PRODUCERS[family]


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
