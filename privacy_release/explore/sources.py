"""Where the explored records come from; a private method never sees people unless the ledger books it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_engine.registry import Family
from privacy_release.explore.choices import Choice, Grid, family_of
from privacy_release.explore.records import SAMPLE, Origin, RecordsRef, records_of_table, simulated_records
from privacy_release.spec.methods import build_method
from privacy_release.spending.budget import Budget, require_budget
from privacy_release.steps.ingest import ingest
from privacy_release.steps.run import source_table
from privacy_release.work.area import WorkArea

if TYPE_CHECKING:
    from privacy_engine.judge.policy import ReleasePolicy
    from privacy_release.spec.model import ReleaseSpec

RELEASE_ID = "explore"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What somebody asks to explore.

    Attributes:
        rows: about so many records; None: as many as take minutes.
        target: that a classifier predicts; None: a sensitive attribute.
        seed: of what is drawn.
        public: a table in the source's form that everybody may know, for private methods.
        book: whether the source is explored by private methods, and the ledger books it.
    """

    rows: int | None = None
    target: str | None = None
    seed: int = 0
    public: str | None = None
    book: bool = False


def records_of(
    spec: "ReleaseSpec",
    policy: "ReleasePolicy",
    grid: Grid,
    wanted: Wanted,
    work: WorkArea,
    say: Callable[[str], None],
) -> RecordsRef:
    """The records that a grid is measured on, in the work area.

    Args:
        spec: of the release.
        policy: with the deployment's floor.
        grid: whose methods decide what may be read.
        wanted: what was asked for.
        work: where records are kept.
        say: told what is read.

    Raises:
        SpecError: if the release is not explored, or what is wanted does not fit it.
        PrivacyEngineError: as ingest, validation and the search for outliers.
    """
    if spec.linked:
        raise SpecError(
            f"{spec.name} links the rows of persons or has several tables, and is not explored; explore a "
            "copy of the file without `rows: linked`, or of one table"
        )
    private = family_of(spec, grid) is Family.SYNTHESIZER
    if not private and (wanted.public or wanted.book):
        raise SpecError("--public and --book are for differentially private methods; leave them out")
    rows = wanted.rows or SAMPLE
    if private and not (wanted.public or wanted.book):
        say(f"simulating {rows:,} records from the public domains of the schema; the source is not read")
        return simulated_records(
            spec.method_schema(), policy, work, rows=rows, target=wanted.target, seed=wanted.seed
        )
    if wanted.public:
        say("reading the public table; the source is not read")
        source = spec.only_source
        table = ingest(
            wanted.public,
            spec.data_schema(),
            work,
            columns=source.columns,
            nulls=source.nulls,
            max_expansion=source.max_expansion,
        )
    else:
        table = source_table(
            spec, RELEASE_ID, spec.data_schema(), work, lambda stage, text: say(f"{stage.value}: {text}")
        )
    origin: Origin = "public" if wanted.public else "booked" if private else "source"
    return records_of_table(
        table, policy, work, origin=origin, rows=rows, target=wanted.target, seed=wanted.seed
    )


def budget_of(spec: "ReleaseSpec", cells: Sequence[Choice], wanted: Wanted) -> Budget:
    """What pays for exploring the source: each choice is booked as it is made.

    Raises:
        SpecError: if the specification has no budget, or a method spends none.
        BudgetExceededError: if it does not cover all choices; nothing was read or booked then.
    """
    from privacy_release.ledger.places import default_ledger
    from privacy_release.spending.budget import require_left

    if spec.budget is None:
        raise SpecError("--book needs a budget in the specification; add it, or leave --book out")
    if wanted.rows is not None:
        raise SpecError(
            "--book explores the whole source, as each release spends on all of it; drop --sample"
        )
    run = f"{spec.name}/{RELEASE_ID}"
    budget = Budget(
        dataset=spec.budget.dataset, run=run, ledger=default_ledger(), connection=spec.budget.ledger
    )
    schema = spec.method_schema()
    losses = [require_budget(build_method(c.method, c.parameters), schema, budget) for c in cells]
    known = [loss for loss in losses if loss is not None]
    require_left(budget, sum(known[1:], known[0]))
    return budget
