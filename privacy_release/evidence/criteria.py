"""What three standards ask of a release of data about people, and what its manifest shows of each.

- Article 29 Data Protection Working Party, Opinion 05/2014 on Anonymisation Techniques (WP216): whether it is
  still possible to single out an individual, to link records of one, and to infer information about one.
- HIPAA expert determination, 45 CFR 164.514(b)(1), with the principles of the guidance of the Department of
  Health and Human Services (2012): replicability, availability of sources, distinguishability.
- NIST SP 800-188, De-Identifying Government Datasets: Techniques and Governance (2023).

A status is never better than what was measured: a model of classes that holds on the published bytes, a
privacy loss that a ledger booked. That an attack kept its bound is told, and makes no status better. What a
standard leaves to a person is left to a person. None of this is legal advice, and no text here says that a
release is anonymous.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from privacy_engine.verification.attack_risk import AttackRisk
from privacy_engine.verification.models import rule_of
from privacy_release.manifest.manifest import Manifest

SMALL = 1.0  # epsilon up to which a loss is taken as an answer by itself; above, as a part of one
_OF_CLASSES = frozenset({"k_anonymity", "alpha_k_anonymity"})
_OF_VALUES = frozenset(
    {
        *("distinct_l_diversity", "entropy_l_diversity", "recursive_cl_diversity", "t_closeness"),
        *("alpha_k_anonymity", "beta_likeness", "delta_disclosure"),
    }
)
_NOT_TRIED = "No attack of this kind was asked for by the policy, and none is on record for this release."


class Status(StrEnum):
    """How far a release answers what is asked."""

    SHOWN = "shown"
    PARTLY = "partly shown"
    NOT_SHOWN = "not shown"
    PERSON = "for a person to say"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is asked, and what the release shows of it.

    Attributes:
        standard: that asks.
        criterion: its name there.
        asks: in short.
        status: how far it is answered.
        says: the grounds, a sentence each.
    """

    standard: str
    criterion: str
    asks: str
    status: Status
    says: tuple[str, ...]


WP29 = "WP29 Opinion 05/2014"
HIPAA = "HIPAA expert determination, 45 CFR 164.514(b)(1)"
NIST = "NIST SP 800-188"


def answers(manifest: Manifest) -> list[Answer]:
    """All criteria, and what a published manifest shows of each.

    Args:
        manifest: of the release, as it is published.
    """
    shown = _Shown.of(manifest)
    return [*_wp29(shown), *_hipaa(shown), *_nist(shown)]


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """What a manifest shows, sorted by what it speaks to.

    Attributes:
        manifest: the whole.
        classes, values: rules of classes, and of sensitive values in them, that were kept, in words.
        attacks: attack to what is told of each rule about it.
        failed: rules that were not kept.
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
                told = f"{rule} was measured on the published bytes: {finding.measured:.4g}."
                classes += [told] if name in _OF_CLASSES else []
                values += [told] if name in _OF_VALUES else []
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
        """What a privacy loss answers; None where there is none."""
        loss = self.manifest.loss
        if loss is None:
            return None
        delta = f" and delta {loss.delta:g}" if loss.delta else ""
        unit = loss.neighbours.replace("_", " ")
        told = (
            f"Differential privacy with epsilon {loss.epsilon:g}{delta} ({unit}) bounds what anybody "
            "learns of one person from this release, whatever else they know."
        )
        if loss.epsilon <= SMALL:
            return Status.SHOWN, told
        return Status.PARTLY, f"{told} Epsilon above {SMALL:g} is a weak bound by itself."

    def tried(self, *attacks: str) -> list[str]:
        """What is told of some attacks; that none was tried, where none was."""
        return [told for name in attacks for told in self.attacks.get(name, ())] or [_NOT_TRIED]


def _attack(model: Mapping[str, Any], manifest: Manifest) -> str:
    """What is told of an attack that the policy bounds: whether it kept its bound, and no figure."""
    rule = AttackRisk(**{name: value for name, value in model.items() if name != "model"})
    named = rule.attack.value.replace("_", " ")
    if rule.shadows:
        named += f", by {rule.shadows} shadow releases of people who were held out"
    kept = [finding.passed for finding in manifest.measured if finding.rule == rule_of(rule)]
    if not kept:
        return f"The policy bounds the attack of {named}; that it was tried is not on record."
    return (
        f"The attack of {named}, tried on these very bytes beside a planted leak that it had to see, "
        f"{'kept' if all(kept) else 'did NOT keep'} its bound: an excess of {rule.excess:g} at a confidence "
        f"of {100 * rule.confidence:g} %. An attack never certifies."
    )


def _wp29(shown: _Shown) -> list[Answer]:
    loss = shown.loss
    by_loss = [loss[1]] if loss else []
    linked = (
        "Classes do not keep a person's records in several data sets from being linked by what is released."
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
        Answer(
            standard=WP29,
            criterion="Singling out",
            asks="Can some or all records of an individual be isolated?",
            status=_status(shown, loss, known=shown.classes),
            says=(*shown.classes, *by_loss, *shown.tried("singling_out")),
        ),
        Answer(
            standard=WP29,
            criterion="Linkability",
            asks="Can records of one individual, or of a group, be linked, here or in another data set?",
            status=_status(shown, loss, part=[kept] if kept else ()),
            says=tuple(filter(None, (*by_loss, linked, kept, *shown.tried("linkage", "intersection")))),
        ),
        Answer(
            standard=WP29,
            criterion="Inference",
            asks="Can an attribute of an individual be deduced with significant probability?",
            status=_status(shown, loss, part=shown.values),
            says=(
                *shown.values,
                *by_loss,
                *shown.tried("inference", "minimality", "membership", "difference"),
                "What holds for a population is learned from any useful release, and of everybody in it.",
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
    """The best that the grounds allow; a rule that was not kept allows nothing."""
    if shown.failed:
        return Status.NOT_SHOWN
    if known or (loss and loss[0] is Status.SHOWN):
        return Status.SHOWN
    return Status.PARTLY if part or loss else Status.NOT_SHOWN


def _hipaa(shown: _Shown) -> list[Answer]:
    figures = shown.manifest.figures
    risk = (
        f"The highest prosecutor risk in the released table is {figures['prosecutor_max']:.3g}, the mean "
        f"{figures['prosecutor_mean']:.3g}; {100 * figures['share_at_risk']:.3g} % of the records are in "
        "classes of fewer than five."
        if {"prosecutor_max", "prosecutor_mean", "share_at_risk"} <= set(figures)
        else ""
    )
    grounds = tuple(filter(None, (*shown.classes, shown.loss[1] if shown.loss else "", risk)))
    return [
        Answer(
            standard=HIPAA,
            criterion="(i) The risk is very small",
            asks="Is the risk very small that an anticipated recipient identifies an individual, with other "
            "reasonably available information?",
            status=Status.PERSON,
            says=(
                *(grounds or ("Nothing was measured that bounds this risk.",)),
                "The rule asks a person with appropriate knowledge and experience; see the opinion.",
            ),
        ),
        Answer(
            standard=HIPAA,
            criterion="(ii) Methods and results are documented",
            asks="Are the methods and the results of the analysis that justify the determination documented?",
            status=Status.NOT_SHOWN if shown.failed else Status.SHOWN,
            says=(
                "Method, parameters, policy and every finding are in this archive, with the hash of the "
                "records that they are about; the findings were measured on these very bytes.",
            ),
        ),
        Answer(
            standard=HIPAA,
            criterion="Distinguishability (guidance of HHS)",
            asks="How far do the released features tell a person apart?",
            status=_status(shown, shown.loss, known=shown.classes),
            says=grounds or ("No bound on the size of classes was measured, and there is no privacy loss.",),
        ),
        Answer(
            standard=HIPAA,
            criterion="Replicability and availability of sources (guidance of HHS)",
            asks="Do released features recur for a person, and which outside sources hold them?",
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


def _nist(shown: _Shown) -> list[Answer]:
    manifest = shown.manifest
    approval, booked = manifest.approval, manifest.booking
    if approval and not approval.automatic:
        board = Answer(
            standard=NIST,
            criterion="Review by a disclosure review board",
            asks="Did somebody with that duty review the release?",
            status=Status.SHOWN,
            says=(f"Approved at {approval.at} by somebody who saw its report; the manifest names who.",),
        )
    else:
        board = Answer(
            standard=NIST,
            criterion="Review by a disclosure review board",
            asks="Did somebody with that duty review the release?",
            status=Status.NOT_SHOWN,
            says=("Nobody was asked before this release was published.",),
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
        Answer(
            standard=NIST,
            criterion="A standard set in advance",
            asks="Was it set before, and apart from the method, what a release must keep?",
            status=Status.SHOWN if manifest.policy and not shown.failed else Status.NOT_SHOWN,
            says=(
                "The policy is kept apart from the method, and all of its rules were held against the bytes.",
            )
            if not shown.failed
            else (f"Not kept: {', '.join(shown.failed)}.",),
        ),
        Answer(
            standard=NIST,
            criterion="Re-identification studies",
            asks="Was the release attacked before it was published?",
            status=attacked if shown.attacks else Status.NOT_SHOWN,
            says=tuple(shown.tried(*shown.attacks)),
        ),
        Answer(
            standard=NIST,
            criterion="Mosaic effect: many releases",
            asks="Are releases about the same people kept track of together?",
            status=Status.SHOWN if any(many) else Status.NOT_SHOWN,
            says=tuple(filter(None, many))
            or (
                "This release is judged by itself: no ledger, and no history of the people in it, was kept.",
            ),
        ),
        Answer(
            standard=NIST,
            criterion="Formal privacy guarantee",
            asks="Does a formal guarantee, such as differential privacy, bound what is learned?",
            status=shown.loss[0] if shown.loss and not shown.failed else Status.NOT_SHOWN,
            says=(shown.loss[1],)
            if shown.loss
            else ("There is no privacy loss that bounds a whole record.",),
        ),
        board,
        Answer(
            standard=NIST,
            criterion="Recall of a release",
            asks="Can a release be taken back?",
            status=Status.PARTLY,
            says=("It can be retracted from the lake; copies that others made cannot.",),
        ),
    ]


def hides_counts(manifest: Manifest) -> bool:
    """Whether figures of classes say nothing of the release: it is private, or of several rows a person."""
    return manifest.private or manifest.person is not None
