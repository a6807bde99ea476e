"""The sections of a manifest; fields that this version does not know are kept in each of them.

>>> loss = {"epsilon": 1, "delta": 0.0, "neighbours": "replace_one", "new": [1]}
>>> LossSection.from_dict(loss).epsilon, LossSection.from_dict(loss).to_dict() == loss
(1, True)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privacy_engine.dp.loss import PrivacyLoss
from privacy_release.manifest.section import ManifestSection


@dataclass(frozen=True, kw_only=True)
class LossSection(ManifestSection):
    """A differential privacy loss.

    Attributes:
        epsilon: Bound of the loss.
        delta: Probability with which the bound may fail.
        neighbours: Neighbour relation: `replace_one`, `replace_person` or `add_remove`.
        rho: Zero-concentrated loss that epsilon and delta follow from, if it was accounted so.
    """

    epsilon: float
    delta: float
    neighbours: str
    rho: float | None = None

    @property
    def claimed(self) -> PrivacyLoss:
        """The loss as a value of the engine.

        Raises:
            ValueError: if there is no such loss.
        """
        return PrivacyLoss(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,  # type: ignore[arg-type]  # a text is read as one
            rho=self.rho,
        )


@dataclass(frozen=True, kw_only=True)
class ColumnSection(ManifestSection):
    """A released column.

    Attributes:
        role: `quasi_identifier`, `sensitive`, `insensitive` or `identifier`.
        kind: `categorical`, `ordinal`, `numeric`, `date` or `timestamp`.
        nulls: Meaning of a null.
        meaning: Where identifiers may come from, as the schema classifies the column.
        codes: Meaning of the codes in the column.
        precision: Period to which dates were cut.
    """

    role: str
    kind: str
    nulls: str = ""
    meaning: str = ""
    codes: str = ""
    precision: str = ""


@dataclass(frozen=True, kw_only=True)
class PartSection(ManifestSection):
    """One of several tables that are released together.

    Attributes:
        rows: Number of its released records.
        suppressed: Number of its records that were left out.
    """

    rows: int
    suppressed: int


@dataclass(frozen=True, kw_only=True)
class FragmentsSection(ManifestSection):
    """How a table was cut before its release.

    Attributes:
        count: Number of fragments.
        rows: Records of a fragment: `most` that it may have, `smallest` and `largest` that there are.
        engine: Engine that worked on them.
        meaning: Effect of the cut on the figures, in words.
    """

    count: int
    rows: Mapping[str, int]
    engine: str = ""
    meaning: str = ""


@dataclass(frozen=True, kw_only=True)
class MechanismSection(ManifestSection):
    """A noisy measurement of the source, and what it cost; further fields are those of its noise.

    Attributes:
        mechanism: `discrete_laplace`, `discrete_gaussian` or `noisy_max`.
        target: Names of the attributes that were measured.
        epsilon: Loss of all its runs.
        delta: Probability with which the bound may fail.
        rho: Zero-concentrated loss of all its runs, where it is accounted so.
    """

    mechanism: str
    target: str = ""
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelSection(ManifestSection):
    """The private model that synthetic records were drawn from.

    Attributes:
        network: Parents of each attribute, in the order of drawing.
        mechanisms: Noisy measurements that the model was made from.
        source_rows: Number of records of the source, where it is public.
        source_persons: Number of persons of the source, where it is public.
        participants: `noisy` where only some of the persons take part, whose number is not public.
        contribution: Bounds on what one person contributes.
        domains: Where the domains of the attributes come from: `schema`.
    """

    network: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mechanisms: tuple[MechanismSection, ...] = ()
    source_rows: int | None = None
    source_persons: int | None = None
    participants: str | None = None
    contribution: Mapping[str, Any] = field(default_factory=dict)
    domains: str = ""


@dataclass(frozen=True, kw_only=True)
class RandomizationSection(ManifestSection):
    """How values were randomized one by one.

    Attributes:
        attributes: Mechanism of each randomized attribute, with its probabilities.
        released_as_is: Attributes that were not randomized.
        randomness: Where the random bits come from: `system`, `memoised` or `seeded`.
        private_randomness: Whether the random choices can be repeated by no one.
        secret: Fingerprint of the secret of memoised answers.
        epsilon: Local loss of a `person`, and of each of the `attributes`; null where there is no bound.
    """

    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    released_as_is: tuple[str, ...] = ()
    randomness: str = ""
    private_randomness: bool = True
    secret: str | None = None
    epsilon: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LinkedSection(ManifestSection):
    """A table among several of the same persons.

    Attributes:
        columns: Its released columns, without the person's.
        carried: Columns that it has from another table.
    """

    columns: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PersonSection(ManifestSection):
    """Whose record a row is.

    Attributes:
        column: Identifier that names the person of a row.
        none: Reason why each row is of another person although an identifier repeats.
        rows: `linked` where a pseudonym links the rows of a person.
        tables: Tables that the rows are of, where there are several.
        sha256: Hash of the private file of the persons, which is not published.
    """

    column: str | None = None
    none: str | None = None
    rows: str | None = None
    tables: Mapping[str, LinkedSection] = field(default_factory=dict)
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class OutliersSection(ManifestSection):
    """A search for outliers before the release.

    Attributes:
        method: Key of the detector.
        action: Action on the outliers: `report`, `fail`, `set_aside` or `suppress`.
        records: Number of records that were examined.
        flagged: Number of outliers.
        share: Share of the records that are outliers.
        pruned: Share of the records that needed no computation.
        threshold: Score above which a record is an outlier; null where a number of them was requested.
        removed: Number of records that were taken out.
    """

    method: str
    action: str
    records: int
    flagged: int
    share: float
    pruned: float = 0.0
    threshold: float | None = None
    removed: int = 0


@dataclass(frozen=True, kw_only=True)
class HistorySection(ManifestSection):
    """What is kept over this release and the earlier ones of the same people; further fields say how.

    Attributes:
        releases: Number of the earlier releases.
        k: Fewest persons among whom each person is hidden by all releases together.
        m: Fewest distinct values of each sensitive attribute that are left to a person.
        departures: Whether it is `known` who left.
        withheld: Number of records that were withheld.
    """

    releases: int
    k: int | None = None
    m: Mapping[str, int] = field(default_factory=dict)
    departures: str = ""
    withheld: int = 0


@dataclass(frozen=True, kw_only=True)
class MembershipSection(ManifestSection):
    """The private file of who is in which class of the release.

    Attributes:
        sha256: Hash of the file, by which a later release notices that it was removed or replaced.
    """

    sha256: str


@dataclass(frozen=True, kw_only=True)
class EqualPartSection(ManifestSection):
    """What each release of a schedule spends.

    Attributes:
        epsilon: Bound of the loss.
        delta: Probability with which the bound may fail.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class PromiseSection(ManifestSection):
    """What a schedule promises to each person over all its releases.

    Attributes:
        period: Time within which the promise holds, such as `365d`, or `total`.
        loss: Loss of a person within the period.
        releases: Number of equal releases in a period.
        part: Loss of each of them.
        releases_of_a_person: Most releases that a person takes part in.
        opening: Release that the schedule opens with.
    """

    period: str
    loss: LossSection
    releases: int | None = None
    part: EqualPartSection | None = None
    releases_of_a_person: int | None = None
    opening: Any = None

    @property
    def follows(self) -> bool:
        """Whether a release depends on who was in the earlier ones, or on what they measured."""
        return self.releases_of_a_person is not None or self.opening is not None


@dataclass(frozen=True, kw_only=True)
class BookingSection(ManifestSection):
    """The entry of a budget ledger that paid for the release.

    Attributes:
        dataset: Data set whose budget was spent.
        entry_hash: Hash of the ledger's entry.
        model_sha256: Hash of the model's text in the ledger.
        epsilon: Bound of the loss that was booked.
        delta: Probability with which the bound may fail.
        neighbours: Neighbour relation of the loss.
    """

    dataset: str
    entry_hash: str
    model_sha256: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    neighbours: str | None = None


@dataclass(frozen=True, kw_only=True)
class SourceSection(ManifestSection):
    """Where the records came from; exact counts and hashes only where the guarantee does not hide them.

    Attributes:
        files: Number of files.
        identifiers: Columns that stayed in the source.
        fingerprint: Hash that changes with the data.
        rows: Number of records of the source.
        dropped: Number of records that were left out because of nulls.
        version: Version of the table that they are of.
        transforms: Steps of the user between ingest and release, in order.
        holdout: Share of the people who were left out, so that attacks have a control.
        shifted: Columns of dates that were shifted, by how many days, and by which key.
        tables: The same of each of several tables.
    """

    files: int = 0
    identifiers: tuple[str, ...] = ()
    fingerprint: str | None = None
    rows: int | None = None
    dropped: int | None = None
    version: int | None = None
    transforms: tuple[Mapping[str, Any], ...] = ()
    holdout: float | None = None
    shifted: Mapping[str, Any] | None = None
    tables: "Mapping[str, SourceSection]" = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SoftwareSection(ManifestSection):
    """The package that made the release.

    Attributes:
        name: Name of the package.
        version: Version of the package.
    """

    name: str
    version: str


@dataclass(frozen=True, kw_only=True)
class FindingSection(ManifestSection):
    """A rule of the policy, and what was measured for it on the published bytes.

    Attributes:
        rule: The rule with its parameters, as text.
        passed: Whether the release keeps it.
        measured: Measured value; null where nothing could be measured.
        threshold: Limit that the policy sets.
        failing_classes: Number of classes that miss the limit.
        failing_rows: Number of records in them.
        note: Remark that a reader of the figure must know.
    """

    rule: str
    passed: bool
    measured: float | None = None
    threshold: float | None = None
    failing_classes: int | None = None
    failing_rows: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class VerificationSection(ManifestSection):
    """Hashes that tie the findings to the report of the verification and to the policies.

    Attributes:
        report_sha256: Hash of the report of the verification.
        policy_sha256: Hash of the policy that had to hold.
        floor_policy_sha256: Hash of the floor policy of the deployment.
    """

    report_sha256: str
    policy_sha256: str
    floor_policy_sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExcessSection(ManifestSection):
    """What an attack gained on one subject.

    Attributes:
        subject: Subject of the attack, such as a sensitive attribute.
        excess: Share of right guesses beyond those about people who are not in the release.
        low: Lower end of the interval of the excess.
        high: Upper end of the interval of the excess.
    """

    subject: str
    excess: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class AttackSection(ManifestSection):
    """An attack whose figures the policy publishes.

    Attributes:
        attack: Name of the attack.
        bound: Largest excess that the policy allows.
        outcomes: Gains of the attack, one entry per subject.
        confidence: Confidence of the intervals.
    """

    attack: str
    bound: float
    outcomes: tuple[ExcessSection, ...]
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True)
class ApprovalSection(ManifestSection):
    """Who approved the release.

    Attributes:
        by: Name of the person who approved, or id and name as Airflow has them.
        at: Time of the approval, ISO 8601.
        comment: Comment of the person who approved, for all readers of the release.
        automatic: Whether the release was published without a person's approval.
        report_sha256: Hash of the report that was approved.
        question_sha256: Hash of the question that was shown.
    """

    by: str | Mapping[str, Any] | None = None
    at: str = ""
    comment: str = ""
    automatic: bool = False
    report_sha256: str | None = None
    question_sha256: str | None = None

    @property
    def given(self) -> bool:
        """Whether a person approved the release."""
        return bool(self.by) and not self.automatic
