"""What the judge measures anew on the rows of a release, and what stays on the signer's word."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import PrivacyEngineError, VerificationError
from privacy_release.steps.verify import require_no_counterfeits, text_findings
from privacy_release.work.engines import DEFAULT_MEMORY, read_memory

if TYPE_CHECKING:
    from privacy_engine.judge.policy import ReleasePolicy
    from privacy_engine.tables.schema import DataSchema


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
    rows: Path, schema: "DataSchema", policy: "ReleasePolicy", manifest: Mapping[str, Any], year: int
) -> Measured:
    """Hold rows against a policy with the judge, and what it finds against what the manifest says.

    Args:
        rows: Parquet file with the columns of the release; beside it the judge may write.
        schema: of the rows.
        policy: that must hold.
        manifest: that was published with them, whose hash was signed.
        year: in which they were published; ages are limited by it.
    """
    told = {finding["rule"]: finding for finding in manifest.get("measured", ())}
    wrong = [
        f"the proof itself says that {rule} does not hold" for rule, f in told.items() if not f["passed"]
    ]
    try:
        report, why = _report(rows, schema, policy, manifest, year)
    except VerificationError as error:
        return Measured(on_trust=dict.fromkeys(told, str(error)), wrong=wrong)
    except PrivacyEngineError as error:
        return Measured(wrong=[*wrong, f"it cannot be measured: {error}"])
    for finding in report:
        rule = finding["rule"]
        if not finding["passed"]:
            missed = finding.get("failing_classes") or 0
            wrong.append(f"{rule} does not hold{f', {missed} classes miss it' if missed else ''}")
        if rule in told and not _equal(finding["measured"], told[rule]["measured"]):
            wrong.append(f"{rule} measures {finding['measured']}, the proof says {told[rule]['measured']}")
    found = {finding["rule"] for finding in report}
    on_trust = {
        rule: why.get(rule, "it is about what is not published") for rule in told if rule not in found
    }
    return Measured(findings=report, on_trust=on_trust, wrong=wrong)


def _report(
    rows: Path, schema: "DataSchema", policy: "ReleasePolicy", manifest: Mapping[str, Any], year: int
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The findings, and the rules that are left out with the reason.

    Raises:
        VerificationError: if nothing can be measured, because it is not known which records are people.
    """
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.engines.checking import verify_files
    from privacy_engine.engines.local import LocalEngine
    from privacy_engine.judge.models import rule_of

    files = [str(rows)]
    left_out = {rule_of(model): "it follows people through releases" for model in policy.across}
    loss = PrivacyLoss(**manifest["loss"]) if manifest.get("loss") else None
    require_no_counterfeits(files)
    with LocalEngine(memory=read_memory(DEFAULT_MEMORY), spill=rows.parent) as engine:
        report = verify_files(
            engine,
            files,
            schema,
            _of_one_release(policy),
            loss=loss,
            figures=manifest.get("figures"),
            year=year,
        )
    texts = text_findings(files, schema, policy)
    return replace(report, findings=(*report.findings, *texts)).to_dict()["findings"], left_out


def _of_one_release(policy: "ReleasePolicy") -> "ReleasePolicy":
    """What of a policy is about a release by itself.

    Raises:
        VerificationError: if nothing is.
    """
    try:
        return replace(policy, across=())
    except ValueError:
        raise VerificationError("the policy asks only for what follows people through releases") from None


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
