"""Operator that makes a release by any registered method and stages it in the run's work area."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators.budget import DEFAULT_LEDGER, Budget
from operators.context import DEFAULT_LAKE, file_label, ledger_of, run_key, run_work_area
from operators.engines import chosen_engine
from operators.guard import guarded
from operators.links import ReportLink
from operators.memoised import Memory, memory_of
from operators.monitoring import monitored, tell_budget
from operators.parameters import method_parameters, read_text

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from operators.steps import StagedRef, TableRef


class ReleaseOperator(BaseOperator):
    """Make a release and stage it, with its manifest and report, in the run's work area.

    Staging is not publishing: `VerifyOperator` reads what was staged, `PublishOperator` what was verified.

    Args:
        table: reference to an ingested table.
        method: registry key, see `privacy-release list-methods`.
        parameters: of the method; rendered text is read as the parameter's type.
        seed: of the random choices; None takes fresh entropy. It never chooses the noise of a differentially
            private method, only which records are sampled from the measured model.
        title: of the report.
        budget: data set whose privacy budget a differentially private method spends; it needs one.
        ledger: Airflow connection id of the budget's ledger.
        secret: Airflow connection id whose password is the secret of memoised answers.
        replaces: fingerprint of the earlier secret that is given up on purpose.
        series: release table that memoised answers will go to: with another secret than its last release they
            are refused before anything is booked. Publishing refuses them in any case.
        lake: Airflow connection id of the lake of that table.
        engine: that works on the table, see `operators.engines`; None: the one it was ingested with. With
            another than `local` an anonymizer works on fragments, in a process pool or on Spark.
    """

    template_fields = (
        *("table", "method", "parameters", "seed", "title"),
        *("budget", "ledger", "secret", "replaces", "series", "lake", "engine"),
    )
    template_fields_renderers = {"table": "json", "parameters": "json", "engine": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e5f3e1"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        method: str,
        parameters: Mapping[str, Any] | None = None,
        seed: int | str | None = None,
        title: str | None = None,
        budget: str | None = None,
        ledger: str = DEFAULT_LEDGER,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        engine: str | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.method = method
        self.parameters = parameters
        self.seed = seed
        self.title = title
        self.budget = budget
        self.ledger = ledger
        self.secret = secret
        self.replaces = replaces
        self.series = series
        self.lake = lake
        self.engine = engine

    @guarded
    def execute(self, context: "Context") -> "StagedRef":
        """Stage a release; a reference to it."""
        return stage_release(
            self,
            context,
            method=self.method,
            parameters=self.parameters or {},
            budget=self.budget,
            ledger=self.ledger,
            memory=memory_of(self),
            engine=self.engine,
        )


@monitored("release")
def stage_release(
    operator: Any,
    context: "Context",
    *,
    method: str,
    parameters: Mapping[str, Any],
    budget: str | None = None,
    ledger: str = DEFAULT_LEDGER,
    memory: Memory | None = None,
    engine: str | Mapping[str, Any] | None = None,
) -> "StagedRef":
    """What every release operator does.

    Args:
        operator: has `table`, `seed`, `title` and `log`.
        context: of the running task.
        method: registry key.
        parameters: plain values or rendered text.
        budget: data set whose privacy budget is spent, if one is.
        ledger: Airflow connection id of its ledger.
        memory: of memoised answers.
        engine: that works on the table; None: its own.
    """
    from operators.steps import make_release

    paid, budget = None, read_text(budget, str | None)
    if budget is not None:
        paid = Budget(dataset=budget, run=run_key(context), ledger=ledger_of(ledger), connection=ledger)

    def say(step: str) -> None:
        operator.log.info("release step", step=step)

    checked = method_parameters(method, parameters)
    with run_work_area(context) as work:
        staged = make_release(
            operator.table,
            work,
            method=method,
            parameters=checked,
            seed=read_text(operator.seed, int | None),
            title=operator.title,
            label=file_label(context),
            progress=say,
            budget=paid,
            memory=memory,
            engine=chosen_engine(engine),
        )
    tell_budget(operator, paid)
    operator.log.info("staged", method=staged["method"], rows=staged["rows"], **staged["figures"])
    return staged
