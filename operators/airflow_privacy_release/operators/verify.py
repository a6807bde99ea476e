"""Operator that reads the staged bytes and holds them against a policy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.hooks.ledger import ledger_of
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.links import ReportLink
from airflow_privacy_release.task.metrics import monitored, tell_alerts, tell_findings
from airflow_privacy_release.task.run import release_id, run_key

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.work.references import AlertRef, ReportRef, StagedRef


class VerifyOperator(BaseOperator):
    """Fail, without retry, unless the staged bytes keep the policy, and the floor policy where one is set.

    A differentially private release must also be what its budget ledger paid for; its reference names it.

    Args:
        table: reference to a staged release.
        name, lake: the release table and the Airflow connection id of its lake, where the policy is about the
            earlier releases of the table, too: it demands models across releases, or says
            `repeated_people: history`; or where there are alerts.
        alerts: figures that are held against limits and earlier releases, as in a specification. Those that
            are out of their limits are logged, and are in the report as `alerts`; they stop nothing.
        policy: a YAML file (absolute, or relative to the include folder), or the policy itself.
    """

    template_fields = ("table", "policy", "name", "lake", "alerts")
    template_fields_renderers = {"table": "json", "policy": "json", "alerts": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#fbe3dc"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "StagedRef | XComArg",
        policy: str | Mapping[str, Any],
        name: str | None = None,
        lake: str = DEFAULT_LAKE,
        alerts: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.policy = policy
        self.name = name
        self.lake = lake
        self.alerts = alerts

    @guarded
    @monitored("verify")
    def execute(self, context: "Context") -> "ReportRef":
        """Verify; the findings, bound to the sha256 of the bytes that were read."""
        from privacy_release.spec.files import load_policy
        from privacy_release.spec.floor import floor_policy, under_floor
        from privacy_release.steps.verify import raise_if_failed, verify_staged

        booking = self.table.get("booking")
        ledger = ledger_of(booking["ledger"]) if booking else None
        policy = load_policy(self.policy)
        asked = under_floor(policy, floor_policy()).about_earlier and self.name is not None
        lake = lake_of(self.lake) if asked else None
        run = (release_id(context), run_key(context))
        report = verify_staged(self.table, policy, ledger, lake=lake, name=self.name, run=run)
        for finding in report["findings"]:
            self.log.info(
                "finding",
                rule=finding["rule"],
                threshold=finding["threshold"],
                measured=finding["measured"],
                passed=finding["passed"],
            )
        tell_findings(context, report)
        raise_if_failed(report)
        self.log.info("verified", rows=report["rows"], classes=report["classes"], sha256=report["sha256"])
        if self.alerts:
            report["alerts"] = self._alerts(report, ledger, run)
            tell_alerts(context, report["alerts"])
        return report

    def _alerts(
        self, report: "ReportRef", ledger: "BudgetLedger | None", run: tuple[str, str]
    ) -> "list[AlertRef]":
        """What is out of its limits; whatever goes wrong is logged, and stops nothing."""
        from privacy_release.alerts.trend import find_alerts

        found = find_alerts(
            self.table,
            report,
            self.alerts or {},
            lake=lambda: lake_of(self.lake),
            name=self.name,
            run=run,
            ledger=ledger,
            tell=lambda problem: self.log.warning("alerts are incomplete", problem=problem),
        )
        for alert in found:
            self.log.warning("alert", **alert)
        return found
