"""Derive the plan of a release from its specification: which steps it has, and in which order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privacy_release.plan.step import Effect, Retry, Slot, Step

if TYPE_CHECKING:
    from privacy_release.spec.model import ReleaseSpec

_WORK = "privacy_release.running."


@dataclass(frozen=True)
class Plan:
    """The steps of a release, each after the steps that it needs.

    Raises:
        ValueError: If two steps have the same name, or no earlier step gives what a step takes.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        names, given = set[str](), set[Slot]()
        for step in self.steps:
            missing = [*(set(step.after) - names), *(set(step.takes) - given)]
            if step.name in names or missing:
                raise ValueError(f"step {step.name} occurs twice, or no earlier step gives {missing}")
            names.add(step.name)
            given |= {step.gives} if step.gives is not None else set()

    def before(self) -> Mapping[str, frozenset[str]]:
        """The steps that each step waits for, by name."""
        newest, found = dict[Slot, str](), dict[str, frozenset[str]]()
        for step in self.steps:
            found[step.name] = frozenset([*step.after, *(newest[slot] for slot in step.takes)])
            if step.gives is not None:
                newest[step.gives] = step.name
        return found

    def last(self) -> tuple[Step, ...]:
        """The steps that a release has to wait for at its end: all from the commit on."""
        names = [step.name for step in self.steps]
        return self.steps[names.index("publish") :]

    def rehearsal(self) -> "Plan":
        """The part of the plan that reads and prepares the table, without releasing it."""
        ends = (place for place, step in enumerate(self.steps) if step.gives in (Slot.CUT, Slot.STAGED))
        steps = self.steps[: next(ends)]
        prepare = (step for step in steps if Slot.TABLE in (step.gives, *step.takes))
        return Plan(tuple(replace(step, after=()) for step in prepare))


def plan_of(
    spec: "ReleaseSpec", *, attacked: bool = False, approved: bool | None = None, mapped: bool | None = None
) -> Plan:
    """Return the plan of a specification.

    Args:
        spec: Specification of the release.
        attacked: Whether the policy or the floor policy bounds attacks.
        approved: Whether a person may have to approve. None: as the specification says.
        mapped: Whether each fragment is a task. None: as the specification says.
    """
    approved = spec.approval is not None if approved is None else approved
    attacked = attacked and spec.reads_records
    return Plan(
        (
            *_beginning(spec),
            *_preparing(spec),
            *([_step("releasing:hold_out", takes=(Slot.TABLE,), gives=Slot.TABLE)] if attacked else []),
            *_releasing(spec, spec.mapped if mapped is None else mapped),
            *_judging(spec, attacked, approved),
            *_publishing(spec, approved),
        )
    )


def _step(work: str, name: str | None = None, /, **more: object) -> Step:
    """Return a step by its work, `module:function`. Its name is that of the function unless one is given."""
    return Step(name=name or work.partition(":")[2], work=f"{_WORK}{work}", **more)  # type: ignore[arg-type]


def _beginning(spec: "ReleaseSpec") -> Iterator[Step]:
    """Steps before the source is read."""
    spent = spec.budget is not None
    if spent:
        yield _step("releasing:budget", retry=Retry.OUTSIDE)
    if spec.public_register is not None:
        yield _step(
            "preparing:register",
            gives=Slot.REGISTER,
            after=("budget",) if spent else (),
            effects=frozenset({Effect.READS_SOURCE}),
        )


def _preparing(spec: "ReleaseSpec") -> Iterator[Step]:
    """Steps that make the table to release: ingest, validate, transform, detect outliers.

    A method that reads no records gets a table without any, which nothing is validated or searched in.
    """
    if not spec.reads_records:
        yield _step("preparing:invent", gives=Slot.TABLE, settings=spec.invented)
        if spec.transform is not None:
            yield _step("preparing:transform", takes=(Slot.TABLE,), gives=Slot.TABLE)
        return
    first = "register" if spec.public_register is not None else "budget" if spec.budget is not None else None
    yield _step(
        "preparing:ingest",
        gives=Slot.TABLE,
        after=() if first is None else (first,),
        effects=frozenset({Effect.READS_SOURCE}),
        retry=Retry.OUTSIDE if spec.tables is None and spec.only_source.sql is not None else Retry.NEVER,
        share=0.1,
    )
    if spec.suite_given is not None:
        yield _step("preparing:validate", takes=(Slot.TABLE,), gives=Slot.TABLE)
    for name, own in (spec.tables or {}).items():
        if own.suite_given is not None:
            yield _step("preparing:validate", f"validate_{name}", takes=(Slot.TABLE,), part=name)
    if spec.transform is not None:
        yield _step("preparing:transform", takes=(Slot.TABLE,), gives=Slot.TABLE)
    if spec.outliers is not None:
        yield _step("preparing:detect_outliers", takes=(Slot.TABLE,), gives=Slot.TABLE, share=0.1)


def _releasing(spec: "ReleaseSpec", mapped: bool) -> Iterator[Step]:
    """Steps that make the staged release: one step, or one for each fragment and one that joins them."""
    required = [
        *(["register"] if spec.public_register is not None else []),
        *(f"validate_{name}" for name, own in (spec.tables or {}).items() if own.suite_given is not None),
    ]
    engine = Retry.ENGINE if spec.scaled else Retry.NEVER
    outside = spec.budget is not None or (spec.history is not None and spec.history.keep)
    if mapped:
        yield Step(
            name="cut",
            takes=(Slot.TABLE,),
            gives=Slot.CUT,
            after=(*required,),
            retry=Retry.OUTSIDE if outside else engine,
        )
        yield Step(
            name="release_fragment",
            takes=(Slot.CUT,),
            gives=Slot.FRAGMENTS,
            for_each=Slot.CUT,
            retry=engine,
        )
        yield Step(name="release", takes=(Slot.FRAGMENTS,), gives=Slot.STAGED, retry=engine)
        return
    yield _step(
        "releasing:release",
        takes=(Slot.TABLE,),
        gives=Slot.STAGED,
        after=(*required,),
        effects=frozenset({Effect.BOOKS}) if spec.budget is not None else frozenset(),
        retry=Retry.OUTSIDE if outside else engine,
        share=0.5,
    )


def _judging(spec: "ReleaseSpec", attacked: bool, approved: bool) -> Iterator[Step]:
    """Steps that must pass before anything is published."""
    outside = spec.budget is not None or spec.history is not None
    named = spec.public_register is not None and spec.register_identifier is not None
    register = (Slot.REGISTER,) if named else ()
    yield _step(
        "releasing:verify",
        takes=(Slot.STAGED, *register),
        gives=Slot.REPORT,
        retry=Retry.OUTSIDE if outside else Retry.ENGINE if spec.scaled else Retry.NEVER,
        share=0.15,
    )
    if attacked:
        register = (Slot.REGISTER,) if spec.public_register is not None else ()
        takes = (Slot.TABLE, Slot.STAGED, Slot.REPORT, *register)
        yield _step("releasing:attack", takes=takes, gives=Slot.REPORT, retry=Retry.OUTSIDE, share=0.05)
    if approved:
        yield _step(
            "publishing:approve",
            takes=(Slot.STAGED, Slot.REPORT),
            gives=Slot.APPROVAL,
            effects=frozenset({Effect.WAITS}),
            retry=Retry.OUTSIDE,
        )


def _publishing(spec: "ReleaseSpec", approved: bool) -> Iterator[Step]:
    """The commit, and the steps after it."""
    yield _step(
        "publishing:publish",
        takes=(Slot.STAGED, Slot.REPORT, *((Slot.APPROVAL,) if approved else ())),
        gives=Slot.PUBLISHED,
        effects=frozenset({Effect.COMMITS}),
        retry=Retry.OUTSIDE,
        share=0.1,
    )
    if spec.learn is not None:
        yield _step("publishing:learn", after=("publish",), retry=Retry.OUTSIDE)
    curator = frozenset({Effect.WRITES_TO_CURATOR})
    if spec.publish.evidence:
        yield _step(
            "publishing:evidence",
            takes=(Slot.PUBLISHED,),
            gives=Slot.EVIDENCE,
            effects=curator,
            retry=Retry.OUTSIDE,
        )
    if spec.reports_to_curator:
        yield _step("publishing:curator_report", takes=(Slot.TABLE, Slot.STAGED), effects=curator)
