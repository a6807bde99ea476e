"""What is known of a release, wherever it comes from: a file, arguments of an operator, or a table."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from privacy_engine.vocabulary import PublishMode

if TYPE_CHECKING:
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.spec.classification import Classification
    from privacy_release.spec.floor import Floor

UNKNOWN: Final[Any] = object()


class Group(StrEnum):
    """Whose word a fact is."""

    FILE = "file"
    POLICY = "policy"
    DEPLOYMENT = "deployment"
    CATALOGUE = "other release files"
    METHOD = "method"
    INGESTED = "ingested table"
    LAKE = "lake"
    LEDGER = "ledger"


@dataclass(frozen=True, kw_only=True)
class History:
    """How people are followed over releases; what is not said follows from the policy.

    Attributes:
        keep: whether releases are made with the earlier ones, and not only judged with them.
        k: Least number of persons.
        m: by sensitive attribute.
        departures, counterfeits, hold_back: As of a release file.
        accept_unjudged: Reason to publish after releases whose differences cannot be judged; None: none.
    """

    keep: bool = True
    k: int | None = None
    m: Mapping[str, int] | None = None
    departures: str | None = None
    counterfeits: float | None = None
    hold_back: int | None = None
    accept_unjudged: str | None = None


@dataclass(frozen=True, kw_only=True)
class OverTime:
    """What all releases of a schedule promise together.

    Attributes:
        regime: as of `budget.promise`.
        opening: whether the first release chooses what all later ones measure.
    """

    regime: str
    opening: bool = False

    @classmethod
    def of(cls, said: Any) -> "OverTime | None":
        """What the section of a file, or the schedule that it stands for, says."""
        if said is None:
            return None
        return cls(regime=said.regime, opening=getattr(said, "opening", None) is not None)

    @property
    def knows_people(self) -> bool:
        """Whether a person must be known again in a later release."""
        return self.regime in ("participation", "arrivals")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A source, as a file describes it.

    Attributes:
        place: its address, or the query.
        connection: of a query; else None.
        schema: of it.
        made: what a step of one's own makes of it, SQL and schema; None: there is none.
    """

    place: str
    connection: str | None
    schema: "DataSchema"
    made: "tuple[str, DataSchema] | None"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a release; a fact that is not known is `UNKNOWN`, and no rule that needs it is judged.

    Attributes:
        columns: name and role, kind and form of each column that the method is given, of all tables.
        read: the same by name of what is read from one source, identifiers among them.
        spanned: quasi-identifiers that are generalized to intervals.
        described: what the file says of each of several tables, by name; empty where there is one.
        sections: names of the sections of the file that are given.
        independent: whether the file says that rows of a person are not to be linked.
        tables: names of several tables that share the person; empty where there is one.
        person: the column that names the person of a row; None: rows are people.
        linked: whether a pseudonym links the rows of a person.
        engine: kind of the engine.
        transformed: whether a step of one's own makes the columns.
        register: columns of the public register; None: there is none.
        register_identifier: Column that identifies the persons of the register; None: there is none.
        nulls: what is done with records that have a null.
        outliers: actions of the searches for outliers.
        method: registry key.
        parameters: of the method, plain values.
        stated: names of those that the file gives.
        budget: whether a budget is to pay.
        over_time: None: each release is paid by itself.
        history: None: nobody is followed from release to release.
        identifier: column by which people are followed.
        schedule: whether there is one.
        unfollowed: columns that name people of whom nothing is known in a later release.
        alerts: figures that have limits.
        alerts_of_budget: whether what is left of the budget has some, too.
        publish_mode: which releases the table holds.
        approval: whether the file asks for one.
        policy: what must hold, the floor policy included.
        own_policy: the same without the floor policy, and the place that names it.
        floor: None: there is none.
        signed: whether the release is going to be signed.
        addresses: of files that are read.
        classes: the classification; None: there is none.
        declared: sources that it is about.
        users: who may be asked.
        assigned: who is asked.
        evidence: Whether signed evidence of the release is kept.
        published: assets that other files publish.
        upstream: assets that the schedule waits for.
        schema: of what the method is given, with its hierarchies.
        releaser: the method, built.
        loss: of a release; None: it claims none.
        promise: what a release of a loss is booked under; None: no budget pays.
        dropped: records that ingest left out for nulls.
        guessed: whether types of columns were read off the values of a query.
        looking: steps that looked at more than one record.
        followed: whether the table tells who is in earlier releases.
        numbered: whether a person has the same number in every run.
        kept_types: Types of the columns of the release table by name; empty if there is no table yet.
        made_types: Types of the columns of the coming release by name, as far as they are known.
        earlier: what verification will say of the earlier releases of the table; None: nothing against it.
        unjudged: Number of earlier releases of the table that were made before differences could be judged; 0
            where the policy does not ask.
        shortage: why the ledger cannot pay for the release now; None: it can, or nobody asks it.
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
    method: str = UNKNOWN
    parameters: Mapping[str, Any] = UNKNOWN
    stated: Collection[str] = UNKNOWN
    budget: bool = UNKNOWN
    over_time: OverTime | None = UNKNOWN
    history: History | None = UNKNOWN
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
    promise: "Callable[[PrivacyLoss], object] | None" = UNKNOWN
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
        """Whether a fact is known."""
        return getattr(self, name) is not UNKNOWN

    def missing(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the facts that are not known."""
        return tuple(name for name in names if not self.knows(name))


NAMES = tuple(field.name for field in fields(Facts))
_OTHER = {
    Group.POLICY: ("policy", "own_policy", "floor"),
    Group.DEPLOYMENT: ("signed", "users", "classes"),
    Group.CATALOGUE: ("published",),
    Group.METHOD: ("schema", "releaser", "loss"),
    Group.INGESTED: ("dropped", "guessed", "looking", "followed", "numbered", "made_types"),
    Group.LAKE: ("kept_types", "earlier", "unjudged"),
    Group.LEDGER: ("shortage", "restored"),
}
_GROUPS = {name: group for group, names in _OTHER.items() for name in names}


def group_of(name: str) -> Group:
    """Whose word a fact is."""
    return _GROUPS.get(name, Group.FILE)
