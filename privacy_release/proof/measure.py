"""What the judge measures anew on the rows of a release, and what stays on the signer's word."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.engines.checking import verify_files
from privacy_engine.errors import PrivacyEngineError, VerificationError
from privacy_engine.verification.models import rule_of
from privacy_engine.verification.verify import require_persons
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
class Measured:
    """What was found on the rows.

    Attributes:
        findings: what was measured anew, as in a manifest.
        on_trust: rules of the proof that nothing in the release can show again, and why.
        wrong: what does not hold, or was not as the proof says.
    """

    findings: list[dict[str, Any]] = field(default_factory=list)
    on_trust: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def measured_anew(
    rows: Path,
    schema: "DataSchema",
    policy: "ReleasePolicy",
    manifest: Manifest,
    year: int,
    engine: "Engine",
) -> Measured:
    """Hold rows against a policy with the judge, and what it finds against what the manifest says.

    Args:
        rows: Parquet file with the columns of the release.
        schema: of the rows.
        policy: that must hold.
        manifest: that was published with them, whose hash was signed.
        year: in which they were published; ages are limited by it.
        engine: counts the classes.
    """
    told = {finding.rule: finding for finding in manifest.measured}
    wrong = [f"the proof itself says that {rule} does not hold" for rule, f in told.items() if not f.passed]
    alone = _of_one_release(policy)
    why = _unmeasurable(rows, schema, manifest)
    if alone is None or why:
        return Measured(on_trust=dict.fromkeys(told, why or _FOLLOWS), wrong=wrong)
    files = [str(rows)]
    try:
        measured = verify_files(
            engine, files, schema, alone, loss=_loss(manifest), figures=manifest.figures, year=year
        )
        findings = (*measured.findings, *text_findings(files, schema, alone))
        report: list[dict[str, Any]] = replace(measured, findings=findings).to_dict()["findings"]
    except PrivacyEngineError as error:
        return Measured(wrong=[*wrong, f"it cannot be measured: {error}"])
    for finding in report:
        rule = finding["rule"]
        if not finding["passed"]:
            missed = finding.get("failing_classes") or 0
            by = f", {counted(missed, 'class misses', 'classes miss')} it" if missed else ""
            wrong.append(f"{rule} does not hold{by}")
        if rule in told and not _equal(finding["measured"], told[rule].measured):
            wrong.append(f"{rule} measures {finding['measured']}, the proof says {told[rule].measured}")
    found = {finding["rule"] for finding in report}
    follows = {rule_of(model) for model in policy.across}
    on_trust = {rule: _FOLLOWS if rule in follows else _APART for rule in told if rule not in found}
    return Measured(findings=report, on_trust=on_trust, wrong=wrong)


def unshown(own: "ReleasePolicy", demanded: "ReleasePolicy", measured: Measured) -> list[str]:
    """What is demanded, and was neither measured nor stands in the policy that was signed."""
    said = {rule_of(model) for model in own.rules}
    models = demanded.across if measured.findings else demanded.rules
    models = (*models, *(demanded.attacks if measured.findings else ()))
    missing = [rule_of(model) for model in models if rule_of(model) not in said]
    limits = [] if measured.findings else [n for n in demanded.to_dict() if n not in own.to_dict()]
    return [*missing, *limits]


def _unmeasurable(rows: Path, schema: "DataSchema", manifest: Manifest) -> str:
    """Why classes cannot be counted on these rows: it is not known which are people; empty where they can."""
    try:
        require_no_counterfeits([str(rows)])
        require_persons(schema, False, _loss(manifest))
    except VerificationError as error:
        return str(error)
    return ""


def _loss(manifest: Manifest) -> "PrivacyLoss | None":
    return manifest.loss.claimed if manifest.loss else None


def _of_one_release(policy: "ReleasePolicy") -> "ReleasePolicy | None":
    """What of a policy is about a release by itself; None where nothing is."""
    try:
        return replace(policy, across=(), attacks=())
    except ValueError:
        return None


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
