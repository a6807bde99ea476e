"""Operator that reads the staged bytes and holds them against a policy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators.guard import guarded

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from operators.steps import ReportRef, StagedRef


class VerifyOperator(BaseOperator):
    """Fail, without retry, unless the staged bytes keep the policy; knows no method.

    Args:
        table: reference to a staged release.
        policy: a YAML file (absolute, or relative to the include folder), or the policy itself.
    """

    template_fields = ("table", "policy")
    template_fields_renderers = {"table": "json", "policy": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#fbe3dc"

    def __init__(
        self, *, table: "StagedRef | XComArg", policy: str | Mapping[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.policy = policy

    @guarded
    def execute(self, context: "Context") -> "ReportRef":
        """Verify; the findings, bound to the sha256 of the bytes that were read."""
        from operators.spec import load_policy
        from operators.steps import raise_if_failed, verify_staged

        report = verify_staged(self.table, load_policy(self.policy))
        for finding in report["findings"]:
            self.log.info(
                "finding",
                rule=finding["rule"],
                threshold=finding["threshold"],
                measured=finding["measured"],
                passed=finding["passed"],
            )
        raise_if_failed(report)
        self.log.info("verified", rows=report["rows"], classes=report["classes"], sha256=report["sha256"])
        return report
