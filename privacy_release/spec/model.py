"""The model of a release file: source, schema, method, policy, and where to publish.

Reading one imports neither pandas nor an algorithm, because Airflow does it at every parse of the DAGs.
`ReleaseSpec.data_schema` and `ReleaseSpec.release_policy` do, and find faults that only the engine can find.
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
    kind_of,
    method_names,
    reads_records,
    shown_method,
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
from privacy_release.spec.rules.facts import UNKNOWN, Facts, HistoryFacts, Promised
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
    "LearnSpec",
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
# Sections that apply to one table -> their fields.
_SECTIONS = {
    **{name: name for name in ("source", "expectations", "budget", "history", "outliers", "transform")},
    "schema": "attributes",
}
_KEPT = ("k", "m", "departures", "reserve", "counterfeits", "hold_back")  # fields of a kept history
PAPERS = "papers"  # folder in `releases` of the methods of papers, see the setting `paper_releases`
RELEASE = "{release}"  # placeholder of the release ID in the address of a source
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"  # valid as DAG ID, table name and folder name


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
    """Refuse dates among parameters: no method accepts them, and Airflow cannot store a DAG with them."""
    inside = [parameters]
    while inside:
        here = inside.pop()
        if isinstance(here, date):
            raise ValueError("a parameter must be text or a number; put quotes around dates")
        if isinstance(here, dict | list):
            inside += here.values() if isinstance(here, dict) else here


class _Strict(BaseModel):
    """A mapping that allows only known fields: a misspelt one must not be ignored silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=False, validate_by_alias=True)


class WaitSpec(_Strict):
    """How long a run waits for late files, and how often it checks.

    Attributes:
        timeout: Longest wait. After it, the run fails.
        every: Time between two checks.
    """

    timeout: Duration = "1 day"
    every: Duration = "5 minutes"


class SourceSpec(_Strict):
    """The source of the records: Parquet files, a version of a table, or a query of a database.

    Attributes:
        uri: Parquet file, folder or glob, or the folder of a table, as a path or address. A relative path
            is relative to the folder that contains `releases/`. `{release}` in it is replaced by the release
            ID: the partition key of the run, or else its run ID. `{release:%Y-%m-%d}` is replaced by the date
            of the release: that of its partition key, or else its logical date; on the command line, the
            release ID must be a date.
        sql: SELECT that the database of `connection` answers, instead of `uri`. `{release}` and
            `{release:%Y-%m-%d}` in it are bound as parameters, never pasted into the text.
        connection: Airflow connection ID of the object store or database. On the command line, the variable
            $PRIVACY_SOURCE_<ID> has the address of a database.
        format: Format at the address: `parquet` files, a `delta` table, or an `iceberg` table, see
            `privacy_release.sources.versions`.
        version, timestamp: Version of a table: its number (for Iceberg, of a snapshot), or a time whose
            newest version is read. Without both, the newest version is read. The manifest records the
            version.
        columns: Columns to read, none of them derived. None reads all, and then each must be in the schema.
        nulls: `fail` raises on a null in a quasi-identifier or sensitive attribute that is not nullable,
            `drop` drops these records, `keep` treats null as a value, as if each attribute were `nullable`.
        when_missing: Action of a run if there is no Parquet file at the address (yet), or the query returns
            no row (yet): `fail`; `skip`, which skips this release; or `wait` for it.
        wait: How long to wait.
        max_expansion: Largest ratio of bytes in memory to bytes in a file. A small file that expands further,
            beyond a GiB, is refused as a Parquet bomb.
        sha256: Required SHA-256 of the Parquet file, as `sha256sum` prints it. For several files, their
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
            raise ValueError("source must have a uri, or a sql with its connection; set one of both")
        if self.sql is not None and self.connection is None:
            raise ValueError("source.sql requires the connection of its database; add it")
        if self.format != "parquet" and self.when_missing != "fail":
            raise ValueError("source.when_missing is about Parquet files and queries; remove it")
        if self.format != "parquet" and self.sql is not None:
            raise ValueError("source.format only applies to an address; remove it, or sql")
        given = [name for name in ("version", "timestamp") if getattr(self, name) is not None]
        if given and (self.format == "parquet" or len(given) > 1):
            raise ValueError(
                f"source.{' and '.join(given)}: one of both may be set with format: delta or iceberg, and "
                "neither otherwise; correct it"
            )
        if self.wait is not None and self.when_missing != "wait":
            raise ValueError("source.wait requires when_missing: wait; add it, or remove wait")
        if self.sha256 is not None and (self.uri is None or self.format != "parquet" or "{" in self.uri):
            raise ValueError(
                "source.sha256 requires Parquet files at one address without {release}; remove it"
            )
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
        """How long to wait."""
        return self.wait or WaitSpec()


class PseudonymSpec(_Strict):
    """The pseudonyms that replace an identifier, see `privacy_release.sources.pseudonyms`.

    Attributes:
        connection: Airflow connection ID whose password is the key. Without Airflow, the key is
            $PRIVACY_PSEUDONYM_KEY.
        scope: Scope in which equal identifiers have equal pseudonyms: one `release`, or a `series` of them.
        series: Name of the series, if it is not that of this release. Tables with the same series and key
            share pseudonyms.
    """

    connection: Connection
    scope: Literal["release", "series"]
    series: Name | None = None


class ShiftSpec(_Strict):
    """The shift of a person's dates, see `privacy_release.sources.person_dates`.

    Attributes:
        connection: Airflow connection ID whose password is the key. Without Airflow, the key is
            $PRIVACY_PSEUDONYM_KEY.
        days: Largest number of days in either direction. Dates are always moved by at least one day.
        scope: Scope in which a person's dates are moved by the same number: one `release`, or a `series`.
        series: Name of the series, if it is not that of this release.
    """

    connection: Connection
    days: Whole = Field(ge=1, le=36_500)
    scope: Literal["release", "series"]
    series: Name | None = None


class DeriveSpec(_Strict):
    """A column of whole numbers derived from dates, see `privacy_engine.tables.date_form.Derivation`.

    Exactly one of the fields must be set. It names columns of the schema that are dates or timestamps. One
    end of a span may also be a day, such as 2026-01-01.

    Attributes:
        years_between: Complete years from the first date to the second, such as an age.
        days_between: Days from the first date to the second.
        days_since_first: Days since the person's first date in all files of the source.
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
    """An exemption, with the reason that goes into the manifest.

    Attributes:
        allow: Reason for the exemption.
    """

    allow: Annotated[str, AfterValidator(_not_blank)]


class SignatureSpec(_Strict):
    """The confirmation by a named person that free text may be released, which goes into the manifest.

    Attributes:
        signed_by: Name and office of the person.
        reason: Reason why the text identifies no one.
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
    """A year relative to the year of the release.

    Attributes:
        years_before_release: Number of years before the release.
    """

    years_before_release: Whole = Field(ge=1)


def _bottom_code(value: object) -> object:
    return value if isinstance(value, Mapping | YearSpec) else plain_bound(value)


BottomCode = Annotated[float | str | YearSpec, BeforeValidator(_bottom_code)]


class AttributeSpec(_Strict):
    """One column, see `privacy_engine.tables.schema.Attribute`. Its role must have been decided.

    Attributes:
        pseudonym: Pseudonyms that replace an identifier.
        text: Action if released text contains addresses, numbers or names of persons: `redact`, or an
            exemption with a reason. By default the source is refused.
        unique: Exemption for an insensitive column with nearly one value per record or person.
        free_text: Person who signs for text without listed values, if the policy requires it.
        exact: Exemption to count spellings of a text as different values, for a sensitive attribute or the
            identifier that names the person. By default, spellings that read the same count once.
        top_code, bottom_code: Largest and smallest value. Values beyond it are replaced by it. As bottom,
            `{years_before_release: 90}` is the year 90 years before that of the release.
        prefix: Number of leading characters of a code that are kept. Numbers are first padded with zeros to
            `width`.
        rare: Prefixes that are replaced by zeros, or the name of a list of them.
        meaning: Meaning of the values, for policies that require it.
        shift: Shift of dates, by the same number of days for all dates of a person.
        derive: Derivation of the column from dates. The source has no column of its name.
    """

    role: Literal["identifier", "quasi_identifier", "sensitive", "insensitive"]
    kind: Literal["categorical", "ordinal", "numeric", "date", "timestamp"]
    categories: tuple[Category, ...] | None = Field(default=None, min_length=1)
    bounds: tuple[Bound, Bound] | None = None
    bins: Whole | None = Field(default=None, ge=1)
    scale: Literal["linear", "log", "quantiles"] | None = None
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
        """Whether it has a hierarchy."""
        return self.hierarchy is not None

    @property
    def is_free_text(self) -> bool:
        """Whether it may release text that no schema lists, as in `privacy_engine.tables.schema`."""
        return self.nominal and self.role != "identifier" and not has_public_domain(self)

    @property
    def spanned(self) -> bool:
        """Whether it is generalized to intervals of numbers or dates."""
        named = self.nominal or self.hierarchical or self.categories is not None
        return not named and self.calendar is None

    @model_validator(mode="after")
    def _pseudonym_fits(self) -> Self:
        if self.pseudonym is not None and self.role != "identifier":
            raise ValueError("pseudonym requires a column with the role identifier; correct the role")
        return self


class ScheduleSpec(_Strict):
    """A schedule by upstream assets or by partition. Exactly one of the fields must be set.

    Attributes:
        asset: Name of the release whose publication starts a run.
        assets: Names of several releases, all of which must have been published again.
        partitions: Cron expression. Each of its times is a partition, with a separate release.
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
        """Names of the releases whose assets are awaited. Empty for a schedule by partition."""
        return (self.asset,) if self.asset else self.assets or ()


class MethodSpec(BaseModel):
    """The release method. Fields that are not listed here are parameters of the method.

    Attributes:
        method: Registry key of the method.
        seed: Seed of the random choices. None draws fresh entropy in every run.
        secret: Airflow connection ID whose password is the secret of memoised answers.
        replaces: Fingerprint of the earlier secret that is replaced on purpose, see
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
                "release.secret, the connection of the secret, requires randomness: memoised, and the other "
                "way round; add or remove it"
            )
        if self.replaces is not None and self.secret is None:
            raise ValueError("release.replaces requires a secret; remove it")
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
    """The search for outliers. Fields that are not listed here are parameters of the detector.

    Attributes:
        method: Registry key of the detector.
        action: Action on outliers, see `privacy_release.steps.outliers.Action`.
        max_share: Largest share of outliers among the records. With more, the release fails. Required by
            `fail`.
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
        sql: SELECT over the table `records`, answered by DuckDB without files and network. It keeps the
            column `_record`, which identifies the record of a row.
        attributes: Field `schema`: the resulting columns, without identifiers. None: the columns of the
            source.
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
                f"transform.schema {wrong_ones} must have no identifiers, shift or derive: these belong "
                "to the source; remove them"
            )
        return self


def _window(value: str) -> str:
    if value != "total" and not re.fullmatch(r"[1-9]\d{0,4}d", value):
        raise ValueError("must be a number of days such as 365d, or total; correct it")
    return value


Window = Annotated[str, AfterValidator(_window)]


class ParticipationSpec(_Strict):
    """Limits the number of releases of a period that a person takes part in. Later ones omit their rows.

    Attributes:
        regime: Name of the regime, `participation`.
        releases: Largest number of releases that a person takes part in, in any period.
        period: Length of the period, such as `365d`, or `total`: the schedule's whole life.
        key: Airflow connection ID whose password is the key of the hashes that replace persons. Without
            Airflow, the key is $PRIVACY_MEMBERSHIP_KEY.
    """

    regime: Literal["participation"]
    releases: Whole = Field(ge=1, le=1000)
    period: Window = "365d"
    key: Connection = "membership_default"


class ArrivalsSpec(_Strict):
    """A person takes part in one release, the first with rows of theirs: each release is of new people.

    Attributes:
        regime: Name of the regime, `arrivals`.
        seen: Treatment of rows of a person who took part in an earlier release: `leave_out` omits them,
            `refuse` fails the whole release.
        key: Airflow connection ID of the key, as for participation.
    """

    regime: Literal["arrivals"]
    seen: Literal["leave_out", "refuse"] = "leave_out"
    key: Connection = "membership_default"


class YearlySpec(_Strict):
    """A guarantee for every person in the table, even in every release, kept in equal parts.

    The loss of each release is computed from it, so `release.epsilon` must be omitted.

    Attributes:
        regime: Name of the regime, `yearly`.
        epsilon, delta: Total loss of all releases of a period. With a delta, the parts add up as
            zero-concentrated differential privacy, which gives each of many releases more.
        releases: Largest number of releases in any period. Further ones are refused.
        period: Length of the period, such as `365d`, or `total`: the schedule's whole life.
        opening: Epsilon of the schedule's first release, with the same delta, which is paid once in addition
            to the guarantee. That release chooses the tables. All later releases measure these again and
            smooth over time, instead of choosing again with a small part. Only for `latent_class`. None: each
            release is independent.
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
            "more accurate; use `regime: yearly` with `opening`"
        )
    return given


PromiseSpec = Annotated[
    ParticipationSpec | ArrivalsSpec | YearlySpec,
    Field(discriminator="regime"),
    BeforeValidator(_still_there),
]


# Regimes that must recognise a person in a later release.
_KnowsPeople = ParticipationSpec | ArrivalsSpec


class BudgetSpec(_Strict):
    """The privacy budget that a differentially private release spends.

    Attributes:
        dataset: Name of the data set in the ledger whose budget is spent. Releases about the same people must
            share one.
        promise: Guarantee of all releases of the schedule together, and the regime that keeps it. None: each
            release is paid separately.
        ledger: Airflow connection ID of the budget ledger.
        when_short: Action of a run if the remaining budget is too small: `skip` all tasks, so that the run
            ends as a success without a release, or `fail`.
        curator_report: Whether to compare each release with its source, in a file for the curator, see
            `airflow_privacy_release.operators.curator`. Only with the engine `local`.
    """

    dataset: Name
    promise: PromiseSpec | None = None
    ledger: Connection = "ledger_default"
    when_short: Literal["skip", "fail"] = "fail"
    curator_report: bool = True

    @model_validator(mode="before")
    @classmethod
    def _takes_the_former_name(cls, given: Any) -> Any:
        """Accept the former name of `promise`, which was `over_time`."""
        if not isinstance(given, Mapping) or "over_time" not in given:
            return given
        if "promise" in given:
            raise ValueError("promise and over_time are the same field; remove over_time, its former name")
        text = "budget.over_time is called budget.promise; rename it, because the former name ends with 0.3"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return {"promise" if name == "over_time" else name: value for name, value in given.items()}

    @property
    def schedule(self) -> dict[str, Any] | None:
        """The fields of the schedule except for its name, see `spending.schedules.schedule_named`."""
        match self.promise:
            case YearlySpec():
                return self.promise.model_dump(exclude={"regime"}, exclude_none=True)
            case ParticipationSpec(releases=releases, period=period):
                return {"releases": releases, "period": period}
            case ArrivalsSpec(seen=seen):
                return {"releases": 1, "period": "total", "refuse_seen": seen == "refuse"}
        return None


class _PromiseArgument(_Strict):
    """The argument of operators that is the field `budget.promise` of a specification."""

    promise: PromiseSpec


def schedule_of(promise: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a schedule that is given outside of a specification.

    Raises:
        SpecError: Naming each wrong field and the remedy.
    """
    try:
        given = _PromiseArgument.model_validate({"promise": promise})
    except ValidationError as error:
        raise wrong("budget", "; ".join(problems_of(error, _PromiseArgument))) from None
    return BudgetSpec(dataset="any", promise=given.promise).schedule or {}


class ApprovalSpec(_Strict):
    """The approval of a verified release before it is published.

    Attributes:
        required: Whether every release must be approved. Otherwise an approval is only required if the run
            sets the DAG's parameter `approval`. A run cannot switch off what the file requires.
        assigned_to: IDs of the Airflow users who may answer. None: all users with permission on this DAG.
        timeout: Longest wait for an answer. After it, the release counts as rejected.
        approvers: Number of different users who must approve, 1 or 2.
    """

    required: bool = True
    assigned_to: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(default=None, min_length=1)
    timeout: Duration = "2 days"
    approvers: Literal[1, 2] = 1


class HistorySpec(_Strict):
    """How people are recognised in later releases, and what is guaranteed to a person over all releases.

    Attributes:
        identifier: Column that identifies a person, with one record each. Only a keyed hash of it is kept.
        key: Airflow connection ID whose password is the key. Without Airflow, the key is
            $PRIVACY_MEMBERSHIP_KEY.
        keep: Whether a release is made so that it stays safe together with the earlier ones of its table, see
            `privacy_release.steps.memberships.past.Past`. Otherwise only the verification considers them.
        k, m, departures: Guarantee over all releases: smallest number of persons, smallest number of distinct
            values of each sensitive attribute, and whether it is known who left. None: as the policy
            requires, which judges the release in any case.
        reserve: Size of a class that is released for the first time, in multiples of k, to allow for
            departures. None: 1.
        counterfeits: Largest share of the records that may be added as counterfeits, with `m`, so that
            classes keep their sets of values. None: no counterfeits, and persons who would need one are
            withheld. If the policy requires `unique` classes, any number may be added.
        hold_back: Largest number of releases that a person waits for similar persons, if the policy names an
            attacker who subtracts. None: 0, and persons who fit no class are withheld.
        accept_unjudged: Reason why a release may be published although earlier releases of its table were
            made before differences between releases could be judged. The manifest and the report state it.
            None: such a release is refused if the policy names `republication`.
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
        """The given fields on how releases are made with the earlier ones."""
        return self.model_dump(include=set(_KEPT), exclude_none=True)

    @model_validator(mode="after")
    def _kept_fits(self) -> Self:
        if not self.keep and self.kept:
            raise ValueError(
                f"history.{', '.join(self.kept)} cannot be combined with keep: false, which only verifies "
                "against the earlier releases; remove one of both"
            )
        return self


def kept_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields on how releases are made with the earlier ones, given outside of a specification.

    Raises:
        SpecError: Naming each wrong field and the remedy.
    """
    if unknown := sorted(set(fields) - set(_KEPT)):
        raise wrong("history", f"must have only policy, {', '.join(_KEPT)}, got {unknown}; remove it")
    try:
        return HistorySpec.model_validate({"identifier": "person", **fields}).kept
    except ValidationError as error:
        raise wrong("history", "; ".join(problems_of(error, HistorySpec))) from None


class PersonSpec(_Strict):
    """The person of a row: a column, or a reason why each row is of another person.

    Attributes:
        column: Identifier that names the person of a row. A person may have several rows.
        none: Reason why each row is of another person although an identifier repeats. It goes into the
            manifest.
        rows: `linked` releases a random pseudonym in the column, so that classes consist of all rows of a
            person together.
    """

    column: str | None = Field(default=None, min_length=1)
    none: str | None = Field(default=None, min_length=1)
    rows: Literal["independent", "linked"] = "independent"

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.column is None) == (self.none is None):
            raise ValueError("person must have a column, or the reason why there is none; set one of both")
        if self.rows == "linked" and self.column is None:
            raise ValueError("person.rows can only be linked if person.column names the person of each row")
        return self


def _person_of_column(value: object) -> object:
    if value == "none":
        raise ValueError("person: none needs a reason; write `person: {none: <reason>}`")
    return {"column": value} if isinstance(value, str) else value


class PublishSpec(_Strict):
    """The destination of the release: an Airflow connection ID and the name of a release table.

    Attributes:
        lake: Airflow connection ID of the lake.
        table: Name of the release table. Each specification needs its own.
        mode: Releases that the table keeps: `snapshot` only the newest; `partitions` one per partition key,
            for sources whose partitions have different records; `append` all, if `history` records who was
            in the earlier ones. Default: `partitions` for a schedule by partition, otherwise `snapshot`.
        superseded: Treatment of a release when a newer one replaces it: `drop` erases its rows, `history`
            moves them to the table `<table>_history` of `history_lake`. Its proof stays in the log.
        history_lake: Airflow connection ID of that lake. Give access only to readers of old releases.
        grace: How long the files of a superseded release are kept for queries that are still running, for
            example `1 hour`.
        evidence: Whether a signed evidence pack of each published release is written to the curator's folder.
            The release must be signed.
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
                "superseded: history requires history_lake, and the other way round; add or remove one"
            )
        if self.history_lake == self.lake:
            raise ValueError(
                "history_lake must be another lake, because readers of a lake see all its tables; name one"
            )
        return self


def _check_read(source: SourceSpec, attributes: Mapping[str, AttributeSpec]) -> None:
    """Refuse columns that are read without a role, and columns with a role that are not read."""
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
    """Return attributes as plain values for `load_schema`."""
    fields = {name: a.model_dump(mode="json", exclude_none=True) for name, a in attributes.items()}
    if source.nulls == "keep":  # as in `DataSchema.keeping_nulls`: another null can make a loss larger
        for name, attribute in attributes.items():
            fields[name]["nullable"] |= attribute.role != "identifier"
    return fields


def _context_folder(value: str, info: ValidationInfo) -> str:
    return str(Path(_existing_file(f"{value}/great_expectations.yml", info)).parent)


class CheckpointSpec(_Strict):
    """A named Checkpoint of Great Expectations, whose suites are run with its actions.

    What it stores, draws and sends states which expectations were met, and nothing else about the records,
    whatever its result format.

    Attributes:
        context: Folder of a file context, with its `great_expectations.yml`.
        checkpoint: Name of the checkpoint in the context.
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
    """Return a suite's file, or the name of a checkpoint, as plain values for `load_suite`."""
    return given.model_dump() if isinstance(given, CheckpointSpec) else given


class TableSpec(_Strict):
    """One of several tables that share a person.

    Attributes:
        attributes: Field `schema`, as for a release of one table. It includes the person.
        person: Column that names the person, if its name differs from that of the release.
        carry: Quasi-identifiers of another table with one row per person, whose released values are added to
            the rows of this one.
        expectations: File of its suite, or a checkpoint.
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
        """The settings for reading the table, as plain values for `IngestTablesOperator`."""
        source = self.source.model_dump(exclude_none=True, exclude={"columns", "when_missing", "format"})
        columns = {} if self.source.columns is None else {"columns": list(self.source.columns)}
        schema = _fields_of(self.attributes, self.source)
        person = {} if self.person is None else {"person": self.person}
        return {**source, **columns, "schema": schema, **person, "carry": list(self.carry)}

    @property
    def suite_given(self) -> str | dict[str, Any] | None:
        """The suite for `ValidateOperator`."""
        return _suite_of(self.expectations)

    def suite(self) -> dict[str, Any] | None:
        """The Great Expectations suite, or the name of a checkpoint. None if the table has neither."""
        return None if self.suite_given is None else load_suite(self.suite_given)


class AlertSpec(_Strict):
    """The limits of a figure that cause a warning. At least one of the fields must be set.

    Attributes:
        above, below: Limits of the figure.
        rises_by, falls_by: Limits of its deviation from the median of the last releases, as a share of the
            median: 0.2 is a fifth.
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
    """The same for a figure from 0 to 1, whose limits are also from 0 to 1."""

    above: Number | None = Field(default=None, ge=0, lt=1)
    below: Number | None = Field(default=None, gt=0, le=1)


class BudgetAlertSpec(_Strict):
    """The limit of the remaining privacy budget that causes a warning.

    Attributes:
        left_below: Remaining share of a limit below which a warning is given.
    """

    left_below: Number = Field(gt=0, le=1)


class AlertsSpec(_Strict):
    """The figures of a release that cause a warning if they exceed their limits or deviate from their trend.

    An alert never stops a release: requirements are in the policy. The figures have the names of the
    manifest. They are public, so for a release that spends a budget none is about the source.

    Attributes:
        last: Number of earlier releases, not retracted, of which the median is computed.
        rows: Number of released records.
        k, l, t: Measured values, as far as the policy requires the models.
        epsilon: Epsilon that the release spends.
        gcp_lca, gcp_own, non_uniform_entropy, query_error, average_class_size, discernibility: Information
            loss by each measure.
        suppressed_records, suppressed_cells: Share of records or cells without their original value.
        prosecutor_max, prosecutor_mean, journalist_max, journalist_mean, marketer, share_at_risk: Risk of
            linking.
        hasr, values_left, persons_below_l: Risk of learning a sensitive value.
        budget: Remaining privacy budget.
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
        """The limits of each figure that has any."""
        return {name: given for name, given in self if isinstance(given, AlertSpec)}


def read_alerts(fields: Mapping[str, Any]) -> AlertsSpec:
    """Return limits that are given outside of a specification.

    Raises:
        SpecError: Naming each wrong field and the remedy.
    """
    try:
        return AlertsSpec.model_validate(dict(fields))
    except ValidationError as error:
        raise wrong("alerts", "; ".join(problems_of(error, AlertsSpec))) from None


def _schedule_form(value: object) -> str:
    return "event" if isinstance(value, Mapping | ScheduleSpec) else "cron"


class RegisterSpec(_Strict):
    """Public records of the whole population, which attackers may use.

    The attack `linkage` tries to name people with them. The attacker `population` of the policy model
    `republication` knows them for each release.

    Attributes:
        uri: Parquet file, folder or glob, like the `uri` of a source.
        connection: Airflow connection ID of the object store.
        columns: Quasi-identifiers in the register, with the names and forms of the schema.
        identifier: Column that identifies a person, the same as `history.identifier`, for the attacker
            `population`. None: the register is only for `linkage`. Only a keyed hash of it is kept.
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


class LearnSpec(_Strict):
    """Naive Bayes (PPNB) that is trained on each published release, from its bytes and manifest only.

    The lake stores the model and a report in `_models/<name>/<release>`. Training costs no privacy.

    Attributes:
        target: Class to predict, a column of the release with listed values.
        features: Columns to learn from. None: all others that are released.
        alpha: Number of records added to each listed value of each class.
        var_smoothing: Smallest variance of a number within a class, as a share of the attribute's variance.
        shrinkage: Whether variances that are mostly noise are pulled towards that of all classes. False is
            the estimator of the paper.
    """

    target: str = Field(min_length=1)
    features: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    alpha: Number = Field(default=1.0, ge=0)
    var_smoothing: Number = Field(default=1e-9, ge=0)
    shrinkage: bool = True


class ReleaseSpec(_Strict):
    """One release; see the files in `include/releases`.

    Attributes:
        name: Name of the DAG. The file must have the same name.
        description: One line for the list of DAGs.
        tags: Tags by which the list of DAGs can be filtered.
        schedule: Cron expression, preset such as `@weekly`, or mapping. None: runs are triggered.
        attributes: Field `schema` of the file: role and kind of each column, by its name.
        tables: Several tables that share the person, instead of source, schema and expectations.
        expectations: File of a Great Expectations suite, or a checkpoint of a context.
        policy: File of the policy.
        person: Person of each row. The guarantee is then about persons.
        engine: Engine for the table. With engines other than `local`, no step holds the table in memory.
        transform: Step of your own, after the expectations are met.
        public_register: Public records that attackers may use, for `attack_risk` of linkage or the
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
    learn: LearnSpec | None = None
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
        """Compute what a release under a guarantee for a standing population spends."""
        promise = None if self.budget is None else self.budget.promise
        if not isinstance(promise, YearlySpec):
            return self
        if self.release.random_answers:
            raise ValueError(
                f"budget.promise yearly cannot be combined with {self.release.method}: memoised answers "
                "repeat, and are not paid for in parts; use a synthesizer, or remove promise"
            )
        if promise.opening is not None and not can_be_followed(self.release.method):
            raise ValueError(
                f"budget.promise.opening cannot be combined with {self.release.method}, which chooses no "
                "tables that later releases could measure again; use latent_class, or remove it"
            )
        try:
            part = part_of_promise(
                self.release.method,
                epsilon=promise.epsilon,
                delta=promise.delta,
                releases=promise.releases,
            )
        except ValueError as error:
            raise ValueError(f"budget.promise: {error}; raise epsilon or lower releases") from None
        given = {name: self.release.parameters[name] for name in part if name in self.release.parameters}
        if any(value != part[name] for name, value in given.items()):
            raise ValueError(
                f"release.{', '.join(given)} must be omitted with budget.promise yearly: each of "
                f"{promise.releases} releases spends {part}, an equal part of the promise; remove it"
            )
        # The model is frozen for others; from here on it states what is spent.
        object.__setattr__(self, "release", self.release.model_copy(update=part))
        return self

    @model_validator(mode="after")
    def _learns_from_answers(self) -> Self:
        """Refuse a model of a release that is not randomized, or of columns that are not released."""
        if self.learn is None:
            return self
        if not self.release.random_answers:
            raise ValueError(
                f"learn requires a release of random answers, and {self.release.method} makes none; use "
                "errph, local_laplace or trr, or remove learn"
            )
        released = {name: a for name, a in self.every_attribute if a.role != "identifier"}
        named = (self.learn.target, *(self.learn.features or ()))
        if strangers := [name for name in named if name not in released]:
            raise ValueError(f"learn: [{unknown(strangers, released)}] must be released columns; correct it")
        if len(set(named)) < len(named):
            raise ValueError("learn: target and features must be distinct; remove what repeats")
        if released[self.learn.target].kind not in ("categorical", "ordinal"):
            raise ValueError(
                f"learn.target must be a column with listed values, {self.learn.target} is a "
                f"{released[self.learn.target].kind} one; name another"
            )
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
    def reads_records(self) -> bool:
        """Whether the release is made of records of its sources. They need not exist otherwise."""
        return reads_records(self.release.method)

    @property
    def invented(self) -> dict[str, Any]:
        """The settings for a table without records, in the form of the source or of several tables."""
        person = self.person.column if self.person is not None else None
        return {
            "schema": self.schema_fields if self.tables is None else None,
            "tables": self.table_settings,
            "person": person or "",
            "types": dict(self.release.parameters.get("types") or {}),
        }

    @property
    def linked(self) -> bool:
        """Whether the release links the rows of a person by a pseudonym."""
        return self.tables is not None or (self.person is not None and self.person.rows == "linked")

    @property
    def every_attribute(self) -> tuple[tuple[str, AttributeSpec], ...]:
        """Name and description of each column of the method's input, of all tables."""
        if self.tables is None:
            made = self.transform.attributes if self.transform is not None else None
            named = {n: a for n, a in self.attributes.items() if made is None or a.role == "identifier"}
            return tuple((named | (made or {})).items())
        return tuple(pair for table in self.tables.values() for pair in table.attributes.items())

    @property
    def table_settings(self) -> dict[str, dict[str, Any]]:
        """Settings for reading each of several tables, see `TableSpec.settings`. Empty for one table."""
        return {name: table.settings for name, table in (self.tables or {}).items()}

    @property
    def scaled(self) -> bool:
        """Whether no step may hold the whole table in memory."""
        return self.engine.kind != LOCAL

    @property
    def mapped(self) -> bool:
        """Whether each fragment of the table is anonymized by a separate task."""
        fragments = self.engine.kind == FRAGMENTS and self.engine.mapped
        return fragments and is_anonymizer(self.release.method)

    @property
    def individual(self) -> str | None:
        """The identifier by which answers are memoised. None if they are not memoised, or there is none."""
        names = [name for name, a in self.attributes.items() if a.role == "identifier"]
        if not self.release.memoised:
            return None
        named = self.release.parameters.get("individual", names[0] if len(names) == 1 else None)
        return named if named in names else None

    @property
    def numbered(self) -> str | None:
        """The person's column, if a person has the same number in every run. Otherwise None."""
        bounded = self.budget is not None and isinstance(self.budget.promise, _KnowsPeople)
        return self.person.column if bounded and self.person is not None else None

    @property
    def numbering_key(self) -> str | None:
        """The connection whose password is the key of person numbers. None if there is none."""
        promise = None if self.budget is None else self.budget.promise
        return promise.key if isinstance(promise, _KnowsPeople) else None

    @property
    def publish_mode(self) -> PublishMode:
        """Releases that the table keeps."""
        by_partition = isinstance(self.schedule, ScheduleSpec) and self.schedule.partitions is not None
        return self.publish.mode or (PublishMode.PARTITIONS if by_partition else PublishMode.SNAPSHOT)

    @property
    def upstream(self) -> tuple[str, ...]:
        """The assets that the schedule waits for."""
        return self.schedule.upstream if isinstance(self.schedule, ScheduleSpec) else ()

    @property
    def unfollowed(self) -> tuple[str, ...]:
        """Columns that name people who are not recognised in later releases.

        Empty with a budget or random answers, because their losses add up in the ledger, and for invented
        records.
        """
        adds_up = self.budget is not None or self.release.random_answers
        if self.history is not None or adds_up or not self.reads_records:
            return ()
        return tuple(dict.fromkeys(name for name, a in self.every_attribute if a.role == "identifier"))

    @property
    def reports_to_curator(self) -> bool:
        """Whether a report compares the release with its source. Only for records drawn from a model."""
        if self.budget is None or self.release.random_answers:
            return False
        explicit = "curator_report" in self.budget.model_fields_set  # it needs both tables in memory
        return self.budget.curator_report and (explicit or not self.scaled)

    @property
    def schema_fields(self) -> dict[str, dict[str, Any]]:
        """The schema as plain values for `load_schema`."""
        return self._with_person(_fields_of(self.attributes, self.only_source))

    @property
    def register_identifier(self) -> str | None:
        """The column that identifies the persons of the public register. None if there is none."""
        return None if self.public_register is None else self.public_register.identifier

    @property
    def register_fields(self) -> dict[str, dict[str, Any]]:
        """The schema of the public register and of its identifier. Empty without a register."""
        names = self.public_register.columns if self.public_register is not None else ()
        if self.register_identifier in self.attributes:  # otherwise a rule reports it
            names = (*names, self.register_identifier)
        return _fields_of({name: self.attributes[name] for name in names}, self.only_source)

    @property
    def transformed_fields(self) -> dict[str, dict[str, Any]] | None:
        """The schema of the result of `transform`, without identifiers. None: as the source."""
        own = self.transform.attributes if self.transform is not None else None
        return None if own is None else _fields_of(own, self.only_source)

    @property
    def method_fields(self) -> dict[str, dict[str, Any]]:
        """The schema of the method's input: the source, or the result of `transform`."""
        made = self.transformed_fields
        if made is None:
            return self.schema_fields
        named = {name: a for name, a in self.attributes.items() if a.role == "identifier"}
        return self._with_person(_fields_of(named, self.only_source) | made)

    def _with_person(self, fields: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if self.person is not None:  # a column of that name keeps its own fields, too
            fields["person"] = fields.get("person", {}) | self.person.model_dump(exclude_defaults=True)
        return fields

    @property
    def undeclared_types(self) -> Literal["values", "schema"]:
        """The origin of column types that a database does not declare, see `Query`."""
        return "schema" if self.budget is not None else "values"

    def facts(self) -> Facts:
        """Return the facts for rules. Nothing heavy is imported."""
        promise, history = None if self.budget is None else self.budget.promise, self.history
        method, shown = shown_method(self.release.method, self.release.parameters)
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
            kind=kind_of(self.release.method),
            method=method,
            parameters=shown,
            stated=tuple(self.release.parameters),
            budget=self.budget is not None,
            promise=Promised.of(promise),
            history=None
            if history is None
            else HistoryFacts(
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
        """Return the schema for the engine, with its hierarchies.

        Raises:
            SpecError: If the engine finds that its parts contradict each other.
        """
        if self.tables is None or self.person is None:
            return load_schema(self.schema_fields)
        return load_tables(self.table_settings, self.person.column or "")

    def method_schema(self) -> "DataSchema":
        """Return the schema of the method's input, see `method_fields`.

        Raises:
            SpecError: As `data_schema`.
        """
        return self.data_schema() if self.tables is not None else load_schema(self.method_fields)

    def release_policy(self) -> "ReleasePolicy":
        """Return the policy for the engine.

        Raises:
            SpecError: Naming the file and the field.
        """
        return load_policy(self.policy)

    @property
    def suite_given(self) -> str | dict[str, Any] | None:
        """The suite for `ValidateOperator`."""
        return _suite_of(self.expectations)

    def expectation_suite(self) -> dict[str, Any] | None:
        """Return the Great Expectations suite, or the name of a checkpoint. None if there is neither."""
        return None if self.suite_given is None else load_suite(self.suite_given)


def _home_of(path: Path) -> Path:
    folder = path.parent
    if folder.name == PAPERS and folder.parent.name == "releases":
        folder = folder.parent
    return folder.parent if folder.name == "releases" else folder


def load_spec(path: str | Path, *, judge: bool = True) -> ReleaseSpec:
    """Read a specification. Other files are searched in the folder that contains `releases/`.

    A file in `releases/papers/` belongs to that folder, too.

    Args:
        path: Path of the file.
        judge: Whether to raise for rules that the file breaks by itself. Otherwise the caller judges them,
            together with those that need other files.

    Raises:
        SpecError: Naming the file, each wrong field and the remedy.
    """
    path = Path(path).absolute()
    home = _home_of(path)
    fields = read_mapping(path)
    try:
        spec = ReleaseSpec.model_validate(fields, context={"home": home})
    except ValidationError as error:
        raise at_lines(path, found_in(error, ReleaseSpec)) from None
    if judge and (found := judged(spec.facts()).problems):
        raise at_lines(path, found)
    if spec.name != path.stem:
        text = f"name must be {path.stem!r} like the file, so that names are unique; rename one"
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
    """Return a source whose address does not depend on a folder."""
    if source.uri is None:
        return source
    return source.model_copy(update={"uri": _address_from(source.uri, home)})


def _address_from(uri: str, home: Path) -> str:
    """Return an address that does not depend on a folder."""
    return uri if re.match(r"[A-Za-z][\w+.-]*://|/", uri) else str(home / uri)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a specification, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **in_keywords(ReleaseSpec.model_json_schema(by_alias=True)),
    }
