"""Get the records to explore. A private method never reads people's records unless the ledger books it."""

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
class ExploreRequest:
    """A request to explore.

    Attributes:
        rows: Approximate number of records. None: as many as take minutes.
        target: Attribute that a classifier predicts. None: a sensitive one.
        seed: Seed of the sample.
        public: Public table in the form of the source, for private methods. None: there is none.
        book: Whether private methods may explore the source, and the ledger books it.
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
    request: ExploreRequest,
    work: WorkArea,
    say: Callable[[str], None],
) -> RecordsRef:
    """Return the records that a grid is measured on, in the work area.

    Args:
        spec: Specification of the release.
        policy: Policy combined with the floor policy.
        grid: Grid, whose methods decide what may be read.
        request: Number, target and origin of the records.
        work: Work area in which records are kept.
        say: Progress callback, called with what is read.

    Raises:
        SpecError: If the release cannot be explored, or the request does not fit it.
        PrivacyEngineError: If ingest, validation or the search for outliers fails.
    """
    origin = origin_of(spec, grid, public=request.public is not None, book=request.book)
    table: Table | None = None
    if origin == "simulated":
        rows = request.rows or SAMPLE
        say(f"simulating {rows:,} records from the public domains of the schema; the source is not read")
    elif request.public:
        say("reading the public table; the source is not read")
        table = public_table(spec, request.public, work)
    else:
        table = source_table(
            spec, RELEASE_ID, spec.data_schema(), work, lambda kind, text: say(f"{kind}: {text}")
        )
    return sampled(spec, policy, origin, table, request, work)


def sampled(
    spec: "ReleaseSpec",
    policy: "ReleasePolicy",
    origin: Origin,
    table: Table | None,
    request: ExploreRequest,
    work: WorkArea,
) -> RecordsRef:
    """Sample the records of an ingested table for a grid, or simulate them.

    Args:
        spec: Specification of the release.
        policy: Policy combined with the floor policy.
        origin: Origin of the records, from `origin_of`.
        table: Table from `ingest`. None: records are simulated.
        request: Request with number, seed and target.
        work: Work area in which records are kept.

    Raises:
        SpecError: If a table is missing, or there is one that must not be read; and as
            `records_of_table` and `simulated_records`.
    """
    rows, target, seed = request.rows or SAMPLE, request.target, request.seed
    if (table is None) != (origin == "simulated"):
        raise SpecError(
            "differentially private methods are explored on simulated records, unless the table is declared "
            "public or the ledger books them; other methods need a table: add or remove it, or set public or "
            "book"
        )
    if table is None:
        return simulated_records(spec.method_schema(), policy, work, rows=rows, target=target, seed=seed)
    return records_of_table(table, policy, work, origin=origin, rows=rows, target=target, seed=seed)


def budget_of(spec: "ReleaseSpec", cells: Sequence[Choice], request: ExploreRequest) -> Budget:
    """Return the budget for exploring the source. Each choice is booked as it is made.

    Raises:
        SpecError: If the specification has no budget, or a method spends none.
        BudgetExceededError: If it does not cover all choices. Nothing was read or booked.
    """
    dataset, connection = budget_named(spec, request.rows)
    run = f"{spec.name}/{RELEASE_ID}"
    budget = Budget(dataset=dataset, run=run, ledger=default_ledger(), connection=connection)
    require_all_left(spec, cells, budget)
    return budget


def policy_to_explore(spec: "ReleaseSpec") -> "ReleasePolicy":
    """Return the policy of a specification's releases combined with the floor policy.

    Raises:
        SpecError: If the specification breaks a rule for every method.
    """
    facts, found = learned(spec, policy_of(spec, floor_policy()), sources_of(spec))
    # The method is not chosen yet, and nothing is released.
    facts = replace(facts, kind=UNKNOWN, method=UNKNOWN, approval=UNKNOWN)
    judged(facts).refuse(found)
    return facts.policy


def require_all_left(spec: "ReleaseSpec", cells: Iterable[Choice], budget: Budget) -> None:
    """Check whether all choices can be paid for, before anything is read. Nothing is booked.

    Raises:
        SpecError: If a method spends nothing.
        BudgetExceededError: If the budget does not cover them together.
    """
    schema = spec.method_schema()
    losses = []
    for cell in cells:
        releaser = build_method(cell.method, cell.parameters)
        loss = releaser.privacy_loss(schema)
        refuse(Facts(releaser=releaser, loss=loss, budget=True, promise_for=budget.promise))
        losses += [loss] if loss is not None else []
    require_left(budget, sum(losses[1:], losses[0]))
