"""Operators that check the staged bytes against a policy and run the attacks that it bounds."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.hooks.ledger import ledger_of
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.links import ReportLink
from airflow_privacy_release.task.metrics import monitored, send_alerts, send_findings
from airflow_privacy_release.task.paid import log_counts
from airflow_privacy_release.task.run import release_id, release_run, run_work_area
from privacy_release.workarea.references import AlertRef, ReportRef, StagedRelease, Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.lake.log import ReleaseRun
    from privacy_release.ledger.ledger import BudgetLedger


class VerifyOperator(BaseOperator):
    """Fail, without retry, unless the staged bytes meet the policy and the floor policy, if one is set.

    Attacks that a policy bounds are run afterwards by `AttackOperator`.

    A differentially private release must also match what its budget ledger paid for. Its reference names the
    ledger.

    Args:
        table: Reference to a staged release.
        name, lake: Name of the release table and the Airflow connection id of its lake. Required if the
            policy is about earlier releases of the table (models across releases, or `repeated_people:
            history`), or if there are alerts.
        alerts: Figures to compare with limits and earlier releases, as in a specification. Those outside of
            their limits are logged and listed in the report as `alerts`. They stop nothing.
        policy: YAML file (absolute, or relative to the include folder), or the policy itself.
        register: Reference to a register of the whole population that was ingested with `person`, for the
            attacker `population` of the policy model `republication`. None: the population is all persons of
            all releases.
        accept_unjudged: Reason why the release may be published after releases that were made before
            differences between releases could be judged; the manifest states it. None: it may not, where the
            policy names `republication`.
    """

    references: ClassVar = {"table": StagedRelease, "register": Table}
    template_fields = ("table", "policy", "name", "lake", "alerts", "register", "accept_unjudged")
    template_fields_renderers = {  # noqa: RUF012  Airflow's own declaration
        "table": "json",
        "policy": "json",
        "alerts": "json",
        "register": "json",
    }
    ui_color = "#fbe3dc"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "StagedRelease | XComArg",
        policy: str | Mapping[str, Any],
        name: str | None = None,
        lake: str = DEFAULT_LAKE,
        alerts: Mapping[str, Any] | None = None,
        register: "Table | XComArg | None" = None,
        accept_unjudged: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.accept_unjudged = accept_unjudged
        self.table: Any = table  # references by the time of execute
        self.register: Any = register
        self.policy = policy
        self.name = name
        self.lake = lake
        self.alerts = alerts

    @recorded
    @monitored("verify")
    def execute(self, context: "Context") -> "ReportRef":
        """Verify the release. Return the findings, bound to the sha256 of the bytes that were read."""
        from privacy_engine.verification.republication.notes import notes_on_earlier
        from privacy_release.spec.files import load_policy
        from privacy_release.spec.floor import floor_policy, under_floor
        from privacy_release.steps.verify import raise_if_failed, verify_staged

        booking = self.table.booking
        ledger = ledger_of(booking.ledger) if booking else None
        policy = load_policy(self.policy)
        about_earlier = under_floor(policy, floor_policy()).about_earlier
        table = lake_of(self.lake).table(self.name) if about_earlier and self.name is not None else None
        run = release_run(context)
        report = verify_staged(
            self.table,
            policy,
            ledger,
            table=table,
            run=run,
            register=self.register,
            accept_unjudged=self.accept_unjudged,
        )
        for finding in report.findings:
            self.log.info(
                "finding",
                rule=finding["rule"],
                threshold=finding["threshold"],
                measured=finding["measured"],
                passed=finding["passed"],
            )
        for note in notes_on_earlier(report.findings, followed=self.table.follows_people):
            self.log.info("over time", note=note)
        send_findings(context, report)
        raise_if_failed(report)
        self.log.info("verified", rows=report.rows, classes=report.classes, sha256=report.sha256)
        if self.alerts:
            report = replace(report, alerts=self._alerts(report, ledger, run))
            send_alerts(context, report.alerts)
        return report

    def _alerts(
        self, report: "ReportRef", ledger: "BudgetLedger | None", run: "ReleaseRun"
    ) -> "list[AlertRef]":
        """Return the figures outside of their limits. Any error is logged and stops nothing."""
        from privacy_release.alerts.trend import find_alerts

        name = self.name
        found = find_alerts(
            self.table,
            report,
            self.alerts or {},
            table=None if name is None else lambda: lake_of(self.lake).table(name),
            run=run,
            ledger=ledger,
            on_problem=lambda problem: self.log.warning("alerts are incomplete", problem=problem),
        )
        for alert in found:
            self.log.warning("alert", **alert.to_ref())
        return found


class HoldOutOperator(BaseOperator):
    """Hold people out of a release as the control group of attacks on it, if the policy bounds attacks.

    Who is held out is drawn with a key of the run, never from the content of a record; their records stay in
    the work area of the run. If the policy and the floor policy bound no attack, all people stay in the
    table. The task fails if fewer people remain than the shadow releases of a rule need.

    Args:
        table: Reference to the table to be released.
        policy: YAML file of the policy, or the policy itself, as for `VerifyOperator`. Its rules
            `attack_risk` set the share of people to hold out.
    """

    references: ClassVar = {"table": Table}
    template_fields = ("table", "policy")
    template_fields_renderers = {"table": "json", "policy": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#efe6f6"

    def __init__(self, *, table: "Table | XComArg", policy: str | Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.policy = policy

    @recorded
    @monitored("hold_out")
    def execute(self, context: "Context") -> "Table":
        """Hold people out. Return a reference to the table without them."""
        from privacy_release.spec.files import load_policy
        from privacy_release.spec.floor import floor_policy, under_floor
        from privacy_release.steps.attacks.holdout import hold_out

        required = under_floor(load_policy(self.policy), floor_policy())
        table: Table = self.table
        if required.attacks:
            with run_work_area(context) as work:
                table = hold_out(self.table, work, required.holdout, required.attacks)
        log_counts(self, "held out", {"left": table.rows}, share=required.holdout)
        return table


class AttackOperator(BaseOperator):
    """Fail, without retry, if an attack gains more than the policy allows or misses a planted leak.

    The policy is the one that the release was verified under. If it bounds no attack, the report is returned
    unchanged. Shadow releases that a rule requires are made from the people who were held out, with the
    release's method; a retry finds them in the work area. The figures go to a report that only the curator
    can read, see `CuratorReportOperator`. The approver of a release without a privacy loss sees them, too.

    Args:
        source: Output of `HoldOutOperator`, from which the release was made.
        table: Reference to the staged release.
        report: Findings of `VerifyOperator`.
        title: Name of the release, which is also the curator's folder for its reports.
        name: Name of the release table, whose earlier releases the attacks `intersection` and `difference`
            use.
        lake: Airflow connection id of its lake.
        register: Reference to ingested public records of the population, with some of the quasi-identifiers.
            The attack `linkage` also tries to name people with them. None: no such register.
    """

    references: ClassVar = {"source": Table, "table": StagedRelease, "report": ReportRef, "register": Table}
    template_fields = ("source", "table", "report", "title", "name", "lake", "register")
    template_fields_renderers = {"source": "json", "table": "json", "report": "json", "register": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#fbe3dc"

    def __init__(
        self,
        *,
        source: "Table | XComArg",
        table: "StagedRelease | XComArg",
        report: "ReportRef | XComArg",
        title: str,
        name: str | None = None,
        lake: str = DEFAULT_LAKE,
        register: "Table | XComArg | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.register: Any = register
        self.source: Any = source  # references by the time of execute
        self.table: Any = table
        self.report: Any = report
        self.title = title
        self.name = name
        self.lake = lake

    @recorded
    @monitored("attack")
    def execute(self, context: "Context") -> "ReportRef":
        """Attack the release. Return the report with the outcome of each rule."""
        from privacy_release.steps.attacks.tries import AttackedRelease, attack_staged
        from privacy_release.steps.memberships.earlier import EarlierReleases

        table = None
        if self.table.follows_people and self.name is not None:
            table = lake_of(self.lake).table(self.name)
        attacked = AttackedRelease(
            table=self.source,
            staged=self.table,
            report=self.report,
            earlier=EarlierReleases(named=table, run=release_run(context)),
            register=self.register,
        )
        with run_work_area(context) as work:
            report = attack_staged(
                attacked,
                title=self.title,
                release_id=release_id(context),
                on_progress=lambda text: self.log.info("attacking", attack=text),
                work=work,
            )
        for trial in report.trials:
            self.log.info("attack", rule=trial.rule, passed=trial.passed)
        return report
