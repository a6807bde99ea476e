"""What travels between the steps of a release: addresses, counts and hashes, never records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

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

_SYMBOLS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "k_anonymity": ("k", int),
    "distinct_l_diversity": ("l", int),
    "t_closeness": ("t", float),
}


class ShiftRef(TypedDict):
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


class TransformRef(TypedDict):
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


class SourceRef(TypedDict):
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
    text: NotRequired[dict[str, dict[str, int]]]
    derived: NotRequired[dict[str, Any]]
    shifted: NotRequired[ShiftRef]
    tables: "NotRequired[dict[str, SourceRef]]"
    query: NotRequired[str]
    guessed: NotRequired[bool]
    version: NotRequired[int]
    transforms: NotRequired[list[TransformRef]]
    holdout: NotRequired[float]
    expectations: NotRequired[dict[str, int]]
    classification: NotRequired[str]
    left_out: NotRequired[list[str]]
    unchecked: NotRequired[int]


class OutlierRef(TypedDict):
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
    aside: NotRequired[str]


class EngineRef(TypedDict):
    """What a table is worked on with, see `privacy_release.work.engines`.

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


class FileRef(TypedDict):
    """A private file in the work area."""

    uri: str
    sha256: str


class KeyedRef(FileRef):
    """A private file of keyed hashes of identifiers.

    Attributes:
        key: which key the hashes are made with.
        form: which form of an identifier distinguishes persons, see `privacy_release.work.people`.
    """

    key: str
    form: str


class PersonsRef(KeyedRef):
    """Who the records of a table are about, in its order.

    Attributes:
        owners: the form of the identifiers of persons, where several records may be of one: the file
            identifies records then, and a person has the same number in every run.
    """

    owners: NotRequired[str]


class NumberedRef(KeyedRef):
    """By what a person has the same number in every run; the file has texts that are not in their form."""


class TableRef(TypedDict):
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
    outliers: NotRequired[list[OutlierRef]]
    persons: NotRequired[PersonsRef]
    engine: NotRequired[EngineRef]
    numbered: NotRequired[NumberedRef]
    holdout: NotRequired[FileRef]


class PeopleRef(FileRef):
    """Whose record each released one is; `of` is the sha256 of these records."""

    of: str


class FragmentRef(TypedDict):
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


class FragmentReleaseRef(TypedDict):
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


class BookingRef(TypedDict):
    """The entry of a budget ledger that covers a differentially private release.

    Attributes:
        dataset: whose budget was spent.
        ledger: Airflow connection id.
        key: of the booking, see `privacy_release.spending.budget.booking_key`. It stays inside: it is a hash
            over the exact records, and whoever knows all of them but one could tell the last one by trying.
        entry_hash: of the ledger's entry that reserved the loss. It may be published: it covers the key, but
            also a random salt that stays in the ledger.
        model_sha256: of the model's text in the ledger.
        epsilon, delta, neighbours: what was booked.
        over_time: what its schedule promises, see `privacy_release.spending.participation.Schedule.told`.
    """

    dataset: str
    ledger: str
    key: str
    entry_hash: str
    model_sha256: str
    epsilon: float
    delta: float
    neighbours: str
    over_time: NotRequired[dict[str, Any]]


class StagedRef(TableRef):
    """A release in the work area; `schema` is of the released columns.

    Attributes:
        seconds: of the method; of the sampling alone where the release is differentially private, for how
            long the rest took depends on the records.
        columns: path of what the released columns are made from, for the data dictionary.
        people: whose record each released one is, where the schema names a person, see
            `privacy_release.work.people`.
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
    columns: NotRequired[str]
    people: NotRequired[PeopleRef]
    source_schema: NotRequired[str]
    earlier: NotRequired[list[int]]
    waiting: NotRequired[FileRef]
    booking: NotRequired[BookingRef]
    model: NotRequired[str]
    mechanisms: NotRequired[list[dict[str, Any]]]


class AlertRef(TypedDict):
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
    median: NotRequired[float]
    releases: NotRequired[int]


class TrialRef(TypedDict):
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
    shadows: NotRequired[int]
    outcomes: NotRequired[list[dict[str, Any]]]
    published: NotRequired[dict[str, Any]]


class AttackRef(TypedDict):
    """What the attacks found that a policy bounds; `curator` is the path of the private report on them.

    `sha256` is of the very bytes that were attacked.
    """

    sha256: str
    trials: list[TrialRef]
    curator: str


class ReportRef(TypedDict):
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
    floor_policy: NotRequired[dict[str, str]]
    persons: NotRequired[int]
    unique_records: NotRequired[dict[str, float]]
    compared: NotRequired[list[int]]
    alerts: NotRequired[list[AlertRef]]
    attacks: NotRequired[AttackRef]
    register: NotRequired[TableRef]


class Published(TypedDict):
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
    statement: NotRequired[str | None]
    completed: NotRequired[bool]
    alerts: NotRequired[list[AlertRef]]
    left_out: NotRequired[list[dict[str, str]]]


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
    return symbols_of(report["findings"])


def symbols_of(findings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The same from the findings alone, which a commit records."""
    measured = {}
    for finding in findings:
        symbol, number = _SYMBOLS.get(finding["rule"].partition("(")[0], ("", float))
        if symbol and finding["measured"] is not None:
            measured[symbol] = number(finding["measured"])
    return measured
