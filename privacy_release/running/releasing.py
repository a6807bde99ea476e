"""Steps from the prepared table to a staged release that meets its policy."""

from functools import partial

from privacy_engine.vocabulary import counted
from privacy_release.plan.step import Slot, Step
from privacy_release.running.context import Releasing, Running
from privacy_release.steps.attacks.holdout import hold_out as held_out
from privacy_release.steps.attacks.tries import attack_staged
from privacy_release.steps.memberships.past import Past
from privacy_release.steps.release import make_release
from privacy_release.steps.types import check_types_of
from privacy_release.steps.verify import raise_if_failed, verify_staged
from privacy_release.workarea.references import ReportRef, StagedRelease, Table


def budget(run: Releasing, step: Step) -> None:
    """Report what the release spends. Whether enough is left was checked before the first step."""
    if run.budget is None or run.loss is None:
        return
    promise = run.budget.promise(run.loss)
    under = f", under a promise of epsilon {promise.loss.epsilon:g}" if promise is not None else ""
    run.say(step, f"epsilon {run.loss.epsilon:g} of {run.budget.dataset}{under}")


def hold_out(run: Running, step: Step) -> Table:
    """Return the records without those held out as the control group of attacks."""
    assert run.required is not None
    table = held_out(run.table, run.work, run.required.holdout, run.required.attacks)
    run.say(step, f"{counted(table.rows, 'record remains', 'records remain')} to be released")
    return table


def release(run: Releasing, step: Step) -> StagedRelease:
    """Make the staged release."""
    spec = run.spec
    check_types_of(spec, run.table, run.into)
    staged = make_release(
        run.table,
        run.work,
        method=spec.release.method,
        parameters=spec.release.parameters,
        seed=spec.release.seed,
        title=spec.name,
        on_progress=partial(run.say, step),
        budget=run.budget,
        policy=run.required,
        memory=run.memory,
        past=_past(run),
    )
    run.say(step, counted(staged.rows, "record"))
    return staged


def _past(run: Releasing) -> Past | None:
    """Return the earlier releases that the method needs. None if they are not read, or only verified."""
    history = run.spec.history
    if history is None or not history.keep:
        return None
    return Past(table=run.into, policy=run.required, run=run.run, **history.kept)


def verify(run: Releasing, step: Step) -> ReportRef:
    """Verify the staged bytes and return the report. All rules hold."""
    history = run.spec.history
    run.say(step, "measuring the staged bytes")
    report = verify_staged(
        run.staged,
        run.policy,
        run.budget.ledger if run.budget else None,
        table=run.into,
        run=run.run,
        register=run.handed.get(Slot.REGISTER),
        accept_unjudged=history.accept_unjudged if history is not None else None,
    )
    raise_if_failed(report)
    rules, classes = len(report.findings), report.classes
    run.say(step, f"{counted(rules, 'rule')} met by {counted(classes, 'class', 'classes')}")
    return report


def attack(run: Releasing, step: Step) -> ReportRef:
    """Return the report with the results of the attacks."""
    report = attack_staged(
        run.table,
        run.staged,
        run.report,
        title=run.spec.name,
        release_id=run.release_id,
        release_table=run.into,
        run=run.run,
        on_progress=partial(run.say, step),
        register=run.handed.get(Slot.REGISTER),
        work=run.work,
    )
    run.say(step, f"{counted(len(run.required.attacks), 'attack bound')} met")
    return report
