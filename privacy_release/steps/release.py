"""Run a release method and stage the result: table, schema, manifest and report, in the work area."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.moved import renamed
from privacy_engine.registry import Family, family_of
from privacy_release.budget.budget import Budget
from privacy_release.budget.secrets import Memory, keyed
from privacy_release.reports.attempts import Attempts
from privacy_release.spec.methods import build_method
from privacy_release.steps.facts import facts_of_table, loss_by_rules
from privacy_release.steps.memberships.past import Past
from privacy_release.steps.producers.fragments import released_in_fragments
from privacy_release.steps.producers.job import Job, ProducedRelease, say_nothing
from privacy_release.steps.producers.randomized import randomized
from privacy_release.steps.producers.staging import stage
from privacy_release.steps.producers.structure import structured
from privacy_release.steps.producers.synthetic import synthesized
from privacy_release.steps.producers.whole import anonymized
from privacy_release.steps.validate import with_expectations
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import LOCAL
from privacy_release.workarea.references import EngineRef, StagedRelease, Table

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy

Producer = Callable[[Any, Any, Table, Job], ProducedRelease]
# The producer for the methods of each family.
_PRODUCERS: Mapping[Family, Producer] = {
    Family.ANONYMIZER: anonymized,
    Family.SYNTHESIZER: synthesized,
    Family.RANDOMIZER: randomized,
    Family.STRUCTURE: structured,
}


@renamed("progress", "on_progress")
def make_release(
    table: Table,
    work: WorkArea,
    *,
    method: str,
    parameters: Mapping[str, Any] | None = None,
    seed: int | None = None,
    title: str | None = None,
    label: str = "staged",
    on_progress: Callable[[str], None] | None = None,
    budget: Budget | None = None,
    policy: "ReleasePolicy | None" = None,
    memory: Memory | None = None,
    past: Past | None = None,
    engine: EngineRef | None = None,
) -> StagedRelease:
    """Run a release method and stage the result, with manifest and report, in the work area.

    Args:
        table: Table from `ingest`.
        work: Work area in which the release is staged.
        method: Registry key of the method.
        parameters: Parameters of the method.
        seed: Seed of its random choices. None draws fresh entropy. It is not recorded, because it reveals the
            choices. For a differentially private method it only chooses the sampled records, and None derives
            it from the measured model; the noise can never be seeded. Random answers use it with
            `randomness: seeded`.
        title: Title of the report.
        label: Prefix of the file names.
        on_progress: Progress callback, called with the name of each part of the work as it begins.
        budget: Budget of a differentially private method, which requires one.
        policy: Policy of the release, including the floor policy. Required with a budget, because a release
            that the policy would refuse in the end is refused before its loss is booked.
        memory: Secret of memoised answers. Required if answers are memoised.
        past: Earlier releases of the same people, if the release must stay safe together with them.
        engine: Engine for the table. None: the engine it was ingested with, or this machine's.

    Raises:
        SpecError: If method or parameters are wrong, or a rule is broken, see `spec.rules`.
        SecretError: If the answers are to be memoised and the secret is missing, or differs from the last.
        SchemaError: If the table does not fit its schema.
        InfeasibleError: If the guarantees cannot be met.
        IntegrityError: If the table changed since it was ingested.
        VerificationError: If the joined fragments do not meet what the method claims.
        BudgetExceededError: If the budget does not cover the loss. The table was not read.
        LedgerError: If the budget's ledger cannot be reached.
    """
    on_progress, given = on_progress or say_nothing, dict(parameters or {})
    table, schema = worked_on_by(engine, table), table.read_schema()
    releaser = keyed(build_method(method, given), memory, seed)
    facts = facts_of_table(table, schema, releaser, given, budget=budget, past=past, policy=policy)
    job = Job(
        work=work,
        label=label,
        method=method,
        parameters=given,
        seed=seed,
        title=title,
        on_progress=on_progress,
        attempts=Attempts(on_progress),
        budget=budget,
        loss=loss_by_rules(facts),
        memory=memory,
        past=past,
    )
    produced = _producer_of(method, table)(releaser, schema, table, job)
    job.on_progress("staging")
    return stage(produced, table, job)


def _producer_of(method: str, table: Table) -> Producer:
    """Return the producer for a table. An engine makes the release of an anonymizer in fragments."""
    family = family_of(method)
    in_fragments = family is Family.ANONYMIZER and table.is_in_fragments
    return released_in_fragments if in_fragments else _PRODUCERS[family]


def worked_on_by(engine: EngineRef | None, table: Table) -> Table:
    """Return the table with the engine that works on it. With `local` it is this machine's, in one piece."""
    if engine is None:
        return table
    return replace(table, engine=None if engine.kind == LOCAL else engine)


def with_required(table: Table, required: Sequence[Table] | None) -> Table:
    """Add the results of tasks that had to succeed before the release to a table.

    Args:
        table: Table that is to be released.
        required: Results of these tasks. None: no task was required.

    Raises:
        SpecError: If no task was required for a table that was made from several.
        IntegrityError: If a result is about an earlier state of the source.
    """
    if required is None:
        if table.source.tables:
            raise SpecError(
                "`requires` must list the tasks that validate each of the tables, or be `[]` if there are "
                "none: the table does not show whether they succeeded"
            )
        return table
    source = table.source
    for other in required:
        if other.source.uri == source.uri and other.source.fingerprint != source.fingerprint:
            raise IntegrityError(
                "the validated table must be the one that is released, but it was read again since; clear "
                "the tasks that validate it"
            )
    return with_expectations(table, [other.source.expectations for other in required])
