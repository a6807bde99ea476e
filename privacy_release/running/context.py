"""The context of a run in one process: what its steps may use, and the results of earlier steps."""

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
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.lake.layout import TableRules
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.running.judging import JudgedRun
    from privacy_release.spec.model import ReleaseSpec

Watcher = Callable[[str, str], None]


def nothing(kind: str, text: str) -> None:
    """Ignore progress messages: the default watcher."""


@dataclass(kw_only=True)
class Handed:
    """The context of a step without a named operator. It knows the step's settings only.

    Attributes:
        release_id: Name of the release in its table.
        work: Work area of the run.
        handed: Newest result of each kind of slot, which later steps read.
    """

    release_id: str
    work: WorkArea
    handed: dict[Slot, Any] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The prepared records so far."""
        table: Table = self.handed[Slot.TABLE]
        return table


@dataclass(kw_only=True)
class Running(Handed):
    """The state of a run in one process. This class is a rehearsal, which only reads the source.

    Attributes:
        effects: Effects outside of the work area that its steps may have.
        spec: Specification of the release.
        schema: Schema of the source.
        watch: Progress callback, called with a step's kind and a message.
        required: Policy of the release, including the floor policy. None if it is not known.
        hides_counts: Whether counts are removed from messages about source records. True if a budget pays.
        attempts: Failures to make optional parts of a published release.
        warnings: Alerts, and reasons why alerts are incomplete.
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
        """Report progress of a step to the watcher."""
        hidden = self.hides_counts and step.counts_source
        self.watch(step.kind, without_counts(text) if hidden else text)

    def follow(self, plan: Plan) -> None:
        """Execute the steps of a plan in order.

        Raises:
            PrivacyEngineError: If a step fails.
            ValueError: If a step consists of several tasks, or has an effect that this run must not have.
                No step is executed in that case.
        """
        for step in plan.steps:
            if step.work is None:
                raise ValueError(f"step {step.name} consists of several tasks and cannot run in one process")
            if forbidden := step.effects - self.effects:
                raise ValueError(f"step {step.name} {', '.join(forbidden)}, which a rehearsal must not do")
        for step in plan.steps:
            assert step.work is not None
            with portion(step.share) if step.share else nullcontext():
                result = work_of(step.work)(self, step)
            if step.gives is not None:
                self.handed[step.gives] = result


@dataclass(kw_only=True)
class Releasing(Running):
    """A run that was judged and may publish.

    Attributes:
        judged: Facts about the run, what pays for the release, and the earlier releases of its table.
        into: Release table that the release is published in.
        rules: Rules on which releases the table keeps.
        approved_by: Name of the person who approves the release.
        signer: Signer of the release. None if it is not signed.
    """

    effects: ClassVar = frozenset(Effect)

    judged: "JudgedRun"
    required: "ReleasePolicy"
    into: "ReleaseTable"
    rules: "TableRules"
    approved_by: str | None = None
    signer: "Signer | None" = None

    @property
    def staged(self) -> StagedRelease:
        """The staged release, before it is published."""
        staged: StagedRelease = self.handed[Slot.STAGED]
        return staged

    @property
    def report(self) -> ReportRef:
        """The verification report of the staged release."""
        report: ReportRef = self.handed[Slot.REPORT]
        return report


def work_of(name: str) -> Callable[[Any, Step], Any]:
    """Import the function of a step, given as `module:function`."""
    module, _, function = name.partition(":")
    found: Callable[[Any, Step], Any] = getattr(import_module(module), function)
    return found
