"""The section `alerts` of a release file: figures that cause a warning."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from privacy_release.config.problems import problems_of, wrong
from privacy_release.spec.fields import Number, Whole
from privacy_release.spec.sections.section import Section


class AlertSpec(Section):
    """The limits of a figure that cause a warning. At least one of the fields must be set.

    Attributes:
        above, below: Limits of the figure.
        rises_by, falls_by: Limits of its deviation from the median of the last releases, as a share of the
            median: 0.2 is a fifth.
    """

    above: Number | None = Field(default=None, ge=0)
    below: Number | None = Field(default=None, gt=0)
    rises_by: Number | None = Field(default=None, gt=0)
    falls_by: Number | None = Field(default=None, gt=0, lt=1)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError("must have one of above, below, rises_by, falls_by; add it")
        if self.above is not None and self.below is not None and self.below > self.above:
            raise ValueError("below must not be larger than above: each value would be an alert; correct it")
        return self


class ShareAlertSpec(AlertSpec):
    """The same for a figure from 0 to 1, whose limits are also from 0 to 1."""

    above: Number | None = Field(default=None, ge=0, lt=1)
    below: Number | None = Field(default=None, gt=0, le=1)


class BudgetAlertSpec(Section):
    """The limit of the remaining privacy budget that causes a warning.

    Attributes:
        left_below: Remaining share of a limit below which a warning is given.
    """

    left_below: Number = Field(gt=0, le=1)


class AlertsSpec(Section):
    """The figures of a release that cause a warning if they exceed their limits or deviate from their trend.

    An alert never stops a release: requirements are in the policy. The figures have the names of the
    manifest. They are public, so for a release that spends a budget none is about the source.

    Attributes:
        last: Number of earlier releases, not retracted, of which the median is computed.
        rows: Number of released records.
        k, l, t: Measured values, as far as the policy requires the models.
        epsilon: Epsilon that the release spends.
        gcp_lca, gcp_own, non_uniform_entropy, query_error, average_class_size, discernibility: Information
            loss by each measure.
        suppressed_records, suppressed_cells: Share of records or cells without their original value.
        prosecutor_max, prosecutor_mean, journalist_max, journalist_mean, marketer, share_at_risk: Risk of
            linking.
        hasr, values_left, persons_below_l: Risk of learning a sensitive value.
        budget: Remaining privacy budget.
    """

    last: Whole = Field(default=5, ge=1, le=60)
    rows: AlertSpec | None = None
    k: AlertSpec | None = None
    l: AlertSpec | None = None  # noqa: E741  the field's own symbol
    t: ShareAlertSpec | None = None
    epsilon: AlertSpec | None = None
    gcp_lca: ShareAlertSpec | None = None
    gcp_own: ShareAlertSpec | None = None
    non_uniform_entropy: ShareAlertSpec | None = None
    query_error: AlertSpec | None = None
    average_class_size: AlertSpec | None = None
    discernibility: AlertSpec | None = None
    suppressed_records: AlertSpec | None = None
    suppressed_cells: AlertSpec | None = None
    prosecutor_max: ShareAlertSpec | None = None
    prosecutor_mean: ShareAlertSpec | None = None
    journalist_max: ShareAlertSpec | None = None
    journalist_mean: ShareAlertSpec | None = None
    marketer: ShareAlertSpec | None = None
    share_at_risk: ShareAlertSpec | None = None
    hasr: ShareAlertSpec | None = None
    values_left: AlertSpec | None = None
    persons_below_l: AlertSpec | None = None
    budget: BudgetAlertSpec | None = None

    @property
    def figures(self) -> dict[str, AlertSpec]:
        """The limits of each figure that has any."""
        return {name: given for name, given in self if isinstance(given, AlertSpec)}


def read_alerts(fields: Mapping[str, Any]) -> AlertsSpec:
    """Return limits that are given outside of a specification.

    Raises:
        SpecError: Naming each wrong field and the remedy.
    """
    try:
        return AlertsSpec.model_validate(dict(fields))
    except ValidationError as error:
        raise wrong("alerts", "; ".join(problems_of(error, AlertsSpec))) from None
