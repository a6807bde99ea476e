"""Measure a policy again on the rows of a release, and list the rules that stay on the signer's word."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.engines.checking import verify_files
from privacy_engine.errors import PrivacyEngineError, VerificationError
from privacy_engine.registry import kind_of
from privacy_engine.verification.models import rule_of
from privacy_engine.verification.verify import kind_findings, require_persons, set_aside
from privacy_engine.vocabulary import counted
from privacy_release.manifest.manifest import Manifest
from privacy_release.steps.verify import require_no_counterfeits, text_findings

if TYPE_CHECKING:
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.engines.engine import Engine
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy

_FOLLOWS = "it follows people through releases"
_APART = "it is about what is not published"


@dataclass(frozen=True, kw_only=True)
class Remeasurement:
    """The result of measuring the rows.

    Attributes:
        findings: Findings measured again, as in a manifest.
        on_trust: Reason why a rule of the proof cannot be measured on the release, by rule.
        wrong: Rules that do not hold, or differ from the proof.
    """

    findings: list[dict[str, Any]] = field(default_factory=list)
    on_trust: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def measured_again(
    rows: Path,
    schema: "DataSchema",
    policy: "ReleasePolicy",
    manifest: Manifest,
    year: int,
    engine: "Engine",
) -> Remeasurement:
    """Verify rows against a policy, and compare the findings with those in the manifest.

    Args:
        rows: Parquet file with the columns of the release.
        schema: Schema of the rows.
        policy: Policy that must hold.
        manifest: Manifest that was published with them, whose hash was signed.
        year: Year of publication, which limits ages.
        engine: Engine that counts the classes.
    """
    proven = {finding.rule: finding for finding in manifest.measured}
    wrong = [f"the proof itself says that {rule} does not hold" for rule, f in proven.items() if not f.passed]
    alone = _of_one_release(policy)
    why = _unmeasurable(rows, schema, manifest)
    if alone is None or why:
        return Remeasurement(on_trust=dict.fromkeys(proven, why or _FOLLOWS), wrong=wrong)
    files = [str(rows)]
    alone, not_applicable = set_aside(alone, _loss(manifest))  # on the word of the manifest that was proven
    try:
        measured = verify_files(
            engine, files, schema, alone, loss=_loss(manifest), figures=manifest.figures, year=year
        )
        of_kind = kind_findings(alone, kind_of(manifest.method))
        findings = (*not_applicable, *measured.findings, *text_findings(files, schema, alone), *of_kind)
        report: list[dict[str, Any]] = replace(measured, findings=findings).to_dict()["findings"]
    except PrivacyEngineError as error:
        return Remeasurement(wrong=[*wrong, f"it cannot be measured: {error}"])
    for finding in report:
        rule = finding["rule"]
        if not finding["passed"]:
            missed = finding.get("failing_classes") or 0
            by = f", {counted(missed, 'class misses', 'classes miss')} it" if missed else ""
            wrong.append(f"{rule} does not hold{by}")
        if rule in proven and not _equal(finding["measured"], proven[rule].measured):
            wrong.append(f"{rule} measures {finding['measured']}, the proof says {proven[rule].measured}")
    found = {finding["rule"] for finding in report}
    follows = {rule_of(model) for model in policy.across}
    on_trust = {rule: _FOLLOWS if rule in follows else _APART for rule in proven if rule not in found}
    return Remeasurement(findings=report, on_trust=on_trust, wrong=wrong)


def unshown(own: "ReleasePolicy", demanded: "ReleasePolicy", measured: Remeasurement) -> list[str]:
    """Return demanded rules that were neither measured nor are in the signed policy."""
    said = {rule_of(model) for model in own.rules}
    models = demanded.across if measured.findings else demanded.rules
    models = (*models, *(demanded.attacks if measured.findings else ()))
    missing = [rule_of(model) for model in models if rule_of(model) not in said]
    limits = [] if measured.findings else [n for n in demanded.to_dict() if n not in own.to_dict()]
    return [*missing, *limits]


def _unmeasurable(rows: Path, schema: "DataSchema", manifest: Manifest) -> str:
    """Return why classes cannot be counted on these rows: unknown persons. Empty if they can."""
    try:
        require_no_counterfeits([str(rows)])
        require_persons(schema, False, _loss(manifest))
    except VerificationError as error:
        return str(error)
    return ""


def _loss(manifest: Manifest) -> "PrivacyLoss | None":
    return manifest.loss.claimed if manifest.loss else None


def _of_one_release(policy: "ReleasePolicy") -> "ReleasePolicy | None":
    """Return the part of a policy about a single release. None if there is none."""
    try:
        return replace(policy, across=(), attacks=())
    except ValueError:
        return None


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
