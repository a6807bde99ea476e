"""Facts about an ingested table, the lake and the ledger, found before records are read or losses booked."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import BudgetExceededError, PrivacyEngineError, SpecError
from privacy_engine.registry import kind_of, shown_method
from privacy_engine.tables.normal import FORM
from privacy_engine.vocabulary import ReleaseKind
from privacy_release.budget.budget import Budget, require_left
from privacy_release.budget.recorded import lacks_entries
from privacy_release.budget.schedules import schedule_named
from privacy_release.lake.log import ReleaseRun
from privacy_release.spec.rules.facts import UNKNOWN, Facts, HistoryFacts, Promised
from privacy_release.spec.rules.judge import refuse
from privacy_release.steps.memberships.earlier import EarlierReleases
from privacy_release.steps.memberships.past import Past
from privacy_release.steps.memberships.unjudged import asks_for_differences, made_before, silence_about_people
from privacy_release.workarea.engines import kind_of_engine
from privacy_release.workarea.people import WRITTEN
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.spec.model import ReleaseSpec


def facts_of_table(
    table: Table,
    schema: "DataSchema",
    releaser: "ReleaseMethod",
    parameters: Mapping[str, Any],
    *,
    budget: Budget | None = None,
    past: Past | None = None,
    policy: "ReleasePolicy | None" = None,
) -> Facts:
    """Return the facts about an ingested table and the release to make of it, before its records are read.

    The privacy loss is not among them: a method that cannot state its loss refuses the schema itself.

    Args:
        table: Table that is to be released.
        schema: Schema of the table.
        releaser: Release method, built with its parameters.
        parameters: Parameters that the method was built with.
        budget: Budget that is to pay for the release. None if none does.
        past: Earlier releases that this one stays safe with.
        policy: Policy of the release, including the floor policy. None: that of `past`, if there is one.
    """
    followed, source = table.follows_people, table.source
    history = None
    if past is not None:
        policy = past.policy if policy is None else policy
        history = HistoryFacts(
            k=past.k,
            m=past.m,
            departures=past.departures,
            counterfeits=past.counterfeits,
            hold_back=past.hold_back,
        )
    elif followed:
        history = HistoryFacts(keep=False)
    return replace(
        facts_of_method(schema, releaser, parameters, budget=budget, policy=policy),
        tables=tuple(source.tables),
        engine=kind_of_engine(table.engine),
        outliers=tuple(found.action for found in table.outliers),
        history=history,
        dropped=source.dropped,
        guessed=source.guessed,
        looking=tuple(step.name for step in source.transforms if not step.row_by_row),
        followed=followed,
        numbered=table.numbers_people,
    )


def facts_of_method(
    schema: "DataSchema",
    releaser: "ReleaseMethod",
    parameters: Mapping[str, Any],
    *,
    budget: Budget | None = None,
    policy: "ReleasePolicy | None" = None,
) -> Facts:
    """Return the facts about a method and the schema that it will be given, before there is a table.

    Args:
        schema: Schema of the method's input.
        releaser: Release method, built with its parameters.
        parameters: Parameters that the method was built with.
        budget: Budget that is to pay for the release. None if none does.
        policy: Policy of the release, including the floor policy. None if it is not known.
    """
    method, shown = shown_method(releaser.key, parameters)
    kind = kind_of(releaser.key)
    if policy is not None and kind is ReleaseKind.STRUCTURE:
        policy = policy.of_invented_records()
    return Facts(
        columns=tuple((a.name, a) for a in schema.attributes),
        spanned=[a.name for a in schema.quasi_identifiers if a.ordered and a.categories is None],
        person=schema.by or None,
        linked=schema.linked,
        kind=kind,
        method=method,
        parameters=shown,
        budget=budget is not None,
        promise=Promised.of(None if budget is None else budget.schedule),
        policy=UNKNOWN if policy is None else policy,
        schema=schema,
        releaser=releaser,
        promise_for=None if budget is None else budget.promise,
    )


def loss_by_rules(facts: Facts) -> "PrivacyLoss | None":
    """Return the privacy loss of a release that breaks no rule. None if its method claims no loss.

    Args:
        facts: Facts about the method at least. If a budget is to pay, the policy must be known.

    Raises:
        PrivacyEngineError: With all problems.
    """
    must = ("policy",) if facts.budget else ()
    try:
        loss = facts.releaser.privacy_loss(facts.schema)
    except PrivacyEngineError:  # the schema is wrong, and a rule may explain it better
        refuse(facts, must)
        raise
    refuse(replace(facts, loss=loss), must)
    return loss


def budget_of(spec: "ReleaseSpec", run: str, ledger: "BudgetLedger") -> Budget:
    """Return the budget that a release of a specification spends.

    Args:
        spec: Specification with a budget.
        run: Name of the run.
        ledger: Ledger in which the loss is booked.
    """
    assert spec.budget is not None
    said = spec.budget.schedule
    return Budget(
        dataset=spec.budget.dataset,
        run=run,
        ledger=ledger,
        connection=spec.budget.ledger,
        schedule=None if said is None else schedule_named(spec.name, said),
    )


def with_ledger(
    facts: Facts,
    budget: Budget | None,
    table: "ReleaseTable | None" = None,
) -> Facts:
    """Add what the ledger says to the facts. Nothing is booked, so another run may book first.

    Args:
        facts: Facts known so far.
        budget: Budget that is to pay. None if none does.
        table: The release table.

    Raises:
        LedgerError: If the ledger cannot be reached.
        PublishError: If the lake cannot be reached.
    """
    if budget is None or (loss := facts.loss) is None:
        return replace(facts, promise_for=None, shortage=None, restored=False)
    facts = replace(facts, promise_for=budget.promise)
    if table is not None:
        facts = replace(facts, restored=lacks_entries(budget, table))
    try:
        budget.promise(loss)
    except SpecError:  # a rule reports this
        return facts
    try:
        require_left(budget, loss)
    except BudgetExceededError as error:
        return replace(facts, shortage=str(error))
    return replace(facts, shortage=None)


def with_lake(facts: Facts, spec: "ReleaseSpec", table: "ReleaseTable", release_id: str) -> Facts:
    """Add what verification will find about the earlier releases of the table to the facts.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    if not asks_for_earlier(facts):
        return replace(facts, earlier=None, unjudged=0)
    published = EarlierReleases(named=table, run=ReleaseRun(release_id, release_id)).published()
    unjudged = 0
    if spec.history is not None and asks_for_differences(facts.policy):
        named = spec.attributes.get(spec.history.identifier)
        unjudged = made_before(table.name, published, WRITTEN if named is not None and named.exact else FORM)
    facts = replace(facts, unjudged=unjudged)
    if not _is_silent_about_people(facts):
        return replace(facts, earlier=None)
    finding = silence_about_people(table.name, spec.unfollowed, published)
    problem = None if finding.passed else f"{finding.rule} is not kept: {finding.remedy}"
    return replace(facts, earlier=problem)


def asks_for_earlier(facts: Facts) -> bool:
    """Return whether the earlier releases of the table affect whether another one is allowed."""
    return _is_silent_about_people(facts) or _judges_differences(facts)


def _is_silent_about_people(facts: Facts) -> bool:
    return facts.policy.repeated_people == "history" and bool(facts.unfollowed)


def _judges_differences(facts: Facts) -> bool:
    return facts.history is not None and asks_for_differences(facts.policy)
