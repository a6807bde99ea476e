"""What travels between the steps of a release: addresses, counts and hashes, never records."""

import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import Any, Literal, Self, TypeVar

from privacy_engine.errors import IntegrityError

# Fields of a reference that are paths in the work area of its run, and those that hold further references.
# Whatever a `SourceRef` names is elsewhere.
PATHS = frozenset(
    {"uri", "schema", "manifest", "report", "columns", "model", "source_schema", "scores", "aside"}
)
NESTED = frozenset(
    {
        *("persons", "holdout", "people", "plan", "account", "outliers", "made_from", "held_out", "table"),
        *("register", "numbered", "waiting"),
    }
)

T = TypeVar("T")
Origin = Literal["source", "public", "simulated", "booked"]

_SYMBOLS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "k_anonymity": ("k", int),
    "distinct_l_diversity": ("l", int),
    "t_closeness": ("t", float),
}


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What one step hands on to the next. Between tasks it travels as plain values, see `to_ref`.

    A field with a default may be absent from the plain values, and is where it has that default.
    """

    @classmethod
    def from_ref(cls, ref: "Mapping[str, Any] | Self") -> Self:
        """The reference that plain values stand for.

        Raises:
            IntegrityError: naming the fields that are missing or not known.
        """
        if isinstance(ref, cls):
            return ref
        if not isinstance(ref, Mapping):
            raise IntegrityError(f"a {cls.__name__} must be given as a mapping, got {type(ref).__name__}")
        kind = next((own for own in cls.__subclasses__() if own.needed() <= ref.keys()), cls)
        if wrong := sorted((kind.needed() - ref.keys()) | (ref.keys() - kind.known().keys())):
            raise IntegrityError(
                f"a {kind.__name__} has other fields than were given: {', '.join(map(str, wrong))}; hand on "
                "what the task before gave, unchanged"
            )
        hints = kind.known()
        return kind(**{name: read_as(hints[name], value) for name, value in ref.items()})

    def to_ref(self) -> dict[str, Any]:
        """The reference as plain values, of which JSON can be made."""
        return {
            field.name: plain(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) != _default(field)
        }

    @classmethod
    @cache
    def known(cls) -> dict[str, Any]:
        """The type of each field by its name."""
        return typing.get_type_hints(cls)

    @classmethod
    def needed(cls) -> set[str]:
        """The names of the fields without a default."""
        return {field.name for field in fields(cls) if _default(field) is MISSING}


def _like_a_dict(name: str) -> Callable[..., Any]:
    def method(self: Reference, *given: Any) -> Any:
        text = "A reference is no dict from 0.3 on: read its attributes, and write replace(it, rows=5)"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(self.to_ref(), name)(*given)

    return method


# As when references were dicts, for one version. Type checkers know nothing of it, and refuse it.
for _name in ("__getitem__", "__contains__", "__iter__", "get", "keys", "items", "values", "copy"):
    setattr(Reference, _name, _like_a_dict(_name))


def need(value: "T | None", name: str) -> "T":
    """A field of a reference that a step relies on.

    Args:
        value: Value of the field.
        name: Name of the field, for the error.

    Raises:
        IntegrityError: if it is absent.
    """
    if value is None:
        raise IntegrityError(f"a reference must have {name}, and has none; clear the run and start again")
    return value


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def read_as(hint: Any, value: Any) -> Any:
    """Plain values as a type says: references where it names them, in lists, dicts and options, too."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if value in (None, "") or not _names_references(hint):
        return value
    if isinstance(hint, type) and issubclass(hint, Reference):
        return hint.from_ref(value)
    if kind is dict:
        return {name: read_as(inner[1], item) for name, item in value.items()}
    if kind is list:
        return [read_as(inner[0], item) for item in value]
    if isinstance(value, Sequence):  # of an option that may be a list
        return [read_as(hint, item) for item in value]
    return read_as(
        next(own for own in inner if _names_references(own) and typing.get_origin(own) is not list), value
    )


def _names_references(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Reference):
        return True
    return any(_names_references(own) for own in typing.get_args(hint))


def plain(value: Any) -> Any:
    """References, and those in lists and dicts, as plain values; anything else as it is."""
    if isinstance(value, Reference):
        return value.to_ref()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


@dataclass(frozen=True, kw_only=True)
class ShiftRef(Reference):
    """Which dates were shifted, by at most how many days a person: a disguise, no guarantee.

    Attributes:
        scope: where a person's dates are shifted by the same number, and in which series.
        key: fingerprint of the key.
        promise: what it promises, in words.
    """

    columns: list[str]
    days: int
    scope: str
    series: str
    key: str
    promise: str


@dataclass(frozen=True, kw_only=True)
class TransformRef(Reference):
    """A step of the user's own after ingest.

    Attributes:
        code: sha256 of its code.
        before, rows: records that went in, and that came out.
        row_by_row: whether it is known that it made one record of each, by itself alone.
    """

    name: str
    code: str
    before: int
    rows: int
    row_by_row: bool


@dataclass(frozen=True, kw_only=True)
class SourceRef(Reference):
    """Where records came from.

    Attributes:
        files: how many.
        fingerprint: changes with the data.
        rows: in the source, dropped ones included.
        dropped: left out because of nulls.
        identifiers: columns that stayed in the source.
        text: in how many records what was found in text that the schema allows or redacts, by column and
            kind.
        derived: how each derived column was made, as the schema says it.
        tables: the same of each of several tables, which are read as one.
        query: sha256 of the text of the query that gave the records.
        guessed: true where types of columns were read off the values, because the database declares none.
        version: of the table that they are of.
        transforms: what was done with them since, in order.
        holdout: share of the people who were then left out of the release, so that attacks have a control.
        expectations: Number of expectations, of those that were evaluated, and of those that held.
        classification: sha256 of the classification that the columns were held against, where there is one.
        left_out: names of hidden and empty files of the folder, which were not read, where there are any.
        unchecked: how many of the files have no checksums of their pages, where there are any.
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
    """What one search for outliers found, and did: counts, and where the scores are in the work area.

    Attributes:
        records: that were examined.
        flagged: how many are outliers; `share` of the records.
        pruned: share of the records that needed no computation.
        threshold: scores above it are outliers; None where a number of them was asked for.
        removed: taken out of the table.
        scores: path of score and flags by position; `aside` of the removed records.
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
    """What a table is worked on with, see `privacy_release.workarea.engines`.

    Attributes:
        kind: `local` (the whole table in memory), `fragments` or `spark`.
        rows: most records of a fragment.
        memory: bytes that an aggregation may take.
        processes: that work on fragments at a time; None = one for each core, as far as memory goes.
        connection: Airflow connection id of the Spark session.
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
        key: which key the hashes are made with.
        form: which form of an identifier distinguishes persons, see `privacy_release.workarea.people`.
    """

    key: str
    form: str


@dataclass(frozen=True, kw_only=True)
class PersonsRef(KeyedRef):
    """Who the records of a table are about, in its order.

    Attributes:
        owners: the form of the identifiers of persons, where several records may be of one: the file
            identifies records then, and a person has the same number in every run.
    """

    owners: str | None = None


@dataclass(frozen=True, kw_only=True)
class NumberedRef(KeyedRef):
    """By what a person has the same number in every run; the file has texts that are not in their form."""


@dataclass(frozen=True, kw_only=True)
class Table(Reference):
    """A table in the work area; `schema` is the path of its schema, as JSON.

    Attributes:
        engine: of a table that no step may hold in memory as a whole; absent otherwise.
        numbered: by what a person has the same number in every run; absent where numbers are of one run.
        holdout: the records of the people who were left out of it, for attacks on what is made of it.
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


@dataclass(frozen=True, kw_only=True)
class PeopleRef(FileRef):
    """Whose record each released one is; `of` is the sha256 of these records."""

    of: str


@dataclass(frozen=True, kw_only=True)
class FragmentRef(Reference):
    """The records of one fragment in the work area, as they were ingested.

    Attributes:
        fragment: its number, from 0.
        plan: how the table was cut, and what is to be done with each fragment: `fragment_files.Cut`.
    """

    uri: str
    rows: int
    sha256: str
    fragment: int
    plan: FileRef


@dataclass(frozen=True, kw_only=True)
class FragmentReleaseRef(Reference):
    """The released records of one fragment in the work area.

    Attributes:
        fragment, plan: as of `FragmentRef`.
        account: what is known of them: `fragment_files.Account`.
        seconds: of the method.
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
        dataset: whose budget was spent.
        ledger: Airflow connection id.
        key: of the booking, see `privacy_release.budget.budget.booking_key`. It stays inside: it is a hash
            over the exact records, and whoever knows all of them but one could tell the last one by trying.
        entry_hash: of the ledger's entry that reserved the loss. It may be published: it covers the key, but
            also a random salt that stays in the ledger.
        model_sha256: of the model's text in the ledger.
        epsilon, delta, neighbours: what was booked.
        over_time: what its schedule promises, see `privacy_release.budget.participation.Schedule.to_dict`.
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
    """A release in the work area; `schema` is of the released columns.

    Attributes:
        seconds: of the method; of the sampling alone where the release is differentially private, for how
            long the rest took depends on the records.
        columns: path of what the released columns are made from, for the data dictionary.
        people: whose record each released one is, where the schema names a person, see
            `privacy_release.workarea.people`.
        source_schema: path of the schema of what was released, where it is followed who is in which class.
        earlier: versions of the release table that it was made together with, where that was asked.
        waiting: private file of who is held back, and for how many releases, where classes may be published
            again.
        booking, model, mechanisms: of a differentially private release: the ledger's entry, the path of the
            measured model, and what was spent on which attributes.
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
    booking: BookingRef | None = None
    model: str | None = None
    mechanisms: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class AlertRef(Reference):
    """A warning about a figure of a release that everybody may know, or about its privacy budget.

    Attributes:
        figure: its name, as in the manifest; or `budget`.
        text: for people.
        value: of the figure; of a budget, the epsilon that is left.
        limit: that it left, in the figure's own unit.
        median: of the earlier releases, where the limit goes by it, and `releases` how many there were.
    """

    figure: str
    text: str
    value: float
    limit: float
    median: float | None = None
    releases: int | None = None


@dataclass(frozen=True, kw_only=True)
class TrialRef(Reference):
    """What became of a rule about an attack.

    Attributes:
        rule: as text.
        bound: largest excess risk.
        shadows: how many shadow releases it learned from, where it did.
        outcomes: figures by what was attacked, for whoever decides; none of a differentially private release.
        published: figures that the manifest tells, where the rule says so; none of a private release.
    """

    rule: str
    attack: str
    bound: float
    passed: bool
    shadows: int | None = None
    outcomes: list[dict[str, Any]] | None = None
    published: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class AttackRef(Reference):
    """What the attacks found that a policy bounds; `curator` is the path of the private report on them.

    `sha256` is of the very bytes that were attacked.
    """

    sha256: str
    trials: list[TrialRef]
    curator: str


@dataclass(frozen=True, kw_only=True)
class ReportRef(Reference):
    """What verification found; `sha256` is of the very bytes that were read.

    Attributes:
        policy: what had to hold, that of the release and the floor policy together.
        floor_policy: its sha256, where the deployment sets one.
        persons: that the records are of, where several may be of one.
        unique_records: share of the records that are alone in the columns that are not sensitive, and in the
            sensitive ones.
        compared: versions of the release table that it was verified together with, where the policy asks so.
        alerts: warnings about figures, where the specification asks for them; they change no verdict.
        attacks: what was tried since, where the policy bounds attacks.
        register: Register of the population whose persons are kept with the release, where there is one.
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


@dataclass(frozen=True, kw_only=True)
class Published(Reference):
    """Where a release is, and the `alerts` about it.

    `statement` is the sha256 of what was signed about it, None where nothing was. `completed` is true if an
    interrupted attempt of the run had published other bytes, whose files this attempt signed. `left_out`
    names figures and pages that could not be made, and the class of the error.
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
    """What a choice is measured on, for any process that reaches the work area.

    Attributes:
        origin: whose records they are.
        made_from: what is released.
        held_out: records of the same population, that a classifier is asked about.
        schema: path of the file; policy: what a release must keep.
        target: that a classifier predicts; None: none does.
        source_rows: records that they were drawn from.
        smallest_count: counts below it are hidden.
        seed: of the random choices of the methods, and of what is drawn to measure them.
        table: of the source, where its budget pays for what is measured.
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
    """Where the figures of a choice are in the work area; it tells none of them.

    Attributes:
        name: of the choice.
        made: whether a release could be made.
    """

    name: str
    made: bool


def paths_inside(reference: Any) -> Iterator[tuple[str, str]]:
    """Field and path of each file in the work area that a reference, or a list of them, names."""
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
    """What verification measured for k, l and t, where the policy asks for them."""
    return symbols_of(report.findings)


def symbols_of(findings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The same from the findings alone, which a commit records."""
    measured = {}
    for finding in findings:
        symbol, number = _SYMBOLS.get(finding["rule"].partition("(")[0], ("", float))
        if symbol and finding["measured"] is not None:
            measured[symbol] = number(finding["measured"])
    return measured
