"""Run the attacks that a policy requires on a staged release, before a reviewer decides on it.

The results of an attack are measured on the true records. For a release without a privacy loss, the reviewer
sees its figures, and the manifest states for each rule that it was met, with the bound. The manifest contains
a figure only if the rule has `publish_figures: true`.
**For a differentially private or randomized release, no figure leaves the curator's report**: it would be a
second release, of exact numbers, that no budget paid for. One thing remains: if such a release is published,
its attacks met their bounds. This is one bit about the source per release that its epsilon does not cover.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.attacks.trial import Evidence, case_of, try_attack
from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_engine.progress import portion
from privacy_engine.verification.models import MODELS, model_from_dict, rule_of
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import Finding
from privacy_engine.vocabulary import OVER_TIME
from privacy_release.reports.attacks import attack_page, figures_of, published_figures
from privacy_release.reports.curator import write_for_curator
from privacy_release.steps.attacks.earlier import keep_figures
from privacy_release.steps.attacks.shadows import shadows_kept
from privacy_release.steps.memberships.earlier import EarlierReleases
from privacy_release.steps.memberships.persons import KnownPersons
from privacy_release.steps.memberships.recording import staged_membership
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import AttackRef, ReportRef, StagedRelease, Table, TrialRef, need

if TYPE_CHECKING:
    from privacy_engine.attacks.trial import Case, Results, Shadow
    from privacy_engine.verification.attack_risk import AttackRisk
    from privacy_engine.verification.cross_release import Membership
    from privacy_engine.verification.models import PrivacyModel


@dataclass(frozen=True, kw_only=True)
class AttackedRelease:
    """A verified release that is attacked, and what the attackers may know besides it.

    Attributes:
        table: Table that the release was made from. Its `holdout` are the people who were held out.
        staged: The staged release.
        report: Verification report of the release, which names the policy.
        earlier: Earlier releases of its table, which attacks over time read. Default: the table is not named.
        register: Ingested public records of the population, by which `linkage` tries to name people, too.
    """

    table: Table
    staged: StagedRelease
    report: ReportRef
    earlier: EarlierReleases = field(default_factory=EarlierReleases)
    register: Table | None = None

    @property
    def policy(self) -> ReleasePolicy:
        """The policy that the release was verified under."""
        return ReleasePolicy.from_dict(self.report.policy)

    @property
    def is_private(self) -> bool:
        """Whether the figures of its attacks may not leave the curator's report."""
        return self.staged.claims_loss or self.staged.read_manifest().private

    def memberships(self) -> "tuple[Membership, ...]":
        """Return the classes of people in this release and the earlier ones. Empty if not followed."""
        if not self.staged.follows_people:
            return ()
        found = self.earlier.memberships(KnownPersons.of(self.staged.followed_persons))
        return (staged_membership(self.staged), *found.values())

    def evidence(self, memberships: "tuple[Membership, ...]") -> "Evidence":
        """Read what attackers are given, including the models that the release was made with."""
        held_out, register = self.table.held_out, self.register
        return Evidence(
            release=self.staged.frame(),
            source=self.table.read_schema(),
            people=self.table.frame(),
            outsiders=held_out.frame(),
            memberships=memberships,
            register=None if register is None else register.frame(),
            rules=self._rules(),
        )

    def _rules(self) -> "tuple[PrivacyModel, ...]":
        """Return the models that the release claims, and those of the policy."""
        claimed = (model_from_dict(claim) for claim in self.staged.guarantees if claim["model"] in MODELS)
        return tuple(dict.fromkeys((*claimed, *self.policy.require)))


def attack_staged(
    attacked: AttackedRelease,
    *,
    title: str,
    release_id: str,
    on_progress: Callable[[str], None] = lambda _: None,
    work: WorkArea | None = None,
) -> ReportRef:
    """Run the attacks that the policy of a report bounds, and return the report with their results.

    Args:
        attacked: Release to attack, with what the attackers may know.
        title: Title of the release, for the curator's report.
        release_id: ID of the release.
        on_progress: Progress callback, called with a message when an attack begins.
        work: Work area in which shadow releases are kept for retries. Required by rules with shadows.

    Returns:
        The report. It is unchanged if the policy bounds no attack.

    Raises:
        VerificationError: If an attack exceeds its bound or is blind, naming each rule.
        SpecError: If no one was held out, or shadows are required and cannot be made.
        InfeasibleError: If too few people were held out for the shadows, or the method can make none.
        IntegrityError: If a file of the work area is missing or changed, or the report is about other bytes.
    """
    from privacy_engine.registry import load_attack

    report, staged, rules = attacked.report, attacked.staged, attacked.policy.attacks
    if not rules:
        return report
    if report.sha256 != staged.sha256:
        raise IntegrityError("the report must be about the staged release; verify it again")
    # The same bytes are attacked in the same way, so a retry is no second chance.
    rng = np.random.default_rng(int(staged.sha256[:16], 16))
    followed = any(rule.attack in OVER_TIME for rule in rules)
    memberships = attacked.memberships() if followed else ()
    case = case_of(attacked.evidence(memberships), rng)
    on_shadows = 0.5 if any(rule.shadows for rule in rules) else 0.0
    with portion(on_shadows):
        shadows = _shadows(attacked, work, on_progress)
    private = attacked.is_private
    found: list[tuple[AttackRisk, Results]] = []
    # Progress is logged, and these numbers are exact counts of the source.
    people = "" if private else f" by {len(case.targets):,} of {len(case.people):,} people"
    for rule in rules:
        on_progress(f"{rule.attack}{people}")
        with portion((1 - on_shadows) / len(rules)):
            seen = _with_shadows(case, shadows[: rule.shadows or 0])
            found.append((rule, try_attack(load_attack(rule.attack), seen, rng, rule.confidence)))
    page = attack_page(found, title=title, release_id=release_id, targets=len(case.targets))
    path = write_for_curator(page, title, f"{release_id} attacks")
    alone = followed and len(memberships) == 1  # there is no earlier release to compare this one with
    trials = [_trial(rule, results, private=private, alone=alone) for rule, results in found]
    _raise_if_failed(trials, found, private=private)
    if not private:
        keep_figures(trials, staged.sha256, title=title, release_id=release_id)
    findings = [] if private else [_finding(rule, t) for rule, t in zip(rules, trials, strict=True)]
    return replace(
        report,
        attacks=AttackRef(sha256=staged.sha256, trials=trials, curator=str(path)),
        findings=[*report.findings, *findings],
    )


def published_attacks(report: ReportRef) -> list[dict[str, Any]]:
    """Return the figures of attacks that the manifest contains, by rule. Empty if no rule publishes them."""
    return [need(trial.published, "published") for trial in report.trials if trial.publishes_figures]


def require_attacked(report: ReportRef) -> None:
    """Raise unless each attack that the policy bounds was tried on these bytes and met its bound.

    Raises:
        VerificationError: Naming the rules.
    """
    rules = [rule_of(rule) for rule in ReleasePolicy.from_dict(report.policy).attacks]
    tried = report.attacks
    same = tried is not None and tried.sha256 == report.sha256
    kept = {trial.rule for trial in tried.trials if trial.passed} if tried and same else set()
    if missing := [rule for rule in rules if rule not in kept]:
        raise VerificationError(
            f"the policy requires {', '.join(missing)}, but the attack was not tried on these bytes, or "
            "exceeded its bound; attack the release after it is verified"
        )


def _shadows(
    attacked: AttackedRelease, work: WorkArea | None, on_progress: Callable[[str], None]
) -> "tuple[Shadow, ...]":
    """Return as many shadow releases as the rule with the most requires. Empty if no rule requires any."""
    most = max(attacked.policy.attacks, key=lambda rule: rule.shadows or 0)
    if not most.shadows:
        return ()
    if work is None:
        raise SpecError(
            "shadow releases are kept in the work area of the run, but none was given; name it, or remove "
            "shadows from the policy"
        )
    return shadows_kept(most, attacked.table, attacked.staged, work, on_progress)


def _with_shadows(case: "Case", shadows: "tuple[Shadow, ...]") -> "Case":
    return replace(case, evidence=replace(case.evidence, shadows=shadows)) if shadows else case


def _trial(rule: "AttackRisk", results: "Results", *, private: bool, alone: bool) -> TrialRef:
    nothing = rule.attack in OVER_TIME and alone
    # If nothing can be attacked, that is not safe. The first release has nothing to compare and is exempt.
    passed = nothing or (bool(results.outcomes) and all(o.within(rule.excess) for o in results.outcomes))
    outcomes = None if private else [figures_of(outcome) for outcome in results.outcomes]
    published = published_figures(rule, outcomes) if outcomes is not None and rule.publish_figures else None
    return TrialRef(
        rule=rule_of(rule),
        attack=rule.attack.value,
        bound=rule.excess,
        passed=passed,
        shadows=rule.shadows or None,
        outcomes=outcomes,
        published=published,
    )


def _finding(rule: "AttackRisk", trial: TrialRef) -> dict[str, Any]:
    """Return the public finding: the bound, and that it was met."""
    return Finding(rule=trial.rule, threshold=rule.threshold, measured=None, passed=trial.passed).to_dict()


def _raise_if_failed(
    trials: Sequence[TrialRef], found: "Sequence[tuple[AttackRisk, Results]]", *, private: bool
) -> None:
    failed = [
        f"{trial.rule} is not kept" + ("" if private else f": {_why(rule, results)}")
        for trial, (rule, results) in zip(trials, found, strict=True)
        if not trial.passed
    ]
    if failed:
        raise VerificationError(
            "the release does not keep its policy: "
            + "; ".join(failed)
            + ". The figures are in the curator's report on the attacks. Use stricter parameters, another "
            "method or a larger table. A small table cannot show a small bound"
        )


def _why(rule: "AttackRisk", results: "Results") -> str:
    worst = max(
        (o for o in results.outcomes if not o.within(rule.excess)),
        key=lambda o: (not o.sees, o.high),
        default=None,
    )
    if worst is None:
        return "the release has nothing that the attack could target, and this is not accepted as safe"
    if not worst.sees:
        return f"on {worst.subject} it does not detect a planted leak, so its result means nothing"
    if worst.high <= rule.excess:
        return f"on {worst.subject} it detects no planted leak above the bound, so its result means nothing"
    return (
        f"on {worst.subject} the excess risk is {worst.excess:.3f}, between {worst.low:.3f} and "
        f"{worst.high:.3f}"
    )
