"""The sections `transform` and `outliers` of a release file: what precedes the method."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from privacy_engine.registry import detector_names
from privacy_release.spec.fields import Number
from privacy_release.spec.outliers import Action, check_action
from privacy_release.spec.sections.attributes import AttributeSpec
from privacy_release.spec.sections.section import Section, check_plain, one_of


class TransformSpec(Section):
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


def _known_detector(value: str) -> str:
    return one_of(detector_names(), value)


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
        check_plain(self.parameters)
        return self

    @model_validator(mode="after")
    def _action_fits(self) -> Self:
        check_action(self.action, self.max_share)
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """The detector's parameters, as plain values."""
        return dict(self.model_extra or {})
