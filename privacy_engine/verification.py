"""Does a released table keep a policy? Reads the released records and knows no algorithm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.classes import EquivalenceClasses
from privacy_engine.cross_release import CrossReleaseModel, History, Membership
from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import VerificationError
from privacy_engine.models import Named, PrivacyModel, holds, model_to_dict
from privacy_engine.policy import ReleasePolicy
from privacy_engine.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One rule of a policy held against a release.

    Attributes:
        rule: the model or limit with its parameters, as text.
        threshold, measured: in the same unit; None where nothing could be measured.
        passed: whether the rule holds.
        failing_classes, failing_rows: how many miss it, where the rule is about classes.
    """

    rule: str
    threshold: float
    measured: float | None
    passed: bool
    failing_classes: int = 0
    failing_rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings on a release; it passes if each of them does and there is one."""

    rows: int
    classes: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether the release may be published."""
        return bool(self.findings) and all(finding.passed for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; infinite and undefined numbers become None."""
        return {
            "passed": self.passed,
            "rows": self.rows,
            "classes": self.classes,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def raise_if_failed(self) -> None:
        """Refuse a release that does not pass.

        Raises:
            VerificationError: naming each rule that fails, its threshold, the measured number and the counts.
        """
        if not self.passed:
            failed = [_sentence(finding) for finding in self.findings if not finding.passed]
            raise VerificationError(
                "the release does not keep its policy: "
                + ("; ".join(failed) or "the policy has no rule")
                + ". Use stricter parameters or another method; the policy is not the method's to change"
            )


def verify(
    table: pd.DataFrame,
    schema: DataSchema,
    policy: ReleasePolicy,
    *,
    loss: PrivacyLoss | None = None,
    figures: Mapping[str, float] | None = None,
    persons: npt.NDArray[np.object_] | None = None,
    earlier: Sequence[Membership] = (),
) -> Report:
    """Measure every rule of a policy on released records.

    Args:
        table: the released records.
        schema: what their columns are. Its identifiers must not be among the columns.
        policy: what must hold.
        loss: what the release claims to have spent; limits on epsilon and delta are held against it.
        figures: ``suppressed``, ``gcp``, ``distorted`` and ``breach`` as shares, for the limits on them.
        persons: (n,) whose record each row is, as text, for the models across releases.
        earlier: the earlier releases that may be about the same people.

    Returns:
        The report; it never raises for a failed rule.

    Raises:
        VerificationError: if columns are missing, unknown, or identifiers, or a model across releases is
            demanded and cannot be measured.
    """
    _check_columns(table, schema)
    classes = EquivalenceClasses.of_table(table, schema)
    found = [_model_finding(model, classes) for model in policy.require]
    if policy.across:
        history = History(new=_people(table, schema, policy, loss, persons), earlier=tuple(earlier))
        found += [_across_finding(model, history, classes) for model in policy.across]
    for name in ("suppressed", "gcp", "distorted", "breach"):
        limit = getattr(policy, f"max_{name}")
        if limit is not None:
            found.append(_limit_finding(f"max_{name}", limit, (figures or {}).get(name)))
    if policy.max_epsilon is not None:
        found.append(_limit_finding("max_epsilon", policy.max_epsilon, loss.epsilon if loss else None))
    if policy.max_delta is not None:
        found.append(_limit_finding("max_delta", policy.max_delta, loss.delta if loss else None))
    return Report(rows=len(table), classes=len(classes), findings=tuple(found))


def _check_columns(table: pd.DataFrame, schema: DataSchema) -> None:
    expected = [a.name for a in schema.without_identifiers().attributes]
    if leaked := [a.name for a in schema.identifiers if a.name in table.columns]:
        raise VerificationError(f"identifiers {leaked} are in the release: they must never be published")
    if missing := [name for name in expected if name not in table.columns]:
        raise VerificationError(f"columns {missing} are missing from the release: it cannot be verified")
    if unknown := [str(c) for c in table.columns if c not in expected]:
        raise VerificationError(
            f"columns {unknown} are not in the schema: it cannot be said what they reveal"
        )
    if len(set(table.columns)) < len(table.columns):
        raise VerificationError("column names of a release must be distinct")


def _model_finding(model: PrivacyModel, classes: EquivalenceClasses) -> Finding:
    measured = model.measure(classes)
    violations = model.violations(classes)
    return Finding(
        rule=_rule(model),
        threshold=model.threshold,
        measured=measured if math.isfinite(measured) else None,
        passed=holds(model, classes),
        failing_classes=int(violations.sum()),
        failing_rows=int(classes.sizes[violations].sum()),
    )


def _people(
    table: pd.DataFrame,
    schema: DataSchema,
    policy: ReleasePolicy,
    loss: PrivacyLoss | None,
    persons: npt.NDArray[np.object_] | None,
) -> Membership:
    """Who is in which class of the release, where models across releases can be measured at all."""
    demanded = ", ".join(model.name for model in policy.across)
    if loss is not None:
        raise VerificationError(
            f"the policy demands {demanded}, which is about people in classes and says nothing of a release "
            "with a privacy loss: losses add up over releases, and a budget limits their sum; take it out"
        )
    if persons is None:
        raise VerificationError(
            f"the policy demands {demanded}, but it is not known whose records are released; name the column "
            "that identifies a person in the specification of the release, as history.identifier"
        )
    return Membership.of_table(persons, table, schema)


def _across_finding(model: CrossReleaseModel, history: History, classes: EquivalenceClasses) -> Finding:
    measured = model.per_person(history, classes)
    missed = measured < model.threshold
    return Finding(
        rule=_rule(model),
        threshold=model.threshold,
        measured=float(measured.min()) if len(measured) else None,
        passed=len(measured) > 0 and not missed.any(),
        failing_classes=len(np.unique(classes.labels[missed])),
        failing_rows=int(missed.sum()),
    )


def _limit_finding(rule: str, limit: float, measured: float | None) -> Finding:
    known = measured if measured is not None and math.isfinite(measured) else None
    passed = known is not None and known <= limit
    return Finding(rule=rule, threshold=limit, measured=known, passed=passed)


def _rule(model: Named) -> str:
    fields = model_to_dict(model)
    name = fields.pop("model")
    return f"{name}({', '.join(f'{key}={value}' for key, value in fields.items())})"


def _sentence(finding: Finding) -> str:
    measured = "nothing measurable" if finding.measured is None else f"{finding.measured:.6g}"
    text = f"{finding.rule} measured {measured}"
    if finding.failing_classes:
        text += f", missed by {finding.failing_classes} classes of together {finding.failing_rows} rows"
    return text
