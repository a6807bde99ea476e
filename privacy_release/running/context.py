"""A run of a release in one process: what its steps may use, and what they have handed on."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from privacy_engine.counts import without_counts
from privacy_engine.progress import portion
from privacy_release.plan.plan import Plan
from privacy_release.plan.step import Effect, Slot, Step
from privacy_release.reports.attempts import Attempts
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import ReportRef, StagedRelease, Table

if TYPE_CHECKING:
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.budget.budget import Budget
    from privacy_release.budget.secrets import Memory
    from privacy_release.lake.layout import TableRules
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.spec.model import ReleaseSpec

Watcher = Callable[[str, str], None]


def nothing(kind: str, text: str) -> None:
    """A watcher that says nothing."""


@dataclass(kw_only=True)
class Handed:
    """What a step without a named operator may use: it knows its settings and no specification.

    Attributes:
        release_id: Name of the release in its table.
        work: Work area of the run.
        handed: Newest result of each kind.
    """

    release_id: str
    work: WorkArea
    handed: dict[Slot, Any] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The records, as far as they are prepared."""
        table: Table = self.handed[Slot.TABLE]
        return table


@dataclass(kw_only=True)
class Running(Handed):
    """A run in one process, as far as it is. This one is a rehearsal, which only reads its source.

    Attributes:
        effects: What its steps may do outside of the work area.
        spec: What is released.
        schema: Schema of the source.
        watch: Function that is given a step's kind, and what is done in it.
        required: Policy that the release must keep, the floor policy included; None: it is not known.
        hides_counts: Whether what is said of the source's records has no counts, as a budget demands.
        attempts: What may be missing of a published release.
        warnings: Alerts, and why they are incomplete.
    """

    effects: ClassVar = frozenset({Effect.READS_SOURCE})

    spec: "ReleaseSpec"
    schema: "DataSchema"
    required: "ReleasePolicy | None" = None
    watch: Watcher = nothing
    hides_counts: bool = False
    attempts: Attempts = field(default_factory=Attempts)
    warnings: list[str] = field(default_factory=list)

    def say(self, step: Step, text: str) -> None:
        """Say what is done in a step."""
        hidden = self.hides_counts and step.counts_source
        self.watch(step.kind, without_counts(text) if hidden else text)

    def follow(self, plan: Plan) -> None:
        """Do the steps of a plan, one after the other.

        Raises:
            PrivacyEngineError: as the steps do.
            ValueError: if a step has several tasks, or an effect that this run must not have; none is done.
        """
        for step in plan.steps:
            if step.work is None:
                raise ValueError(f"step {step.name} is done by several tasks, and not in one process")
            if forbidden := step.effects - self.effects:
                raise ValueError(f"step {step.name} {', '.join(forbidden)}, which a rehearsal never does")
        for step in plan.steps:
            assert step.work is not None
            with portion(step.share) if step.share else nullcontext():
                result = work_of(step.work)(self, step)
            if step.gives is not None:
                self.handed[step.gives] = result


@dataclass(kw_only=True)
class Releasing(Running):
    """A run that may release: what must hold, where to, and what pays for it.

    Attributes:
        policy: Policy of the release, as its verification reads it.
        into: The release table.
        rules: Which releases the table keeps.
        budget: Budget that is spent.
        loss: Privacy loss of the release; None: it claims none.
        memory: Secret of memoised answers, and that of the last release.
        approved_by: Who approves what the run makes.
        signer: Signer of the release.
    """

    effects: ClassVar = frozenset(Effect)

    policy: Any
    required: "ReleasePolicy"
    into: "ReleaseTable"
    rules: "TableRules"
    budget: "Budget | None" = None
    loss: "PrivacyLoss | None" = None
    memory: "Memory | None" = None
    approved_by: str | None = None
    signer: "Signer | None" = None

    @property
    def run(self) -> tuple[str, str]:
        """The release and its run, as `publish` names them."""
        return (self.release_id, self.release_id)

    @property
    def staged(self) -> StagedRelease:
        """The release, not published yet."""
        staged: StagedRelease = self.handed[Slot.STAGED]
        return staged

    @property
    def report(self) -> ReportRef:
        """What was found of it."""
        report: ReportRef = self.handed[Slot.REPORT]
        return report


def work_of(name: str) -> Callable[[Any, Step], Any]:
    """The function of a step, by `module:function`."""
    module, _, function = name.partition(":")
    found: Callable[[Any, Step], Any] = getattr(import_module(module), function)
    return found
