"""The section `budget` of a release file: what pays for a release, and the promise of a schedule."""

import re
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from privacy_release.config.problems import problems_of, wrong
from privacy_release.spec.fields import Connection, Number, Whole
from privacy_release.spec.sections.section import Name, Section


def _window(value: str) -> str:
    if value != "total" and not re.fullmatch(r"[1-9]\d{0,4}d", value):
        raise ValueError("must be a number of days such as 365d, or total; correct it")
    return value


Window = Annotated[str, AfterValidator(_window)]


class ParticipationSpec(Section):
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


class ArrivalsSpec(Section):
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


class YearlySpec(Section):
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
KnowsPeople = ParticipationSpec | ArrivalsSpec


class BudgetSpec(Section):
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


class _PromiseArgument(Section):
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
