"""The input and the output of a producer of releases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_release.budget.budget import Budget
from privacy_release.budget.secrets import Memory
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.data import ReportData, claimed_k, data_of_release
from privacy_release.steps.memberships.past import Past
from privacy_release.steps.memberships.regions import Regions
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import BookingRef, PeopleRef

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.release import Release
    from privacy_engine.tables.schema import DataSchema


def say_nothing(_: str) -> None:
    """Ignore progress messages: the default callback."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The job of a producer: which release to make, where, and with which budget.

    Attributes:
        work: Work area where the release is staged.
        label: Prefix of the file names.
        method: Registry key of the method.
        parameters: Parameters of the method.
        seed: Seed of the random choices. None draws fresh entropy.
        title: Title of the report.
        on_progress: Progress callback, called with the name of each part of the work as it begins.
        attempts: Failures to make optional figures and pages, which the manifest lists.
        budget: Budget that pays for a differentially private method.
        loss: Privacy loss of the release. None if it claims no loss.
        memory: Secret of memoised answers.
        past: Earlier releases of the same people that this release must stay safe with.
    """

    work: WorkArea
    label: str = "staged"
    method: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    title: str | None = None
    on_progress: Callable[[str], None] = say_nothing
    attempts: Attempts = field(default_factory=Attempts)
    budget: Budget | None = None
    loss: "PrivacyLoss | None" = None
    memory: Memory | None = None
    past: Past | None = None

    @property
    def continues(self) -> bool:
        """Whether the release must stay safe together with earlier releases of the same people."""
        return self.past is not None

    @property
    def records(self) -> Path:
        """The path of the released records."""
        return self.work.path(f"{self.label}.parquet")


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a producer knows about its release for the report, which `stage` makes.

    Attributes:
        data: Function that returns the data of the report. If it fails, the report is a page of the claims.
        loss: Information loss, by name.
        risk: Disclosure risk, by name.
        about: Further facts about the release, by name.
    """

    data: Callable[[], ReportData]
    loss: Mapping[str, float] = field(default_factory=dict)
    risk: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        release: "Release",
        job: Job,
        loss: Mapping[str, float],
        risk: Mapping[str, float] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> "Description":
        """Describe a release whose table, or whose first records, are in memory."""

        def data() -> ReportData:
            return data_of_release(release, claimed_k(release.guarantees), job.attempts)

        return cls(data=data, loss=loss, risk=risk or {}, about=about or {})


@dataclass(frozen=True, kw_only=True)
class ProducedRelease:
    """A release whose records are written, before it is staged.

    Attributes:
        claims: Claims of the method, see `Release.manifest`.
        schema: Schema of the released records.
        figures: Loss and risk, by name.
        sha256: SHA-256 of the file of records, or of the list of a set of files.
        description: Contents of the report.
        seconds: Duration of the method in seconds. For a differentially private release only of the sampling.
        seeded: Whether the random choices can be repeated.
        private: Whether exact counts and hashes of the source would reveal what the release hides.
        positions: Position of each released record in the table, shape (m,). None if there is none.
        before: Persons of further records, shape (l,). Positions after those of the table refer to them.
        waiting: Number of releases that each held-back person has waited. None if no one may be held back.
        regions: Region of the person of each released record, if people are followed in fragments.
        persons: Person of each released record, in the order of the file, shape (m,), or a file of them, if
            persons may have several records.
        earlier: Versions of the release table that the release was made with. None if that is not required.
        booking: Entry of the ledger that paid for the release.
        history: Guarantee over this and the earlier releases, as stated in the manifest.
        replaces: Fingerprint of the secret of memoised answers that was replaced on purpose.
        model: Text of the measured model.
        mechanisms: Loss that each part of the model spent.
        described: Claims that the dictionary of columns is about, if they are those of another release.
        records: List of the files if the records are a set of files. None if they are one, `Job.records`.
    """

    claims: Claims
    schema: "DataSchema"
    figures: Mapping[str, float]
    sha256: str
    description: Description
    seconds: float
    seeded: bool
    private: bool = False
    positions: "npt.NDArray[np.integer[Any]] | None" = None
    before: "npt.NDArray[np.object_] | None" = None
    waiting: Mapping[str, int] | None = None
    regions: Regions | None = None
    persons: "npt.NDArray[np.integer[Any]] | PeopleRef | None" = None
    earlier: list[int] | None = None
    booking: BookingRef | None = None
    history: Mapping[str, Any] | None = None
    replaces: str | None = None
    model: str | None = None
    mechanisms: list[dict[str, Any]] = field(default_factory=list)
    described: Claims | None = None
    records: Path | None = None

    @property
    def is_paid(self) -> bool:
        """Whether a budget paid for the release."""
        return self.booking is not None

    @property
    def promise(self) -> dict[str, Any] | None:
        """Promise that the release is paid under. None if it is paid separately, or not at all."""
        return self.booking.over_time if self.booking else None
