"""The requirements of three standards for a release of data about people, and what its manifest shows.

- Article 29 Data Protection Working Party, Opinion 05/2014 on Anonymisation Techniques (WP216): whether it is
  still possible to single out an individual, to link records of one, and to infer information about one.
- HIPAA expert determination, 45 CFR 164.514(b)(1), with the principles of the guidance of the Department of
  Health and Human Services (2012): replicability, availability of sources, distinguishability.
- NIST SP 800-188, De-Identifying Government Datasets: Techniques and Governance (2023).

A status is never better than what was measured: a model of classes that holds on the published bytes, or a
privacy loss that a ledger booked. That an attack met its bound is reported, but makes no status better. What
a standard leaves to a person is left to a person. None of this is legal advice, and no text here says that a
release is anonymous.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from privacy_engine.verification.attack_risk import AttackRisk
from privacy_engine.verification.models import rule_of
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.text import figure
from privacy_release.reports.text import shown as as_text

SMALL = 1.0  # epsilon up to which a loss is a complete answer; a larger one is part of an answer
_OF_CLASSES = frozenset({"k_anonymity", "alpha_k_anonymity"})
_OF_VALUES = frozenset(
    {
        *("distinct_l_diversity", "entropy_l_diversity", "recursive_cl_diversity", "t_closeness"),
        *("alpha_k_anonymity", "beta_likeness", "delta_disclosure"),
    }
)
_NOT_TRIED = "The policy required no attack of this kind, and none is on record for this release."


class Status(StrEnum):
    """How completely a release answers a requirement."""

    SHOWN = "shown"
    PARTLY = "partly shown"
    NOT_SHOWN = "not shown"
    PERSON = "for a person to say"


@dataclass(frozen=True, kw_only=True)
class CriterionAnswer:
    """A requirement, and what the release shows about it.

    Attributes:
        standard: Standard with the requirement.
        criterion: Name of the requirement in the standard.
        asks: Requirement in short.
        status: How completely it is answered.
        says: Grounds, one sentence each.
    """

    standard: str
    criterion: str
    asks: str
    status: Status
    says: tuple[str, ...]


WP29 = "WP29 Opinion 05/2014"
HIPAA = "HIPAA expert determination, 45 CFR 164.514(b)(1)"
NIST = "NIST SP 800-188"


def answers(manifest: Manifest) -> list[CriterionAnswer]:
    """Return all criteria, and what a published manifest shows about each.

    Args:
        manifest: Manifest of the release, as published.
    """
    shown = _Shown.of(manifest)
    return [*_wp29(shown), *_hipaa(shown), *_nist(shown)]


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """What a manifest shows, sorted by subject.

    Attributes:
        manifest: Manifest with all its sections.
        classes, values: Rules about classes, and about sensitive values in them, that were met, in words.
        attacks: Sentences on each rule about an attack, by attack.
        failed: Rules that were not met.
    """

    manifest: Manifest
    classes: tuple[str, ...]
    values: tuple[str, ...]
    attacks: Mapping[str, Sequence[str]]
    failed: tuple[str, ...]

    @classmethod
    def of(cls, manifest: Manifest) -> "_Shown":
        classes, values, failed = [], [], []
        attacks: dict[str, list[str]] = {}
        for finding in manifest.measured:
            rule, name = finding.rule, finding.rule.partition("(")[0]
            if not finding.passed:
                failed.append(rule)
            elif name in _OF_CLASSES | _OF_VALUES and finding.measured is not None:
                text = f"{rule} was measured on the published bytes: {figure(finding.measured)}."
                classes += [text] if name in _OF_CLASSES else []
                values += [text] if name in _OF_VALUES else []
        for model in (manifest.policy or {}).get("require", ()):
            if model.get("model") == "attack_risk":
                attacks.setdefault(model["attack"], []).append(_attack(model, manifest))
        return cls(
            manifest=manifest,
            classes=tuple(classes),
            values=tuple(values),
            attacks=attacks,
            failed=tuple(failed),
        )

    @property
    def loss(self) -> tuple[Status, str] | None:
        """Return what a privacy loss answers. None if there is no loss."""
        loss = self.manifest.loss
        if loss is None:
            return None
        delta = f" and delta {figure(loss.delta)}" if loss.delta else ""
        unit = loss.neighbours.replace("_", " ")
        text = (
            f"Differential privacy with epsilon {figure(loss.epsilon)}{delta} ({unit}) bounds what anyone "
            "learns about one person from this release, whatever else they know."
        )
        if loss.epsilon <= SMALL:
            return Status.SHOWN, text
        return Status.PARTLY, f"{text} Epsilon above {SMALL:g} is a weak bound by itself."

    def tried(self, *attacks: str) -> list[str]:
        """Return the sentences on some attacks, or one that none was tried."""
        return [sentence for name in attacks for sentence in self.attacks.get(name, ())] or [_NOT_TRIED]


def _attack(model: Mapping[str, Any], manifest: Manifest) -> str:
    """Describe an attack that the policy bounds: whether it met its bound, without a figure."""
    rule = AttackRisk(**{name: value for name, value in model.items() if name != "model"})
    named = rule.attack.value.replace("_", " ")
    if rule.shadows:
        named += f", by {rule.shadows} shadow releases of people who were held out"
    kept = [finding.passed for finding in manifest.measured if finding.rule == rule_of(rule)]
    if not kept:
        return f"The policy bounds the attack of {named}; that it was tried is not on record."
    return (
        f"The attack of {named}, tried on exactly these bytes with a planted leak that it had to detect, "
        f"{'kept' if all(kept) else 'did NOT keep'} its bound: an excess of {figure(rule.excess)} at a "
        f"confidence of {as_text(rule.confidence, 'share')}. An attack never proves safety."
    )


def _wp29(shown: _Shown) -> list[CriterionAnswer]:
    loss = shown.loss
    by_loss = [loss[1]] if loss else []
    linked = (
        "Classes do not prevent a person's records in several data sets from being linked."
        if shown.classes and not loss
        else ""
    )
    history = shown.manifest.history
    kept = (
        f"The release was made safe together with {history.releases} earlier releases of its table "
        f"(k = {history.k} over all of them)."
        if history
        else ""
    )
    return [
        CriterionAnswer(
            standard=WP29,
            criterion="Singling out",
            asks="Can some or all records of an individual be isolated?",
            status=_status(shown, loss, known=shown.classes),
            says=(*shown.classes, *by_loss, *shown.tried("singling_out")),
        ),
        CriterionAnswer(
            standard=WP29,
            criterion="Linkability",
            asks="Can records of one individual, or of a group, be linked, here or in another data set?",
            status=_status(shown, loss, part=[kept] if kept else ()),
            says=tuple(filter(None, (*by_loss, linked, kept, *shown.tried("linkage", "intersection")))),
        ),
        CriterionAnswer(
            standard=WP29,
            criterion="Inference",
            asks="Can an attribute of an individual be deduced with significant probability?",
            status=_status(shown, loss, part=shown.values),
            says=(
                *shown.values,
                *by_loss,
                *shown.tried("inference", "minimality", "membership", "difference"),
                "What holds for a population is learned from any useful release, and about everyone in it.",
            ),
        ),
    ]


def _status(
    shown: _Shown,
    loss: tuple[Status, str] | None,
    *,
    known: Sequence[str] = (),
    part: Sequence[str] = (),
) -> Status:
    """Return the best status that the grounds allow. A rule that was not met allows none."""
    if shown.failed:
        return Status.NOT_SHOWN
    if known or (loss and loss[0] is Status.SHOWN):
        return Status.SHOWN
    return Status.PARTLY if part or loss else Status.NOT_SHOWN


def _hipaa(shown: _Shown) -> list[CriterionAnswer]:
    figures = shown.manifest.figures
    risk = (
        "The highest prosecutor risk in the released table is "
        f"{as_text(figures['prosecutor_max'], 'risk')}, the mean "
        f"{as_text(figures['prosecutor_mean'], 'risk')}. {as_text(figures['share_at_risk'], 'share')} of the "
        "records are in classes of fewer than five."
        if {"prosecutor_max", "prosecutor_mean", "share_at_risk"} <= set(figures)
        else ""
    )
    grounds = tuple(filter(None, (*shown.classes, shown.loss[1] if shown.loss else "", risk)))
    return [
        CriterionAnswer(
            standard=HIPAA,
            criterion="(i) The risk is very small",
            asks="Is the risk very small that an anticipated recipient identifies an individual, with other "
            "reasonably available information?",
            status=Status.PERSON,
            says=(
                *(grounds or ("Nothing was measured that bounds this risk.",)),
                "The rule requires a person with appropriate knowledge and experience; see the opinion.",
            ),
        ),
        CriterionAnswer(
            standard=HIPAA,
            criterion="(ii) Methods and results are documented",
            asks="Are the methods and the results of the analysis that justify the determination documented?",
            status=Status.NOT_SHOWN if shown.failed else Status.SHOWN,
            says=(
                "Method, parameters, policy and every finding are in this archive, with the hash of the "
                "records that they are about; the findings were measured on exactly these bytes.",
            ),
        ),
        CriterionAnswer(
            standard=HIPAA,
            criterion="Distinguishability (guidance of HHS)",
            asks="How far do the released features distinguish a person?",
            status=_status(shown, shown.loss, known=shown.classes),
            says=grounds or ("No bound on the size of classes was measured, and there is no privacy loss.",),
        ),
        CriterionAnswer(
            standard=HIPAA,
            criterion="Replicability and availability of sources (guidance of HHS)",
            asks="Do released features recur for a person, and which outside sources have them?",
            status=Status.PERSON,
            says=(
                f"Released as known to others: {_quasi_identifiers(shown.manifest)}.",
                *shown.tried("linkage"),
            ),
        ),
    ]


def _quasi_identifiers(manifest: Manifest) -> str:
    known = (name for name, column in manifest.columns.items() if column.role == "quasi_identifier")
    return ", ".join(known) or "no column"


def _nist(shown: _Shown) -> list[CriterionAnswer]:
    manifest = shown.manifest
    approval, booked = manifest.approval, manifest.booking
    if approval and not approval.automatic:
        board = CriterionAnswer(
            standard=NIST,
            criterion="Review by a disclosure review board",
            asks="Did a person with that duty review the release?",
            status=Status.SHOWN,
            says=(f"Approved at {approval.at} by a person who saw its report; the manifest names them.",),
        )
    else:
        board = CriterionAnswer(
            standard=NIST,
            criterion="Review by a disclosure review board",
            asks="Did a person with that duty review the release?",
            status=Status.NOT_SHOWN,
            says=("No review was required before this release was published.",),
        )
    attacked = _status(shown, None, part=tuple(shown.attacks))
    many = [
        f"Booked in the ledger of {booked.dataset} before the data were read; its limit bounds the sum of "
        "all releases."
        if booked
        else "",
        "Earlier releases of the table were taken into account." if manifest.history else "",
    ]
    return [
        CriterionAnswer(
            standard=NIST,
            criterion="A standard set in advance",
            asks="Was it decided in advance, and separately from the method, what a release must meet?",
            status=Status.SHOWN if manifest.policy and not shown.failed else Status.NOT_SHOWN,
            says=("The policy is separate from the method, and all of its rules were checked on the bytes.",)
            if not shown.failed
            else (f"Not met: {', '.join(shown.failed)}.",),
        ),
        CriterionAnswer(
            standard=NIST,
            criterion="Re-identification studies",
            asks="Was the release attacked before it was published?",
            status=attacked if shown.attacks else Status.NOT_SHOWN,
            says=tuple(shown.tried(*shown.attacks)),
        ),
        CriterionAnswer(
            standard=NIST,
            criterion="Mosaic effect: many releases",
            asks="Are releases about the same people tracked together?",
            status=Status.SHOWN if any(many) else Status.NOT_SHOWN,
            says=tuple(filter(None, many))
            or (
                "This release is judged by itself: no ledger, and no history of the people in it, was kept.",
            ),
        ),
        CriterionAnswer(
            standard=NIST,
            criterion="Formal privacy guarantee",
            asks="Does a formal guarantee, such as differential privacy, bound what is learned?",
            status=shown.loss[0] if shown.loss and not shown.failed else Status.NOT_SHOWN,
            says=(shown.loss[1],)
            if shown.loss
            else ("There is no privacy loss that bounds a whole record.",),
        ),
        board,
        CriterionAnswer(
            standard=NIST,
            criterion="Recall of a release",
            asks="Can a release be taken back?",
            status=Status.PARTLY,
            says=("It can be retracted from the lake; copies that others made cannot.",),
        ),
    ]


def hides_counts(manifest: Manifest) -> bool:
    """Return whether figures of classes are not meaningful: it is private, or has several rows per person."""
    return manifest.private or manifest.person is not None
