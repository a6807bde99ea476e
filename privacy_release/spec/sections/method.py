"""The section `release` of a release file: the method and its parameters."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from privacy_engine.registry import is_randomizer, method_names
from privacy_release.spec.fields import Connection, Whole
from privacy_release.spec.sections.section import check_plain, one_of


def _known_method(value: str) -> str:
    return one_of(method_names(), value)


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
        check_plain(self.parameters)
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
