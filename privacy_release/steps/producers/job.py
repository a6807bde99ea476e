"""What is asked of a producer, and what it gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_release.budget.budget import Budget
from privacy_release.budget.secrets import Memory
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.attempts import Attempts
from privacy_release.steps.history import Past
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import BookingRef, PeopleRef

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.tables.schema import DataSchema


def say_nothing(_: str) -> None:
    """A listener that ignores what it is given."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is asked of a producer: which release, where it is made, and what pays for it.

    Attributes:
        work: Work area where the release is staged.
        label: Beginning of the files' names.
        method: Registry key of the method.
        parameters: Parameters of the method.
        seed: Seed of the random choices; None takes fresh entropy.
        title: Title of the report.
        tell: Function that is given the name of each part of the work as it begins.
        attempts: Makes what describes the release; the manifest names the figures that failed.
        budget: Budget that pays for a differentially private method.
        loss: Privacy loss of the release; None: it claims none.
        memory: Secret of memoised answers.
        past: Earlier releases of the same people, together with which this one stays safe.
    """

    work: WorkArea
    label: str = "staged"
    method: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    title: str | None = None
    tell: Callable[[str], None] = say_nothing
    attempts: Attempts = field(default_factory=Attempts)
    budget: Budget | None = None
    loss: "PrivacyLoss | None" = None
    memory: Memory | None = None
    past: Past | None = None

    @property
    def records(self) -> Path:
        """The file of the released records."""
        return self.work.path(f"{self.label}.parquet")


@dataclass(frozen=True, kw_only=True)
class ProducedRelease:
    """A release whose records are in their place, before it is staged.

    Attributes:
        claims: What the method says of it, see `Release.manifest`.
        schema: of the released records.
        figures: loss and risk, by name.
        sha256: of the file of records, or the hash of a set of them.
        report: as HTML.
        seconds: of the method; of the sampling alone where the release is differentially private.
        seeded: whether the random choices can be repeated.
        private: whether exact counts and hashes of the source would tell what the release hides.
        positions: (m,) of the released records in the table, where they have one.
        before: (l,) persons of further records, to which positions after those of the table lead.
        waiting: Person -> releases waited, of those who are held back; None where none may be.
        persons: (m,) whose record each released one is, in the order of the file, or a file of them, where
            several may be of one person.
        earlier: versions of the release table that it was made together with; None where that was not asked.
        booking: the ledger's entry that paid for it.
        history: What is kept over it and the earlier releases, as the manifest says it.
        replaces: Fingerprint of the secret of memoised answers that was given up on purpose.
        model: text of the measured model, and `mechanisms` what each part of it spent.
        records: the list of their files, where they are a set; None where they are one, `Job.records`.
    """

    claims: Claims
    schema: "DataSchema"
    figures: Mapping[str, float]
    sha256: str
    report: str
    seconds: float
    seeded: bool
    private: bool = False
    positions: "npt.NDArray[np.integer[Any]] | None" = None
    before: "npt.NDArray[np.object_] | None" = None
    waiting: Mapping[str, int] | None = None
    persons: "npt.NDArray[np.integer[Any]] | PeopleRef | None" = None
    earlier: list[int] | None = None
    booking: BookingRef | None = None
    history: Mapping[str, Any] | None = None
    replaces: str | None = None
    model: str | None = None
    mechanisms: list[dict[str, Any]] = field(default_factory=list)
    records: Path | None = None
