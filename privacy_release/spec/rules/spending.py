"""Rules on what a budget pays for, and on random answers."""

from collections.abc import Iterator

from privacy_engine.errors import BudgetExceededError, IntegrityError, SpecError
from privacy_engine.registry import is_anonymizer, is_randomizer
from privacy_release.spec.outliers import REMOVING
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rules
from privacy_release.workarea.engines import LOCAL

RULES = Rules()
_PUBLIC = ("rows", "k", "l", "t", "epsilon")  # figures that only depend on released records and parameters


@RULES.rule("budget.loss", "budget", "method", "stated")
def _budgets_pay_for_a_loss(facts: Facts) -> Iterator[str]:
    spent = ("epsilon", "p_0") if is_randomizer(facts.method) else ("epsilon",)
    if facts.budget and not set(spent) & set(facts.stated):
        yield (
            f"release.{' or '.join(spent)} requires a budget, because it is what each run spends; add it, "
            "or remove the budget if the method is not differentially private"
        )


@RULES.rule("budget.none", "releaser", "loss", "budget")
def _losses_have_a_budget(facts: Facts) -> Iterator[str]:
    name = facts.releaser.key
    must_be_booked = facts.loss is not None and facts.loss.must_be_booked
    if must_be_booked and not facts.budget:
        yield (
            f"release: {name} is differentially private and must name the budget that it spends; add "
            "`budget: {dataset: NAME}` to the specification, or budget=NAME to the operator"
        )
    if not must_be_booked and facts.budget:
        yield (
            f"release: {name} makes no differential privacy claim that a budget pays for; remove the "
            "budget, or use a method that claims one, see `privacy-release list-methods`"
        )


@RULES.rule("budget.nulls", "budget", "nulls")
def _numbers_of_records_are_public(facts: Facts) -> Iterator[str]:
    # A record that replaces another may have a null instead of a value: the number of records, which
    # counts as public, would depend on it.
    if facts.budget and facts.nulls == "drop":
        yield (
            "source.nulls must be fail or keep with a budget: a loss for a public number of records does "
            "not cover which records have a null; keep them, or omit the columns"
        )


@RULES.rule("budget.dropped", "budget", "dropped")
def _no_record_was_dropped(facts: Facts) -> Iterator[str]:
    if facts.budget and facts.dropped:
        yield (
            "source: records with nulls must not be dropped before a differentially private method: its loss "
            "is for a public number of records; keep them (nulls: keep), or omit the columns"
        )


@RULES.rule("budget.types", "budget", "guessed")
def _types_follow_from_the_schema(facts: Facts) -> Iterator[str]:
    # A single record, 50 or 50.5, could change a type that is inferred from the values and released.
    if facts.budget and facts.guessed:
        yield (
            "source: the types of columns must follow from the schema if a privacy budget pays, but were "
            "inferred from the values of the query; give types='schema' to Query or IngestSqlOperator"
        )


@RULES.rule("budget.outliers", "budget", "outliers")
def _outliers_stay(facts: Facts) -> Iterator[str]:
    """Which records are outliers depends on all others, which the method's epsilon does not cover."""
    took = [str(action) for action in facts.outliers if action in REMOVING]
    if facts.budget and took:
        yield (
            f"outliers.action {took[0]} must not precede a differentially private method: its loss does not "
            "cover the choice of the outliers; use report or fail"
        )


@RULES.rule("budget.looking", "method", "looking")
def _steps_look_at_one_record(facts: Facts) -> Iterator[str]:
    """A person's record must not influence the records of others or their number."""
    if facts.looking and not is_anonymizer(facts.method):
        yield (
            f"the step {facts.looking[0]} must make one record from each record, independently, before "
            f"{facts.method}: its loss does not cover a choice or a sum over records; use sql that only "
            "computes columns, without WHERE, JOIN, GROUP BY or windows, or do it in the source"
        )


@RULES.rule("promise.method", "promise", "method")
def _promises_are_of_methods_that_hide_who_takes_part(facts: Facts) -> Iterator[str]:
    if facts.promise is None:
        return
    if is_randomizer(facts.method):
        yield (
            f"budget.promise: {facts.method} answers for each row and cannot hide who takes part; use a "
            "synthesizer, or remove promise"
        )


@RULES.rule("promise.loss", "promise_for", "loss")
def _losses_are_part_of_the_promise(facts: Facts) -> Iterator[str]:
    if facts.promise_for is None or facts.loss is None:
        return
    try:
        facts.promise_for(facts.loss)
    except SpecError as error:
        yield str(error)


@RULES.rule("promise.person", "promise", "person")
def _promises_to_persons_know_them(facts: Facts) -> Iterator[str]:
    if facts.promise is not None and facts.promise.knows_people and facts.person is None:
        yield (
            "budget.promise requires a person: it limits the number of releases that a person takes "
            "part in; name the identifier of the person of each row as `person`, "
            "or remove promise"
        )


@RULES.rule("promise.engine", "promise", "engine")
def _participants_are_counted_in_memory(facts: Facts) -> Iterator[str]:
    if facts.promise is not None and facts.promise.knows_people and facts.engine != LOCAL:
        yield (
            f"budget.promise cannot be combined with engine {facts.engine}, because participants are counted "
            "in memory; use engine local, or remove promise"
        )


@RULES.rule("promise.transform", "promise", "transformed")
def _persons_keep_their_numbers(facts: Facts) -> Iterator[str]:
    if facts.promise is not None and facts.promise.knows_people and facts.transformed:
        yield (
            "budget.promise cannot be combined with a transform, after which persons have other numbers in "
            "every run; make the columns in the source, or remove one of both"
        )


@RULES.rule("promise.numbered", "promise", "numbered")
def _persons_have_the_same_numbers_in_every_run(facts: Facts) -> Iterator[str]:
    if facts.promise is not None and facts.promise.knows_people and not facts.numbered:
        yield (
            "budget.promise needs persons to have the same number in every run: ingest the table with "
            "`numbering`, and remove transforms, after which they have others"
        )


@RULES.rule("answers.schedule", "method", "parameters", "schedule")
def _answers_on_a_schedule_repeat(facts: Facts) -> Iterator[str]:
    if facts.schedule and is_randomizer(facts.method) and not _memoised(facts):
        yield (
            "release.randomness must be memoised on a schedule: answers that are drawn again in every "
            "release can be averaged out; set it, with a secret, or release once without a schedule"
        )


@RULES.rule("answers.individual", "method", "parameters", "read")
def _memoised_answers_go_by_an_individual(facts: Facts) -> Iterator[str]:
    if not is_randomizer(facts.method) or not _memoised(facts):
        return
    names = [name for name, column in facts.read.items() if column.role == "identifier"]
    named = facts.parameters.get("individual", names[0] if len(names) == 1 else None)
    if named not in names:
        yield (
            "schema must have a single identifier by which answers are memoised; give a column the role "
            "identifier, and name it as release.individual if there are several"
        )


@RULES.rule("alerts.budget", "alerts_of_budget", "budget")
def _alerts_of_a_budget_have_one(facts: Facts) -> Iterator[str]:
    if facts.alerts_of_budget and not facts.budget:
        yield "alerts.budget requires a budget; remove it"


@RULES.rule("alerts.figures", "alerts", "method")
def _alerts_are_about_public_figures(facts: Facts) -> Iterator[str]:
    of_source = [name for name in facts.alerts if name not in _PUBLIC]
    if of_source and not is_anonymizer(facts.method):
        yield (
            f"alerts.{', '.join(of_source)} cannot be combined with {facts.method}: loss and risk against "
            "the source would reveal what it hides, and are only in the curator's report; use "
            f"{', '.join(_PUBLIC)} or budget"
        )


def _memoised(facts: Facts) -> bool:
    return facts.parameters.get("randomness") == "memoised"


@RULES.rule("ledger.budget", "shortage", error=BudgetExceededError)
def _the_budget_covers_the_loss(facts: Facts) -> Iterator[str]:
    if facts.shortage is not None:
        yield facts.shortage


@RULES.rule("ledger.restored", "restored", error=IntegrityError)
def _the_ledger_is_not_an_old_copy(facts: Facts) -> Iterator[str]:
    """Losses that an old copy does not contain could be spent again."""
    if facts.restored:
        yield (
            "budget: the ledger must have the entries that paid for current releases of the table, but lacks "
            "one: it was replaced by an old copy, or is another ledger; restore its newest backup, or use "
            "the ledger in which they were booked"
        )
