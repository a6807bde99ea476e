"""The manifest of a release: what was made, what is guaranteed and what was measured; no record is in it.

It is stored as JSON, and hashes and signatures are over the stored bytes. `Manifest.from_dict` reads the
manifests of every version, and `to_dict` gives back what was stored, so nothing is lost of what a later
version adds. The JSON Schema for consumers, `docs/manifest.schema.json`, follows from these classes.

>>> Manifest.from_dict({"method": "mondrian", "loss": {"epsilon": "1", "delta": 0.0}})
Traceback (most recent call last):
privacy_engine.errors.IntegrityError: `loss.epsilon` of the manifest must be a number, got str: ...
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privacy_release.manifest.section import ManifestSection
from privacy_release.manifest.sections import (
    ApprovalSection,
    AttackSection,
    BookingSection,
    ColumnSection,
    FindingSection,
    FragmentsSection,
    HistorySection,
    LossSection,
    MembershipSection,
    ModelSection,
    OutliersSection,
    PartSection,
    PersonSection,
    PromiseSection,
    RandomizationSection,
    SoftwareSection,
    SourceSection,
    VerificationSection,
)

# Fields of every manifest that this package publishes, in this version and the earlier ones.
PUBLISHED = (
    *("method", "parameters", "guarantees", "loss", "rows", "suppressed", "classes", "columns", "notes"),
    *("figures", "source", "sha256", "seeded", "software", "policy", "measured"),
)


@dataclass(frozen=True, kw_only=True)
class Claims(ManifestSection):
    """What a method says of a release: the first part of its manifest.

    Attributes:
        method: Key of the method.
        parameters: Parameters of the method.
        guarantees: Privacy models that the method claims, each with its parameters.
        loss: Privacy loss; null where differential privacy is not claimed.
        rows: Number of released records.
        suppressed: Number of records of the source that the release omits.
        classes: Number of equivalence classes; null where there are none.
        columns: Released columns in their order.
        notes: Figures that a reader must know, by name.
        tables: Released tables, where there are several.
        model: Private model of a synthetic release.
        randomization: Probabilities of a randomized release.
        fragments: How the table was cut, where it was.
    """

    method: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    guarantees: tuple[Mapping[str, Any], ...] = ()
    loss: LossSection | None = None
    rows: int = 0
    suppressed: int = 0
    classes: int | None = None
    columns: Mapping[str, ColumnSection] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, PartSection] = field(default_factory=dict)
    model: ModelSection | None = None
    randomization: RandomizationSection | None = None
    fragments: FragmentsSection | None = None

    def extended(self, further: Mapping[str, Any]) -> "Manifest":
        """The manifest with further fields; one that is None is left absent.

        Raises:
            IntegrityError: as `from_dict`.
        """
        given = {name: value for name, value in further.items() if value is not None}
        return Manifest.from_dict({**self.stored, **given})

    @property
    def private(self) -> bool:
        """Whether the release hides exact counts of its source: a private one, or a randomized one."""
        return self.loss is not None or self.randomization is not None

    @property
    def noisy_participants(self) -> bool:
        """Whether the number of the persons who take part is not public."""
        return self.model is not None and self.model.participants is not None


@dataclass(frozen=True, kw_only=True)
class Manifest(Claims):
    """The manifest of a release, from staging on.

    Attributes:
        figures: Loss of information and risk, by name.
        source: Where the records came from.
        sha256: Hash of the verified records.
        seeded: Whether the random choices can be repeated.
        software: Package that made the release.
        person: Identification of the person of a row, where the schema states it.
        outliers: Searches for outliers before the release.
        history: Guarantees over this release and the earlier ones.
        membership: Private file of who is in which class, where later releases are compared with this one.
        over_time: Promise of the schedule to each person over all its releases.
        booking: Entry of the ledger that paid for the release.
        replaces: Fingerprint of a secret of memoised answers that was given up on purpose.
        left_out: Figures and pages that could not be made, each with the class of the error.
        policy: Policy that the release had to meet, combined with the floor policy.
        measured: Findings of the verification.
        verification: Hashes that tie the findings to report and policies.
        floor_policy: Hash of the floor policy of the deployment.
        attacks: Figures of attacks, where the policy publishes them.
        approval: Approval of the release, where an approval was possible.
        schema: Schema of the released columns, where the release is signed.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    source: SourceSection | None = None
    sha256: str = ""
    seeded: bool = False
    software: SoftwareSection | None = None
    person: PersonSection | None = None
    outliers: tuple[OutliersSection, ...] = ()
    history: HistorySection | None = None
    membership: MembershipSection | None = None
    over_time: PromiseSection | None = None
    booking: BookingSection | None = None
    replaces: str | None = None
    left_out: tuple[Mapping[str, str], ...] = ()
    policy: Mapping[str, Any] | None = None
    measured: tuple[FindingSection, ...] = ()
    verification: VerificationSection | None = None
    floor_policy: Mapping[str, str] | None = None
    attacks: tuple[AttackSection, ...] = ()
    approval: ApprovalSection | None = None
    schema: Mapping[str, Any] | None = None

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings as plain values, as a report of the verification has them."""
        return [finding.to_dict() for finding in self.measured]
