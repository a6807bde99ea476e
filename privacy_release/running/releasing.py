"""Steps from the prepared table to a staged release that meets its policy."""

from functools import partial

from privacy_engine.vocabulary import counted
from privacy_release.plan.step import Slot, Step
from privacy_release.running.context import Releasing, Running
from privacy_release.steps.attacks.holdout import hold_out as held_out
from privacy_release.steps.attacks.tries import AttackedRelease, attack_staged
from privacy_release.steps.memberships.past import Past
from privacy_release.steps.release import make_release
from privacy_release.steps.types import check_types_of
from privacy_release.steps.verify import raise_if_failed, verify_staged
from privacy_release.workarea.references import ReportRef, StagedRelease, Table


def budget(run: Releasing, step: Step) -> None:
    """Report what the release spends. Whether enough is left was checked before the first step."""
    budget, loss = run.judged.budget, run.judged.facts.loss
    if budget is None or loss is None:
        return
    promise = budget.promise(loss)
    under = f", under a promise of epsilon {promise.loss.epsilon:g}" if promise is not None else ""
    run.say(step, f"epsilon {loss.epsilon:g} of {budget.dataset}{under}")


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
        budget=run.judged.budget,
        policy=run.required,
        memory=run.judged.memory,
        past=_past(run),
    )
    run.say(step, counted(staged.rows, "record"))
    return staged


def _past(run: Releasing) -> Past | None:
    """Return the earlier releases that the method needs. None if they are not read, or only verified."""
    history = run.spec.history
    if history is None or not history.keep:
        return None
    return Past(releases=run.judged.earlier, policy=run.required, **history.kept)


def verify(run: Releasing, step: Step) -> ReportRef:
    """Verify the staged bytes and return the report. All rules hold."""
    history = run.spec.history
    run.say(step, "measuring the staged bytes")
    report = verify_staged(
        run.staged,
        run.judged.facts.own_policy[0],
        run.judged.ledger,
        table=run.into,
        run=run.judged.earlier.run,
        register=run.handed.get(Slot.REGISTER),
        accept_unjudged=history.accept_unjudged if history is not None else None,
    )
    raise_if_failed(report)
    rules, classes = len(report.findings), report.classes
    run.say(step, f"{counted(rules, 'rule')} met by {counted(classes, 'class', 'classes')}")
    return report


def attack(run: Releasing, step: Step) -> ReportRef:
    """Return the report with the results of the attacks."""
    attacked = AttackedRelease(
        table=run.table,
        staged=run.staged,
        report=run.report,
        earlier=run.judged.earlier,
        register=run.handed.get(Slot.REGISTER),
    )
    report = attack_staged(
        attacked,
        title=run.spec.name,
        release_id=run.release_id,
        on_progress=partial(run.say, step),
        work=run.work,
    )
    run.say(step, f"{counted(len(run.required.attacks), 'attack bound')} met")
    return report
