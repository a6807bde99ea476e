"""The section `history` of a release file: how people are recognised in later releases."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from privacy_release.config.problems import problems_of, wrong
from privacy_release.spec.fields import Connection, Number, Whole
from privacy_release.spec.sections.section import Section

_KEPT = ("k", "m", "departures", "reserve", "counterfeits", "hold_back")  # fields of a kept history


class HistorySpec(Section):
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
