"""Where the explored records come from; a private method never sees people unless the ledger books it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_release.budget.budget import Budget, require_left
from privacy_release.explore.choices import Choice, Grid
from privacy_release.explore.origins import budget_named, origin_of
from privacy_release.explore.records import SAMPLE, records_of_table, simulated_records
from privacy_release.ledger.default import default_ledger
from privacy_release.running.preparing import public_table, source_table
from privacy_release.spec.check import learned, policy_of, sources_of
from privacy_release.spec.floor import floor_policy
from privacy_release.spec.methods import build_method
from privacy_release.spec.rules.facts import UNKNOWN, Facts
from privacy_release.spec.rules.judge import judged, refuse
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import Origin, RecordsRef, Table

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy
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
    origin = origin_of(spec, grid, public=wanted.public is not None, book=wanted.book)
    table: Table | None = None
    if origin == "simulated":
        rows = wanted.rows or SAMPLE
        say(f"simulating {rows:,} records from the public domains of the schema; the source is not read")
    elif wanted.public:
        say("reading the public table; the source is not read")
        table = public_table(spec, wanted.public, work)
    else:
        table = source_table(
            spec, RELEASE_ID, spec.data_schema(), work, lambda kind, text: say(f"{kind}: {text}")
        )
    return sampled(spec, policy, origin, table, wanted, work)


def sampled(
    spec: "ReleaseSpec",
    policy: "ReleasePolicy",
    origin: Origin,
    table: Table | None,
    wanted: Wanted,
    work: WorkArea,
) -> RecordsRef:
    """The records of an ingested table that a grid is measured on, or simulated ones.

    Args:
        spec: of the release.
        policy: with the deployment's floor.
        origin: as of `origin_of`.
        table: what `ingest` gave; None where records are simulated.
        wanted: how many, by which seed, and the target.
        work: where records are kept.

    Raises:
        SpecError: if a table is missing, or there is one where none may be looked at; and as
            `records_of_table` and `simulated_records`.
    """
    rows, target, seed = wanted.rows or SAMPLE, wanted.target, wanted.seed
    if (table is None) != (origin == "simulated"):
        raise SpecError(
            "differentially private methods are explored on simulated records, unless the table is declared "
            "public or the ledger books them; all else needs a table: add or remove it, or say public or book"
        )
    if table is None:
        return simulated_records(spec.method_schema(), policy, work, rows=rows, target=target, seed=seed)
    return records_of_table(table, policy, work, origin=origin, rows=rows, target=target, seed=seed)


def budget_of(spec: "ReleaseSpec", cells: Sequence[Choice], wanted: Wanted) -> Budget:
    """What pays for exploring the source: each choice is booked as it is made.

    Raises:
        SpecError: if the specification has no budget, or a method spends none.
        BudgetExceededError: if it does not cover all choices; nothing was read or booked then.
    """
    dataset, connection = budget_named(spec, wanted.rows)
    run = f"{spec.name}/{RELEASE_ID}"
    budget = Budget(dataset=dataset, run=run, ledger=default_ledger(), connection=connection)
    require_all_left(spec, cells, budget)
    return budget


def policy_to_explore(spec: "ReleaseSpec") -> "ReleasePolicy":
    """What releases of a specification must keep, its policy and the floor policy.

    Raises:
        SpecError: if the specification breaks a rule, whatever method is chosen for it.
    """
    facts, found = learned(spec, policy_of(spec, floor_policy()), sources_of(spec))
    # The method is what is looked for, and nothing is released.
    facts = replace(facts, method=UNKNOWN, approval=UNKNOWN)
    judged(facts).refuse(found)
    return facts.policy


def require_all_left(spec: "ReleaseSpec", cells: Iterable[Choice], budget: Budget) -> None:
    """Ask whether all choices can be paid for, before anything is read; nothing is booked.

    Raises:
        SpecError: if a method spends nothing.
        BudgetExceededError: if the budget does not cover them together.
    """
    schema = spec.method_schema()
    losses = []
    for cell in cells:
        releaser = build_method(cell.method, cell.parameters)
        loss = releaser.privacy_loss(schema)
        refuse(Facts(releaser=releaser, loss=loss, budget=True, promise=budget.promise))
        losses += [loss] if loss is not None else []
    require_left(budget, sum(losses[1:], losses[0]))
