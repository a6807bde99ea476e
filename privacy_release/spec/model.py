"""A release as one YAML file: source, schema, method, policy, and where it goes.

Reading one imports neither pandas nor an algorithm, because Airflow does it at every parse of the DAGs.
`ReleaseSpec.data_schema` and `ReleaseSpec.release_policy` do, and find what only the engine can know.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import Problem
from privacy_engine.registry import (
    can_be_followed,
    detector_names,
    is_anonymizer,
    is_randomizer,
    method_names,
)
from privacy_engine.vocabulary import PublishMode, Superseded, has_public_domain
from privacy_release.config.durations import parse_duration
from privacy_release.config.problems import found_in, problems_of, shortened, wrong
from privacy_release.spec.engine import EngineField, EngineSpec
from privacy_release.spec.fields import (
    Bound,
    Connection,
    Cron,
    Label,
    Meaning,
    Moment,
    Number,
    Period,
    Rare,
    Time,
    Whole,
    in_keywords,
    plain_bound,
)
from privacy_release.spec.files import (
    file_within,
    include_folder,
    load_policy,
    load_schema,
    load_suite,
    load_tables,
)
from privacy_release.spec.lines import at_lines
from privacy_release.spec.outliers import Action, check_action
from privacy_release.spec.parameters import part_of_promise
from privacy_release.spec.placeholders import check_placeholders, check_query
from privacy_release.spec.reading import read_mapping
from privacy_release.spec.rules.facts import UNKNOWN, Facts, History, OverTime
from privacy_release.spec.rules.judge import judged
from privacy_release.spec.rules.text import unknown
from privacy_release.workarea.engines import FRAGMENTS, LOCAL
from privacy_release.workarea.parquet import MAX_EXPANSION, how_to_convert

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy

__all__ = [
    "AlertsSpec",
    "ApprovalSpec",
    "ArrivalsSpec",
    "AttributeSpec",
    "BudgetSpec",
    "CheckpointSpec",
    "EngineSpec",
    "HistorySpec",
    "MethodSpec",
    "OutliersSpec",
    "ParticipationSpec",
    "PublishSpec",
    "ReleaseSpec",
    "ScheduleSpec",
    "SourceSpec",
    "TransformSpec",
    "YearlySpec",
    "include_folder",
    "json_schema",
    "load_policy",
    "load_schema",
    "load_spec",
    "load_suite",
]

_LONGEST_WORD = 40  # characters of a word that an error quotes
# Sections that are about one table -> their fields.
_SECTIONS = {
    **{name: name for name in ("source", "expectations", "budget", "history", "outliers", "transform")},
    "schema": "attributes",
}
_KEPT = ("k", "m", "departures", "reserve", "counterfeits", "hold_back")  # over all releases of a person
RELEASE = "{release}"  # stands for the release id in the address of a source
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"  # a DAG id, a table name and a folder at once


def _existing_file(value: str, info: ValidationInfo) -> str:
    return str(file_within((info.context or {}).get("home") or include_folder(), value))


def _category(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(
            "must be text or a number; put quotes around words such as yes, no, on, off and around dates"
        )
    whole = isinstance(value, float) and value.is_integer()  # the text that a column of doubles gets
    return str(int(value) if whole else value)


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must be a reason, a text that is not blank; write one")
    return value


def _known_method(value: str) -> str:
    return _one_of(method_names(), value)


def _known_detector(value: str) -> str:
    return _one_of(detector_names(), value)


def _one_of(known: Iterable[str], value: str) -> str:
    words = list(known)
    if value not in words:
        hint = did_you_mean(value, words)
        raise ValueError(f"must be one of {words}, got {shortened(value, _LONGEST_WORD)!r}{hint}")
    return value


def _duration(value: str) -> str:
    parse_duration(value)
    return value


Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
IncludeFile = Annotated[str, Field(min_length=1), AfterValidator(_existing_file)]
Category = Annotated[str, BeforeValidator(_category)]
Duration = Annotated[str, AfterValidator(_duration)]


def _require_plain(parameters: object) -> None:
    """Refuse dates among parameters: no method takes one, and a DAG cannot be stored with them."""
    inside = [parameters]
    while inside:
        here = inside.pop()
        if isinstance(here, date):
            raise ValueError("a parameter must be text or a number; put quotes around dates")
        if isinstance(here, dict | list):
            inside += here.values() if isinstance(here, dict) else here


class _Strict(BaseModel):
    """A mapping whose fields are all known: a misspelt one must not be ignored in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=False, validate_by_alias=True)


class WaitSpec(_Strict):
    """How long a run waits for files that are late, and how often it looks.

    Attributes:
        timeout: the longest wait; after that the run fails.
        every: between two looks.
    """

    timeout: Duration = "1 day"
    every: Duration = "5 minutes"


class SourceSpec(_Strict):
    """Where the records come from: Parquet files, a version of a table, or a query of a database.

    Attributes:
        uri: a Parquet file, folder or glob, or the folder of a table, as a path or address. A relative path
            is relative to the folder that holds `releases/`. `{release}` in it stands for the release's id:
            the partition key of the run, else its run id; `{release:%Y-%m-%d}` for the date of the release:
            that of its partition key, else its logical date, on the command line a release id that is one.
        sql: instead of it: a SELECT that the database of `connection` answers. `{release}` and
            `{release:%Y-%m-%d}` in it are bound as parameters, never pasted into the text.
        connection: Airflow connection id of the object store or database; of a database on the command line
            the variable $PRIVACY_SOURCE_<ID> has its address.
        format: what is at the address: `parquet` files, a `delta` table, or an `iceberg` table, see
            `privacy_release.sources.versions`.
        version, timestamp: of a table: its number (of Iceberg that of a snapshot), or the version that was
            the newest at a time. Without both the newest one is taken; which one stands in the manifest.
        columns: to read, none of them derived; None reads all, and each must be in the schema then.
        nulls: `fail` where a quasi-identifier or sensitive attribute that is not nullable has one, `drop`
            these records, or `keep` them: a null is a value then, as if each attribute were `nullable`.
        when_missing: what a run does where no Parquet file is (yet) at the address, or the query gives no row
            (yet): `fail`; `skip`, which leaves this release out; or `wait` for it.
        wait: for how long.
        max_expansion: most bytes that records may take in memory for each byte of their file: a small file
            that unfolds further, beyond a GiB, is refused as a Parquet bomb.
        sha256: what the SHA-256 of the Parquet file must be, as `sha256sum` prints it; of several files their
            fingerprint, which the report of a release shows. Other files are refused.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["uri"]}, {"required": ["sql", "connection"]}]}
    )

    uri: str | None = Field(default=None, min_length=1)
    sql: str | None = Field(default=None, min_length=1)
    connection: Connection | None = None
    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    version: Whole | None = Field(default=None, ge=0)
    timestamp: Time | None = None
    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    nulls: Literal["fail", "drop", "keep"] = "fail"
    when_missing: Literal["fail", "skip", "wait"] = "fail"
    wait: WaitSpec | None = None
    max_expansion: Whole = Field(default=MAX_EXPANSION, ge=1)
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.uri is None) == (self.sql is None):
            raise ValueError("source must have a uri, or a sql with its connection; give one of both")
        if self.sql is not None and self.connection is None:
            raise ValueError("source.sql must stand beside the connection of its database; add it")
        if self.format != "parquet" and self.when_missing != "fail":
            raise ValueError("source.when_missing is about Parquet files and queries; remove it")
        if self.format != "parquet" and self.sql is not None:
            raise ValueError("source.format is of what is at an address; remove it, or sql")
        told = [name for name in ("version", "timestamp") if getattr(self, name) is not None]
        if told and (self.format == "parquet" or len(told) > 1):
            raise ValueError(
                f"source.{' and '.join(told)}: one of both may stand beside format: delta or iceberg, and "
                "neither elsewhere; correct it"
            )
        if self.wait is not None and self.when_missing != "wait":
            raise ValueError("source.wait must stand beside when_missing: wait; add it, or remove wait")
        if self.sha256 is not None and (self.uri is None or self.format != "parquet" or "{" in self.uri):
            raise ValueError("source.sha256 is of Parquet files at one address without {release}; remove it")
        check_placeholders(self.place)
        if self.sql is not None:
            check_query(self.sql)
        return self

    @property
    def place(self) -> str:
        """The address, or the query."""
        return self.uri or self.sql or ""

    @property
    def waits(self) -> WaitSpec:
        """For how long, where it waits."""
        return self.wait or WaitSpec()


class PseudonymSpec(_Strict):
    """What is released in the place of an identifier, see `privacy_release.sources.pseudonyms`.

    Attributes:
        connection: Airflow connection id whose password is the key; without Airflow it is
            $PRIVACY_PSEUDONYM_KEY.
        scope: equal identifiers have equal pseudonyms within one `release`, or in a `series` of them.
        series: names the series, where it is not that of this release: tables that name the same one and have
            the same key share pseudonyms.
    """

    connection: Connection
    scope: Literal["release", "series"]
    series: Name | None = None


class ShiftSpec(_Strict):
    """By how much the dates of a person are moved, see `privacy_release.sources.person_dates`.

    Attributes:
        connection: Airflow connection id whose password is the key; without Airflow it is
            $PRIVACY_PSEUDONYM_KEY.
        days: by how many at most, either way, and never by none.
        scope: the dates of a person are moved by the same number within one `release`, or in a `series`.
        series: names the series, where it is not that of this release.
    """

    connection: Connection
    days: Whole = Field(ge=1, le=36_500)
    scope: Literal["release", "series"]
    series: Name | None = None


class DeriveSpec(_Strict):
    """How a column of whole numbers is made from dates, see `privacy_engine.tables.date_form.Derivation`.

    Exactly one of the fields is given. It names columns of the schema that are dates or timestamps; one end
    of a span may also be a day, such as 2026-01-01.

    Attributes:
        years_between: complete years from the first day to the second, such as an age.
        days_between: days from the first day to the second.
        days_since_first: days since the first one of the person, in all files of the source.
    """

    years_between: tuple[Moment, Moment] | None = None
    days_between: tuple[Moment, Moment] | None = None
    days_since_first: Label | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1 or None in (getattr(self, name) for name in self.model_fields_set):
            raise ValueError("must have exactly one of years_between, days_between, days_since_first")
        return self


class AllowSpec(_Strict):
    """Leave, with the reason that goes into the manifest.

    Attributes:
        allow: the reason.
    """

    allow: Annotated[str, AfterValidator(_not_blank)]


class SignatureSpec(_Strict):
    """The confirmation by a named person that free text may be released, which goes into the manifest.

    Attributes:
        signed_by: Name and office of the person.
        reason: Why the text identifies no person.
    """

    signed_by: Annotated[str, AfterValidator(_not_blank)]
    reason: Annotated[str, AfterValidator(_not_blank)]


def _rule_form(value: object) -> str:
    return "leave" if isinstance(value, Mapping | AllowSpec) else "redaction"


def _text_rule(value: object) -> object:
    if value != "redact" and _rule_form(value) == "redaction":
        raise ValueError("must be redact, or `{allow: <reason>}`; correct it")
    return value


def _leave(value: object) -> object:
    if _rule_form(value) != "leave":
        raise ValueError("must be `{allow: <reason>}`, with a reason that goes into the manifest; correct it")
    return value


TextRule = Annotated[
    Annotated[Literal["redact"], Tag("redaction")] | Annotated[AllowSpec, Tag("leave")],
    Discriminator(_rule_form),
    BeforeValidator(_text_rule),
]


class YearSpec(_Strict):
    """A year that goes by that of the release.

    Attributes:
        years_before_release: how many years before.
    """

    years_before_release: Whole = Field(ge=1)


def _bottom_code(value: object) -> object:
    return value if isinstance(value, Mapping | YearSpec) else plain_bound(value)


BottomCode = Annotated[float | str | YearSpec, BeforeValidator(_bottom_code)]


class AttributeSpec(_Strict):
    """One column, see `privacy_engine.tables.schema.Attribute`; somebody must have decided on its role.

    Attributes:
        pseudonym: what is released in the place of an identifier.
        text: what is done where released text holds addresses, numbers or names of persons: `redact`, or
            leave with a reason. Otherwise the source is refused.
        unique: leave for an insensitive column with nearly one value a record, or a person.
        free_text: who signs for text whose values are not listed, for policies that ask for it.
        exact: leave to count the spellings of a text as different values, of a sensitive attribute or of the
            identifier that names the person. Otherwise spellings that read the same count once.
        top_code, bottom_code: larger and smaller values become it. `{years_before_release: 90}` as bottom is
            the year so many years before that of the release.
        prefix: so many characters of a code are kept. Numbers are filled up with zeros to `width` before.
        rare: prefixes that become zeros, or the name of a list of them.
        meaning: what the values are about, for policies that ask for it.
        shift: by how much dates are moved, all of a person by the same.
        derive: how the column is made from dates; the source has none of its name.
    """

    role: Literal["identifier", "quasi_identifier", "sensitive", "insensitive"]
    kind: Literal["categorical", "ordinal", "numeric", "date", "timestamp"]
    categories: tuple[Category, ...] | None = Field(default=None, min_length=1)
    bounds: tuple[Bound, Bound] | None = None
    bins: Whole | None = Field(default=None, ge=1)
    hierarchy: IncludeFile | None = None
    nullable: bool = False
    format: Label | None = None
    zone: Label | None = None
    precision: Period | None = None
    calendar: tuple[Period, ...] | None = Field(default=None, min_length=1)
    bin: Period | None = None
    as_is: bool = False
    top_code: Bound | None = None
    bottom_code: BottomCode | None = None
    prefix: Whole | None = Field(default=None, ge=1)
    width: Whole | None = Field(default=None, ge=1)
    rare: Rare | None = None
    meaning: Meaning | None = None
    shift: ShiftSpec | None = None
    derive: DeriveSpec | None = None
    pseudonym: PseudonymSpec | None = None
    text: TextRule | None = None
    unique: Annotated[AllowSpec, BeforeValidator(_leave)] | None = None
    free_text: SignatureSpec | None = None
    exact: Annotated[AllowSpec, BeforeValidator(_leave)] | None = None

    @property
    def nominal(self) -> bool:
        """Whether its values have no order."""
        return self.kind == "categorical"

    @property
    def hierarchical(self) -> bool:
        """Whether it has a hierarchy of its own."""
        return self.hierarchy is not None

    @property
    def is_free_text(self) -> bool:
        """Whether text may be released that no schema lists, as of `privacy_engine.tables.schema`."""
        return self.nominal and self.role != "identifier" and not has_public_domain(self)

    @property
    def spanned(self) -> bool:
        """Whether it is generalized to intervals of numbers or dates."""
        named = self.nominal or self.hierarchical or self.categories is not None
        return not named and self.calendar is None

    @model_validator(mode="after")
    def _pseudonym_fits(self) -> Self:
        if self.pseudonym is not None and self.role != "identifier":
            raise ValueError("pseudonym must stand on a column with the role identifier; correct the role")
        return self


class ScheduleSpec(_Strict):
    """A schedule by upstream assets or by partition; exactly one of the fields.

    Attributes:
        asset: name of the release whose publication starts a run.
        assets: names of several; all must have been published anew.
        partitions: cron expression; each of its times is a partition, and a release of its own.
    """

    asset: Name | None = None
    assets: tuple[Name, ...] | None = Field(default=None, min_length=1)
    partitions: Cron | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1 or None in (getattr(self, name) for name in self.model_fields_set):
            raise ValueError("must have exactly one of asset, assets, partitions")
        return self

    @property
    def upstream(self) -> tuple[str, ...]:
        """Names of the releases whose assets are awaited; empty for a schedule by partition."""
        return (self.asset,) if self.asset else self.assets or ()


class MethodSpec(BaseModel):
    """The release method; what is not named here is a parameter of the method.

    Attributes:
        method: registry key.
        seed: of the random choices; None takes fresh entropy in every run.
        secret: Airflow connection id whose password is the secret of memoised answers.
        replaces: fingerprint of the earlier secret that is given up on purpose, see
            `privacy_release.budget.secrets`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    method: Annotated[str, AfterValidator(_known_method)] = Field(
        json_schema_extra={"enum": list(method_names())}
    )
    seed: Whole | None = Field(default=None, ge=0)
    secret: Connection | None = None
    replaces: str | None = Field(default=None, pattern="^[0-9a-f]{32}$")

    @model_validator(mode="after")
    def _parameters_are_plain(self) -> Self:
        _require_plain(self.parameters)
        return self

    @model_validator(mode="after")
    def _secret_fits(self) -> Self:
        if self.memoised != (self.secret is not None):
            raise ValueError(
                "release.secret, the connection of the secret, must stand beside randomness: memoised and "
                "nowhere else; add or remove it"
            )
        if self.replaces is not None and self.secret is None:
            raise ValueError("release.replaces must stand beside a secret; remove it")
        return self

    @property
    def random_answers(self) -> bool:
        """Whether the method answers for each individual at random."""
        return is_randomizer(self.method)

    @property
    def memoised(self) -> bool:
        """Whether its answers repeat from release to release."""
        return self.random_answers and self.parameters.get("randomness") == "memoised"

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's parameters, as plain values."""
        return dict(self.model_extra or {})


class OutliersSpec(BaseModel):
    """The search for outliers; what is not named here is a parameter of the detector.

    Attributes:
        method: registry key of the detector.
        action: what is done with them, see `privacy_release.steps.outliers.Action`.
        max_share: the release fails if a larger share of the records are outliers; `fail` needs it.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    method: Annotated[str, AfterValidator(_known_detector)] = Field(
        default="okplof", json_schema_extra={"enum": list(detector_names())}
    )
    action: Action = Action.REPORT
    max_share: Number | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _parameters_are_plain(self) -> Self:
        _require_plain(self.parameters)
        return self

    @model_validator(mode="after")
    def _action_fits(self) -> Self:
        check_action(self.action, self.max_share)
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """The detector's parameters, as plain values."""
        return dict(self.model_extra or {})


class TransformSpec(_Strict):
    """A step of your own between validation and release, see `privacy_release.transforms`.

    Attributes:
        sql: a SELECT over the table `records`, answered by DuckDB without files and network. It keeps the
            column `_record`, which tells whose record a row is.
        attributes: field `schema`: of the columns that come out, without identifiers; None: those that went
            in.
    """

    sql: str = Field(min_length=1)
    attributes: dict[str, AttributeSpec] | None = Field(default=None, alias="schema", min_length=1)

    @model_validator(mode="after")
    def _made_alone(self) -> Self:
        if wrong_ones := [
            name
            for name, a in (self.attributes or {}).items()
            if a.role == "identifier" or a.shift is not None or a.derive is not None
        ]:
            raise ValueError(
                f"transform.schema {wrong_ones} must have no identifiers, shift or derive: these are of the "
                "source; remove them"
            )
        return self


def _window(value: str) -> str:
    if value != "total" and not re.fullmatch(r"[1-9]\d{0,4}d", value):
        raise ValueError("must be a number of days such as 365d, or total; correct it")
    return value


Window = Annotated[str, AfterValidator(_window)]


class ParticipationSpec(_Strict):
    """A person takes part in so many releases of any period at most; later ones leave their rows out.

    Attributes:
        regime: `participation`.
        releases: most releases that a person takes part in, in any period.
        period: how long it is, such as `365d`, or `total`: the schedule's whole life.
        key: Airflow connection id whose password is the key of the hashes that stand for persons; without
            Airflow it is $PRIVACY_MEMBERSHIP_KEY.
    """

    regime: Literal["participation"]
    releases: Whole = Field(ge=1, le=1000)
    period: Window = "365d"
    key: Connection = "membership_default"


class ArrivalsSpec(_Strict):
    """A person takes part in one release, the first that has rows of theirs: each release is of new people.

    Attributes:
        regime: `arrivals`.
        seen: what happens to rows of a person who took part in an earlier release: `leave_out`, or `refuse`
            the whole release.
        key: as of participation.
    """

    regime: Literal["arrivals"]
    seen: Literal["leave_out", "refuse"] = "leave_out"
    key: Connection = "membership_default"


class YearlySpec(_Strict):
    """A promise to everybody in the table, whoever is in every release, kept in equal parts.

    What a release spends is worked out from it; `release.epsilon` is left out.

    Attributes:
        regime: `yearly`.
        epsilon, delta: what all releases of a period lose together. With a delta the parts add as
            zero-concentrated differential privacy, which leaves each of many releases more.
        releases: most releases of any period; one more is refused.
        period: how long it is, such as `365d`, or `total`: the schedule's whole life.
        opening: epsilon of the schedule's first release, with the same delta, which is paid for beside the
            promise, once. It chooses the tables; all later releases measure these again and smooth over
            time, instead of choosing anew with a small part. Only of `latent_class`. None: each release
            stands by itself.
    """

    regime: Literal["yearly"]
    epsilon: Number = Field(gt=0)
    delta: Number = Field(default=0.0, ge=0, lt=1)
    releases: Whole = Field(ge=1, le=10000)
    period: Window = "365d"
    opening: Number | None = Field(default=None, gt=0)


def _still_there(given: Any) -> Any:
    if isinstance(given, Mapping) and given.get("regime") in ("continual", "on_change"):
        raise ValueError(
            f"regime {given['regime']} was removed, because measuring the same tables in every release is "
            "nearer; take `regime: yearly` with `opening`"
        )
    return given


OverTimeSpec = Annotated[
    ParticipationSpec | ArrivalsSpec | YearlySpec,
    Field(discriminator="regime"),
    BeforeValidator(_still_there),
]


# Regimes that must know a person again in a later release.
_KnowsPeople = ParticipationSpec | ArrivalsSpec


class BudgetSpec(_Strict):
    """The privacy budget that a differentially private release spends.

    Attributes:
        dataset: whose budget, by its name in the ledger. Releases about the same people share one.
        promise: What all releases of the schedule promise together, and how they keep it; None: each release
            is paid by itself.
        ledger: Airflow connection id of the budget ledger.
        when_short: what a run does when too little is left: `skip` all of its tasks and end green, or `fail`.
        curator_report: whether to compare each release with its source, in a file that stays inside, see
            `airflow_privacy_release.operators.curator`; only with the engine `local`.
    """

    dataset: Name
    promise: OverTimeSpec | None = None
    ledger: Connection = "ledger_default"
    when_short: Literal["skip", "fail"] = "fail"
    curator_report: bool = True

    @model_validator(mode="before")
    @classmethod
    def _takes_the_former_name(cls, given: Any) -> Any:
        """`promise` was called `over_time`."""
        if not isinstance(given, Mapping) or "over_time" not in given:
            return given
        if "promise" in given:
            raise ValueError("promise and over_time are one field; remove over_time, its former name")
        text = "budget.over_time is called budget.promise; rename it, because the former name ends with 0.3"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return {"promise" if name == "over_time" else name: value for name, value in given.items()}

    @property
    def schedule(self) -> dict[str, Any] | None:
        """What a schedule takes, but for its name, see `spending.schedules.schedule_named`."""
        match self.promise:
            case YearlySpec():
                return self.promise.model_dump(exclude={"regime"}, exclude_none=True)
            case ParticipationSpec(releases=releases, period=period):
                return {"releases": releases, "period": period}
            case ArrivalsSpec(seen=seen):
                return {"releases": 1, "period": "total", "refuse_seen": seen == "refuse"}
        return None


class _OverTimeArgument(_Strict):
    """The argument of operators that is the field `budget.promise` of a specification."""

    over_time: OverTimeSpec


def schedule_of(over_time: Mapping[str, Any]) -> dict[str, Any]:
    """What a schedule is made of, outside of a specification.

    Raises:
        SpecError: naming each wrong field and what to do.
    """
    try:
        given = _OverTimeArgument.model_validate({"over_time": over_time})
    except ValidationError as error:
        raise wrong("budget", "; ".join(problems_of(error, _OverTimeArgument))) from None
    return BudgetSpec(dataset="any", promise=given.over_time).schedule or {}


class ApprovalSpec(_Strict):
    """Whether somebody must approve the verified release before it is published.

    Attributes:
        required: always. Otherwise nobody is asked but where a run says so: the DAG's parameter `approval`.
            What the file requires no run can switch off.
        assigned_to: ids of the Airflow users who may answer; None: whoever may answer in this DAG.
        timeout: how long to wait for an answer; after that the release counts as rejected.
        approvers: 2 where two different people must approve, else 1.
    """

    required: bool = True
    assigned_to: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(default=None, min_length=1)
    timeout: Duration = "2 days"
    approvers: Literal[1, 2] = 1


class HistorySpec(_Strict):
    """How people are known again in a later release, and what is kept over all releases of a person.

    Attributes:
        identifier: the column that identifies a person, one record each; only a keyed hash of it is kept.
        key: Airflow connection id whose password is the key; without Airflow it is $PRIVACY_MEMBERSHIP_KEY.
        keep: whether a release is made to stay safe together with the earlier ones of its table, see
            `privacy_release.steps.history.Past`; otherwise verification alone looks at them.
        k, m, departures: what is kept: as many persons, as many distinct values of each sensitive attribute,
            and whether it is known who left; None: what the policy asks for, which judges it in any case.
        reserve: how many times k a class holds that is released for the first time, for those of it who will
            leave; None: once.
        counterfeits: with `m`, the largest share of the records that may be added as counterfeits, so that
            classes keep their sets of values; None: none, who would need one is withheld. Where the policy
            requires `unique` classes, any number may be added.
        hold_back: Releases that a person waits at most for others who are alike, where the policy names an
            attacker who subtracts; None: none, who fits no class is withheld.
        accept_unjudged: Reason why a release may be published although earlier releases of its table were
            made before differences between releases could be judged; the manifest and the report state it.
            None: such a release is refused where the policy names `republication`.
    """

    identifier: str = Field(min_length=1)
    key: Connection = "membership_default"
    keep: bool = True
    k: Whole | None = Field(default=None, ge=2)
    m: dict[str, Annotated[Whole, Field(ge=2)]] | None = None
    departures: Literal["known", "unknown"] | None = None
    reserve: Number | None = Field(default=None, ge=1, le=100)
    counterfeits: Number | None = Field(default=None, gt=0, le=1)
    hold_back: Whole | None = Field(default=None, ge=0, le=1000)
    accept_unjudged: str | None = Field(default=None, min_length=1)

    @property
    def kept(self) -> dict[str, Any]:
        """What is said of how releases are made with the earlier ones."""
        return self.model_dump(include=set(_KEPT), exclude_none=True)

    @model_validator(mode="after")
    def _kept_fits(self) -> Self:
        if not self.keep and self.kept:
            raise ValueError(
                f"history.{', '.join(self.kept)} must not stand beside keep: false, which only looks at the "
                "earlier releases; remove one of both"
            )
        return self


def kept_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of how releases are made with the earlier ones, outside of a specification.

    Raises:
        SpecError: naming each wrong field and what to do.
    """
    if unknown := sorted(set(fields) - set(_KEPT)):
        raise wrong("history", f"must have policy, {', '.join(_KEPT)} alone, got {unknown}; remove it")
    try:
        return HistorySpec.model_validate({"identifier": "person", **fields}).kept
    except ValidationError as error:
        raise wrong("history", "; ".join(problems_of(error, HistorySpec))) from None


class PersonSpec(_Strict):
    """Whose record a row is: a column, or a reason why each row is of another person.

    Attributes:
        column: the identifier that names the person of a row; several rows may be of one person.
        none: why each row is of another person although an identifier repeats; it goes into the manifest.
        rows: `linked`: the release has a random pseudonym in the column, so its classes are of all rows of a
            person together.
    """

    column: str | None = Field(default=None, min_length=1)
    none: str | None = Field(default=None, min_length=1)
    rows: Literal["independent", "linked"] = "independent"

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.column is None) == (self.none is None):
            raise ValueError("person must have a column, or the reason why there is none; give one of both")
        if self.rows == "linked" and self.column is None:
            raise ValueError(
                "person.rows can be linked only where person.column names the person of each row"
            )
        return self


def _person_of_column(value: object) -> object:
    if value == "none":
        raise ValueError("person: none needs a reason; write `person: {none: <reason>}`")
    return {"column": value} if isinstance(value, str) else value


class PublishSpec(_Strict):
    """Where the release goes: an Airflow connection id and the name of a release table.

    Attributes:
        lake: Airflow connection id of the lake.
        table: the release table; one specification a table.
        mode: which releases the table holds: `snapshot` the newest alone, `partitions` one a partition key,
            for sources of which each partition is other records, `append` all, where `history` knows who was
            in the earlier ones. Default: partitions for a schedule by partition, else snapshot.
        superseded: what becomes of a release that the table holds no more: `drop` erases its rows, `history`
            moves them to the table `<table>_history` of `history_lake`. What was proven of it stays.
        history_lake: Airflow connection id of that lake, which only those see who are to read old releases.
        grace: for how long the files of a superseded release stay for those who are reading them.
        evidence: whether a signed evidence pack of each release is made once it is published, for the
            curator's folder; the release must be signed.
    """

    lake: Connection = "lake_default"
    table: Name
    mode: PublishMode | None = None
    superseded: Superseded = Superseded.DROP
    history_lake: Connection | None = None
    grace: Duration = "1 hour"
    evidence: bool = False

    @model_validator(mode="after")
    def _kept_somewhere(self) -> Self:
        if (self.superseded is Superseded.HISTORY) != (self.history_lake is not None):
            raise ValueError(
                "superseded: history must stand beside history_lake, and only then; add or remove one"
            )
        if self.history_lake == self.lake:
            raise ValueError(
                "history_lake must be another lake, for whoever reads a lake sees all its tables; name one"
            )
        return self


def _check_read(source: SourceSpec, attributes: Mapping[str, AttributeSpec]) -> None:
    """Refuse columns that are read and have no role, and such that have one and are not read."""
    read = source.columns
    if read is None:
        return
    if len(set(read)) < len(read):
        raise ValueError("source.columns must be distinct; remove the repeated ones")
    if strangers := [c for c in read if c not in attributes]:
        raise ValueError(
            f"source.columns [{unknown(strangers, attributes)}] must be in schema; give each a role or do "
            "not read them"
        )
    if made := [c for c in read if attributes[c].derive is not None]:
        raise ValueError(f"source.columns {made} must not be derived, they are not read; remove them")
    if unread := [n for n, a in attributes.items() if n not in read and a.derive is None]:
        raise ValueError(
            f"columns {unread} of schema must be in source.columns; add them or drop them from schema"
        )


def _fields_of(attributes: Mapping[str, AttributeSpec], source: SourceSpec) -> dict[str, dict[str, Any]]:
    """Attributes as plain values that `load_schema` reads."""
    fields = {name: a.model_dump(mode="json", exclude_none=True) for name, a in attributes.items()}
    if source.nulls == "keep":  # as `DataSchema.keeping_nulls`: a null more can make a loss larger
        for name, attribute in attributes.items():
            fields[name]["nullable"] |= attribute.role != "identifier"
    return fields


def _context_folder(value: str, info: ValidationInfo) -> str:
    return str(Path(_existing_file(f"{value}/great_expectations.yml", info)).parent)


class CheckpointSpec(_Strict):
    """A named Checkpoint of Great Expectations, whose suites are run with its actions.

    What it stores, draws and sends says which expectation held, and nothing else of the records, whatever its
    result format.

    Attributes:
        context: folder of a file context, with its `great_expectations.yml`.
        checkpoint: its name there.
    """

    context: Annotated[str, Field(min_length=1), AfterValidator(_context_folder)]
    checkpoint: str = Field(min_length=1)


def _expectations_form(value: object) -> str:
    return "named_checkpoint" if isinstance(value, Mapping | CheckpointSpec) else "suite_file"


Expectations = Annotated[
    Annotated[IncludeFile, Tag("suite_file")] | Annotated[CheckpointSpec, Tag("named_checkpoint")],
    Discriminator(_expectations_form),
]


def _suite_of(given: str | CheckpointSpec | None) -> str | dict[str, Any] | None:
    """A suite's file, or the name of a checkpoint, as plain values that `load_suite` reads."""
    return given.model_dump() if isinstance(given, CheckpointSpec) else given


class TableSpec(_Strict):
    """One of several tables that share a person.

    Attributes:
        attributes: field `schema`, as of a release of one table; the person is among them.
        person: the column that names the person, where it is called otherwise than in the release.
        carry: quasi-identifiers of another one of the tables, with one row a person, whose released values
            the rows of this one get, too.
        expectations: file of its suite, or a checkpoint.
    """

    source: SourceSpec
    attributes: dict[str, AttributeSpec] = Field(alias="schema", min_length=1)
    person: Annotated[str, Field(min_length=1)] | None = None
    carry: tuple[str, ...] = ()
    expectations: Expectations | None = None

    @model_validator(mode="after")
    def _columns_have_roles(self) -> Self:
        _check_read(self.source, self.attributes)
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """What is read, and how, as plain values: what `IngestTablesOperator` takes."""
        source = self.source.model_dump(exclude_none=True, exclude={"columns", "when_missing", "format"})
        columns = {} if self.source.columns is None else {"columns": list(self.source.columns)}
        schema = _fields_of(self.attributes, self.source)
        person = {} if self.person is None else {"person": self.person}
        return {**source, **columns, "schema": schema, **person, "carry": list(self.carry)}

    @property
    def suite_given(self) -> str | dict[str, Any] | None:
        """What `ValidateOperator` takes as its suite."""
        return _suite_of(self.expectations)

    def suite(self) -> dict[str, Any] | None:
        """The Great Expectations suite, or the name of a checkpoint; None if the table has neither."""
        return None if self.suite_given is None else load_suite(self.suite_given)


class AlertSpec(_Strict):
    """When a figure is worth a warning; at least one of the fields.

    Attributes:
        above, below: the figure itself is.
        rises_by, falls_by: it is further above or below the median of the last releases than this share of
            it: 0.2 is a fifth.
    """

    above: Number | None = Field(default=None, ge=0)
    below: Number | None = Field(default=None, gt=0)
    rises_by: Number | None = Field(default=None, gt=0)
    falls_by: Number | None = Field(default=None, gt=0, lt=1)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError("must have one of above, below, rises_by, falls_by; add it")
        if self.above is not None and self.below is not None and self.below > self.above:
            raise ValueError("below must not be larger than above: each value would be an alert; correct it")
        return self


class ShareAlertSpec(AlertSpec):
    """The same for a figure from 0 to 1, whose own limits are, too."""

    above: Number | None = Field(default=None, ge=0, lt=1)
    below: Number | None = Field(default=None, gt=0, le=1)


class BudgetAlertSpec(_Strict):
    """When too little is left of the privacy budget that the release spends.

    Attributes:
        left_below: a smaller share of a limit is left.
    """

    left_below: Number = Field(gt=0, le=1)


class AlertsSpec(_Strict):
    """Figures of a release that are worth a warning where they leave their limits or their trend.

    An alert stops nothing: what must hold stands in the policy. The figures have the names of the manifest;
    they are public, so of a release that spends a budget none is of the source.

    Attributes:
        last: of how many earlier releases the median is taken, those that were not retracted.
        rows: records released.
        k, l, t: as measured, where the policy asks for them.
        epsilon: that the release spends.
        gcp_lca, gcp_own, non_uniform_entropy, query_error, average_class_size, discernibility: loss.
        suppressed_records, suppressed_cells: what does not show its original value.
        prosecutor_max, prosecutor_mean, journalist_max, journalist_mean, marketer, share_at_risk: risk of
            linking.
        hasr, values_left, persons_below_l: risk of learning a sensitive value.
        budget: what is left of the privacy budget.
    """

    last: Whole = Field(default=5, ge=1, le=60)
    rows: AlertSpec | None = None
    k: AlertSpec | None = None
    l: AlertSpec | None = None  # noqa: E741  the field's own symbol
    t: ShareAlertSpec | None = None
    epsilon: AlertSpec | None = None
    gcp_lca: ShareAlertSpec | None = None
    gcp_own: ShareAlertSpec | None = None
    non_uniform_entropy: ShareAlertSpec | None = None
    query_error: AlertSpec | None = None
    average_class_size: AlertSpec | None = None
    discernibility: AlertSpec | None = None
    suppressed_records: AlertSpec | None = None
    suppressed_cells: AlertSpec | None = None
    prosecutor_max: ShareAlertSpec | None = None
    prosecutor_mean: ShareAlertSpec | None = None
    journalist_max: ShareAlertSpec | None = None
    journalist_mean: ShareAlertSpec | None = None
    marketer: ShareAlertSpec | None = None
    share_at_risk: ShareAlertSpec | None = None
    hasr: ShareAlertSpec | None = None
    values_left: AlertSpec | None = None
    persons_below_l: AlertSpec | None = None
    budget: BudgetAlertSpec | None = None

    @property
    def figures(self) -> dict[str, AlertSpec]:
        """The limits of each figure that has some."""
        return {name: given for name, given in self if isinstance(given, AlertSpec)}


def read_alerts(fields: Mapping[str, Any]) -> AlertsSpec:
    """Limits that are given outside of a specification.

    Raises:
        SpecError: naming each wrong field and what to do.
    """
    try:
        return AlertsSpec.model_validate(dict(fields))
    except ValidationError as error:
        raise wrong("alerts", "; ".join(problems_of(error, AlertsSpec))) from None


def _schedule_form(value: object) -> str:
    return "event" if isinstance(value, Mapping | ScheduleSpec) else "cron"


class RegisterSpec(_Strict):
    """Public records of the whole population, which attackers may use.

    The attack `linkage` tries to name people with them, and the attacker `population` of the policy model
    `republication` knows them of each release.

    Attributes:
        uri: Parquet file, folder or glob, as the `uri` of a source.
        connection: Airflow connection id of the object store.
        columns: which quasi-identifiers it tells, by the names and with the forms of schema.
        identifier: Column that identifies a person, the same as `history.identifier`, for the attacker
            `population`; None: the register is for `linkage`. Only a keyed hash of it is kept.
    """

    uri: str = Field(min_length=1)
    connection: Connection | None = None
    columns: tuple[str, ...] = Field(min_length=1)
    identifier: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _address(self) -> Self:
        check_placeholders(self.uri)
        if how := how_to_convert(self.uri):
            raise ValueError(f"public_register.uri must be of Parquet files, got CSV; {how}")
        return self


class ReleaseSpec(_Strict):
    """One release; see the files in `include/releases`.

    Attributes:
        name: of the DAG; the file must be called the same.
        description: one line for the list of DAGs.
        tags: by which the list of DAGs can be filtered.
        schedule: a cron expression or a preset such as `@weekly`, or a mapping; None: runs are triggered.
        attributes: field `schema` of the file: each column's role and kind, by its name.
        tables: instead of source, schema and expectations: several tables that share the person.
        expectations: file of a Great Expectations suite, or a checkpoint of a context.
        policy: file of what must hold.
        person: whose record a row is; the guarantee is of persons then.
        engine: what works on the table; with another than `local` no step holds it in memory.
        transform: a step of your own, after the expectations were met.
        public_register: public records that attackers may use, beside `attack_risk` of linkage or the
            attacker `population` of `republication` in the policy.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["source", "schema"]}, {"required": ["tables"]}]}
    )

    name: Name
    description: str = ""
    tags: tuple[Label, ...] = ()
    schedule: (
        Annotated[
            Annotated[Cron, Tag("cron")] | Annotated[ScheduleSpec, Tag("event")],
            Discriminator(_schedule_form),
        ]
        | None
    ) = None
    source: SourceSpec | None = None
    engine: EngineField = EngineSpec(kind="local")
    attributes: dict[str, AttributeSpec] = Field(default={}, alias="schema", min_length=1)
    tables: dict[Name, TableSpec] | None = Field(default=None, min_length=2)
    person: Annotated[PersonSpec, BeforeValidator(_person_of_column)] | None = None
    expectations: Expectations | None = None
    transform: TransformSpec | None = None
    outliers: OutliersSpec | None = None
    release: MethodSpec
    budget: BudgetSpec | None = None
    policy: IncludeFile
    public_register: RegisterSpec | None = None
    history: HistorySpec | None = None
    approval: ApprovalSpec | None = None
    publish: PublishSpec
    alerts: AlertsSpec | None = None

    @model_validator(mode="after")
    def _columns_have_roles(self) -> Self:
        if self.tables is not None:
            return self
        given = {"source": self.source, "schema": self.attributes}
        if missing := [name for name, value in given.items() if not value]:
            raise ValueError(f"{missing[0]}: is missing; add it, or describe several tables as `tables`")
        _check_read(self.only_source, self.attributes)
        return self

    @model_validator(mode="after")
    def _spends_a_part(self) -> Self:
        """What a release of a promise to a standing population spends, worked out."""
        over_time = None if self.budget is None else self.budget.promise
        if not isinstance(over_time, YearlySpec):
            return self
        if self.release.random_answers:
            raise ValueError(
                f"budget.promise yearly must not stand beside {self.release.method}: memoised answers "
                "repeat, and are not paid for in parts; take a synthesizer, or remove promise"
            )
        if over_time.opening is not None and not can_be_followed(self.release.method):
            raise ValueError(
                f"budget.promise.opening must not stand beside {self.release.method}, which chooses no "
                "tables that later releases could measure again; take latent_class, or remove it"
            )
        try:
            part = part_of_promise(
                self.release.method,
                epsilon=over_time.epsilon,
                delta=over_time.delta,
                releases=over_time.releases,
            )
        except ValueError as error:
            raise ValueError(f"budget.promise: {error}; raise epsilon or lower releases") from None
        given = {name: self.release.parameters[name] for name in part if name in self.release.parameters}
        if any(value != part[name] for name, value in given.items()):
            raise ValueError(
                f"release.{', '.join(given)} must be left out beside budget.promise yearly: each of "
                f"{over_time.releases} releases spends {part}, an equal part of the promise; remove it"
            )
        # Frozen for everybody else; from here on it says what is spent.
        object.__setattr__(self, "release", self.release.model_copy(update=part))
        return self

    @property
    def only_source(self) -> SourceSpec:
        """The source of a release of one table."""
        assert self.source is not None
        return self.source

    @property
    def sources(self) -> tuple[SourceSpec, ...]:
        """The sources of all tables."""
        return tuple(table.source for table in (self.tables or {}).values()) or (self.only_source,)

    @property
    def linked(self) -> bool:
        """Whether the release links the rows of a person by a pseudonym."""
        return self.tables is not None or (self.person is not None and self.person.rows == "linked")

    @property
    def every_attribute(self) -> tuple[tuple[str, AttributeSpec], ...]:
        """Name and description of each column that the method is given, of all tables."""
        if self.tables is None:
            made = self.transform.attributes if self.transform is not None else None
            named = {n: a for n, a in self.attributes.items() if made is None or a.role == "identifier"}
            return tuple((named | (made or {})).items())
        return tuple(pair for table in self.tables.values() for pair in table.attributes.items())

    @property
    def table_settings(self) -> dict[str, dict[str, Any]]:
        """What is read for each of several tables, see `TableSpec.settings`; empty where there is one."""
        return {name: table.settings for name, table in (self.tables or {}).items()}

    @property
    def scaled(self) -> bool:
        """Whether no step may hold the whole table in memory."""
        return self.engine.kind != LOCAL

    @property
    def mapped(self) -> bool:
        """Whether each fragment of the table is anonymized by a task of its own."""
        fragments = self.engine.kind == FRAGMENTS and self.engine.mapped
        return fragments and is_anonymizer(self.release.method)

    @property
    def individual(self) -> str | None:
        """The identifier that memoised answers go by; None where there is none, or they are not memoised."""
        names = [name for name, a in self.attributes.items() if a.role == "identifier"]
        if not self.release.memoised:
            return None
        named = self.release.parameters.get("individual", names[0] if len(names) == 1 else None)
        return named if named in names else None

    @property
    def numbered(self) -> str | None:
        """The person's column, where a person has the same number in every run; None elsewhere."""
        bounded = self.budget is not None and isinstance(self.budget.promise, _KnowsPeople)
        return self.person.column if bounded and self.person is not None else None

    @property
    def numbering_key(self) -> str | None:
        """The connection whose password is the key of their numbers; None elsewhere."""
        over_time = None if self.budget is None else self.budget.promise
        return over_time.key if isinstance(over_time, _KnowsPeople) else None

    @property
    def publish_mode(self) -> PublishMode:
        """Which releases the table holds."""
        by_partition = isinstance(self.schedule, ScheduleSpec) and self.schedule.partitions is not None
        return self.publish.mode or (PublishMode.PARTITIONS if by_partition else PublishMode.SNAPSHOT)

    @property
    def upstream(self) -> tuple[str, ...]:
        """The assets that the schedule waits for."""
        return self.schedule.upstream if isinstance(self.schedule, ScheduleSpec) else ()

    @property
    def unfollowed(self) -> tuple[str, ...]:
        """Columns that name people of whom nothing is known in a later release.

        None beside a budget or random answers: their losses add up in the ledger.
        """
        if self.history is not None or self.budget is not None or self.release.random_answers:
            return ()
        return tuple(dict.fromkeys(name for name, a in self.every_attribute if a.role == "identifier"))

    @property
    def told_to_curator(self) -> bool:
        """Whether a report compares the release with its source: only of records drawn from a model."""
        if self.budget is None or self.release.random_answers:
            return False
        asked = "curator_report" in self.budget.model_fields_set  # it needs both tables in memory
        return self.budget.curator_report and (asked or not self.scaled)

    @property
    def schema_fields(self) -> dict[str, dict[str, Any]]:
        """The schema as plain values that `load_schema` reads."""
        return self._with_person(_fields_of(self.attributes, self.only_source))

    @property
    def register_identifier(self) -> str | None:
        """The column that identifies the persons of the public register; None where it has none."""
        return None if self.public_register is None else self.public_register.identifier

    @property
    def register_fields(self) -> dict[str, dict[str, Any]]:
        """The schema of the public register and of the identifier that it may have; empty without one."""
        names = self.public_register.columns if self.public_register is not None else ()
        if self.register_identifier in self.attributes:  # else a rule says so
            names = (*names, self.register_identifier)
        return _fields_of({name: self.attributes[name] for name in names}, self.only_source)

    @property
    def transformed_fields(self) -> dict[str, dict[str, Any]] | None:
        """The schema of what `transform` makes, without identifiers; None: as of the source."""
        own = self.transform.attributes if self.transform is not None else None
        return None if own is None else _fields_of(own, self.only_source)

    @property
    def method_fields(self) -> dict[str, dict[str, Any]]:
        """The schema of what the method is given: of the source, or of what `transform` makes of it."""
        made = self.transformed_fields
        if made is None:
            return self.schema_fields
        named = {name: a for name, a in self.attributes.items() if a.role == "identifier"}
        return self._with_person(_fields_of(named, self.only_source) | made)

    def _with_person(self, fields: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if self.person is not None:  # a column of that name keeps its own fields beside
            fields["person"] = fields.get("person", {}) | self.person.model_dump(exclude_defaults=True)
        return fields

    @property
    def undeclared_types(self) -> Literal["values", "schema"]:
        """Where the types of columns come from that a database does not declare, see `Query`."""
        return "schema" if self.budget is not None else "values"

    def facts(self) -> Facts:
        """What rules are judged by; nothing heavy is loaded for it."""
        over_time, history = None if self.budget is None else self.budget.promise, self.history
        return Facts(
            columns=self.every_attribute,
            read=self.attributes,
            spanned=[n for n, a in self.every_attribute if a.role == "quasi_identifier" and a.spanned],
            described=self.tables or {},
            sections=[name for name, field in _SECTIONS.items() if getattr(self, field)],
            independent=self.person is not None
            and self.person.rows == "independent"
            and "rows" in self.person.model_fields_set,
            tables=tuple(self.tables or ()),
            person=None if self.person is None else self.person.column,
            linked=self.linked,
            engine=self.engine.kind,
            transformed=self.transform is not None,
            register=None if self.public_register is None else self.public_register.columns,
            register_identifier=self.register_identifier,
            nulls=UNKNOWN if self.tables is not None else self.only_source.nulls,
            outliers=() if self.outliers is None else (self.outliers.action,),
            method=self.release.method,
            parameters=self.release.parameters,
            stated=tuple(self.release.parameters),
            budget=self.budget is not None,
            over_time=OverTime.of(over_time),
            history=None
            if history is None
            else History(
                keep=history.keep,
                k=history.k,
                m=history.m,
                departures=history.departures,
                counterfeits=history.counterfeits,
                hold_back=history.hold_back,
                accept_unjudged=history.accept_unjudged,
            ),
            identifier=None if history is None else history.identifier,
            schedule=self.schedule is not None,
            unfollowed=self.unfollowed,
            alerts=() if self.alerts is None else tuple(self.alerts.figures),
            alerts_of_budget=self.alerts is not None and self.alerts.budget is not None,
            publish_mode=self.publish_mode,
            approval=self.approval is not None and self.approval.required,
            assigned=(self.approval and self.approval.assigned_to) or (),
            evidence=self.publish.evidence,
            upstream=self.upstream,
        )

    def data_schema(self) -> "DataSchema":
        """The schema for the engine, with its hierarchies read.

        Raises:
            SpecError: if the engine finds that its parts contradict each other.
        """
        if self.tables is None or self.person is None:
            return load_schema(self.schema_fields)
        return load_tables(self.table_settings, self.person.column or "")

    def method_schema(self) -> "DataSchema":
        """The schema of what the method is given, see `method_fields`.

        Raises:
            SpecError: as `data_schema`.
        """
        return self.data_schema() if self.tables is not None else load_schema(self.method_fields)

    def release_policy(self) -> "ReleasePolicy":
        """The policy for the engine.

        Raises:
            SpecError: naming the file and the field.
        """
        return load_policy(self.policy)

    @property
    def suite_given(self) -> str | dict[str, Any] | None:
        """What `ValidateOperator` takes as its suite."""
        return _suite_of(self.expectations)

    def expectation_suite(self) -> dict[str, Any] | None:
        """The Great Expectations suite, or the name of a checkpoint; None if the release has neither."""
        return None if self.suite_given is None else load_suite(self.suite_given)


def load_spec(path: str | Path, *, judge: bool = True) -> ReleaseSpec:
    """Read a specification; other files are looked up in the folder that holds `releases/`.

    Args:
        path: Of the file.
        judge: Whether to raise for rules that the file alone breaks. Without it the caller judges them,
            together with those that need other files.

    Raises:
        SpecError: naming the file, each wrong field and what to do.
    """
    path = Path(path).absolute()
    home = path.parents[1] if path.parent.name == "releases" else path.parent
    fields = read_mapping(path)
    try:
        spec = ReleaseSpec.model_validate(fields, context={"home": home})
    except ValidationError as error:
        raise at_lines(path, found_in(error, ReleaseSpec)) from None
    if judge and (found := judged(spec.facts()).problems):
        raise at_lines(path, found)
    if spec.name != path.stem:
        text = f"name must be {path.stem!r} like the file, so that no two are the same; rename one"
        raise at_lines(path, [Problem(text=text, path=("name",))])
    if spec.tables is None:
        absolute: dict[str, Any] = {"source": _found_from(spec.only_source, home)}
        if (register := spec.public_register) is not None:
            uri = _address_from(register.uri, home)
            absolute["public_register"] = register.model_copy(update={"uri": uri})
        return spec.model_copy(update=absolute)
    tables = {
        name: table.model_copy(update={"source": _found_from(table.source, home)})
        for name, table in spec.tables.items()
    }
    return spec.model_copy(update={"tables": tables})


def _found_from(source: SourceSpec, home: Path) -> SourceSpec:
    """A source whose address depends on no folder."""
    if source.uri is None:
        return source
    return source.model_copy(update={"uri": _address_from(source.uri, home)})


def _address_from(uri: str, home: Path) -> str:
    """An address that depends on no folder."""
    return uri if re.match(r"[A-Za-z][\w+.-]*://|/", uri) else str(home / uri)


def json_schema() -> dict[str, Any]:
    """JSON Schema of a specification, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **in_keywords(ReleaseSpec.model_json_schema(by_alias=True)),
    }
