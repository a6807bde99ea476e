"""The facts about a release from any origin: a file, arguments of an operator, or a table."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from privacy_engine.vocabulary import PublishMode, ReleaseKind

if TYPE_CHECKING:
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.spec.classification import Classification
    from privacy_release.spec.floor import Floor

UNKNOWN: Final[Any] = object()


class FactOrigin(StrEnum):
    """The origin of a fact."""

    FILE = "file"
    POLICY = "policy"
    DEPLOYMENT = "deployment"
    CATALOGUE = "other release files"
    METHOD = "method"
    INGESTED = "ingested table"
    LAKE = "lake"
    LEDGER = "ledger"


@dataclass(frozen=True, kw_only=True)
class HistoryFacts:
    """How people are followed over releases. Values that are not given follow from the policy.

    Attributes:
        keep: Whether releases are made with the earlier ones, and not only verified against them.
        k: Smallest number of persons.
        m: Smallest number of distinct values, by sensitive attribute.
        departures, counterfeits, hold_back: Options for people who leave or arrive, as in a release file.
        accept_unjudged: Reason to publish after releases whose differences cannot be judged. None: there is
            none.
    """

    keep: bool = True
    k: int | None = None
    m: Mapping[str, int] | None = None
    departures: str | None = None
    counterfeits: float | None = None
    hold_back: int | None = None
    accept_unjudged: str | None = None


@dataclass(frozen=True, kw_only=True)
class Promised:
    """The promise of a schedule to each person, over all its releases.

    Attributes:
        regime: Name of the regime, as in `budget.promise`.
        opening: Whether the first release chooses what all later ones measure.
    """

    regime: str
    opening: bool = False

    @classmethod
    def of(cls, said: Any) -> "Promised | None":
        """Return the facts in a section of a file, or in the schedule that it describes."""
        if said is None:
            return None
        return cls(regime=said.regime, opening=getattr(said, "opening", None) is not None)

    @property
    def knows_people(self) -> bool:
        """Whether a person must be recognised in a later release."""
        return self.regime in ("participation", "arrivals")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A source as a file describes it.

    Attributes:
        place: Address, or text of the query.
        connection: Connection of a query. None otherwise.
        schema: Schema of the source.
        made: SQL and resulting schema of a step of the user's own. None if there is none.
    """

    place: str
    connection: str | None
    schema: "DataSchema"
    made: "tuple[str, DataSchema] | None"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts about a release. An unknown fact is `UNKNOWN`, and rules that need it are not judged.

    Attributes:
        columns: Name, role, kind and form of each column of the method's input, of all tables.
        read: The same by name for the columns read from one source, including identifiers.
        spanned: Quasi-identifiers that are generalized to intervals.
        described: Description of each of several tables in the file, by name. Empty for one table.
        sections: Names of the sections in the file.
        independent: Whether the file states that rows of a person are not to be linked.
        tables: Names of several tables that share the person. Empty for one table.
        person: Column that names the person of a row. None: rows are people.
        linked: Whether a pseudonym links the rows of a person.
        engine: Kind of the engine.
        transformed: Whether a step of the user's own makes the columns.
        register: Columns of the public register. None if there is none.
        register_identifier: Column that identifies the persons of the register. None if there is none.
        nulls: Treatment of records that have a null.
        outliers: Actions of the searches for outliers.
        kind: Kind of the release.
        method: Registry key of the method. For a structure file, of the method whose columns it has.
        parameters: Parameters of the method, as plain values.
        stated: Names of the parameters that the file states.
        budget: Whether a budget is to pay.
        promise: Promise of the schedule. None: each release is paid separately.
        history: How people are followed from release to release. None: they are not.
        identifier: Column by which people are followed.
        schedule: Whether there is a schedule.
        unfollowed: Columns that name people who are not recognised in later releases.
        alerts: Figures that have limits.
        alerts_of_budget: Whether the remaining budget has limits, too.
        publish_mode: Releases that the table keeps.
        approval: Whether the file requires an approval.
        policy: Policy of the release, including the floor policy.
        own_policy: Policy without the floor policy, and the place that names it.
        floor: Floor policy. None if there is none.
        signed: Whether the release is going to be signed.
        addresses: Addresses of the files that are read.
        classes: Classification of the deployment. None if there is none.
        declared: Sources that the classification applies to.
        users: Users who may approve.
        assigned: Users who are assigned to approve.
        evidence: Whether signed evidence of the release is kept.
        published: Assets that other files publish.
        upstream: Assets that the schedule waits for.
        schema: Schema of the method's input, with its hierarchies.
        releaser: Release method, built with its parameters.
        loss: Privacy loss of a release. None if it claims no loss.
        promise_for: Function that returns the promise that a loss is booked under. None: no budget pays.
        dropped: Number of records omitted by ingest because of nulls.
        guessed: Whether column types were inferred from the values of a query.
        looking: Steps that read more than one record at a time.
        followed: Whether the table has the persons for a comparison with earlier releases.
        numbered: Whether a person has the same number in every run.
        kept_types: Types of the columns of the release table by name. Empty if there is no table yet.
        made_types: Types of the columns of the coming release by name, as far as they are known.
        earlier: Problem that verification will find with the earlier releases. None: no problem.
        unjudged: Number of earlier releases of the table that were made before differences could be judged. 0
            if the policy does not require that.
        shortage: Reason why the ledger cannot pay for the release now. None: it can, or no ledger is used.
        restored: Whether the ledger lacks entries that paid for releases of the table.
    """

    columns: Sequence[tuple[str, Any]] = UNKNOWN
    read: Mapping[str, Any] = UNKNOWN
    spanned: Sequence[str] = UNKNOWN
    described: Mapping[str, Any] = UNKNOWN
    sections: Collection[str] = UNKNOWN
    independent: bool = UNKNOWN
    tables: Sequence[str] = UNKNOWN
    person: str | None = UNKNOWN
    linked: bool = UNKNOWN
    engine: str = UNKNOWN
    transformed: bool = UNKNOWN
    register: Sequence[str] | None = UNKNOWN
    register_identifier: str | None = UNKNOWN
    nulls: str = UNKNOWN
    outliers: Sequence[str] = UNKNOWN
    kind: ReleaseKind | None = UNKNOWN
    method: str = UNKNOWN
    parameters: Mapping[str, Any] = UNKNOWN
    stated: Collection[str] = UNKNOWN
    budget: bool = UNKNOWN
    promise: Promised | None = UNKNOWN
    history: HistoryFacts | None = UNKNOWN
    identifier: str | None = UNKNOWN
    schedule: bool = UNKNOWN
    unfollowed: Sequence[str] = UNKNOWN
    alerts: Sequence[str] = UNKNOWN
    alerts_of_budget: bool = UNKNOWN
    publish_mode: PublishMode = UNKNOWN
    approval: bool = UNKNOWN
    policy: "ReleasePolicy" = UNKNOWN
    own_policy: "tuple[ReleasePolicy, str]" = UNKNOWN
    floor: "Floor | None" = UNKNOWN
    signed: bool = UNKNOWN
    addresses: Sequence[str] = UNKNOWN
    classes: "Classification | None" = UNKNOWN
    declared: "Sequence[Declared]" = UNKNOWN
    users: frozenset[str] = UNKNOWN
    assigned: Sequence[str] = UNKNOWN
    evidence: bool = UNKNOWN
    published: frozenset[str] = UNKNOWN
    upstream: Sequence[str] = UNKNOWN
    schema: "DataSchema" = UNKNOWN
    releaser: "ReleaseMethod" = UNKNOWN
    loss: "PrivacyLoss | None" = UNKNOWN
    promise_for: "Callable[[PrivacyLoss], object] | None" = UNKNOWN
    dropped: int = UNKNOWN
    guessed: bool = UNKNOWN
    looking: Sequence[str] = UNKNOWN
    followed: bool = UNKNOWN
    numbered: bool = UNKNOWN
    kept_types: Mapping[str, str] = UNKNOWN
    made_types: Mapping[str, str] = UNKNOWN
    earlier: str | None = UNKNOWN
    unjudged: int = UNKNOWN
    shortage: str | None = UNKNOWN
    restored: bool = UNKNOWN

    def knows(self, name: str) -> bool:
        """Return whether a fact is known."""
        return getattr(self, name) is not UNKNOWN

    def missing(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the unknown facts."""
        return tuple(name for name in names if not self.knows(name))


NAMES = tuple(field.name for field in fields(Facts))
_OTHER = {
    FactOrigin.POLICY: ("policy", "own_policy", "floor"),
    FactOrigin.DEPLOYMENT: ("signed", "users", "classes"),
    FactOrigin.CATALOGUE: ("published",),
    FactOrigin.METHOD: ("schema", "releaser", "loss"),
    FactOrigin.INGESTED: ("dropped", "guessed", "looking", "followed", "numbered", "made_types"),
    FactOrigin.LAKE: ("kept_types", "earlier", "unjudged"),
    FactOrigin.LEDGER: ("shortage", "restored"),
}
_GROUPS = {name: group for group, names in _OTHER.items() for name in names}


def group_of(name: str) -> FactOrigin:
    """Return the origin of a fact."""
    return _GROUPS.get(name, FactOrigin.FILE)
