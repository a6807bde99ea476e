"""References that the steps of a release exchange: addresses, counts and hashes, never records."""

import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import Any, Literal, Self, TypeVar

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import IntegrityError, SpecError

# Fields of a reference that are paths in the work area of its run, and those that contain further references.
# All paths in a `SourceRef` are outside of the work area.
PATHS = frozenset(
    {"uri", "schema", "manifest", "report", "columns", "model", "source_schema", "scores", "aside"}
)
NESTED = frozenset(
    {
        *("persons", "holdout", "people", "plan", "account", "outliers", "made_from", "held_out", "table"),
        *("register", "numbered", "waiting", "regions", "past"),
    }
)

SUPPRESSED = "suppress"  # action on outliers, see `privacy_release.spec.outliers.Action`

T = TypeVar("T")
Origin = Literal["source", "public", "simulated", "booked"]

_SYMBOLS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "k_anonymity": ("k", int),
    "distinct_l_diversity": ("l", int),
    "t_closeness": ("t", float),
}


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The result that one step passes to the next. Between tasks it is plain values, see `to_ref`.

    A field may be missing in the plain values if it has its default.
    """

    @classmethod
    def from_ref(cls, ref: "Mapping[str, Any] | Self") -> Self:
        """Build a reference from plain values.

        Raises:
            IntegrityError: Naming the fields that are missing or unknown.
        """
        if isinstance(ref, cls):
            return ref
        if not isinstance(ref, Mapping):
            raise IntegrityError(f"a {cls.__name__} must be given as a mapping, got {type(ref).__name__}")
        kind = next((own for own in cls.__subclasses__() if own.needed() <= ref.keys()), cls)
        if wrong := sorted((kind.needed() - ref.keys()) | (ref.keys() - kind.known().keys())):
            raise IntegrityError(
                f"a {kind.__name__} has other fields than were given: {', '.join(map(str, wrong))}; pass on "
                "the result of the earlier task unchanged"
            )
        hints = kind.known()
        return kind(**{name: read_as(hints[name], value) for name, value in ref.items()})

    def to_ref(self) -> dict[str, Any]:
        """Return the reference as plain values that JSON can represent."""
        return {
            field.name: plain(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) != _default(field)
        }

    @classmethod
    @cache
    def known(cls) -> dict[str, Any]:
        """Return the type of each field, by name."""
        return typing.get_type_hints(cls)

    @classmethod
    def needed(cls) -> set[str]:
        """Return the names of the fields without a default."""
        return {field.name for field in fields(cls) if _default(field) is MISSING}


def _like_a_dict(name: str) -> Callable[..., Any]:
    def method(self: Reference, *given: Any) -> Any:
        text = "A reference is no dict from 0.3 on: read its attributes, and write replace(it, rows=5)"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(self.to_ref(), name)(*given)

    return method


# For one version, references can be used like the earlier dicts. Type checkers refuse it.
for _name in ("__getitem__", "__contains__", "__iter__", "get", "keys", "items", "values", "copy"):
    setattr(Reference, _name, _like_a_dict(_name))


def need(value: "T | None", name: str) -> "T":
    """Return a field of a reference that a step relies on.

    Args:
        value: Value of the field.
        name: Name of the field, for the error.

    Raises:
        IntegrityError: If the value is None.
    """
    if value is None:
        raise IntegrityError(f"a reference must have {name}, but it has none; clear the run and start again")
    return value


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def read_as(hint: Any, value: Any) -> Any:
    """Convert plain values to a type, including references in lists, dicts and optional fields."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if value in (None, "") or not _names_references(hint):
        return value
    if isinstance(hint, type) and issubclass(hint, Reference):
        return hint.from_ref(value)
    if kind is dict:
        return {name: read_as(inner[1], item) for name, item in value.items()}
    if kind is list:
        return [read_as(inner[0], item) for item in value]
    if isinstance(value, Sequence):  # for a union that may be a list
        return [read_as(hint, item) for item in value]
    return read_as(
        next(own for own in inner if _names_references(own) and typing.get_origin(own) is not list), value
    )


def _names_references(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Reference):
        return True
    return any(_names_references(own) for own in typing.get_args(hint))


def plain(value: Any) -> Any:
    """Convert references, and those in lists and dicts, to plain values. Other values are unchanged."""
    if isinstance(value, Reference):
        return value.to_ref()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


@dataclass(frozen=True, kw_only=True)
class ShiftRef(Reference):
    """The shift of dates, by at most a number of days per person: a disguise, not a guarantee.

    Attributes:
        scope: Scope in which a person's dates are shifted by the same number of days, and its series.
        key: Fingerprint of the key.
        promise: Promise of the shift, in words.
    """

    columns: list[str]
    days: int
    scope: str
    series: str
    key: str
    promise: str


@dataclass(frozen=True, kw_only=True)
class TransformRef(Reference):
    """A step of the user's own code after ingest.

    Attributes:
        code: SHA-256 of the code.
        before, rows: Numbers of records before and after the step.
        row_by_row: Whether it is known that each record was made from one record, independently of others.
    """

    name: str
    code: str
    before: int
    rows: int
    row_by_row: bool


@dataclass(frozen=True, kw_only=True)
class SourceRef(Reference):
    """The origin of records.

    Attributes:
        files: Number of files.
        fingerprint: Hash that changes with the data.
        rows: Number of records in the source, including dropped ones.
        dropped: Number of records omitted because of nulls.
        identifiers: Columns that stayed in the source.
        text: Number of records with findings in text that the schema allows or redacts, by column and kind.
        derived: Derivation of each derived column, as in the schema.
        tables: Origin of each of several tables that are read as one.
        query: SHA-256 of the text of the query that gave the records.
        guessed: Whether column types were inferred from the values, because the database declares none.
        version: Version of the source table.
        transforms: Transformations of the records since, in order.
        holdout: Share of the people who were then held out as the control group of attacks.
        expectations: Numbers of expectations: defined, evaluated and met.
        classification: SHA-256 of the classification that the columns were checked against, if there is one.
        left_out: Names of hidden and empty files of the folder, which were not read.
        unchecked: Number of files whose pages have no checksums.
    """

    uri: str
    files: int
    fingerprint: str
    rows: int
    dropped: int
    identifiers: list[str]
    text: dict[str, dict[str, int]] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    shifted: ShiftRef | None = None
    tables: "dict[str, SourceRef]" = field(default_factory=dict)
    query: str | None = None
    guessed: bool = False
    version: int | None = None
    transforms: list[TransformRef] = field(default_factory=list)
    holdout: float | None = None
    expectations: dict[str, int] | None = None
    classification: str | None = None
    left_out: list[str] = field(default_factory=list)
    unchecked: int = 0


@dataclass(frozen=True, kw_only=True)
class OutlierRef(Reference):
    """The result of one search for outliers: counts, and the location of the scores in the work area.

    Attributes:
        records: Number of examined records.
        flagged: Number of outliers.
        share: Share of outliers among the records.
        pruned: Share of the records that needed no computation.
        threshold: Score above which records are outliers. None if a number of outliers was requested.
        removed: Number of records removed from the table.
        scores: Path of score and flags by position.
        aside: Path of the removed records.
    """

    method: str
    action: str
    records: int
    flagged: int
    share: float
    pruned: float
    threshold: float | None
    removed: int
    scores: str
    aside: str | None = None


@dataclass(frozen=True, kw_only=True)
class EngineRef(Reference):
    """The engine of a table, see `privacy_release.workarea.engines`.

    Attributes:
        kind: `local` (the whole table in memory), `fragments` or `spark`.
        rows: Largest number of records in a fragment.
        memory: Bytes that an aggregation may use.
        processes: Number of processes that work on fragments. None: one per core, as far as memory allows.
        connection: Airflow connection ID of the Spark session.
    """

    kind: str
    rows: int
    memory: int
    processes: int | None
    connection: str


@dataclass(frozen=True, kw_only=True)
class FileRef(Reference):
    """A private file in the work area."""

    uri: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class KeyedRef(FileRef):
    """A private file of keyed hashes of identifiers.

    Attributes:
        key: ID of the key of the hashes.
        form: Form of an identifier that distinguishes persons, see `privacy_release.workarea.people`.
    """

    key: str
    form: str


@dataclass(frozen=True, kw_only=True)
class PersonsRef(KeyedRef):
    """The persons of a table's records, in order.

    Attributes:
        owners: Form of the identifiers of persons, if persons may have several records. The file then
            identifies records, and a person has the same number in every run.
    """

    owners: str | None = None

    @property
    def may_have_several_records(self) -> bool:
        """Whether a person may have several records, so that the file identifies records."""
        return self.owners is not None


@dataclass(frozen=True, kw_only=True)
class NumberedRef(KeyedRef):
    """The numbering of persons that is the same in every run, as a file of texts not in their normal form."""


@dataclass(frozen=True, kw_only=True)
class Table(Reference):
    """A table in the work area. `schema` is the path of its schema, as JSON.

    Attributes:
        engine: Engine of a table that no step may hold in memory as a whole. Otherwise absent.
        numbered: Numbering of persons that is the same in every run. Absent if numbers are of one run.
        holdout: Records of the people who were held out, for attacks on the release.
    """

    uri: str
    rows: int
    sha256: str
    schema: str
    source: SourceRef
    outliers: list[OutlierRef] = field(default_factory=list)
    persons: PersonsRef | None = None
    engine: EngineRef | None = None
    numbered: NumberedRef | None = None
    holdout: FileRef | None = None

    @property
    def is_in_fragments(self) -> bool:
        """Whether an engine works on the table in parts, because no step may hold it in memory as a whole."""
        return self.engine is not None

    @property
    def follows_people(self) -> bool:
        """Whether the person of each record is kept, so that releases can be compared by person."""
        return self.persons is not None

    @property
    def numbers_people(self) -> bool:
        """Whether a person has the same number in every run."""
        followed = self.persons is not None and self.persons.may_have_several_records
        return followed or self.numbered is not None

    @property
    def working_engine(self) -> EngineRef:
        """The engine that works on the table in parts.

        Raises:
            IntegrityError: If there is none.
        """
        return need(self.engine, "engine")

    @property
    def followed_persons(self) -> PersonsRef:
        """The persons of the records.

        Raises:
            IntegrityError: If people are not followed.
        """
        return need(self.persons, "persons")

    @property
    def suppressed(self) -> int:
        """Number of outliers that count as suppressed, which the release method is not given."""
        return sum(found.removed for found in self.outliers if found.action == SUPPRESSED)

    @property
    def rows_with_suppressed(self) -> int:
        """Number of records that the release stands for: those of the table, and the suppressed ones."""
        return self.rows + self.suppressed

    @property
    def held_out(self) -> FileRef:
        """The records of the people who were held out.

        Raises:
            SpecError: If no one was held out.
        """
        if self.holdout is None:
            raise SpecError(
                "attacks need people who were held out of the release, but no one was; hold them out before "
                "the release is made"
            )
        return self.holdout


@dataclass(frozen=True, kw_only=True)
class PeopleRef(FileRef):
    """The person of each released record. `of` is the SHA-256 of these records."""

    of: str


@dataclass(frozen=True, kw_only=True)
class FragmentRef(Reference):
    """The ingested records of one fragment in the work area.

    Attributes:
        fragment: Number of the fragment, from 0.
        plan: File of the cut and the release method: `fragment_files.Cut`.
        past: File of its part of the earlier releases, if people are followed and there are any.
    """

    uri: str
    rows: int
    sha256: str
    fragment: int
    plan: FileRef
    past: FileRef | None = None


@dataclass(frozen=True, kw_only=True)
class FragmentReleaseRef(Reference):
    """The released records of one fragment in the work area.

    Attributes:
        fragment, plan: Number of the fragment and file of the cut, as in `FragmentRef`.
        account: File of facts about them: `fragment_files.Account`.
        seconds: Duration of the method in seconds.
    """

    uri: str
    rows: int
    sha256: str
    fragment: int
    plan: FileRef
    account: FileRef
    seconds: float


@dataclass(frozen=True, kw_only=True)
class BookingRef(Reference):
    """The entry of a budget ledger that covers a differentially private release.

    Attributes:
        dataset: Data set whose budget was spent.
        ledger: Airflow connection ID of the ledger.
        key: Key of the booking, see `privacy_release.budget.budget.booking_key`. It must not be published: it
            is a hash of the exact records, so anyone who knows all but one could find the last by trying.
        entry_hash: Hash of the ledger's entry that reserved the loss. It may be published: it covers the key,
            but also a random salt that stays in the ledger.
        model_sha256: SHA-256 of the model's text in the ledger.
        epsilon, delta, neighbours: Booked privacy loss and its neighbour relation.
        over_time: Promise of its schedule, see `privacy_release.budget.participation.Schedule.to_dict`.
    """

    dataset: str
    ledger: str
    key: str
    entry_hash: str
    model_sha256: str
    epsilon: float
    delta: float
    neighbours: str
    over_time: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class StagedRelease(Table):
    """A release in the work area. `schema` describes the released columns.

    Attributes:
        seconds: Duration of the method in seconds. For a differentially private release only of the sampling,
            because the duration of the rest depends on the records.
        columns: Path of the origins of the released columns, for the data dictionary.
        people: Person of each released record, if the schema names a person, see
            `privacy_release.workarea.people`.
        source_schema: Path of the schema of the released table, if memberships are recorded.
        earlier: Versions of the release table that it was made with, if that was required.
        waiting: Private file of held-back persons and the number of releases they have waited, if classes
            may be published again.
        regions: Private file of the region of each record's person, if people are followed in fragments.
        booking, model, mechanisms: Entry of the ledger, path of the measured model, and loss spent on which
            attributes, for a differentially private release.
    """

    manifest: str
    report: str
    method: str
    guarantees: list[dict[str, Any]]
    loss: dict[str, Any] | None
    figures: dict[str, float]
    seconds: float
    columns: str | None = None
    people: PeopleRef | None = None
    source_schema: str | None = None
    earlier: list[int] | None = None
    waiting: FileRef | None = None
    regions: FileRef | None = None
    booking: BookingRef | None = None
    model: str | None = None
    mechanisms: list[dict[str, Any]] = field(default_factory=list)

    @property
    def claims_loss(self) -> bool:
        """Whether the release claims a privacy loss. Its exact figures then describe the source."""
        return self.loss is not None

    @property
    def privacy_loss(self) -> PrivacyLoss | None:
        """The privacy loss that the release claims. None if it claims none."""
        return PrivacyLoss(**self.loss) if self.loss else None

    @property
    def loss_figures(self) -> dict[str, float]:
        """The claimed epsilon, by name. Empty if the release claims no privacy loss."""
        return {"epsilon": float(self.loss["epsilon"])} if self.loss else {}

    @property
    def is_synthetic(self) -> bool:
        """Whether the records were drawn from a differentially private model."""
        return self.model is not None and self.claims_loss

    @property
    def public_figures(self) -> dict[str, float]:
        """The figures that may be shown and compared. Empty if the release claims a privacy loss."""
        return {} if self.claims_loss else self.figures

    def unseen(self, versions: Iterable[int]) -> set[int]:
        """Return the versions that are not among those that the release was made with.

        Empty for a release that did not have to be made with earlier ones.
        """
        return set() if self.earlier is None else set(versions) - set(self.earlier)


@dataclass(frozen=True, kw_only=True)
class AlertRef(Reference):
    """A warning about a public figure of a release, or about its privacy budget.

    Attributes:
        figure: Name of the figure, as in the manifest; or `budget`.
        text: Warning in words.
        value: Value of the figure. For a budget, the epsilon that is left.
        limit: Limit that it exceeded, in the figure's unit.
        median: Median of the earlier releases, if the limit is relative to it.
        releases: Number of earlier releases behind the median.
    """

    figure: str
    text: str
    value: float
    limit: float
    median: float | None = None
    releases: int | None = None


@dataclass(frozen=True, kw_only=True)
class TrialRef(Reference):
    """The result of a rule about an attack.

    Attributes:
        rule: Rule as text.
        bound: Largest allowed excess risk.
        shadows: Number of shadow releases that the attack learned from, if it used any.
        outcomes: Figures by attacked subject, for the reviewer. None for a differentially private release.
        published: Figures in the manifest, if the rule publishes them. None for a private release.
    """

    rule: str
    attack: str
    bound: float
    passed: bool
    shadows: int | None = None
    outcomes: list[dict[str, Any]] | None = None
    published: dict[str, Any] | None = None

    @property
    def publishes_figures(self) -> bool:
        """Whether the manifest contains figures of the attack."""
        return self.published is not None

    @property
    def published_outcomes(self) -> list[dict[str, Any]]:
        """The figures in the manifest, by attacked subject. Empty if it contains none."""
        return self.published["outcomes"] if self.published else []

    @property
    def shown_outcomes(self) -> list[dict[str, Any]]:
        """The figures for the reviewer, by attacked subject. Empty if they are the curator's only."""
        return self.outcomes or []


@dataclass(frozen=True, kw_only=True)
class AttackRef(Reference):
    """The results of the attacks that a policy bounds. `curator` is the path of the private report.

    `sha256` is the SHA-256 of the attacked bytes.
    """

    sha256: str
    trials: list[TrialRef]
    curator: str


@dataclass(frozen=True, kw_only=True)
class ReportRef(Reference):
    """The result of the verification. `sha256` is the SHA-256 of the verified bytes.

    Attributes:
        policy: Policy that had to hold, the release's policy combined with the floor policy.
        floor_policy: SHA-256 of the floor policy, if the deployment sets one.
        persons: Number of persons in the records, if persons may have several.
        unique_records: Shares of unique records, by the columns that are not sensitive and by the sensitive
            ones.
        compared: Versions of the release table that it was compared with, if the policy requires that.
        alerts: Warnings about figures, if the specification defines alerts. They do not affect the verdict.
        attacks: Attacks that were tried since, if the policy bounds attacks.
        register: Register of the population whose persons are kept with the release, if there is one.
    """

    passed: bool
    sha256: str
    rows: int
    classes: int
    findings: list[dict[str, Any]]
    policy: dict[str, Any]
    floor_policy: dict[str, str] | None = None
    persons: int | None = None
    unique_records: dict[str, float] | None = None
    compared: list[int] | None = None
    alerts: list[AlertRef] = field(default_factory=list)
    attacks: AttackRef | None = None
    register: Table | None = None

    @property
    def was_compared(self) -> bool:
        """Whether the release was compared with the earlier ones of its table, or is the first."""
        return self.compared is not None

    def unseen(self, versions: Iterable[int]) -> set[int]:
        """Return the versions that the release was not compared with. Empty if no comparison is required."""
        return set() if self.compared is None else set(versions) - set(self.compared)

    @property
    def trials(self) -> list[TrialRef]:
        """The results of the attacks that were tried. Empty if none was."""
        return [] if self.attacks is None else self.attacks.trials


@dataclass(frozen=True, kw_only=True)
class Published(Reference):
    """The location of a published release, and the `alerts` about it.

    `statement` is the SHA-256 of the signed statement, None if it is not signed. `completed` is true if an
    interrupted attempt of the run had published other bytes, whose files this attempt signed. `left_out`
    lists figures and pages that could not be made, with the class of the error.
    """

    release: str
    table: str
    lake: str
    version: int
    already: bool
    manifest: str
    report: str
    rows: int
    statement: str | None = None
    completed: bool = False
    alerts: list[AlertRef] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RecordsFileRef(FileRef):
    """A Parquet file in the work area."""

    rows: int


@dataclass(frozen=True, kw_only=True)
class RecordsRef(Reference):
    """The records on which choices are measured, for any process that reaches the work area.

    Attributes:
        origin: Origin of the records.
        made_from: File of the records to release.
        held_out: File of other records of the same population, to test a classifier.
        schema: Path of the schema.
        policy: Policy that a release must meet.
        target: Attribute that a classifier predicts. None: no classifier is trained.
        source_rows: Number of records that they were drawn from.
        smallest_count: Smallest count that is shown.
        seed: Seed of the methods' random choices, and of drawings for their measurement.
        table: Table of the source, if its budget pays for the measurement.
    """

    origin: Origin
    made_from: RecordsFileRef
    held_out: RecordsFileRef
    schema: str
    policy: dict[str, Any]
    target: str | None
    source_rows: int
    smallest_count: int
    seed: int
    table: Table | None


@dataclass(frozen=True, kw_only=True)
class MeasuredRef(FileRef):
    """The file of a choice's figures in the work area. The reference contains no figure.

    Attributes:
        name: Name of the choice.
        made: Whether a release could be made.
    """

    name: str
    made: bool


def paths_inside(reference: Any) -> Iterator[tuple[str, str]]:
    """Yield field and path of each file of the work area that a reference, or a list of them, names."""
    if isinstance(reference, Mapping):
        for name, item in reference.items():
            if name in PATHS:
                yield name, str(item)
            elif name in NESTED and not isinstance(item, int):
                yield from paths_inside(item)
    elif isinstance(reference, Sequence) and not isinstance(reference, str | bytes):
        for item in reference:
            yield from paths_inside(item)


def measured_symbols(report: ReportRef) -> dict[str, float]:
    """Return the measured k, l and t of a report, as far as the policy requires them."""
    return symbols_of(report.findings)


def symbols_of(findings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the measured k, l and t from the findings, which a commit records."""
    measured = {}
    for finding in findings:
        symbol, number = _SYMBOLS.get(finding["rule"].partition("(")[0], ("", float))
        if symbol and finding["measured"] is not None:
            measured[symbol] = number(finding["measured"])
    return measured
