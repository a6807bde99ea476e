"""Operator that stops a run before its records are fetched if the privacy budget is too small."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.connections import schedule_from
from airflow_privacy_release.hooks.ledger import ledger_of
from airflow_privacy_release.operators.release import require_policy
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.former import formerly
from airflow_privacy_release.task.rendering import method_parameters, read_field
from airflow_privacy_release.task.run import run_key, skip
from privacy_engine.errors import BudgetExceededError, SpecError
from privacy_release.budget.budget import DEFAULT_LEDGER, Budget, require_left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from privacy_engine.dp.ledger import Standing
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.dp.promises import Promise

ACTIONS = ("skip", "fail")


class BudgetGuardOperator(BaseOperator):
    """Pass if the budget of a data set covers a release. Otherwise skip all later tasks, or fail.

    Use it as the first task of a DAG, before the ingest. It books nothing: the release task books, and its
    check is the one that counts. A run that already holds a booking passes whatever is left, so clearing it
    costs nothing. If a data set has no budget, or one that could never pay, the task fails even if the action
    is `skip`: otherwise nothing would ever be released, and no one would notice. A release that its policy
    would refuse, or that breaks another rule of method, schema and policy, fails as well, before the ledger
    is read.

    Args:
        dataset: Name of the data set in the ledger.
        epsilon: Epsilon that the release will spend, for tables that differ in one record (`replace_one`).
        delta: Delta that the release will spend.
        method, parameters, schema: Method, parameters and schema of the release, instead of epsilon. They are
            checked against the policy, and the privacy loss is computed from them.
        policy: Policy of the release, as for `ReleaseOperator`; required. With an epsilon, which may cover
            several releases, the policy must be readable, and the tasks that release check its limits.
        promise: Promise of the whole schedule, as for `ReleaseOperator`. The budget must then cover once
            what the schedule promises.
        ledger: Airflow connection id of the ledger.
        action: `skip` skips every task except the clean-up, so the run succeeds; `fail` fails without
            retries.
    """

    template_fields = (
        *("dataset", "epsilon", "delta", "method", "parameters", "schema", "policy"),
        *("promise", "ledger", "action"),
    )
    template_fields_renderers = {  # noqa: RUF012  Airflow's own declaration
        "parameters": "json",
        "schema": "json",
        "policy": "json",
        "promise": "json",
    }
    ui_color = "#fdf1d0"

    @formerly(over_time="promise")
    def __init__(
        self,
        *,
        dataset: str,
        epsilon: float | str | None = None,
        delta: float | str = 0.0,
        method: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        schema: str | Mapping[str, Any] | None = None,
        policy: str | Mapping[str, Any] | None = None,
        promise: Mapping[str, Any] | None = None,
        ledger: str = DEFAULT_LEDGER,
        action: str = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.parameters = parameters
        self.schema = schema
        self.policy = policy
        self.promise = promise
        self.ledger = ledger
        self.action = action
        require_policy(self.task_id, self.dataset, self.policy)

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Check the ledger. Return what was checked and whether the run was paid for before."""
        if self.action not in ACTIONS:
            raise SpecError(f"budget: action must be one of {list(ACTIONS)}. Correct it")
        ledger = ledger_of(self.ledger)
        budget = Budget(
            dataset=self.dataset,
            run=run_key(context),
            ledger=ledger,
            schedule=schedule_from(self.promise),
        )
        loss = self._loss(budget)
        try:
            booked = require_left(budget, loss)
        except BudgetExceededError as error:
            if self.action == "fail" or not _spent(ledger.standing(self.dataset), loss, budget.promise(loss)):
                raise
            self.log.info("budget too small, nothing is released", reason=str(error))
            skip(self, context, str(error))
        self.log.info("budget", dataset=self.dataset, epsilon=loss.epsilon, booked_before=booked)
        return {"dataset": self.dataset, **loss.to_dict(), "booked_before": booked}

    def _loss(self, budget: Budget) -> "PrivacyLoss":
        """Return the loss of the release, or raise if a rule refuses it. The ledger is not read."""
        from privacy_engine.dp.loss import Neighbours, PrivacyLoss
        from privacy_release.spec.files import load_policy, load_schema
        from privacy_release.spec.floor import floor_policy, under_floor
        from privacy_release.spec.methods import build_method
        from privacy_release.steps.facts import facts_of_method, loss_by_rules

        if (self.method is None) == (self.epsilon is None) or (self.method is None) != (self.schema is None):
            raise SpecError("budget: give either epsilon, or method and schema")
        policy = under_floor(load_policy(self.policy or {}), floor_policy())
        if self.method is not None and self.schema is not None:
            parameters = method_parameters(self.method, self.parameters or {})
            releaser, schema = build_method(self.method, parameters), load_schema(self.schema)
            facts = facts_of_method(schema, releaser, parameters, budget=budget, policy=policy)
            loss = loss_by_rules(facts)
            assert loss is not None  # the rule budget.none
            return loss
        epsilon = read_field("budget: epsilon", self.epsilon, float)
        delta = read_field("budget: delta", self.delta, float)
        try:
            return PrivacyLoss.within(epsilon, delta, Neighbours.REPLACE_ONE)
        except (TypeError, ValueError) as error:
            raise SpecError(f"budget: {error}. Correct it") from None


def _spent(standings: "Sequence[Standing]", loss: "PrivacyLoss", promise: "Promise | None") -> bool:
    """Return whether the budget is used up, rather than too small for any such release."""
    return bool(standings) and all(
        s.limit.neighbours is loss.neighbours
        and (s.covers(loss, promise) or (s.limit.period.name != "release" and not _has_no_delta(s, loss)))
        for s in standings
    )


def _has_no_delta(standing: "Standing", loss: "PrivacyLoss") -> bool:
    """Return whether a limit that is not closed has no delta at all, although the release spends some."""
    limit = standing.limit
    return limit.epsilon > 0 and not limit.is_zcdp and not limit.delta and loss.delta > 0
